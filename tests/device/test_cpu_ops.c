/* The tuned kernels other than products, for every instruction set of this CPU, against double precision:
 * sizes around every vector, poisoned and fenced outputs, in place, and over threads. */
#include "base/half.h"
#include "device/chain.h"
#include "kernel_test.h"

static const int64_t counts[] = {1,  2,  3,  4,  5,  7,   8,   15,  16,   17,
                                 31, 33, 63, 64, 65, 127, 130, 259, 1000, 40003};

typedef void (*body_fn)(bed_t *bed);
static void on_every_instruction_set(body_fn body) {
  const ls_simd_t *list[LS_SIMD_MAX];
  ls_simd_list(list);
  for (int threads = 1; threads <= 3; threads++) {
    bed_t bed = bed_open(threads);
    for (int s = 0; list[s]; s++) {
      ((ls_cpu_device_t *)bed.device)->simd = list[s];
      body(&bed);
    }
    bed_close(&bed);
  }
}

static double want_relu(double x) {
  return x > 0 ? x : 0;
}
static double want_sigmoid(double x) {
  return 1 / (1 + exp(-x));
}
static double cdf(double x) {
  return 0.5 * erfc(-x / sqrt(2));
}
static double want_gelu(double x) {
  return x * cdf(x);
}
static double want_relu_dy(double dy, double y) {
  return y > 0 ? dy : 0;
}
static double want_tanh_dy(double dy, double y) {
  return dy * (1 - y * y);
}
static double want_sigmoid_dy(double dy, double y) {
  return dy * y * (1 - y);
}
static double want_gelu_dx(double dy, double x) {
  return dy * (cdf(x) + x * exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846));
}
static double want_add(double a, double b) {
  return a + b;
}
static double want_mul(double a, double b) {
  return a * b;
}

static const struct {
  const char *op;
  double (*want1)(double);
  double (*want2)(double, double);
  float range;
  double tolerance;
} maps[] = {
    {"relu", want_relu, NULL, 3, 0},
    {"tanh", tanh, NULL, 6, 1e-6},
    {"tanh", tanh, NULL, 100, 1e-6},
    {"sigmoid", want_sigmoid, NULL, 6, 1e-6},
    {"sigmoid", want_sigmoid, NULL, 200, 1e-6},
    {"gelu", want_gelu, NULL, 4, 2e-6},
    {"gelu", want_gelu, NULL, 100, 2e-6},
    {"relu_dy", NULL, want_relu_dy, 2, 0},
    {"tanh_dy", NULL, want_tanh_dy, 2, 1e-6},
    {"sigmoid_dy", NULL, want_sigmoid_dy, 2, 1e-6},
    {"gelu_dx", NULL, want_gelu_dx, 4, 2e-6},
    {"add", NULL, want_add, 2, 1e-7},
    {"mul", NULL, want_mul, 2, 1e-7},
};

static void map_check(bed_t *bed, int row, int64_t count, bool in_place) {
  ls_shape_t shape = LS_SHAPE(LS_F32, count);
  float *a = random_floats(count, 1, -maps[row].range, maps[row].range);
  float *b = random_floats(count, 2, -maps[row].range, maps[row].range);
  float *keep = random_floats(count, 1, -maps[row].range, maps[row].range),
        *y = in_place ? a : guarded(count);
  ls_tensor_t in[] = {{a, shape}, {b, shape}}, out = {y, shape};
  bed_run(bed, maps[row].op,
          &(ls_kernel_args_t){.in = in, .in_count = maps[row].want2 ? 2 : 1, .out = &out, .out_count = 1});
  guarded_check(y, count);
  for (int64_t k = 0; k < count; k++) {
    double want = maps[row].want2 ? maps[row].want2(keep[k], b[k]) : maps[row].want1(keep[k]);
    assert_close(maps[row].op, k, y[k], want, maps[row].tolerance);
  }
  if (!in_place) guarded_free(y);
  guarded_free(keep);
  guarded_free(b);
  guarded_free(a);
}

static void maps_body(bed_t *bed) {
  for (int row = 0; row < LS_COUNT(maps); row++)
    for (int k = 0; k < LS_COUNT(counts); k++)
      map_check(bed, row, counts[k], k % 2);
}
static void maps_match(void **state) {
  on_every_instruction_set(maps_body);
}

