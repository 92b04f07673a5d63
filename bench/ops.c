/* The time of ops at the shapes that known networks give them, on any backend:
 *   bench_ops BACKEND [THREADS [PRECISION [NAME]]]      NAME: ops whose name contains it
 * PRECISION fp32, tf32, bf16 or fp16: the last two give an op 16-bit floats where its row allows them.
 * Each line: op, shape, median time, TFLOP/s by the op row's count, GB/s by its bytes. Where the backend can, launches
 * are captured, so that they are as close as in a step. */
#include "base/half.h"
#include "graph/cases.h"
#include "graph/low.h"
#include "graph/ops/row.h"
#include "op_time.h"

#include <string.h>

typedef struct {
  const char *op;
  op_case_t c;
} row_t;

#define X(...) CASE_F32(-1, 1, __VA_ARGS__)
#define ROW(op_, label, count, attrs_, ...)                                                                  \
  {                                                                                                          \
    op_, {                                                                                                   \
      label, count, {__VA_ARGS__}, attrs_, 0, 0                                                              \
    }                                                                                                        \
  }
#define ATTRS(...)                                                                                           \
  {                                                                                                          \
    .i = { __VA_ARGS__ }                                                                                     \
  }

/* Forward, and both gradients: n images of h x w x c, filters of k x k x c / g, output oh x ow x o. */
#define CONV(label, n, h, w, c, o, k, s, p, g, oh, ow)                                                       \
  ROW("conv2d", label, 2, ATTRS(s, s, p, p, p, p, 1, 1, g), X(n, h, w, c), X(o, k, k, (c) / (g))),           \
      ROW("conv2d_dx", label, 2, ATTRS(s, s, p, p, p, p, 1, 1, g, h, w), X(n, oh, ow, o),                    \
          X(o, k, k, (c) / (g))),                                                                            \
      ROW("conv2d_dw", label, 2, ATTRS(s, s, p, p, p, p, 1, 1, g, k, k), X(n, oh, ow, o), X(n, h, w, c))
#define ATTENTION(label, n, t, d, heads, causal, rate)                                                       \
  {"attention", {label, 2, {X(n, t, 3 * (d)), CASE_STEP(7)}, {.i = {heads, causal}, .f = {rate}}, 0, 0}}, {  \
    "attention_dx", {                                                                                        \
      label, 5, {X(n, t, d), X(n, t, 3 * (d)), X(n, t, d), CASE_F32(3, 4, n, heads, t), CASE_STEP(7)},       \
          {.i = {heads, causal}, .f = {rate}}, 0, 0                                                          \
    }                                                                                                        \
  }
#define LSTM(label, n, t, h)                                                                                 \
  ROW("lstm_chain", label, 2, ATTRS(0), X(n, t, 4 * (h)), CASE_F32(-0.07f, 0.07f, 4 * (h), h)),              \
      ROW("lstm_chain_dx", label, 4, ATTRS(0), X(n, t, h), X(n, t, h), CASE_F32(0.1f, 0.9f, n, t, 4 * (h)),  \
          CASE_F32(-0.07f, 0.07f, 4 * (h), h))
#define GRU(label, n, t, h)                                                                                  \
  ROW("gru_chain", label, 3, ATTRS(0), X(n, t, 3 * (h)), CASE_F32(-0.07f, 0.07f, 3 * (h), h), X(h)),         \
      ROW("gru_chain_dx", label, 5, ATTRS(0), X(n, t, h), X(n, t, h), CASE_F32(0.1f, 0.9f, n, t, 3 * (h)),   \
          X(n, t, h), CASE_F32(-0.07f, 0.07f, 3 * (h), h))
#define EMBEDDING(label, n, t, v, d)                                                                         \
  ROW("embedding", label, 2, ATTRS(0), CASE_WHOLE(LS_U16, v, n, t), X(v, d)),                                \
      ROW("embedding_dw", label, 2, ATTRS(v), X(n, t, d), CASE_WHOLE(LS_U16, v, n, t))

