/* The backend's versions of the ops: converts a kernel's arguments to a launcher's pointers and sizes, and
 * lists them by op name. The op's row describes inputs, outputs and attributes. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

#include <string.h>

static const float *in(const ls_kernel_args_t *args, int i) {
  return args->in[i].data;
}
static float *out(const ls_kernel_args_t *args, int i) {
  return args->out[i].data;
}
static int64_t in_count(const ls_kernel_args_t *args, int i) {
  return ls_shape_count(&args->in[i].shape);
}
static int64_t out_count(const ls_kernel_args_t *args, int i) {
  return ls_shape_count(&args->out[i].shape);
}
static cudaStream_t handle(ls_stream_t *stream) {
  return ls_cuda_stream(stream)->handle;
}
static void *scratch(ls_stream_t *stream) {
  return ls_cuda_stream(stream)->scratch;
}

static ls_status_t done(ls_stream_t *stream, int error, const char *op) {
  return ls_cuda_check(stream->device->ctx, (cudaError_t)error, op);
}

/* ---- elementwise ---- */

#define MAP(op, which)                                                                                       \
  static ls_status_t op(ls_stream_t *stream, const ls_kernel_args_t *args) {                                 \
    return done(stream, ls_kernel_map(handle(stream), which, in(args, 0), out(args, 0), in_count(args, 0)),  \
                #op);                                                                                        \
  }
MAP(relu, LS_MAP_RELU)
MAP(gelu, LS_MAP_GELU)
MAP(tanh_op, LS_MAP_TANH)
MAP(sigmoid, LS_MAP_SIGMOID)
MAP(copy, LS_MAP_COPY)

#define ZIP(op, which)                                                                                       \
  static ls_status_t op(ls_stream_t *stream, const ls_kernel_args_t *args) {                                 \
    int error =                                                                                              \
        ls_kernel_zip(handle(stream), which, in(args, 0), in(args, 1), out(args, 0), in_count(args, 0));     \
    return done(stream, error, #op);                                                                         \
  }
ZIP(add, LS_ZIP_ADD)
ZIP(mul, LS_ZIP_MUL)
ZIP(relu_dy, LS_ZIP_RELU_DY)
ZIP(gelu_dx, LS_ZIP_GELU_DX)
ZIP(tanh_dy, LS_ZIP_TANH_DY)
ZIP(sigmoid_dy, LS_ZIP_SIGMOID_DY)

static ls_status_t accumulate(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int error =
      ls_kernel_zip(handle(stream), LS_ZIP_ADD, out(args, 0), in(args, 0), out(args, 0), in_count(args, 0));
  return done(stream, error, "accumulate");
}

static ls_status_t tree_sum(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int error = ls_kernel_tree_sum(handle(stream), in(args, 0), out(args, 0), args->in[0].shape.dim[0],
                                 out_count(args, 0));
  return done(stream, error, "tree_sum");
}

static ls_status_t fill(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int error = ls_kernel_fill(handle(stream), (float)args->attrs->f[0], out(args, 0), out_count(args, 0));
  return done(stream, error, "fill");
}

/* Both are copies of a block of columns, which the runtime knows. */
static int copy_columns(ls_stream_t *stream, const float *from, int64_t from_width, float *to,
                        int64_t to_width, int64_t rows, int64_t count) {
  size_t each = sizeof(float);
  return (int)cudaMemcpy2DAsync(to, (size_t)to_width * each, from, (size_t)from_width * each,
                                (size_t)count * each, (size_t)rows, cudaMemcpyDeviceToDevice, handle(stream));
}

static ls_status_t concat(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *a = &args->in[0].shape, *b = &args->in[1].shape;
  int64_t width = a->dim[1] + b->dim[1];
  int error = copy_columns(stream, in(args, 0), a->dim[1], out(args, 0), width, a->dim[0], a->dim[1]);
  if (!error)
    error =
        copy_columns(stream, in(args, 1), b->dim[1], out(args, 0) + a->dim[1], width, b->dim[0], b->dim[1]);
  return done(stream, error, "concat");
}

static ls_status_t columns(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[0].shape;
  int64_t count = args->attrs->i[1];
  int error =
      copy_columns(stream, in(args, 0) + args->attrs->i[0], x->dim[1], out(args, 0), count, x->dim[0], count);
  return done(stream, error, "columns");
}

static int64_t row_bytes(const ls_tensor_t *table) {
  return ls_shape_inner(&table->shape, 1) * (int64_t)ls_dtype_bytes(table->shape.dtype);
}

static ls_status_t gather_rows(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int error = ls_kernel_gather(handle(stream), args->in[0].data, args->in[1].data, args->in[2].data,
                               args->out[0].data, args->out[1].data, in_count(args, 0),
                               row_bytes(&args->in[1]), row_bytes(&args->in[2]));
  return done(stream, error, "gather_rows");
}

static ls_status_t normalize(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int bytes = (int)ls_dtype_bytes(args->in[0].shape.dtype);
  int error = ls_kernel_normalize(handle(stream), bytes, args->in[0].data, args->in[1].data, out(args, 0),
                                  in_count(args, 0));
  return done(stream, error, "normalize");
}

static int cast_of(const ls_tensor_t *t) {
  return t->shape.dtype == LS_BF16 ? LS_CAST_BF16 : t->shape.dtype == LS_F16 ? LS_CAST_F16 : LS_CAST_F32;
}

static ls_status_t cast(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int error = ls_kernel_cast(handle(stream), cast_of(&args->in[0]), cast_of(&args->out[0]), args->in[0].data,
                             args->out[0].data, in_count(args, 0));
  return done(stream, error, "cast");
}

static ls_status_t dropout(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[0].shape;
  double rate = args->attrs->f[0];
  int error = ls_kernel_dropout(handle(stream), in(args, 0), args->in[1].data,
                                LS_RNG_DROPOUT + (uint32_t)args->attrs->i[0], (float)rate,
                                (float)(1 / (1 - rate)), out(args, 0), x->dim[0], ls_shape_inner(x, 1));
  return done(stream, error, "dropout");
}

/* ---- layer norm ---- */

static ls_status_t layer_norm(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t width = in_count(args, 1), rows = in_count(args, 0) / width;
  int error = ls_kernel_layer_norm(handle(stream), in(args, 0), in(args, 1), in(args, 2), args->attrs->f[0],
                                   out(args, 0), out(args, 1), out(args, 2), rows, width);
  return done(stream, error, "layer_norm");
}

static ls_status_t layer_norm_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t width = in_count(args, 2), rows = in_count(args, 0) / width;
  int error = ls_kernel_layer_norm_dx(handle(stream), in(args, 0), in(args, 1), in(args, 2), in(args, 3),
                                      in(args, 4), out(args, 0), rows, width);
  return done(stream, error, "layer_norm_dx");
}

static ls_status_t layer_norm_dgb(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t width = out_count(args, 0), rows = in_count(args, 0) / width;
  int error = ls_kernel_layer_norm_dgb(handle(stream), scratch(stream), in(args, 0), in(args, 1), in(args, 2),
                                       in(args, 3), out(args, 0), out(args, 1), rows, width);
  return done(stream, error, "layer_norm_dgb");
}

/* ---- reductions and losses ---- */

static ls_status_t reduce(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t rows = out_count(args, 0), width = in_count(args, 0) / rows;
  int error = ls_kernel_row_sum(handle(stream), scratch(stream), in(args, 0),
                                args->attrs->i[1] ? (double)width : 1, out(args, 0), rows, width);
  return done(stream, error, "reduce");
}

static ls_status_t reduce_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int64_t rows = in_count(args, 0), width = in_count(args, 1) / rows;
  int error = ls_kernel_row_spread(handle(stream), in(args, 0), args->attrs->i[1] ? (float)width : 1,
                                   out(args, 0), rows, width);
  return done(stream, error, "reduce_dx");
}

