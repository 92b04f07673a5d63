/* The matrix product of a library, in the calling thread. oneDNN makes code for the CPU it finds; OpenBLAS
 * 0.3.21 knows CPUs by model and takes newer ones for very old ones (docs/libraries.md), so it comes second.
 */
#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#include <omp.h>
#include <stdio.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

void ls_cpu_gemm_prepare(void) {}

const char *ls_cpu_gemm_name(void) {
  return "oneDNN " TEXT(DNNL_VERSION_MAJOR) "." TEXT(DNNL_VERSION_MINOR) "." TEXT(DNNL_VERSION_PATCH);
}

/* oneDNN asks OpenMP how many threads to use; that setting belongs to the calling thread, so it is put back.
 */
void ls_cpu_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
  int threads = omp_get_max_threads();
  if (threads != 1) omp_set_num_threads(1);
  dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, beta, c, ldc);
  if (threads != 1) omp_set_num_threads(threads);
}

#else
#include <cblas.h>

void ls_cpu_gemm_prepare(void) {
  openblas_set_num_threads(1);
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
