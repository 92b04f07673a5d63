/* Initialisers: statistics within five standard errors, exact bounds, and dependence on seed and ordinal
 * alone. */
#include "graph/graph.h"

#include <math.h>
#include <string.h>

#include "unit.h"

enum { OUTPUTS = 200, INPUTS = 300, COUNT = OUTPUTS * INPUTS };

static float values[COUNT + 1], again[COUNT + 1];

static void fill(ls_init_kind_t kind, double gain, uint64_t seed, uint32_t ordinal, float *to) {
  ls_init_t init = {kind, gain};
  memset(to, 0xff, sizeof values);
  ls_init_fill(&init, &LS_SHAPE(LS_F32, OUTPUTS, INPUTS), seed, ordinal, 0, COUNT, to);
  assert_true(isnan(to[COUNT])); /* the sentinel */
}

static void assert_moments(double std) {
  double sum = 0, square = 0;
  for (int k = 0; k < COUNT; k++) {
    assert_true(isfinite(values[k]));
    sum += values[k];
    square += (double)values[k] * values[k];
  }
  assert_true(fabs(sum / COUNT) < 5 * std / sqrt(COUNT));
  double measured = sqrt(square / COUNT);
  assert_true(fabs(measured / std - 1) < 5 / sqrt(2.0 * COUNT));
}

static void test_constants(void **state) {
  fill(LS_INIT_ZEROS, 0, 1, 0, values);
  fill(LS_INIT_ONES, 0, 1, 0, again);
  for (int k = 0; k < COUNT; k++)
    assert_true(values[k] == 0 && again[k] == 1);
}

/* About 4.6 % of a normal distribution lie beyond two deviations; of a uniform one none. */
static void assert_normal(double std) {
  assert_moments(std);
  int beyond = 0;
  for (int k = 0; k < COUNT; k++)
    beyond += fabs((double)values[k]) > 2 * std;
  assert_in_range(beyond, COUNT * 0.041, COUNT * 0.050);
}

static void test_kaiming(void **state) {
  fill(LS_INIT_KAIMING, 0, 42, 3, values);
  assert_normal(sqrt(2.0 / INPUTS)); /* He et al. 2015, equation 10 */
  fill(LS_INIT_KAIMING, 1, 42, 3, values);
  assert_moments(sqrt(1.0 / INPUTS));
}

static void test_normal(void **state) {
  fill(LS_INIT_NORMAL, 0.5, 42, 3, values);
  assert_normal(0.5);
}

static void assert_uniform(double bound) {
  float largest = 0;
  assert_moments(bound / sqrt(3));
  for (int k = 0; k < COUNT; k++)
    largest = fmaxf(largest, fabsf(values[k]));
  assert_true(largest <= (float)bound);
  assert_true(largest > 0.999 * bound);
}

static void test_uniform(void **state) {
  fill(LS_INIT_XAVIER, 0, 42, 3, values);
  assert_uniform(sqrt(6.0 / (INPUTS + OUTPUTS))); /* Glorot and Bengio 2010, equation 16 */
  fill(LS_INIT_UNIFORM, 0.25, 42, 3, values);
  assert_uniform(0.25);
}

static void test_pure(void **state) {
  ls_init_kind_t kinds[] = {LS_INIT_NORMAL, LS_INIT_KAIMING, LS_INIT_XAVIER};
  for (int i = 0; i < LS_COUNT(kinds); i++) {
    fill(kinds[i], 0, 42, 3, values);
    fill(kinds[i], 0, 42, 3, again);
    assert_memory_equal(values, again, sizeof(float) * COUNT);
    fill(kinds[i], 0, 43, 3, again);
    assert_memory_not_equal(values, again, sizeof(float) * COUNT);
    fill(kinds[i], 0, 42, 4, again);
    assert_memory_not_equal(values, again, sizeof(float) * COUNT);
  }
}

/* A smaller parameter gets the front of a larger one's numbers: an element depends on its index alone. */
static void test_element_depends_on_its_index(void **state) {
  ls_init_t init = {LS_INIT_NORMAL, 1};
  float few[7];
  ls_init_fill(&init, &LS_SHAPE(LS_F32, 7), 42, 3, 0, 7, few);
  fill(LS_INIT_NORMAL, 1, 42, 3, values);
  assert_memory_equal(few, values, sizeof few);
}

/* Pinned: checkpoints and ranks rely on the very numbers. Element k is number k % 4 of counter k / 4. */
static void test_counters(void **state) {
  float four[4];
  fill(LS_INIT_NORMAL, 1, 42, 3, values);
  for (int k = 0; k < COUNT; k += 997) {
    ls_rng_normal4(42, LS_RNG_INIT + 3, (uint64_t)k / 4, four);
    assert_true(values[k] == four[k % 4]);
  }
  fill(LS_INIT_XAVIER, 0, 42, 3, values);
  double bound = sqrt(6.0 / (INPUTS + OUTPUTS));
  for (int k = 0; k < COUNT; k += 997) {
    float unit = ls_rng_unit(ls_rng(42, LS_RNG_INIT + 3, (uint64_t)k / 4).v[k % 4]);
    assert_true(values[k] == (float)(bound * (2.0 * unit - 1)));
  }
}

TESTS(NULL, NULL, test_constants, test_kaiming, test_normal, test_uniform, test_pure,
      test_element_depends_on_its_index, test_counters)
