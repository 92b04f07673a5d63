/* Known values: the plain C versions are the oracle of every backend, so something outside must vouch for
 * them. Numbers marked "PyTorch" were computed with PyTorch 1.13 (f64 where that matters). */
#include "graph/ops/ops.h"
#include "graph/run_op.h"

#include <math.h>

#include "unit.h"

static void assert_close(const float *got, const double *want, int count) {
  for (int k = 0; k < count; k++)
    if (!(fabs(got[k] - want[k]) <= 1e-6 * (1 + fabs(want[k]))))
      fail_msg("element %d is %.9g, must be %.9g", k, (double)got[k], want[k]);
}

static void test_linear(void **state) {
  float x[] = {0.5f, -1.25f, 2, 3, 0.125f, -0.75f}, w[] = {1, -0.5f, 0.25f, 0.75f, 2, -1.5f};
  float b[] = {0.1f, -0.2f}, dy[] = {1, -2, 0.5f, 0.25f}, y[4], dx[6], dw[6], db[2];
  ls_tensor_t in[] = {F32(x, 2, 3), F32(w, 2, 3), F32(b, 2)}, out = OUT(y);
  assert_int_equal(run_op(&ls_op_linear, NULL, in, &out), LS_OK);
  assert_close(y, (double[]){1.725, -5.325, 2.85, 3.425}, 4); /* PyTorch */
  ls_tensor_t dx_in[] = {F32(dy, 2, 2), F32(w, 2, 3)}, dx_out = OUT(dx);
  assert_int_equal(run_op(&ls_op_linear_dx, NULL, dx_in, &dx_out), LS_OK);
  assert_close(dx, (double[]){-0.5, -4.5, 3.25, 0.6875, 0.25, -0.25}, 6);
  ls_tensor_t dwb_in[] = {F32(dy, 2, 2), F32(x, 2, 3)}, dwb_out[] = {OUT(dw), OUT(db)};
  assert_int_equal(run_op(&ls_op_linear_dwb, NULL, dwb_in, dwb_out), LS_OK);
  assert_close(dw, (double[]){2, -1.1875, 1.625, -0.25, 2.53125, -4.1875}, 6);
  assert_close(db, (double[]){1.5, -1.75}, 2);
}

/* 1e8 swallows a single 1: which ones survive shows the order. */
static void test_tree_sum(void **state) {
  float parts[] = {1e8f, 1e8f, -1e8f, 1, 1, -1e8f, 1, 1}, y[2];
  ls_tensor_t in = F32(parts, 4, 2), out = OUT(y);
  assert_int_equal(run_op(&ls_op_tree_sum, NULL, &in, &out), LS_OK);
  assert_true(y[0] == 2); /* (1e8 - 1e8) + (1 + 1) */
  assert_true(y[1] == 0); /* (1e8 + 1) + (-1e8 + 1); in a chain it would be 1 */
}

static void activation(const ls_op_t *op, const ls_op_t *slope, bool from_value, const double *want,
                       const double *want_slope) {
  float x[] = {-3, -0.5f, 0, 0.25f, 1, 4}, one[] = {1, 1, 1, 1, 1, 1}, y[6], dx[6];
  ls_tensor_t in = F32(x, 6), out = OUT(y), dx_out = OUT(dx);
  assert_int_equal(run_op(op, NULL, &in, &out), LS_OK);
  assert_close(y, want, 6);
  ls_tensor_t dx_in[] = {F32(one, 6), F32(from_value ? y : x, 6)};
  assert_int_equal(run_op(slope, NULL, dx_in, &dx_out), LS_OK);
  assert_close(dx, want_slope, 6);
}

