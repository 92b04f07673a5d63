/* Divides a loop between the threads of the compute pool. A loop has as many parts as there are threads. On a
 * reproducible device the number of parts follows from the loop's cost alone, and a thread takes several: a
 * product, whose bits may depend on the cuts, is then always cut the same way. The pool chooses by the loop's time
 * how many threads run the parts. */
#include "device/cpu/cpu.h"

#include "base/signals.h"

enum { PARTS_MAX = 64, FIXED_PARTS_MAX = 16 };

/* Returns a power of two, so that two or four threads get equal work. Each part is worth handing to a thread. */
static int fixed_parts(int64_t cost) {
  int parts = 1;
  while (parts < FIXED_PARTS_MAX && cost / (2 * parts) >= LS_CPU_COST_MIN)
    parts *= 2;
  return parts;
}

/* The time of a loop in one thread, with AVX-512 and its data in the second-level cache. Loops that take
 * longer than this get fewer threads than they could use. */
static int64_t work_ns(ls_cpu_work_t work) {
  enum { BYTES_PER_NS = 100, FLOPS_PER_NS = 200 };
  return work.bytes / BYTES_PER_NS + work.flops / FLOPS_PER_NS;
}

typedef struct {
  ls_cpu_loop_fn fn;
  const void *arg;
  int64_t count, grain;
  int parts;
} loop_t;

static void run_share(void *arg, int thread, int threads) {
  const loop_t *loop = arg;
  for (int p = thread; p < loop->parts; p += threads) {
    int64_t begin, end;
    ls_pool_share(loop->count, loop->grain, p, loop->parts, &begin, &end);
    if (begin < end) loop->fn(loop->arg, begin, end);
  }
}

int ls_cpu_parts(ls_stream_t *stream, ls_cpu_work_t work) {
  const int64_t cost = ls_cpu_cost(work);
  ls_pool_t *pool = ls_stream_pool(stream);
  if (((const ls_host_device_t *)stream->device)->reproducible) return fixed_parts(cost);
  return !pool || cost < LS_CPU_COST_MIN ? 1 : ls_pool_threads(pool);
}

void ls_cpu_loop(ls_stream_t *stream, int64_t count, int64_t grain, ls_cpu_work_t work, ls_cpu_loop_fn fn,
                 const void *arg) {
  ls_pool_t *pool = ls_stream_pool(stream);
  if (count < 1) return;
  int parts = ls_cpu_parts(stream, work);
  if (parts == 1) {
    fn(arg, 0, count);
    return;
  }
  loop_t loop = {fn, arg, count, grain, parts};
  ls_pool_run_work(pool, work_ns(work), run_share, &loop);
}

void ls_cpu_library_loop(ls_stream_t *stream, int64_t count, int64_t grain, ls_cpu_work_t work,
                         ls_cpu_loop_fn fn, const void *arg) {
  sigset_t before;
  ls_signals_block(&before);
  ls_cpu_loop(stream, count, grain, work, fn, arg);
  ls_signals_restore(&before);
}

typedef struct {
  _Alignas(64) double v[2];
} part_t;

typedef struct {
  ls_cpu_sum_fn fn;
  const void *arg;
  int64_t count, grain;
  int parts;
  part_t part[PARTS_MAX];
} sum_t;

static void run_sum(void *arg, int thread, int threads) {
  sum_t *sum = arg;
  for (int p = thread; p < sum->parts; p += threads) {
    int64_t begin, end;
    ls_pool_share(sum->count, sum->grain, p, sum->parts, &begin, &end);
    double *v = sum->part[p].v;
    v[0] = v[1] = 0;
    if (begin < end) sum->fn(sum->arg, begin, end, v);
  }
}

void ls_cpu_sum(ls_stream_t *stream, int64_t count, int64_t grain, ls_cpu_work_t work, ls_cpu_sum_fn fn,
                const void *arg, double sums[2]) {
  ls_pool_t *pool = ls_stream_pool(stream);
  sums[0] = sums[1] = 0;
  if (count < 1) return;
  int parts = ls_cpu_parts(stream, work);
  if (parts == 1 || parts > PARTS_MAX) {
    fn(arg, 0, count, sums);
    return;
  }
  sum_t sum = {.fn = fn, .arg = arg, .count = count, .grain = grain, .parts = parts};
  ls_pool_run_work(pool, work_ns(work), run_sum, &sum);
  for (int p = 0; p < parts; p++) {
    sums[0] += sum.part[p].v[0];
    sums[1] += sum.part[p].v[1];
  }
}
_Static_assert((int)FIXED_PARTS_MAX <= (int)PARTS_MAX, "every part has its sums");
