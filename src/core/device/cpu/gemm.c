/* A library's matrix product, in the calling thread. oneDNN generates code for the CPU that it finds. OpenBLAS
 * 0.3.21 knows CPUs by model and mistakes newer ones for very old ones (docs/libraries.md), so it is the second
 * choice. */
#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#include <omp.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

void ls_cpu_gemm_prepare(void) {}

/* The library's instruction sets, not the processor's: DNNL_MAX_CPU_ISA may forbid some. */
bool ls_cpu_onednn_has(unsigned isa) {
  return ((unsigned)dnnl_get_effective_cpu_isa() & isa) == isa;
}

/* Measured with AVX-512 (bench/cpu_kernels.c). */
ls_cpu_few_rows_t ls_cpu_gemm_few_rows(const ls_simd_t *simd) {
  (void)simd;
  return (ls_cpu_few_rows_t){.y = 96, .dx = 96, .dwb = 12};
}

const char *ls_cpu_gemm_name(void) {
  return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

/* oneDNN asks OpenMP for the number of threads. That is a setting of the calling thread, so it is restored
 * afterwards. */
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
