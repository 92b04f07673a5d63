/* Opens cuBLASLt and describes matrix products to it. True f32 unless TF32 is requested, and no algorithm
 * that could add its parts in a different order from run to run. */
#include "device/cuda/blas.h"

#include <dlfcn.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define LIBRARY    "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static ls_status_t find_functions(ls_ctx_t *ctx, ls_blas_t *blas) {
#define FIND(name)                                                                                           \
  {                                                                                                          \
    void *symbol = dlsym(blas->library, #name);                                                              \
    if (!symbol) return ls_fail(ctx, LS_ERR_UNSUPPORTED, "backend cuda: " LIBRARY " has no " #name);         \
    memcpy(&blas->name, &symbol, sizeof symbol);                                                             \
  }
  LS_BLAS_FUNCTIONS(FIND)
#undef FIND
  return LS_OK;
}

ls_status_t ls_blas_open(ls_ctx_t *ctx, ls_blas_t *blas) {
  ls_blas_t b = {.library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL)};
  if (!b.library) {
    const char *why = dlerror();
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "backend cuda: cuBLASLt cannot be loaded: %s",
                   why ? why : "no reason given");
  }
  ls_status_t status = find_functions(ctx, &b);
  if (status) goto library;
  cublasStatus_t result = b.cublasLtCreate(&b.handle);
  if (result != CUBLAS_STATUS_SUCCESS) {
    status = ls_fail(ctx, LS_ERR_DEVICE, "backend cuda: cuBLASLt: %s", b.cublasLtGetStatusString(result));
    goto library;
  }
  *blas = b;
  return LS_OK;
library:
  dlclose(b.library);
  return status;
}

/* The library stays open: unloading it while the driver still knows its kernels is not safe. */
void ls_blas_close(ls_blas_t *blas) {
  if (blas->handle) (void)blas->cublasLtDestroy(blas->handle);
  blas->handle = NULL;
}

/* Descriptors that do not depend on the algorithm. A is stored (m x k), or (k x m) when transposed. */
static cublasStatus_t describe(const ls_blas_t *blas, ls_blas_product_t *product) {
  const ls_blas_key_t *key = &product->key;
  cublasOperation_t op_a = key->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t op_b = key->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = key->relu   ? CUBLASLT_EPILOGUE_RELU_BIAS
                                : key->bias ? CUBLASLT_EPILOGUE_BIAS
                                            : CUBLASLT_EPILOGUE_DEFAULT;
  int64_t a_rows = key->a_transposed ? key->k : key->m, a_cols = key->a_transposed ? key->m : key->k;
  int64_t b_rows = key->b_transposed ? key->n : key->k, b_cols = key->b_transposed ? key->k : key->n;
  cublasLtMatmulDesc_t desc = (cublasLtMatmulDesc_t)&product->desc;
  cublasComputeType_t compute = key->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasStatus_t r = blas->cublasLtMatmulDescInit_internal(desc, sizeof product->desc, compute, CUDA_R_32F);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatrixLayoutInit_internal((cublasLtMatrixLayout_t)&product->a, sizeof product->a,
                                                key->type, (uint64_t)a_rows, (uint64_t)a_cols, a_rows);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatrixLayoutInit_internal((cublasLtMatrixLayout_t)&product->b, sizeof product->b,
                                                key->type, (uint64_t)b_rows, (uint64_t)b_cols, b_rows);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatrixLayoutInit_internal((cublasLtMatrixLayout_t)&product->d, sizeof product->d,
                                                key->out_type, (uint64_t)key->m, (uint64_t)key->n, key->m);
  return r;
}

/* Split products may add their parts in a separate pass, which has one order; not in place. Parts are f32; but a product
 * of 16 bits to which something is added is not split, because what is added behind that pass would be rounded twice. */
