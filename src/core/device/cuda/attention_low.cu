// Attention of 16-bit tensors on tensor cores: the forward pass.
#include "device/cuda/attention_forward.cuh"

#define VERSIONS(E, dtype)                                                                                   \
  {dtype, 32, INT64_MAX, 0, forward_as<plan_of<E, 32, 4, 1, 64, 4>>},                                        \
      {dtype, 64, 1024, 0, forward_as<plan_of<E, 64, 4, 1, 64, 3>>},                                         \
      {dtype, 64, INT64_MAX, 0, forward_as<plan_of<E, 64, 4, 2, 64>>},                                       \
      {dtype, 96, INT64_MAX, 0, forward_as<plan_of<E, 96, 4, 1, 64, 2>>},                                    \
      {dtype, 128, INT64_MAX, 0, forward_as<plan_of<E, 128, 4, 1, 64>>},                                     \
      {dtype, 160, INT64_MAX, 0, forward_as<plan_of<E, 160, 4, 1, 64>>},                                     \
      {dtype, 256, INT64_MAX, 0, forward_as<plan_of<E, 256, 4, 1, 32>>},                                     \
      {dtype, 64, INT64_MAX, 1, forward_as<plan_of<E, 64, 4, 2, 64>>},                                       \
      {dtype, 96, INT64_MAX, 1, forward_as<plan_of<E, 96, 4, 2, 64>>}, {                                     \
    dtype, 128, INT64_MAX, 1, forward_as<plan_of<E, 128, 4, 2, 64>>                                          \
  }

int attention_low(ls_stream_t *stream, args_t args, int which) {
  static const version_t versions[] = {VERSIONS(bf16_t, LS_BF16), VERSIONS(f16_t, LS_F16)};
  return serve(stream, args, args->in[0], versions, which);
}