static void test_activations(void **state) { /* PyTorch */
  activation(&ls_op_relu, &ls_op_relu_dy, true, (double[]){0, 0, 0, 0.25, 1, 4},
             (double[]){0, 0, 0, 1, 1, 1});
  activation(&ls_op_gelu, &ls_op_gelu_dx, false,
             (double[]){-0.00404969409, -0.154268769, 0, 0.149676581, 0.841344746, 3.99987332},
             (double[]){-0.0119456472, 0.132504875, 0.5, 0.695373355, 1.08331547, 1.00050365});
  activation(&ls_op_tanh, &ls_op_tanh_dy, true,
             (double[]){-0.995054754, -0.462117157, 0, 0.244918662, 0.761594156, 0.9993293},
             (double[]){0.00986603717, 0.786447733, 1, 0.940014849, 0.419974342, 0.00134095068});
  activation(&ls_op_sigmoid, &ls_op_sigmoid_dy, true,
             (double[]){0.0474258732, 0.377540669, 0.5, 0.562176501, 0.731058579, 0.98201379},
             (double[]){0.0451766597, 0.235003712, 0.25, 0.246134083, 0.196611933, 0.0176627062});
}

static void test_relu_keeps_nan(void **state) {
  float x[] = {NAN, -INFINITY, INFINITY}, y[3];
  ls_tensor_t in = F32(x, 3), out = OUT(y);
  assert_int_equal(run_op(&ls_op_relu, NULL, &in, &out), LS_OK);
  assert_true(isnan(y[0]));
  assert_true(y[1] == 0 && isinf(y[2]));
}

static void test_layer_norm(void **state) { /* PyTorch */
  float x[] = {1, 2, 4, -1, 0.5f, 0.5f, 0.25f, 1}, gamma[] = {1, 0.5f, 2, -1},
        beta[] = {0, 0.1f, -0.1f, 0.5f};
  float dy[] = {1, -1, 0.5f, 2, 0.25f, 1, -1, 0.5f}, y[8], mean[2], rstd[2], dx[8], dgamma[4], dbeta[4];
  ls_attrs_t attrs = {.f = {1e-5}};
  ls_tensor_t in[] = {F32(x, 2, 4), F32(gamma, 4), F32(beta, 4)}, out[] = {OUT(y), OUT(mean), OUT(rstd)};
  assert_int_equal(run_op(&ls_op_layer_norm, &attrs, in, out), LS_OK);
  assert_close(y,
               (double[]){-0.277349671, 0.238674836, 2.67349671, 1.88674836, -0.22940028, -0.01470014,
                          -2.3940028, -1.10580196},
               8);
  assert_close(mean, (double[]){1.5, 0.5625}, 2);
  ls_tensor_t dx_in[] = {F32(dy, 2, 4), F32(x, 2, 4), F32(gamma, 4), F32(mean, 2), F32(rstd, 2)};
  ls_tensor_t dx_out = OUT(dx);
  assert_int_equal(run_op(&ls_op_layer_norm_dx, &attrs, dx_in, &dx_out), LS_OK);
  assert_close(dx,
               (double[]){0.768044801, -0.352020294, -0.09600344, -0.320021067, 2.80106075, 3.71866187,
                          -4.34671868, -2.17300394},
               8);
  ls_tensor_t dgb_in[] = {F32(dy, 2, 4), F32(x, 2, 4), F32(mean, 2), F32(rstd, 2)};
  ls_tensor_t dgb_out[] = {OUT(dgamma), OUT(dbeta)};
  assert_int_equal(run_op(&ls_op_layer_norm_dgb, &attrs, dgb_in, dgb_out), LS_OK);
  assert_close(dgamma, (double[]){-0.334699741, -0.506749951, 1.84037558, -1.97059573}, 4);
  assert_close(dbeta, (double[]){1.25, 0, -0.5, 2.5}, 4);
}

