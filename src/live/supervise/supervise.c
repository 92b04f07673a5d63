/* Lives in turn, until one reaches its end or the rules say that another one would not. */
#include "supervise/supervise.h"

#include "base/base.h"
#include "monitor/ring.h"
#include "supervise/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAP_MS = 50 };

typedef struct {
  ls_ctx_t *ctx;
  const ls_supervise_t *spec;
  ls_page_t *page;
  ls_usual_t usual;
  ls_restarts_t restarts;
  ls_hosts_t *hosts; /* NULL: one */
  ls_returns_t *returns;
  ls_report_t report;
  bool began;
  struct stat mark; /* spec->mark as an earlier run has left it */
  int64_t fault_ns; /* when the last one was noticed; 0: none yet */
} run_t;

/* Zeros: there is none. On a network file system stat may answer a minute late; opening the folder, and the file in it, asks
 * the server. */
static struct stat look_at_mark(const ls_supervise_t *s) {
  struct stat found = {0};
  const int dir = open(s->shared, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int file = dir >= 0 ? openat(dir, s->mark, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
  if (file >= 0) fstat(file, &found);
  if (file >= 0) close(file);
  if (dir >= 0) close(dir);
  return found;
}

static bool has_begun(const run_t *run) {
  if (run->began || run->spec->resume) return true;
  const struct stat now = look_at_mark(run->spec), *earlier = &run->mark;
  return now.st_ino != 0 && (now.st_ino != earlier->st_ino || now.st_mtim.tv_sec != earlier->st_mtim.tv_sec ||
                             now.st_mtim.tv_nsec != earlier->st_mtim.tv_nsec);
}

/* The wait before the next life. False: a signal asked to end. */
static bool wait_ns(const run_t *run, int64_t ns) {
  const ls_supervise_t *s = run->spec;
  int64_t end_ns = ls_clock_ns() + ns;
  for (int64_t left; !s->requests->asked() && (left = end_ns - ls_clock_ns()) > 0;)
    poll(NULL, 0, left > NAP_MS * INT64_C(1000000) ? NAP_MS : (int)(left / 1000000) + 1);
  return !s->requests->asked();
}

static void log_decision(run_t *run, const ls_life_end_t *life, const ls_decision_t *decision) {
  char text[1024], ranks[160] = "";
  const ls_places_t *p = &run->restarts.places;
  ls_fault_text(&life->fault, life->ranks, text, sizeof text);
  if (decision->fewer && life->fault.host)
    snprintf(ranks, sizeof ranks, " on %d of %d ranks, without host %s", ls_places_ranks(p), p->all,
             life->fault.host);
  else if (decision->fewer)
    snprintf(ranks, sizeof ranks, " on %d of %d ranks, without rank %d", ls_places_ranks(p), p->all,
             p->out[p->out_count - 1]);
  if (decision->more && p->out_count == 0) snprintf(ranks, sizeof ranks, " on all %d ranks", p->all);
  if (decision->more && p->out_count > 0)
    snprintf(ranks, sizeof ranks, " on %d of %d ranks", ls_places_ranks(p), p->all);
  if (life->fault.kind == LS_FAULT_RETURN && decision->again)
    ls_log(run->ctx, LS_LOG_INFO, "%s. The run goes on%s", text, ranks);
  else if (decision->again)
    ls_log(run->ctx, LS_LOG_WARN, "%s. Restart %lld of %lld %s%s", text, (long long)run->restarts.restarts,
           (long long)run->spec->restarts->most,
           run->began ? "from the newest good checkpoint" : "from the beginning", ranks);
  else if (decision->why[0])
    ls_log(run->ctx, LS_LOG_ERROR, "%s. Not started again: %s (%s/supervise.txt)", text, decision->why,
           run->spec->dir);
}

/* The page has a line for each rank of the next life. */
static ls_status_t open_page(run_t *run) {
  int ranks = ls_places_ranks(&run->restarts.places);
  if (run->page && ls_page_ranks(run->page) == ranks) return LS_OK;
  ls_page_close(run->page);
  run->page = NULL;
  run->usual = (ls_usual_t){0}; /* a step takes another time */
  return ls_page_open(run->ctx, run->spec->dir, ranks, &run->page);
}

/* One life; *code: of the program, should it be the last. */
static ls_status_t live(run_t *run, ls_decision_t *decision, int *code) {
  const ls_supervise_t *s = run->spec;
  char *bytes = NULL;
  size_t size = 0;
  ls_life_end_t life;
  FILE *printed = open_memstream(&bytes, &size);
  if (!printed) return ls_fail(run->ctx, LS_ERR_MEMORY, "out of memory for the run's output");
  ls_status_t status = open_page(run);
  if (status == LS_OK)
    status = ls_life_run(run->ctx, s, run->hosts, run->returns, run->page, run->began, &run->restarts.places,
                         run->restarts.past_step, &run->usual, printed, &life);
  fclose(printed);
  if (status == LS_OK) {
    run->began = has_begun(run);
    if (life.fault.kind == LS_FAULT_RETURN) ls_returns_take(run->returns, &run->restarts.places);
    *decision =
        ls_restarts_decide(s->restarts, s->config->skip_steps, &run->restarts, &life.steps, &life.fault);
    if (s->requests->asked() && decision->again)
      *decision = (ls_decision_t){.why = "a signal asked the run to end"};
    *code = life.fault.kind == LS_FAULT_ASKED ? LS_SUPERVISE_AGAIN
            : life.fault.code                 ? life.fault.code
                                              : life.fault.signal;
    if (life.fault.budget_ns > 0 || life.fault.kind == LS_FAULT_HOST)
      *code = ls_status_exit_code(LS_ERR_TIMEOUT);
    if (life.fault.kind == LS_FAULT_EXIT && *code == 0) *code = ls_status_exit_code(LS_ERR_INTERNAL);
    if (run->fault_ns > 0 && life.first_step_ns > 0)
      ls_log(run->ctx, LS_LOG_INFO, "first new step %.2f s after the failure was noticed",
             (double)(life.first_step_ns - run->fault_ns) * 1e-9);
    run->fault_ns = life.fault.kind == LS_FAULT_RETURN ? 0 : life.fault.noticed_ns;
    ls_report_life(&run->report, &life, decision, &run->restarts);
    json_decref(life.evidence);
    log_decision(run, &life, decision);
    if (!decision->again && size > 0) s->output(s->user, STDOUT_FILENO, bytes, size);
  }
  free(bytes);
  return status;
}

/* One supervisor to a directory: another one would clear the lines of this one's ranks. *lock ends with the process. */
static ls_status_t lock_dir(ls_ctx_t *ctx, const char *dir, int *lock) {
  ls_status_t status = ls_dir_make(ctx, dir);
  if (status != LS_OK) return status;
  *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (*lock < 0) return ls_fail_errno(ctx, "%s: cannot be opened", dir);
  if (flock(*lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return LS_OK;
  return ls_fail(ctx, LS_ERR_BUSY, "%s: a run is supervised from this directory already", dir);
}

static const char *result_of(int code) {
  return code == 0 ? "finished" : code == LS_SUPERVISE_AGAIN ? "preempted" : "failed";
}

/* A batch system repeats a run that it has ended itself; who pressed Ctrl-C has had enough. */
static int exit_code(const ls_supervise_t *s, int code) {
  int signal_number = code == LS_SUPERVISE_AGAIN ? s->requests->asked() : 0;
  bool by_hand = signal_number == SIGINT || signal_number == SIGQUIT || signal_number == SIGHUP;
  return by_hand ? ls_status_exit_code(LS_ERR_INTERRUPTED) : code;
}

int ls_supervise(ls_ctx_t *ctx, const ls_supervise_t *spec) {
  run_t run = {.ctx = ctx,
               .spec = spec,
               .restarts.places = spec->places,
               .mark = look_at_mark(spec),
               .report = {spec->dir, spec->places.all, json_array()}};
  ls_decision_t decision = {.again = true};
  int code = 0, lock = -1;
  prctl(PR_SET_CHILD_SUBREAPER, 1); /* children of a killed rank or launcher become this process's */
  ls_status_t status = lock_dir(ctx, spec->dir, &lock);
  if (status == LS_OK) status = open_page(&run);
  if (status == LS_OK && spec->places.hosts) status = ls_hosts_open(ctx, spec, &run.hosts);
  if (status == LS_OK) status = ls_returns_open(ctx, spec, &run.returns);
  while (status == LS_OK && decision.again) {
    status = live(&run, &decision, &code);
    if (status == LS_OK && decision.again) {
      ls_report_write(ctx, &run.report, "running", 0); /* a report that cannot be written ends no run */
      if (!wait_ns(&run, decision.wait_ns)) {
        decision.again = false;
        code = LS_SUPERVISE_AGAIN;
      }
    }
  }
  if (status != LS_OK) code = ls_status_exit_code(status);
  const char *result = result_of(code);
  code = exit_code(spec, code);
  if (run.page) ls_report_write(ctx, &run.report, result, code);
  ls_hosts_close(run.hosts);
  ls_returns_close(run.returns);
  ls_page_close(run.page);
  if (lock >= 0) ls_rings_remove(spec->dir); /* who has no supervisor writes no rings */
  if (lock >= 0) close(lock);
  json_decref(run.report.lives);
  return code;
}
