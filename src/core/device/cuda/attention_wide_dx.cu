// Attention of f32 tensors on tensor cores: the gradient.
#include "device/cuda/attention_gradient.cuh"

#define VERSIONS(E)                                                                                          \
  {LS_F32, 32, INT64_MAX, 0, dx_as<plan_of<E, 32, 4, 1, 32, 3>, plan_of<E, 32, 4, 1, 32, 3>>},               \
      {LS_F32, 64, INT64_MAX, 0, dx_as<plan_of<E, 64, 4, 1, 32, 2>, plan_of<E, 64, 4, 1, 32, 2>>},           \
      {LS_F32, 128, INT64_MAX, 0, dx_as<plan_of<E, 128, 8, 1, 32>, plan_of<E, 128, 8, 1, 32>>}, {            \
    LS_F32, 256, INT64_MAX, 0, dx_as<plan_of<E, 256, 2, 1, 32>, plan_of<E, 256, 2, 1, 32>>                   \
  }

int attention_split_dx(ls_stream_t *stream, args_t args, int which) {
  static const version_t versions[] = {VERSIONS(split_t)};
  return serve(stream, args, args->in[1], versions, which);
}
