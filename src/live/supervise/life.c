/* Watches by poll(2): the ends of processes (pidfd) wake it at once, the page is looked at LOOKS times a second. */
#include "supervise/life.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/process.h"
#include "supervise/evidence.h"
#include "supervise/places.h"
#include "supervise/ranks.h"
#include "supervise/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_MS = 50, LOOK_FIRST_MS = 10, LINE_BYTES = 1024, STDOUT = 0, STDERR, HOSTS, FIXED };
static const int64_t grace_ns = 5000000000, stopped_ns = 2000000000, launcher_look_ns = 250000000,
                     ask_ns = 250000000;

typedef struct {
  ls_ctx_t *ctx;
  const ls_supervise_t *spec;
  ls_hosts_t *hosts; /* NULL: one */
  ls_returns_t *returns;
  bool grows; /* the ranks are asked to end, so that more go on */
  ls_page_t *page;
  ls_rings_t *rings; /* NULL: they could not be made */
  ls_usual_t *usual;
  FILE *printed;
  ls_life_end_t *end;
  ls_ranks_t
      own; /* what this process has started: the ranks, or with several hosts one process that starts mpirun */
  bool again;
  const ls_places_t *places;
  int64_t past_step;
  int ranks;
  /* [ranks], but poll: FIXED streams and hosts, the ranks' processes */
  ls_page_look_t *look;
  bool *stopped, *gone, *early; /* its process was stopped; has ended; has ended before it was done */
  struct pollfd *poll;
  pid_t launcher;                           /* a process of it that is stopped; 0: none */
  int64_t launcher_ns, launcher_stopped_ns; /* the last look at it; since when it is stopped */
  int64_t begin_ns, looked_ns;              /* since when a rank counts as silent; the last look */
  int64_t kills;                            /* of the system for want of memory, before */
  ls_end_t seen;
  int64_t dead_ns, stop_asked_ns,
      forced_ns; /* first end of a rank; when they were last asked to end, and forced */
  ls_session_t session;
  char line[LINE_BYTES]; /* of stderr, as far as it has come */
  int line_bytes;
} life_t;

/* Processes that the kernel has ended because memory ran out, since it runs. */
static int64_t system_kills(void) {
  char line[128];
  long long count = 0;
  FILE *file = fopen("/proc/vmstat", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "oom_kill %lld", &count) == 1) break;
  if (file) fclose(file);
  return count;
}

static bool started(const life_t *l) {
  return l->own.count > 0;
}

static ls_status_t start(life_t *l) {
  const char *environment[LS_SESSION_VARIABLES + 3] = {NULL};
  char devices[LS_PLACES_DEVICES_BYTES], *hosts = l->hosts ? ls_places_hosts(l->places) : NULL;
  int n = 0, out[2], err[2];
  if (l->hosts && !hosts) return ls_fail(l->ctx, LS_ERR_MEMORY, "out of memory for the hosts' names");
  if (l->spec->has_devices && l->places->out_count > 0) {
    ls_places_devices(l->places, l->spec->devices, devices);
    environment[n++] = devices;
  }
  if (l->hosts) environment[n++] = ls_hosts_environment(l->hosts);
  for (int i = 0; l->hosts && i < LS_SESSION_VARIABLES; i++)
    if (l->session.variable[i][0]) environment[n++] = l->session.variable[i];
  if (pipe2(out, O_CLOEXEC) != 0) return ls_fail_errno(l->ctx, "no pipe to the ranks");
  l->poll[STDOUT].fd = out[0];
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[1]);
    return ls_fail_errno(l->ctx, "no pipe to the ranks");
  }
  l->poll[STDERR].fd = err[0];
  const ls_child_spec_t spec = {.argv =
                                    l->spec->command(l->spec->user, l->again, l->ranks, hosts, l->past_step),
                                .environment = environment,
                                .stream = {{.file = "/dev/null"}, {.fd = out[1]}, {.fd = err[1]}},
                                .own_group = true};
  ls_status_t status = ls_ranks_start(l->ctx, &spec, l->hosts ? 1 : l->ranks, &l->own);
  free(hosts);
  close(out[1]);
  close(err[1]);
  return status;
}

/* ---- what it writes ---- */

