/* Messages on stderr. Until a job of several ranks has been set up, most messages of its ranks are the same,
 * because every rank reads the same files. So ranks other than 0 hold their messages back until they meet
 * (cli_messages_settle), and then print those that rank 0 has not reported. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { SETTLE_S = 5, COLUMNS_USUAL = 80, COLUMNS_MIN = 20 };

int cli_terminal_columns(void) {
  const char *hint = getenv(CLI_ENV_TERMINAL), *term = getenv("TERM");
  int columns = COLUMNS_USUAL;
  struct winsize size;
  if (isatty(STDERR_FILENO) == 1) {
    if (!term || !strcmp(term, "dumb")) return 0;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) columns = size.ws_col;
  } else {
    if (!hint) return 0;
    columns = atoi(hint);
  }
  return columns < COLUMNS_MIN ? COLUMNS_MIN : columns;
}

static void print(cli_messages_t *m, ls_log_level_t level, const char *message, int rank) {
  if (m->line || m->shared) fputs("\r\033[K", stderr);
  m->line = false;
  static const char *const labels[] = {"error: ", "warning: ", "", ""};
  if (rank > 0)
    fprintf(stderr, "lockstep: %srank %d: %s\n", labels[level], rank, message);
  else
    fprintf(stderr, "lockstep: %s%s\n", labels[level], message);
}

void cli_messages_gather(cli_messages_t *m) {
  int rank, size;
  m->gathering = ls_comm_launched(&rank, &size) && size > 1;
  m->rank = m->gathering ? rank : 0;
  m->columns = cli_terminal_columns();
  m->shared = m->gathering && m->columns > 0;
}

/* The message without the "rank N: " that the context puts before it. */
static const char *without_rank(const cli_messages_t *m, const char *message) {
  char prefix[32];
  int len = snprintf(prefix, sizeof prefix, "rank %d: ", m->rank);
  return strncmp(message, prefix, (size_t)len) ? message : message + len;
}

/* Records are a byte for the level and the text with its NUL. False when there is no room. */
static bool keep(cli_messages_t *m, ls_log_level_t level, const char *text) {
  size_t size = strlen(text) + 1;
  if (sizeof m->kept.record - (size_t)m->kept.used < size + 1) return false;
  m->kept.record[m->kept.used] = (char)level;
  memcpy(m->kept.record + m->kept.used + 1, text, size);
  m->kept.used += (int32_t)size + 1;
  return true;
}

void cli_messages_print(void *user, ls_log_level_t level, const char *message) {
  cli_messages_t *m = user;
  bool kept = m->gathering && keep(m, level, without_rank(m, message));
  if (!kept || m->rank == 0) print(m, level, message, 0);
}

static bool holds(const cli_kept_t *kept, const char *record) {
  for (int32_t at = 0; at < kept->used; at += (int32_t)strlen(kept->record + at + 1) + 2)
    if (kept->record[at] == record[0] && !strcmp(kept->record + at + 1, record + 1)) return true;
  return false;
}

/* Prints the messages that were kept and are not in `said`. */
static void print_kept(cli_messages_t *m, const cli_kept_t *said) {
  for (int32_t at = 0; m->rank > 0 && at < m->kept.used; at += (int32_t)strlen(m->kept.record + at + 1) + 2)
    if (!holds(said, m->kept.record + at))
      print(m, (ls_log_level_t)m->kept.record[at], m->kept.record + at + 1, m->rank);
}

void cli_messages_end(cli_messages_t *m) {
  static const cli_kept_t nothing;
  if (m->gathering) print_kept(m, &nothing);
  m->gathering = false;
  m->kept.used = 0;
}

void cli_messages_stuck(void *user, const char *message) {
  const cli_messages_t *m = user;
  char text[1024], of[32] = "";
  int rank, size;
  if (ls_comm_launched(&rank, &size) && size > 1) snprintf(of, sizeof of, "rank %d: ", rank);
  int len = snprintf(text, sizeof text - 1, "%slockstep: error: %s%s", m->line || m->shared ? "\r\033[K" : "",
                     of, message);
  if (len > (int)sizeof text - 2) len = sizeof text - 2;
  text[len] = '\n';
  ssize_t unheard = write(STDERR_FILENO, text, (size_t)len + 1);
  (void)unheard;
  _exit(ls_status_exit_code(LS_ERR_TIMEOUT));
}

void cli_messages_settle(cli_messages_t *m, ls_world_t *world) {
  ls_comm_t *comm = world->comm;
  if (!m->gathering || comm->size == 1 || comm->broken) {
    cli_messages_end(m);
    return;
  }
  m->gathering = false; /* what follows concerns this rank alone */
  int64_t deadline_ns = comm->deadline_ns, most_ns = SETTLE_S * INT64_C(1000000000);
  cli_kept_t said = m->kept;
  if (deadline_ns > most_ns) comm->deadline_ns = most_ns;
  ls_status_t status = ls_comm_broadcast(comm, "messages", &said, sizeof said, 0);
  if (status != LS_OK) said.used = 0;
  print_kept(m, &said);
  fflush(stderr);
  if (status == LS_OK) ls_comm_barrier(comm, "messages"); /* rank 0 may end the job next */
  comm->deadline_ns = deadline_ns;
  m->kept.used = 0;
}

ls_status_t cli_world_open(ls_ctx_t *ctx, cli_messages_t *m, double deadline_s, ls_status_t own,
                           ls_world_t **out) {
  if (own != LS_OK && !m->gathering) return own;
  ls_world_t *world;
  ls_status_t status = ls_world_open(ctx, deadline_s, &world);
  if (status != LS_OK) return own != LS_OK ? own : status;
  status = ls_comm_agree(world->comm, "reading the configuration", own);
  if (status == LS_OK) {
    *out = world;
    return LS_OK;
  }
  cli_messages_settle(m, world);
  ls_world_abort(world, ls_status_exit_code(status));
  ls_world_close(world);
  return status;
}
