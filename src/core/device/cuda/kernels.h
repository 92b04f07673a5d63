/* Our own kernels. A .cu file holds a family: device code, a function of type ls_kernel_fn for each op, which takes
 * pointers and sizes from the arguments and launches, and the rows that list them. The op's row says what each op means.
 * Sums are in a fixed order, so the same inputs give the same bits. C++ sees of our C headers tensors and arguments
 * alone; the three functions below stand for the rest. */
#ifndef LS_DEVICE_CUDA_KERNELS_H
#define LS_DEVICE_CUDA_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "device/kernel.h"

typedef struct CUstream_st *ls_kernel_stream_t; /* cudaStream_t */

typedef struct {
  const char *op;
  ls_kernel_fn kernel;
  bool low; /* takes 16-bit floats where the op's row allows them */
} ls_kernel_row_t;
/* Ended by a row without a name. */
extern const ls_kernel_row_t ls_cuda_linear_rows[], ls_cuda_elementwise_rows[], ls_cuda_move_rows[],
    ls_cuda_norm_rows[], ls_cuda_reduce_rows[], ls_cuda_loss_rows[], ls_cuda_update_rows[],
    ls_cuda_attention_rows[], ls_cuda_channel_rows[], ls_cuda_channel_sum_rows[], ls_cuda_convolution_rows[],
    ls_cuda_embedding_rows[], ls_cuda_group_norm_rows[], ls_cuda_image_rows[], ls_cuda_recurrent_rows[],
    ls_cuda_value_rows[], ls_cuda_average_rows[], ls_cuda_padding_rows[], ls_cuda_words_rows[];

ls_kernel_stream_t ls_kernel_stream(ls_stream_t *stream);
/* Memory for partial results of reductions. The first LS_KERNEL_COUNTER_BYTES count finished blocks: zero
 * before the first kernel, and every kernel leaves them zero. */
void *ls_kernel_scratch(ls_stream_t *stream);
enum { LS_KERNEL_COUNTER_BYTES = 256, LS_KERNEL_PARTIAL_MAX = 65536 /* f64 values behind the counter */ };
/* Memory whose contents are undefined between kernels; none on an ASYNC stream. */
void *ls_kernel_workspace(ls_stream_t *stream, size_t *size_bytes);
/* The status of a cudaError_t, reported with the op's name. */
ls_status_t ls_kernel_status(ls_stream_t *stream, int error, const char *op);

/* Whether train.precision is tf32: factors of f32 may be rounded. */
bool ls_kernel_rounds_f32(ls_stream_t *stream);

/* One of several ways to compute an op. `run` returns a cudaError_t; cudaErrorNotSupported and cudaErrorInvalidValue: it
 * cannot. It writes the op's outputs, and what is undefined between kernels, alone. */
typedef struct {
  const char *name; /* unique in its op's table: the file of choices has it */
  int (*run)(ls_stream_t *stream, const ls_kernel_args_t *args, int which);
  int which; /* handed to run */
  bool
      loose; /* its result is not made of f32 sums of the factors' products alone: train.strict_sums leaves it out */
} ls_way_t;
/* Computes the op by the way that was the fastest when these shapes were measured (ways.c), while the stream is captured,
 * too. In a reproducible run, and where nothing can be measured, by the first of the table that can. */
ls_status_t ls_kernel_best(ls_stream_t *stream, const ls_kernel_args_t *args, const char *op,
                           const ls_way_t *way, int count);

/* Convolutions by our own kernels, without tensor cores but for few channels. They return a cudaError_t. */
int ls_kernel_conv2d(ls_stream_t *stream, const ls_kernel_args_t *args);
int ls_kernel_conv2d_dx(ls_stream_t *stream, const ls_kernel_args_t *args);
int ls_kernel_conv2d_dw(ls_stream_t *stream, const ls_kernel_args_t *args);
/* The same on tensor cores (product_tensor.cuh). pass: ls_cuda_conv_t; which: LS_TENSOR_*, SPLIT for f32 without TF32. */
enum { LS_TENSOR_WIDE = 0, LS_TENSOR_SMALL = 1, LS_TENSOR_SPLIT = 2, LS_TENSOR_NARROW = 4 };
int ls_kernel_conv_tensor(ls_stream_t *stream, const ls_attrs_t *attrs, const ls_tensor_t *x,
                          const ls_tensor_t *w, const ls_tensor_t *y, int pass, int which);
/* linear, linear_relu, linear_dx with or without an addend, the dw of linear_dwb likewise. */
int ls_kernel_linear_tensor(ls_stream_t *stream, const ls_kernel_args_t *args, int pass, bool relu,
                            int which);
/* to (n, columns, rows) = from (n, rows, columns), f32. */
int ls_kernel_transpose(ls_kernel_stream_t stream, const void *from, void *to, int64_t n, int64_t rows,
                        int64_t columns);

/* Whether products of these sizes have kernels of their own, of the floats that all inputs have (many: also where they pay only
 * by measurement): linear with or without relu,
 * linear_dx with or without an addend, linear_dwb and linear_dw. The kernels return a cudaError_t. */
bool ls_kernel_linear_few(int64_t rows, int64_t inputs, int64_t outputs, bool many);
int ls_kernel_few(ls_stream_t *stream, const ls_kernel_args_t *args, bool relu);
int ls_kernel_few_dx(ls_stream_t *stream, const ls_kernel_args_t *args);
int ls_kernel_few_dwb(ls_stream_t *stream, const ls_kernel_args_t *args);

/* The op, which others are made of. */
ls_status_t ls_kernel_layer_norm_dgb(ls_stream_t *stream, const ls_kernel_args_t *args);

/* Whether they convolve images of few channels fast, forward and for the weights' gradient. */
bool ls_kernel_conv_few(const ls_attrs_t *attrs, const ls_shape_t *x, const ls_shape_t *w,
                        const ls_shape_t *y);

/* Launchers for what is no op, or part of one. All pointers are device memory. They return a cudaError_t. */
int ls_kernel_fill(ls_kernel_stream_t stream, float value, float *y, int64_t count);
/* out[c] = sum over rows of x (rows, width), a float of any size. */
int ls_kernel_column_sum(ls_kernel_stream_t stream, void *scratch, const ls_tensor_t *x, float *out,
                         int64_t rows, int64_t width);
/* y (n, oh, ow, c): of images x (n, h, w, c) every sh-th row and sw-th column; 16 bytes divide a position. */
int ls_kernel_take_positions(ls_kernel_stream_t stream, const ls_tensor_t *x, const ls_tensor_t *y, int sh,
                             int sw);
/* out[i] = sum of part[p * count + i], in an order that depends on the counts alone. */
int ls_kernel_add_parts(ls_stream_t *stream, const float *part, float *out, int64_t count, int parts);
/* first[i] = sum of part[2 p * count + i], second[i] = sum of part[(2 p + 1) * count + i]. */
int ls_kernel_join_parts(ls_stream_t *stream, const float *part, float *first, float *second, int64_t count,
                         int parts);
/* Copies size_bytes, at most LS_KERNEL_COPY_BYTES, between addresses that the device reaches; 4 divides all three. */
enum { LS_KERNEL_COPY_BYTES = 4096 };
int ls_kernel_copy(ls_kernel_stream_t stream, void *to, const void *from, size_t size_bytes);
/* *word = value, and above its 32 bits ++*count, seen by the host: word is mapped host memory, count the device's. */
int ls_kernel_mark(ls_kernel_stream_t stream, uint64_t *word, uint32_t *count, uint32_t value);

#ifdef __cplusplus
}
#endif
#endif
