/* test_ops_compare BACKEND [THREADS [PRECISION]]: every case of every op, the backend's own version against
 * the plain C of the op row. Before each call outputs, scratch, what the backend keeps for its kernels and the fences
 * around all tensors are NaN, so that an element left out, a byte beyond the end and what is read unwritten show. Also runs each op in place where its row allows that, and twice, for
 * the same bits. Matrix products run on whole numbers too, where every order of adding and every precision
 * gives the same bits. Ops that take 16-bit floats run again on these, on every backend; the plain C then computes
 * from the same rounded inputs, and its results are rounded once. */
#include "base/half.h"
#include "device/device.h"
#include "graph/cases.h"
#include "graph/low.h"
#include "graph/ops/ops.h"
#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE_BYTES = 256, POISON = 0xFF, SKIP = 77 };
/* Around inputs another NaN, in all floats, than around outputs: a kernel that goes beyond both writes this one. */
enum { POISON_WORD = 0xFFFF, FENCE_WORD = 0x7FE5 };
enum { APART = -1 }; /* no input shared; else output 0 shares that input */
/* Both factors of a product may lose what is below 10 bits of mantissa: (1 + 2^-10)^2 - 1, of the product of
 * the magnitudes. */
static const double tf32_loss = 0x1p-9 + 0x1p-20;
/* The distance of neighbours, relative to the larger of a number and 1: sums that differ in their last bits may be
 * rounded to either. */
static const double low_unit[LS_DTYPE_COUNT] = {[LS_BF16] = 0x1p-7, [LS_F16] = 0x1p-10};

/* One tensor on both sides: a host image (fence, data, fence) and as many bytes on the device. */
typedef struct {
  size_t size_bytes;
  uint16_t fence; /* its words */
  unsigned char *host, *device;
} fenced_t;

typedef struct {
  ls_ctx_t *ctx;
  const ls_backend_t *backend;
  ls_device_t *device;
  ls_stream_t *stream;
  int failures;
  fenced_t poison; /* as large as the largest block of the backend's own memory */
} rig_t;

typedef struct {
  const ls_op_t *op;
  const op_case_t *c;
  ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
  void *in[LS_NODE_IN_MAX];    /* data of the case */
  void *want[LS_NODE_OUT_MAX]; /* from the op row */
  float *magnitude;            /* of output 0's terms, summed; NULL where factors are not rounded */
  ls_attrs_t attrs;
  size_t scratch_bytes;
  double tolerance;
  bool whole;     /* whole numbers as inputs */
  ls_dtype_t low; /* of the tensors that the row allows to be low; LS_F32: of none */
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
  printf("FAIL %s %s, case %s%s%s: %s\n", t->op->name, ls_dtype_name(t->low), t->c->name,
         t->whole ? ", whole numbers" : "", shared == APART ? "" : ", in place", what);
}

static void fenced_edge(unsigned char *at, uint16_t word) {
  for (size_t k = 0; k < FENCE_BYTES; k += sizeof word)
    memcpy(at + k, &word, sizeof word);
}