static cublasStatus_t prefer(const ls_blas_t *blas, const ls_blas_key_t *key,
                             cublasLtMatmulPreferenceOpaque_t *preference) {
  static const cublasLtMatmulPreferenceAttributes_t alignment[] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  cublasLtMatmulPreference_t p = preference;
  uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (key->out_type == CUDA_R_32F)
    schemes |= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  else if (key->bias || key->adds)
    schemes = CUBLASLT_REDUCTION_SCHEME_NONE;
  uint64_t workspace_bytes = key->workspace_bytes;
  uint32_t align_bytes = (uint32_t)key->align_bytes;
  cublasStatus_t r = blas->cublasLtMatmulPreferenceInit_internal(p, sizeof *preference);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                   &workspace_bytes, sizeof workspace_bytes);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                   sizeof schemes);
  for (int i = 0; i < LS_COUNT(alignment) && r == CUBLAS_STATUS_SUCCESS; i++)
    r = blas->cublasLtMatmulPreferenceSetAttribute(p, alignment[i], &align_bytes, sizeof align_bytes);
  return r;
}

static ls_status_t fail_product(ls_ctx_t *ctx, const ls_blas_t *blas, const ls_blas_key_t *key,
                                cublasStatus_t r) {
  return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                 "cuBLASLt has no way to multiply (%lld x %lld) by (%lld x %lld): %s", (long long)key->m,
                 (long long)key->k, (long long)key->k, (long long)key->n, blas->cublasLtGetStatusString(r));
}

/* An attribute that an algorithm does not have stays 0. */
static void read_way(const ls_blas_t *blas, const cublasLtMatmulHeuristicResult_t *found,
                     ls_blas_way_t *way) {
  *way = (ls_blas_way_t){
      .algo = found->algo, .workspace_bytes = found->workspaceSize, .waves = found->wavesCount};
  const struct {
    cublasLtMatmulAlgoConfigAttributes_t attribute;
    void *value;
  } rows[] = {{CUBLASLT_ALGO_CONFIG_ID, &way->id},
              {CUBLASLT_ALGO_CONFIG_TILE_ID, &way->tile},
              {CUBLASLT_ALGO_CONFIG_STAGES_ID, &way->stages},
              {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &way->split_k},
              {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &way->reduction}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    (void)blas->cublasLtMatmulAlgoConfigGetAttribute(&found->algo, rows[i].attribute, rows[i].value,
                                                     sizeof(uint32_t), NULL);
}

ls_status_t ls_blas_ways(ls_ctx_t *ctx, const ls_blas_t *blas, const ls_blas_key_t *key,
                         ls_blas_product_t *product, ls_blas_way_t way[LS_BLAS_WAY_MAX], int *count) {
  ls_blas_product_t p = {.key = *key};
  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulHeuristicResult_t found[LS_BLAS_WAY_MAX];
  int found_count = 0, usable = 0;
  cublasStatus_t r = describe(blas, &p);
  if (r == CUBLAS_STATUS_SUCCESS) r = prefer(blas, key, &preference);
  if (r == CUBLAS_STATUS_SUCCESS)
    r = blas->cublasLtMatmulAlgoGetHeuristic(blas->handle, (cublasLtMatmulDesc_t)&p.desc,
                                             (cublasLtMatrixLayout_t)&p.a, (cublasLtMatrixLayout_t)&p.b,
                                             (cublasLtMatrixLayout_t)&p.d, (cublasLtMatrixLayout_t)&p.d,
                                             &preference, LS_BLAS_WAY_MAX, found, &found_count);
  for (int i = 0; r == CUBLAS_STATUS_SUCCESS && i < found_count; i++)
    if (found[i].state == CUBLAS_STATUS_SUCCESS) read_way(blas, &found[i], &way[usable++]);
  if (r == CUBLAS_STATUS_SUCCESS && usable < 1) r = CUBLAS_STATUS_NOT_SUPPORTED;
  if (r != CUBLAS_STATUS_SUCCESS) return fail_product(ctx, blas, key, r);
  *product = p;
  *count = usable;
  return LS_OK;
}

ls_status_t ls_blas_product(ls_ctx_t *ctx, const ls_blas_t *blas, const ls_blas_key_t *key,
                            ls_blas_product_t *product) {
  ls_blas_way_t way[LS_BLAS_WAY_MAX];
  int count;
  ls_status_t status = ls_blas_ways(ctx, blas, key, product, way, &count);
  if (status) return status;
  if (key->way > count) return LS_ERR_UNSUPPORTED;
  product->algo = way[key->way ? key->way - 1 : ls_blas_choose(key, way, count)].algo;
  return LS_OK;
}
