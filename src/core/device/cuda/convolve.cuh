// Shared by the files of our own convolutions.
#pragma once

#include "device/cuda/block.cuh"

struct conv_shape {
  int n, h, w, c, oh, ow, o, kh, kw, cg, og; // cg, og: channels of a group
  int sh, sw, top, left, dh, dw;
  // The place of x that window (ky, kx) of output (n, oy, ox) reads; -1: in the padding.
  __device__ int64_t from(int n_, int y0, int x0, int ky, int kx) const {
    int iy = y0 + ky * dh, ix = x0 + kx * dw;
    return iy < 0 || iy >= h || ix < 0 || ix >= w ? -1 : (((int64_t)n_ * h + iy) * w + ix) * c;
  }
  // Which output window (ky, kx) of it takes to padded place (y, x); -1: none.
  __device__ int64_t to(int n_, int y, int x, int ky, int kx) const {
    int ty = y - ky * dh, tx = x - kx * dw;
    if (ty < 0 || tx < 0 || ty % sh || tx % sw) return -1;
    int oy = ty / sh, ox = tx / sw;
    return oy >= oh || ox >= ow ? -1 : (((int64_t)n_ * oh + oy) * ow + ox) * o;
  }
};

// False where an index of rows or of a filter has more than 31 bits.
bool conv_shape_of(const ls_attrs_t *attrs, const ls_shape_t &x, const ls_shape_t &w, const ls_shape_t &y,
                   conv_shape *s);

// Convolutions of one channel at a time of the common kinds (depthwise.cu). *done: this was one, and is launched; the
// others are left alone.
cudaError_t depthwise_forward(cudaStream_t stream, const conv_shape &s, ls_dtype_t dtype, const void *x,
                              const void *weight, void *y, bool *done);
cudaError_t depthwise_dx(cudaStream_t stream, const conv_shape &s, ls_dtype_t dtype, const void *dy,
                         const void *weight, void *dx, bool *done);
// dw f32; the workspace holds parts of it.
cudaError_t depthwise_dw(ls_stream_t *stream, const conv_shape &s, ls_dtype_t dtype, const void *dy,
                         const void *x, float *dw, bool *done);

// Convolutions of 16-bit images of few channels (convolve_few.cu): whether this is one, and its passes, which write dw as
// f32. They return a cudaError_t; pointers are multiples of 16.
bool few_channels(const conv_shape &s, ls_dtype_t dtype);
int few_forward(ls_stream_t *stream, const conv_shape &s, ls_dtype_t dtype, const void *x, const void *weight,
                void *y);
int few_dw(ls_stream_t *stream, const conv_shape &s, ls_dtype_t dtype, const void *dy, const void *x,
           float *dw);
