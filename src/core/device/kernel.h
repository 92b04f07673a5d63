/* The one call shape of everything that computes. An op's plain C version (its row in graph/ops), a tuned CPU
 * version and a CUDA version all have this type; a backend offers its versions by op name.
 * A kernel allocates nothing and takes no lock. On CUDA it only enqueues. CUDA C++ includes this header, too. */
#ifndef LS_DEVICE_KERNEL_H
#define LS_DEVICE_KERNEL_H

#include "device/tensor.h"
#include <assert.h>

typedef struct ls_stream ls_stream_t;

/* An op's constants: as many as a convolution with strides, padding, dilation and groups needs. The comment
 * above the op's row explains each slot. */
typedef struct {
  int64_t i[16];
  double f[8];
} ls_attrs_t;

/* The number of classes among `width` columns of a loss: the first i[0]; 0: all. */
static inline int64_t ls_attrs_classes(const ls_attrs_t *attrs, int64_t width) {
  return attrs->i[0] > 0 ? attrs->i[0] : width;
}

typedef struct ls_kernel_args ls_kernel_args_t;
typedef ls_status_t (*ls_kernel_fn)(ls_stream_t *stream, const ls_kernel_args_t *args);
struct ls_kernel_args {
  const ls_attrs_t *attrs;
  const ls_tensor_t *in;
  int in_count;
  const ls_tensor_t *out; /* descriptors are constant, the data is written */
  int out_count;
  void *scratch; /* as many bytes as the op's row asks for, 64-byte aligned; contents undefined */
  size_t scratch_bytes;
  /* Host backends only, for 16-bit floats (graph/low.h). plain: the device's version, which takes at least f32.
   * widened: widens the tensors, calls `plain` and rounds. A version that takes some 16-bit tensors leaves the
   * others to `widened`. */
  ls_kernel_fn plain, widened;
  /* Bit i: in[i] changes only when the device's epoch does, so a kernel may keep values computed from it. */
  uint32_t stable;
};

enum { LS_STEP_CHANNELS = 4 };

/* Values that change from step to step, as data: one struct per micro-batch, in the "step" input, dtype u8 (64). */
typedef struct {
  uint64_t seed;     /* of the run */
  uint64_t position; /* of this micro-batch's first row in the run's stream of samples: the dropout counter */
  float lr;          /* learning rate of this step */
  /* Samples of other types become f32: (x - mean) * scale, by channel if channels have values of their own. Equal
   * in every step. */
  float mean[LS_STEP_CHANNELS], scale[LS_STEP_CHANNELS];
  float dloss; /* always 1: the gradient of the loss, from which the backward pass starts */
  float reserved[2];
} ls_step_params_t;
static_assert(sizeof(ls_step_params_t) == 64, "step parameters are one cache line, and u8 (64) in graphs");

/* Slots of f32 (16) that the end of a step passes on. ctrl: inputs of the update. counter[0]: steps applied so far
 * (exact in f32 up to 2^24; then it saturates, which only affects bias correction, a factor of 1 by then). */
enum { LS_CTRL_APPLY, LS_CTRL_GRAD_SCALE, LS_CTRL_LR, LS_CTRL_BIAS1, LS_CTRL_BIAS2, LS_CTRL_COUNT = 16 };
/* stats: outputs for the host. applied is 1 if this step was applied, else 0; skipped counts the steps
 * skipped since the counter buffer was zeroed; skipped_row counts those in a row up to now. */
enum {
  LS_STAT_LOSS,
  LS_STAT_CORRECT,
  LS_STAT_GRAD_NORM,
  LS_STAT_APPLIED,
  LS_STAT_SKIPPED,
  LS_STAT_SKIPPED_ROW,
  LS_STAT_LOSS_SCALE, /* of this step; 0 without one */
  LS_STAT_COUNT = 16
};
/* counter: what step_control carries from step to step. The loss scale of fp16 is 2^(16 + SCALE), so that a counter of
 * zeros means 65536; GOOD counts the steps applied since it last changed. */
enum {
  LS_COUNTER_APPLIED,
  LS_COUNTER_SKIPPED,
  LS_COUNTER_SKIPPED_ROW,
  LS_COUNTER_SCALE,
  LS_COUNTER_GOOD,
  LS_COUNTER_COUNT = 16
};
enum { LS_SCALE_EXPONENT = 16, LS_SCALE_MIN = -16, LS_SCALE_MAX = 8 }; /* 1 to 2^24 */
/* The function that follows a norm and is fused with it. */
enum { LS_BEHIND_NONE, LS_BEHIND_RELU, LS_BEHIND_SILU, LS_BEHIND_COUNT };
enum { LS_HEAD_COUNT = 16, LS_HEAD_LOSS = 0, LS_HEAD_CORRECT = 1 };

#endif