/* The second row ties (classes 0 and 2): the first wins, so class 2 is not correct. The third is padding. */
static void test_softmax_xent(void **state) { /* PyTorch */
  float x[] = {1, 2, 0.5f, 3, -1, 3, 0, 0, 0}, weight[] = {0.5f, 0.25f, 0}, loss, correct, p[9], dx[9],
        one = 1;
  int32_t target[] = {1, 2, 0};
  ls_tensor_t classes = {target, LS_SHAPE(LS_I32, 3)};
  ls_tensor_t in[] = {F32(x, 3, 3), classes, F32(weight, 3)}, out[] = {OUT(&loss), OUT(&correct), OUT(p)};
  assert_int_equal(run_op(&ls_op_softmax_xent, NULL, in, out), LS_OK);
  assert_close(&loss, (double[]){0.407750222}, 1);
  assert_true(correct == 1);
  assert_close(p,
               (double[]){0.231223898, 0.628531719, 0.140244383, 0.495462643, 0.00907471484, 0.495462643,
                          1 / 3.0, 1 / 3.0, 1 / 3.0},
               9);
  ls_tensor_t dx_in[] = {F32(&one, 1), F32(p, 3, 3), classes, F32(weight, 3)}, dx_out = OUT(dx);
  assert_int_equal(run_op(&ls_op_softmax_xent_dx, NULL, dx_in, &dx_out), LS_OK);
  assert_close(
      dx,
      (double[]){0.115611949, -0.18573414, 0.0701221916, 0.123865661, 0.00226867871, -0.126134339, 0, 0, 0},
      9);
}

static void test_softmax_xent_refuses_a_class_that_is_not_there(void **state) {
  float x[] = {1, 2}, weight[] = {1}, loss, correct, p[2];
  for (int32_t target = -1; target <= 2; target += 3) {
    ls_tensor_t in[] = {F32(x, 1, 2), {&target, LS_SHAPE(LS_I32, 1)}, F32(weight, 1)};
    ls_tensor_t out[] = {OUT(&loss), OUT(&correct), OUT(p)};
    assert_int_equal(run_op(&ls_op_softmax_xent, NULL, in, out), LS_OK);
    assert_true(isnan(loss));
    assert_true(correct == 0);
  }
}

static void test_mse(void **state) { /* PyTorch */
  float x[] = {1, 2, 0.5f, -1, 7, 8}, target[] = {0.5f, 1, 1, 1, 0, 0}, weight[] = {0.5f, 0.25f, 0};
  float loss, correct, dx[6], one = 1;
  ls_tensor_t in[] = {F32(x, 3, 2), F32(target, 3, 2), F32(weight, 3)}, out[] = {OUT(&loss), OUT(&correct)};
  assert_int_equal(run_op(&ls_op_mse, NULL, in, out), LS_OK);
  assert_close(&loss, (double[]){0.84375}, 1);
  assert_true(correct == 0);
  ls_tensor_t dx_in[] = {F32(&one, 1), in[0], in[1], in[2]}, dx_out = OUT(dx);
  assert_int_equal(run_op(&ls_op_mse_dx, NULL, dx_in, &dx_out), LS_OK);
  assert_close(dx, (double[]){0.25, 0.5, -0.125, -0.5, 0, 0}, 6);
}

static void test_losses_let_nan_through(void **state) {
  float x[] = {NAN, 1}, target[] = {0, 0}, weight[] = {1}, loss, correct, p[2];
  int32_t class = 0;
  ls_tensor_t in[] = {F32(x, 1, 2), F32(target, 1, 2), F32(weight, 1)},
              out[] = {OUT(&loss), OUT(&correct), OUT(p)};
  assert_int_equal(run_op(&ls_op_mse, NULL, in, out), LS_OK);
  assert_true(isnan(loss));
  in[1] = (ls_tensor_t){&class, LS_SHAPE(LS_I32, 1)};
  assert_int_equal(run_op(&ls_op_softmax_xent, NULL, in, out), LS_OK);
  assert_true(isnan(loss));
}

enum { DROP_ROWS = 7, DROP_COLS = 6 };

static void dropped(uint64_t position, int rows, double rate, float *y) {
  float x[DROP_ROWS * DROP_COLS];
  for (int k = 0; k < rows * DROP_COLS; k++)
    x[k] = 1;
  ls_step_params_t step = {.seed = 5, .position = position};
  ls_attrs_t attrs = {.i = {3}, .f = {rate}};
  ls_tensor_t in[] = {F32(x, rows, DROP_COLS), {&step, LS_SHAPE(LS_U8, 64)}}, out = OUT(y);
  assert_int_equal(run_op(&ls_op_dropout, &attrs, in, &out), LS_OK);
}