/* Batch norm of c channels at n positions: apart, and with relu in it. */
#define NORM(label, n, h, w, c)                                                                              \
  ROW("bn_sums", label, 3, ATTRS(0), X(n, h, w, c), CASE_F32(1, 2, n), X(c)),                                \
      ROW("bn_apply", label, 5, ATTRS(0), X(n, h, w, c), X(c), X(c), X(c), X(c)),                            \
      ROW("bn_act", label, 5, ATTRS(LS_BEHIND_RELU), X(n, h, w, c), X(c), X(c), X(c), X(c)),                 \
      ROW("bn_add_act", label, 6, ATTRS(LS_BEHIND_RELU), X(n, h, w, c), X(c), X(c), X(c), X(c),              \
          X(n, h, w, c)),                                                                                    \
      ROW("bn_back_sums", label, 5, ATTRS(0), X(n, h, w, c), X(n, h, w, c), X(c), X(c), CASE_F32(1, 2, n)),  \
      ROW("bn_act_back_sums", label, 7, ATTRS(LS_BEHIND_RELU), X(n, h, w, c), X(n, h, w, c), X(c), X(c),     \
          CASE_F32(1, 2, n), X(c), X(c)),                                                                    \
      ROW("bn_act_dx", label, 9, ATTRS(LS_BEHIND_RELU), X(n, h, w, c), X(n, h, w, c), X(c), X(c), X(c),      \
          CASE_F32(1, 2, n), X(2 * (c)), CASE_F64(1, 2, 1 + 2 * (c)), X(c))

/* n samples of 128 places and d features, a vocabulary of v. */
#define BERT(label, n, d, v)                                                                                 \
  EMBEDDING(label, n, 128, v, d), EMBEDDING(label, n, 128, 2, d),                                            \
      {"residual_norm",                                                                                      \
       {label,                                                                                               \
        5,                                                                                                   \
        {X(n, 128, d), X(n, 128, d), X(d), X(d), CASE_STEP(7)},                                              \
        {.i = {3}, .f = {1e-5, 0.1}},                                                                        \
        0,                                                                                                   \
        0}},                                                                                                 \
      {"layer_norm_dgb", {label, 4, {X(n, 128, d), X(n, 128, d), X(n, 128), X(n, 128)}, {{0}}, 0, 0}},       \
      {"layer_norm_dx", {label, 5, {X(n, 128, d), X(n, 128, d), X(d), X(n, 128), X(n, 128)}, {{0}}, 0, 0}},  \
      {"layer_norm_back",                                                                                    \
       {label,                                                                                               \
        7,                                                                                                   \
        {X(n, 128, d), X(n, 128, d), X(d), X(n, 128), X(n, 128), X(n, 128, d), CASE_STEP(7)},                \
        {{0}},                                                                                               \
        0,                                                                                                   \
        0}},                                                                                                 \
      {"layer_norm_back_drop",                                                                               \
       {label,                                                                                               \
        7,                                                                                                   \
        {X(n, 128, d), X(n, 128, d), X(d), X(n, 128), X(n, 128), X(n, 128, d), CASE_STEP(7)},                \
        {.i = {3}, .f = {1e-5, 0.1}},                                                                        \
        0,                                                                                                   \
        0}},                                                                                                 \
      {"dropout", {label, 2, {X(n, 128, d), CASE_STEP(7)}, {.i = {3}, .f = {0.1}}, 0, 0}},                   \
      ROW("gelu", label, 1, ATTRS(0), X(n, 128, 4 * (d))),                                                   \
      ROW("gelu_dx", label, 2, ATTRS(0), X(n, 128, 4 * (d)), X(n, 128, 4 * (d))),                            \
      ROW("linear", label, 3, ATTRS(0), X(n, 128, d), X(4 * (d), d), X(4 * (d))),                            \
      ROW("linear_dx", label, 2, ATTRS(0), X(n, 128, 4 * (d)), X(4 * (d), d)),                               \
      ROW("linear_dx_add", label, 3, ATTRS(0), X(n, 128, 4 * (d)), X(4 * (d), d), X(n, 128, d)),             \
      ROW("linear_dwb", label, 2, ATTRS(0), X(n, 128, 4 * (d)), X(n, 128, d)),                               \
      ROW("linear_dwb", label, 2, ATTRS(0), X(n, 128, d), X(n, 128, d))

