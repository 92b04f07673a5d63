/* test_ops_compare BACKEND [THREADS [PRECISION]]: every case of every op, the backend's own version against
 * the plain C of the op row. Outputs are poisoned with NaN and everything is fenced, so that an element left
 * out or a byte beyond the end shows. Also runs each op in place where its row allows that, and twice, for
 * the same bits. Matrix products run on whole numbers too, where every order of adding and every precision
 * gives the same bits. */
#include "device/device.h"
#include "graph/cases.h"
#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE_BYTES = 256, FENCE = 0xA5, POISON = 0xFF, SKIP = 77 };
enum { APART = -1 }; /* no input shared; else output 0 shares that input */
/* Both factors of a product may lose what is below 10 bits of mantissa: (1 + 2^-10)^2 - 1, of the product of
 * the magnitudes. */
static const double tf32_loss = 0x1p-9 + 0x1p-20;

typedef struct {
  ls_ctx_t *ctx;
  const ls_backend_t *backend;
  ls_device_t *device;
  ls_stream_t *stream;
  int failures;
} rig_t;

/* One tensor on both sides: a host image (fence, data, fence) and as many bytes on the device. */
typedef struct {
  size_t size_bytes;
  unsigned char *host, *device;
} fenced_t;

typedef struct {
  const ls_op_t *op;
  const ls_op_case_t *c;
  ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
  void *in[LS_NODE_IN_MAX];    /* data of the case */
  void *want[LS_NODE_OUT_MAX]; /* from the op row */
  float *magnitude;            /* of output 0's terms, summed; NULL where factors are not rounded */
  size_t scratch_bytes;
  double tolerance;
  bool whole; /* whole numbers as inputs */
} trial_t;

static void *must(void *memory) {
  if (memory) return memory;
  fprintf(stderr, "out of memory\n");
  exit(1);
}

static void must_ok(ls_status_t status, const char *what) {
  if (status == LS_OK) return;
  fprintf(stderr, "%s: %s\n", what, ls_status_text(status));
  exit(1);
}

static void complain(rig_t *rig, const trial_t *t, int shared, const char *what) {
  rig->failures++;
  printf("FAIL %s, case %s%s%s: %s\n", t->op->name, t->c->name, t->whole ? ", whole numbers" : "",
         shared == APART ? "" : ", in place", what);
}

static fenced_t fenced_make(rig_t *rig, size_t size_bytes, const void *data, int fill) {
  fenced_t f = {.size_bytes = size_bytes};
  size_t total = size_bytes + 2 * FENCE_BYTES;
  void *memory = NULL;
  f.host = must(malloc(total));
  memset(f.host, FENCE, total);
  if (data)
    memcpy(f.host + FENCE_BYTES, data, size_bytes);
  else
    memset(f.host + FENCE_BYTES, fill, size_bytes);
  must_ok(rig->backend->buffer->alloc(rig->device, LS_MEM_DEVICE, total, &memory), "alloc");
  f.device = memory;
  must_ok(rig->backend->stream->copy(rig->stream, f.device, f.host, total), "copy to the device");
  return f;
}

static void fenced_fetch(rig_t *rig, fenced_t *f) {
  must_ok(rig->backend->stream->copy(rig->stream, f->host, f->device, f->size_bytes + 2 * FENCE_BYTES),
          "copy from the device");
}

static void fenced_free(rig_t *rig, fenced_t *f) {
  rig->backend->buffer->free(rig->device, LS_MEM_DEVICE, f->device);
  free(f->host);
}

static bool fences_whole(const fenced_t *f) {
  for (size_t k = 0; k < FENCE_BYTES; k++)
    if (f->host[k] != FENCE || f->host[FENCE_BYTES + f->size_bytes + k] != FENCE) return false;
  return true;
}

static const void *data_of(const fenced_t *f) {
  return f->host + FENCE_BYTES;
}

