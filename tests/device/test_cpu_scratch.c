/* What products of the library take beside their matrices: predictions against what oneDNN really asks the
 * system for. This program stands between the library and posix_memalign. */
#include "kernel_test.h"

#include <dlfcn.h>
#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WATCHED 0 /* the sanitizer stands there */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define WATCHED 0
#endif
#endif
#if !defined(WATCHED)
#define WATCHED 1
#endif

static _Atomic size_t largest_bytes;

#if WATCHED

__attribute__((visibility("default"))) int posix_memalign(void **memory, size_t align_bytes,
                                                          size_t size_bytes) {
  typedef int (*function_t)(void **, size_t, size_t);
  void *symbol = dlsym(RTLD_NEXT, "posix_memalign");
  function_t real;
  memcpy(&real, &symbol, sizeof real);
  size_t seen = atomic_load(&largest_bytes);
  while (size_bytes > seen && !atomic_compare_exchange_weak(&largest_bytes, &seen, size_bytes)) {
  }
  return real(memory, align_bytes, size_bytes);
}

#endif

static void skip_where_nothing_is_predicted(void) {
  const char *name = ls_cpu_gemm_name();
  if (WATCHED && (strncmp(name, "oneDNN 2.", 9) == 0 || strncmp(name, "oneDNN 3.", 9) == 0)) return;
  print_message("skipped: %s\n", WATCHED ? name : "a sanitizer stands where this program would watch");
  skip();
}

typedef struct {
  bool transpose_a, transpose_b;
} kind_t;
static const kind_t kinds[] = {{false, true}, {false, false}, {true, false}}; /* y, dx, dw */

static int64_t taken(const kind_t *kind, int64_t m, int64_t n, int64_t k, float *x, int64_t lda,
                     int64_t ldb) {
  atomic_store(&largest_bytes, 0);
  ls_cpu_gemm(kind->transpose_a, kind->transpose_b, m, n, k, x, lda, x, ldb, 0, x, n);
  return (int64_t)atomic_load(&largest_bytes);
}

/* True when the product takes what was predicted; *packed when that is more than a workspace. */
static bool product_check(const kind_t *kind, int64_t m, int64_t n, int64_t k, float *x, bool *packed) {
  int64_t lda = kind->transpose_a ? m : k, ldb = kind->transpose_b ? k : n;
  int64_t bytes = taken(kind, m, n, k, x, lda, ldb);
  ls_cpu_scratch_t s = ls_cpu_gemm_scratch(kind->transpose_a, kind->transpose_b, m, n, k, lda, ldb, n);
  *packed = s.back_until_bytes > 0;
  assert_true(s.front_bytes <= s.block_bytes && s.back_until_bytes <= s.block_bytes);
  if (*packed ? bytes == s.block_bytes : bytes <= s.block_bytes) return true;
  print_message("%d%d m %d n %d k %d: %d taken, %d predicted\n", kind->transpose_a, kind->transpose_b, (int)m,
                (int)n, (int)k, (int)bytes, (int)s.block_bytes);
  return false;
}

static void a_product_takes_what_was_predicted(void **state) {
  (void)state;
  static const int64_t sides[] = {13, 16, 28, 64, 100, 128, 256, 385, 512, 799, 1024};
  static const int64_t depths[] = {1, 24, 48, 129, 300, 384, 500, 600, 800};
  enum { FLOATS = 2 << 20 };
  skip_where_nothing_is_predicted();
  float *x = calloc(FLOATS, sizeof *x);
  assert_non_null(x);
  for (int i = 0; i < LS_COUNT(kinds); i++)
    taken(&kinds[i], 16, 16, 16, x, 16, 16); /* makes its code */
  int wrong = 0, packs = 0, cases = 0;
  for (int i = 0; i < LS_COUNT(kinds); i++)
    for (int a = 0; a < LS_COUNT(sides); a++)
      for (int b = 0; b < LS_COUNT(sides); b++)
        for (int d = 0; d < LS_COUNT(depths); d++, cases++) {
          bool packed;
          wrong += !product_check(&kinds[i], sides[a], sides[b], depths[d], x, &packed);
          packs += packed;
        }
  free(x);
  assert_int_equal(wrong, 0);
  assert_in_range(packs, cases / 20, cases * 3 / 4);
}

static int64_t reach_bytes(const uint64_t words[LS_SCRATCH_WORDS]) {
  for (int g = LS_SCRATCH_WORDS * 64 - 1; g >= 0; g--)
    if (words[g / 64] >> g % 64 & 1) return (int64_t)(g + 1) * LS_SCRATCH_GRANULE_BYTES;
  return 0;
}

/* One op run for real, after the library is warm, against the end of what its prediction uses: the block ends
 * with up to five pages that are not, and a granule is rounded up. */
