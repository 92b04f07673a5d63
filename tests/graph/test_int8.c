/* Products of 8-bit integers of the cpu backend, of every instruction set of this processor: to the bit those of the op rows.
 * Kept weights are those of the device's epoch. */
#include "device/int8.h"
#include "device/kernel_test.h"
#include "graph/cases.h"
#include "graph/ops/ops.h"

static int kinds(const ls_simd_int8_t *list[LS_SIMD_MAX + 1]) {
  const ls_simd_t *simd[LS_SIMD_MAX];
  int count = 0;
  ls_simd_list(simd);
  while (simd[count]) {
    list[count] = simd[count]->int8;
    count++;
  }
  list[count] = ls_simd_pick_int8();
  return count + 1;
}

typedef struct {
  ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  ls_tensor_t tensor[LS_NODE_IN_MAX], y;
  ls_kernel_args_t args;
  float *want;
  int64_t count;
} trial_t;

/* With what the op row gives. */
static trial_t trial_make(bed_t *bed, const ls_op_t *op, const op_case_t *c) {
  trial_t t = {.count = 0};
  assert_int_equal(case_shapes(bed->ctx, op, c, t.in, t.out), LS_OK);
  for (int i = 0; i < op->in_count; i++) {
    t.tensor[i] = (ls_tensor_t){malloc(ls_shape_bytes(&t.in[i])), t.in[i]};
    assert_non_null(t.tensor[i].data);
    case_fill_input(op, c, i, t.tensor[i].data);
  }
  t.count = ls_shape_count(&t.out[0]);
  t.want = malloc((size_t)t.count * sizeof(float));
  assert_non_null(t.want);
  t.args = (ls_kernel_args_t){.attrs = &c->attrs, .in_count = op->in_count, .out_count = 1};
  return t;
}

static void trial_want(trial_t *t, const ls_op_t *op) {
  ls_kernel_args_t args = t->args;
  args.in = t->tensor;
  args.out = &(ls_tensor_t){t->want, t->out[0]};
  args.scratch = malloc(args.scratch_bytes = op->scratch_bytes(args.attrs, t->in, t->out));
  assert_non_null(args.scratch);
  assert_int_equal(op->forward(NULL, &args), LS_OK);
  free(args.scratch);
}

/* Whether the kernel gives what is wanted. */
static bool trial_run(bed_t *bed, const trial_t *t, const ls_op_t *op, uint32_t stable) {
  float *y = guarded(t->count);
  ls_kernel_args_t args = t->args;
  args.in = t->tensor;
  args.out = &(ls_tensor_t){y, t->out[0]};
  args.stable = stable;
  bed_run(bed, op->name, &args);
  guarded_check(y, t->count);
  const bool same = memcmp(y, t->want, (size_t)t->count * sizeof *y) == 0;
  guarded_free(y);
  return same;
}

static void trial_free(trial_t *t) {
  for (int i = 0; i < t->args.in_count; i++)
    free(t->tensor[i].data);
  free(t->want);
}

static const ls_op_t *const ops[] = {&ls_op_linear_int8, &ls_op_conv2d_int8, &ls_op_conv2d_int8_norm};

static void every_kind_gives_the_rows_bits(void **state) {
  const ls_simd_int8_t *list[LS_SIMD_MAX + 1];
  const int count = kinds(list);
  for (int k = 0; k < 3 * count; k++) {
    bed_t bed = bed_open(k % 3 + 1);
    ((ls_cpu_device_t *)bed.device)->int8 = list[k / 3];
    for (int o = 0; o < LS_COUNT(ops); o++)
      for (int c = 0; c < cases_of(ops[o])->count; c++) {
        trial_t t = trial_make(&bed, ops[o], &cases_of(ops[o])->cases[c]);
        trial_want(&t, ops[o]);
        if (!trial_run(&bed, &t, ops[o], 0))
          fail_msg("%s '%s': values of %d bytes, %d lanes, %d threads", ops[o]->name,
                   cases_of(ops[o])->cases[c].name, list[k / 3]->value_bytes, list[k / 3]->lanes, k % 3 + 1);
        trial_free(&t);
      }
    bed_close(&bed);
  }
}

static void weights_are_kept_for_an_epoch(void **state) {
  const uint32_t weights = 1 << 1;
  bed_t bed = bed_open(2);
  for (int o = 0; o < LS_COUNT(ops); o++) {
    trial_t t = trial_make(&bed, ops[o], &cases_of(ops[o])->cases[1]);
    float *w = t.tensor[1].data;
    bed.device->epoch++; /* other weights may have been there */
    trial_want(&t, ops[o]);
    assert_true(trial_run(&bed, &t, ops[o], weights));
    w[0] = 3;
    assert_true(trial_run(&bed, &t, ops[o], weights)); /* as they were */
    trial_want(&t, ops[o]);
    assert_true(trial_run(&bed, &t, ops[o], 0));
    assert_false(trial_run(&bed, &t, ops[o], weights));
    bed.device->epoch++;
    assert_true(trial_run(&bed, &t, ops[o], weights));
    *(float *)t.tensor[2].data += 1; /* a bias is no weight */
    trial_want(&t, ops[o]);
    assert_true(trial_run(&bed, &t, ops[o], weights));
    trial_free(&t);
  }
  bed_close(&bed);
}

/* 127 / 1e-38 is infinite, and infinity and NaN were made integers, which is undefined. */
static void weights_that_have_no_scale_make_small_integers(void **state) {
  const float rows[][3] = {{1e-38f, -1e-38f, 0}, {1e-45f, 0, 0}, {NAN, 1, -1}, {INFINITY, 1, 0}, {0, 0, 0}};
  for (int r = 0; r < LS_COUNT(rows); r++) {
    int8_t q[3];
    int32_t sum;
    const bool finite = isfinite(rows[r][0]);
    const float scale = ls_int8_row(rows[r], 3, q, &sum);
    assert_int_equal(isfinite(scale), finite);
    assert_int_equal(sum, q[0] + q[1] + q[2]);
    for (int i = 0; i < 3; i++)
      assert_in_range(q[i] + 127, finite ? 127 : 0, finite ? 127 : 254);
  }
}

TESTS(NULL, NULL, every_kind_gives_the_rows_bits, weights_are_kept_for_an_epoch,
      weights_that_have_no_scale_make_small_integers)
