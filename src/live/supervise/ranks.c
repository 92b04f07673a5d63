/* Starting the ranks of one host, and looking after them until the last one has ended. */
#include "supervise/ranks.h"

#include "base/base.h"
#include "base/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

enum { RANKS_ALWAYS = 64, RANKS_PER_CORE = 8, LOOK_MS = 250, VARIABLES_MAX = 8 };
static const int64_t grace_ns = 5000000000; /* for ranks that end by themselves */

ls_status_t ls_ranks_check(ls_ctx_t *ctx, int count) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  long most = cores > RANKS_ALWAYS / RANKS_PER_CORE ? cores * RANKS_PER_CORE : RANKS_ALWAYS;
  if (count <= most) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "%d ranks are more than the %ld that are started on a machine of %ld cores; start them over "
                 "several with your launcher",
                 count, most, cores);
}

/* ---- starting, looking, ending ---- */

/* Starts rank i with the specification's environment (at most VARIABLES_MAX variables) and, if there are several ranks, the
 * shared memory that joins them. Returns an errno value, 0 if it runs. */
static int start_rank(const ls_child_spec_t *spec, ls_ranks_t *r, int i) {
  char variable[LS_SHM_NAME_BYTES];
  const char *environment[VARIABLES_MAX + 2] = {NULL};
  ls_child_spec_t own = *spec;
  int n = 0;
  while (spec->environment && spec->environment[n] && n < VARIABLES_MAX) {
    environment[n] = spec->environment[n];
    n++;
  }
  if (r->world.head) {
    ls_comm_shm_name(&r->world, i, variable);
    environment[n] = variable;
    own.inherited = r->world.file;
  }
  own.self = true;
  own.environment = environment;
  const int error = ls_child_start(&own, &r->rank[i].pid);
  if (error != 0) {
    r->rank[i].pid = 0;
    return error;
  }
  r->rank[i].process = ls_process_watch(r->rank[i].pid);
  r->running++;
  return 0;
}

ls_status_t ls_ranks_start(ls_ctx_t *ctx, const ls_child_spec_t *spec, int count, ls_ranks_t *r) {
  int error = 0;
  *r = (ls_ranks_t){.count = count, .failed = -1, .world.file = -1};
  r->rank = ls_alloc_array(ctx, (size_t)count, sizeof *r->rank);
  ls_status_t status = r->rank ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; r->rank && i < count; i++)
    r->rank[i].process = -1;
  if (status == LS_OK && count > 1) status = ls_comm_shm_prepare(ctx, count, &r->world);
  for (int i = 0; status == LS_OK && error == 0 && i < count; i++)
    error = start_rank(spec, r, i);
  return error == 0
             ? status
             : ls_fail(ctx, LS_ERR_UNSUPPORTED, "the ranks could not be started (%s)", strerror(error));
}

/* A rank that has joined the others and not left them has failed, even with exit code 0. */
static bool has_failed(const ls_ranks_t *r, int i) {
  const bool deserted = r->world.head && ls_comm_shm_joined(&r->world, i) && !ls_comm_shm_left(&r->world, i);
  return r->rank[i].end.code != 0 || deserted;
}

static void set_ended(ls_ranks_t *r, int i) {
  r->rank[i].pid = 0;
  r->running--;
  if (r->rank[i].process >= 0) close(r->rank[i].process);
  r->rank[i].process = -1;
}

bool ls_ranks_look(ls_ranks_t *r) {
  int failed = -1;
  for (int i = 0; i < r->count; i++) {
    if (r->rank[i].pid == 0 || !ls_child_ended(r->rank[i].pid, &r->rank[i].end)) continue;
    set_ended(r, i);
    if (has_failed(r, i) && (failed < 0 || (r->rank[i].end.signal && !r->rank[failed].end.signal)))
      failed = i;
  }
  if (failed < 0 || r->failed >= 0) return false;
  r->failed = failed;
  return true;
}

void ls_ranks_wait(ls_ranks_t *r) {
  ls_ranks_look(r);
  for (int i = 0; i < r->count; i++) {
    if (r->rank[i].pid == 0) continue;
    ls_child_wait(r->rank[i].pid, &r->rank[i].end);
    set_ended(r, i);
    if (has_failed(r, i) && r->failed < 0) r->failed = i;
  }
}

void ls_ranks_signal(const ls_ranks_t *r, int signal_number, bool below) {
  for (int i = 0; r->rank && i < r->count; i++) {
    if (r->rank[i].pid == 0) continue;
    if (below) ls_child_signal_below(r->rank[i].pid, signal_number);
    kill(r->rank[i].pid, signal_number);
  }
}

void ls_ranks_release(ls_ranks_t *r) {
  ls_ranks_signal(r, SIGKILL, true);
  if (r->rank) ls_ranks_wait(r);
  ls_comm_shm_release(&r->world);
  ls_free(r->rank);
  *r = (ls_ranks_t){.failed = -1, .world.file = -1};
}

void ls_ranks_ask(const ls_ranks_t *r, int cause) {
  for (int i = 0; i < r->count; i++)
    if (r->rank[i].pid > 0) ls_child_ask(r->rank[i].pid, SIGUSR1, cause);
}

