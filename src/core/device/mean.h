/* The mean of each channel in batch norm. Plain C, and included by CUDA C++. */
#ifndef LS_DEVICE_MEAN_H
#define LS_DEVICE_MEAN_H

#include "device/kernel.h"

/* Statistics of a batch are (2, c): the mean rounded to f32, and the rest that the rounding left. The rest is a
 * large part of a deviation if the mean is far from 0. Given means are (c) alone. NULL: there is no rest. */
static inline const float *ls_mean_rest(const ls_tensor_t *mean) {
  return mean->shape.rank == 2 ? (const float *)mean->data + mean->shape.dim[1] : NULL;
}

#endif
