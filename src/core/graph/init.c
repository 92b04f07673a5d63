/* Initial values of parameters. Every element is a pure function of (seed, ordinal of the parameter, index),
 * so any rank can compute any part and all agree. */
#include "graph/graph.h"

#include <math.h>

/* Shape (out, .., in): a row of weights feeds one output; its last dimension has the inputs. A vector is both. */
static double fan_in(const ls_shape_t *shape) {
  return (double)(shape->rank > 1 ? ls_shape_inner(shape, 1) : ls_shape_count(shape));
}

static double fan_out(const ls_shape_t *shape) {
  return (double)(shape->rank > 1 ? ls_shape_outer(shape, shape->rank - 1) : ls_shape_count(shape));
}

static void fill(float value, int64_t begin, int64_t end, float *out) {
  for (int64_t k = begin; k < end; k++)
    out[k] = value;
}

static void fill_normal(double std, uint64_t seed, uint32_t stream, int64_t begin, int64_t end, float *out) {
  float four[4] = {0};
  for (int64_t k = begin; k < end; k++) {
    if (k % 4 == 0 || k == begin) ls_rng_normal4(seed, stream, (uint64_t)k / 4, four);
    out[k] = (float)(std * four[k % 4]);
  }
}

static void fill_uniform(double bound, uint64_t seed, uint32_t stream, int64_t begin, int64_t end,
                         float *out) {
  ls_rng4_t four = {{0}};
  for (int64_t k = begin; k < end; k++) {
    if (k % 4 == 0 || k == begin) four = ls_rng(seed, stream, (uint64_t)k / 4);
    out[k] = (float)(bound * (2.0 * ls_rng_unit(four.v[k % 4]) - 1));
  }
}

/* Fills in order of places, columns in pairs: a sine and a cosine of one frequency. */
static void fill_sinusoids(int64_t width, int64_t begin, int64_t end, float *out) {
  for (int64_t k = begin; k < end; k++) {
    int64_t place = k / width, column = k % width;
    double angle = (double)place * pow(10000, -(double)(column / 2 * 2) / (double)width);
    out[k] = (float)(column % 2 ? cos(angle) : sin(angle));
  }
}

void ls_init_fill(const ls_init_t *init, const ls_shape_t *shape, uint64_t seed, uint32_t ordinal,
                  int64_t begin, int64_t end, float *out) {
  uint32_t stream = LS_RNG_INIT + ordinal;
  double gain = init->gain;
  switch (init->kind) {
  case LS_INIT_ZEROS:
    fill(0, begin, end, out);
    break;
  case LS_INIT_ONES:
    fill(1, begin, end, out);
    break;
  case LS_INIT_NORMAL:
    fill_normal(gain > 0 ? gain : 0.02, seed, stream, begin, end, out);
    break;
  case LS_INIT_KAIMING:
    fill_normal((gain > 0 ? gain : sqrt(2)) / sqrt(fan_in(shape)), seed, stream, begin, end, out);
    break;
  case LS_INIT_XAVIER:
    fill_uniform((gain > 0 ? gain : 1) * sqrt(6 / (fan_in(shape) + fan_out(shape))), seed, stream, begin, end,
                 out);
    break;
  case LS_INIT_UNIFORM:
    fill_uniform(gain, seed, stream, begin, end, out);
    break;
  case LS_INIT_SINUSOIDS:
    fill_sinusoids(ls_shape_inner(shape, 1), begin, end, out);
    break;
  }
}
