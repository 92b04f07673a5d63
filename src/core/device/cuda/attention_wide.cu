// Attention of f32 tensors on tensor cores: the forward pass.
#include "device/cuda/attention_forward.cuh"

#define VERSIONS(E)                                                                                          \
  {LS_F32, 32, INT64_MAX, 0, forward_as<plan_of<E, 32, 4, 1, 64, 3>>},                                       \
      {LS_F32, 64, INT64_MAX, 0, forward_as<plan_of<E, 64, 4, 1, 32, 3>>},                                   \
      {LS_F32, 128, INT64_MAX, 0, forward_as<plan_of<E, 128, 4, 1, 32, 2>>},                                 \
      {LS_F32, 256, INT64_MAX, 0, forward_as<plan_of<E, 256, 4, 1, 32>>}, {                                  \
    LS_F32, 64, INT64_MAX, 1, forward_as<plan_of<E, 64, 4, 2, 64>>                                           \
  }

int attention_split(ls_stream_t *stream, args_t args, int which) {
  static const version_t versions[] = {VERSIONS(split_t)};
  return serve(stream, args, args->in[0], versions, which);
}
