/* linear and its gradients on the cpu backend against sums in double precision, over shapes that meet every
 * tile, tail and cut, for every instruction set and several thread counts. */
#include "kernel_test.h"

typedef struct {
  int64_t n, i, o;
  float *x, *w, *b, *dy;
} problem_t;

static problem_t problem_make(int64_t n, int64_t i, int64_t o) {
  return (problem_t){n,
                     i,
                     o,
                     random_floats(n * i, 1, -1, 1),
                     random_floats(o * i, 2, -1, 1),
                     random_floats(o, 3, -1, 1),
                     random_floats(n * o, 4, -1, 1)};
}

static void problem_free(problem_t *p) {
  guarded_free(p->x);
  guarded_free(p->w);
  guarded_free(p->b);
  guarded_free(p->dy);
}

static double tolerance_of(int64_t depth) {
  return 1e-6 * sqrt((double)depth) + 1e-6;
}

static void check_y(const problem_t *p, const float *y) {
  guarded_check(y, p->n * p->o);
  for (int64_t r = 0; r < p->n; r++)
    for (int64_t o = 0; o < p->o; o++) {
      double sum = p->b[o];
      for (int64_t i = 0; i < p->i; i++)
        sum += (double)p->x[r * p->i + i] * p->w[o * p->i + i];
      assert_close("y", r * p->o + o, y[r * p->o + o], sum, tolerance_of(p->i));
    }
}

static void check_dx(const problem_t *p, const float *dx) {
  guarded_check(dx, p->n * p->i);
  for (int64_t r = 0; r < p->n; r++)
    for (int64_t i = 0; i < p->i; i++) {
      double sum = 0;
      for (int64_t o = 0; o < p->o; o++)
        sum += (double)p->dy[r * p->o + o] * p->w[o * p->i + i];
      assert_close("dx", r * p->i + i, dx[r * p->i + i], sum, tolerance_of(p->o));
    }
}

static void check_dwb(const problem_t *p, const float *dw, const float *db) {
  guarded_check(dw, p->o * p->i);
  guarded_check(db, p->o);
  for (int64_t o = 0; o < p->o; o++) {
    double bias = 0;
    for (int64_t r = 0; r < p->n; r++)
      bias += p->dy[r * p->o + o];
    assert_close("db", o, db[o], bias, tolerance_of(p->n));
    for (int64_t i = 0; i < p->i; i++) {
      double sum = 0;
      for (int64_t r = 0; r < p->n; r++)
        sum += (double)p->dy[r * p->o + o] * p->x[r * p->i + i];
      assert_close("dw", o * p->i + i, dw[o * p->i + i], sum, tolerance_of(p->n));
    }
  }
}

typedef struct {
  float *y, *dx, *dw, *db;
} result_t;

static result_t problem_run(bed_t *bed, const problem_t *p) {
  result_t r = {guarded(p->n * p->o), guarded(p->n * p->i), guarded(p->o * p->i), guarded(p->o)};
  ls_tensor_t x = {p->x, LS_SHAPE(LS_F32, p->n, p->i)}, w = {p->w, LS_SHAPE(LS_F32, p->o, p->i)},
              b = {p->b, LS_SHAPE(LS_F32, p->o)}, dy = {p->dy, LS_SHAPE(LS_F32, p->n, p->o)};
  ls_tensor_t y = {r.y, dy.shape}, dx = {r.dx, x.shape}, dwb[] = {{r.dw, w.shape}, {r.db, b.shape}};
  bed_run(bed, "linear",
          &(ls_kernel_args_t){.in = (ls_tensor_t[]){x, w, b}, .in_count = 3, .out = &y, .out_count = 1});
  bed_run(bed, "linear_dx",
          &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, w}, .in_count = 2, .out = &dx, .out_count = 1});
  bed_run(bed, "linear_dwb",
          &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, x}, .in_count = 2, .out = dwb, .out_count = 2});
  return r;
}

static void result_free(result_t *r) {
  guarded_free(r->y);
  guarded_free(r->dx);
  guarded_free(r->dw);
  guarded_free(r->db);
}

static void shape_check(bed_t *bed, int64_t n, int64_t i, int64_t o) {
  problem_t p = problem_make(n, i, o);
  result_t r = problem_run(bed, &p);
  check_y(&p, r.y);
  check_dx(&p, r.dx);
  check_dwb(&p, r.dw, r.db);
  result_free(&r);
  problem_free(&p);
}

