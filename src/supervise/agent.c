/* Waits by poll(2) for the supervisor and for the ends of processes, and looks at the page ten times a second; more often until
 * the first step is done. */
#include "supervise/agent.h"

#include "base/base.h"
#include "base/process.h"
#include "base/tcp.h"
#include "supervise/evidence.h"
#include "supervise/segments.h"
#include "supervise/wire.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum {
  LOOK_MS = 100,
  LOOK_FIRST_MS = 10,
  TEXT_BYTES = 3 * 4096,
  SUPERVISOR = 0,
  STDIN,
  FIXED,
  ENDS_MS = 2000
};
static const int64_t ms_ns = 1000000, paused_ns = 2000000000;

typedef struct {
  ls_ctx_t *ctx;
  ls_agent_t is;
  char text[TEXT_BYTES]; /* what `is` points into */
  char variable[4200];   /* of its ranks' environment */
  ls_wire_t wire;
  ls_page_t *page;
  ls_rings_t *rings;               /* NULL: they could not be made */
  ls_wire_rank_t *sent;            /* [ranks] */
  ls_wire_speed_t *speed;          /* [ranks]: sent */
  struct pollfd *poll;             /* FIXED, then the ranks' processes */
  bool held, over, began;          /* a step is done */
  char job[LS_SEGMENTS_JOB_BYTES]; /* "": not known */
  int64_t heard_ns;
} agent_t;

bool ls_agent_tell(int fd, const ls_agent_t *a) {
  return dprintf(fd, "%s %s %d %d %d %d\n%s\n%s\n", a->token, a->address, a->port, a->host, a->ranks,
                 a->silent_ms, a->page, a->token_file) > 0;
}

/* ---- beginning ---- */

/* Byte by byte up to the third line end: what follows is the supervisor's end. */
static ls_status_t read_lines(agent_t *a) {
  int used = 0, lines = 0;
  char *begin[3] = {a->text};
  while (lines < 3 && used < TEXT_BYTES - 1 && read(STDIN_FILENO, a->text + used, 1) == 1)
    if (a->text[used++] == '\n') {
      a->text[used - 1] = '\0';
      if (++lines < 3) begin[lines] = a->text + used;
    }
  char *rest = begin[0];
  a->is.token = strsep(&rest, " ");
  a->is.address = strsep(&rest, " ");
  a->is.page = begin[1];
  a->is.token_file = begin[2];
  bool read_all =
      lines == 3 && rest &&
      sscanf(rest, "%d %d %d %d", &a->is.port, &a->is.host, &a->is.ranks, &a->is.silent_ms) == 4 &&
      strlen(a->is.token) == LS_WEB_TOKEN_BYTES - 1 && a->is.ranks > 0 && a->is.silent_ms > 0;
  if (read_all) return LS_OK;
  return ls_fail(a->ctx, LS_ERR_ARGUMENT,
                 "lockstep %s: is started by lockstep train --supervise, on every host of a run",
                 LS_AGENT_FLAG);
}

static ls_status_t connect_to(agent_t *a) {
  const char *ssh = getenv("SSH_CONNECTION");
  const char *why = "";
  char address[256], port[16];
  snprintf(address, sizeof address, "%s",
           strcmp(a->is.address, "-") ? a->is.address
           : ssh                      ? ssh
                                      : "127.0.0.1");
  address[strcspn(address, " ")] = '\0';
  snprintf(port, sizeof port, "%d", a->is.port);
  a->wire.wait_ms = a->is.silent_ms;
  a->wire.fd = ls_tcp_connect(address, port, ls_clock_ns() + a->is.silent_ms * ms_ns, &why);
  if (a->wire.fd >= 0) return LS_OK;
  return ls_fail(
      a->ctx, LS_ERR_COMM,
      "the supervisor cannot be reached at %s, port %s (%s); supervise.address names another way to it",
      address, port, why);
}

