/* Keeps the state of each host: starts its agent, handles the messages that the agent sends, and asks it for what a report
 * needs. A single epoll descriptor (the listener's) covers all connections; once it is readable, every one is tried. */
#include "supervise/hosts.h"

#include "base/base.h"
#include "supervise/agent.h"
#include "supervise/listener.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILES_PER_HOST = 4, FILES_MORE = 128 };
enum { HEARTBEATS = 4 /* while a host may be silent */, POLL_MS = 20, ANSWER_BYTES_MAX = 1 << 20 };
static const int64_t paused_ns = 2000000000, rings_limit_ns = 2000000000, process_limit_ns = 10000000000;

typedef enum { UNUSED, STARTED, CONNECTED, READY, ENDED, LOST } state_t;
typedef struct {
  state_t state;
  bool refused;
  int answer_due; /* the question that it is to answer; 0: none */
  ls_wire_t wire;
  int agent_stdin, agent_stderr;
  int64_t heard_ns;                /* when it sent its last message */
  char line[LS_FAULT_WORDS_BYTES]; /* the last one of the agent's stderr, as far as it came and fits */
  size_t line_bytes;
  bool line_ended;
  char last_line[LS_FAULT_WORDS_BYTES]; /* .. before the agent was connected, for messages */
  char lost_reason[LS_FAULT_WORDS_BYTES];
  int64_t lost_ns;
} host_t;

struct ls_hosts {
  ls_ctx_t *ctx;
  const ls_supervise_t *spec;
  char *token_file;
  char token[LS_WEB_TOKEN_BYTES];
  ls_listener_t *listener;
  int64_t silent_ns;              /* how long a host may be silent */
  int64_t serve_ns, heartbeat_ns; /* when that was done last */
  ls_page_t *page;
  ls_rings_t *rings; /* copies of the hosts'; NULL: none */
  const ls_places_t *places;
  int life;      /* counted from 1 */
  bool fitted;   /* all hosts of a life were ready once */
  bool ending;   /* a host that comes now is told to end */
  int questions; /* how many were asked: the number of the newest */
  FILE *answer;  /* the text that is asked for; NULL: none is */
  size_t answer_bytes;
  bool *rank_ended, *rank_stopped; /* [ranks of the page] */
  char environment[128];
  const char *page_dir; /* in environment */
  int count;
  host_t host[]; /* [count], as in the configuration */
};

static const char *name_of(const ls_hosts_t *h, const host_t *host) {
  return h->spec->places.hosts->host[host - h->host].name;
}

static host_t *host_of_rank(ls_hosts_t *h, int rank) {
  return &h->host[ls_hosts_at(h->places->hosts, ls_places_at(h->places, rank))];
}

static bool is_connected(const host_t *host) {
  return host->state == CONNECTED || host->state == READY;
}

static bool any_connected(const ls_hosts_t *h) {
  bool any = false;
  for (int i = 0; i < h->count; i++)
    any |= is_connected(&h->host[i]);
  return any;
}

/* ---- opening ---- */

static ls_status_t create_token(ls_hosts_t *h) {
  ls_status_t status = ls_dir_make(h->ctx, h->spec->shared);
  if (status != LS_OK) return status;
  h->token_file = ls_path_join(h->ctx, h->spec->shared, LS_HOSTS_TOKEN_NAME);
  if (!h->token_file) return LS_ERR_MEMORY;
  unlink(h->token_file); /* an earlier run's: its agents must not connect to this one */
  return ls_web_token(h->ctx, h->token_file, h->token);
}

/* A host takes two pipes and a connection, and a stranger's connection may come on top. The limit is raised no further,
 * because programs that this one starts inherit it, and some walk over all descriptors below it. */
static ls_status_t allow_open_files(ls_ctx_t *ctx, int hosts) {
  const rlim_t wanted = (rlim_t)hosts * FILES_PER_HOST + FILES_MORE;
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= wanted) return LS_OK;
  const rlim_t most = files.rlim_max;
  files.rlim_cur = wanted;
  if (most >= wanted && setrlimit(RLIMIT_NOFILE, &files) == 0) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_UNSUPPORTED,
      "parallel.hosts: %d hosts take up to %llu open files, and this process may have %llu at most; "
      "raise the hard limit (ulimit -Hn, LimitNOFILE= in a systemd unit)",
      hosts, (unsigned long long)wanted, (unsigned long long)most);
}

