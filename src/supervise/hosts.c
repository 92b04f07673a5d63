/* One epoll descriptor stands for all that may be heard; which of them it was is found by asking each. */
#include "supervise/hosts.h"

#include "base/base.h"
#include "base/child.h"
#include "base/process.h"
#include "base/shell.h"
#include "base/tcp.h"
#include "supervise/agent.h"
#include "supervise/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { STRANGERS_MORE = 16, WORDS_MAX = 64, BEATS = 4, NAP_MS = 20, TOLD_BYTES_MAX = 1 << 20 };
static const int64_t paused_ns = 2000000000, rings_ns = 2000000000, look_ns = 8000000000,
                     introduce_ns = 1000000000;

typedef enum { OUT, CALLED, HERE, READY, BYE, LOST } state_t;
typedef struct {
  state_t state;
  bool refused, asked; /* asked: it is to answer the question */
  ls_wire_t wire;
  int said, tell; /* what its agent writes to stderr; its stdin */
  int64_t heard_ns;
  char words[LS_FAULT_WORDS_BYTES]; /* the last line of that, or its refusal */
  char why[LS_FAULT_WORDS_BYTES];   /* it is lost */
  int64_t lost_ns;
} host_t;

/* A connection that has not said who it is. */
typedef struct {
  ls_wire_t wire;
  int64_t since_ns;
} stranger_t;

struct ls_hosts {
  ls_ctx_t *ctx;
  const ls_supervise_t *spec;
  char *token_file;
  char token[LS_WEB_TOKEN_BYTES];
  int listener, port, epoll;
  int64_t silent_ns, begin_ns, served_ns, beat_ns;
  ls_page_t *page;
  ls_rings_t *rings; /* copies of theirs; NULL: none */
  const ls_places_t *places;
  const char *question; /* the newest */
  FILE *told;           /* what was asked for; NULL: nothing was */
  size_t told_bytes;
  bool *gone, *stopped; /* [ranks of the page] */
  char environment[128];
  const char *page_dir; /* in it */
  stranger_t *stranger; /* [strangers]: all hosts may come at once */
  int strangers;
  int refused_count, refused_told; /* strangers' messages; at which number the next one is told */
  int count;
  host_t host[]; /* of the configuration */
};

static const char *name_of(const ls_hosts_t *h, const host_t *host) {
  return h->spec->places.hosts->host[host - h->host].name;
}

static host_t *host_of(ls_hosts_t *h, int rank) {
  return &h->host[ls_hosts_at(h->places->hosts, ls_places_at(h->places, rank))];
}

static bool speaks(const host_t *host) {
  return host->state == HERE || host->state == READY;
}

/* ---- opening ---- */

static void watch(const ls_hosts_t *h, int fd) {
  struct epoll_event event = {.events = EPOLLIN};
  if (fd >= 0) epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &event);
}

ls_status_t ls_hosts_open(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_hosts_t **out) {
  const int count = spec->places.hosts->count;
  ls_hosts_t *h = ls_alloc(ctx, sizeof *h + (size_t)count * sizeof h->host[0]);
  if (!h) return LS_ERR_MEMORY;
  h->ctx = ctx;
  h->spec = spec;
  h->count = count;
  h->silent_ns = (int64_t)(spec->config->host_s * 1e9);
  h->listener = -1;
  h->epoll = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < count; i++)
    h->host[i].wire.fd = h->host[i].said = h->host[i].tell = -1;
  h->stranger = ls_alloc_array(ctx, (size_t)count + STRANGERS_MORE, sizeof *h->stranger);
  h->strangers = h->stranger ? count + STRANGERS_MORE : 0;
  for (int i = 0; i < h->strangers; i++)
    h->stranger[i].wire.fd = -1;
  ls_status_t status = h->stranger ? ls_dir_make(ctx, spec->shared) : LS_ERR_MEMORY;
  h->token_file = status == LS_OK ? ls_path_join(ctx, spec->shared, LS_HOSTS_TOKEN_NAME) : NULL;
  if (status == LS_OK && !h->token_file) status = LS_ERR_MEMORY;
  if (status == LS_OK) {
    unlink(h->token_file); /* an earlier run's: its agents shall not be this one's */
    status = ls_web_token(ctx, h->token_file, h->token);
  }
  if (status == LS_OK) h->listener = ls_tcp_listen((int)spec->config->port, h->strangers, &h->port);
  if (status == LS_OK && (h->epoll < 0 || h->listener < 0))
    status = ls_fail_errno(ctx, "supervise.port: the other hosts cannot be heard at port %lld",
                           (long long)spec->config->port);
  if (status == LS_OK)
    watch(h, h->listener);
  else
    ls_hosts_close(h);
  if (status == LS_OK) *out = h;
  return status;
}