static const int64_t row_counts[] = {1, 2, 3, 7, 8, 16, 17, 31, 32, 33, 64, 100};
static const struct {
  int64_t i, o;
} layers[] = {{1, 1},   {3, 5},   {5, 3},   {15, 17},  {16, 16},  {17, 15},   {31, 64},
              {47, 49}, {64, 33}, {65, 97}, {111, 37}, {255, 70}, {130, 259}, {2050, 9}};

static void all_shapes(int threads) {
  bed_t bed = bed_open(threads);
  for (int k = 0; k < LS_COUNT(row_counts); k++)
    for (int l = 0; l < LS_COUNT(layers); l++)
      shape_check(&bed, row_counts[k], layers[l].i, layers[l].o);
  bed_close(&bed);
}

static void shapes_1_thread(void **state) {
  all_shapes(1);
}
static void shapes_2_threads(void **state) {
  all_shapes(2);
}
static void shapes_3_threads(void **state) {
  all_shapes(3);
}

static void every_instruction_set(void **state) {
  const ls_simd_t *list[LS_SIMD_MAX];
  ls_simd_list(list);
  bed_t bed = bed_open(2);
  for (int s = 0; list[s]; s++) {
    ((ls_cpu_device_t *)bed.device)->simd = list[s];
    for (int k = 0; k < LS_COUNT(row_counts); k++)
      for (int l = 0; l < LS_COUNT(layers); l += 2)
        shape_check(&bed, row_counts[k], layers[l].i, layers[l].o);
  }
  bed_close(&bed);
}

/* Small integers are exact in f32 in any order of summation. */
static void exact_on_integers(void **state) {
  bed_t bed = bed_open(2);
  for (int k = 0; k < LS_COUNT(row_counts); k++) {
    problem_t p = problem_make(row_counts[k], 131, 67);
    for (int64_t e = 0; e < p.n * p.i; e++)
      p.x[e] = floorf(p.x[e] * 8);
    for (int64_t e = 0; e < p.o * p.i; e++)
      p.w[e] = floorf(p.w[e] * 8);
    for (int64_t e = 0; e < p.o; e++)
      p.b[e] = floorf(p.b[e] * 8);
    result_t r = problem_run(&bed, &p);
    for (int64_t row = 0; row < p.n; row++)
      for (int64_t o = 0; o < p.o; o++) {
        int64_t sum = (int64_t)p.b[o];
        for (int64_t i = 0; i < p.i; i++)
          sum += (int64_t)p.x[row * p.i + i] * (int64_t)p.w[o * p.i + i];
        assert_true(r.y[row * p.o + o] == (float)sum);
      }
    result_free(&r);
    problem_free(&p);
  }
  bed_close(&bed);
}

static void same_bits_every_time(void **state) {
  for (int threads = 1; threads <= 3; threads++) {
    bed_t bed = bed_open(threads);
    for (int64_t n = 5; n < 200; n *= 3) {
      problem_t p = problem_make(n, 259, 131);
      result_t first = problem_run(&bed, &p);
      for (int k = 0; k < 5; k++) {
        result_t r = problem_run(&bed, &p);
        assert_memory_equal(r.y, first.y, (size_t)(p.n * p.o) * 4);
        assert_memory_equal(r.dx, first.dx, (size_t)(p.n * p.i) * 4);
        assert_memory_equal(r.dw, first.dw, (size_t)(p.o * p.i) * 4);
        assert_memory_equal(r.db, first.db, (size_t)p.o * 4);
        result_free(&r);
      }
      result_free(&first);
      problem_free(&p);
    }
    bed_close(&bed);
  }
}

/* One bad number must reach the loss: everything that depends on it is NaN, nothing else is. */
static void nan_is_not_hidden(void **state) {
  bed_t bed = bed_open(1);
  for (int k = 0; k < LS_COUNT(row_counts); k++) {
    problem_t p = problem_make(row_counts[k], 35, 21);
    p.x[(p.n - 1) * p.i + 34] = NAN;
    result_t r = problem_run(&bed, &p);
    for (int64_t row = 0; row < p.n; row++)
      for (int64_t o = 0; o < p.o; o++)
        assert_int_equal(isnan(r.y[row * p.o + o]) != 0, row == p.n - 1);
    for (int64_t o = 0; o < p.o; o++)
      for (int64_t i = 0; i < p.i; i++)
        assert_int_equal(isnan(r.dw[o * p.i + i]) != 0, i == 34);
    result_free(&r);
    problem_free(&p);
  }
  bed_close(&bed);
}

TESTS(NULL, NULL, shapes_1_thread, shapes_2_threads, shapes_3_threads, every_instruction_set,
      exact_on_integers, same_bits_every_time, nan_is_not_hidden)