/* The contract in ops.h, word by word. */
static void test_dropout_mask(void **state) {
  float y[DROP_ROWS * DROP_COLS];
  dropped(100, DROP_ROWS, 0.25, y);
  for (uint64_t r = 0; r < DROP_ROWS; r++)
    for (uint64_t e = 0; e < DROP_COLS; e++) {
      ls_rng4_t words = ls_rng(5, LS_RNG_DROPOUT + 3, (100 + r) * 2 + e / 4);
      float want = ls_rng_unit(words.v[e % 4]) >= 0.25f ? (float)(1 / 0.75) : 0;
      assert_true(y[r * DROP_COLS + e] == want);
    }
}

/* The separator belongs to the text that it ends; texts behind the last row share it. */
static void test_segments_begin_behind_a_separator(void **state) {
  enum { ROWS = 2, PLACES = 7, SEPARATOR = 9 };
  uint8_t ids[ROWS * PLACES] = {1, 2, 9, 3, 9, 4, 9, 9, 9, 9, 9, 0, 1, 2};
  const int32_t want[ROWS * PLACES] = {0, 0, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1};
  int32_t got[ROWS * PLACES];
  const ls_attrs_t attrs = {.i = {SEPARATOR, 0, 1}};
  ls_tensor_t in[] = {{ids, LS_SHAPE(LS_U8, ROWS, PLACES)}}, out = {got, LS_SHAPE(LS_I32, ROWS, PLACES)};
  assert_int_equal(run_op(&ls_op_segments, &attrs, in, &out), LS_OK);
  assert_memory_equal(got, want, sizeof want);
}

/* Splitting a batch over ranks gives the same mask, row by row. */
static void test_dropout_does_not_depend_on_the_split(void **state) {
  float whole[DROP_ROWS * DROP_COLS], parts[DROP_ROWS * DROP_COLS];
  dropped(40, DROP_ROWS, 0.5, whole);
  dropped(40, 3, 0.5, parts);
  dropped(43, 4, 0.5, parts + 3 * DROP_COLS);
  assert_memory_equal(whole, parts, sizeof whole);
}

/* "Kept when the unit is >= rate": a unit that equals the rate is kept, so that rate 0 keeps everything. */
static void test_dropout_keeps_equality(void **state) {
  float y[DROP_ROWS * DROP_COLS], unit = ls_rng_unit(ls_rng(5, LS_RNG_DROPOUT + 3, 100 * 2).v[2]);
  dropped(100, 1, unit, y);
  assert_true(y[2] == (float)(1 / (1 - (double)unit)));
}

static void test_dropout_rate(void **state) {
  float y[DROP_ROWS * DROP_COLS];
  int kept = 0;
  for (uint64_t position = 0; position < 7000; position += DROP_ROWS) {
    dropped(position, DROP_ROWS, 0.3, y);
    for (int k = 0; k < DROP_ROWS * DROP_COLS; k++)
      kept += y[k] != 0;
  }
  assert_in_range(kept, 42000 * 0.69, 42000 * 0.71); /* 0.7 with a deviation of 0.0022 */
}

static void test_reduce(void **state) {
  float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, y[4], dy[] = {2, 4}, dx[12];
  ls_tensor_t in = F32(x, 2, 2, 3), out = OUT(y);
  assert_int_equal(run_op(&ls_op_reduce, &(ls_attrs_t){.i = {1, 0}}, &in, &out), LS_OK);
  assert_close(y, (double[]){6, 15, 24, 33}, 4);
  assert_int_equal(out.shape.rank, 2);
  assert_int_equal(run_op(&ls_op_reduce, &(ls_attrs_t){.i = {3, 1}}, &in, &out), LS_OK);
  assert_close(y, (double[]){6.5}, 1);
  assert_int_equal(ls_shape_count(&out.shape), 1);
  ls_tensor_t dx_in[] = {F32(dy, 2), in}, dx_out = OUT(dx);
  assert_int_equal(run_op(&ls_op_reduce_dx, &(ls_attrs_t){.i = {2, 1}}, dx_in, &dx_out), LS_OK);
  for (int k = 0; k < 12; k++)
    assert_true(dx[k] == (k < 6 ? 2.0f : 4.0f) / 6);
}

