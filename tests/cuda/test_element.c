/* What the CUDA kernels compute for one element, on the host: random words as base/rng.h makes them, updates
 * and the step's decision bit for bit as the op rows, activations within f32 rounding of them. */
#include "device/cuda/element.h"
#include "graph/ops/ops.h"
#include "optim/optim.h"

#include <float.h>
#include <string.h>

#include "unit.h"

static void dropout_keeps_from_the_rate_on(void **state) {
  (void)state;
  static const uint64_t counters[] = {0, 1, 0xffffffffu, 0x100000000u, 0x123456789abcdefu, UINT64_MAX};
  for (int i = 0; i < LS_COUNT(counters); i++)
    for (uint64_t seed = 41; seed < 0x300000000u; seed = seed * 7 + 1) {
      uint32_t stream = LS_RNG_DROPOUT + (uint32_t)i;
      ls_rng4_t want = ls_rng(seed, stream, counters[i]);
      for (int k = 0; k < 4; k++) {
        float unit = ls_rng_unit(want.v[k]);
        assert_true(ls_each_dropout(3, want.v[k], unit, 2) == 6); /* at the rate: kept */
        assert_true(ls_each_dropout(3, want.v[k], nextafterf(unit, 2), 2) == 0);
      }
    }
}

static void tree_is_that_of_the_row(void **state) {
  (void)state;
  static const int parts[] = {1, 2, 3, 4, 7, 8, 11, 64, 1000, LS_TREE_PARTS_MAX};
  static float x[LS_TREE_PARTS_MAX];
  for (int i = 0; i < LS_TREE_PARTS_MAX; i++)
    x[i] = ls_rng_unit(ls_rng(3, 9, (uint64_t)i).v[0]) - 0.4f;
  for (int i = 0; i < LS_COUNT(parts); i++) {
    float want;
    ls_tensor_t in = {x, LS_SHAPE(LS_F32, parts[i], 1)}, out = {&want, LS_SHAPE(LS_F32, 1)};
    static const ls_attrs_t attrs;
    ls_kernel_args_t args = {.attrs = &attrs, .in = &in, .in_count = 1, .out = &out, .out_count = 1};
    assert_int_equal(ls_op_tree_sum.forward(NULL, &args), LS_OK);
    float got = ls_each_tree_sum(x, parts[i], 1);
    assert_memory_equal(&got, &want, sizeof want);
  }
}

enum { N = 4099 };

static float value_of(int k) {
  return (float)(ls_rng(7, 5, (uint64_t)k).v[0] % 20001) / 1000.0f - 10;
}

/* Runs an op row of one or two f32 inputs and one output. */
static void run_row(const ls_op_t *op, const float *a, const float *b, float *y) {
  ls_tensor_t in[] = {{(void *)(uintptr_t)a, LS_SHAPE(LS_F32, N)},
                      {(void *)(uintptr_t)b, LS_SHAPE(LS_F32, N)}};
  ls_tensor_t out = {y, LS_SHAPE(LS_F32, N)};
  static const ls_attrs_t attrs;
  ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = op->in_count, .out = &out, .out_count = 1};
  assert_int_equal(op->forward(NULL, &args), LS_OK);
}

static void close_to(const char *op, float got, float want) {
  if (!(fabsf(got - want) <= 5e-7f * (1 + fabsf(want)))) fail_msg("%s: %.9g, must be %.9g", op, got, want);
}