static void nan_body(bed_t *bed) {
  for (int row = 0; row < LS_COUNT(maps); row++) {
    if (strcmp(maps[row].op, "relu_dy") == 0) continue; /* y cannot be NaN without dy's loss being NaN */
    float a[40], b[40], y[40];
    for (int k = 0; k < 40; k++)
      a[k] = b[k] = k % 3 ? 0.5f : NAN;
    ls_tensor_t in[] = {{a, LS_SHAPE(LS_F32, 40)}, {b, LS_SHAPE(LS_F32, 40)}},
                out = {y, LS_SHAPE(LS_F32, 40)};
    bed_run(bed, maps[row].op,
            &(ls_kernel_args_t){.in = in, .in_count = maps[row].want2 ? 2 : 1, .out = &out, .out_count = 1});
    for (int k = 0; k < 40; k++)
      assert_int_equal(isnan(y[k]) != 0, k % 3 == 0);
  }
}
static void nan_passes_through(void **state) {
  on_every_instruction_set(nan_body);
}

static void dropout_check(bed_t *bed, int64_t rows, int64_t width, double rate, uint64_t position) {
  int64_t count = rows * width;
  float *x = random_floats(count, 5, -1, 1), *y = guarded(count);
  ls_step_params_t step = {.seed = 0x123456789abcdefu, .position = position};
  ls_shape_t shape = LS_SHAPE(LS_F32, rows, width);
  ls_tensor_t in[] = {{x, shape}, {&step, LS_SHAPE(LS_U8, 64)}}, out = {y, shape};
  ls_attrs_t attrs = {.i = {3}, .f = {rate}};
  bed_run(bed, "dropout",
          &(ls_kernel_args_t){.attrs = &attrs, .in = in, .in_count = 2, .out = &out, .out_count = 1});
  guarded_check(y, count);
  float scale = (float)(1 / (1 - rate));
  for (int64_t k = 0; k < count; k++) {
    int64_t r = k / width, e = k % width;
    uint64_t counter = (position + (uint64_t)r) * (uint64_t)((width + 3) / 4) + (uint64_t)e / 4;
    ls_rng4_t words = ls_rng(step.seed, LS_RNG_DROPOUT + 3, counter);
    float want = ls_rng_unit(words.v[e % 4]) >= (float)rate ? x[k] * scale : 0;
    assert_true(y[k] == want); /* the mask is exact, or ranks would disagree */
  }
  guarded_free(y);
  guarded_free(x);
}

static void dropout_body(bed_t *bed) {
  const double rates[] = {0, 0.2, 0.3, 0.5, 0.999};
  const int64_t widths[] = {1, 2, 3, 4, 7, 8, 31, 32, 33, 36, 64, 100, 799};
  for (int r = 0; r < LS_COUNT(rates); r++)
    for (int w = 0; w < LS_COUNT(widths); w++) {
      dropout_check(bed, 5, widths[w], rates[r], 0);
      dropout_check(bed, 37, widths[w], rates[r], (1ull << 32) - 11);
    }
  dropout_check(bed, 64, 1024, 0.3, 77);
}
static void dropout_masks_are_exact(void **state) {
  on_every_instruction_set(dropout_body);
}