/* Start bytes of output i: what it held before (inout), else poison. */
static void *output_start(const trial_t *t, int i) {
  size_t size = ls_shape_bytes(&t->out_shape[i]);
  void *memory = must(malloc(size));
  memset(memory, POISON, size);
  if (t->op->inout >> i & 1) case_fill_inout(t->op, t->c, i, ls_shape_count(&t->out_shape[i]), memory);
  return memory;
}

/* The oracle: the row's own plain C on host memory. */
static void run_reference(const trial_t *t, void *const *data, void **want) {
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < t->op->in_count; i++)
    in[i] = (ls_tensor_t){data[i], t->in_shape[i]};
  for (int i = 0; i < t->op->out_count; i++) {
    want[i] = output_start(t, i);
    out[i] = (ls_tensor_t){want[i], t->out_shape[i]};
  }
  void *scratch = t->scratch_bytes ? must(malloc(t->scratch_bytes)) : NULL;
  ls_kernel_args_t args = {&t->c->attrs,     in,      t->op->in_count, out,
                           t->op->out_count, scratch, t->scratch_bytes};
  must_ok(t->op->forward(NULL, &args), t->op->name);
  free(scratch);
}

/* A product of the factors' magnitudes: what their rounding is relative to. */
static void run_magnitude(trial_t *t) {
  void *data[LS_NODE_IN_MAX], *sums[LS_NODE_OUT_MAX];
  for (int i = 0; i < t->op->in_count; i++) {
    int64_t count = ls_shape_count(&t->in_shape[i]);
    float *f = must(malloc((size_t)count * sizeof *f));
    for (int64_t k = 0; k < count; k++)
      f[k] = fabsf(((const float *)t->in[i])[k]);
    data[i] = f;
  }
  run_reference(t, data, sums);
  t->magnitude = sums[0];
  for (int i = 1; i < t->op->out_count; i++)
    free(sums[i]);
  for (int i = 0; i < t->op->in_count; i++)
    free(data[i]);
}

/* Numbers that are no f32 are moved, never computed: their bytes are equal. */
static void check_close(rig_t *rig, const trial_t *t, int shared, int output, const void *data) {
  const float *want = t->want[output], *got = data;
  if (t->out_shape[output].dtype != LS_F32) {
    if (memcmp(data, want, ls_shape_bytes(&t->out_shape[output])) != 0)
      complain(rig, t, shared, "bytes differ");
    return;
  }
  for (int64_t k = 0; k < ls_shape_count(&t->out_shape[output]); k++) {
    double a = got[k], b = want[k];
    bool same = (isnan(a) && isnan(b)) || a == b;
    double allowed = t->tolerance * (1 + fabs(b));
    if (t->magnitude && output == 0) allowed += tf32_loss * (double)t->magnitude[k];
    if (same || fabs(a - b) <= allowed) continue;
    char what[160];
    snprintf(what, sizeof what, "output %d, element %lld is %.9g, must be %.9g (off by %.2g, %.2g allowed)",
             output, (long long)k, a, b, fabs(a - b), allowed);
    complain(rig, t, shared, what);
    return;
  }
}

/* Everything on the device for one launch. */
typedef struct {
  fenced_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX], scratch;
  ls_tensor_t in_tensor[LS_NODE_IN_MAX], out_tensor[LS_NODE_OUT_MAX];
} launch_t;

static void launch_make(rig_t *rig, const trial_t *t, int shared, launch_t *l) {
  *l = (launch_t){{{0}}};
  for (int i = 0; i < t->op->in_count; i++) {
    l->in[i] = fenced_make(rig, ls_shape_bytes(&t->in_shape[i]), t->in[i], 0);
    l->in_tensor[i] = (ls_tensor_t){l->in[i].device + FENCE_BYTES, t->in_shape[i]};
  }
  for (int i = 0; i < t->op->out_count; i++) {
    void *start = output_start(t, i);
    l->out[i] = fenced_make(rig, ls_shape_bytes(&t->out_shape[i]), start, 0);
    l->out_tensor[i] = (ls_tensor_t){l->out[i].device + FENCE_BYTES, t->out_shape[i]};
    free(start);
  }
  if (shared != APART) l->out_tensor[0].data = l->in_tensor[shared].data;
  l->scratch = fenced_make(rig, t->scratch_bytes, NULL, POISON);
}