ls_status_t ls_hosts_open(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_hosts_t **out) {
  const int count = spec->places.hosts->count;
  ls_hosts_t *h = ls_alloc(ctx, sizeof *h + (size_t)count * sizeof h->host[0]);
  if (!h) return LS_ERR_MEMORY;
  h->ctx = ctx;
  h->spec = spec;
  h->count = count;
  h->silent_ns = (int64_t)(spec->config->host_s * 1e9);
  for (int i = 0; i < count; i++)
    h->host[i].wire.fd = h->host[i].agent_stdin = h->host[i].agent_stderr = -1;
  ls_status_t status = allow_open_files(ctx, count);
  if (status == LS_OK) status = create_token(h);
  if (status == LS_OK) status = ls_listener_open(ctx, (int)spec->config->port, count, h->token, &h->listener);
  if (status == LS_OK)
    *out = h;
  else
    ls_hosts_close(h);
  return status;
}

void ls_hosts_close(ls_hosts_t *h) {
  if (!h) return;
  if (h->token_file && h->token[0]) unlink(h->token_file);
  ls_listener_close(h->listener);
  ls_free(h->token_file);
  ls_free(h->rank_ended);
  ls_free(h->rank_stopped);
  ls_free(h);
}

/* ---- the beginning of a life ---- */

static void close_host(host_t *host) {
  ls_wire_close(&host->wire);
  if (host->agent_stderr >= 0) close(host->agent_stderr);
  if (host->agent_stdin >= 0) close(host->agent_stdin);
  host->agent_stderr = host->agent_stdin = -1;
}

static void LS_PRINTF(3, 4) lose(host_t *host, int64_t now_ns, const char *fmt, ...) {
  if (host->state == LOST || host->state == ENDED || host->state == UNUSED) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(host->lost_reason, sizeof host->lost_reason, fmt, args);
  va_end(args);
  host->state = LOST;
  host->lost_ns = now_ns;
  close_host(host);
}

static void refuse(host_t *host, int64_t now_ns, const char *reason) {
  host->refused = true;
  lose(host, now_ns, "%s", reason);
}

static ls_status_t start_host(ls_hosts_t *h, host_t *host, int64_t now_ns) {
  const ls_agent_settings_t settings = {.token = h->token,
                                        .port = ls_listener_port(h->listener),
                                        .host = (int)(host - h->host),
                                        .life = h->life,
                                        .ranks = ls_page_ranks(h->page),
                                        .silent_ms = (int)(h->silent_ns / 1000000) + 1,
                                        .page_dir = h->page_dir,
                                        .token_file = h->token_file};
  *host = (host_t){.wire.fd = -1, .agent_stdin = -1, .agent_stderr = -1, .heard_ns = now_ns};
  ls_status_t status = ls_agent_start(h->ctx, h->spec, &settings, &host->agent_stdin, &host->agent_stderr);
  if (status != LS_OK) return status;
  ls_listener_watch(h->listener, host->agent_stderr);
  host->state = STARTED;
  return LS_OK;
}

ls_status_t ls_hosts_begin(ls_hosts_t *h, const ls_places_t *places, ls_page_t *page, ls_rings_t *rings) {
  const size_t ranks = (size_t)ls_page_ranks(page);
  const int64_t now_ns = ls_clock_ns();
  ls_status_t status = LS_OK;
  ls_free(h->rank_ended);
  ls_free(h->rank_stopped);
  h->rank_ended = ls_alloc_array(h->ctx, ranks, sizeof *h->rank_ended);
  h->rank_stopped = ls_alloc_array(h->ctx, ranks, sizeof *h->rank_stopped);
  if (!h->rank_ended || !h->rank_stopped) return LS_ERR_MEMORY;
  h->page = page;
  h->rings = rings;
  h->places = places;
  h->serve_ns = h->heartbeat_ns = now_ns;
  h->ending = false;
  h->life++;
  snprintf(h->environment, sizeof h->environment, "%s=/dev/shm/lockstep-%d-%llx", LS_AGENT_ENVIRONMENT,
           (int)getpid(), (unsigned long long)now_ns);
  h->page_dir = strchr(h->environment, '=') + 1;
  for (int i = 0; i < h->count; i++)
    h->host[i].state = UNUSED;
  for (int r = 0; r < (int)ranks && status == LS_OK; r++) {
    host_t *host = host_of_rank(h, r);
    if (host->state == UNUSED) status = start_host(h, host, now_ns);
  }
  return status;
}