static void op_check(bed_t *bed, int threads, const char *op, const ls_kernel_args_t *args) {
  enum { PAGE = 4096, WORKSPACE_BYTES = 74176 };
  ls_scratch_t s = {{0}, {0}};
  const ls_device_options_t options = {.threads = threads};
  ls_backend_cpu.device->scratch(&options, op, &args->in[0].shape, &args->in[1].shape, &s);
  bed_run(bed, op, args);
  atomic_store(&largest_bytes, 0);
  bed_run(bed, op, args);
  int64_t bytes = (int64_t)atomic_load(&largest_bytes), reach = reach_bytes(s.first);
  if (bytes <= WORKSPACE_BYTES
          ? reach > WORKSPACE_BYTES + LS_SCRATCH_GRANULE_BYTES || (bytes > 0 && reach == 0)
          : reach < bytes - 5 * PAGE || reach > bytes + LS_SCRATCH_GRANULE_BYTES)
    fail_msg("%s, %d threads: %lld taken, %lld predicted", op, threads, (long long)bytes, (long long)reach);
  assert_true(threads > 1 || ls_scratch_bytes(&s, 1) <= reach);
}

static void shape_check(int threads, int64_t n, int64_t i, int64_t o) {
  bed_t bed = bed_open(threads);
  float *x0 = random_floats(n * i, 1, -1, 1), *w0 = random_floats(o * i, 2, -1, 1);
  float *b0 = random_floats(o, 3, -1, 1), *dy0 = random_floats(n * o, 4, -1, 1);
  float *y0 = guarded(n * o), *dx0 = guarded(n * i), *dw0 = guarded(o * i), *db0 = guarded(o);
  ls_tensor_t x = {x0, LS_SHAPE(LS_F32, n, i)}, w = {w0, LS_SHAPE(LS_F32, o, i)},
              b = {b0, LS_SHAPE(LS_F32, o)}, dy = {dy0, LS_SHAPE(LS_F32, n, o)};
  ls_tensor_t y = {y0, dy.shape}, dx = {dx0, x.shape}, dwb[] = {{dw0, w.shape}, {db0, b.shape}};
  op_check(&bed, threads, "linear",
           &(ls_kernel_args_t){.in = (ls_tensor_t[]){x, w, b}, .in_count = 3, .out = &y, .out_count = 1});
  op_check(&bed, threads, "linear_dx",
           &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, w}, .in_count = 2, .out = &dx, .out_count = 1});
  op_check(&bed, threads, "linear_dwb",
           &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, x}, .in_count = 2, .out = dwb, .out_count = 2});
  float *all[] = {x0, w0, b0, dy0, y0, dx0, dw0, db0};
  for (int k = 0; k < LS_COUNT(all); k++)
    guarded_free(all[k]);
  bed_close(&bed);
}

static void ops_take_what_was_predicted(void **state) {
  (void)state;
  static const struct {
    int64_t n, i, o;
  } shapes[] = {{8, 256, 64},     {32, 256, 128},   {128, 1024, 256}, {512, 1024, 768},
                {1024, 256, 128}, {200, 2048, 512}, {600, 799, 1030}};
  skip_where_nothing_is_predicted();
  for (int threads = 1; threads <= 3; threads++)
    for (int k = 0; k < LS_COUNT(shapes); k++)
      shape_check(threads, shapes[k].n, shapes[k].i, shapes[k].o);
}

static void bytes_count_once_whichever_call_used_them(void **state) {
  (void)state;
  enum { G = LS_SCRATCH_GRANULE_BYTES };
  ls_scratch_t s = {{0}, {0}};
  assert_int_equal(ls_scratch_bytes(&s, 4), 0);
  ls_scratch_use(&s, true, 0, 3 * G);
  ls_scratch_use(&s, true, 10 * G, 12 * G + 1);
  assert_int_equal(ls_scratch_bytes(&s, 1), 6 * G);
  assert_int_equal(ls_scratch_bytes(&s, 4), 24 * G);
  ls_scratch_use(&s, false, 2 * G, 10 * G); /* the first thread alone: 7 more */
  assert_int_equal(ls_scratch_bytes(&s, 4), (13 + 3 * 6) * G);
  ls_scratch_use(&s, true, 5 * G, 5 * G);
  ls_scratch_use(&s, true, 2 * G, 11 * G);
  assert_int_equal(ls_scratch_bytes(&s, 4), 4 * 13 * G);
  ls_scratch_use(&s, true, 0, INT64_MAX / 2); /* more than is counted */
  assert_int_equal(ls_scratch_bytes(&s, 1), LS_SCRATCH_WORDS * 64 * G);
}

static void other_ops_have_none(void **state) {
  (void)state;
  const ls_shape_t scalar = {.dtype = LS_F32};
  ls_scratch_t s = {{0}, {0}};
  ls_backend_cpu.device->scratch(&(ls_device_options_t){.threads = 2}, "adam", &scalar, &scalar, &s);
  assert_int_equal(ls_scratch_bytes(&s, 2), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_takes_what_was_predicted), cmocka_unit_test(ops_take_what_was_predicted),
      cmocka_unit_test(other_ops_have_none), cmocka_unit_test(bytes_count_once_whichever_call_used_them)};
  return cmocka_run_group_tests_name("scratch of products", tests, NULL, NULL);
}
