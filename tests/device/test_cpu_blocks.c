/* What products of the library take beside their matrices: predictions against what oneDNN asks malloc for, and that malloc
 * gives a thread the same block again. This program stands between the library and posix_memalign. */
#include "kernel_test.h"

#include <dlfcn.h>
#include <pthread.h>
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

/* Blocks of the thread that asks for a list of them. */
typedef struct {
  uintptr_t begin, end;
} block_t;
typedef struct {
  block_t block[4096];
  int count;
} blocks_t;
static _Thread_local blocks_t *seen_blocks;

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
  int error = real(memory, align_bytes, size_bytes);
  blocks_t *list = seen_blocks;
  if (!error && list && list->count < LS_COUNT(list->block))
    list->block[list->count++] = (block_t){(uintptr_t)*memory, (uintptr_t)*memory + size_bytes};
  return error;
}

#endif

static bool rules_are_known(void) {
  return WATCHED && strncmp(ls_cpu_gemm_name(), "oneDNN ", 7) == 0;
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
  ls_cpu_block_t s = ls_cpu_gemm_block(false, kind->transpose_a, kind->transpose_b, m, n, k, lda, ldb, n);
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
  if (!rules_are_known()) skip();
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

static int64_t reach_bytes(const uint64_t words[LS_BLOCK_WORDS]) {
  for (int g = LS_BLOCK_WORDS * 64 - 1; g >= 0; g--)
    if (words[g / 64] >> g % 64 & 1) return (int64_t)(g + 1) * LS_BLOCK_GRANULE_BYTES;
  return 0;
}

/* One op run for real, after the library is warm, against the end of what its prediction uses: the block ends
 * with up to five pages that are not, and a granule is rounded up. */
static void op_check(bed_t *bed, int threads, const char *op, const ls_kernel_args_t *args) {
  enum { PAGE = 4096, WORKSPACE_BYTES = 74176 /* of AVX-512, the largest */ };
  const ls_device_options_t options = {.threads = threads};
  const ls_device_scratch_t s = ls_backend_cpu.device->scratch(&options, op, args);
  bed_run(bed, op, args);
  atomic_store(&largest_bytes, 0);
  bed_run(bed, op, args);
  int64_t bytes = (int64_t)atomic_load(&largest_bytes), reach = reach_bytes(s.blocks.first);
  if (bytes <= WORKSPACE_BYTES ? reach > WORKSPACE_BYTES + LS_BLOCK_GRANULE_BYTES || (bytes > 0 && reach == 0)
                               : reach < bytes - 5 * PAGE || reach > bytes + LS_BLOCK_GRANULE_BYTES)
    fail_msg("%s, %d threads, (%d, %d) (%d, %d): %lld taken, %lld predicted", op, threads,
             (int)args->in[0].shape.dim[0], (int)args->in[0].shape.dim[1], (int)args->in[1].shape.dim[0],
             (int)args->in[1].shape.dim[1], (long long)bytes, (long long)reach);
  assert_true(threads > 1 || ls_block_use_bytes(&s.blocks, 1) <= reach);
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
  op_check(&bed, threads, "linear_dw",
           &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, x}, .in_count = 2, .out = dwb, .out_count = 1});
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
  if (!rules_are_known()) skip();
  for (int threads = 1; threads <= 3; threads++)
    for (int k = 0; k < LS_COUNT(shapes); k++)
      shape_check(threads, shapes[k].n, shapes[k].i, shapes[k].o);
}

/* Gradients of weights in bf16 that threads share; the other products of bf16 ask malloc for less than a page of code. */
static void low_products_take_what_was_predicted(void **state) {
  (void)state;
  static const struct {
    int64_t n, i, o;
  } shapes[] = {{200, 256, 128}, {300, 480, 320},  {390, 480, 320},
                {800, 480, 320}, {1600, 480, 640}, {600, 799, 1024}};
  if (!rules_are_known() || !ls_cpu_multiplies_bf16()) skip();
  bed_t bed = bed_open(2);
  for (int k = 0; k < LS_COUNT(shapes); k++) {
    const int64_t n = shapes[k].n, i = shapes[k].i, o = shapes[k].o;
    uint16_t *x0 = calloc((size_t)(n * i), sizeof *x0), *dy0 = calloc((size_t)(n * o), sizeof *dy0);
    float *dw0 = guarded(o * i), *db0 = guarded(o);
    assert_true(x0 && dy0);
    const ls_tensor_t in[] = {{dy0, LS_SHAPE(LS_BF16, n, o)}, {x0, LS_SHAPE(LS_BF16, n, i)}};
    const ls_tensor_t out[] = {{dw0, LS_SHAPE(LS_F32, o, i)}, {db0, LS_SHAPE(LS_F32, o)}};
    op_check(&bed, 2, "linear_dwb", &(ls_kernel_args_t){.in = in, .in_count = 2, .out = out, .out_count = 2});
    guarded_free(db0);
    guarded_free(dw0);
    free(dy0);
    free(x0);
  }
  bed_close(&bed);
}