static ls_status_t softmax_xent(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[0].shape;
  int error = ls_kernel_xent(handle(stream), scratch(stream), in(args, 0), args->in[1].data, in(args, 2),
                             out(args, 0), out(args, 1), out(args, 2), x->dim[0], x->dim[1]);
  return done(stream, error, "softmax_xent");
}

static ls_status_t softmax_xent_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *prob = &args->in[1].shape;
  int error = ls_kernel_xent_dx(handle(stream), in(args, 0), in(args, 1), args->in[2].data, in(args, 3),
                                out(args, 0), prob->dim[0], prob->dim[1]);
  return done(stream, error, "softmax_xent_dx");
}

static ls_status_t mse(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[0].shape;
  int error = ls_kernel_mse(handle(stream), scratch(stream), in(args, 0), in(args, 1), in(args, 2),
                            out(args, 0), out(args, 1), x->dim[0], ls_shape_inner(x, 1));
  return done(stream, error, "mse");
}

static ls_status_t mse_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_shape_t *x = &args->in[1].shape;
  int error = ls_kernel_mse_dx(handle(stream), in(args, 0), in(args, 1), in(args, 2), in(args, 3),
                               out(args, 0), x->dim[0], ls_shape_inner(x, 1));
  return done(stream, error, "mse_dx");
}