/* The supervisor's words are the refusal; they are short. */
static ls_status_t refuse(agent_t *a, const char *words) {
  ls_wire_send(&a->wire, a->is.token, "refuse %s", words);
  return ls_fail(a->ctx, LS_ERR_CONFIG, "%s", words);
}

static ls_status_t check_shared(agent_t *a) {
  char *token = NULL, words[300], shown[160];
  size_t size;
  ls_status_t status = ls_file_read(NULL, a->is.token_file, LS_WEB_TOKEN_BYTES, &token, &size);
  bool same = status == LS_OK && ls_web_token_is(a->is.token, token);
  ls_free(token);
  if (same) return LS_OK;
  snprintf(words, sizeof words, "%s %s; train.checkpoint.dir has to lie on storage that all hosts see",
           ls_text_shown(a->is.token_file, SIZE_MAX, shown, sizeof shown),
           status == LS_ERR_NOT_FOUND ? "is not there"
           : status == LS_OK          ? "is another file there"
                                      : "cannot be read there");
  return refuse(a, words);
}

/* Two names may mean one machine: whoever comes first makes the page and the rings. */
static ls_status_t open_page(agent_t *a) {
  int lock;
  ls_status_t status = ls_dir_own(a->ctx, a->is.page, &lock);
  if (lock >= 0) flock(lock, LOCK_EX);
  if (status == LS_OK) status = ls_page_open(a->ctx, a->is.page, a->is.ranks, &a->page);
  if (status == LS_OK && !(a->rings = ls_rings_find(a->is.page, a->is.ranks)) &&
      ls_rings_create(a->ctx, a->is.page, a->is.ranks, &a->rings) != LS_OK)
    a->rings = NULL; /* reported; the run does without */
  if (lock >= 0) close(lock);
  if (status != LS_OK) refuse(a, a->ctx ? ls_ctx_error(a->ctx) : "the page of the ranks cannot be made");
  return status;
}

/* ---- its ranks ---- */

/* Whether a part of /proc/PID/NAME, between these characters, has this text, as a whole path. */
static bool has(const char *pid, const char *name, int between, const char *wanted) {
  char path[300], *text = NULL;
  const char *at;
  size_t room = 0, len = strlen(wanted);
  snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
  FILE *file = fopen(path, "re");
  bool found = false;
  while (file && !found && getdelim(&text, &room, between, file) > 0)
    found = (at = strstr(text, wanted)) && (!at[len] || at[len] == '/');
  if (file) fclose(file);
  free(text);
  return found;
}

static bool is_daemon(pid_t pid) {
  char path[64], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  FILE *file = fopen(path, "re");
  if (file && !fgets(name, sizeof name, file)) name[0] = '\0';
  if (file) fclose(file);
  return !strcmp(name, "orted\n") || !strcmp(name, "prted\n");
}

/* To all processes but this one that have this text there; with SIGKILL also to mpirun's daemon above them. Returns their
 * number. */
static int signal_all(const char *name, int between, const char *wanted, int signal_number) {
  int count = 0;
  DIR *dir = opendir("/proc");
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid <= 1 || pid == getpid() || !has(entry->d_name, name, between, wanted)) continue;
    pid_t parent = signal_number == SIGKILL ? ls_process_parent(pid) : 0;
    if (parent > 1 && is_daemon(parent)) kill(parent, SIGKILL);
    count += kill(pid, signal_number) == 0;
  }
  if (dir) closedir(dir);
  return count;
}

/* All ranks of this life, also those that show nothing yet: they have its variable. */
static int signal_ranks(const agent_t *a, int signal_number) {
  return signal_all("environ", '\0', a->variable, signal_number);
}

static void end_ranks(const agent_t *a) {
  for (int64_t end_ns = ls_clock_ns() + ENDS_MS * ms_ns;
       signal_ranks(a, SIGKILL) > 0 && ls_clock_ns() < end_ns;)
    poll(NULL, 0, 2);
  ls_segments_remove(a->job);
}