static void test_small_ones(void **state) {
  float a[] = {1, 2, 3}, b[] = {10, 20, 30}, y[3] = {5, 5, 5};
  ls_tensor_t in[] = {F32(a, 3), F32(b, 3)}, out = OUT(y);
  assert_int_equal(run_op(&ls_op_accumulate, NULL, in, &out), LS_OK);
  assert_close(y, (double[]){6, 7, 8}, 3);
  assert_int_equal(run_op(&ls_op_add, NULL, in, &out), LS_OK);
  assert_close(y, (double[]){11, 22, 33}, 3);
  assert_int_equal(run_op(&ls_op_mul, NULL, in, &out), LS_OK);
  assert_close(y, (double[]){10, 40, 90}, 3);
  assert_int_equal(run_op(&ls_op_copy, NULL, in, &out), LS_OK);
  assert_memory_equal(y, a, sizeof a);
  assert_int_equal(run_op(&ls_op_fill, &(ls_attrs_t){.i = {3}, .f = {0.5}}, NULL, &out), LS_OK);
  assert_close(y, (double[]){0.5, 0.5, 0.5}, 3);
}

static void test_gather_rows(void **state) {
  int32_t rows[] = {2, 0, 2}, label[] = {7, 8, 9}, target[3];
  float table[] = {1, 2, 3, 4, NAN, -0.0f}, x[6];
  ls_tensor_t in[] = {{rows, LS_SHAPE(LS_I32, 3)}, F32(table, 3, 2), {label, LS_SHAPE(LS_I32, 3)}};
  ls_tensor_t out[] = {OUT(x), OUT(target)};
  assert_int_equal(run_op(&ls_op_gather_rows, NULL, in, out), LS_OK);
  assert_memory_equal(x, ((float[]){NAN, -0.0f, 1, 2, NAN, -0.0f}), sizeof x); /* bits, not values */
  assert_memory_equal(target, ((int32_t[]){9, 7, 9}), sizeof target);
  assert_int_equal(out[1].shape.dtype, LS_I32);
  ls_tensor_t wrong = in[0];
  in[0] = F32(table, 3); /* numbers of rows are whole numbers */
  assert_int_equal(run_op(&ls_op_gather_rows, NULL, in, out), LS_ERR_SHAPE);
  in[0] = wrong;
  in[2].shape.dim[0] = 2; /* tables of different length */
  assert_int_equal(run_op(&ls_op_gather_rows, NULL, in, out), LS_ERR_SHAPE);
}

/* Queries of 0 see all their keys alike: y is the mean of the values, and dropout alone tells the keys apart. */
static void test_attention_of_equal_scores(void **state) {
  enum { T = 3, D = 4, HEADS = 2, SCORES = HEADS * T * T };
  float qkv[2 * T * 3 * D] = {0}, y[2 * T * D], lse[2 * HEADS * T], ones[2 * SCORES], kept[2 * SCORES];
  ls_step_params_t step = {.seed = 42, .position = 7};
  for (int i = 0; i < 2 * T; i++)
    for (int c = 0; c < D; c++)
      qkv[i * 3 * D + 2 * D + c] = (float)(i % T * 10 + c);
  ls_tensor_t in[] = {F32(qkv, 2, T, 3 * D), {&step, LS_SHAPE(LS_U8, 64)}}, out[] = {OUT(y), OUT(lse)};
  ls_attrs_t attrs = {.i = {HEADS, 1, 5}};
  assert_int_equal(run_op(&ls_op_attention, &attrs, in, out), LS_OK);
  assert_close(y, (double[]){0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13}, T * D);
  assert_close(lse, (double[]){0, log(2), log(3)}, T);
  for (int i = 0; i < 2 * SCORES; i++)
    ones[i] = 1;
  attrs = (ls_attrs_t){.i = {5}, .f = {0.5}};
  ls_tensor_t drop_in[] = {F32(ones, 2, HEADS, T, T), {&step, LS_SHAPE(LS_U8, 64)}}, drop_out = OUT(kept);
  assert_int_equal(run_op(&ls_op_dropout, &attrs, drop_in, &drop_out), LS_OK);
  attrs = (ls_attrs_t){.i = {HEADS, 0, 5}, .f = {0.5}};
  assert_int_equal(run_op(&ls_op_attention, &attrs, in, out), LS_OK);
  for (int r = 0; r < 2; r++)
    for (int h = 0; h < HEADS; h++)
      for (int q = 0; q < T; q++) {
        const float *m = kept + ((r * HEADS + h) * T + q) * T;
        double want = (double)(0 * m[0] + 10 * m[1] + 20 * m[2]) / 3,
               c = 2 * h * (double)(m[0] + m[1] + m[2]) / 3;
        assert_close(y + (r * T + q) * D + 2 * h, (double[]){want + c}, 1);
      }
}

