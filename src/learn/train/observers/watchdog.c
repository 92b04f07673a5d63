/* The watchdog's thread takes no lock and allocates nothing once it has started: a thread that holds a lock
 * may be the dead one. */
#include "train/observers/watchdog.h"

#include "base/signals.h"
#include "train/observers/observers.h"
#include "train/stops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
  PHASE_BITS = 2,
  MS_NS = LS_STOPS_MS_NS,
  TICK_MS_MIN = 20,
  TICK_MS_MAX = 1000,
  TICKS = 8,
  BUSY_SHARE = 100
};
enum { THREADS_BYTES = 512 };

struct ls_watchdog {
  const _Atomic uint64_t *beat;
  _Alignas(64) _Atomic uint64_t look; /* of the thread: ls_stops_look */
  ls_ctx_t *ctx;
  void (*stuck)(void *user, const char *message);
  void *user;
  int64_t deadline_ns;
  int tick_ms;
  int end; /* eventfd: becomes readable when the thread should end */
  DIR *tasks;
  pthread_t thread;
};

/* The name of each activity in the message; NULL: it is not watched. */
static const char *const waits[LS_DOINGS] = {[LS_DOING_STEPS] = "step",
                                             [LS_DOING_EVALUATION] = "the evaluation before step",
                                             [LS_DOING_END] = "the end of the run at step",
                                             [LS_DOING_CLOSE] = "the end of the run at step"};

bool ls_watchdog_judge(ls_watchdog_state_t *state, const ls_watchdog_sample_t *s, int64_t tick_ns,
                       int64_t deadline_ns) {
  const ls_watchdog_sample_t *last = &state->last;
  int64_t passed_ns = s->now_ns - last->now_ns;
  bool watched = waits[s->beat % LS_DOINGS] != NULL;
  bool alive = s->running || s->cpu_ns - last->cpu_ns > passed_ns / BUSY_SHARE;
  if (!watched || alive || s->beat != last->beat)
    state->dead_ns = 0;
  else if (passed_ns <= tick_ns + LS_STOPS_SECOND_NS)
    state->dead_ns += passed_ns;
  state->last = *s;
  return state->dead_ns >= deadline_ns;
}

const _Atomic uint64_t *ls_watchdog_looks(const ls_watchdog_t *w) {
  return &w->look;
}

static int64_t time_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Name and state of one thread from "id (name) state ..."; false if it no longer exists. */
static bool read_thread(int dir, const char *id, char name[16], char *state) {
  char path[32], text[256];
  snprintf(path, sizeof path, "%.20s/stat", id);
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  if (len <= 0) return false;
  text[len] = '\0';
  const char *from = strchr(text, '('), *to = strrchr(text, ')');
  if (!from || !to || to < from || to[1] != ' ') return false;
  snprintf(name, 16, "%.*s", (int)(to - from - 1), from + 1);
  *state = to[2];
  return true;
}

static const char *state_words(char state) {
  return state == 't' ? " (held by a debugger)" : state == 'T' ? " (stopped)" : state == 'Z' ? " (dead)" : "";
}

/* Whether one of the other threads runs; their names and states in `threads`. A state that cannot be read
 * counts as running. */
static bool look(const ls_watchdog_t *w, char threads[THREADS_BYTES]) {
  bool running = false;
  int count = 0;
  size_t used = 0;
  threads[0] = '\0';
  rewinddir(w->tasks);
  for (const struct dirent *entry; (entry = readdir(w->tasks));) {
    char name[16], state;
    if (entry->d_name[0] == '.' || strtol(entry->d_name, NULL, 10) == gettid()) continue;
    if (!read_thread(dirfd(w->tasks), entry->d_name, name, &state)) continue;
    count++;
    running |= state == 'R' || state == 'D';
    int n =
        snprintf(threads + used, THREADS_BYTES - used, "%s%s%s", used ? ", " : "", name, state_words(state));
    if (n > 0 && used + (size_t)n < THREADS_BYTES) used += (size_t)n;
    threads[used] = '\0';
  }
  return running || count == 0;
}

static void report(const ls_watchdog_t *w, uint64_t beat, const char *threads) {
  char message[THREADS_BYTES + 256];
  snprintf(
      message, sizeof message,
      "%s %lld waits for a thread that does not answer: no thread of this process has computed for %.3g s "
      "(parallel.deadline_s). Its threads: %s",
      waits[beat % LS_DOINGS], (long long)(beat / LS_DOINGS), (double)w->deadline_ns * 1e-9, threads);
  if (w->stuck)
    w->stuck(w->user, message);
  else
    ls_fail(w->ctx, LS_ERR_TIMEOUT, "%s", message);
}