static const row_t rows[] = {
    CONV("resnet first, 32 images", 32, 224, 224, 3, 64, 7, 2, 3, 1, 112, 112),
    CONV("3x3 64 at 56, 32 images", 32, 56, 56, 64, 64, 3, 1, 1, 1, 56, 56),
    CONV("3x3 128 at 28, 32 images", 32, 28, 28, 128, 128, 3, 1, 1, 1, 28, 28),
    CONV("3x3 512 at 7, 32 images", 32, 7, 7, 512, 512, 3, 1, 1, 1, 7, 7),
    CONV("3x3 stride 2, 64 to 128 at 56, 32 images", 32, 56, 56, 64, 128, 3, 2, 1, 1, 28, 28),
    CONV("1x1 64 to 256 at 56, 32 images", 32, 56, 56, 64, 256, 1, 1, 0, 1, 56, 56),
    CONV("1x1 1024 to 256 at 14, 32 images", 32, 14, 14, 1024, 256, 1, 1, 0, 1, 14, 14),
    CONV("depthwise 3x3 96 at 112 stride 2, 32 images", 32, 112, 112, 96, 96, 3, 2, 1, 96, 56, 56),
    CONV("depthwise 5x5 672 at 14, 32 images", 32, 14, 14, 672, 672, 5, 1, 2, 672, 14, 14),
    CONV("mnist first, 64 images", 64, 28, 28, 1, 32, 3, 1, 1, 1, 28, 28),
    CONV("mnist second, 64 images", 64, 14, 14, 32, 64, 3, 1, 1, 1, 14, 14),
    CONV("depthwise 3x3 144 at 56, 32 images", 32, 56, 56, 144, 144, 3, 1, 1, 144, 56, 56),
    NORM("64 at 112, 32 images", 32, 112, 112, 64),
    NORM("256 at 56, 32 images", 32, 56, 56, 256),
    NORM("2048 at 7, 256 images", 256, 7, 7, 2048),
    ROW("scale_channels", "144 at 56, 32 images", 2, ATTRS(0), X(32, 56, 56, 144), X(32, 144)),
    ROW("scale_channels_ds", "144 at 56, 32 images", 2, ATTRS(0), X(32, 56, 56, 144), X(32, 56, 56, 144)),
    ROW("max_pool", "3x3 stride 2, 64 at 112, 32 images", 1, ATTRS(3, 3, 2, 2, 1, 1, 1, 1),
        X(32, 112, 112, 64)),
    ROW("max_pool_dx", "3x3 stride 2, 64 at 112, 32 images", 2, ATTRS(3, 3, 2, 2, 1, 1, 1, 1, 112, 112),
        X(32, 56, 56, 64), CASE_WHOLE(LS_U8, 9, 32, 56, 56, 64)),
    ROW("bias", "64 at 56, 32 images", 2, ATTRS(0), X(32, 56, 56, 64), X(64)),
    ROW("sum_leading", "64 at 56, 32 images", 1, ATTRS(1), X(32, 56, 56, 64)),
    ROW("mean_positions", "2048 at 7, 32 images", 1, ATTRS(0), X(32, 49, 2048)),
    ATTENTION("gpt-char, 64", 64, 256, 384, 6, 1, 0.2),
    ATTENTION("gpt-char, 64, no dropout", 64, 256, 384, 6, 1, 0),
    ATTENTION("gpt2, 4", 4, 1024, 768, 12, 1, 0),
    ATTENTION("bert-base, 32", 32, 128, 768, 12, 0, 0.1),
    ATTENTION("encoder, 32", 32, 64, 192, 6, 0, 0.1),
    LSTM("32 samples, 60 steps, 192", 32, 60, 192),
    LSTM("256 samples, 60 steps, 192", 256, 60, 192),
    LSTM("32 samples, 60 steps, 512", 32, 60, 512),
    GRU("32 samples, 60 steps, 160", 32, 60, 160),
    GRU("256 samples, 60 steps, 160", 256, 60, 160),
    EMBEDDING("gpt-char, 64", 64, 256, 65, 384),
    EMBEDDING("gpt2, 4", 4, 1024, 50257, 768),
    ROW("layer_norm", "gpt-char, 64", 3, {.f = {1e-5}}, X(16384, 384), X(384), X(384)),
    BERT("bert-small, 32", 32, 512, 30522),
    BERT("bert-base, 32", 32, 768, 30522),
    BERT("bert-base, 128", 128, 768, 30522),
    ROW("softmax_xent", "gpt2, 4", 3, ATTRS(50257), X(4096, 50264), CASE_CLASS(4096, 50257),
        CASE_WEIGHT(4096)),
    ROW("gelu_tanh", "gpt2, 4", 1, ATTRS(0), X(4096, 3072)),
};

