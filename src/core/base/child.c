/* Uses fork and exec, because only the child itself can ask for a death signal. Between the two, only calls
 * that are safe in a signal handler are allowed: another thread may have held any lock at the fork. */
#include "base/child.h"

#include "base/clock.h"
#include "base/ctx.h"
#include "base/process.h"
#include "base/signals.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { STREAMS = 3, REPORT = STREAMS, PIPES, PAUSE_MS = 5, SIGNAL_CODES = 128 };
static const int64_t second_ns = 1000000000;

/* ---- starting ---- */

/* Whether `variable` ("NAME=value") is the one that `change` sets or removes. */
static bool changes(const char *change, const char *variable) {
  size_t len = strcspn(change, "=");
  return strncmp(change, variable, len) == 0 && variable[len] == '=';
}

/* This process's environment with the changes; its texts are borrowed, the array is the caller's (ls_free).
 */
static char **changed_environment(const char *const *change) {
  static const char *const none[] = {NULL};
  size_t count = 0, changed = 0, kept = 0;
  if (!change) change = none;
  while (environ[count])
    count++;
  while (change[changed])
    changed++;
  char **own = ls_alloc_array(NULL, count + changed + 1, sizeof *own);
  for (size_t i = 0; own && i < count; i++) {
    size_t at = 0;
    while (change[at] && !changes(change[at], environ[i]))
      at++;
    if (!change[at]) own[kept++] = environ[i];
  }
  for (size_t i = 0; own && i < changed; i++)
    if (strchr(change[i], '=')) own[kept++] = (char *)(uintptr_t)change[i]; /* exec does not write it */
  return own;
}

static bool set_stream(const ls_child_stream_t *s, int pipe_end, int to) {
  int from = pipe_end >= 0 ? pipe_end : s->fd;
  if (s->file)
    from = open(s->file, O_CLOEXEC | (to == STDIN_FILENO ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC), 0600);
  if (!s->file && from == 0) return true;
  return from >= 0 && dup2(from, to) >= 0;
}

