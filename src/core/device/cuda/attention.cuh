// Shared by the versions of attention: shapes, the dropout of probabilities, and which one serves heads of what size.
#pragma once

#include "device/cuda/block.cuh"
#include "device/cuda/element.h"
#include "device/cuda/mma.cuh"

struct attention_shape {
  int64_t heads, t, size; // size: of a head
  bool causal;
  float scale;
  // dropout of probabilities
  const unsigned char *step;
  uint32_t rng_stream;
  float rate, widen;
  __host__ __device__ int64_t width() const { return heads * size; }
};

static inline attention_shape attention_shape_of(args_t args, const ls_tensor_t &qkv,
                                                 const ls_tensor_t &step) {
  attention_shape s;
  double rate = args->attrs->f[0];
  s.heads = args->attrs->i[0];
  s.t = qkv.shape.dim[1];
  s.size = qkv.shape.dim[2] / (3 * s.heads);
  s.causal = args->attrs->i[1] != 0;
  s.scale = (float)(1 / sqrt((double)s.size));
  s.step = (const unsigned char *)step.data;
  s.rng_stream = LS_RNG_DROPOUT + (uint32_t)args->attrs->i[2];
  s.rate = (float)rate;
  s.widen = (float)(1 / (1 - rate));
  return s;
}

// The random words of probabilities. Four elements share a counter; `shared`: these are four keys of one query.
struct dropout_words {
  uint64_t seed, row; // row: counter of the sample's first element
  bool on, shared;
  __device__ dropout_words(const attention_shape &s, int64_t sample)
      : seed(0), row(0), on(s.rate > 0), shared(s.t % 4 == 0) {
    if (!on) return;
    seed = load_u64(s.step + offsetof(ls_step_params_t, seed));
    row = (load_u64(s.step + offsetof(ls_step_params_t, position)) + (uint64_t)sample) *
          (uint64_t)((s.heads * s.t * s.t + 3) / 4);
  }
  __device__ ls_rng4_t words(const attention_shape &s, int64_t head, int64_t query, int64_t key) const {
    return ls_rng(seed, s.rng_stream, row + (uint64_t)((head * s.t + query) * s.t + key) / 4);
  }
  __device__ uint32_t word(const attention_shape &s, int64_t head, int64_t query, int64_t key) const {
    ls_rng4_t w = words(s, head, query, key);
    unsigned e = (unsigned)((head * s.t + query) * s.t + key) % 4;
    return e == 0 ? w.v[0] : e == 1 ? w.v[1] : e == 2 ? w.v[2] : w.v[3];
  }
};

// ---- attention_tensor.cu ----

// For the second kernel of the gradient the first one notes which probabilities stay: a bit for each key, MASK_KEYS / 8 bytes
// at a time, of each query.
constexpr int MASK_KEYS = 128;
__host__ __device__ static inline int64_t mask_bytes(int64_t t) {
  return (t + MASK_KEYS - 1) / MASK_KEYS * (MASK_KEYS / 8);
}

constexpr float GROWTH = 6; // power of 2 that a probability's factor may reach

// Ways of ls_kernel_best, on tensor cores: attention of 16-bit tensors (attention_low.cu, attention_low_dx.cu), of f32 as
// split factors (attention_wide.cu, attention_wide_dx.cu), also where products are TF32: a softmax magnifies their rounding. `which`: another plan for the same heads. Of heads of any size
// (attention_any.cu).
int attention_low(ls_stream_t *stream, args_t args, int which);
int attention_low_dx(ls_stream_t *stream, args_t args, int which);
int attention_split(ls_stream_t *stream, args_t args, int which);
int attention_split_dx(ls_stream_t *stream, args_t args, int which);
int attention_any(ls_stream_t *stream, args_t args, int which);
int attention_any_dx(ls_stream_t *stream, args_t args, int which);
