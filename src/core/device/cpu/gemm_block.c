/* What a product of the library holds beside its matrices while it runs. oneDNN packs parts of both factors into one block
 * of memory, or, where packing would not pay, multiplies from the matrices themselves with a small workspace. Which of the
 * two, and how large blocks are, are its rules for one thread, the same in versions 2 and 3. They follow its source
 * (src/cpu/x64/gemm, gemm_driver.cpp and gemm_info.cpp); tests/device/test_cpu_blocks.c compares them with what the
 * library allocates. The names of its functions stand beside ours. */
#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>

/* As the library sees it: column-major, so a row-major product has its factors exchanged. */
typedef struct {
  bool transpose_a, transpose_b;
  int64_t m, n, k, lda, ldb, ldc;
} product_t;

/* The most that sgemm_nocopy_driver allocates as its workspace. `strip_m`: rows that its kernel computes at a time, which is
 * not always .unit_m, that of the kernel of packed blocks. Version 3.7 allocates the last strip_m floats; version 2.6
 * allocates everything but them. */
#define WORKSPACE_BYTES(depth, strip_m) ((int64_t)sizeof(float) * ((depth) * (strip_m) + 64 + (strip_m)))

typedef struct {
  int64_t word_bytes;
  int64_t unit_m, unit_n, unit_k; /* of the inner kernel: blocks are rounded up to it */
  int64_t most_m, most_n, most_k; /* of a block */
  int64_t whole_k;                /* up to here the depth is not cut */
  int64_t small_k, small_k_most_n;
  int64_t workspace_bytes;          /* at most, where nothing is packed */
  bool (*packs)(const product_t *); /* whether packing pays */
} rules_t;

enum { PAGE_BYTES = 4096, LEAST_K = 128, DEEP = 378 };

static bool multiple(int64_t value, int64_t of) {
  return value % of == 0;
}

/* FORCE_NOCOPY_THRESH of both checkers. */
static bool thin(const product_t *p, double threshold) {
  return 1.0 / (double)p->m + 1.0 / (double)p->n >= threshold;
}

/* Sizes from which both checkers pack, whatever is transposed. */
static bool large(const product_t *p) {
  return p->k >= DEEP && (p->m >= DEEP || p->n <= DEEP);
}

/* !nocopy_checker_avx512, where thresholds on leading dimensions and sizes were measured by the library's authors. */
static bool packs_avx512(const product_t *p) {
  enum { FEW = 28, TINY = 16 };
  bool first_only = p->transpose_a && !p->transpose_b;
  bool worst_a = multiple(p->lda, 1024) && !p->transpose_a && (p->transpose_b || (p->n > 100 && p->k > 500));
  bool bad_a = multiple(p->lda, 256), bad_b = multiple(p->ldb, 256), bad_c = multiple(p->ldc, 256);
  bool short_all = p->m < 1200 && p->n < 200 && p->k < 1200;
  if (first_only && p->n < TINY) return false;
  if (first_only && p->m > 100 && (short_all || (bad_a && bad_b))) return true;
  if (thin(p, 0.00196) && !worst_a) return false;
  if ((bad_a || bad_b || bad_c) && p->m > TINY && p->n > TINY) return true;
  if (large(p)) return true;
  if (p->n <= FEW || p->k <= 1) return false;
  return p->m > FEW || (p->transpose_b && p->m < p->n);
}

/* !nocopy_checker_avx2 */
static bool packs_avx2(const product_t *p) {
  if (thin(p, 0.0038)) return false;
  if (large(p)) return true;
  if (p->m <= 128 && p->n <= 128) return false;
  if (p->transpose_b) return p->n > 1 && p->k > 1;
  return p->n > 16 && p->k > 2 && p->m > 64;
}

/* nocopy_checker, of other types than f32 */
static bool packs_always(const product_t *p) {
  (void)p;
  return true;
}

/* gemm_info_t::jit_init, of f32 and of bf16. */
static const rules_t avx512 = {.word_bytes = 4,
                               .unit_m = 48,
                               .unit_n = 8,
                               .unit_k = 1,
                               .most_m = 9984,
                               .most_n = 384,
                               .most_k = 384,
                               .whole_k = 384,
                               .small_k = 48,
                               .small_k_most_n = 24,
                               .workspace_bytes = WORKSPACE_BYTES(384, 48),
                               .packs = packs_avx512};
static const rules_t avx2 = {.word_bytes = 4,
                             .unit_m = 24,
                             .unit_n = 4,
                             .unit_k = 1,
                             .most_m = 10000,
                             .most_n = 384,
                             .most_k = 192,
                             .whole_k = 256,
                             .small_k = 48,
                             .small_k_most_n = 24,
                             .workspace_bytes = WORKSPACE_BYTES(256, 16),
                             .packs = packs_avx2};