static void norm_check(bed_t *bed, int64_t rows, int64_t width, float centre) {
  int64_t count = rows * width;
  float *x = random_floats(count, 1, centre - 1, centre + 1), *gamma = random_floats(width, 2, 0.5, 1.5),
        *beta = random_floats(width, 3, -1, 1), *dy = random_floats(count, 4, -1, 1);
  float *y = guarded(count), *mean = guarded(rows), *rstd = guarded(rows), *dx = guarded(count),
        *dgamma = guarded(width), *dbeta = guarded(width);
  ls_shape_t full = LS_SHAPE(LS_F32, rows, width), row = LS_SHAPE(LS_F32, rows),
             col = LS_SHAPE(LS_F32, width);
  ls_attrs_t attrs = {.f = {1e-5}};
  ls_tensor_t in[] = {{x, full}, {gamma, col}, {beta, col}}, out[] = {{y, full}, {mean, row}, {rstd, row}};
  ls_tensor_t dx_in[] = {{dy, full}, {x, full}, {gamma, col}, {mean, row}, {rstd, row}}, dx_out = {dx, full};
  ls_tensor_t dgb_in[] = {{dy, full}, {x, full}, {mean, row}, {rstd, row}},
              dgb_out[] = {{dgamma, col}, {dbeta, col}};
  bed_run(bed, "layer_norm",
          &(ls_kernel_args_t){.attrs = &attrs, .in = in, .in_count = 3, .out = out, .out_count = 3});
  bed_run(bed, "layer_norm_dx",
          &(ls_kernel_args_t){.attrs = &attrs, .in = dx_in, .in_count = 5, .out = &dx_out, .out_count = 1});
  bed_run(bed, "layer_norm_dgb",
          &(ls_kernel_args_t){.attrs = &attrs, .in = dgb_in, .in_count = 4, .out = dgb_out, .out_count = 2});
  guarded_check(y, count);
  guarded_check(mean, rows);
  guarded_check(rstd, rows);
  guarded_check(dx, count);
  guarded_check(dgamma, width);
  guarded_check(dbeta, width);
  for (int64_t r = 0; r < rows; r++) {
    const float *xr = x + r * width, *dr = dy + r * width;
    double m = 0, var = 0, g_sum = 0, gh_sum = 0;
    for (int64_t k = 0; k < width; k++)
      m += xr[k] / (double)width;
    for (int64_t k = 0; k < width; k++)
      var += (xr[k] - m) * (xr[k] - m) / (double)width;
    double s = 1 / sqrt(var + 1e-5);
    assert_close("mean", r, mean[r], m, 1e-6);
    assert_close("rstd", r, rstd[r], s, 1e-6);
    for (int64_t k = 0; k < width; k++)
      assert_close("y", k, y[r * width + k], (xr[k] - m) * s * gamma[k] + beta[k], 1e-6);
    m = mean[r]; /* the gradients get what was stored */
    s = rstd[r];
    for (int64_t k = 0; k < width; k++) {
      g_sum += (double)dr[k] * gamma[k];
      gh_sum += (double)dr[k] * gamma[k] * (xr[k] - m) * s;
    }
    for (int64_t k = 0; k < width; k++)
      assert_close(
          "dx", k, dx[r * width + k] / s,
          (double)dr[k] * gamma[k] - g_sum / (double)width - (xr[k] - m) * s * gh_sum / (double)width, 3e-6);
  }
  for (int64_t k = 0; k < width; k++) {
    double want_gamma = 0, want_beta = 0;
    for (int64_t r = 0; r < rows; r++) {
      want_gamma += (double)dy[r * width + k] * ((double)x[r * width + k] - mean[r]) * rstd[r];
      want_beta += dy[r * width + k];
    }
    assert_close("dgamma", k, dgamma[k], want_gamma, 1e-5);
    assert_close("dbeta", k, dbeta[k], want_beta, 1e-5);
  }
  float *const all[] = {x, gamma, beta, dy, y, mean, rstd, dx, dgamma, dbeta};
  for (int k = 0; k < LS_COUNT(all); k++)
    guarded_free(all[k]);
}

static void norm_body(bed_t *bed) {
  const int64_t widths[] = {2, 3, 15, 16, 17, 33, 64, 131, 1027};
  for (int w = 0; w < LS_COUNT(widths); w++) {
    norm_check(bed, 1, widths[w], 0);
    norm_check(bed, 37, widths[w], 0);
    if (widths[w] > 15) norm_check(bed, 5, widths[w], 1000);
  }
}
static void layer_norm_matches(void **state) {
  on_every_instruction_set(norm_body);
}