/* Keeps the first error that it reports. */
static void keep_error(life_t *l, const char *bytes, ssize_t got) {
  static const char label[] = "lockstep: error: ";
  const ls_fault_t *fault = &l->end->fault; /* what a life that is being ended says follows from its end */
  for (ssize_t i = 0; i < got && !fault->words[0] && fault->kind == LS_FAULT_NONE; i++) {
    bool ends = bytes[i] == '\n' || bytes[i] == '\r';
    if (!ends && l->line_bytes < LINE_BYTES - 1) l->line[l->line_bytes++] = bytes[i];
    if (!ends) continue;
    l->line[l->line_bytes] = '\0';
    const char *at = strstr(l->line, label);
    if (at) ls_text_shown(at + sizeof label - 1, SIZE_MAX, l->end->fault.words, LS_FAULT_WORDS_BYTES);
    l->line_bytes = 0;
  }
}

static void take_output(life_t *l, int stream) {
  char bytes[4096];
  struct pollfd *from = &l->poll[stream];
  if (from->fd < 0 || !from->revents) return;
  ssize_t got = read(from->fd, bytes, sizeof bytes);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    close(from->fd);
    from->fd = -1;
  } else if (stream == STDOUT) {
    fwrite(bytes, 1, (size_t)got, l->printed);
  } else {
    keep_error(l, bytes, got);
    l->spec->output(l->spec->user, STDERR_FILENO, bytes, (size_t)got);
  }
}

/* ---- its processes ---- */

/* Whether rank r, which this process has started, has ended as it should: done, or because it was asked to. */
static bool ended_well(const life_t *l, int r) {
  const int code = l->own.rank[r].end.code;
  if (code == 0) return l->look[r].phase == LS_PAGE_GONE && !l->look[r].error;
  return code == ls_status_exit_code(LS_ERR_INTERRUPTED) || code == ls_status_exit_code(LS_ERR_AGAIN);
}

/* On several hosts agents say so. */
static void see_gone(life_t *l) {
  for (int r = 0; r < l->ranks; r++)
    if (l->hosts) {
      l->gone[r] = ls_hosts_rank_ended(l->hosts, r);
      l->early[r] =
          l->gone[r] && l->look[r].pid > 0 && (l->look[r].phase != LS_PAGE_GONE || l->look[r].error);
    } else {
      l->gone[r] = l->own.rank[r].pid == 0;
      l->early[r] = l->gone[r] && !ended_well(l, r);
    }
}

/* A rank that ends before it has left its trainer, or with an error, is a fault; the first one is the cause. */
static void see_ends(life_t *l, int64_t now_ns) {
  bool any = false, asked = false;
  if (!started(l)) return;
  if (!l->hosts) ls_ranks_look(&l->own);
  see_gone(l);
  for (int r = 0; r < l->ranks; r++) {
    any |= l->early[r];
    asked |= !l->hosts && l->gone[r] && l->own.rank[r].end.code != 0;
  }
  if (any && (l->seen.dead_rank < 0 || l->hosts)) /* hosts say so in any order */
    l->seen.dead_rank = ls_fault_first_dead(l->look, l->early, l->ranks);
  if ((any || asked) && l->dead_ns == 0) l->dead_ns = now_ns;
}

static void look_at_page(life_t *l, int64_t now_ns) {
  for (int r = 0; r < l->ranks; r++)
    ls_page_look(l->page, r, &l->look[r]);
  ls_usual_learn(l->usual, &l->look[0]);
  ls_life_t *steps = &l->end->steps;
  const ls_page_look_t *first = &l->look[0];
  if (first->phase < LS_PAGE_FIRST_STEP) return;
  if (steps->first_step < 0) steps->first_step = first->first;
  steps->last_step = first->step;
  if (l->end->first_step_ns == 0 && first->phase >= LS_PAGE_STEP)
    l->end->first_step_ns = first->phase == LS_PAGE_STEP ? first->since_ns : now_ns;
}

static void end_all(life_t *l) {
  l->seen.signal_apart = true;
  ls_ranks_signal(&l->own, SIGKILL, true);
}

/* The process that starts the ranks, and mpirun below it, which is its only child. */
static pid_t stopped_launcher(const life_t *l) {
  if (!l->hosts || !started(l) || l->own.running == 0) return 0;
  const pid_t launcher = l->own.rank[0].pid, mpirun = ls_process_child(launcher);
  return ls_process_stopped(launcher) ? launcher : mpirun > 0 && ls_process_stopped(mpirun) ? mpirun : 0;
}

