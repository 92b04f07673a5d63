/* The synthetic set: correlated normal features, targets from a fixed random teacher network plus noise.
 * Sample i is a pure function of (data_seed, i): its numbers do not depend on how many samples there are.
 * docs/data.md has the recipe and its source. */
#include "data/read.h"
#include "data/table/normal.h"

#include <math.h>
#include <string.h>

enum { HIDDEN = 32 /* of the teacher */ };

/* Streams, one per purpose. Counters hold the row (sample, input or output) in the upper half. */
enum {
  STREAM_FEATURES = LS_RNG_SYNTHETIC,
  STREAM_NOISE,
  STREAM_TEACHER_IN,
  STREAM_TEACHER_BIAS,
  STREAM_TEACHER_OUT
};

typedef struct {
  uint64_t seed;
  int64_t inputs, outputs;
  float *in;          /* (inputs, HIDDEN), standard deviation 1 / sqrt(inputs) */
  float bias[HIDDEN]; /* standard deviation 0.1 */
  float *out;         /* (outputs, HIDDEN), standard deviation 1 / sqrt(HIDDEN) */
} teacher_t;

static void normals(uint64_t seed, uint32_t stream, int64_t row, int64_t count, float *out) {
  ls_normal_fill(seed, stream, (uint64_t)row << 32, count, out);
}

/* (rows, HIDDEN) weights of the given standard deviation. */
static float *weights(ls_ctx_t *ctx, uint64_t seed, uint32_t stream, int64_t rows, double deviation) {
  float *w = ls_alloc_array(ctx, (size_t)rows, HIDDEN * sizeof *w);
  if (!w) return NULL;
  for (int64_t i = 0; i < rows; i++)
    normals(seed, stream, i, HIDDEN, w + i * HIDDEN);
  for (int64_t i = 0; i < rows * HIDDEN; i++)
    w[i] *= (float)deviation;
  return w;
}

static void teacher_release(teacher_t *t) {
  ls_free(t->in);
  ls_free(t->out);
}

static ls_status_t teacher_make(ls_ctx_t *ctx, uint64_t seed, int64_t inputs, int64_t outputs,
                                teacher_t *teacher) {
  teacher_t t = {.seed = seed, .inputs = inputs, .outputs = outputs};
  t.in = weights(ctx, seed, STREAM_TEACHER_IN, inputs, 1.0 / sqrt((double)inputs));
  t.out = t.in ? weights(ctx, seed, STREAM_TEACHER_OUT, outputs, 1.0 / sqrt((double)HIDDEN)) : NULL;
  if (!t.out) {
    teacher_release(&t);
    return LS_ERR_MEMORY;
  }
  normals(seed, STREAM_TEACHER_BIAS, 0, HIDDEN, t.bias);
  for (int k = 0; k < HIDDEN; k++)
    t.bias[k] *= 0.1f;
  *teacher = t;
  return LS_OK;
}

/* Features (inputs) of sample i. The second and third follow the first, where they exist. */
static void make_features(uint64_t seed, int64_t i, int64_t inputs, float *x) {
  normals(seed, STREAM_FEATURES, i, inputs, x);
  if (inputs > 1) x[1] = 0.7f * x[0] + 0.3f * x[1];
  if (inputs > 2) x[2] = 0.5f * x[0] - 0.3f * x[1] + 0.4f * x[2];
}

/* y (outputs) = out tanh(in' x + bias) + noise z, z in y on entry. */
static void teach(const teacher_t *t, float noise, const float *x, float *y) {
  float h[HIDDEN];
  memcpy(h, t->bias, sizeof h);
  for (int64_t j = 0; j < t->inputs; j++)
    for (int k = 0; k < HIDDEN; k++)
      h[k] += x[j] * t->in[j * HIDDEN + k];
  for (int k = 0; k < HIDDEN; k++)
    h[k] = (float)tanh((double)h[k]);
  for (int64_t o = 0; o < t->outputs; o++) {
    float sum = noise * y[o];
    for (int k = 0; k < HIDDEN; k++)
      sum += h[k] * t->out[o * HIDDEN + k];
    y[o] = sum;
  }
}

static int64_t largest(const float *y, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; i++)
    if (y[i] > y[best]) best = i;
  return best;
}

/* labels: whether each of the teacher's outputs is positive. */
static ls_status_t make_targets(ls_ctx_t *ctx, const teacher_t *t, float noise, bool labels,
                                const ls_matrix_t *features, ls_matrix_t *targets) {
  bool classes = targets->integers;
  float *scratch = ls_alloc_array(ctx, (size_t)t->outputs, sizeof *scratch);
  if (!scratch) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < features->rows; i++) {
    float *y = classes ? scratch : (float *)targets->values + i * t->outputs;
    normals(t->seed, STREAM_NOISE, i, t->outputs, y);
    teach(t, noise, (const float *)features->values + i * t->inputs, y);
    if (classes) ((int32_t *)targets->values)[i] = (int32_t)largest(y, t->outputs);
    for (int64_t o = 0; labels && o < t->outputs; o++)
      y[o] = y[o] > 0;
  }
  ls_free(scratch);
  return LS_OK;
}

