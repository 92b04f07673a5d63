/* Speed of all-reduce between processes, fp32 sum.
 *   bench_allreduce shm N [best]                     ranks that share memory, started here
 *   mpirun -np N bench_allreduce [exchange] [best]   ranks of MPI: in a window, or by messages
 *
 * Three ways: run() back to back; on an ASYNC stream with an idle main thread; on an ASYNC stream while the
 * main thread computes on the same core, as the backward pass does. Then the time that the computation itself
 * needs with and without the traffic beside it. Under mpirun also MPI's own MPI_Allreduce, for comparison. Times are
 * medians over repetitions of the slowest rank; algorithm and bus bandwidth as nccl-tests defines them. */
#include "comm/mpi/mpi.h"
#include "comm/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
  ls_comm_t *comm;
  ls_stream_t *stream;
  volatile double sink;
  bool mpi;  /* the ranks have MPI */
  bool best; /* report the fastest repetition: for machines that are not quiet */
} bench_t;

enum { REPEATS_MAX = 400, RANKS_MAX = 64 };

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median over repetitions of the maximum over ranks. */
static double summary_us(bench_t *b, double *us, int repeats) {
  static double all[RANKS_MAX * REPEATS_MAX];
  ls_comm_gather(b->comm, "times", us, repeats * (int64_t)sizeof *us, all);
  for (int i = 0; i < b->comm->size * repeats; i++)
    if (all[i] > us[i % repeats]) us[i % repeats] = all[i];
  qsort(us, (size_t)repeats, sizeof *us, by_value);
  return us[b->best ? 0 : repeats / 2];
}

/* About `us` microseconds of work that touches no memory. */
static void compute(bench_t *b, int64_t loops) {
  double x = 1.0;
  for (int64_t i = 0; i < loops; i++)
    x = x * 1.0000001 + 1e-9;
  b->sink = x;
}

typedef enum { RUN, STREAM, BUSY, MPI_OWN } way_t;

static double measure(bench_t *b, ls_collective_t *c, way_t way, int repeats, int64_t loops,
                      double *busy_us) {
  static double us[REPEATS_MAX], work_us[REPEATS_MAX];
  for (int i = -3; i < repeats; i++) {
    ls_comm_barrier(b->comm, "start");
    int64_t start_ns = ls_clock_ns();
    if (way == RUN) b->comm->ops->run(b->comm, c);
    if (way == MPI_OWN) MPI_Allreduce(c->send, c->recv, (int)c->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (way == STREAM || way == BUSY) ls_comm_enqueue(b->stream, c);
    if (way == BUSY) compute(b, loops);
    int64_t computed_ns = ls_clock_ns();
    if (way == STREAM || way == BUSY) b->stream->device->backend->stream->sync(b->stream, 0);
    if (i < 0) continue;
    us[i] = (double)(ls_clock_ns() - start_ns) * 1e-3;
    work_us[i] = (double)(computed_ns - start_ns) * 1e-3;
  }
  if (busy_us) *busy_us = summary_us(b, work_us, repeats);
  return summary_us(b, us, repeats);
}

static void table(bench_t *b) {
  static const int64_t bytes[] = {64, 4096, 262144, 1048576, 4194304, 27541504};
  const int64_t most = bytes[LS_COUNT(bytes) - 1];
  float *send = calloc(1, (size_t)most), *recv = calloc(1, (size_t)most);
  if (!send || !recv) exit(1);
  memset(send, 1, (size_t)most);
  memset(recv, 1, (size_t)most);
  const bool first = b->comm->rank == 0;
  if (first)
    printf("%10s %10s %8s %8s %10s %10s %10s %10s %10s\n", "bytes", "run us", "alg GB/s", "bus GB/s",
           "stream us", "work us", "both us", "busy us", "MPI us");
  for (int i = 0; i < LS_COUNT(bytes); i++) {
    ls_collective_t c = {
        .kind = LS_ALL_REDUCE, .name = "bench", .send = send, .recv = recv, .count = bytes[i] / 4};
    if (ls_comm_bind(b->comm, &c) != LS_OK) break;
    int repeats = bytes[i] > 2000000 ? 40 : REPEATS_MAX;
    double run_us = measure(b, &c, RUN, repeats, 0, NULL);
    double stream_us = measure(b, &c, STREAM, repeats, 0, NULL);
    double mpi_us = b->mpi ? measure(b, &c, MPI_OWN, repeats, 0, NULL) : 0;
    int64_t loops = (int64_t)(run_us * 500) + 20000, start_ns = ls_clock_ns();
    ls_comm_broadcast(b->comm, "work", &loops, sizeof loops, 0);
    start_ns = ls_clock_ns();
    compute(b, loops);
    double work_us = (double)(ls_clock_ns() - start_ns) * 1e-3, busy_us;
    double both_us = measure(b, &c, BUSY, repeats, loops, &busy_us);
    int64_t bus = ls_collective_bus_bytes(c.kind, c.count, c.dtype, b->comm->size);
    if (first)
      printf("%10lld %10.1f %8.2f %8.2f %10.1f %10.1f %10.1f %10.1f %10.1f\n", (long long)bytes[i], run_us,
             (double)bytes[i] * 1e-3 / run_us, (double)bus * 1e-3 / run_us, stream_us, work_us, both_us,
             busy_us, mpi_us);
  }
  free(recv);
  free(send);
}

/* Becomes one of `size` ranks that share memory; the process that started them ends with them. */
static bool be_rank(int size) {
  static char variable[LS_SHM_NAME_BYTES];
  ls_shm_world_t world;
  int failed = 0, state;
  if (size < 2 || size > RANKS_MAX || ls_comm_shm_prepare(NULL, size, &world) != LS_OK) return false;
  for (int i = 0; i < size; i++) {
    if (fork() != 0) continue;
    ls_comm_shm_name(&world, i, variable);
    return putenv(variable) == 0;
  }
  while (wait(&state) > 0)
    failed += state != 0;
  exit(failed != 0);
}

int main(int argc, char **argv) {
  const bool shm = argc > 2 && strcmp(argv[1], "shm") == 0;
  bool window = true;
  bench_t b = {.mpi = !shm};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "exchange") == 0) window = false;
    if (strcmp(argv[i], "best") == 0) b.best = true;
  }
  if (shm && !be_rank(atoi(argv[2]))) return 1;
  ls_device_t *device;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 1;
  if ((shm ? ls_comm_shm_create(ctx, 0, &b.comm) : ls_mpi_create(ctx, 0, window, &b.comm)) != LS_OK) return 1;
  cpu_set_t unbound;
  ls_cpu_narrow(b.comm->rank, b.comm->size, &unbound); /* as a training does */
  if (ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device) != LS_OK) return 1;
  if (ls_backend_ref.stream->create(device, LS_STREAM_ASYNC, &b.stream) != LS_OK) return 1;
  table(&b);
  ls_backend_ref.stream->destroy(b.stream);
  ls_backend_ref.device->close(device);
  ls_comm_destroy(b.comm);
  ls_ctx_destroy(ctx);
  return 0;
}