/* data NULL: poison. */
static fenced_t fenced_make(rig_t *rig, size_t size_bytes, const void *data, uint16_t fence) {
  fenced_t f = {.size_bytes = size_bytes, .fence = fence};
  size_t total = size_bytes + 2 * FENCE_BYTES;
  void *memory = NULL;
  f.host = must(malloc(total));
  fenced_edge(f.host, fence);
  memset(f.host + FENCE_BYTES, POISON, size_bytes);
  if (data) memcpy(f.host + FENCE_BYTES, data, size_bytes);
  fenced_edge(f.host + FENCE_BYTES + size_bytes, fence);
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
  unsigned char edge[FENCE_BYTES];
  fenced_edge(edge, f->fence);
  return memcmp(f->host, edge, sizeof edge) == 0 &&
         memcmp(f->host + FENCE_BYTES + f->size_bytes, edge, sizeof edge) == 0;
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

static float widened(ls_dtype_t low, uint16_t bits) {
  return low == LS_BF16 ? ls_f32_of_bf16(bits) : ls_f32_of_f16(bits);
}

/* A tensor of f32 with the values of a low one. */
static ls_tensor_t widen(const ls_tensor_t *x) {
  ls_tensor_t wide = {must(malloc((size_t)ls_shape_count(&x->shape) * sizeof(float))), x->shape};
  wide.shape.dtype = LS_F32;
  for (int64_t k = 0; k < ls_shape_count(&x->shape); k++)
    ((float *)wide.data)[k] = widened(x->shape.dtype, ((const uint16_t *)x->data)[k]);
  return wide;
}

static void narrow(ls_dtype_t low, int64_t count, const float *from, uint16_t *to) {
  for (int64_t k = 0; k < count; k++)
    to[k] = low == LS_BF16 ? ls_bf16_of_f32(from[k]) : ls_f16_of_f32(from[k]);
}

static bool is_low(const trial_t *t, const ls_shape_t *shape) {
  return t->low != LS_F32 && shape->dtype == t->low;
}

/* The oracle: the row's own plain C on host memory. */
static void run_reference(const trial_t *t, void *const *data, void **want) {
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  for (int i = 0; i < t->op->in_count; i++) {
    in[i] = (ls_tensor_t){data[i], t->in_shape[i]};
    if (is_low(t, &in[i].shape)) in[i] = widen(&in[i]);
  }
  for (int i = 0; i < t->op->out_count; i++) {
    want[i] = output_start(t, i);
    out[i] = (ls_tensor_t){want[i], t->out_shape[i]};
    if (is_low(t, &out[i].shape)) out[i] = widen(&out[i]);
  }
  size_t scratch_bytes = ls_op_scratch(t->op, &t->attrs, t->in_shape, t->out_shape, false);
  void *scratch = scratch_bytes ? must(malloc(scratch_bytes)) : NULL;
  if (scratch) memset(scratch, POISON, scratch_bytes);
  ls_kernel_args_t args = {.attrs = &t->attrs,
                           .in = in,
                           .in_count = t->op->in_count,
                           .out = out,
                           .out_count = t->op->out_count,
                           .scratch = scratch,
                           .scratch_bytes = scratch_bytes};
  must_ok(t->op->forward(NULL, &args), t->op->name);
  free(scratch);
  for (int i = 0; i < t->op->in_count; i++)
    if (in[i].data != data[i]) free(in[i].data);
  for (int i = 0; i < t->op->out_count; i++) {
    if (out[i].data == want[i]) continue;
    narrow(t->low, ls_shape_count(&t->out_shape[i]), out[i].data, want[i]);
    free(out[i].data);
  }
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

/* Heads and chains may round what lies between as well: probabilities, the state that goes on. cuDNN rounds the
 * gradient of 16-bit filters to 16 bits, beyond a single position. */
static double tolerance_of(const trial_t *t, int output) {
  bool inner = t->op->class == LS_OP_ATTENTION || t->op->class == LS_OP_RECURRENT;
  if (t->low != LS_F32 && t->op == &ls_op_conv2d_dw) return t->tolerance + low_unit[t->low];
  if (t->whole || t->low == LS_F32 || !(inner || is_low(t, &t->out_shape[output]))) return t->tolerance;
  return t->tolerance + (inner ? 8 : 1) * low_unit[t->low];
}

static double element(const trial_t *t, int output, const void *data, int64_t k) {
  if (t->out_shape[output].dtype == LS_F64) return ((const double *)data)[k];
  return is_low(t, &t->out_shape[output]) ? widened(t->low, ((const uint16_t *)data)[k])
                                          : ((const float *)data)[k];
}

/* Numbers that are no floats of the trial are moved, never computed: their bytes are equal. */
static void check_close(rig_t *rig, const trial_t *t, int shared, int output, const void *data) {
  const ls_shape_t *shape = &t->out_shape[output];
  if (shape->dtype != LS_F32 && shape->dtype != LS_F64 && !is_low(t, shape)) {
    if (memcmp(data, t->want[output], ls_shape_bytes(shape)) != 0) complain(rig, t, shared, "bytes differ");
    return;
  }
  for (int64_t k = 0; k < ls_shape_count(shape); k++) {
    double a = element(t, output, data, k), b = element(t, output, t->want[output], k);
    bool same = (isnan(a) && isnan(b)) || a == b;
    double allowed = tolerance_of(t, output) * (1 + fabs(b));
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
    l->in[i] = fenced_make(rig, ls_shape_bytes(&t->in_shape[i]), t->in[i], FENCE_WORD);
    l->in_tensor[i] = (ls_tensor_t){l->in[i].device + FENCE_BYTES, t->in_shape[i]};
  }
  for (int i = 0; i < t->op->out_count; i++) {
    void *start = output_start(t, i);
    l->out[i] = fenced_make(rig, ls_shape_bytes(&t->out_shape[i]), start, POISON_WORD);
    l->out_tensor[i] = (ls_tensor_t){l->out[i].device + FENCE_BYTES, t->out_shape[i]};
    free(start);
  }
  if (shared != APART) l->out_tensor[0].data = l->in_tensor[shared].data;
  l->scratch = fenced_make(rig, t->scratch_bytes, NULL, POISON_WORD);
}

static void launch_free(rig_t *rig, const trial_t *t, launch_t *l) {
  for (int i = 0; i < t->op->in_count; i++)
    fenced_free(rig, &l->in[i]);
  for (int i = 0; i < t->op->out_count; i++)
    fenced_free(rig, &l->out[i]);
  fenced_free(rig, &l->scratch);
}

/* The backend's memory for its kernels: content that one kernel leaves there is no input of the next. */
static void poison_room(rig_t *rig) {
  const ls_device_ops_t *device = rig->backend->device;
  size_t size_bytes;
  void *block;
  for (int k = 0; device->room && (block = device->room(rig->stream, k, &size_bytes)) != NULL; k++) {
    if (size_bytes > rig->poison.size_bytes) {
      if (rig->poison.host) fenced_free(rig, &rig->poison);
      rig->poison = fenced_make(rig, size_bytes, NULL, POISON_WORD);
    }
    must_ok(rig->backend->stream->copy(rig->stream, block, rig->poison.device + FENCE_BYTES, size_bytes),
            "poison");
  }
}

static bool launch_run(rig_t *rig, const trial_t *t, int shared, launch_t *l) {
  ls_kernel_args_t args = {.attrs = &t->attrs,
                           .in = l->in_tensor,
                           .in_count = t->op->in_count,
                           .out = l->out_tensor,
                           .out_count = t->op->out_count,
                           .scratch = t->scratch_bytes ? l->scratch.device + FENCE_BYTES : NULL,
                           .scratch_bytes = t->scratch_bytes};
  char lacks[LS_KERNEL_TEXT_BYTES];
  ls_kernel_fn kernel = ls_op_kernel(rig->device, t->op, &args, lacks);
  poison_room(rig);
  ls_status_t status = kernel ? rig->backend->stream->launch(rig->stream, kernel, &args) : LS_ERR_INTERNAL;
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

/* Shapes of the case, low where the row allows it. */
static void make_shapes(rig_t *rig, trial_t *t) {
  for (int i = 0; i < t->c->in_count; i++) {
    t->in_shape[i] = t->c->in[i].shape;
    if (t->op->low_in >> i & 1) t->in_shape[i].dtype = t->low;
  }
  t->attrs = t->c->attrs;
  if (!t->op->low_in && t->low != LS_F32) t->attrs.i[LS_ATTR_LOW] = t->low;
  must_ok(ls_op_shape(rig->ctx, t->op, &t->attrs, t->in_shape, t->out_shape), t->op->name);
  t->scratch_bytes = ls_op_scratch(t->op, &t->attrs, t->in_shape, t->out_shape, rig->backend->plain_c);
}

static void *make_input(const trial_t *t, int i) {
  int64_t count = ls_shape_count(&t->in_shape[i]);
  void *data = must(malloc(ls_shape_bytes(&t->c->in[i].shape)));
  if (t->whole)
    fill_whole(count, data);
  else
    case_fill_input(t->op, t->c, i, data);
  if (t->in_shape[i].dtype == t->c->in[i].shape.dtype) return data;
  uint16_t *low = must(malloc((size_t)count * sizeof *low));
  narrow(t->low, count, data, low);
  free(data);
  return low;
}

static void run_case(rig_t *rig, const ls_op_t *op, const op_case_t *c, ls_dtype_t low, bool whole) {
  trial_t t = {.op = op, .c = c, .tolerance = whole ? 0 : c->tolerance, .whole = whole, .low = low};
  launch_t first, again;
  make_shapes(rig, &t);
  for (int i = 0; i < c->in_count; i++)
    t.in[i] = make_input(&t, i);
  run_reference(&t, t.in, t.want);
  if (rig->device->math == LS_MATH_TF32 && is_product(op) && !whole && low == LS_F32) run_magnitude(&t);

  launch_make(rig, &t, APART, &first);
  launch_make(rig, &t, APART, &again);
  if (launch_run(rig, &t, APART, &first)) check_launch(rig, &t, APART, &first);
  /* The first run may have made the backend's memory larger, with zeros. */
  if (launch_run(rig, &t, APART, &again)) check_bits(rig, &t, &first, &again);
  launch_free(rig, &t, &again);
  launch_free(rig, &t, &first);
  for (int i = 0; i < c->in_count; i++) {
    if (!(op->inplace >> i & 1) || t.in_shape[i].dtype != t.out_shape[0].dtype) continue;
    launch_make(rig, &t, i, &first);
    if (launch_run(rig, &t, i, &first)) check_launch(rig, &t, i, &first);
    launch_free(rig, &t, &first);
  }
  for (int i = 0; i < c->in_count; i++)
    free(t.in[i]);
  for (int i = 0; i < op->out_count; i++)
    free(t.want[i]);
  free(t.magnitude);
}

/* Returns the number of cases. Every dtype has the same. */
static int run_drawn(rig_t *rig, const ls_op_t *op, ls_dtype_t low) {
  enum { DRAWS = 24, ELEMENTS = 1 << 13 };
  const int draws = draw_count(DRAWS);
  draw_t draw = {.seed = draw_seed()};
  char name[CASE_NAME_BYTES];
  op_case_t c;
  for (int k = 0; k < draws; k++) {
    if (!case_draw(op, &draw, ELEMENTS, name, &c)) return k;
    run_case(rig, op, &c, low, false);
    if (is_product(op)) run_case(rig, op, &c, low, true);
  }
  return draws;
}

static void run_cases(rig_t *rig, const ls_op_t *op, ls_dtype_t low) {
  const op_cases_t *row = cases_of(op);
  int before = rig->failures;
  for (int k = 0; k < row->count; k++)
    run_case(rig, op, &row->cases[k], low, false);
  for (int k = 0; k < row->count && is_product(op); k++)
    run_case(rig, op, &row->cases[k], low, true);
  const int drawn = run_drawn(rig, op, low);
  if (rig->failures == before)
    printf("ok   %s %s: %d cases, %d drawn\n", op->name, ls_dtype_name(low), row->count, drawn);
}

/* Returns the number of dtypes in which the op was compared. */
static int run_op(rig_t *rig, const ls_op_t *op) {
  static const ls_dtype_t lows[] = {LS_BF16, LS_F16};
  const ls_device_ops_t *device = rig->backend->device;
  bool own = !op->view && device->kernel(rig->device, op->name), plain = rig->backend->plain_c;
  if (own) run_cases(rig, op, LS_F32);
  if (!own && !op->view && !plain && !op->host) rig->failures++;
  if (!own)
    printf("%s %s: %s\n", op->view || plain || op->host ? "    " : "FAIL", op->name,
           op->view   ? "a view"
           : plain    ? "the plain C version serves"
           : op->host ? "hosts alone have it"
                      : "no version");
  if (op->view || !(own || plain) || !(op->low_in || op->low_out)) return own;
  if (!plain && !(device->low && device->low(rig->device, op->name, LS_BF16))) {
    printf("     %s: no version for 16-bit floats\n", op->name);
    return own;
  }
  for (int k = 0; k < LS_COUNT(lows); k++)
    run_cases(rig, op, lows[k]);
  return own + LS_COUNT(lows);
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
  setvbuf(stdout, NULL, _IOLBF, 0); /* a crash does not take the last lines along */
  bool tf32 = argc > 3 && strcmp(argv[3], ls_math_names[LS_MATH_TF32]) == 0;
  rig_t rig = {.ctx = ls_ctx_create(print_log, NULL)};
  ls_device_options_t options = {.threads = argc > 2 ? atoi(argv[2]) : 1,
                                 .strict_sums = true, /* whole numbers are exact */
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
  printf("%s, %s: %d comparisons of ops, %d failures\n", rig.device->name, ls_math_names[rig.device->math],
         own, rig.failures);

  if (rig.poison.host) fenced_free(&rig, &rig.poison);
  rig.backend->stream->destroy(rig.stream);
  rig.backend->device->close(rig.device);
  ls_ctx_destroy(rig.ctx);
  return rig.failures == 0 && own > 0 ? 0 : 1;
}