const char *ls_hosts_environment(const ls_hosts_t *h) {
  return h->environment;
}

const char *ls_hosts_page_dir(const ls_hosts_t *h) {
  return h->page_dir;
}

int ls_hosts_fd(const ls_hosts_t *h) {
  return ls_listener_epoll(h->listener);
}

/* ---- messages of agents ---- */

/* An agent may have been on its way when its life ended because another host was lost. */
static void connect_host(ls_hosts_t *h, ls_hello_t *hello, int64_t now_ns) {
  char reason[LS_FAULT_WORDS_BYTES];
  const bool late = hello->version == LS_WIRE_VERSION && hello->life != h->life;
  if (late || hello->host < 0 || hello->host >= h->count || h->host[hello->host].state != STARTED) {
    ls_wire_close(&hello->wire);
    return;
  }
  host_t *host = &h->host[hello->host];
  host->wire = hello->wire;
  host->heard_ns = now_ns;
  host->state = CONNECTED;
  if (h->ending) ls_wire_send(&host->wire, h->token, "end");
  if (hello->version == LS_WIRE_VERSION) return;
  snprintf(reason, sizeof reason, "speaks version %d, not %d: all hosts need the same lockstep",
           hello->version, LS_WIRE_VERSION);
  refuse(host, now_ns, reason);
}

static void add_to_answer(ls_hosts_t *h, const char *part, int bytes) {
  if (!h->answer || h->answer_bytes + (size_t)bytes > ANSWER_BYTES_MAX) return;
  h->answer_bytes += (size_t)bytes;
  fwrite(part, 1, (size_t)bytes, h->answer);
}

static void show_rank(ls_hosts_t *h, const ls_wire_rank_t *rank) {
  if (rank->rank < 0 || rank->rank >= ls_page_ranks(h->page)) return;
  ls_page_put(ls_page_line(h->page, rank->rank), &rank->look);
  h->rank_ended[rank->rank] = rank->ended;
  h->rank_stopped[rank->rank] = rank->stopped;
}

static void handle_message(ls_hosts_t *h, host_t *host, const char *message, int64_t now_ns) {
  ls_wire_rank_t rank;
  char text[LS_WIRE_BYTES];
  host_t *first = host_of_rank(h, 0); /* the monitor of rank 0 reads this host's page */
  ls_page_speed_look_t speed;
  int question, number, bytes;
  if (!strncmp(message, "refuse ", 7)) {
    refuse(host, now_ns, ls_text_shown(message + 7, SIZE_MAX, text, LS_FAULT_WORDS_BYTES));
  } else if (!strcmp(message, "ready")) {
    host->state = READY;
  } else if (!strcmp(message, "bye")) {
    host->state = ENDED;
    ls_wire_close(&host->wire); /* else its end would wake every wait for the others at once */
  } else if (sscanf(message, "answered %d", &question) == 1) { /* perhaps late, an earlier one */
    if (question == host->answer_due) host->answer_due = 0;
  } else if (ls_wire_parse_speed(message, ls_page_ranks(h->page), &number, &speed)) {
    ls_page_speed_put(h->page, number, LS_WIRE_SPEEDS, &speed);
    if (host != first && is_connected(first)) ls_wire_send(&first->wire, h->token, "%s", message);
  } else if ((h->rings && ls_wire_parse_ring(message, now_ns, h->rings))) {
    return;
  } else if ((bytes = ls_wire_parse_part(message, &question, text)) >= 0) {
    if (question == host->answer_due) add_to_answer(h, text, bytes);
  } else if (ls_wire_parse_rank(message, now_ns, &rank)) {
    show_rank(h, &rank);
  }
}