void ls_hosts_close(ls_hosts_t *h) {
  if (!h) return;
  if (h->token_file && h->token[0]) unlink(h->token_file);
  for (int i = 0; i < h->strangers; i++)
    ls_wire_close(&h->stranger[i].wire);
  if (h->listener >= 0) close(h->listener);
  if (h->epoll >= 0) close(h->epoll);
  ls_free(h->token_file);
  ls_free(h->stranger);
  ls_free(h->gone);
  ls_free(h->stopped);
  ls_free(h);
}

/* ---- losing ---- */

static void close_host(host_t *host) {
  ls_wire_close(&host->wire);
  if (host->said >= 0) close(host->said);
  if (host->tell >= 0) close(host->tell);
  host->said = host->tell = -1;
}

static void LS_PRINTF(3, 4) lose(host_t *host, int64_t now_ns, const char *fmt, ...) {
  if (host->state == LOST || host->state == BYE || host->state == OUT) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(host->why, sizeof host->why, fmt, args);
  va_end(args);
  host->state = LOST;
  host->lost_ns = now_ns;
  close_host(host);
}

/* ---- starting ---- */

/* For the shell that ssh starts there; other commands take it as it is. */
static const char *shell_word(const char *word, char *text, size_t size) {
  FILE *to = fmemopen(text, size, "w");
  text[0] = '\0';
  if (to) ls_shell_put(to, word);
  if (to) fclose(to);
  return text;
}

/* The remote shell's words, the host, and this program as an agent. */
static int start_agent(const ls_hosts_t *h, int index, const char *program, int in, int *said) {
  enum { WORDS = WORDS_MAX + 4 };
  char there[4 * PATH_MAX];
  const char *argv[WORDS + 1], *host = h->spec->places.hosts->host[index].name;
  const bool here = h->spec->here && index == 0;
  int n = 0;
  pid_t unused;
  ls_arena_t arena;
  ls_arena_init(&arena, h->ctx);
  char *rest = ls_arena_strdup(&arena, here ? "lockstep" : h->spec->remote_shell);
  for (char *word; rest && n < WORDS_MAX && (word = strsep(&rest, " "));)
    if (*word) argv[n++] = word;
  if (!here) {
    argv[n++] = host;
    argv[n++] = shell_word(program, there, sizeof there);
  }
  argv[n++] = LS_AGENT_FLAG;
  argv[n] = NULL;
  const ls_child_spec_t spec = {.argv = argv,
                                .self = here,
                                .death_signal = here ? SIGCONT : 0, /* it tidies up when its stdin ends */
                                .stream = {{.fd = in}, {.file = "/dev/null"}, {.pipe = said}},
                                .own_group = true};
  int error = argv[here ? 1 : 2] ? ls_child_start(&spec, &unused) : ENOMEM;
  ls_arena_release(&arena);
  return error;
}

static ls_status_t call(ls_hosts_t *h, int index, int64_t now_ns) {
  host_t *host = &h->host[index];
  char program[PATH_MAX], own[256] = "localhost";
  int in[2];
  const bool here = h->spec->here && index == 0;
  gethostname(own, sizeof own - 1);
  const ls_agent_t agent = {.token = h->token,
                            .address = here                       ? "127.0.0.1"
                                       : h->spec->config->address ? h->spec->config->address
                                       : strncmp(h->spec->remote_shell, "ssh", 3) == 0 ? "-"
                                                                                       : own,
                            .port = h->port,
                            .host = index,
                            .ranks = ls_page_ranks(h->page),
                            .silent_ms = (int)(h->silent_ns / 1000000) + 1,
                            .page = h->page_dir,
                            .token_file = h->token_file};
  if (!ls_process_program(program)) return ls_fail_errno(h->ctx, "cannot find this program's path");
  if (pipe2(in, O_CLOEXEC) != 0) return ls_fail_errno(h->ctx, "no pipe to an agent");
  *host = (host_t){.state = CALLED, .wire.fd = -1, .said = -1, .tell = in[1], .heard_ns = now_ns};
  int error = start_agent(h, index, program, in[0], &host->said);
  if (error == 0) {
    ls_agent_tell(in[1], &agent); /* one that has ended is noticed by its end */
    fcntl(host->said, F_SETFL, O_NONBLOCK);
    watch(h, host->said);
  }
  close(in[0]);
  if (error == 0) return LS_OK;
  close_host(host);
  return ls_fail(h->ctx, LS_ERR_UNSUPPORTED, "%s cannot be started (%s): parallel.remote_shell",
                 h->spec->remote_shell, strerror(error));
}

