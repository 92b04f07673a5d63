/* What cuBLASLt's ways to compute one product take on a GPU, and which of them the backend's rule takes:
 *   bench_cuda_matmul [ALL.csv]
 * For linear and its gradients, over a layer of an LSTM and those of two networks, rows of a batch and both types.
 * Each way is captured REPEATS times into a graph and the graph is timed, so that launching does not count; operands
 * stay in the cache, as in training. One line per product whose first way is not the best by far; ALL.csv gets every
 * way. */
#include "device/cuda/blas.h"

#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 16, TIMINGS = 5, FIRST_BEST = 8, WORKSPACE_BYTES = 32 << 20 };

typedef struct {
  ls_ctx_t *ctx;
  ls_blas_t blas;
  cudaStream_t stream;
  cudaEvent_t start, stop;
  float *a, *b, *d, *bias;
  void *workspace;
  FILE *csv;
  double first_us, best_us, rule_us; /* sums since the last total */
} bench_t;

static void must(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
  exit(1);
}

static int by_value(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static bool multiply(bench_t *b, ls_blas_product_t *p, const cublasLtMatmulAlgo_t *algo) {
  static const float one = 1, zero = 0;
  return b->blas.cublasLtMatmul(b->blas.handle, (cublasLtMatmulDesc_t)&p->desc, &one, b->a,
                                (cublasLtMatrixLayout_t)&p->a, b->b, (cublasLtMatrixLayout_t)&p->b, &zero,
                                b->d, (cublasLtMatrixLayout_t)&p->d, b->d, (cublasLtMatrixLayout_t)&p->d,
                                algo, b->workspace, WORKSPACE_BYTES, b->stream) == CUBLAS_STATUS_SUCCESS;
}

/* Median time of one product; negative when this way fails. */
static double time_us(bench_t *b, ls_blas_product_t *plan, const cublasLtMatmulAlgo_t *algo) {
  float ms[TIMINGS];
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  bool works = multiply(b, plan, algo); /* loads the kernel, which cannot happen in a capture */
  must(cudaStreamSynchronize(b->stream));
  must(cudaStreamBeginCapture(b->stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < REPEATS; i++)
    works = works && multiply(b, plan, algo);
  must(cudaStreamEndCapture(b->stream, &graph));
  must(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = -1; i < TIMINGS; i++) {
    must(cudaEventRecord(b->start, b->stream));
    must(cudaGraphLaunch(exec, b->stream));
    must(cudaEventRecord(b->stop, b->stream));
    must(cudaEventSynchronize(b->stop));
    if (i >= 0) must(cudaEventElapsedTime(&ms[i], b->start, b->stop));
  }
  must(cudaGraphExecDestroy(exec));
  must(cudaGraphDestroy(graph));
  qsort(ms, TIMINGS, sizeof ms[0], by_value);
  return works ? (double)ms[TIMINGS / 2] * 1e3 / REPEATS : -1;
}

static void product(bench_t *b, const char *op, ls_blas_key_t key, int64_t n, int64_t i, int64_t o) {
  ls_blas_product_t plan, rule;
  ls_blas_way_t way[LS_BLAS_WAY_MAX];
  double us[LS_BLAS_WAY_MAX];
  int count, best = 0, taken = -1;
  key.align_bytes = 256;
  key.workspace_bytes = WORKSPACE_BYTES;
  if (ls_blas_ways(b->ctx, &b->blas, &key, &plan, way, &count) ||
      ls_blas_product(b->ctx, &b->blas, &key, &rule)) {
    printf("%s: %s\n", op, ls_ctx_error(b->ctx));
    return;
  }
  if (key.bias)
    (void)b->blas.cublasLtMatmulDescSetAttribute((cublasLtMatmulDesc_t)&plan.desc,
                                                 CUBLASLT_MATMUL_DESC_BIAS_POINTER, &b->bias, sizeof b->bias);
  const char *type = key.tf32 ? "tf32" : "fp32";
  for (int w = 0; w < count; w++) {
    us[w] = time_us(b, &plan, &way[w].algo);
    if (us[w] >= 0 && us[w] < us[best] && w < FIRST_BEST) best = w;
    if (memcmp(&way[w].algo, &rule.algo, sizeof rule.algo) == 0 && taken < 0) taken = w;
    if (b->csv)
      fprintf(b->csv,
              "%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
              ",%d,%d,%u,%u,%d,%u,%.3f,%zu,%.3f\n",
              type, op, n, i, o, key.m, key.n, key.k, w, way[w].id, way[w].tile, way[w].stages,
              way[w].split_k, way[w].reduction, (double)way[w].waves, way[w].workspace_bytes, us[w]);
  }
  double rule_us = taken >= 0 ? us[taken] : time_us(b, &plan, &rule.algo);
  b->first_us += us[0];
  b->best_us += us[best];
  b->rule_us += rule_us;
  if (us[0] > 1.3 * us[best] || rule_us > 1.3 * us[best])
    printf("%s %-10s n %5" PRId64 " i %4" PRId64 " o %4" PRId64 " %8.1f %7.1f #%-2d %7.1f #%d\n", type, op, n,
           i, o, us[0], us[best], best, rule_us, taken);
}

static void layer(bench_t *b, bool tf32, int64_t n, int64_t i, int64_t o, bool first) {
  product(b, "linear",
          (ls_blas_key_t){.m = o, .n = n, .k = i, .a_transposed = true, .bias = true, .tf32 = tf32}, n, i, o);
  if (!first) product(b, "linear_dx", (ls_blas_key_t){.m = i, .n = n, .k = o, .tf32 = tf32}, n, i, o);
  product(b, "linear_dwb", (ls_blas_key_t){.m = i, .n = o, .k = n, .b_transposed = true, .tf32 = tf32}, n, i,
          o);
}

static void network(bench_t *b, const char *name, const int64_t *widths, int layers, int64_t rows_min,
                    int64_t rows_max) {
  for (int tf32 = 0; tf32 < 2; tf32++)
    for (int64_t n = rows_min; n <= rows_max; n *= 2) {
      b->first_us = b->best_us = b->rule_us = 0;
      for (int l = 0; l < layers; l++)
        layer(b, tf32, n, widths[l], widths[l + 1], l == 0);
      printf("%s %-6s rows %5" PRId64 " all: first %8.1f us, best %8.1f us, rule %8.1f us\n",
             tf32 ? "tf32" : "fp32", name, n, b->first_us, b->best_us, b->rule_us);
      fflush(stdout);
    }
}

/* The products of a layer of an LSTM, whose inputs are those of another. */
static void recurrent(bench_t *b, int64_t units, int64_t rows_min, int64_t rows_max) {
  for (int64_t n = rows_min; n <= rows_max; n *= 2) {
    b->first_us = b->best_us = b->rule_us = 0;
    layer(b, false, n, units, 4 * units, false);
    printf("fp32 lstm %" PRId64 " rows %5" PRId64 " all: first %8.1f us, best %8.1f us, rule %8.1f us\n",
           units, n, b->first_us, b->best_us, b->rule_us);
    fflush(stdout);
  }
}

static float *numbers(size_t count) {
  float *host = malloc(count * sizeof *host), *device;
  if (!host) exit(1);
  for (size_t k = 0; k < count; k++)
    host[k] = (float)(k % 251) / 251.0f - 0.5f;
  must(cudaMalloc((void **)&device, count * sizeof *host));
  must(cudaMemcpy(device, host, count * sizeof *host, cudaMemcpyHostToDevice));
  free(host);
  return device;
}

static void print_log(void *user, ls_log_level_t level, const char *message) {
  (void)user;
  if (level <= LS_LOG_WARN) fprintf(stderr, "%s\n", message);
}

int main(int argc, char **argv) {
  static const int64_t medium[] = {799, 256, 128, 64, 192}, large[] = {4608, 1024, 1024, 512, 512, 256, 768};
  const size_t most = (size_t)16384 * 1024; /* elements of the largest operand */
  bench_t b = {.ctx = ls_ctx_create(print_log, NULL), .csv = argc > 1 ? fopen(argv[1], "w") : NULL};
  if (!b.ctx || (argc > 1 && !b.csv) || ls_blas_open(b.ctx, &b.blas)) return 1;
  must(cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking));
  must(cudaEventCreate(&b.start));
  must(cudaEventCreate(&b.stop));
  must(cudaMalloc(&b.workspace, WORKSPACE_BYTES));
  b.a = numbers(most), b.b = numbers(most), b.d = numbers(most), b.bias = numbers(16384);
  must(cudaDeviceSynchronize());
  if (b.csv)
    fprintf(b.csv,
            "type,op,rows,inputs,outputs,m,n,k,way,id,tile,stages,split_k,reduction,waves,workspace,us\n");
  printf("type op          rows  inputs outputs  first us, best us #way (of %d), rule us #way\n", FIRST_BEST);
  recurrent(&b, 192, 960, 15360);
  network(&b, "medium", medium, LS_COUNT(medium) - 1, 8, 16384);
  network(&b, "large", large, LS_COUNT(large) - 1, 4, 1024);
  if (b.csv && fclose(b.csv)) return 1;
  ls_blas_close(&b.blas);
  ls_ctx_destroy(b.ctx);
  return 0;
}
