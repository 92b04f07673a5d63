/* The rule that picks one of cuBLASLt's ways for a product, on ways as an H200 with CUDA 13.0 offered them.
 * Needs no GPU. */
#include "device/cuda/blas.h"

#include <string.h>

#include "unit.h"

enum { T = CUBLASLT_MATMUL_TILE_64x64 };
#define WAY(tile_, split_, workspace_)                                                                       \
  { .tile = (tile_), .split_k = (split_), .workspace_bytes = (workspace_) }
#define LINEAR(n_, i, o)                                                                                     \
  { .m = (o), .n = (n_), .k = (i), .a_transposed = true, .bias = true }
#define LINEAR_TF32(n_, i, o)                                                                                \
  { .m = (o), .n = (n_), .k = (i), .a_transposed = true, .bias = true, .tf32 = true }
#define DX(n_, i, o)                                                                                         \
  { .m = (i), .n = (n_), .k = (o) }
#define DWB(n_, i, o)                                                                                        \
  { .m = (i), .n = (o), .k = (n_), .b_transposed = true }

#define LOW(n_, i, o, transposed)                                                                            \
  {                                                                                                          \
    .m = (o), .n = (n_), .k = (i), .type = CUDA_R_16BF, .out_type = CUDA_R_16BF,                             \
    .a_transposed = (transposed)                                                                             \
  }
#define SPLIT(name, stages_, split_, waves_, workspace_)                                                     \
  {                                                                                                          \
    .tile = CUBLASLT_MATMUL_TILE_##name, .stages = CUBLASLT_MATMUL_STAGES_##stages_, .split_k = (split_),    \
    .waves = (waves_), .workspace_bytes = (workspace_)                                                       \
  }
#define TILES(name, waves_)                                                                                  \
  { .tile = CUBLASLT_MATMUL_TILE_##name, .split_k = 1, .waves = (waves_) }

static const struct {
  const char *what;
  ls_blas_key_t key;
  ls_blas_way_t way[5];
  int count, taken;
} rows[] = {
    {"a few-row kernel beats splits",
     LINEAR(8, 799, 256),
     {WAY(T, 132, 2163383), WAY(T, 1, 0), WAY(0, 1, 0)},
     3,
     2},
    {"264 parts for k = 256 are too many",
     LINEAR(16, 256, 128),
     {WAY(T, 264, 2163379), WAY(T, 264, 2163911), WAY(T, 132, 65536), WAY(T, 105, 869375)},
     4,
     2},
    {"the unsplit few-row kernel before the split one",
     DX(16, 64, 192),
     {WAY(T, 36, 24576), WAY(0, -1, 0), WAY(0, 1, 0)},
     3,
     2},
    {"a split few-row kernel where there is no other",
     DX(16, 256, 128),
     {WAY(T, 16, 65536), WAY(T, 1, 0), WAY(0, -1, 0)},
     3,
     2},
    {"few-row kernels are slow where k is long and strided",
     DX(4, 1024, 512),
     {WAY(T, 16, 65536), WAY(0, 1, 0)},
     2,
     0},
    {"tensor cores overtake them", LINEAR_TF32(8, 1024, 512), {WAY(T, 8, 65536), WAY(0, 1, 0)}, 2, 0},
    {"but not where k is short", LINEAR_TF32(8, 512, 512), {WAY(T, 8, 65536), WAY(0, 1, 0)}, 2, 1},
    {"nor for more rows", LINEAR(32, 256, 128), {WAY(T, 4, 65536), WAY(0, 1, 0)}, 2, 0},
    {"a sum of 16 terms is not split", DWB(16, 799, 256), {WAY(T, 2, 1636352), WAY(T, 1, 0)}, 2, 1},
    {"nor one of 4 by cuBLASLt's own choice",
     DWB(4, 1024, 1024),
     {WAY(T, -1, 0), WAY(T, 4, 4194304), WAY(T, 1, 0)},
     3,
     2},
    {"a long one is, as it comes", DWB(16384, 799, 256), {WAY(T, 10, 8181760), WAY(T, 1, 0)}, 2, 0},
    {"large products keep cuBLASLt's order",
     LINEAR(1024, 1024, 1024),
     {WAY(T, 1, 0), WAY(T, 4, 16778655)},
     2,
     0},
    {"nothing good: the first", LINEAR(32, 64, 192), {WAY(T, 16, 65536), WAY(T, 8, 65536)}, 2, 0},
    {"many tiles of 16 bits are small ones",
     LOW(4096, 768, 3072, true),
     {TILES(256x128, 2.9f), TILES(128x256, 2.9f), TILES(128x160, 4.7f), TILES(128x128, 5.8f)},
     4,
     3},
    {"or nearly, where nothing is transposed",
     LOW(16384, 768, 3072, false),
     {TILES(256x128, 11.6f), TILES(128x256, 11.6f), TILES(128x160, 18.7f)},
     3,
     2},
    {"else not", LOW(16384, 768, 3072, true), {TILES(256x128, 11.6f), TILES(128x160, 18.7f)}, 2, 0},
    {"few tiles are large ones",
     LOW(4096, 512, 1536, true),
     {TILES(192x128, 1.9f), TILES(128x128, 2.9f)},
     2,
     0},
    {"and those of long sums",
     LOW(16384, 50264, 768, false),
     {TILES(256x128, 2.9f), TILES(128x128, 5.8f)},
     2,
     0},
    {"a whole wave before a half",
     DWB(15360, 192, 768),
     {SPLIT(64x128, 8x5, 14, 0.477f, 8257536), SPLIT(64x128, 8x5, 29, 0.989f, 17104896),
      SPLIT(32x64, 8x3, 7, 0.153f, 4131231)},
     3,
     1},
    {"three stages where there is none",
     DWB(3840, 192, 768),
     {SPLIT(64x128, 8x5, 14, 0.477f, 8257536), SPLIT(64x64, 8x3, 7, 0.106f, 4130079),
      SPLIT(128x128, 8x4, 28, 1.273f, 16515072)},
     3,
     1},
    {"a half where the sum is not long",
     DWB(1024, 512, 512),
     {SPLIT(128x64, 8x5, 8, 0.485f, 8388608), SPLIT(128x128, 8x4, 16, 0.97f, 16777216)},
     2,
     0},
    {"or of tensor cores",
     {.m = 192, .n = 768, .k = 15360, .b_transposed = true, .tf32 = true},
     {SPLIT(64x128, 8x5, 14, 0.477f, 8257536), SPLIT(64x128, 8x5, 29, 0.989f, 17104896)},
     2,
     0},
    {"one way", LINEAR(16, 256, 128), {WAY(T, 528, 4326595)}, 1, 0},
};

static void chooses(void **state) {
  (void)state;
  for (int i = 0; i < LS_COUNT(rows); i++) {
    int taken = ls_blas_choose(&rows[i].key, rows[i].way, rows[i].count);
    if (taken != rows[i].taken) fail_msg("%s: way %d was taken, not %d", rows[i].what, taken, rows[i].taken);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(chooses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