ls_status_t ls_hosts_begin(ls_hosts_t *h, const ls_places_t *places, ls_page_t *page, ls_rings_t *rings) {
  const size_t ranks = (size_t)ls_page_ranks(page);
  const int64_t now_ns = ls_clock_ns();
  ls_status_t status = LS_OK;
  ls_free(h->gone);
  ls_free(h->stopped);
  h->gone = ls_alloc_array(h->ctx, ranks, sizeof *h->gone);
  h->stopped = ls_alloc_array(h->ctx, ranks, sizeof *h->stopped);
  if (!h->gone || !h->stopped) return LS_ERR_MEMORY;
  h->page = page;
  h->rings = rings;
  h->places = places;
  h->begin_ns = h->served_ns = h->beat_ns = now_ns;
  snprintf(h->environment, sizeof h->environment, "%s=/dev/shm/lockstep-%d-%llx", LS_AGENT_ENVIRONMENT,
           (int)getpid(), (unsigned long long)now_ns);
  h->page_dir = strchr(h->environment, '=') + 1;
  for (int i = 0; i < h->count; i++)
    h->host[i].state = OUT;
  for (int r = 0; r < (int)ranks && status == LS_OK; r++) {
    host_t *host = host_of(h, r);
    if (host->state == OUT) status = call(h, (int)(host - h->host), now_ns);
  }
  return status;
}

const char *ls_hosts_environment(const ls_hosts_t *h) {
  return h->environment;
}

int ls_hosts_fd(const ls_hosts_t *h) {
  return h->epoll;
}

/* ---- listening ---- */

static void introduce(ls_hosts_t *h, stranger_t *s, const char *words, int64_t now_ns) {
  int version = 0, index = -1;
  if (sscanf(words, "hello %d %d", &version, &index) != 2 || index < 0 || index >= h->count ||
      h->host[index].state != CALLED)
    return;
  host_t *host = &h->host[index];
  host->wire = s->wire;
  host->heard_ns = now_ns;
  host->state = HERE;
  s->wire.fd = -1;
  if (version == LS_WIRE_VERSION) return;
  snprintf(host->words, sizeof host->words, "speaks version %d, not %d: all hosts need the same lockstep",
           version, LS_WIRE_VERSION);
  host->refused = true;
  lose(host, now_ns, "%s", host->words);
}

/* Whoever sends many does not fill the log. */
static void refuse(ls_hosts_t *h) {
  if (++h->refused_count < h->refused_told) return;
  h->refused_told = h->refused_count * 10;
  ls_log(h->ctx, LS_LOG_WARN, "a message without this run's token came to port %d: dropped (%d so far)",
         h->port, h->refused_count);
}

static void hear_stranger(ls_hosts_t *h, stranger_t *s, int64_t now_ns) {
  const char *words;
  if (s->wire.fd < 0) return;
  ls_wire_got_t got = ls_wire_take(&s->wire, h->token, &words);
  if (got == LS_WIRE_LINE) introduce(h, s, words, now_ns);
  if (got == LS_WIRE_REFUSED) refuse(h);
  if (got != LS_WIRE_NOTHING || now_ns - s->since_ns > h->silent_ns) ls_wire_close(&s->wire);
}

/* A free place, or that of who has been silent longest. NULL: all of them have just come. */
static stranger_t *free_place(const ls_hosts_t *h, int64_t now_ns) {
  stranger_t *s = &h->stranger[0];
  for (int i = 1; i < h->strangers && s->wire.fd >= 0; i++)
    if (h->stranger[i].wire.fd < 0 || h->stranger[i].since_ns < s->since_ns) s = &h->stranger[i];
  return s->wire.fd < 0 || now_ns - s->since_ns > introduce_ns ? s : NULL;
}

/* Who has already said who it is gives its place back at once. */
static void take_strangers(ls_hosts_t *h, int64_t now_ns) {
  for (int i = 0; i < h->strangers; i++)
    hear_stranger(h, &h->stranger[i], now_ns);
  for (stranger_t *s; (s = free_place(h, now_ns));) {
    const int fd = accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    ls_wire_close(&s->wire);
    *s = (stranger_t){.wire.fd = fd, .since_ns = now_ns};
    watch(h, fd);
    hear_stranger(h, s, now_ns);
  }
}

