/* Watches by poll(2): the ends of processes (pidfd) wake it at once, the page is looked at twenty times a second. */
#include "supervise/life_look.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/process.h"
#include "supervise/evidence.h"
#include "supervise/places.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 50, LOOK_FIRST_MS = 10 };
static const int64_t grace_ns = 5000000000, stopped_ns = 2000000000, ask_ns = 250000000;

static ls_status_t start(ls_life_run_t *l) {
  const char *environment[LS_SESSION_VARIABLES + 3] = {NULL};
  char devices[LS_PLACES_DEVICES_BYTES];
  int n = 0, out[2], err[2];
  if (l->spec->has_devices && l->places->out_count > 0) {
    ls_places_devices(l->places, l->spec->devices, devices);
    environment[n++] = devices;
  }
  if (l->hosts) environment[n++] = ls_hosts_environment(l->hosts);
  for (int i = 0; l->hosts && i < LS_SESSION_VARIABLES; i++)
    if (l->session.variable[i][0]) environment[n++] = l->session.variable[i];
  if (pipe2(out, O_CLOEXEC) != 0) return ls_fail_errno(l->ctx, "no pipe to the ranks");
  l->poll[LS_LIFE_STDOUT].fd = out[0];
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[1]);
    return ls_fail_errno(l->ctx, "no pipe to the ranks");
  }
  l->poll[LS_LIFE_STDERR].fd = err[0];
  char *hosts = l->hosts ? ls_places_hosts(l->places) : NULL;
  const ls_child_spec_t spec = {.argv =
                                    l->spec->command(l->spec->user, l->again, l->ranks, hosts, l->past_step),
                                .environment = environment,
                                .stream = {{.file = "/dev/null"}, {.fd = out[1]}, {.fd = err[1]}},
                                .own_group = true};
  ls_status_t status = l->hosts && !hosts
                           ? ls_fail(l->ctx, LS_ERR_MEMORY, "out of memory for the hosts' names")
                           : ls_ranks_start(l->ctx, &spec, l->hosts ? 1 : l->ranks, &l->own);
  free(hosts);
  close(out[1]);
  close(err[1]);
  return status;
}

static void end_all(ls_life_run_t *l) {
  l->seen.signal_apart = true;
  ls_ranks_signal(&l->own, SIGKILL, true);
}

static void pause_all(ls_life_run_t *l) {
  if (l->hosts) ls_hosts_pause(l->hosts, true);
  ls_ranks_signal(&l->own, l->hosts ? SIGTSTP : SIGSTOP, !l->hosts);
  kill(getpid(), SIGSTOP);
  ls_ranks_signal(&l->own, SIGCONT, !l->hosts);
  if (l->hosts) ls_hosts_pause(l->hosts, false);
  l->begin_ns = l->looked_ns = ls_clock_ns();
}

/* Passes requests on: the first signal asks the ranks to save and end, a second one ends them; what starts mpirun gets a while
 * for it. */
static void pass_on(ls_life_run_t *l, int64_t now_ns) {
  const ls_requests_t *q = l->spec->requests;
  if (q->paused()) pause_all(l);
  if (!ls_life_started(l)) return;
  if ((q->asked() || l->grows) && now_ns - l->stop_asked_ns > ask_ns) {
    l->stop_asked_ns = now_ns;
    l->seen.asked = q->asked();
    ls_ranks_ask(&l->own, q->asked() ? q->asked() : SIGUSR1);
  }
  if (q->forced() && l->forced_ns == 0) {
    l->forced_ns = now_ns;
    if (l->hosts) ls_ranks_signal(&l->own, SIGTERM, false);
  }
  if (l->forced_ns > 0 && (!l->hosts || now_ns - l->forced_ns > grace_ns)) end_all(l);
}

/* Waits for as many steps as count as healthy: a host that comes and goes must not take all the run's time. */
static void look_for_returns(ls_life_run_t *l, int64_t now_ns) {
  const ls_life_t *steps = &l->end->steps;
  const bool healthy =
      steps->first_step >= 0 && steps->last_step - steps->first_step >= l->spec->restarts->healthy_steps;
  if (healthy && !l->grows) l->grows = ls_returns_look(l->returns, l->places, now_ns);
}

