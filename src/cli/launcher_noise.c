/* A launcher writes to the stream of the ranks, in blocks between rules of dashes and in lines with a prefix.
 * The first characters of a line tell whose it is, so only lines that begin like the launcher's wait for
 * their end. */
#include "cli/launcher.h"

#include <stdlib.h>
#include <string.h>

enum { RULE_DASHES = 20 };
/* The last row: Open MPI 5 warns of IPv6 addresses on one machine in three writes. The writes of several
 * ranks mix: its text may then begin a line, and its line's end may follow another. */
static const char *const prefixes[] = {
    "[",          "mpirun:",  "prterun:",     "prte:",      "orterun:",
    "PMIX ERROR", "***",      "PMIx",         "PRTE ERROR", "ORTE ERROR",
    "mpirun ",    "prterun ", "Primary job ", "--------",   "Unable to find reachable pairing"};

/* Whether the line can still be the launcher's. A rank's message or progress line, which begins with '\r',
 * may get between two rules. */
static bool may_be_noise(const cli_noise_t *n) {
  static const char own[] = "lockstep: ";
  if (n->ruled && n->line[0] == '\r') return n->line_bytes < 2;
  if (n->ruled) return n->line_bytes < (int)sizeof own - 1 || strncmp(n->line, own, sizeof own - 1) != 0;
  for (int i = 0; i < LS_COUNT(prefixes); i++) {
    size_t len = strlen(prefixes[i]), have = (size_t)n->line_bytes;
    if (strncmp(prefixes[i], n->line, have < len ? have : len) == 0) return true;
  }
  return false;
}

static bool is_rule(const char *line) {
  size_t dashes = strspn(line, "-");
  return dashes >= RULE_DASHES && line[dashes + strspn(line + dashes, " \r")] == '\0';
}

/* A progress line ends by erasing the rest of the terminal's line: what follows begins another. */
static bool erased(const cli_noise_t *n) {
  static const char erase[] = "\033[K";
  const int size = sizeof erase - 1;
  return n->line_bytes >= size && memcmp(n->line + n->line_bytes - size, erase, (size_t)size) == 0;
}

static void keep(cli_noise_t *n) {
  int size = (int)strlen(n->line);
  if (n->text_bytes + size + 2 > CLI_NOISE_BYTES) return;
  memcpy(n->text + n->text_bytes, n->line, (size_t)size);
  n->text_bytes += size;
  n->text[n->text_bytes++] = '\n';
  n->text[n->text_bytes] = '\0';
}

/* A held line is complete (or too long, and then taken as it is). */
static void hold(cli_noise_t *n) {
  n->line[n->line_bytes] = '\0';
  if (n->show_all) fprintf(n->to, "%s%s\n", n->terminal ? "\r\033[K" : "", n->line);
  if (is_rule(n->line)) {
    n->ruled = !n->ruled;
    n->line[0] = '\0'; /* what follows is another paragraph */
  }
  keep(n);
  n->line_bytes = 0;
  n->held = true;
}

static void note_error(cli_noise_t *n) {
  if (!strstr(n->line, "lockstep: error:")) return;
  n->interrupted_said = strstr(n->line, ": interrupted after ") && (n->interrupted_said || !n->error_said);
  n->error_said = true;
}

void cli_noise_add(cli_noise_t *n, const char *bytes, size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; i++) {
    char c = bytes[i];
    if (c == '\0') continue; /* Open MPI 5 ends its own blocks with one, before a rank's next line */
    const bool passed_on = c == '\n' && n->rewritten; /* the line end was for mpirun alone */
    n->rewritten = false;
    if (passed_on) continue;
    if (n->passing) {
      fputc(c, n->to);
      if (n->line_bytes < CLI_NOISE_LINE_BYTES - 1) n->line[n->line_bytes++] = c;
    } else if (c != '\n' && n->line_bytes < CLI_NOISE_LINE_BYTES - 1) {
      n->line[n->line_bytes++] = c;
      n->passing = !may_be_noise(n);
      if (n->passing) fwrite(n->line, 1, (size_t)n->line_bytes, n->to);
    } else if (n->line_bytes == 0 && !n->ruled) {
      if (!n->held || n->show_all) fputc(c, n->to);
    } else {
      hold(n);
    }
    n->rewritten = n->passing && erased(n);
    if (c != '\n' && !n->rewritten) continue;
    n->terminal = n->terminal || n->rewritten;
    n->line[n->line_bytes] = '\0';
    if (n->passing) note_error(n);
    if (n->passing) n->held = false;
    n->passing = false;
    n->line_bytes = 0;
  }
  fflush(n->to);
}

void cli_noise_end(cli_noise_t *n) {
  if (n->line_bytes > 0 && !n->passing) cli_noise_add(n, "\n", 1);
}

/* Open MPI 5 breaks its lines between any two words. */
bool cli_noise_signal(const cli_noise_t *n, int *rank, int *signal_number) {
  static const char ended[] = "exited on signal ";
  char text[CLI_NOISE_BYTES];
  memcpy(text, n->text, sizeof text);
  for (char *end = text; (end = strchr(end, '\n'));)
    *end = ' ';
  const char *at = strstr(text, ended);
  if (!at) return false;
  *signal_number = atoi(at + sizeof ended - 1);
  *rank = -1;
  for (const char *r = text; (r = strstr(r, "process rank ")) && r < at; r++)
    *rank = atoi(r + strlen("process rank "));
  return *signal_number > 0;
}

/* Of "[host:pid] [[1,0],0] ORTE_ERROR_LOG: ..." what follows the brackets. */
static const char *without_origin(const char *line) {
  while (*line == '[') {
    const char *end = strstr(line, "] ");
    if (!end) break;
    line = end + 2;
  }
  return line + strspn(line, " ");
}

/* Appends [text, text + size) to the paragraph, with a space between. */
static void append(char reason[256], const char *text, size_t size) {
  size_t used = strlen(reason);
  snprintf(reason + used, 256 - used, "%s%.*s", used > 0 ? " " : "", (int)(size < 255 ? size : 255), text);
}

/* Lines that a launcher adds to a failure without a cause. */
static bool says_nothing(const char *line, size_t size) {
  static const char *const empty[] = {"Forwarding signal", "Primary job ",
                                      "user-direction",    "Process name:",
                                      "Exit code:",        "detected that one or more processes",
                                      "thus causing",      "the job to be terminated",
                                      "sent help message", "base_help_aggregate"};
  for (int i = 0; i < LS_COUNT(empty); i++)
    if (memmem(line, size, empty[i], strlen(empty[i]))) return true;
  return false;
}

void cli_noise_reason(const cli_noise_t *n, char reason[256]) {
  bool paragraph_ended = true;
  reason[0] = '\0';
  for (const char *line = n->text; *line;) {
    size_t len = strcspn(line, "\n");
    const char *text = without_origin(line), *end = line + len;
    size_t size = text < end ? (size_t)(end - text) : 0;
    if (size == 0 || text > line) paragraph_ended = true;
    if (size > 0 && !says_nothing(text, size)) {
      if (paragraph_ended) reason[0] = '\0';
      append(reason, text, size);
      paragraph_ended = false;
    }
    line = end + (*end == '\n');
  }
}