/* ---- the end of the step ---- */

static ls_status_t sumsq(ls_stream_t *stream, const ls_kernel_args_t *args) {
  int error = ls_kernel_sumsq(handle(stream), scratch(stream), in(args, 0), out(args, 0), in_count(args, 0));
  return done(stream, error, "sumsq");
}

static ls_status_t step_control(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const double *f = args->attrs->f;
  ls_kernel_control_t attrs = {.clip_norm = f[0], .beta1 = f[1], .beta2 = f[2]};
  int error = ls_kernel_control(handle(stream), &attrs, in(args, 0), in(args, 1), in_count(args, 1),
                                args->in[2].data, out(args, 0), out(args, 1), out(args, 2));
  return done(stream, error, "step_control");
}

static ls_status_t update(ls_stream_t *stream, const ls_kernel_args_t *args, int which,
                          const ls_kernel_update_t *attrs, const char *op) {
  int error = ls_kernel_update(handle(stream), which, attrs, in(args, 0), in(args, 1), out(args, 0),
                               args->out_count > 1 ? out(args, 1) : NULL,
                               args->out_count > 2 ? out(args, 2) : NULL, in_count(args, 0));
  return done(stream, error, op);
}

static ls_kernel_update_t sgd_attrs(const ls_attrs_t *attrs) {
  return (ls_kernel_update_t){
      .momentum = (float)attrs->f[0], .weight_decay = (float)attrs->f[1], .nesterov = attrs->i[0] != 0};
}

static ls_kernel_update_t adam_attrs(const ls_attrs_t *attrs) {
  const double *f = attrs->f;
  return (ls_kernel_update_t){.beta1 = (float)f[0],
                              .rest1 = (float)(1 - f[0]),
                              .beta2 = (float)f[1],
                              .rest2 = (float)(1 - f[1]),
                              .eps = (float)f[2],
                              .weight_decay = (float)f[3]};
}

static ls_status_t sgd(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_kernel_update_t attrs = sgd_attrs(args->attrs);
  return update(stream, args, LS_UPDATE_SGD, &attrs, "sgd");
}

static ls_status_t sgd_momentum(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_kernel_update_t attrs = sgd_attrs(args->attrs);
  return update(stream, args, LS_UPDATE_MOMENTUM, &attrs, "sgd_momentum");
}

static ls_status_t adam(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_kernel_update_t attrs = adam_attrs(args->attrs);
  return update(stream, args, LS_UPDATE_ADAM, &attrs, "adam");
}

static ls_status_t adamw(ls_stream_t *stream, const ls_kernel_args_t *args) {
  ls_kernel_update_t attrs = adam_attrs(args->attrs);
  return update(stream, args, LS_UPDATE_ADAMW, &attrs, "adamw");
}

static const struct {
  const char *op;
  ls_kernel_fn kernel;
} kernels[] = {
    {"linear", ls_cuda_linear},
    {"linear_relu", ls_cuda_linear_relu},
    {"linear_dx", ls_cuda_linear_dx},
    {"linear_dwb", ls_cuda_linear_dwb},
    {"relu", relu},
    {"relu_dy", relu_dy},
    {"gelu", gelu},
    {"gelu_dx", gelu_dx},
    {"tanh", tanh_op},
    {"tanh_dy", tanh_dy},
    {"sigmoid", sigmoid},
    {"sigmoid_dy", sigmoid_dy},
    {"dropout", dropout},
    {"layer_norm", layer_norm},
    {"layer_norm_dx", layer_norm_dx},
    {"layer_norm_dgb", layer_norm_dgb},
    {"add", add},
    {"mul", mul},
    {"concat", concat},
    {"columns", columns},
    {"reduce", reduce},
    {"reduce_dx", reduce_dx},
    {"softmax_xent", softmax_xent},
    {"softmax_xent_dx", softmax_xent_dx},
    {"mse", mse},
    {"mse_dx", mse_dx},
    {"gather_rows", gather_rows},
    {"normalize", normalize},
    {"cast", cast},
    {"fill", fill},
    {"copy", copy},
    {"accumulate", accumulate},
    {"tree_sum", tree_sum},
    {"sumsq", sumsq},
    {"step_control", step_control},
    {"sgd", sgd},
    {"sgd_momentum", sgd_momentum},
    {"adam", adam},
    {"adamw", adamw},
};

ls_kernel_fn ls_cuda_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  for (int i = 0; i < LS_COUNT(kernels); i++)
    if (strcmp(kernels[i].op, op) == 0) return kernels[i].kernel;
  return NULL;
}
