/* cuBLASLt, opened only when a device is: a program that finds no GPU should not load half a gigabyte of
 * library. An ls_blas_product_t is one matrix product with everything decided: layouts, epilogue,
 * algorithm. */
#ifndef LS_DEVICE_CUDA_BLAS_H
#define LS_DEVICE_CUDA_BLAS_H

#include "base/base.h"
#include <cublasLt.h>

/* The functions that the module calls. cublasLt.h's inline initialisers are thin wrappers of the _internal functions. */
#define LS_BLAS_FUNCTIONS(X)                                                                                 \
  X(cublasLtCreate)                                                                                          \
  X(cublasLtDestroy)                                                                                         \
  X(cublasLtMatmul)                                                                                          \
  X(cublasLtMatmulAlgoConfigGetAttribute)                                                                    \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                          \
  X(cublasLtMatmulDescInit_internal)                                                                         \
  X(cublasLtMatmulDescSetAttribute)                                                                          \
  X(cublasLtMatrixLayoutInit_internal)                                                                       \
  X(cublasLtMatmulPreferenceInit_internal)                                                                   \
  X(cublasLtMatmulPreferenceSetAttribute)                                                                    \
  X(cublasLtGetStatusString)                                                                                 \
  X(cublasLtGetVersion)

typedef struct {
  void *library;
  cublasLtHandle_t handle;
#define LS_BLAS_POINTER(name) __typeof__(name) *name;
  LS_BLAS_FUNCTIONS(LS_BLAS_POINTER)
#undef LS_BLAS_POINTER
} ls_blas_t;

/* D (m x n) = op(A) op(B), or that + C, column-major as cuBLAS has it. Sums are f32, whatever the operands are. */
typedef struct {
  int64_t m, n, k;
  cudaDataType_t type, out_type; /* of A and B; of D and the bias */
  bool a_transposed, b_transposed;
  bool adds;       /* C (m x n), of D's type */
  bool bias;       /* adds a vector (m) to every column of D */
  bool relu;       /* .. and then replaces negative elements by 0 */
  bool tf32;       /* f32 factors may be rounded to TF32 (10 bits of mantissa) */
  int align_bytes; /* that all pointers have, up to 256 */
  size_t workspace_bytes;
  int way; /* of those that cuBLASLt offers, from 1 on; LS_BLAS_RULE: by ls_blas_choose */
} ls_blas_key_t;
enum { LS_BLAS_RULE = 0 };

typedef struct {
  ls_blas_key_t key;
  cublasLtMatmulDescOpaque_t desc;
  cublasLtMatrixLayoutOpaque_t a, b, d;
  cublasLtMatmulAlgo_t algo;
} ls_blas_product_t;

/* One way to compute a product, as cuBLASLt describes it. */
typedef struct {
  cublasLtMatmulAlgo_t algo;
  size_t workspace_bytes;
  float waves;                      /* of thread blocks over the GPU's multiprocessors */
  uint32_t tile, stages, reduction; /* cublasLtMatmulTile_t, cublasLtMatmulStages_t, scheme of a split sum */
  int32_t id, split_k;
} ls_blas_way_t;
enum { LS_BLAS_WAY_MAX = 16 };

ls_status_t ls_blas_open(ls_ctx_t *ctx, ls_blas_t *blas);
void ls_blas_close(ls_blas_t *blas);
/* Both do host work only, so they may run while a stream is captured. They report LS_ERR_UNSUPPORTED with the
 * shape. */
/* The product without its algorithm, and the ways that cuBLASLt offers, its own first choice first. */
ls_status_t ls_blas_ways(ls_ctx_t *ctx, const ls_blas_t *blas, const ls_blas_key_t *key,
                         ls_blas_product_t *product, ls_blas_way_t way[LS_BLAS_WAY_MAX], int *count);
/* Chooses one of the ways by a fixed rule over cuBLASLt's description of them, and by cuBLASLt's own order if
 * the rule does not decide. Nothing is timed: the noise of a trial would change bits between runs. */
int ls_blas_choose(const ls_blas_key_t *key, const ls_blas_way_t *way, int count);
/* key->way beyond those that there are: LS_ERR_UNSUPPORTED, not reported. The same key gives the same algorithm on the same GPU with the same library. */
ls_status_t ls_blas_product(ls_ctx_t *ctx, const ls_blas_t *blas, const ls_blas_key_t *key,
                            ls_blas_product_t *product);

#endif