static void xent_check(bed_t *bed, int64_t rows, int64_t classes, float spread) {
  int64_t count = rows * classes;
  float *x = random_floats(count, 1, -spread, spread), *weight = random_floats(rows, 2, 0, 1),
        *p = guarded(count), *loss = guarded(1), *correct = guarded(1), *dx = guarded(count);
  int32_t *target = malloc((size_t)rows * sizeof *target);
  assert_non_null(target);
  for (int64_t r = 0; r < rows; r++)
    target[r] = (int32_t)((r * 7 + r / 3) % classes);
  weight[rows - 1] = rows > 1 ? 0 : 1; /* a padding row */
  ls_shape_t full = LS_SHAPE(LS_F32, rows, classes), row = LS_SHAPE(LS_F32, rows), one = LS_SHAPE(LS_F32, 1);
  ls_tensor_t in[] = {{x, full}, {target, LS_SHAPE(LS_I32, rows)}, {weight, row}};
  ls_tensor_t out[] = {{loss, one}, {correct, one}, {p, full}};
  bed_run(bed, "softmax_xent", &(ls_kernel_args_t){.in = in, .in_count = 3, .out = out, .out_count = 3});
  float dloss = 0.75f;
  ls_tensor_t dx_in[] = {{&dloss, one}, {p, full}, in[1], in[2]}, dx_out = {dx, full};
  bed_run(bed, "softmax_xent_dx",
          &(ls_kernel_args_t){.in = dx_in, .in_count = 4, .out = &dx_out, .out_count = 1});
  guarded_check(p, count);
  guarded_check(loss, 1);
  guarded_check(correct, 1);
  guarded_check(dx, count);
  double want_loss = 0, want_correct = 0;
  for (int64_t r = 0; r < rows; r++) {
    const float *xr = x + r * classes;
    int64_t best = 0;
    double sum = 0;
    for (int64_t c = 1; c < classes; c++)
      if (xr[c] > xr[best]) best = c;
    for (int64_t c = 0; c < classes; c++)
      sum += exp((double)xr[c] - xr[best]);
    want_loss += weight[r] * (log(sum) + xr[best] - xr[target[r]]);
    want_correct += weight[r] > 0 && best == target[r];
    for (int64_t c = 0; c < classes; c++) {
      double want = exp((double)xr[c] - xr[best]) / sum;
      assert_close("p", c, p[r * classes + c], want, 1e-6);
      assert_close("dx", c, dx[r * classes + c], dloss * weight[r] * (want - (c == target[r])), 1e-6);
    }
  }
  assert_close("loss", 0, loss[0], want_loss, 2e-6);
  assert_true(correct[0] == (float)want_correct);
  free(target);
  float *const all[] = {x, weight, p, loss, correct, dx};
  for (int k = 0; k < LS_COUNT(all); k++)
    guarded_free(all[k]);
}

static void xent_body(bed_t *bed) {
  xent_check(bed, 1, 1, 2);
  xent_check(bed, 5, 2, 2);
  xent_check(bed, 33, 10, 3);
  xent_check(bed, 4, 17, 300);
  xent_check(bed, 1025, 10, 4);
  xent_check(bed, 17, 1003, 4);
}
static void softmax_cross_entropy_matches(void **state) {
  on_every_instruction_set(xent_body);
}

static void a_class_out_of_range_is_nan(void **state) {
  bed_t bed = bed_open(1);
  float x[6] = {1, 2, 3, 4, 5, 6}, w[2] = {0.5f, 0.5f}, p[6], loss, correct;
  const int32_t bad[] = {-1, 3, INT32_MAX, INT32_MIN};
  for (int k = 0; k < LS_COUNT(bad); k++) {
    int32_t target[2] = {0, bad[k]};
    ls_shape_t full = LS_SHAPE(LS_F32, 2, 3), one = LS_SHAPE(LS_F32, 1);
    ls_tensor_t in[] = {{x, full}, {target, LS_SHAPE(LS_I32, 2)}, {w, LS_SHAPE(LS_F32, 2)}};
    ls_tensor_t out[] = {{&loss, one}, {&correct, one}, {p, full}};
    bed_run(&bed, "softmax_xent", &(ls_kernel_args_t){.in = in, .in_count = 3, .out = out, .out_count = 3});
    assert_true(isnan(loss));
  }
  bed_close(&bed);
}

static void mse_body(bed_t *bed) {
  const int64_t shapes[][2] = {{1, 1}, {3, 7}, {33, 1}, {37, 65}, {517, 192}};
  for (int s = 0; s < LS_COUNT(shapes); s++) {
    int64_t rows = shapes[s][0], width = shapes[s][1], count = rows * width;
    float *x = random_floats(count, 1, -1, 1), *t = random_floats(count, 2, -1, 1),
          *w = random_floats(rows, 3, 0, 1);
    float *loss = guarded(1), *correct = guarded(1), *dx = guarded(count), dloss = 0.5f;
    ls_shape_t full = LS_SHAPE(LS_F32, rows, width), one = LS_SHAPE(LS_F32, 1);
    ls_tensor_t in[] = {{x, full}, {t, full}, {w, LS_SHAPE(LS_F32, rows)}},
                out[] = {{loss, one}, {correct, one}};
    ls_tensor_t dx_in[] = {{&dloss, one}, in[0], in[1], in[2]}, dx_out = {dx, full};
    bed_run(bed, "mse", &(ls_kernel_args_t){.in = in, .in_count = 3, .out = out, .out_count = 2});
    bed_run(bed, "mse_dx", &(ls_kernel_args_t){.in = dx_in, .in_count = 4, .out = &dx_out, .out_count = 1});
    guarded_check(loss, 1);
    guarded_check(correct, 1);
    guarded_check(dx, count);
    double want = 0;
    for (int64_t k = 0; k < count; k++) {
      double d = (double)x[k] - t[k], scale = w[k / width] / (double)width;
      want += scale * d * d;
      assert_close("dx", k, dx[k], dloss * scale * 2 * d, 3e-7);
    }
    assert_close("loss", 0, loss[0], want, 1e-6);
    assert_true(correct[0] == 0);
    float *const all[] = {x, t, w, loss, correct, dx};
    for (int k = 0; k < LS_COUNT(all); k++)
      guarded_free(all[k]);
  }
}
static void mse_matches(void **state) {
  on_every_instruction_set(mse_body);
}

