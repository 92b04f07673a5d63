/* Windows that move over images (n, h, w, c): the sizes of a convolution or of pooling, read from the attributes and
 * shapes of an op. Plain C, and included by CUDA C++. */
#ifndef LS_DEVICE_WINDOW_H
#define LS_DEVICE_WINDOW_H

#include "device/kernel.h"

typedef struct {
  int64_t n, h, w, c;               /* the images */
  int64_t oh, ow, o;                /* outputs: positions, channels */
  int64_t kh, kw;                   /* the window */
  int64_t sh, sw;                   /* stride */
  int64_t top, left, bottom, right; /* padding */
  int64_t dh, dw;                   /* dilation */
  int64_t groups;
} ls_window_t;

/* i[0..1] stride, i[2..5] padding top left bottom right, i[6..7] dilation, i[8] groups. x (n, h, w, c), w (o, kh,
 * kw, c / groups), y (n, oh, ow, o). */
static inline ls_window_t ls_window_conv(const ls_attrs_t *attrs, const ls_shape_t *x, const ls_shape_t *w,
                                         const ls_shape_t *y) {
  const int64_t *i = attrs->i;
  ls_window_t v = {x->dim[0], x->dim[1], x->dim[2], x->dim[3], y->dim[1], y->dim[2],
                   y->dim[3], w->dim[1], w->dim[2], i[0],      i[1],      i[2],
                   i[3],      i[4],      i[5],      i[6],      i[7],      i[8]};
  return v;
}

/* i[0..1] size, i[2..3] stride, i[4..7] padding. x (n, h, w, c), y (n, oh, ow, c). */
static inline ls_window_t ls_window_pool(const ls_attrs_t *attrs, const ls_shape_t *x, const ls_shape_t *y) {
  const int64_t *i = attrs->i;
  ls_window_t v = {x->dim[0], x->dim[1], x->dim[2], x->dim[3], y->dim[1], y->dim[2], y->dim[3], i[0], i[1],
                   i[2],      i[3],      i[4],      i[5],      i[6],      i[7],      1,         1,    1};
  return v;
}

/* Rows x (n.., i) under weights w (o, i): windows of one element. */
static inline ls_window_t ls_window_rows(const ls_shape_t *x, const ls_shape_t *w) {
  ls_window_t v = {
      ls_shape_count(x) / w->dim[1], 1, 1, w->dim[1], 1, 1, w->dim[0], 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1};
  return v;
}

/* Positions of a window that fits `size` elements with padding; 0 = it does not fit. */
static inline int64_t ls_window_count(int64_t size, int64_t window, int64_t stride, int64_t padding,
                                      int64_t dilation) {
  int64_t room = size + padding - (dilation * (window - 1) + 1);
  return room < 0 ? 0 : room / stride + 1;
}

#endif