/* The ranks are started when all hosts are ready. True: a host is lost, or the start was given up. */
static bool look_at_hosts(ls_life_run_t *l, int64_t now_ns, ls_status_t *status) {
  ls_fault_t *fault = &l->end->fault;
  ls_hosts_serve(l->hosts, now_ns);
  if (l->forced_ns == 0 && ls_hosts_lost(l->hosts, fault)) return true;
  if (ls_life_started(l)) return false;
  if (l->spec->requests->asked()) {
    fault->kind = LS_FAULT_ASKED;
    fault->noticed_ns = now_ns;
    return true;
  }
  if (ls_hosts_ready(l->hosts)) *status = start(l);
  return *status != LS_OK;
}

/* Returns when all processes of the life have closed their streams. True: the fault is known, and the processes that are left
 * have to be ended. */
static bool watch(ls_life_run_t *l, ls_status_t *status) {
  while (!ls_life_started(l) || l->poll[LS_LIFE_STDOUT].fd >= 0 || l->poll[LS_LIFE_STDERR].fd >= 0) {
    for (int r = 0; !l->hosts && r < l->ranks; r++)
      l->poll[LS_LIFE_FIXED + r].fd = l->own.rank[r].process;
    poll(l->poll, (nfds_t)(LS_LIFE_FIXED + l->ranks), l->end->first_step_ns ? LOOK_MS : LOOK_FIRST_MS);
    int64_t now_ns = ls_clock_ns();
    if (l->looked_ns > 0 && now_ns - l->looked_ns > stopped_ns) l->begin_ns = now_ns;
    l->looked_ns = now_ns;
    pass_on(l, now_ns);
    if (l->hosts && look_at_hosts(l, now_ns, status)) return true;
    if (!l->hosts) ls_ranks_look(&l->own);
    ls_life_look_at_page(l, now_ns);
    look_for_returns(l, now_ns);
    ls_life_see_ends(l, now_ns);
    ls_life_take_output(l, LS_LIFE_STDOUT);
    ls_life_take_output(l, LS_LIFE_STDERR);
    const bool others_wait = !l->hosts && l->seen.dead_rank >= 0;
    if (others_wait || (l->dead_ns > 0 && now_ns - l->dead_ns > grace_ns)) end_all(l);
    if (l->dead_ns == 0 && l->forced_ns == 0 && ls_life_started(l) && ls_life_hangs(l, now_ns)) return true;
  }
  return false;
}

/* Ranks whose devices wait for each other give up their communicators, which may take NCCL long, or for ever. */
static void abort_collectives(ls_life_run_t *l) {
  const bool devices = ls_evidence_devices(l->rings);
  for (int r = 0; l->rings && r < l->ranks; r++)
    ls_rings_at(l->rings, r)->give_up = true;
  if (l->hosts) ls_hosts_abort_collectives(l->hosts);
  const int64_t end_ns = ls_clock_ns() + grace_ns;
  while (devices && ls_clock_ns() < end_ns &&
         (l->poll[LS_LIFE_STDOUT].fd >= 0 || l->poll[LS_LIFE_STDERR].fd >= 0)) {
    poll(l->poll, LS_LIFE_FIXED, LOOK_MS);
    ls_life_take_output(l, LS_LIFE_STDOUT);
    ls_life_take_output(l, LS_LIFE_STDERR);
  }
}

/* The run's end is that of the rank that failed first, or of the process that started mpirun. */
static void take_code(ls_life_run_t *l) {
  if (!ls_life_started(l)) return;
  const int rank = l->hosts ? 0 : l->seen.dead_rank >= 0 ? l->seen.dead_rank : l->own.failed;
  l->seen.signal_apart |= !l->hosts;
  if (rank < 0) return;
  l->seen.signal = l->own.rank[rank].end.signal;
  l->seen.code = l->own.rank[rank].end.code;
}

