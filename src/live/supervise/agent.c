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
  SETTINGS_BYTES = 3 * 4096,
  SUPERVISOR = 0,
  STDIN,
  FIXED,
  KILL_MS = 2000
};
static const int64_t ms_ns = 1000000, paused_ns = 2000000000;

typedef struct {
  ls_ctx_t *ctx;
  ls_agent_settings_t settings;
  char settings_text[SETTINGS_BYTES]; /* settings point into it */
  char page_variable[4200];           /* in the environment of its ranks */
  ls_wire_t wire;
  ls_page_t *page;
  ls_rings_t *rings;           /* NULL: they could not be made */
  ls_wire_rank_t *sent_rank;   /* [ranks]: as sent last */
  ls_wire_speed_t *sent_speed; /* [ranks] */
  struct pollfd *poll;         /* FIXED, then the ranks' processes */
  bool paused, finished;
  bool stepped; /* a rank has done its first step */
  ls_segments_t segments;
  int64_t heard_ns;
} agent_t;

/* ---- beginning ---- */

/* Byte by byte up to the third line end: what follows is the supervisor's end. */
static ls_status_t read_settings(agent_t *a) {
  int used = 0, lines = 0;
  char *begin[3] = {a->settings_text};
  while (lines < 3 && used < SETTINGS_BYTES - 1 && read(STDIN_FILENO, a->settings_text + used, 1) == 1)
    if (a->settings_text[used++] == '\n') {
      a->settings_text[used - 1] = '\0';
      if (++lines < 3) begin[lines] = a->settings_text + used;
    }
  char *rest = begin[0];
  a->settings.token = strsep(&rest, " ");
  a->settings.address = strsep(&rest, " ");
  a->settings.page_dir = begin[1];
  a->settings.token_file = begin[2];
  bool read_all = lines == 3 && rest &&
                  sscanf(rest, "%d %d %d %d %d", &a->settings.port, &a->settings.host, &a->settings.life,
                         &a->settings.ranks, &a->settings.silent_ms) == 5 &&
                  strlen(a->settings.token) == LS_WEB_TOKEN_BYTES - 1 && a->settings.ranks > 0 &&
                  a->settings.silent_ms > 0;
  if (read_all) return LS_OK;
  return ls_fail(a->ctx, LS_ERR_ARGUMENT,
                 "lockstep %s: is started by lockstep train --supervise, on every host of a run",
                 LS_AGENT_FLAG);
}

static ls_status_t connect_to_supervisor(agent_t *a) {
  const char *ssh = getenv("SSH_CONNECTION");
  const char *why = "";
  char address[256], port[16];
  snprintf(address, sizeof address, "%s",
           strcmp(a->settings.address, "-") ? a->settings.address
           : ssh                            ? ssh
                                            : "127.0.0.1");
  address[strcspn(address, " ")] = '\0';
  snprintf(port, sizeof port, "%d", a->settings.port);
  a->wire.wait_ms = a->settings.silent_ms;
  a->wire.fd = ls_tcp_connect(address, port, ls_clock_ns() + a->settings.silent_ms * ms_ns, &why);
  if (a->wire.fd >= 0) return LS_OK;
  return ls_fail(
      a->ctx, LS_ERR_COMM,
      "the supervisor cannot be reached at %s, port %s (%s); supervise.address names another way to it",
      address, port, why);
}

/* The supervisor shows the reason as it is. */
static ls_status_t refuse(agent_t *a, const char *reason) {
  ls_wire_send(&a->wire, a->settings.token, "refuse %s", reason);
  return ls_fail(a->ctx, LS_ERR_CONFIG, "%s", reason);
}

static ls_status_t check_shared(agent_t *a) {
  char *token = NULL, reason[300], shown[160];
  size_t size;
  ls_status_t status = ls_file_read(NULL, a->settings.token_file, LS_WEB_TOKEN_BYTES, &token, &size);
  bool same = status == LS_OK && ls_web_token_is(a->settings.token, token);
  ls_free(token);
  if (same) return LS_OK;
  snprintf(reason, sizeof reason, "%s %s; train.checkpoint.dir has to lie on storage that all hosts see",
           ls_text_shown(a->settings.token_file, SIZE_MAX, shown, sizeof shown),
           status == LS_ERR_NOT_FOUND ? "is not there"
           : status == LS_OK          ? "is another file there"
                                      : "cannot be read there");
  return refuse(a, reason);
}