static void set_signals(const sigset_t *mask) {
  for (int n = 1; n < NSIG; n++) {
    struct sigaction action;
    if (sigaction(n, NULL, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN && n != SIGPIPE && n != SIGXFSZ) continue;
    signal(n, SIG_DFL);
  }
  ls_signals_restore(mask);
}

/* Runs in the child. If the parent ended before the child asked for the death signal, the child has another parent
 * by now. */
static void become(const ls_child_spec_t *spec, const char *program, char *const *environment, pid_t parent,
                   int pipes[PIPES][2], const sigset_t *mask) {
  static const int order[STREAMS] = {STDIN_FILENO, STDERR_FILENO, STDOUT_FILENO};
  prctl(PR_SET_PDEATHSIG, spec->death_signal ? spec->death_signal : SIGKILL);
  if (getppid() != parent) _exit(1);
  if (spec->own_group) setpgid(0, 0);
  set_signals(mask);
  bool set = true;
  for (int i = 0; i < STREAMS && set; i++)
    set = set_stream(&spec->stream[order[i]], pipes[order[i]][1], order[i]);
  if (spec->inherited > 0) fcntl(spec->inherited, F_SETFD, 0);
  if (set) execvpe(program, (char *const *)(uintptr_t)spec->argv, environment);
  int error = errno;
  ssize_t unheard = write(pipes[REPORT][1], &error, sizeof error);
  (void)unheard;
  _exit(1);
}

/* The child's report before its program runs; nothing if it runs. */
static int read_report(int fd) {
  int error = 0;
  ssize_t got;
  while ((got = read(fd, &error, sizeof error)) < 0 && errno == EINTR)
    ;
  return got == (ssize_t)sizeof error ? error : 0;
}

static int start(const ls_child_spec_t *spec, int pipes[PIPES][2], pid_t *child) {
  char program[PATH_MAX];
  if (spec->self && !ls_process_program(program)) return errno;
  /* Its file may have been replaced since this process began, which still is the old one. */
  if (spec->self && access(program, X_OK) != 0) snprintf(program, sizeof program, "/proc/self/exe");
  for (int i = 0; i < PIPES; i++)
    if ((i == REPORT || spec->stream[i].pipe) && pipe2(pipes[i], O_CLOEXEC) != 0) return errno;
  char **environment = changed_environment(spec->environment);
  if (!environment) return ENOMEM;
  sigset_t mask;
  pid_t parent = getpid();
  ls_signals_block(&mask); /* no handler of this process runs in the child */
  pid_t pid = fork();
  int error = pid < 0 ? errno : 0;
  if (pid == 0) become(spec, spec->self ? program : spec->argv[0], environment, parent, pipes, &mask);
  ls_signals_restore(&mask);
  ls_free(environment);
  *child = pid;
  return error;
}

int ls_child_start(const ls_child_spec_t *spec, pid_t *child) {
  int pipes[PIPES][2];
  memset(pipes, -1, sizeof pipes);
  int error = start(spec, pipes, child);
  for (int i = 0; i < PIPES; i++)
    if (pipes[i][1] >= 0) close(pipes[i][1]);
  if (error == 0 && (error = read_report(pipes[REPORT][0])) != 0) waitpid(*child, NULL, 0);
  for (int i = 0; i < PIPES; i++)
    if (error == 0 && i < STREAMS && spec->stream[i].pipe)
      *spec->stream[i].pipe = pipes[i][0];
    else if (pipes[i][0] >= 0)
      close(pipes[i][0]);
  return error;
}

/* ---- waiting ---- */

static void take_state(int state, ls_child_end_t *end) {
  end->signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  end->code = WIFSIGNALED(state) ? SIGNAL_CODES + WTERMSIG(state) : WEXITSTATUS(state);
}

void ls_child_wait(pid_t child, ls_child_end_t *end) {
  int state = 0;
  pid_t ended;
  *end = (ls_child_end_t){0};
  while ((ended = waitpid(child, &state, 0)) < 0 && errno == EINTR)
    ;
  if (ended < 0)
    end->error = errno;
  else
    take_state(state, end);
}

bool ls_child_ended(pid_t child, ls_child_end_t *end) {
  int state;
  const pid_t ended = waitpid(child, &state, WNOHANG);
  *end = (ls_child_end_t){.error = ended < 0 ? errno : 0};
  if (ended == child) take_state(state, end);
  return ended == child || (ended < 0 && errno == ECHILD);
}

/* Reads everything that is available. A full buffer loses its first half. Closes the pipe at its end. */
static void listen(const ls_child_spec_t *spec, int *from, size_t *used) {
  char bytes[1024];
  ssize_t got = -1;
  size_t room = spec->said_bytes - 1;
  while (*from >= 0 && (got = read(*from, bytes, sizeof bytes)) > 0)
    for (ssize_t i = 0; i < got; i++) {
      if (*used == room) {
        *used = room - room / 2;
        memmove(spec->said, spec->said + room / 2, *used);
      }
      spec->said[(*used)++] = bytes[i] ? bytes[i] : ' ';
    }
  if (*from < 0 || got < 0) return;
  close(*from);
  *from = -1;
}

static void supervise(const ls_child_spec_t *spec, pid_t child, int from, ls_child_end_t *end) {
  int64_t begin_ns = ls_clock_ns(), asked_ns = 0;
  size_t used = 0;
  int asked = 0;
  for (;;) {
    struct pollfd ready = {.fd = from, .events = POLLIN};
    int state;
    poll(&ready, 1, PAUSE_MS);
    pid_t ended = waitpid(child, &state, WNOHANG);
    if (from >= 0) listen(spec, &from, &used); /* including the child's last words */
    if (ended == child) take_state(state, end);
    if (ended < 0 && errno != EINTR) end->error = errno;
    if (ended == child || end->error) break;
    int64_t now_ns = ls_clock_ns();
    bool over = spec->limit_s > 0 && now_ns - begin_ns > spec->limit_s * second_ns;
    bool stop = spec->stop && spec->stop();
    if (asked == 0 && (over || stop)) {
      asked_ns = now_ns;
      end->late_s = stop ? 0 : spec->limit_s;
      end->asked = true;
    }
    if (asked == 0 ? end->asked : asked == 1 && now_ns - asked_ns > second_ns) {
      kill(child, SIGTERM);
      asked++;
    }
    if (end->asked && now_ns - asked_ns > spec->grace_s * second_ns) kill(child, SIGKILL);
  }
  if (from >= 0) close(from); /* an orphan of the child may hold the other end */
  if (spec->said) spec->said[used] = '\0';
}

bool ls_child_run(const ls_child_spec_t *spec, ls_child_end_t *end) {
  ls_child_spec_t own = *spec;
  int from = -1;
  pid_t child;
  *end = (ls_child_end_t){0};
  if (spec->said) {
    spec->said[0] = '\0';
    own.stream[STDERR_FILENO] = (ls_child_stream_t){.pipe = &from};
  }
  end->error = ls_child_start(&own, &child);
  if (end->error) return false;
  if (from >= 0) fcntl(from, F_SETFL, O_NONBLOCK);
  supervise(spec, child, from, end);
  return !end->error && end->code == 0 && !end->asked;
}

void ls_child_words(const ls_child_end_t *end, char text[LS_CHILD_WORDS_BYTES]) {
  if (end->error)
    snprintf(text, LS_CHILD_WORDS_BYTES, "cannot be started: %s", strerror(end->error));
  else if (end->late_s)
    snprintf(text, LS_CHILD_WORDS_BYTES, "not done within %d s", end->late_s);
  else if (end->signal)
    snprintf(text, LS_CHILD_WORDS_BYTES, "ended by signal %d (%s)", end->signal, strsignal(end->signal));
  else
    snprintf(text, LS_CHILD_WORDS_BYTES, "exit code %d", end->code);
}

void ls_child_reason(const ls_child_end_t *end, const char *said, char text[LS_CHILD_WORDS_BYTES]) {
  static const char label[] = "error: ";
  const char *found = strstr(said, label), *line = found ? found + strlen(label) : said;
  int len = (int)strcspn(line, "\n");
  if (len == 0 || end->error || end->late_s)
    ls_child_words(end, text);
  else
    snprintf(text, LS_CHILD_WORDS_BYTES, "%.*s", len < LS_CHILD_WORDS_BYTES ? len : LS_CHILD_WORDS_BYTES - 1,
             line);
}

/* ---- the processes below one ---- */

typedef struct {
  pid_t parent; /* 0: it has ended, even if it has not been waited for yet */
  unsigned long long caught;
} process_t;

/* The name as /proc shows it. A line end in the name, on the first line, appears as "\\n". */
static process_t look_at(pid_t pid) {
  process_t p = {0};
  char path[64], line[256], state = 'Z';
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "State: %c", &state) != 1 && sscanf(line, "PPid: %d", &parent) != 1)
      sscanf(line, "SigCgt: %llx", &p.caught);
  if (file) fclose(file);
  if (state != 'Z') p.parent = parent;
  return p;
}

