/* Watches by poll(2): the ends of processes (pidfd) wake it at once, the page is looked at LOOKS times a second. */
#include "supervise/life.h"

#include "base/child.h"
#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

enum { LOOK_MS = 50, LOOK_FIRST_MS = 10, LINE_BYTES = 1024, STDOUT = 0, STDERR, FIXED };
static const int64_t grace_ns = 5000000000, stopped_ns = 2000000000;

typedef struct {
  ls_ctx_t *ctx;
  const ls_supervise_t *spec;
  ls_page_t *page;
  ls_usual_t *usual;
  FILE *printed;
  ls_life_end_t *end;
  pid_t child;
  int ranks;
  /* [ranks], but poll: FIXED streams, the ranks' processes, their launcher's */
  ls_page_look_t *look;
  bool *stopped, *gone, *early; /* its process was stopped; has ended; has ended before it was done */
  struct pollfd *poll;
  int64_t begin_ns, looked_ns; /* since when a rank counts as silent; the last look */
  int64_t kills;               /* of the system for want of memory, before */
  ls_end_t seen;
  int64_t dead_ns, asked_ns, told_ns; /* first unexpected end; when it was asked to end, and forced */
  char line[LINE_BYTES];              /* of stderr, as far as it has come */
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

static bool is_stopped(pid_t pid) {
  char path[64], line[256], state = 'R';
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "State: %c", &state) == 1) break;
  if (file) fclose(file);
  return state == 'T' || state == 't';
}

/* A descriptor that becomes readable when the process ends; -1: it has ended, or this kernel has none. */
static int watch_process(pid_t pid) {
  return (int)syscall(SYS_pidfd_open, pid, 0);
}

static ls_status_t start(life_t *l, bool again, const ls_places_t *places, int64_t past_step) {
  const ls_child_spec_t child = {
      .argv = l->spec->command(l->spec->user, again, places, past_step),
      .self = true,
      .stream = {{.file = "/dev/null"}, {.pipe = &l->poll[STDOUT].fd}, {.pipe = &l->poll[STDERR].fd}},
      .own_group = true};
  int error = child.argv ? ls_child_start(&child, &l->child) : ENOMEM;
  if (error == 0) return LS_OK;
  return ls_fail(l->ctx, LS_ERR_UNSUPPORTED, "the run could not be started (%s)", strerror(error));
}

/* ---- what it writes ---- */

/* Keeps the first error that it reports. */
static void take_words(life_t *l, const char *bytes, ssize_t got) {
  static const char label[] = "lockstep: error: ";
  for (ssize_t i = 0; i < got && !l->end->fault.words[0]; i++) {
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
    take_words(l, bytes, got);
    l->spec->output(l->spec->user, STDERR_FILENO, bytes, (size_t)got);
  }
}

/* ---- its processes ---- */

static void watch_ranks(life_t *l) {
  struct pollfd *process = l->poll + FIXED;
  for (int r = 0; r < l->ranks; r++)
    if (process[r].fd < 0 && !l->gone[r] && l->look[r].pid > 0) {
      process[r].fd = watch_process(l->look[r].pid);
      l->gone[r] = process[r].fd < 0 && errno == ESRCH;
    }
  struct pollfd *launcher = process + l->ranks;
  pid_t parent = l->look[0].parent;
  if (launcher->fd < 0 && parent > 0 && parent != getpid() && parent != l->child && !l->seen.launcher_first)
    launcher->fd = watch_process(parent);
}

static void close_ended(struct pollfd *from) {
  close(from->fd);
  from->fd = -1;
}

/* A rank that ends before it has left its trainer, or with an error, is a fault; the first one is the cause. */
static void see_ends(life_t *l, int64_t now_ns) {
  struct pollfd *process = l->poll + FIXED, *launcher = process + l->ranks;
  bool any = false;
  for (int r = 0; r < l->ranks; r++) {
    if (process[r].fd >= 0 && process[r].revents) {
      close_ended(&process[r]);
      l->gone[r] = true;
    }
    l->early[r] = l->gone[r] && l->look[r].pid > 0 && (l->look[r].phase != LS_PAGE_GONE || l->look[r].error);
    any |= l->early[r];
  }
  if (any && l->seen.dead_rank < 0 && !l->seen.launcher_first) {
    l->seen.dead_rank = ls_fault_first_dead(l->look, l->early, l->ranks);
    l->dead_ns = now_ns;
  }
  if (launcher->fd >= 0 && launcher->revents) {
    close_ended(launcher);
    bool all_left = true;
    for (int r = 0; r < l->ranks; r++)
      all_left &= l->look[r].phase == LS_PAGE_GONE;
    if (l->seen.dead_rank < 0 && !all_left) {
      l->seen.launcher_first = true;
      l->dead_ns = now_ns;
    }
  }
}

static void look_at_page(life_t *l, int64_t now_ns) {
  for (int r = 0; r < l->ranks; r++)
    ls_page_look(l->page, r, &l->look[r]);
  ls_usual_learn(l->usual, &l->look[0]);
  ls_life_t *steps = &l->end->steps;
  const ls_page_look_t *first = &l->look[0];
  if (first->phase < LS_PAGE_FIRST_STEP) return;
  l->end->began = true;
  if (steps->first_step < 0) steps->first_step = first->step;
  steps->last_step = first->step;
  if (l->end->first_step_ns == 0 && first->phase >= LS_PAGE_STEP)
    l->end->first_step_ns = first->phase == LS_PAGE_STEP ? first->since_ns : now_ns;
}

