/* Sharing a loop between the threads of the compute pool. */
#include "device/cpu/cpu.h"

typedef struct {
  ls_cpu_loop_fn fn;
  const void *arg;
  int64_t count, grain;
} loop_t;

static void run_share(void *arg, int thread, int threads) {
  const loop_t *loop = arg;
  int64_t begin, end;
  ls_pool_share(loop->count, loop->grain, thread, threads, &begin, &end);
  if (begin < end) loop->fn(loop->arg, begin, end);
}

void ls_cpu_loop(ls_stream_t *stream, int64_t count, int64_t grain, int64_t cost, ls_cpu_loop_fn fn,
                 const void *arg) {
  ls_pool_t *pool = ls_stream_pool(stream);
  if (count < 1) return;
  if (!pool || cost < LS_CPU_COST_MIN || ls_pool_threads(pool) == 1) {
    fn(arg, 0, count);
    return;
  }
  loop_t loop = {fn, arg, count, grain};
  ls_pool_run(pool, run_share, &loop);
}

enum { PARTS_MAX = 64 };
typedef struct {
  _Alignas(64) double v[2];
} part_t;

typedef struct {
  ls_cpu_sum_fn fn;
  const void *arg;
  int64_t count, grain;
  part_t part[PARTS_MAX];
} sum_t;

static void run_sum(void *arg, int thread, int threads) {
  sum_t *sum = arg;
  int64_t begin, end;
  ls_pool_share(sum->count, sum->grain, thread, threads, &begin, &end);
  double *v = sum->part[thread].v;
  v[0] = v[1] = 0;
  if (begin < end) sum->fn(sum->arg, begin, end, v);
}

void ls_cpu_sum(ls_stream_t *stream, int64_t count, int64_t grain, int64_t cost, ls_cpu_sum_fn fn,
                const void *arg, double sums[2]) {
  ls_pool_t *pool = ls_stream_pool(stream);
  int threads = pool ? ls_pool_threads(pool) : 1;
  sums[0] = sums[1] = 0;
  if (count < 1) return;
  if (threads == 1 || threads > PARTS_MAX || cost < LS_CPU_COST_MIN) {
    fn(arg, 0, count, sums);
    return;
  }
  sum_t sum = {.fn = fn, .arg = arg, .count = count, .grain = grain};
  ls_pool_run(pool, run_sum, &sum);
  for (int t = 0; t < threads; t++) {
    sums[0] += sum.part[t].v[0];
    sums[1] += sum.part[t].v[1];
  }
}