int ls_ranks_code(const ls_ranks_t *r) {
  const int aborted = r->world.head ? ls_comm_shm_aborted(&r->world) : 0;
  if (r->failed < 0) return 0;
  const ls_child_end_t *end = &r->rank[r->failed].end;
  if (end->signal || aborted == 0) return end->code ? end->code : ls_status_exit_code(LS_ERR_COMM);
  return aborted;
}

/* ---- the whole run ---- */

typedef struct {
  ls_ctx_t *ctx;
  ls_ranks_t ranks;
  const ls_requests_t *requests;
  struct pollfd *poll;
  int64_t patience_ns; /* from a request to end until they are killed */
  int64_t asked_ns;    /* when the ranks were asked to end; 0: not yet */
  int64_t failed_ns;   /* when the first failure was seen; 0: none was */
  bool forced;         /* they were killed after a request */
} run_t;

/* Ctrl-Z: the ranks first, then this process; SIGCONT wakes it, and it wakes them. */
static void stop_and_go_on(run_t *run) {
  ls_ranks_signal(&run->ranks, SIGSTOP, true);
  kill(getpid(), SIGSTOP);
  ls_ranks_signal(&run->ranks, SIGCONT, true);
  if (run->asked_ns) run->asked_ns = ls_clock_ns(); /* the time while they stood still does not count */
}

/* Ranks hear no request inside a collective, which may wait for one that never comes. */
static void pass_on(run_t *run) {
  const ls_requests_t *q = run->requests;
  const int64_t now_ns = ls_clock_ns();
  if (q->paused()) stop_and_go_on(run);
  if (!q->asked() || run->forced) return;
  if (!run->asked_ns) run->asked_ns = now_ns;
  const bool late = now_ns - run->asked_ns >= run->patience_ns;
  run->forced = late || q->forced();
  if (late)
    ls_log(run->ctx, LS_LOG_WARN,
           "%s asked the ranks to end, and after %g s they have not: they are ended without saving",
           q->name(q->asked()), (double)run->patience_ns / 1e9);
  if (run->forced)
    ls_ranks_signal(&run->ranks, SIGKILL, true);
  else
    ls_ranks_ask(&run->ranks, q->asked());
}

/* Kills the ranks that would wait for one that has failed. A rank that has left the others ends by itself within grace_ns. */
static void end_others(run_t *run) {
  const ls_ranks_t *r = &run->ranks;
  const bool late = ls_clock_ns() - run->failed_ns > grace_ns;
  for (int i = 0; i < r->count; i++)
    if (r->rank[i].pid > 0 && (late || !ls_comm_shm_left(&r->world, i))) kill(r->rank[i].pid, SIGKILL);
}

static void watch(run_t *run) {
  ls_ranks_t *r = &run->ranks;
  while (r->running > 0) {
    for (int i = 0; i < r->count; i++)
      run->poll[i] = (struct pollfd){.fd = r->rank[i].process, .events = POLLIN};
    poll(run->poll, (nfds_t)r->count, LOOK_MS);
    pass_on(run);
    if (ls_ranks_look(r)) run->failed_ns = ls_clock_ns();
    if (run->failed_ns > 0) end_others(run);
  }
}

/* Says what no rank has said. Rank 0 names a signal that it has heard. */
static int report(run_t *run) {
  const ls_ranks_t *r = &run->ranks;
  const ls_requests_t *q = run->requests;
  const int code = ls_ranks_code(r), interrupted = ls_status_exit_code(LS_ERR_INTERRUPTED);
  if (r->failed < 0) return 0;
  const ls_child_end_t *end = &r->rank[r->failed].end;
  const bool by_request = end->signal == SIGUSR1 || end->signal == q->asked();
  if (q->asked() && (run->forced || by_request)) {
    if (r->rank[0].end.signal)
      ls_fail(run->ctx, LS_ERR_INTERRUPTED, "interrupted by %s", q->name(q->asked()));
    return interrupted;
  }
  if (end->signal)
    ls_log(run->ctx, LS_LOG_ERROR, "rank %d was ended by signal %d (%s)", r->failed, end->signal,
           strsignal(end->signal));
  else if (end->code == 0)
    ls_log(run->ctx, LS_LOG_ERROR, "rank %d ended without having finished", r->failed);
  return code;
}

ls_status_t ls_ranks_run(ls_ctx_t *ctx, const ls_child_spec_t *spec, int count, const ls_requests_t *requests,
                         double patience_s, int *code) {
  run_t run = {.ctx = ctx,
               .requests = requests,
               .patience_ns = (int64_t)(patience_s * 1e9),
               .poll = ls_alloc_array(ctx, (size_t)count, sizeof *run.poll)};
  if (run.patience_ns < grace_ns) run.patience_ns = grace_ns;
  if (!run.poll) return LS_ERR_MEMORY;
  prctl(PR_SET_CHILD_SUBREAPER, 1); /* children of a killed rank become this process's */
  ls_status_t status = ls_ranks_start(ctx, spec, count, &run.ranks);
  if (status == LS_OK) {
    watch(&run);
    *code = report(&run);
  }
  ls_ranks_release(&run.ranks);
  ls_child_end_below();
  ls_free(run.poll);
  return status;
}