static void end_all(life_t *l) {
  l->seen.signal_apart = true;
  ls_child_signal_below(l->child, SIGKILL);
  kill(l->child, SIGKILL);
}

static bool look_for_hang(life_t *l, int64_t now_ns) {
  ls_fault_t *fault = &l->end->fault;
  for (int r = 0; r < l->ranks; r++)
    l->stopped[r] = false;
  if (!ls_fault_hang(l->spec->config, l->usual, l->look, l->stopped, l->ranks, l->begin_ns, now_ns, fault))
    return false;
  for (int r = 0; r < l->ranks; r++)
    l->stopped[r] = l->look[r].pid > 0 && is_stopped(l->look[r].pid);
  ls_fault_hang(l->spec->config, l->usual, l->look, l->stopped, l->ranks, l->begin_ns, now_ns, fault);
  fault->noticed_ns = now_ns;
  return true;
}

/* Passes requests on: the first signal asks it to save and end, a second one ends it. */
static void pass_on(life_t *l, int64_t now_ns) {
  const ls_supervise_t *s = l->spec;
  if (s->held(s->user)) {
    kill(l->child, SIGTSTP);
    kill(getpid(), SIGSTOP);
    kill(l->child, SIGCONT);
    l->begin_ns = l->looked_ns = ls_clock_ns();
  }
  if (s->stop(s->user) && l->asked_ns == 0) {
    l->asked_ns = now_ns;
    l->seen.asked = true;
    kill(l->child, SIGUSR1);
  }
  if (s->forced(s->user) && l->told_ns == 0) {
    l->told_ns = now_ns;
    kill(l->child, SIGTERM);
    kill(l->child, SIGTERM);
  }
  if (l->told_ns > 0 && now_ns - l->told_ns > grace_ns) end_all(l);
}

/* Until the child has closed its streams, and with them all that it started, or hangs. */
static bool watch(life_t *l) {
  while (l->poll[STDOUT].fd >= 0 || l->poll[STDERR].fd >= 0) {
    poll(l->poll, (nfds_t)(FIXED + l->ranks + 1), l->end->first_step_ns ? LOOK_MS : LOOK_FIRST_MS);
    int64_t now_ns = ls_clock_ns();
    if (l->looked_ns > 0 && now_ns - l->looked_ns > stopped_ns) l->begin_ns = now_ns;
    l->looked_ns = now_ns;
    pass_on(l, now_ns);
    look_at_page(l, now_ns);
    watch_ranks(l);
    see_ends(l, now_ns);
    take_output(l, STDOUT);
    take_output(l, STDERR);
    if (l->dead_ns > 0 && now_ns - l->dead_ns > grace_ns) end_all(l);
    if (l->dead_ns == 0 && l->told_ns == 0 && look_for_hang(l, now_ns)) return true;
  }
  return false;
}

static void finish(life_t *l, bool hang) {
  ls_fault_t *fault = &l->end->fault;
  ls_child_end_t ended;
  int64_t closed_ns = ls_clock_ns();
  if (hang) end_all(l);
  ls_child_wait(l->child, &ended);
  ls_child_end_below();
  l->seen.signal = ended.signal;
  l->seen.code = ended.code;
  l->seen.signal_apart |= l->look[0].pid == l->child;
  l->seen.kills_of_system = system_kills() - l->kills;
  look_at_page(l, ls_clock_ns());
  if (!hang) {
    ls_fault_classify(&l->seen, l->look, l->ranks, fault);
    fault->noticed_ns = l->dead_ns > 0 ? l->dead_ns : closed_ns;
  }
  l->end->ended_ns = ls_clock_ns();
}

static void release(life_t *l) {
  for (int i = 0; l->poll && i < FIXED + l->ranks + 1; i++)
    if (l->poll[i].fd >= 0) close(l->poll[i].fd);
  ls_free(l->look);
  ls_free(l->stopped);
  ls_free(l->gone);
  ls_free(l->early);
  ls_free(l->poll);
}

ls_status_t ls_life_run(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_page_t *page, bool again,
                        const ls_places_t *places, int64_t past_step, ls_usual_t *usual, FILE *printed,
                        ls_life_end_t *end) {
  const int ranks = ls_page_ranks(page);
  const size_t n = (size_t)ranks;
  *end = (ls_life_end_t){.fault.rank = -1, .steps = {-1, -1}, .ranks = ranks};
  life_t l = {.ctx = ctx,
              .spec = spec,
              .page = page,
              .usual = usual,
              .printed = printed,
              .end = end,
              .ranks = ranks,
              .look = ls_alloc_array(ctx, n, sizeof *l.look),
              .stopped = ls_alloc_array(ctx, n, sizeof *l.stopped),
              .gone = ls_alloc_array(ctx, n, sizeof *l.gone),
              .early = ls_alloc_array(ctx, n, sizeof *l.early),
              .poll = ls_alloc_array(ctx, n + FIXED + 1, sizeof *l.poll),
              .seen = {.dead_rank = -1},
              .kills = system_kills()};
  ls_status_t status = l.look && l.stopped && l.gone && l.early && l.poll ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; l.poll && i < FIXED + ranks + 1; i++)
    l.poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
  for (int r = 0; r < ranks; r++)
    ls_page_clear(ls_page_line(page, r));
  usual->since_ns = 0;
  end->start_ns = l.begin_ns = ls_clock_ns();
  if (status == LS_OK) status = start(&l, again, places, past_step);
  if (status == LS_OK) finish(&l, watch(&l));
  release(&l);
  return status;
}