static const rules_t avx = {.word_bytes = 4,
                            .unit_m = 16,
                            .unit_n = 4,
                            .unit_k = 1,
                            .most_m = 4096,
                            .most_n = 96,
                            .most_k = 256,
                            .whole_k = 256,
                            .small_k = 48,
                            .small_k_most_n = 24,
                            .workspace_bytes = WORKSPACE_BYTES(256, 16),
                            .packs = packs_avx2};
static const rules_t low_avx512 = {.word_bytes = 2,
                                   .unit_m = 48,
                                   .unit_n = 8,
                                   .unit_k = 1,
                                   .most_m = 9984,
                                   .most_n = 384,
                                   .most_k = 768,
                                   .whole_k = 384,
                                   .small_k = 48,
                                   .small_k_most_n = 24,
                                   .packs = packs_always};
static const rules_t low_amx = {.word_bytes = 2,
                                .unit_m = 32,
                                .unit_n = 32,
                                .unit_k = 32,
                                .most_m = 9984,
                                .most_n = 384,
                                .most_k = 768,
                                .packs = packs_always};

static int64_t at_most(int64_t value, int64_t most) {
  return value < most ? value : most;
}

static int64_t up_to(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/* get_k_padd, of one thread */
static int64_t depth_of(const rules_t *rules, int64_t k) {
  if (k <= rules->whole_k) return k > LEAST_K ? k : LEAST_K;
  return k < 2 * rules->most_k ? up_to((k + 1) / 2, rules->unit_k) : rules->most_k;
}

/* The packed block of A, then that of B; each begins on a page. Of A only a strip is used where all of B's
 * columns fit into one block. */
static ls_cpu_block_t packed(const rules_t *rules, const product_t *p) {
  const int64_t word = rules->word_bytes, sum = sizeof(float);
  int64_t most_n = p->k < rules->small_k ? rules->small_k_most_n : rules->most_n, k = depth_of(rules, p->k);
  int64_t m = up_to(at_most(p->m, rules->most_m), rules->unit_m);
  int64_t n = up_to(at_most(p->n, most_n), rules->unit_n);
  int64_t a_bytes = m * k * word, b_bytes = k * n * word;
  int64_t used_k = up_to(at_most(p->k, k), rules->unit_k);
  int64_t used_m = p->n > n ? at_most(p->m, m) : at_most(p->m, rules->unit_m);
  int64_t b_from = up_to(a_bytes, PAGE_BYTES);
  return (ls_cpu_block_t){.block_bytes = a_bytes + b_bytes + (rules->unit_m + n) * sum + 4 * PAGE_BYTES,
                          .front_bytes = up_to(used_m, rules->unit_m) * used_k * word,
                          .back_from_bytes = b_from,
                          .back_until_bytes =
                              b_from + up_to(at_most(p->n, n), rules->unit_n) * used_k * word};
}

static const rules_t *rules_here(bool low) {
  if (low) return ls_cpu_onednn_has(dnnl_cpu_isa_avx512_core_amx) ? &low_amx : &low_avx512;
  if (ls_cpu_onednn_has(dnnl_cpu_isa_avx512_core)) return &avx512;
  return ls_cpu_onednn_has(dnnl_cpu_isa_avx2) ? &avx2 : &avx; /* older: about as avx */
}

ls_cpu_block_t ls_cpu_gemm_block(bool low, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                                 int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  const product_t p = {transpose_b, transpose_a, n, m, k, ldb, lda, ldc};
  const rules_t *rules = rules_here(low);
  if (m == 1 || n == 1) return (ls_cpu_block_t){0};
  if (rules->packs(&p)) return packed(rules, &p);
  return (ls_cpu_block_t){.block_bytes = rules->workspace_bytes, .front_bytes = rules->workspace_bytes};
}

#else

/* OpenBLAS keeps a buffer for each thread and packs as Goto and van de Geijn (2008), in blocks of at most DEPTH. */
ls_cpu_block_t ls_cpu_gemm_block(bool low, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                                 int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  enum { DEPTH = 512, BYTES_MAX = 20 << 20 };
  (void)low, (void)transpose_a, (void)transpose_b, (void)lda, (void)ldb, (void)ldc;
  int64_t bytes = (m + n) * (k < DEPTH ? k : DEPTH) * (int64_t)sizeof(float);
  if (bytes > BYTES_MAX) bytes = BYTES_MAX;
  return (ls_cpu_block_t){.block_bytes = bytes, .front_bytes = bytes};
}
#endif