static void take_part(ls_hosts_t *h, const char *part, int bytes) {
  if (!h->told || h->told_bytes + (size_t)bytes > TOLD_BYTES_MAX) return;
  h->told_bytes += (size_t)bytes;
  fwrite(part, 1, (size_t)bytes, h->told);
}

static void obey(ls_hosts_t *h, host_t *host, const char *words, int64_t now_ns) {
  ls_wire_rank_t rank;
  char part[LS_WIRE_BYTES];
  host_t *first = host_of(h, 0); /* whose page the monitor of rank 0 reads */
  int bytes;
  if (!strncmp(words, "refuse ", 7)) {
    ls_text_shown(words + 7, SIZE_MAX, host->words, sizeof host->words);
    host->refused = true;
    lose(host, now_ns, "%s", host->words);
  } else if (!strcmp(words, "ready")) {
    host->state = READY;
  } else if (!strcmp(words, "bye")) {
    host->state = BYE;
  } else if (!strncmp(words, "told ", 5)) { /* a late answer is one to an earlier question */
    host->asked &= !h->question || strcmp(words + 5, h->question) != 0;
  } else if (ls_wire_read_speed(words, h->page)) {
    if (host != first && speaks(first)) ls_wire_send(&first->wire, h->token, "%s", words);
  } else if ((h->rings && ls_wire_read_ring(words, now_ns, h->rings))) {
    return;
  } else if ((bytes = ls_wire_read_part(words, part)) >= 0) {
    if (host->asked) take_part(h, part, bytes);
  } else if (ls_wire_read_rank(words, now_ns, &rank) && rank.rank >= 0 &&
             rank.rank < ls_page_ranks(h->page)) {
    ls_page_put(ls_page_line(h->page, rank.rank), &rank.look);
    h->gone[rank.rank] = rank.gone;
    h->stopped[rank.rank] = rank.stopped;
  }
}

static void hear(ls_hosts_t *h, host_t *host, int64_t now_ns) {
  const char *words;
  ls_wire_got_t got;
  while (speaks(host) && (got = ls_wire_take(&host->wire, h->token, &words)) != LS_WIRE_NOTHING) {
    if (got == LS_WIRE_REFUSED)
      ls_log(h->ctx, LS_LOG_WARN, "host %s sent a message without this run's token: dropped",
             name_of(h, host));
    if (got == LS_WIRE_LINE) {
      host->heard_ns = now_ns;
      obey(h, host, words, now_ns);
    }
    if (got == LS_WIRE_CLOSED) lose(host, now_ns, "its connection was closed");
  }
}