/* Whoever has mapped the page. */
void ls_agent_lose(void) {
  const char *page = getenv(LS_AGENT_ENVIRONMENT);
  const pid_t parent = getppid();
  if (!page) return;
  signal_all("maps", '\n', page, SIGKILL);
  if (is_daemon(parent)) kill(parent, SIGKILL);
  kill(getpid(), SIGKILL);
}

static bool send_speed(agent_t *a, int rank) {
  return ls_wire_send_speed(&a->wire, a->is.token, a->page, rank, &a->speed[rank]);
}

/* What has changed since it was sent. A rank that shows nothing new may be stopped. */
static bool send_changes(agent_t *a, int64_t now_ns) {
  bool sent = true;
  for (int r = 0; r < a->is.ranks && sent; r++) {
    struct pollfd *process = &a->poll[FIXED + r];
    const ls_wire_rank_t *old = &a->sent[r];
    ls_wire_rank_t rank = {.rank = r, .gone = old->gone};
    ls_page_look(a->page, r, &rank.look);
    const ls_page_look_t *look = &rank.look;
    if (look->pid <= 0) continue;
    if (!a->job[0] && !a->began) ls_segments_find(look->pid, a->job);
    a->began |= look->phase >= LS_PAGE_STEP;
    if (process->fd >= 0 && process->revents) {
      close(process->fd);
      process->fd = -1;
      rank.gone = true;
    } else if (process->fd < 0 && !rank.gone) {
      process->fd = ls_process_watch(look->pid);
      rank.gone = process->fd < 0 && errno == ESRCH;
    }
    sent = send_speed(a, r);
    const bool same = memcmp(&old->look, look, sizeof *look) == 0;
    rank.stopped = same && !rank.gone && ls_process_stopped(look->pid);
    if (same && old->gone == rank.gone && old->stopped == rank.stopped) continue;
    sent = sent && ls_wire_send_rank(&a->wire, a->is.token, &rank, now_ns);
    a->sent[r] = rank;
  }
  return sent;
}

/* ---- the supervisor ---- */

/* Of the ranks of this host: the others show no process here. */
static void send_rings(agent_t *a) {
  const int64_t now_ns = ls_clock_ns();
  for (int r = 0; a->rings && r < a->is.ranks; r++)
    if (a->sent[r].look.pid > 0) ls_wire_send_ring(&a->wire, a->is.token, a->rings, r, now_ns);
  ls_wire_send(&a->wire, a->is.token, "told rings");
}

static void look_at(agent_t *a, int rank) {
  json_t *process = rank >= 0 && rank < a->is.ranks ? ls_evidence_process(a->sent[rank].look.pid) : NULL;
  char *text = process ? json_dumps(process, JSON_COMPACT) : NULL;
  if (text) ls_wire_send_text(&a->wire, a->is.token, text);
  free(text);
  json_decref(process);
  ls_wire_send(&a->wire, a->is.token, "told look %d", rank);
}

static void obey(agent_t *a, const char *words) {
  int rank;
  bool hold = !strcmp(words, "hold");
  if (hold || !strcmp(words, "go")) {
    signal_ranks(a, hold ? SIGSTOP : SIGCONT);
    a->held = hold;
  } else if (!strcmp(words, "beat")) {
    ls_wire_send(&a->wire, a->is.token, "beat");
  } else if (ls_wire_read_speed(words, a->page)) {
    return;
  } else if (!strcmp(words, "rings")) {
    send_rings(a);
  } else if (sscanf(words, "look %d", &rank) == 1) {
    look_at(a, rank);
  } else if (!strcmp(words, "give up")) {
    for (int r = 0; a->rings && r < a->is.ranks; r++)
      ls_rings_at(a->rings, r)->give_up = true;
  } else if (!strcmp(words, "end")) {
    end_ranks(a);
    for (int r = 0; r < a->is.ranks; r++)
      if (a->sent[r].look.pid > 0) send_speed(a, r); /* the supervisor judges their end */
    ls_wire_send(&a->wire, a->is.token, "bye");
    a->over = true;
  }
}