/* Input i of a case, rounded where it is low: of that dtype; LS_F32: none is. */
static void fill(ls_dtype_t low, const ls_op_t *op, const op_case_t *c, int i, void *data) {
  uint16_t *to = data;
  if (low == LS_F32 || !(op->low_in >> i & 1)) {
    case_fill_input(op, c, i, data);
    return;
  }
  float *wide = malloc((size_t)ls_shape_count(&c->in[i].shape) * sizeof *wide);
  must(wide ? LS_OK : LS_ERR_MEMORY, "memory");
  case_fill_input(op, c, i, wide);
  for (int64_t k = 0; k < ls_shape_count(&c->in[i].shape); k++)
    to[k] = low == LS_BF16 ? ls_bf16_of_f32(wide[k]) : ls_f16_of_f32(wide[k]);
  free(wide);
}

static void run(bench_t *b, ls_dtype_t low, const row_t *row) {
  const ls_op_t *op = ls_op_find(row->op);
  const op_case_t *c = &row->c;
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
  ls_attrs_t attrs = c->attrs;
  for (int i = 0; i < c->in_count; i++) {
    in_shape[i] = c->in[i].shape;
    if (op && op->low_in >> i & 1) in_shape[i].dtype = low;
  }
  if (op && !op->low_in && op->low_out) attrs.i[LS_ATTR_LOW] = low;
  if (!op || ls_op_shape(b->ctx, op, &attrs, in_shape, out_shape)) {
    printf("%-14s %s: no such op, or not of these shapes\n", row->op, c->name);
    return;
  }
  for (int i = 0; i < op->in_count; i++) {
    void *data = malloc(ls_shape_bytes(&in_shape[i]));
    must(data ? LS_OK : LS_ERR_MEMORY, "memory");
    fill(low, op, c, i, data);
    in[i] = (ls_tensor_t){take(b, ls_shape_bytes(&in_shape[i]), data), in_shape[i]};
    free(data);
  }
  for (int i = 0; i < op->out_count; i++)
    out[i] = (ls_tensor_t){take(b, ls_shape_bytes(&out_shape[i]), NULL), out_shape[i]};
  size_t scratch_bytes = ls_op_scratch(op, &attrs, in_shape, out_shape, b->backend->plain_c);
  void *scratch = scratch_bytes ? take(b, scratch_bytes, NULL) : NULL;
  ls_kernel_args_t args = {&attrs, in, op->in_count, out, op->out_count, scratch, scratch_bytes, NULL};
  char lacks[LS_KERNEL_TEXT_BYTES];
  ls_kernel_fn kernel = ls_op_kernel(b->device, op, &args, lacks);
  double us = kernel ? median_us(b, kernel, &args) : -1;
  if (us < 0)
    printf("%-14s %-44s %s%s\n", row->op, c->name, kernel ? "failed" : "no ", kernel ? "" : lacks);
  else
    printf("%-14s %-44s %10.1f us %8.2f TFLOP/s %8.0f GB/s\n", row->op, c->name, us,
           (double)ls_op_flops(op, &attrs, in_shape, out_shape) / us / 1e6,
           (double)ls_op_bytes(op, &attrs, in_shape, out_shape) / us / 1e3);
  fflush(stdout);
  b->backend->buffer->free(b->device, LS_MEM_DEVICE, scratch);
  for (int i = 0; i < op->out_count; i++)
    b->backend->buffer->free(b->device, LS_MEM_DEVICE, out[i].data);
  for (int i = 0; i < op->in_count; i++)
    b->backend->buffer->free(b->device, LS_MEM_DEVICE, in[i].data);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s BACKEND [THREADS [PRECISION [NAME]]]\n", argv[0]);
    return 2;
  }
  bool tf32 = argc > 3 && strcmp(argv[3], ls_math_names[LS_MATH_TF32]) == 0;
  const ls_device_options_t options = {.threads = argc > 2 ? atoi(argv[2]) : 1,
                                       .math = tf32 ? LS_MATH_TF32 : LS_MATH_FP32};
  const char *precision = argc > 3 ? argv[3] : "fp32";
  ls_dtype_t low = strcmp(precision, "bf16") == 0   ? LS_BF16
                   : strcmp(precision, "fp16") == 0 ? LS_F16
                                                    : LS_F32;
  bench_t b = bench_open(argv[1], &options);
  printf("%s, %s\n", b.device->name, precision);
  for (int k = 0; k < LS_COUNT(rows); k++)
    if (argc < 5 || strstr(rows[k].op, argv[4])) run(&b, low, &rows[k]);
  bench_close(&b);
  return 0;
}
