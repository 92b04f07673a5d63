/* Chooses one of cuBLASLt's ways to compute a product. Its own order is good for large products; for small
 * ones the first way can be ten times slower than the best. The rule reads only cuBLASLt's description of the
 * ways, so that every run gives the same bits. Its limits are those at which bench_cuda_matmul found it to
 * pay on an H200 with CUDA 13.0: of 585 products none becomes slower. */
#include "device/cuda/blas.h"

enum { TILES_K = 4096 };
static const float TILES_WAVES = 3.5f;
enum {
  FEW_ROWS = 16,
  FEW_ROWS_K = 192,
  FEW_ROWS_TF32_K = 512,
  SPLIT_K_MIN = 128,
  SPLIT_PART_MIN = 32,
  LONG_SUM = 2
};

/* Whether the way is meant for few rows: kernels without tiles, which read each weight once. On an H200 they
 * win by up to 9 times where the weights are read along k (a_transposed), and lose elsewhere unless k is
 * short; tensor cores overtake them when k is long, or factors have 16 bits. */
static bool for_few_rows(const ls_blas_key_t *key, const ls_blas_way_t *way) {
  int64_t k_max = !key->a_transposed ? FEW_ROWS_K : key->tf32 ? FEW_ROWS_TF32_K : INT64_MAX;
  return key->type == CUDA_R_32F && key->n <= FEW_ROWS && !key->b_transposed && key->k <= k_max &&
         way->workspace_bytes == 0 && way->tile == CUBLASLT_MATMUL_TILE_UNDEFINED;
}

/* The least number of parts in which the sum over k is computed. Small tiles of D leave most of a GPU idle,
 * so the heuristic splits k, on an H200 into up to 528 parts for k = 256. Adding them up takes ten times as
 * long as the rest. */
static double parts(const ls_blas_key_t *key, const ls_blas_way_t *way) {
  if (way->split_k == 1) return 1;
  double stored = (double)way->workspace_bytes / ((double)sizeof(float) * (double)key->m * (double)key->n);
  return stored > 2 ? stored : 2;
}

static bool worth_splitting(const ls_blas_key_t *key, const ls_blas_way_t *way) {
  double count = parts(key, way);
  return count == 1 || (key->k >= SPLIT_K_MIN && (double)key->k / count >= SPLIT_PART_MIN);
}

/* Whether the way has smaller tiles than cuBLASLt's first choice for results of 16 bits, 256 x 128, which waits longer for its
 * results to be written. On an H200 they win by 3 to 15 % where there are several tiles for each multiprocessor and sums are
 * short, and lose elsewhere. 128 x 160 wins where neither factor is transposed. */
static bool small_tiles(const ls_blas_key_t *key, const ls_blas_way_t *way, uint32_t tile) {
  bool fits = tile == CUBLASLT_MATMUL_TILE_128x128 || !key->a_transposed;
  return fits && key->out_type != CUDA_R_32F && key->k <= TILES_K && way->tile == tile && way->split_k == 1 &&
         way->waves >= TILES_WAVES;
}

/* Whether the way's blocks fill half of the GPU: what cuBLASLt often takes first for gradients of weights over many rows. */
static bool half_full(const ls_blas_key_t *key, const ls_blas_way_t *way) {
  int64_t side = key->m > key->n ? key->m : key->n;
  return key->b_transposed && key->type == CUDA_R_32F && !key->tf32 && key->k > LONG_SUM * side &&
         way->split_k != 1 && way->waves > 0.4f && way->waves < 0.5f;
}

/* On an H200 the ways in its place that fill the whole GPU win by 17 to 32 %, and where there is none those of three stages by
 * 26 %. */
static int fuller(const ls_blas_key_t *key, const ls_blas_way_t *way, int count, int first) {
  for (int i = first; i < count; i++)
    if (way[i].split_k != 1 && way[i].waves >= 0.9f && way[i].waves <= 1 && worth_splitting(key, &way[i]))
      return i;
  for (int i = first; i < count; i++)
    if (way[i].stages == CUBLASLT_MATMUL_STAGES_8x3 && worth_splitting(key, &way[i])) return i;
  return first;
}

int ls_blas_choose(const ls_blas_key_t *key, const ls_blas_way_t *way, int count) {
  int few = -1;
  for (int i = 0; i < count; i++)
    if (for_few_rows(key, &way[i]) && (few < 0 || (way[few].split_k != 1 && way[i].split_k == 1))) few = i;
  if (few >= 0) return few;
  static const uint32_t tiles[] = {CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_TILE_128x160};
  for (int t = 0; t < LS_COUNT(tiles); t++)
    for (int i = 0; i < count; i++)
      if (small_tiles(key, &way[i], tiles[t])) return i;
  for (int i = 0; i < count; i++)
    if (worth_splitting(key, &way[i])) return half_full(key, &way[i]) ? fuller(key, way, count, i) : i;
  return 0;
}
