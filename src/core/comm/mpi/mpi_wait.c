/* Polled waits of the mpi transport. MPI makes progress only inside its calls, so a wait cannot sleep until
 * something happens. It spins for some microseconds, then yields the core, then sleeps in short naps. */
#include "comm/mpi/mpi.h"

#include <sched.h>
#include <time.h>

enum { SPIN_NS = 20000, YIELD_NS = 100000, NAP_NS = 20000 };

static void back_off(int64_t waited_ns) {
  if (waited_ns < SPIN_NS) return;
  if (waited_ns < YIELD_NS) {
    sched_yield();
    return;
  }
  nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* The first request that a final check does not find complete. */
static int first_pending(MPI_Request *request, int count) {
  for (int i = 0; i < count; i++) {
    int done = 1;
    if (MPI_Test(&request[i], &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) return i;
  }
  return 0;
}

ls_status_t ls_mpi_wait(pthread_mutex_t *lock, int64_t deadline_ns, MPI_Request *request, int count,
                        int *pending, int *error) {
  int64_t start_ns = ls_clock_ns(), looked_ns = 0;
  for (;;) {
    int done = 0;
    if (lock) pthread_mutex_lock(lock);
    *error = MPI_Testall(count, request, &done, MPI_STATUSES_IGNORE);
    int64_t waited_ns = ls_clock_look(&looked_ns, &start_ns);
    waited_ns -= start_ns;
    bool late = !done && waited_ns >= deadline_ns;
    if (late) *pending = first_pending(request, count);
    if (lock) pthread_mutex_unlock(lock);
    if (*error != MPI_SUCCESS) return LS_ERR_COMM;
    if (done) return LS_OK;
    if (late) return LS_ERR_TIMEOUT;
    back_off(waited_ns);
  }
}