/* cause 0: whether it has a handler or not. */
static int signal_one(pid_t pid, int signal_number, int cause) {
  if (cause == 0) return kill(pid, signal_number) == 0;
  const bool handled = look_at(pid).caught >> (signal_number - 1) & 1;
  return handled && sigqueue(pid, signal_number, (union sigval){.sival_int = cause}) == 0;
}

static int signal_below(pid_t pid, int signal_number, int cause) {
  int count = 0;
  DIR *dir = opendir("/proc");
  if (!dir) return 0;
  for (const struct dirent *entry; (entry = readdir(dir));) {
    pid_t child = (pid_t)strtol(entry->d_name, NULL, 10);
    if (child <= 0 || look_at(child).parent != pid) continue;
    count += signal_below(child, signal_number, cause);
    count += signal_one(child, signal_number, cause);
  }
  closedir(dir);
  return count;
}

int ls_child_signal_below(pid_t pid, int signal_number) {
  return signal_below(pid, signal_number, 0);
}

int ls_child_ask(pid_t pid, int signal_number, int cause) {
  return signal_below(pid, signal_number, cause) + signal_one(pid, signal_number, cause);
}

void ls_child_end_below(void) {
  ls_child_signal_below(getpid(), SIGKILL);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
    ;
}

/* ---- the processes above this one ---- */

enum { FOLLOWED = 2, ANCESTORS_MAX = 64 };

static void *follow(void *arg) {
  struct pollfd *process = arg;
  while (poll(process, FOLLOWED, -1) < 1)
    ;
  kill(getpid(), SIGKILL);
  return NULL;
}

/* By descriptors: the kernel's own signal at a parent's death (PR_SET_PDEATHSIG) comes already when the thread ends that
 * made this process, and launchers start many ranks from threads. */
void ls_child_follow(pid_t ancestor) {
  static struct pollfd process[FOLLOWED];
  pthread_t thread;
  const pid_t parent = getppid();
  pid_t at = parent;
  process[0] = (struct pollfd){.fd = ls_process_watch(parent), .events = POLLIN};
  for (int i = 0; i < ANCESTORS_MAX && at > 1 && at != ancestor; i++)
    at = look_at(at).parent;
  process[1] = (struct pollfd){.fd = ancestor > 0 && at == ancestor ? ls_process_watch(ancestor) : -1,
                               .events = POLLIN};
  if (getppid() != parent) kill(getpid(), SIGKILL); /* the number may already be another's */
  if (process[0].fd >= 0 && ls_signals_thread(&thread, "ls follow", follow, process) == 0)
    pthread_detach(thread);
}