/* Two names may mean one machine: whoever comes first makes the page and the rings. */
static ls_status_t open_page(agent_t *a) {
  int lock;
  ls_status_t status = ls_dir_own(a->ctx, a->settings.page_dir, &lock);
  if (lock >= 0) flock(lock, LOCK_EX);
  if (status == LS_OK) status = ls_page_open(a->ctx, a->settings.page_dir, a->settings.ranks, &a->page);
  if (status == LS_OK && !(a->rings = ls_rings_find(a->settings.page_dir, a->settings.ranks)) &&
      ls_rings_create(a->ctx, a->settings.page_dir, a->settings.ranks, &a->rings) != LS_OK)
    a->rings = NULL; /* a warning says so */
  if (lock >= 0) close(lock);
  if (status != LS_OK) refuse(a, a->ctx ? ls_ctx_error(a->ctx) : "the page of the ranks cannot be made");
  return status;
}

/* ---- its ranks ---- */

/* Whether a part of /proc/PID/NAME, between these characters, has this text, as a whole path. */
static bool proc_file_has(const char *pid, const char *name, int between, const char *wanted) {
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

static bool is_mpirun_daemon(pid_t pid) {
  char path[64], name[32] = "";
  snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
  FILE *file = fopen(path, "re");
  if (file && !fgets(name, sizeof name, file)) name[0] = '\0';
  if (file) fclose(file);
  return !strcmp(name, "orted\n") || !strcmp(name, "prted\n");
}

/* Signals all processes but this one that have this text there, and with SIGKILL mpirun's daemon above them. Returns their
 * number. */
static int signal_processes(const char *name, int between, const char *wanted, int signal_number) {
  int count = 0;
  DIR *dir = opendir("/proc");
  for (const struct dirent *entry; dir && (entry = readdir(dir));) {
    pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
    if (pid <= 1 || pid == getpid() || !proc_file_has(entry->d_name, name, between, wanted)) continue;
    pid_t parent = signal_number == SIGKILL ? ls_process_parent(pid) : 0;
    if (parent > 1 && is_mpirun_daemon(parent)) kill(parent, SIGKILL);
    count += kill(pid, signal_number) == 0;
  }
  if (dir) closedir(dir);
  return count;
}

/* All ranks of this life, also those that show nothing yet: they have its variable. */
static int signal_ranks(const agent_t *a, int signal_number) {
  return signal_processes("environ", '\0', a->page_variable, signal_number);
}

static void kill_ranks(const agent_t *a) {
  for (int64_t end_ns = ls_clock_ns() + KILL_MS * ms_ns;
       signal_ranks(a, SIGKILL) > 0 && ls_clock_ns() < end_ns;)
    poll(NULL, 0, 2);
  ls_segments_remove(&a->segments);
}

/* All that has mapped the page: the ranks and the agent. */
void ls_agent_kill_host(void) {
  const char *page = getenv(LS_AGENT_ENVIRONMENT);
  const pid_t parent = getppid();
  if (!page) return;
  signal_processes("maps", '\n', page, SIGKILL);
  if (is_mpirun_daemon(parent)) kill(parent, SIGKILL);
  kill(getpid(), SIGKILL);
}

static bool send_speed(agent_t *a, int rank) {
  return ls_wire_send_speed(&a->wire, a->settings.token, a->page, rank, &a->sent_speed[rank]);
}

/* Sends what has changed. A rank that shows nothing new may be stopped. */
static bool send_changes(agent_t *a, int64_t now_ns) {
  bool sent = true;
  const bool find_segments = ls_segments_due(&a->segments, a->stepped, now_ns);
  for (int r = 0; r < a->settings.ranks && sent; r++) {
    struct pollfd *process = &a->poll[FIXED + r];
    const ls_wire_rank_t *old = &a->sent_rank[r];
    ls_wire_rank_t rank = {.rank = r, .ended = old->ended};
    ls_page_look(a->page, r, &rank.look);
    const ls_page_look_t *look = &rank.look;
    if (look->pid <= 0) continue;
    if (find_segments) ls_segments_look(&a->segments, look->pid);
    a->stepped |= look->phase >= LS_PAGE_STEP;
    if (process->fd >= 0 && process->revents) {
      close(process->fd);
      process->fd = -1;
      rank.ended = true;
    } else if (process->fd < 0 && !rank.ended) {
      process->fd = ls_process_watch(look->pid);
      rank.ended = process->fd < 0 && errno == ESRCH;
    }
    sent = send_speed(a, r);
    const bool same = memcmp(&old->look, look, sizeof *look) == 0;
    rank.stopped = same && !rank.ended && ls_process_stopped(look->pid);
    if (same && old->ended == rank.ended && old->stopped == rank.stopped) continue;
    sent = sent && ls_wire_send_rank(&a->wire, a->settings.token, &rank, now_ns);
    a->sent_rank[r] = rank;
  }
  return sent;
}

/* ---- the supervisor ---- */

/* Only the ranks of this host show a process here. */
static void send_rings(agent_t *a) {
  const int64_t now_ns = ls_clock_ns();
  for (int r = 0; a->rings && r < a->settings.ranks; r++)
    if (a->sent_rank[r].look.pid > 0) ls_wire_send_ring(&a->wire, a->settings.token, a->rings, r, now_ns);
}

static void send_process(agent_t *a, int question, int rank) {
  if (rank < 0 || rank >= a->settings.ranks) return;
  json_t *process = ls_evidence_process(a->sent_rank[rank].look.pid, ls_evidence_devices(a->rings));
  char *text = json_dumps(process, JSON_COMPACT);
  if (text) ls_wire_send_text(&a->wire, a->settings.token, question, text);
  free(text);
  json_decref(process);
}

static void answer(agent_t *a, int question, const char *asked) {
  int rank;
  if (!strcmp(asked, "rings")) send_rings(a);
  if (sscanf(asked, "process %d", &rank) == 1) send_process(a, question, rank);
  ls_wire_send(&a->wire, a->settings.token, "answered %d", question);
}

/* The supervisor judges how the ranks have ended, so it gets their newest speeds before the end. */
static void end(agent_t *a) {
  kill_ranks(a);
  for (int r = 0; r < a->settings.ranks; r++)
    if (a->sent_rank[r].look.pid > 0) send_speed(a, r);
  ls_wire_send(&a->wire, a->settings.token, "bye");
  a->finished = true;
}

/* A rank that has a process here writes its speed itself: the supervisor may know this machine by two names. */
static void show_speed(agent_t *a, int rank, const ls_page_speed_look_t *speed) {
  ls_page_look_t look;
  ls_page_look(a->page, rank, &look);
  if (look.pid <= 0) ls_page_speed_put(a->page, rank, LS_WIRE_SPEEDS, speed);
}

static void handle_message(agent_t *a, const char *message) {
  ls_page_speed_look_t speed;
  int question, rank, asked = 0;
  const bool pause = !strcmp(message, "pause");
  if (pause || !strcmp(message, "continue")) {
    signal_ranks(a, pause ? SIGSTOP : SIGCONT);
    a->paused = pause;
  } else if (!strcmp(message, "beat")) {
    ls_wire_send(&a->wire, a->settings.token, "beat");
  } else if (ls_wire_parse_speed(message, a->settings.ranks, &rank, &speed)) {
    show_speed(a, rank, &speed);
  } else if (sscanf(message, "ask %d %n", &question, &asked) == 1 && asked > 0) {
    answer(a, question, message + asked);
  } else if (!strcmp(message, "abort")) {
    for (int r = 0; a->rings && r < a->settings.ranks; r++)
      ls_rings_at(a->rings, r)->give_up = true;
  } else if (!strcmp(message, "end")) {
    end(a);
  }
}

static void receive_messages(agent_t *a, int64_t now_ns) {
  const char *message;
  ls_wire_received_t received;
  while (!a->finished &&
         (received = ls_wire_receive(&a->wire, a->settings.token, &message)) != LS_WIRE_NOTHING) {
    if (received == LS_WIRE_MESSAGE) {
      a->heard_ns = now_ns;
      handle_message(a, message);
    }
    a->finished |= received == LS_WIRE_CLOSED;
  }
}

/* Returns when the supervisor ends the agent or is gone. Then nobody else ends these ranks. */
static void serve(agent_t *a) {
  char byte;
  int64_t looked_ns = a->heard_ns = ls_clock_ns(), due_ns = 0;
  while (!a->finished) {
    const int look_ms = a->stepped ? LOOK_MS : LOOK_FIRST_MS;
    poll(a->poll, (nfds_t)(FIXED + a->settings.ranks), look_ms);
    const int64_t now_ns = ls_clock_ns();
    if (now_ns - looked_ns > paused_ns) a->heard_ns = now_ns; /* this host stood still */
    looked_ns = now_ns;
    receive_messages(a, now_ns);
    if (a->poll[STDIN].revents && read(STDIN_FILENO, &byte, 1) <= 0) a->finished = true;
    bool ended = false;
    for (int r = 0; r < a->settings.ranks; r++)
      ended |= a->poll[FIXED + r].fd >= 0 && a->poll[FIXED + r].revents;
    if (!a->finished && (ended || now_ns >= due_ns)) {
      a->finished = !send_changes(a, now_ns);
      due_ns = now_ns + look_ms * ms_ns;
    }
    a->finished |= !a->paused && now_ns - a->heard_ns > a->settings.silent_ms * ms_ns;
  }
  kill_ranks(a);
}

static ls_status_t run(agent_t *a) {
  ls_status_t status = read_settings(a);
  if (status == LS_OK) status = connect_to_supervisor(a);
  if (status != LS_OK) return status;
  const size_t n = (size_t)a->settings.ranks;
  snprintf(a->page_variable, sizeof a->page_variable, "%s=%s", LS_AGENT_ENVIRONMENT, a->settings.page_dir);
  a->sent_rank = ls_alloc_array(a->ctx, n, sizeof *a->sent_rank);
  a->poll = ls_alloc_array(a->ctx, n + FIXED, sizeof *a->poll);
  a->sent_speed = ls_alloc_array(a->ctx, n, sizeof *a->sent_speed);
  if (!a->sent_rank || !a->poll || !a->sent_speed) return LS_ERR_MEMORY;
  for (size_t i = 0; i < n + FIXED; i++)
    a->poll[i] = (struct pollfd){.fd = -1, .events = POLLIN};
  a->poll[SUPERVISOR].fd = a->wire.fd;
  a->poll[STDIN].fd = STDIN_FILENO;
  ls_wire_send(&a->wire, a->settings.token, "hello %d %d %d", LS_WIRE_VERSION, a->settings.host,
               a->settings.life);
  status = check_shared(a);
  if (status == LS_OK) status = open_page(a);
  if (status == LS_OK && ls_wire_send(&a->wire, a->settings.token, "ready")) serve(a);
  if (a->page) ls_dir_remove(NULL, a->settings.page_dir);
  return status;
}

ls_status_t ls_agent_run(ls_ctx_t *ctx) {
  agent_t *a = ls_alloc(ctx, sizeof *a);
  if (!a) return LS_ERR_MEMORY;
  a->ctx = ctx;
  a->wire.fd = -1;
  ls_status_t status = run(a);
  for (int r = 0; a->poll && r < a->settings.ranks; r++)
    if (a->poll[FIXED + r].fd >= 0) close(a->poll[FIXED + r].fd);
  ls_wire_close(&a->wire);
  ls_page_close(a->page);
  ls_rings_close(a->rings);
  ls_free(a->poll);
  ls_free(a->sent_speed);
  ls_free(a->sent_rank);
  ls_free(a);
  return status;
}