/* A wait with a deadline of its own can report more, so it gets two ticks to do so first. */
static void *watch(void *arg) {
  ls_watchdog_t *w = arg;
  ls_watchdog_state_t state = {0};
  struct pollfd end = {.fd = w->end, .events = POLLIN};
  const int64_t tick_ns = (int64_t)w->tick_ms * MS_NS;
  char threads[THREADS_BYTES] = "";
  for (;;) {
    int ready = poll(&end, 1, w->tick_ms < LS_STOPS_LOOK_MS ? w->tick_ms : LS_STOPS_LOOK_MS);
    if (ready > 0) return NULL;
    int64_t now_ns = ls_clock_ns();
    atomic_store_explicit(&w->look, ls_stops_look(w->look, now_ns), memory_order_relaxed);
    if (now_ns - state.last.now_ns < tick_ns) continue;
    uint64_t beat = atomic_load_explicit(w->beat, memory_order_relaxed);
    ls_watchdog_sample_t sample = {.beat = beat,
                                   .now_ns = now_ns,
                                   .cpu_ns =
                                       time_ns(CLOCK_PROCESS_CPUTIME_ID) - time_ns(CLOCK_THREAD_CPUTIME_ID),
                                   .running = beat == state.last.beat && look(w, threads)};
    if (!ls_watchdog_judge(&state, &sample, tick_ns, w->deadline_ns + 2 * tick_ns)) continue;
    report(w, beat, threads);
    return NULL;
  }
}

static void release(ls_watchdog_t *w) {
  if (w->tasks) closedir(w->tasks);
  if (w->end >= 0) close(w->end);
  ls_free(w);
}

ls_status_t ls_watchdog_start(ls_ctx_t *ctx, const _Atomic uint64_t *beat, int64_t deadline_ns,
                              void (*stuck)(void *user, const char *message), void *user,
                              ls_watchdog_t **watchdog) {
  ls_watchdog_t *w = ls_alloc_aligned(ctx, 64, sizeof *w);
  if (!w) return LS_ERR_MEMORY;
  int64_t tick_ms = deadline_ns / TICKS / MS_NS;
  *w = (ls_watchdog_t){.beat = beat, .ctx = ctx, .stuck = stuck, .user = user, .deadline_ns = deadline_ns};
  w->look = (uint32_t)(ls_clock_ns() / MS_NS);
  w->tick_ms = (int)(tick_ms < TICK_MS_MIN ? TICK_MS_MIN : tick_ms > TICK_MS_MAX ? TICK_MS_MAX : tick_ms);
  w->end = eventfd(0, EFD_CLOEXEC);
  w->tasks = opendir("/proc/self/task");
  const bool opened = w->end >= 0 && w->tasks;
  const int error = opened ? ls_signals_thread(&w->thread, "ls watchdog", watch, w) : errno;
  if (error == 0) {
    *watchdog = w;
    return LS_OK;
  }
  release(w);
  errno = error;
  if (!opened) return ls_fail_errno(ctx, "cannot watch the threads of this process");
  return ls_fail(ctx, LS_ERR_MEMORY, "the thread that watches this process could not be started: %s",
                 strerror(error));
}

void ls_watchdog_stop(ls_watchdog_t *w) {
  if (!w) return;
  eventfd_write(w->end, 1);
  pthread_join(w->thread, NULL);
  release(w);
}

/* ---- the observer ---- */

typedef struct {
  ls_trainer_t *t;
  ls_watchdog_t *w;
} own_t;

static bool wanted(const ls_trainer_t *t) {
  (void)t;
  return true;
}

static ls_status_t open_own(void *own, const ls_trainer_options_t *options) {
  own_t *o = own;
  ls_trainer_t *t = o->t;
  ls_status_t status = ls_watchdog_start(t->ctx, &t->beat, t->world->comm->deadline_ns, options->stuck,
                                         options->stuck_user, &o->w);
  if (status == LS_OK) t->stops = ls_watchdog_looks(o->w);
  return status;
}

static void close_own(void *own) {
  own_t *o = own;
  o->t->stops = NULL;
  ls_watchdog_stop(o->w);
}

const ls_observer_t ls_observer_watchdog = {
    .name = "watchdog", .own_bytes = sizeof(own_t), .wanted = wanted, .open = open_own, .close = close_own};