/* Among many rows about the right share is kept, whole and scaled; the same row is kept wherever the batch begins. */
static void test_drop_rows(void **state) {
  enum { ROWS = 4000, WIDTH = 3 };
  static float x[ROWS * WIDTH], y[ROWS * WIDTH], later[ROWS * WIDTH];
  ls_step_params_t step = {.seed = 42, .position = 10};
  const ls_attrs_t attrs = {.i = {2}, .f = {0.25}};
  for (int i = 0; i < ROWS * WIDTH; i++)
    x[i] = (float)(i + 1);
  ls_tensor_t in[] = {F32(x, ROWS, WIDTH), {&step, LS_SHAPE(LS_U8, 64)}}, out = OUT(y);
  assert_int_equal(run_op(&ls_op_drop_rows, &attrs, in, &out), LS_OK);
  int kept = 0;
  for (int r = 0; r < ROWS; r++) {
    kept += y[r * WIDTH] > 0;
    for (int c = 0; c < WIDTH; c++)
      assert_true(y[r * WIDTH + c] == (y[r * WIDTH] > 0 ? x[r * WIDTH + c] * (float)(1 / 0.75) : 0));
  }
  assert_true(abs(kept - ROWS * 3 / 4) < 120); /* four standard deviations */
  step.position = 11;
  out.data = later;
  assert_int_equal(run_op(&ls_op_drop_rows, &attrs, in, &out), LS_OK);
  for (int r = 1; r < ROWS; r++)
    assert_true((y[r * WIDTH] > 0) == (later[(r - 1) * WIDTH] > 0));
}

static void test_embedding_of_an_id_that_is_not_there(void **state) {
  int32_t ids[] = {1, -1, 2};
  float table[] = {1, 2, 3, 4}, y[6], dw[4];
  ls_tensor_t in[] = {{ids, LS_SHAPE(LS_I32, 3)}, F32(table, 2, 2)}, out = OUT(y);
  assert_int_equal(run_op(&ls_op_embedding, NULL, in, &out), LS_OK);
  assert_true(y[0] == 3 && y[1] == 4 && isnan(y[2]) && isnan(y[5]));
  ls_attrs_t attrs = {.i = {2}};
  float dy[] = {1, 2, 3, 4, 5, 6};
  ls_tensor_t dw_in[] = {F32(dy, 3, 2), in[0]}, dw_out = OUT(dw);
  assert_int_equal(run_op(&ls_op_embedding_dw, &attrs, dw_in, &dw_out), LS_OK);
  assert_close(dw, (double[]){0, 0, 1, 2}, 4);
}

TESTS(NULL, NULL, test_linear, test_tree_sum, test_activations, test_relu_keeps_nan, test_layer_norm,
      test_softmax_xent, test_softmax_xent_refuses_a_class_that_is_not_there, test_mse,
      test_losses_let_nan_through, test_dropout_mask, test_segments_begin_behind_a_separator,
      test_dropout_does_not_depend_on_the_split, test_dropout_keeps_equality, test_dropout_rate, test_reduce,
      test_small_ones, test_gather_rows, test_attention_of_equal_scores, test_drop_rows,
      test_embedding_of_an_id_that_is_not_there)