static void launch_free(rig_t *rig, const trial_t *t, launch_t *l) {
  for (int i = 0; i < t->op->in_count; i++)
    fenced_free(rig, &l->in[i]);
  for (int i = 0; i < t->op->out_count; i++)
    fenced_free(rig, &l->out[i]);
  fenced_free(rig, &l->scratch);
}

static bool launch_run(rig_t *rig, const trial_t *t, int shared, ls_kernel_fn kernel, launch_t *l) {
  ls_kernel_args_t args = {.attrs = &t->c->attrs,
                           .in = l->in_tensor,
                           .in_count = t->op->in_count,
                           .out = l->out_tensor,
                           .out_count = t->op->out_count,
                           .scratch = t->scratch_bytes ? l->scratch.device + FENCE_BYTES : NULL,
                           .scratch_bytes = t->scratch_bytes};
  ls_status_t status = rig->backend->stream->launch(rig->stream, kernel, &args);
  if (!status) status = rig->backend->stream->sync(rig->stream, 0);
  if (status) {
    complain(rig, t, shared, ls_status_text(status));
    return false;
  }
  for (int i = 0; i < t->op->in_count; i++)
    fenced_fetch(rig, &l->in[i]);
  for (int i = 0; i < t->op->out_count; i++)
    fenced_fetch(rig, &l->out[i]);
  fenced_fetch(rig, &l->scratch);
  must_ok(rig->backend->stream->sync(rig->stream, 0), "sync");
  return true;
}

static void check_launch(rig_t *rig, const trial_t *t, int shared, const launch_t *l) {
  for (int i = 0; i < t->op->in_count; i++) {
    if (!fences_whole(&l->in[i])) complain(rig, t, shared, "wrote beyond an input");
    if (i != shared && memcmp(data_of(&l->in[i]), t->in[i], l->in[i].size_bytes) != 0)
      complain(rig, t, shared, "changed an input");
  }
  for (int i = 0; i < t->op->out_count; i++) {
    const fenced_t *f = i == 0 && shared != APART ? &l->in[shared] : &l->out[i];
    if (!fences_whole(&l->out[i])) complain(rig, t, shared, "wrote beyond an output");
    check_close(rig, t, shared, i, data_of(f));
  }
  if (!fences_whole(&l->scratch)) complain(rig, t, shared, "wrote beyond the scratch");
}

static void check_bits(rig_t *rig, const trial_t *t, const launch_t *a, const launch_t *b) {
  for (int i = 0; i < t->op->out_count; i++)
    if (memcmp(data_of(&a->out[i]), data_of(&b->out[i]), a->out[i].size_bytes) != 0)
      complain(rig, t, APART, "two runs gave different bits");
}

/* Output 0 is a matrix product. */
static bool is_product(const ls_op_t *op) {
  return op->class == LS_OP_PRODUCT || op->class == LS_OP_CONVOLUTION;
}

/* -8 to 8: sums of up to 2^18 products are exact in f32 in any order, and so are the factors in TF32. */
static void fill_whole(int64_t count, float *to) {
  case_fill_uniform((uint64_t)count, -8.99f, 8.99f, count, to);
  for (int64_t k = 0; k < count; k++)
    to[k] = truncf(to[k]);
}