static void sum_body(bed_t *bed) {
  for (int k = 0; k < LS_COUNT(counts); k++) {
    int64_t count = counts[k];
    float *x = random_floats(count, 1, 900, 1000), *y = guarded(1), *acc = random_floats(count, 2, -1, 1),
          *before = random_floats(count, 2, -1, 1);
    ls_tensor_t in = {x, LS_SHAPE(LS_F32, count)}, out = {y, LS_SHAPE(LS_F32, 1)},
                total = {acc, LS_SHAPE(LS_F32, count)};
    bed_run(bed, "sumsq", &(ls_kernel_args_t){.in = &in, .in_count = 1, .out = &out, .out_count = 1});
    bed_run(bed, "accumulate", &(ls_kernel_args_t){.in = &in, .in_count = 1, .out = &total, .out_count = 1});
    guarded_check(y, 1);
    guarded_check(acc, count);
    double want = 0;
    for (int64_t e = 0; e < count; e++)
      want += (double)x[e] * x[e];
    assert_true(y[0] == (float)want || fabs(y[0] / want - 1) < 1.2e-7);
    for (int64_t e = 0; e < count; e++)
      assert_true(acc[e] == before[e] + x[e]);
    float *const all[] = {x, y, acc, before};
    for (int i = 0; i < LS_COUNT(all); i++)
      guarded_free(all[i]);
  }
}
static void sums_match(void **state) {
  on_every_instruction_set(sum_body);
}

enum { APPLY, GRAD_SCALE, LR, BIAS1, BIAS2 }; /* of ctrl, optim.h */

static void update_check(bed_t *bed, const char *op, int64_t count, const ls_attrs_t *attrs, int slots,
                         bool apply) {
  float *g = random_floats(count, 1, -1, 1), *p = random_floats(count, 2, -1, 1),
        *m = random_floats(count, 3, -1, 1), *v = random_floats(count, 4, 0, 1);
  float *p0 = random_floats(count, 2, -1, 1), *m0 = random_floats(count, 3, -1, 1),
        *v0 = random_floats(count, 4, 0, 1);
  float ctrl[16] = {apply, 0.5f, 0.125f, 0.1f, 0.001f};
  ls_shape_t shape = LS_SHAPE(LS_F32, count);
  ls_tensor_t in[] = {{g, shape}, {ctrl, LS_SHAPE(LS_F32, 16)}}, out[] = {{p, shape}, {m, shape}, {v, shape}};
  bed_run(bed, op,
          &(ls_kernel_args_t){.attrs = attrs, .in = in, .in_count = 2, .out = out, .out_count = 1 + slots});
  guarded_check(p, count);
  guarded_check(m, count);
  guarded_check(v, count);
  const double *f = attrs->f, lr = ctrl[LR];
  for (int64_t k = 0; k < count; k++) {
    double wp = p0[k], wm = m0[k], wv = v0[k], grad = (double)g[k] * ctrl[GRAD_SCALE];
    if (apply && strncmp(op, "sgd", 3) == 0) {
      grad += f[1] * wp;
      if (slots) wm = f[0] * wm + grad;
      wp -= lr * (!slots ? grad : attrs->i[0] ? grad + f[0] * wm : wm);
    } else if (apply) {
      if (strcmp(op, "adam") == 0)
        grad += f[3] * wp;
      else
        wp -= lr * f[3] * wp;
      wm = f[0] * wm + (1 - f[0]) * grad;
      wv = f[1] * wv + (1 - f[1]) * grad * grad;
      wp -= lr * (wm / ctrl[BIAS1]) / (sqrt(wv / ctrl[BIAS2]) + f[2]);
    }
    assert_close("p", k, p[k], wp, apply ? 1e-6 : 0);
    assert_close("slot 0", k, m[k], wm, apply ? 1e-6 : 0);
    assert_close("slot 1", k, v[k], wv, apply ? 1e-6 : 0);
  }
  float *const all[] = {g, p, m, v, p0, m0, v0};
  for (int i = 0; i < LS_COUNT(all); i++)
    guarded_free(all[i]);
}