static void listen_to(agent_t *a, int64_t now_ns) {
  const char *words;
  ls_wire_got_t got;
  while (!a->over && (got = ls_wire_take(&a->wire, a->is.token, &words)) != LS_WIRE_NOTHING) {
    if (got == LS_WIRE_LINE) {
      a->heard_ns = now_ns;
      obey(a, words);
    }
    a->over |= got == LS_WIRE_CLOSED;
  }
}

/* Until the supervisor ends it, or is gone: then nobody else ends these ranks. */
static void serve(agent_t *a) {
  char byte;
  int64_t looked_ns = a->heard_ns = ls_clock_ns(), due_ns = 0;
  while (!a->over) {
    const int look_ms = a->began ? LOOK_MS : LOOK_FIRST_MS;
    poll(a->poll, (nfds_t)(FIXED + a->is.ranks), look_ms);
    const int64_t now_ns = ls_clock_ns();
    if (now_ns - looked_ns > paused_ns) a->heard_ns = now_ns; /* this host stood still */
    looked_ns = now_ns;
    listen_to(a, now_ns);
    if (a->poll[STDIN].revents && read(STDIN_FILENO, &byte, 1) <= 0) a->over = true;
    bool ended = false;
    for (int r = 0; r < a->is.ranks; r++)
      ended |= a->poll[FIXED + r].fd >= 0 && a->poll[FIXED + r].revents;
    if (!a->over && (ended || now_ns >= due_ns)) {
      a->over = !send_changes(a, now_ns);
      due_ns = now_ns + look_ms * ms_ns;
    }
    a->over |= !a->held && now_ns - a->heard_ns > a->is.silent_ms * ms_ns;
  }
  end_ranks(a);
}

static ls_status_t run(agent_t *a) {
  ls_status_t status = read_lines(a);
  if (status == LS_OK) status = connect_to(a);
  if (status != LS_OK) return status;
  const size_t n = (size_t)a->is.ranks;
  snprintf(a->variable, sizeof a->variable, "%s=%s", LS_AGENT_ENVIRONMENT, a->is.page);
  a->sent = ls_alloc_array(a->ctx, n, sizeof *a->sent);
  a->poll = ls_alloc_array(a->ctx, n + FIXED, sizeof *a->poll);
  a->speed = ls_alloc_array(a->ctx, n, sizeof *a->speed);
  if (!a->sent || !a->poll || !a->speed) return LS_ERR_MEMORY;
  for (size_t i = 0; i < n + FIXED; i++)
    a->poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
  a->poll[SUPERVISOR].fd = a->wire.fd;
  a->poll[STDIN].fd = STDIN_FILENO;
  ls_wire_send(&a->wire, a->is.token, "hello %d %d", LS_WIRE_VERSION, a->is.host);
  status = check_shared(a);
  if (status == LS_OK) status = open_page(a);
  if (status == LS_OK && ls_wire_send(&a->wire, a->is.token, "ready")) serve(a);
  if (a->page) ls_dir_remove(NULL, a->is.page);
  return status;
}

ls_status_t ls_agent_run(ls_ctx_t *ctx) {
  agent_t *a = ls_alloc(ctx, sizeof *a);
  if (!a) return LS_ERR_MEMORY;
  a->ctx = ctx;
  a->wire.fd = -1;
  ls_status_t status = run(a);
  for (int r = 0; a->poll && r < a->is.ranks; r++)
    if (a->poll[FIXED + r].fd >= 0) close(a->poll[FIXED + r].fd);
  ls_wire_close(&a->wire);
  ls_page_close(a->page);
  ls_rings_close(a->rings);
  ls_free(a->poll);
  ls_free(a->speed);
  ls_free(a->sent);
  ls_free(a);
  return status;
}