static void look_at_launcher(life_t *l, int64_t now_ns) {
  if (now_ns - l->launcher_ns < launcher_look_ns) return;
  l->launcher_ns = now_ns;
  l->launcher = stopped_launcher(l);
  if (!l->launcher)
    l->launcher_stopped_ns = 0;
  else if (l->launcher_stopped_ns < l->begin_ns)
    l->launcher_stopped_ns = now_ns;
}

/* Ranks go on without their launcher until they need it, and that would be blamed on them. */
static bool look_for_hang(life_t *l, int64_t now_ns) {
  const ls_supervise_config_t *config = l->spec->config;
  ls_fault_t *fault = &l->end->fault;
  for (int r = 0; r < l->ranks; r++)
    l->stopped[r] = false;
  look_at_launcher(l, now_ns);
  const bool late = l->launcher && now_ns - l->launcher_stopped_ns > (int64_t)(config->hang_s * 1e9);
  if (!ls_fault_hang(config, l->usual, l->look, l->stopped, l->ranks, l->begin_ns, now_ns, fault) && !late)
    return false;
  fault->noticed_ns = now_ns;
  if (l->launcher) {
    ls_fault_launcher_stopped(config, l->launcher, l->launcher_stopped_ns, fault);
    return true;
  }
  for (int r = 0; r < l->ranks; r++)
    l->stopped[r] = l->hosts ? ls_hosts_rank_stopped(l->hosts, r)
                             : l->look[r].pid > 0 && ls_process_stopped(l->look[r].pid);
  ls_fault_hang(config, l->usual, l->look, l->stopped, l->ranks, l->begin_ns, now_ns, fault);
  if (fault->kind != LS_FAULT_HANG) return true;
  if (l->hosts && l->rings) ls_hosts_fetch_rings(l->hosts);
  ls_evidence_differ(l->rings, l->look, fault);
  return true;
}

static void pause_all(life_t *l) {
  if (l->hosts) ls_hosts_pause(l->hosts, true);
  ls_ranks_signal(&l->own, l->hosts ? SIGTSTP : SIGSTOP, !l->hosts);
  kill(getpid(), SIGSTOP);
  ls_ranks_signal(&l->own, SIGCONT, !l->hosts);
  if (l->hosts) ls_hosts_pause(l->hosts, false);
  l->begin_ns = l->looked_ns = ls_clock_ns();
}

/* Passes requests on: the first signal asks the ranks to save and end, a second one ends them; what starts mpirun gets a while
 * for it. */