static void update_body(bed_t *bed) {
  const ls_attrs_t sgd = {.f = {0.9, 0.01}}, nesterov = {.f = {0.9, 0.01}, .i = {1}},
                   adam = {.f = {0.9, 0.999, 1e-8, 0.01}};
  for (int k = 0; k < LS_COUNT(counts); k++)
    for (int apply = 0; apply < 2; apply++) {
      update_check(bed, "sgd", counts[k], &sgd, 0, apply);
      update_check(bed, "sgd_momentum", counts[k], &sgd, 1, apply);
      update_check(bed, "sgd_momentum", counts[k], &nesterov, 1, apply);
      update_check(bed, "adam", counts[k], &adam, 2, apply);
      update_check(bed, "adamw", counts[k], &adam, 2, apply);
    }
}
static void updates_match(void **state) {
  on_every_instruction_set(update_body);
}

/* Replicas on different CPUs must stay equal after the same update: every instruction set gives the bits of
 * the portable loops. */
static void updates_are_the_same_bits_everywhere(void **state) {
  enum { COUNT = 1003 };
  const ls_simd_t *list[LS_SIMD_MAX], *base = NULL;
  ls_simd_list(list);
  for (int s = 0; list[s]; s++)
    base = list[s];
  const ls_simd_adam_t constants = {.beta1 = 0.9f,
                                    .beta2 = 0.999f,
                                    .rest1 = 0.1f,
                                    .rest2 = 0.001f,
                                    .eps = 1e-8f,
                                    .grad_scale = 0.7f,
                                    .decay_grad = 0.01f,
                                    .shrink = 0.001f,
                                    .step_size = 0.013f,
                                    .inv_sqrt_bias2 = 31.6f};
  for (int s = 0; list[s]; s++) {
    float *g = random_floats(COUNT, 1, -1, 1), *p[2], *m[2], *v[2];
    for (int i = 0; i < 2; i++) {
      const ls_simd_t *simd = i ? list[s] : base;
      p[i] = random_floats(COUNT, 2, -1, 1);
      m[i] = random_floats(COUNT, 3, -1, 1);
      v[i] = random_floats(COUNT, 4, 0, 1);
      simd->sgd(COUNT, 0.1f, 0.7f, 0.01f, g, p[i]);
      simd->sgd_momentum(COUNT, 0.1f, 0.7f, 0.01f, 0.9f, true, g, p[i], m[i]);
      simd->sgd_momentum(COUNT, 0.1f, 0.7f, 0.01f, 0.9f, false, g, p[i], m[i]);
      simd->adam(COUNT, &constants, g, p[i], m[i], v[i]);
    }
    assert_memory_equal(p[0], p[1], COUNT * sizeof(float));
    assert_memory_equal(m[0], m[1], COUNT * sizeof(float));
    assert_memory_equal(v[0], v[1], COUNT * sizeof(float));
    float *const all[] = {g, p[0], p[1], m[0], m[1], v[0], v[1]};
    for (int k = 0; k < LS_COUNT(all); k++)
      guarded_free(all[k]);
  }
}

/* ---- recurrent chains: of 13 samples together, and of each alone ---- */

typedef struct {
  const char *op;
  int gates, in_count, out_count, w;
  int width[5]; /* of the inputs' rows, in h; w and the bias have their own shapes */
  int out[3];
} chain_case_t;
static const chain_case_t chains[] = {{"lstm_chain", 4, 2, 3, 1, {4, 0}, {1, 1, 4}},
                                      {"gru_chain", 3, 3, 3, 1, {3, 0, 0}, {1, 3, 1}},
                                      {"lstm_chain_dx", 4, 4, 1, 3, {1, 1, 4, 0}, {4}},
                                      {"gru_chain_dx", 3, 5, 2, 4, {1, 1, 3, 1, 0}, {3, 3}}};