/* Keeps the last line; its end is that of ssh and the agent. */
static void hear_words(host_t *host, int64_t now_ns) {
  char bytes[512];
  ssize_t got;
  while (host->said >= 0 &&
         ((got = read(host->said, bytes, sizeof bytes)) > 0 || (got < 0 && errno == EINTR))) {
    while (got > 0 && (bytes[got - 1] == '\n' || bytes[got - 1] == '\r'))
      got--;
    const char *line = got > 0 ? memrchr(bytes, '\n', (size_t)got) : NULL;
    line = line ? line + 1 : bytes;
    if (got > 0 && host->state == CALLED)
      ls_text_shown(line, (size_t)(bytes + got - line), host->words, sizeof host->words);
  }
  if (host->said < 0 || (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) return;
  close(host->said);
  host->said = -1;
  if (speaks(host)) return; /* its last lines may still be on their way: the connection tells its end */
  lose(host, now_ns, "its agent has ended%s%s", host->words[0] ? ": " : "", host->words);
}

void ls_hosts_serve(ls_hosts_t *h, int64_t now_ns) {
  const bool paused = now_ns - h->served_ns > paused_ns, beat = now_ns - h->beat_ns > h->silent_ns / BEATS;
  const int64_t start_ns = (int64_t)(h->spec->config->start_s * 1e9);
  h->served_ns = now_ns;
  if (beat) h->beat_ns = now_ns;
  take_strangers(h, now_ns);
  for (int i = 0; i < h->count; i++) {
    host_t *host = &h->host[i];
    if (paused) host->heard_ns = now_ns;
    hear(h, host, now_ns);
    hear_words(host, now_ns);
    const int64_t silent_ns = now_ns - host->heard_ns;
    if (host->state == CALLED && silent_ns > start_ns)
      lose(host, now_ns, "its agent did not begin within %.3g s", (double)start_ns * 1e-9);
    if (speaks(host) && silent_ns > h->silent_ns)
      lose(host, now_ns, "nothing was heard of it for %.3g s", (double)silent_ns * 1e-9);
    if (beat && speaks(host) && !ls_wire_send(&host->wire, h->token, "beat"))
      lose(host, now_ns, "it takes no messages");
  }
}

bool ls_hosts_ready(const ls_hosts_t *h) {
  bool ready = true;
  for (int i = 0; i < h->count; i++)
    ready &= h->host[i].state == OUT || h->host[i].state == READY;
  return ready;
}

bool ls_hosts_lost(const ls_hosts_t *h, ls_fault_t *fault) {
  for (int i = 0; i < h->count; i++) {
    const host_t *host = &h->host[i];
    if (host->state != LOST) continue;
    fault->kind = host->refused ? LS_FAULT_REFUSED : LS_FAULT_HOST;
    fault->code = host->refused ? ls_status_exit_code(LS_ERR_CONFIG) : 0;
    fault->host = name_of(h, host);
    fault->rank = -1;
    fault->noticed_ns = host->lost_ns;
    snprintf(fault->words, sizeof fault->words, "%s", host->why);
    return true;
  }
  return false;
}

bool ls_hosts_gone(const ls_hosts_t *h, int rank) {
  return h->gone[rank];
}

bool ls_hosts_stopped(const ls_hosts_t *h, int rank) {
  return h->stopped[rank];
}

static bool say(const ls_hosts_t *h, const char *word) {
  bool any = false;
  for (int i = 0; i < h->count; i++)
    if (speaks(&h->host[i])) any |= ls_wire_send(&h->host[i].wire, h->token, "%s", word);
  return any;
}

/* Waits for the answers. A host that looks at a process hears nothing meanwhile. */
static void ask(ls_hosts_t *h, const host_t *only, const char *words, int64_t limit_ns) {
  const int64_t end_ns = ls_clock_ns() + limit_ns;
  h->question = words;
  for (int i = 0; i < h->count; i++) {
    host_t *host = &h->host[i];
    host->asked = speaks(host) && (!only || host == only) && ls_wire_send(&host->wire, h->token, "%s", words);
  }
  for (bool open = true; open && ls_clock_ns() < end_ns;) {
    struct pollfd ready = {.fd = h->epoll, .events = POLLIN};
    poll(&ready, 1, NAP_MS);
    open = false;
    for (int i = 0; i < h->count; i++)
      if (h->host[i].asked) h->host[i].heard_ns = ls_clock_ns();
    ls_hosts_serve(h, ls_clock_ns());
    for (int i = 0; i < h->count; i++)
      open |= h->host[i].asked && speaks(&h->host[i]);
  }
  h->question = NULL;
}

void ls_hosts_take_rings(ls_hosts_t *h) {
  ask(h, NULL, "rings", rings_ns);
}

json_t *ls_hosts_look(ls_hosts_t *h, int rank) {
  char words[32], *text = NULL;
  size_t size;
  const host_t *host = host_of(h, rank);
  snprintf(words, sizeof words, "look %d", rank);
  h->told_bytes = 0;
  h->told = open_memstream(&text, &size);
  ask(h, host, words, look_ns);
  if (h->told) fclose(h->told);
  h->told = NULL;
  json_t *told = text ? json_loadb(text, size, 0, NULL) : NULL;
  free(text);
  json_t *process = json_is_object(told) ? told : json_object();
  if (process != told) json_decref(told);
  json_object_set_new(process, "host", ls_json_text(name_of(h, host)));
  return process;
}

void ls_hosts_give_up(const ls_hosts_t *h) {
  say(h, "give up");
}

void ls_hosts_hold(const ls_hosts_t *h, bool hold) {
  say(h, hold ? "hold" : "go");
}

static bool any_speaks(const ls_hosts_t *h) {
  bool any = false;
  for (int i = 0; i < h->count; i++)
    any |= speaks(&h->host[i]);
  return any;
}

void ls_hosts_end(ls_hosts_t *h) {
  say(h, "end");
  while (any_speaks(h)) {
    struct pollfd ready = {.fd = h->epoll, .events = POLLIN};
    poll(&ready, 1, NAP_MS);
    ls_hosts_serve(h, ls_clock_ns());
  }
  for (int i = 0; i < h->count; i++)
    close_host(&h->host[i]);
  if (h->spec->here) ls_dir_remove(NULL, h->page_dir); /* where its agent was killed */
}
