/* A reproducible device: the same bits for any number of threads, wherever the arrays stand. Shapes are so
 * large that work is cut, and odd. */
#include "kernel_test.h"

enum { ROWS = 61, WIDTH = 323, OUTPUTS = 259, FLAT = 300017, RESULTS_MAX = 3, RUNS = 5 };

typedef struct {
  const char *op;
  ls_shape_t in[5], out[RESULTS_MAX];
  int in_count, out_count;
} case_t;

#define F(...) LS_SHAPE(LS_F32, __VA_ARGS__)
static void make_cases(case_t cases[], int *count) {
  const case_t list[] = {
      {"linear", {F(ROWS, WIDTH), F(OUTPUTS, WIDTH), F(OUTPUTS)}, {F(ROWS, OUTPUTS)}, 3, 1},
      {"linear", {F(5 * ROWS, WIDTH), F(OUTPUTS, WIDTH), F(OUTPUTS)}, {F(5 * ROWS, OUTPUTS)}, 3, 1},
      {"linear", {F(3 * ROWS, WIDTH), F(OUTPUTS, WIDTH), F(OUTPUTS)}, {F(3 * ROWS, OUTPUTS)}, 3, 1},
      {"linear_dx", {F(ROWS, OUTPUTS), F(OUTPUTS, WIDTH)}, {F(ROWS, WIDTH)}, 2, 1},
      {"linear_dx", {F(5 * ROWS, OUTPUTS), F(OUTPUTS, WIDTH)}, {F(5 * ROWS, WIDTH)}, 2, 1},
      {"linear_dwb", {F(7, OUTPUTS), F(7, WIDTH)}, {F(OUTPUTS, WIDTH), F(OUTPUTS)}, 2, 2},
      {"linear_dwb", {F(5 * ROWS, OUTPUTS), F(5 * ROWS, WIDTH)}, {F(OUTPUTS, WIDTH), F(OUTPUTS)}, 2, 2},
      {"gelu", {F(FLAT)}, {F(FLAT)}, 1, 1},
      {"tanh", {F(FLAT)}, {F(FLAT)}, 1, 1},
      {"tree_sum", {F(5, FLAT / 3)}, {F(FLAT / 3)}, 1, 1},
      {"mse", {F(ROWS, WIDTH), F(ROWS, WIDTH), F(ROWS)}, {F(1), F(1)}, 3, 2},
      {"sumsq", {F(FLAT)}, {F(1)}, 1, 1},
  };
  memcpy(cases, list, sizeof list);
  *count = LS_COUNT(list);
}
enum { CASES_MAX = 16 };

/* One run of the case in memory of its own; `shift` floats off. Results one after another in `all`. */
static void run_case(const case_t *c, int threads, int shift, float *all) {
  bed_t bed = {.ctx = ls_ctx_create(NULL, NULL)};
  ls_device_options_t options = {.threads = threads, .reproducible = true};
  static const ls_attrs_t attrs;
  ls_tensor_t in[5], out[RESULTS_MAX];
  float *memory[8];
  int used = 0;
  assert_int_equal(ls_backend_cpu.device->open(bed.ctx, &options, &bed.device), LS_OK);
  assert_int_equal(ls_backend_cpu.stream->create(bed.device, LS_STREAM_INLINE, &bed.stream), LS_OK);
  for (int i = 0; i < c->in_count; i++) {
    int64_t count = ls_shape_count(&c->in[i]);
    float *values = random_floats(count, 10 + (uint64_t)i, -1, 1), *place = guarded(count + shift);
    memcpy(place + shift, values, (size_t)count * sizeof(float));
    guarded_free(values);
    in[i] = (ls_tensor_t){place + shift, c->in[i]};
    memory[used++] = place;
  }
  for (int i = 0; i < c->out_count; i++) {
    memory[used] = guarded(ls_shape_count(&c->out[i]) + shift);
    out[i] = (ls_tensor_t){memory[used++] + shift, c->out[i]};
  }
  bed_run(&bed, c->op,
          &(ls_kernel_args_t){
              .attrs = &attrs, .in = in, .in_count = c->in_count, .out = out, .out_count = c->out_count});
  for (int i = 0; i < c->out_count; i++) {
    size_t count = (size_t)ls_shape_count(&c->out[i]);
    memcpy(all, out[i].data, count * sizeof(float));
    all += count;
  }
  while (used > 0)
    guarded_free(memory[--used]);
  bed_close(&bed);
}

static void test_threads_do_not_change_bits(void **state) {
  case_t cases[CASES_MAX];
  int count;
  make_cases(cases, &count);
  for (int k = 0; k < count; k++) {
    const case_t *c = &cases[k];
    size_t total = 0;
    for (int i = 0; i < c->out_count; i++)
      total += (size_t)ls_shape_count(&c->out[i]);
    float *want = calloc(total, sizeof(float)), *got = calloc(total, sizeof(float));
    run_case(c, 1, 0, want);
    for (size_t i = 0; i < total; i++)
      assert_true(isfinite(want[i]));
    for (int run = 1; run < RUNS; run++) {
      memset(got, 0xff, total * sizeof(float));
      run_case(c, 1 + run % 4, run % 3 * 5, got);
      for (size_t i = 0; i < total; i++)
        if (memcmp(&got[i], &want[i], sizeof(float)))
          fail_msg("%s, case %d, %d threads: element %zu is %.9g, with one thread %.9g", c->op, k,
                   1 + run % 4, i, (double)got[i], (double)want[i]);
    }
    free(got);
    free(want);
  }
}

TESTS(NULL, NULL, test_threads_do_not_change_bits)
