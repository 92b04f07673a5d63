/* The matrix product of a library, in the calling thread. oneDNN makes code for the CPU it finds; OpenBLAS
 * 0.3.21 knows CPUs by model and takes newer ones for very old ones (docs/libraries.md), so it is second. */
#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#include <omp.h>
#include <stdlib.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

void ls_cpu_gemm_prepare(void) {}

/* glibc keeps what was freed for the next product instead of giving it back, once a block of this size was
 * freed; so it would by itself after the first large products, in an order that depends on the threads. */
static void keep_freed(void) {
  enum { BLOCK_BYTES = 31 << 20 };
  void *volatile block = malloc(BLOCK_BYTES);
  free(block);
}

/* The small rest behind an aligned block goes to the thread's cache when the block is made, stays there, and
 * keeps the block from being joined with the free memory behind it: the next one of the same size then takes
 * new memory, up to seven times (glibc before 2.38). A cache that is full takes no rest. */
static void fill_thread_cache(void) {
  enum { LEAST_BYTES = 24, MOST_BYTES = 200, STEP_BYTES = 16, EACH = 7 };
  void *block[EACH];
  for (size_t size = LEAST_BYTES; size <= MOST_BYTES; size += STEP_BYTES) {
    for (int i = 0; i < EACH; i++)
      block[i] = malloc(size);
    for (int i = 0; i < EACH; i++)
      free(block[i]);
  }
}

static void multiply_small(void) {
  enum { SIDE = 16, BLOCK = SIDE * SIDE };
  static const struct {
    bool transpose_a, transpose_b;
    float beta;
  } kind[] = {{false, true, 1}, {false, false, 0}, {true, false, 0}};
  float a[BLOCK] = {0}, b[BLOCK] = {0}, c[BLOCK] = {0};
  for (int i = 0; i < LS_COUNT(kind); i++)
    ls_cpu_gemm(kind[i].transpose_a, kind[i].transpose_b, SIDE, SIDE, SIDE, a, SIDE, b, SIDE, kind[i].beta, c,
                SIDE);
}

static void warm_thread(void *arg, int thread, int threads) {
  (void)arg;
  (void)threads;
  if (thread > 0) multiply_small();
  fill_thread_cache();
}

void ls_cpu_gemm_warm(ls_pool_t *pool) {
  keep_freed();
  multiply_small();
  ls_pool_run(pool, warm_thread, NULL);
}

/* Measured with AVX-512 (bench/cpu_kernels.c). */
ls_cpu_few_rows_t ls_cpu_gemm_few_rows(const ls_simd_t *simd) {
  (void)simd;
  return (ls_cpu_few_rows_t){.y = 96, .dx = 96, .dwb = 12};
}

const char *ls_cpu_gemm_name(void) {
  return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

/* oneDNN asks OpenMP how many threads to use: a setting of the calling thread, so it is put back. */
void ls_cpu_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  int threads = omp_get_max_threads();
  if (threads != 1) omp_set_num_threads(1);
  dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
  if (threads != 1) omp_set_num_threads(threads);
}

#else
#include <cblas.h>
#include <string.h>
#include <strings.h>

void ls_cpu_gemm_prepare(void) {
  openblas_set_num_threads(1);
}

/* A buffer for each thread is made once and kept. */
void ls_cpu_gemm_warm(ls_pool_t *pool) {
  (void)pool;
}

/* Kernels that OpenBLAS falls back to on CPUs whose model it does not know; they stop at SSE3 to SSE4. With
 * AVX2 or AVX-512 our own products are several times as fast at any size. */
ls_cpu_few_rows_t ls_cpu_gemm_few_rows(const ls_simd_t *simd) {
  static const char *const old[] = {"Prescott", "Core2", "Penryn", "Dunnington",
                                    "Nehalem",  "Atom",  "generic"};
  if (strcmp(simd->name, "base") != 0)
    for (int i = 0; i < LS_COUNT(old); i++)
      if (strcasecmp(openblas_get_corename(), old[i]) == 0)
        return (ls_cpu_few_rows_t){.y = INT64_MAX, .dx = INT64_MAX, .dwb = INT64_MAX};
  return (ls_cpu_few_rows_t){.y = 96, .dx = 96, .dwb = 64};
}

const char *ls_cpu_gemm_name(void) {
  return "OpenBLAS";
}

void ls_cpu_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans,
              (blasint)m, (blasint)n, (blasint)k, 1, a, (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
}
#endif