/* The consequences of a lost host come before its silence is long enough. */
static void finish(ls_life_run_t *l, bool known) {
  ls_fault_t *fault = &l->end->fault;
  int64_t closed_ns = ls_clock_ns();
  if (known && fault->kind == LS_FAULT_HANG) {
    json_t *process = l->hosts ? ls_hosts_fetch_process(l->hosts, fault->rank)
                               : ls_evidence_process(fault->at.pid, ls_evidence_devices(l->rings));
    l->end->evidence = ls_evidence_hang(l->rings, process);
    abort_collectives(l);
  }
  if (known) end_all(l);
  ls_ranks_wait(&l->own);
  if (l->hosts) ls_hosts_end(l->hosts);
  ls_child_end_below();
  ls_session_remove(&l->session); /* the page's folder, which agents make that come late, and mpirun here */
  l->seen.kills_of_system = ls_life_system_kills() - l->kills;
  ls_life_look_at_page(l, ls_clock_ns());
  ls_life_see_ends(l, ls_clock_ns());
  take_code(l);
  if (!known) {
    ls_fault_classify(&l->seen, l->look, l->ranks, fault);
    fault->noticed_ns = l->dead_ns > 0 ? l->dead_ns : closed_ns;
    if (l->hosts && fault->kind != LS_FAULT_NONE && fault->kind != LS_FAULT_ASKED)
      ls_hosts_lost(l->hosts, fault);
  }
  if (fault->kind == LS_FAULT_ASKED && l->grows && !l->seen.asked) {
    fault->kind = LS_FAULT_RETURN;
    snprintf(fault->words, sizeof fault->words, "%s", ls_returns_words(l->returns));
  }
  ls_life_look_at_gpus(l, fault);
  l->end->ended_ns = ls_clock_ns();
  if (l->end->first_step_ns > 0)
    l->end->steps.trained_s = (double)(l->end->ended_ns - l->end->first_step_ns) * 1e-9;
}

static void release(ls_life_run_t *l) {
  for (int i = 0; l->poll && i < LS_LIFE_FIXED; i++)
    if (l->poll[i].fd >= 0) close(l->poll[i].fd);
  ls_ranks_release(&l->own);
  ls_rings_close(l->rings);
  ls_free(l->look);
  ls_free(l->stopped);
  ls_free(l->gone);
  ls_free(l->early);
  ls_free(l->poll);
}

ls_status_t ls_life_run(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_hosts_t *hosts, ls_returns_t *returns,
                        ls_page_t *page, bool again, const ls_places_t *places, int64_t past_step,
                        ls_usual_t *usual, FILE *printed, ls_life_end_t *end) {
  const int ranks = ls_page_ranks(page);
  const size_t n = (size_t)ranks;
  *end = (ls_life_end_t){.fault.rank = -1, .steps = {.first_step = -1, .last_step = -1}, .ranks = ranks};
  ls_life_run_t l = {.ctx = ctx,
                     .spec = spec,
                     .hosts = hosts,
                     .returns = returns,
                     .again = again,
                     .places = places,
                     .past_step = past_step,
                     .page = page,
                     .usual = usual,
                     .printed = printed,
                     .end = end,
                     .ranks = ranks,
                     .look = ls_alloc_array(ctx, n, sizeof *l.look),
                     .stopped = ls_alloc_array(ctx, n, sizeof *l.stopped),
                     .gone = ls_alloc_array(ctx, n, sizeof *l.gone),
                     .early = ls_alloc_array(ctx, n, sizeof *l.early),
                     .poll = ls_alloc_array(ctx, n + LS_LIFE_FIXED, sizeof *l.poll),
                     .own = {.failed = -1, .world.file = -1},
                     .seen = {.dead_rank = -1},
                     .kills = ls_life_system_kills()};
  ls_status_t status = l.look && l.stopped && l.gone && l.early && l.poll ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; l.poll && i < LS_LIFE_FIXED + ranks; i++)
    l.poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
  for (int r = 0; r < ranks; r++) {
    ls_page_clear(ls_page_line(page, r));
    atomic_store_explicit(&ls_page_speed(page, r)->limits, 0, memory_order_relaxed); /* another rank's GPU */
  }
  usual->since_ns = 0;
  end->start_ns = l.begin_ns = ls_clock_ns();
  ls_returns_begin(returns, l.begin_ns);
  if (status == LS_OK && ls_rings_create(ctx, spec->dir, ranks, &l.rings) != LS_OK)
    l.rings = NULL; /* a warning says so */
  if (status == LS_OK) status = hosts ? ls_hosts_begin(hosts, places, page, l.rings) : start(&l);
  if (hosts && status == LS_OK) ls_session_at(ls_hosts_page_dir(hosts), &l.session);
  if (hosts && l.poll) l.poll[LS_LIFE_HOSTS].fd = ls_hosts_fd(hosts);
  if (status == LS_OK) finish(&l, watch(&l, &status));
  if (hosts && l.poll) l.poll[LS_LIFE_HOSTS].fd = -1;
  release(&l);
  return status;
}