enum { CHAIN_T = 3 };

/* Of `n` samples from `first` on; in and out hold all of them. */
static void run_chain(bed_t *bed, const chain_case_t *c, int64_t h, int64_t first, int64_t n, int back,
                      float *const *in, float *const *out) {
  ls_tensor_t from[5], to[3];
  const ls_attrs_t attrs = {.i = {back}};
  const int64_t scratch_floats = ls_chain_packed_floats(c->gates, h) + ls_chain_carried_floats(n, h);
  float *scratch = guarded(scratch_floats);
  for (int i = 0; i < c->in_count; i++)
    from[i] = i == c->w      ? (ls_tensor_t){in[i], LS_SHAPE(LS_F32, c->gates * h, h)}
              : !c->width[i] ? (ls_tensor_t){in[i], LS_SHAPE(LS_F32, h)}
                             : (ls_tensor_t){in[i] + first * CHAIN_T * c->width[i] * h,
                                             LS_SHAPE(LS_F32, n, CHAIN_T, c->width[i] * h)};
  for (int i = 0; i < c->out_count; i++)
    to[i] =
        (ls_tensor_t){out[i] + first * CHAIN_T * c->out[i] * h, LS_SHAPE(LS_F32, n, CHAIN_T, c->out[i] * h)};
  bed_run(bed, c->op,
          &(ls_kernel_args_t){.attrs = &attrs,
                              .in = from,
                              .in_count = c->in_count,
                              .out = to,
                              .out_count = c->out_count,
                              .scratch = scratch});
  guarded_check(scratch, scratch_floats);
  guarded_free(scratch);
}

static void chain_check(bed_t *bed, const chain_case_t *c, int64_t h, int back) {
  enum { N = 13, WAYS = 3 }; /* together, alone, by the portable loops */
  ls_cpu_device_t *cpu = (ls_cpu_device_t *)bed->device;
  const ls_simd_t *simd = cpu->simd, *list[LS_SIMD_MAX];
  float *in[5], *out[WAYS][3];
  ls_simd_list(list);
  for (int i = 0; i < c->in_count; i++)
    in[i] = random_floats(i == c->w     ? c->gates * h * h
                          : c->width[i] ? N * CHAIN_T * c->width[i] * h
                                        : h,
                          1 + (uint64_t)i, i == c->w ? -0.2f : 0.1f, i == c->w ? 0.2f : 0.9f);
  for (int way = 0; way < WAYS; way++) {
    for (int i = 0; i < c->out_count; i++)
      out[way][i] = guarded(N * CHAIN_T * c->out[i] * h);
    for (int s = 0; way == 2 && list[s]; s++)
      cpu->simd = list[s];
    for (int64_t r = 0; r < N; r += way == 1 ? 1 : N)
      run_chain(bed, c, h, r, way == 1 ? 1 : N, back, in, out[way]);
    cpu->simd = simd;
  }
  for (int i = 0; i < c->out_count; i++) {
    int64_t count = N * CHAIN_T * c->out[i] * h;
    for (int way = 0; way < WAYS; way++)
      guarded_check(out[way][i], count);
    assert_memory_equal(out[0][i], out[1][i], (size_t)count * sizeof(float));
    for (int64_t k = 0; k < count; k++)
      assert_close(c->op, k, out[0][i][k], out[2][i][k], 2e-5);
    for (int way = 0; way < WAYS; way++)
      guarded_free(out[way][i]);
  }
  for (int i = 0; i < c->in_count; i++)
    guarded_free(in[i]);
}

/* Widths of panels with one, two, three and four vectors, whole and not. */
static void chain_body(bed_t *bed) {
  static const int64_t widths[] = {1, 5, 16, 23, 32, 47, 50, 64, 100};
  for (int k = 0; k < LS_COUNT(widths); k++)
    for (int i = 0; i < LS_COUNT(chains); i++)
      chain_check(bed, &chains[i], widths[k], k % 2);
}
static void bits_of_a_chain_depend_on_its_sample_alone(void **state) {
  on_every_instruction_set(chain_body);
}

TESTS(NULL, NULL, bits_of_a_chain_depend_on_its_sample_alone, maps_match, nan_passes_through,
      dropout_masks_are_exact, layer_norm_matches, softmax_cross_entropy_matches, a_class_out_of_range_is_nan,
      mse_matches, sums_match, updates_match, updates_are_the_same_bits_everywhere)