static void activations_are_those_of_the_rows(void **state) {
  (void)state;
  static float x[N], dy[N], want[N];
  for (int k = 0; k < N; k++) {
    x[k] = value_of(k);
    dy[k] = value_of(k + N) / 10;
  }
#define MAP(op)                                                                                              \
  do {                                                                                                       \
    run_row(&ls_op_##op, x, NULL, want);                                                                     \
    for (int k = 0; k < N; k++)                                                                              \
      close_to(#op, ls_each_##op(x[k]), want[k]);                                                            \
  } while (0)
#define ZIP(op)                                                                                              \
  do {                                                                                                       \
    run_row(&ls_op_##op, dy, x, want);                                                                       \
    for (int k = 0; k < N; k++)                                                                              \
      close_to(#op, ls_each_##op(dy[k], x[k]), want[k]);                                                     \
  } while (0)
  MAP(relu);
  MAP(gelu);
  MAP(tanh);
  MAP(sigmoid);
  MAP(gelu_tanh);
  MAP(silu);
  ZIP(relu_dy);
  ZIP(gelu_dx);
  ZIP(gelu_tanh_dx);
  ZIP(silu_dx);
  for (int k = 0; k < N; k++)
    x[k] = 1 / (1 + expf(-x[k])); /* values of an activation */
  ZIP(tanh_dy);
  ZIP(sigmoid_dy);
  assert_true(isnan(ls_each_relu(NAN)));
}

typedef void (*each_fn)(const ls_each_update_t *u, float grad, float *p, float *a, float *b);
static void each_sgd(const ls_each_update_t *u, float grad, float *p, float *a, float *b) {
  (void)a;
  (void)b;
  ls_each_sgd(u, grad, p);
}
static void each_momentum(const ls_each_update_t *u, float grad, float *p, float *a, float *b) {
  (void)b;
  ls_each_momentum(u, grad, p, a);
}

static void check_update(const ls_op_t *op, const ls_attrs_t *attrs, const ls_kernel_update_t *own,
                         each_fn each, int decoupled) {
  float grad[64], ctrl[LS_CTRL_COUNT] = {1, 0.7f, 0.01f, 0.19f, 0.002f}, got[3][64], want[3][64];
  for (int k = 0; k < 64; k++) {
    grad[k] = value_of(k);
    got[0][k] = want[0][k] = value_of(k + 100);
    got[1][k] = want[1][k] = value_of(k + 200);
    got[2][k] = want[2][k] = fabsf(value_of(k + 300));
  }
  ls_shape_t flat = LS_SHAPE(LS_F32, 64);
  ls_tensor_t in[] = {{grad, flat}, {ctrl, LS_SHAPE(LS_F32, LS_CTRL_COUNT)}};
  ls_tensor_t out[] = {{want[0], flat}, {want[1], flat}, {want[2], flat}};
  ls_kernel_args_t args = {.attrs = attrs, .in = in, .in_count = 2, .out = out, .out_count = op->out_count};
  ls_each_update_t u = ls_each_update_begin(own, ctrl, decoupled);
  for (int step = 0; step < 3; step++) {
    assert_int_equal(op->forward(NULL, &args), LS_OK);
    for (int k = 0; k < 64; k++)
      each(&u, grad[k], &got[0][k], &got[1][k], &got[2][k]);
    assert_memory_equal(got, want, sizeof got);
  }
}

static void updates_are_those_of_the_rows(void **state) {
  (void)state;
  for (int nesterov = 0; nesterov < 2; nesterov++) {
    ls_attrs_t sgd = {.i = {nesterov}, .f = {0.9, 0.01}};
    ls_kernel_update_t own = {.momentum = 0.9f, .weight_decay = 0.01f, .nesterov = nesterov};
    check_update(&ls_op_sgd, &sgd, &own, each_sgd, 0);
    check_update(&ls_op_sgd_momentum, &sgd, &own, each_momentum, 0);
  }
  ls_attrs_t adam = {.f = {0.9, 0.999, 1e-8, 0.01}};
  ls_kernel_update_t own = {.beta1 = 0.9f,
                            .rest1 = (float)(1 - 0.9),
                            .beta2 = 0.999f,
                            .rest2 = (float)(1 - 0.999),
                            .eps = 1e-8f,
                            .weight_decay = 0.01f};
  check_update(&ls_op_adam, &adam, &own, ls_each_adam, 0);
  check_update(&ls_op_adamw, &adam, &own, ls_each_adam, 1);
}

static void check_control(float loss, float partial, double clip) {
  float head[LS_HEAD_COUNT] = {loss, 17}, want[3][16], got[3][16], part[2] = {partial, 2.5f};
  ls_step_params_t step = {.seed = 3, .position = 9, .lr = 0.125f};
  ls_attrs_t attrs = {.f = {clip, 0.9, 0.999}};
  ls_kernel_control_t own = {clip, 0.9, 0.999};
  ls_tensor_t in[] = {
      {head, LS_SHAPE(LS_F32, 16)}, {part, LS_SHAPE(LS_F32, 2)}, {&step, LS_SHAPE(LS_U8, 64)}};
  ls_tensor_t out[] = {
      {want[0], LS_SHAPE(LS_F32, 16)}, {want[1], LS_SHAPE(LS_F32, 16)}, {want[2], LS_SHAPE(LS_F32, 16)}};
  ls_kernel_args_t args = {.attrs = &attrs, .in = in, .in_count = 3, .out = out, .out_count = 3};
  memset(want, 0xff, sizeof want);
  memset(got, 0xff, sizeof got);
  memcpy(want[2], (float[16]){5, 2, 1}, sizeof want[2]);
  memcpy(got[2], want[2], sizeof got[2]);
  for (int repeat = 0; repeat < 2; repeat++) {
    assert_int_equal(ls_op_step_control.forward(NULL, &args), LS_OK);
    ls_each_control(&own, head[0], head[1], step.lr, (double)part[0] + part[1], got[0], got[1], got[2]);
    assert_memory_equal(got, want, sizeof got);
  }
}

static void decision_is_that_of_the_row(void **state) {
  (void)state;
  static const float values[] = {0, 1.5f, 1e20f, INFINITY, NAN, -INFINITY};
  for (int i = 0; i < LS_COUNT(values); i++)
    for (int k = 0; k < LS_COUNT(values); k++)
      for (int clip = 0; clip < 3; clip++)
        check_control(values[i], values[k], clip * 0.75);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(dropout_keeps_from_the_rate_on),    cmocka_unit_test(tree_is_that_of_the_row),
      cmocka_unit_test(activations_are_those_of_the_rows), cmocka_unit_test(updates_are_those_of_the_rows),
      cmocka_unit_test(decision_is_that_of_the_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