static void run_case(rig_t *rig, const ls_op_t *op, const ls_op_case_t *c, ls_kernel_fn kernel, bool whole) {
  trial_t t = {.op = op, .c = c, .tolerance = whole ? 0 : c->tolerance, .whole = whole};
  launch_t first, again;
  must_ok(case_shapes(rig->ctx, op, c, t.in_shape, t.out_shape), op->name);
  if (op->scratch_bytes) t.scratch_bytes = op->scratch_bytes(&c->attrs, t.in_shape, t.out_shape);
  for (int i = 0; i < c->in_count; i++) {
    t.in[i] = must(malloc(ls_shape_bytes(&t.in_shape[i])));
    if (whole)
      fill_whole(ls_shape_count(&t.in_shape[i]), t.in[i]);
    else
      case_fill_input(op, c, i, t.in[i]);
  }
  run_reference(&t, t.in, t.want);
  if (rig->device->math == LS_MATH_TF32 && is_product(op) && !whole) run_magnitude(&t);

  launch_make(rig, &t, APART, &first);
  launch_make(rig, &t, APART, &again);
  if (launch_run(rig, &t, APART, kernel, &first)) check_launch(rig, &t, APART, &first);
  if (launch_run(rig, &t, APART, kernel, &again)) check_bits(rig, &t, &first, &again);
  launch_free(rig, &t, &again);
  launch_free(rig, &t, &first);
  for (int i = 0; i < c->in_count; i++) {
    if (!(op->inplace >> i & 1)) continue;
    launch_make(rig, &t, i, &first);
    if (launch_run(rig, &t, i, kernel, &first)) check_launch(rig, &t, i, &first);
    launch_free(rig, &t, &first);
  }
  for (int i = 0; i < c->in_count; i++)
    free(t.in[i]);
  for (int i = 0; i < op->out_count; i++)
    free(t.want[i]);
  free(t.magnitude);
}

/* Returns 1 when the backend has a version of its own. */
static int run_op(rig_t *rig, const ls_op_t *op) {
  ls_kernel_fn kernel = op->view ? NULL : rig->backend->device->kernel(rig->device, op->name);
  if (!kernel) {
    bool needed = !op->view && !rig->backend->plain_c;
    if (needed) rig->failures++;
    printf("%s %s: %s\n", needed ? "FAIL" : "    ", op->name,
           op->view ? "a view"
           : needed ? "no version"
                    : "the plain C version serves");
    return 0;
  }
  int before = rig->failures;
  for (int k = 0; k < op->case_count; k++)
    run_case(rig, op, &op->cases[k], kernel, false);
  for (int k = 0; k < op->case_count && is_product(op); k++)
    run_case(rig, op, &op->cases[k], kernel, true);
  if (rig->failures == before) printf("ok   %s: %d cases\n", op->name, op->case_count);
  return 1;
}

static void print_log(void *user, ls_log_level_t level, const char *message) {
  (void)user;
  if (level <= LS_LOG_WARN) printf("%s\n", message);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s BACKEND [THREADS [PRECISION]]\n", argv[0]);
    return 2;
  }
  bool tf32 = argc > 3 && strcmp(argv[3], ls_math_names[LS_MATH_TF32]) == 0;
  rig_t rig = {.ctx = ls_ctx_create(print_log, NULL)};
  ls_device_options_t options = {.threads = argc > 2 ? atoi(argv[2]) : 1,
                                 .math = tf32 ? LS_MATH_TF32 : LS_MATH_FP32};
  must(rig.ctx);
  ls_status_t status = ls_backend_find(rig.ctx, argv[1], &rig.backend);
  if (status == LS_ERR_UNSUPPORTED) {
    printf("skipped: no backend %s here: %s\n", argv[1], ls_ctx_error(rig.ctx));
    ls_ctx_destroy(rig.ctx);
    return SKIP;
  }
  must_ok(status, argv[1]);
  must_ok(rig.backend->device->open(rig.ctx, &options, &rig.device), "open");
  must_ok(rig.backend->stream->create(rig.device, LS_STREAM_INLINE, &rig.stream), "stream");

  int own = 0;
  for (int i = 0; ls_ops[i]; i++)
    own += run_op(&rig, ls_ops[i]);
  for (int i = 0; ls_optim_ops[i]; i++)
    own += run_op(&rig, ls_optim_ops[i]);
  printf("%s, %s: %d ops with a version of their own, %d failures\n", rig.device->name,
         ls_math_names[rig.device->math], own, rig.failures);

  rig.backend->stream->destroy(rig.stream);
  rig.backend->device->close(rig.device);
  ls_ctx_destroy(rig.ctx);
  return rig.failures == 0 && own > 0 ? 0 : 1;
}