static void pass_on(life_t *l, int64_t now_ns) {
  const ls_requests_t *q = l->spec->requests;
  if (q->held()) pause_all(l);
  if (!started(l)) return;
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

/* After as many steps as count as healthy: what comes and goes must not take all the run's time. */
static void look_for_returns(life_t *l, int64_t now_ns) {
  const ls_life_t *steps = &l->end->steps;
  const bool healthy =
      steps->first_step >= 0 && steps->last_step - steps->first_step >= l->spec->restarts->healthy_steps;
  if (healthy && !l->grows) l->grows = ls_returns_look(l->returns, l->places, now_ns);
}

/* The ranks are started when all hosts are ready. True: a host is lost, or the start was given up. */
static bool look_at_hosts(life_t *l, int64_t now_ns, ls_status_t *status) {
  ls_fault_t *fault = &l->end->fault;
  ls_hosts_serve(l->hosts, now_ns);
  if (l->forced_ns == 0 && ls_hosts_lost(l->hosts, fault)) return true;
  if (started(l)) return false;
  if (l->spec->requests->asked()) {
    fault->kind = LS_FAULT_ASKED;
    fault->noticed_ns = now_ns;
    return true;
  }
  if (ls_hosts_ready(l->hosts)) *status = start(l);
  return *status != LS_OK;
}

/* Until the child has closed its streams, and with them all that it started. True: what is left has to be ended, and the
 * fault is known. */
static bool watch(life_t *l, ls_status_t *status) {
  while (!started(l) || l->poll[STDOUT].fd >= 0 || l->poll[STDERR].fd >= 0) {
    for (int r = 0; !l->hosts && r < l->ranks; r++)
      l->poll[FIXED + r].fd = l->own.rank[r].process;
    poll(l->poll, (nfds_t)(FIXED + l->ranks), l->end->first_step_ns ? LOOK_MS : LOOK_FIRST_MS);
    int64_t now_ns = ls_clock_ns();
    if (l->looked_ns > 0 && now_ns - l->looked_ns > stopped_ns) l->begin_ns = now_ns;
    l->looked_ns = now_ns;
    pass_on(l, now_ns);
    if (l->hosts && look_at_hosts(l, now_ns, status)) return true;
    look_at_page(l, now_ns);
    look_for_returns(l, now_ns);
    see_ends(l, now_ns);
    take_output(l, STDOUT);
    take_output(l, STDERR);
    const bool others_wait = !l->hosts && l->seen.dead_rank >= 0;
    if (others_wait || (l->dead_ns > 0 && now_ns - l->dead_ns > grace_ns)) end_all(l);
    if (l->dead_ns == 0 && l->forced_ns == 0 && started(l) && look_for_hang(l, now_ns)) return true;
  }
  return false;
}

/* Ranks whose devices wait for each other give up their communicators, which may take NCCL long, or for ever. */
static void abort_collectives(life_t *l) {
  const bool devices = ls_evidence_devices(l->rings);
  for (int r = 0; l->rings && r < l->ranks; r++)
    ls_rings_at(l->rings, r)->give_up = true;
  if (l->hosts) ls_hosts_abort_collectives(l->hosts);
  const int64_t end_ns = ls_clock_ns() + grace_ns;
  while (devices && ls_clock_ns() < end_ns && (l->poll[STDOUT].fd >= 0 || l->poll[STDERR].fd >= 0)) {
    poll(l->poll, FIXED, LOOK_MS);
    take_output(l, STDOUT);
    take_output(l, STDERR);
  }
}

static void look_at_gpus(life_t *l, ls_fault_t *fault) {
  int rank = -1;
  for (int r = 0; r < l->ranks; r++) {
    ls_page_speed_look_t speed;
    ls_page_speed_look(l->page, r, 0, &speed);
    if ((speed.limits & LS_LIMIT_BROKEN) && (rank < 0 || r == fault->rank)) rank = r;
  }
  if (rank >= 0) ls_fault_of_gpu(rank, &l->look[rank], fault);
}

/* The run's end is that of the rank that failed first, or of the process that started mpirun. */
static void take_code(life_t *l) {
  if (!started(l)) return;
  const int rank = l->hosts ? 0 : l->seen.dead_rank >= 0 ? l->seen.dead_rank : l->own.failed;
  l->seen.signal_apart |= !l->hosts;
  if (rank < 0) return;
  l->seen.signal = l->own.rank[rank].end.signal;
  l->seen.code = l->own.rank[rank].end.code;
}

/* What follows from the loss of a host comes before its silence is long enough. */
static void finish(life_t *l, bool known) {
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
  ls_session_remove(
      &l->session); /* of several hosts: the page's folder, which agents make that come late, and mpirun here */
  l->seen.kills_of_system = system_kills() - l->kills;
  look_at_page(l, ls_clock_ns());
  see_ends(l, ls_clock_ns());
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
  look_at_gpus(l, fault);
  l->end->ended_ns = ls_clock_ns();
  if (l->end->first_step_ns > 0)
    l->end->steps.trained_s = (double)(l->end->ended_ns - l->end->first_step_ns) * 1e-9;
}

static void release(life_t *l) {
  for (int i = 0; l->poll && i < FIXED; i++)
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
  life_t l = {.ctx = ctx,
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
              .poll = ls_alloc_array(ctx, n + FIXED, sizeof *l.poll),
              .own = {.failed = -1, .world.file = -1},
              .seen = {.dead_rank = -1},
              .kills = system_kills()};
  ls_status_t status = l.look && l.stopped && l.gone && l.early && l.poll ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; l.poll && i < FIXED + ranks; i++)
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
  if (hosts && l.poll) l.poll[HOSTS].fd = ls_hosts_fd(hosts);
  if (status == LS_OK) finish(&l, watch(&l, &status));
  if (hosts && l.poll) l.poll[HOSTS].fd = -1;
  release(&l);
  return status;
}