static ls_status_t matrix_make(ls_ctx_t *ctx, int64_t rows, ls_shape_t row, ls_matrix_t *matrix) {
  int64_t count, cols = ls_shape_count(&row);
  if (__builtin_mul_overflow(rows, cols, &count))
    return ls_fail(ctx, LS_ERR_CONFIG, "synthetic data of %lld x %lld numbers are too large", (long long)rows,
                   (long long)cols);
  *matrix = (ls_matrix_t){.rows = rows, .cols = cols, .row = row};
  matrix->values = ls_alloc_array(ctx, (size_t)count, ls_dtype_bytes(row.dtype));
  return matrix->values ? LS_OK : LS_ERR_MEMORY;
}

/* Tokens: the first one is random; each further one is a fixed function of the one before, except at a share
 * `noise` of the places, which draw another. The target of a place is the next token, and a sample's class its
 * first token. Values are its tokens as parts of the vocabulary; labels say whether they are in its upper half. */
static ls_status_t make_tokens(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               ls_matrix_t *features, ls_matrix_t *targets) {
  const uint64_t seed = (uint64_t)config->data_seed, ids = (uint64_t)(want->ids > 0 ? want->ids : 1 << 16);
  const uint64_t vocabulary = ids < 1 << 16 ? ids : 1 << 16;
  const int64_t places = want->inputs;
  const ls_shape_t target = !want->classes        ? LS_SHAPE(LS_F32, want->outputs)
                            : want->positions > 0 ? LS_SHAPE(LS_I32, want->positions)
                                                  : (ls_shape_t){.dtype = LS_I32};
  const int64_t each = ls_shape_count(&target), behind = want->positions > 0;
  ls_matrix_t x = {0}, y = {0};
  uint64_t *token = ls_alloc_array(ctx, (size_t)places + 1, sizeof *token);
  ls_status_t status =
      token ? matrix_make(ctx, config->samples, LS_SHAPE(LS_U16, places), &x) : LS_ERR_MEMORY;
  if (status == LS_OK) status = matrix_make(ctx, config->samples, target, &y);
  if (status != LS_OK) goto end;
  x.integers = true;
  y.integers = want->classes;
  for (int64_t i = 0; i < x.rows; i++) {
    for (int64_t t = 0; t <= places; t++) {
      ls_rng4_t words = ls_rng(seed, STREAM_FEATURES, (uint64_t)i << 32 | (uint64_t)t);
      bool drawn = t == 0 || (double)ls_rng_unit(words.v[0]) < config->noise;
      token[t] = drawn ? words.v[1] % vocabulary : (token[t - 1] * 5 + 3) % vocabulary;
      if (t < places) ((uint16_t *)x.values)[i * places + t] = (uint16_t)token[t];
    }
    for (int64_t k = 0; k < each; k++) {
      const uint64_t it = token[k % places + behind];
      const float part = (float)it / (float)vocabulary;
      if (want->classes)
        ((int32_t *)y.values)[i * each + k] = (int32_t)(it % (uint64_t)want->outputs);
      else
        ((float *)y.values)[i * each + k] = want->labels ? part >= 0.5f : part;
    }
  }
  *features = x;
  *targets = y;
  x = y = (ls_matrix_t){0};
end:
  ls_matrix_release(&x);
  ls_matrix_release(&y);
  ls_free(token);
  return status;
}

ls_status_t ls_synthetic_make(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                              ls_matrix_t *features, ls_matrix_t *targets) {
  if (want->whole) return make_tokens(ctx, config, want, features, targets);
  uint64_t seed = (uint64_t)config->data_seed;
  int64_t inputs = config->inputs ? config->inputs : want->inputs;
  int64_t outputs = config->outputs ? config->outputs : want->outputs;
  teacher_t teacher;
  ls_matrix_t x, y;
  ls_status_t status = teacher_make(ctx, seed, inputs, outputs, &teacher);
  if (status != LS_OK) return status;
  status = matrix_make(ctx, config->samples, LS_SHAPE(LS_F32, inputs), &x);
  if (status != LS_OK) goto release_teacher;
  status = matrix_make(ctx, config->samples,
                       want->classes ? (ls_shape_t){.dtype = LS_I32} : LS_SHAPE(LS_F32, outputs), &y);
  if (status != LS_OK) goto release_x;
  y.integers = want->classes;

  for (int64_t i = 0; i < x.rows; i++)
    make_features(seed, i, inputs, (float *)x.values + i * inputs);
  status = make_targets(ctx, &teacher, (float)config->noise, want->labels, &x, &y);
  if (status != LS_OK) goto release_y;
  teacher_release(&teacher);
  *features = x;
  *targets = y;
  return LS_OK;

release_y:
  ls_matrix_release(&y);
release_x:
  ls_matrix_release(&x);
release_teacher:
  teacher_release(&teacher);
  return status;
}