/* Bytes that lie in any of the blocks; sorts them. */
static int by_begin(const void *a, const void *b) {
  const block_t *x = a, *y = b;
  return (x->begin > y->begin) - (x->begin < y->begin);
}

static uintptr_t bytes_together(blocks_t *list) {
  uintptr_t sum = 0, end = 0;
  qsort(list->block, (size_t)list->count, sizeof *list->block, by_begin);
  for (int i = 0; i < list->count; i++) {
    const block_t *b = &list->block[i];
    if (b->end <= end) continue;
    sum += b->end - (b->begin > end ? b->begin : end);
    end = b->end;
  }
  return sum;
}

/* As a thread of a step: a few shapes in turn, over and over. */
static void *multiply_in_turn(void *arg) {
  enum { SIDE = 700, ROUNDS = 24, WARM = 4 };
  static const int64_t sides[] = {700, 512, 640, 400, 600};
  blocks_t *list = arg;
  float *x = calloc(3 * SIDE * SIDE, sizeof *x);
  if (!x) return NULL;
  for (int r = 0; r < ROUNDS; r++) {
    seen_blocks =
        r < WARM ? NULL : list; /* the first ones are mapped alone, before malloc has learnt their sizes */
    for (int k = 0; k < LS_COUNT(kinds); k++)
      for (int s = 0; s < LS_COUNT(sides); s++) {
        int64_t m = sides[s], n = SIDE, d = sides[(s + k) % LS_COUNT(sides)];
        int64_t lda = kinds[k].transpose_a ? m : d, ldb = kinds[k].transpose_b ? d : n;
        ls_cpu_gemm(kinds[k].transpose_a, kinds[k].transpose_b, m, n, d, x, lda, x + SIDE * SIDE, ldb, 0,
                    x + 2 * SIDE * SIDE, n);
      }
  }
  seen_blocks = NULL;
  free(x);
  return list;
}

/* A thread held three to eight blocks, unlike in every run, because malloc did not join what was freed. */
static void a_thread_finds_its_block_again(void **state) {
  (void)state;
  static blocks_t list;
  pthread_t thread;
  void *done = NULL;
  if (!rules_are_known()) skip();
  assert_int_equal(pthread_create(&thread, NULL, multiply_in_turn, &list), 0);
  assert_int_equal(pthread_join(thread, &done), 0);
  assert_ptr_equal(done, &list);
  uintptr_t most = 0;
  for (int i = 0; i < list.count; i++)
    if (list.block[i].end - list.block[i].begin > most) most = list.block[i].end - list.block[i].begin;
  assert_in_range(list.count, 200, LS_COUNT(list.block) - 1);
  assert_in_range(bytes_together(&list), most, 2 * most); /* four times without ls_cpu_library_called */
}

static void bytes_count_once_whichever_call_used_them(void **state) {
  (void)state;
  enum { G = LS_BLOCK_GRANULE_BYTES };
  ls_block_use_t s = {{0}, {0}}, sum = {{0}, {0}};
  assert_int_equal(ls_block_use_bytes(&s, 4), 0);
  ls_block_use(&s, true, 0, 3 * G);
  ls_block_use(&s, true, 10 * G, 12 * G + 1);
  assert_int_equal(ls_block_use_bytes(&s, 1), 6 * G);
  assert_int_equal(ls_block_use_bytes(&s, 4), 24 * G);
  ls_block_use(&s, false, 2 * G, 10 * G); /* the first thread alone: 7 more */
  assert_int_equal(ls_block_use_bytes(&s, 4), (13 + 3 * 6) * G);
  ls_block_use(&s, true, 5 * G, 5 * G);
  ls_block_use(&s, true, 2 * G, 11 * G);
  assert_int_equal(ls_block_use_bytes(&s, 4), 4 * 13 * G);
  ls_block_use(&sum, true, 20 * G, 21 * G);
  ls_block_use_add(&sum, &s);
  assert_int_equal(ls_block_use_bytes(&sum, 4), 4 * 14 * G);
  ls_block_use(&s, true, 0, INT64_MAX / 2); /* more than is counted */
  assert_int_equal(ls_block_use_bytes(&s, 1), LS_BLOCK_WORDS * 64 * G);
}

static void other_ops_have_none(void **state) {
  (void)state;
  const ls_tensor_t scalar[] = {{NULL, {.dtype = LS_F32}}, {NULL, {.dtype = LS_F32}}};
  const ls_device_scratch_t s = ls_backend_cpu.device->scratch(
      &(ls_device_options_t){.threads = 2}, "adam", &(ls_kernel_args_t){.in = scalar, .in_count = 2});
  assert_int_equal(ls_block_use_bytes(&s.blocks, 2), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_product_takes_what_was_predicted),
                                     cmocka_unit_test(ops_take_what_was_predicted),
                                     cmocka_unit_test(low_products_take_what_was_predicted),
                                     cmocka_unit_test(a_thread_finds_its_block_again),
                                     cmocka_unit_test(other_ops_have_none),
                                     cmocka_unit_test(bytes_count_once_whichever_call_used_them)};
  return cmocka_run_group_tests_name("blocks of products", tests, NULL, NULL);
}