static void receive_messages(ls_hosts_t *h, host_t *host, int64_t now_ns) {
  const char *message;
  ls_wire_received_t received;
  while (is_connected(host) &&
         (received = ls_wire_receive(&host->wire, h->token, &message)) != LS_WIRE_NOTHING) {
    if (received == LS_WIRE_REFUSED)
      ls_log(h->ctx, LS_LOG_WARN, "host %s sent a message without this run's token: dropped",
             name_of(h, host));
    if (received == LS_WIRE_MESSAGE) {
      host->heard_ns = now_ns;
      handle_message(h, host, message, now_ns);
    }
    if (received == LS_WIRE_CLOSED) lose(host, now_ns, "its connection was closed");
  }
}

/* A line may come in several parts. */
static void keep_line(host_t *host, const char *bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const bool ends = bytes[i] == '\n' || bytes[i] == '\r';
    if (host->line_ended && !ends) host->line_bytes = 0;
    host->line_ended = ends;
    if (!ends && host->line_bytes < sizeof host->line) host->line[host->line_bytes++] = bytes[i];
  }
  ls_text_shown(host->line, host->line_bytes, host->last_line, sizeof host->last_line);
}

/* Keeps the last line. The end of stderr is the end of the agent, or of the ssh that started it. */
static void read_stderr(host_t *host, int64_t now_ns) {
  char bytes[512];
  ssize_t got;
  while (host->agent_stderr >= 0 &&
         ((got = read(host->agent_stderr, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))) {
    if (got > 0 && host->state == STARTED) keep_line(host, bytes, (size_t)got);
  }
  if (host->agent_stderr < 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) return;
  close(host->agent_stderr);
  host->agent_stderr = -1;
  if (is_connected(host))
    return; /* its last messages may still be on their way; the connection ends after them */
  lose(host, now_ns, "its agent has ended%s%s", host->last_line[0] ? ": " : "", host->last_line);
}

static void lose_if_silent(ls_hosts_t *h, host_t *host, int64_t now_ns) {
  const int64_t start_ns = (int64_t)(h->spec->config->start_s * 1e9), silent_ns = now_ns - host->heard_ns;
  if (host->state == STARTED && silent_ns > start_ns)
    lose(host, now_ns, "its agent did not begin within %.3g s", (double)start_ns * 1e-9);
  if (is_connected(host) && silent_ns > h->silent_ns)
    lose(host, now_ns, "nothing was heard of it for %.3g s", (double)silent_ns * 1e-9);
}

void ls_hosts_serve(ls_hosts_t *h, int64_t now_ns) {
  const bool was_paused =
      now_ns - h->serve_ns > paused_ns; /* this process: what hosts sent is still to be read */
  const bool heartbeat = now_ns - h->heartbeat_ns > h->silent_ns / HEARTBEATS;
  ls_hello_t hello;
  h->serve_ns = now_ns;
  if (heartbeat) h->heartbeat_ns = now_ns;
  while (ls_listener_next(h->listener, now_ns, h->silent_ns, &hello))
    connect_host(h, &hello, now_ns);
  for (int i = 0; i < h->count; i++) {
    host_t *host = &h->host[i];
    if (was_paused) host->heard_ns = now_ns;
    receive_messages(h, host, now_ns);
    read_stderr(host, now_ns);
    lose_if_silent(h, host, now_ns);
    if (heartbeat && is_connected(host) && !ls_wire_send(&host->wire, h->token, "beat"))
      lose(host, now_ns, "it takes no messages");
  }
}

/* ---- what is known of the hosts ---- */

bool ls_hosts_ready(ls_hosts_t *h) {
  bool ready = true;
  for (int i = 0; i < h->count; i++)
    ready &= h->host[i].state == UNUSED || h->host[i].state == READY;
  h->fitted |= ready;
  return ready;
}

bool ls_hosts_lost(const ls_hosts_t *h, ls_fault_t *fault) {
  for (int i = 0; i < h->count; i++) {
    const host_t *host = &h->host[i];
    if (host->state != LOST) continue;
    fault->kind = host->refused && !h->fitted ? LS_FAULT_REFUSED : LS_FAULT_HOST;
    fault->code = host->refused ? ls_status_exit_code(LS_ERR_CONFIG) : 0;
    fault->host = name_of(h, host);
    fault->rank = -1;
    fault->noticed_ns = host->lost_ns;
    snprintf(fault->words, sizeof fault->words, "%s", host->lost_reason);
    return true;
  }
  return false;
}

bool ls_hosts_rank_ended(const ls_hosts_t *h, int rank) {
  return h->rank_ended[rank];
}

bool ls_hosts_rank_stopped(const ls_hosts_t *h, int rank) {
  return h->rank_stopped[rank];
}

/* ---- messages to agents ---- */

static void send_all(const ls_hosts_t *h, const char *message) {
  for (int i = 0; i < h->count; i++)
    if (is_connected(&h->host[i])) ls_wire_send(&h->host[i].wire, h->token, "%s", message);
}

static void wait_and_serve(ls_hosts_t *h) {
  struct pollfd ready = {.fd = ls_hosts_fd(h), .events = POLLIN};
  poll(&ready, 1, POLL_MS);
  ls_hosts_serve(h, ls_clock_ns());
}

/* Asks one host, or with NULL all of them, and waits for their answers. An agent that is looking at a process sends no
 * heartbeats meanwhile, so hosts with an answer due do not count as silent. */
static void ask(ls_hosts_t *h, const host_t *only, const char *question, int64_t limit_ns) {
  const int64_t end_ns = ls_clock_ns() + limit_ns;
  h->questions++;
  for (int i = 0; i < h->count; i++) {
    host_t *host = &h->host[i];
    const bool asked = is_connected(host) && (!only || host == only) &&
                       ls_wire_send(&host->wire, h->token, "ask %d %s", h->questions, question);
    host->answer_due = asked ? h->questions : 0;
  }
  for (bool waiting = true; waiting && ls_clock_ns() < end_ns;) {
    for (int i = 0; i < h->count; i++)
      if (h->host[i].answer_due) h->host[i].heard_ns = ls_clock_ns();
    wait_and_serve(h);
    waiting = false;
    for (int i = 0; i < h->count; i++)
      waiting |= h->host[i].answer_due && is_connected(&h->host[i]);
  }
  for (int i = 0; i < h->count; i++)
    h->host[i].answer_due = 0;
}

void ls_hosts_fetch_rings(ls_hosts_t *h) {
  ask(h, NULL, "rings", rings_limit_ns);
}

json_t *ls_hosts_fetch_process(ls_hosts_t *h, int rank) {
  char question[32], *text = NULL;
  size_t size;
  const host_t *host = host_of_rank(h, rank);
  snprintf(question, sizeof question, "process %d", rank);
  h->answer_bytes = 0;
  h->answer = open_memstream(&text, &size);
  if (h->answer) { /* else memory is short, and nobody could keep what the host says */
    ask(h, host, question, process_limit_ns);
    fclose(h->answer);
  }
  h->answer = NULL;
  json_t *answer = text ? json_loadb(text, size, 0, NULL) : NULL;
  free(text);
  json_t *process = json_is_object(answer) ? answer : json_object();
  if (process != answer) json_decref(answer);
  json_object_set_new(process, "host", ls_json_text(name_of(h, host)));
  return process;
}

void ls_hosts_abort_collectives(const ls_hosts_t *h) {
  send_all(h, "abort");
}

void ls_hosts_pause(const ls_hosts_t *h, bool pause) {
  send_all(h, pause ? "pause" : "continue");
}

void ls_hosts_end(ls_hosts_t *h) {
  const int64_t end_ns = ls_clock_ns() + h->silent_ns;
  h->ending = true;
  send_all(h, "end");
  while (any_connected(h) && ls_clock_ns() < end_ns)
    wait_and_serve(h);
  for (int i = 0; i < h->count; i++) {
    host_t *host = &h->host[i];
    if (is_connected(host)) {
      lose(host, ls_clock_ns(), "it did not confirm within %.3g s that its ranks have ended",
           (double)h->silent_ns * 1e-9);
      ls_log(h->ctx, LS_LOG_WARN, "host %s: %s", name_of(h, host), host->lost_reason);
    }
    close_host(host);
  }
}
