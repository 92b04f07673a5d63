/* Sends notices to programs (the rule's own, curl, sendmail), which read them from stdin, and to a file. Programs bring
 * encryption, proxies and the host's mail, so no library is needed. */
#include "base/child.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/secret.h"
#include "base/signals.h"
#include "monitor/alert.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PROGRAM_LIMIT_S = 10, SAID_BYTES = 1024, WAITING_MAX = 64 };

/* "NAME: .." */
static bool begins_with(const char *said, const char *name) {
  return !strncmp(said, name, strlen(name)) && said[strlen(name)] == ':';
}

/* Gives `text` to the program's stdin. ENOENT in *error: there is no such program. */
static bool run_program(const char *const *argv, const char *text, int *error, char *why, size_t why_bytes) {
  char said[SAID_BYTES], words[LS_CHILD_WORDS_BYTES];
  ls_child_end_t end = {0};
  int in = memfd_create("lockstep-alert", MFD_CLOEXEC);
  bool given = in >= 0 && dprintf(in, "%s\n", text) > 0 && lseek(in, 0, SEEK_SET) == 0;
  const ls_child_spec_t spec = {.argv = argv,
                                .stream = {{.fd = in}, {.file = "/dev/null"}},
                                .own_group = true,
                                .limit_s = PROGRAM_LIMIT_S,
                                .said = said,
                                .said_bytes = sizeof said};
  if (!given)
    snprintf(why, why_bytes, "%s: %s", argv[0], strerror(errno));
  else if (!ls_child_run(&spec, &end)) {
    ls_child_reason(&end, said, words);
    if (begins_with(said, argv[0]) && !end.late_s) /* curl: (22) The requested URL returned error: 500 */
      snprintf(why, why_bytes, "%.*s", (int)strcspn(said, "\n"), said);
    else
      snprintf(why, why_bytes, "%s: %s", argv[0], words);
    given = false;
  }
  if (in >= 0) close(in);
  *error = end.error;
  return given;
}

static bool run_own(const ls_alert_rule_t *rule, const char *text, char *why, size_t why_bytes) {
  const char *argv[LS_OPT_LIST_MAX + 1] = {NULL};
  int error;
  for (int i = 0; i < rule->run.count; i++)
    argv[i] = rule->run.v[i];
  return run_program(argv, text, &error, why, why_bytes);
}

bool ls_alert_is_url(const char *text) {
  return !strncmp(text, "http://", 7) || !strncmp(text, "https://", 8);
}

static bool read_url(const char *webhook, char url[LS_SECRET_BYTES], char *why, size_t why_bytes) {
  if (!ls_secret_read(webhook, url, why, why_bytes)) return false;
  if (ls_alert_is_url(url)) return true;
  snprintf(why, why_bytes, "%s: %s", ls_secret_shown(webhook), LS_ALERT_NO_URL);
  return false;
}

bool ls_alert_check(const ls_alert_rule_t *rule, char *why, size_t why_bytes) {
  char url[LS_SECRET_BYTES];
  return !rule->webhook || read_url(rule->webhook, url, why, why_bytes);
}

/* `name = "text\n"`, as curl reads its options from a file. */
static void put_option(FILE *to, const char *name, const char *text) {
  fprintf(to, "%s = \"", name);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') fputc('\\', to);
    fputc(*text, to);
  }
  fputs("\"\n", to);
}

/* The address is not among the arguments, which all users of the machine can see. */
static bool post(const char *webhook, const char *text, char *why, size_t why_bytes) {
  const char *const argv[] = {"curl",    "-q",          "-sS", "-f",
                              "-m",      "3",           "-o",  "/dev/null",
                              "--proto", "=http,https", "-H",  "Content-Type: application/json",
                              "-K",      "-",           NULL};
  char url[LS_SECRET_BYTES], *options = NULL;
  size_t size_bytes;
  int error;
  if (!read_url(webhook, url, why, why_bytes)) return false;
  FILE *to = open_memstream(&options, &size_bytes);
  if (!to) {
    snprintf(why, why_bytes, "out of memory for a notice");
    return false;
  }
  put_option(to, "url", url);
  put_option(to, "data-binary", text);
  fclose(to);
  bool sent = run_program(argv, options, &error, why, why_bytes);
  free(options);
  return sent;
}

/* A line of a header: ASCII alone. */
static void put_plain(FILE *to, const char *text) {
  for (; *text; text++)
    fputc(*text >= ' ' && *text < 127 ? *text : '?', to);
}

static bool mail(const ls_alert_rule_t *rule, const json_t *notice, char *why, size_t why_bytes) {
  const json_t *said = json_object_get(notice, "commonAnnotations");
  const char *summary = json_string_value(json_object_get(said, "summary"));
  const char *help = json_string_value(json_object_get(said, "description"));
  const char *run = json_string_value(json_object_get(json_object_get(notice, "commonLabels"), "run"));
  char *text = NULL;
  size_t size_bytes;
  int error = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) {
    snprintf(why, why_bytes, "out of memory for a mail");
    return false;
  }
  fputs("To: ", to);
  for (int i = 0; i < rule->mail.count; i++) {
    if (i > 0) fputs(", ", to);
    put_plain(to, rule->mail.v[i]);
  }
  fputs("\nSubject: lockstep: ", to);
  put_plain(to, summary ? summary : rule->name);
  fprintf(to,
          "\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
          "Content-Transfer-Encoding: 8bit\n\n%s\n\nCondition: %s\n%s\nRun: %s\n",
          summary ? summary : "", rule->when, help ? help : "", run ? run : "");
  fclose(to);
  const char *argv[] = {"sendmail", "-i", "-t", NULL};
  bool sent = run_program(argv, text, &error, why, why_bytes);
  if (!sent && error == ENOENT) { /* where it usually is; PATH of a user leaves that out */
    argv[0] = "/usr/sbin/sendmail";
    sent = run_program(argv, text, &error, why, why_bytes);
  }
  free(text);
  return sent;
}

static bool append(const char *path, const char *text, char *why, size_t why_bytes) {
  int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  bool written = fd >= 0 && dprintf(fd, "%s\n", text) > 0;
  if (!written) snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
  if (fd >= 0) close(fd);
  return written;
}

bool ls_alert_send(const ls_alert_rule_t *rule, const json_t *notice, char *why, size_t why_bytes) {
  char *text = notice ? ls_json_dump(notice, JSON_COMPACT) : NULL;
  if (!text) {
    snprintf(why, why_bytes, "out of memory for a notice");
    return false;
  }
  char of[4][SAID_BYTES] = {{0}}; /* one receiver's failure does not hide another's */
  const bool failed[LS_COUNT(of)] = {rule->file && !append(rule->file, text, of[0], sizeof of[0]),
                                     rule->run.count > 0 && !run_own(rule, text, of[1], sizeof of[1]),
                                     rule->webhook && !post(rule->webhook, text, of[2], sizeof of[2]),
                                     rule->mail.count > 0 && !mail(rule, notice, of[3], sizeof of[3])};
  size_t used = 0;
  bool sent = true;
  for (int i = 0; i < LS_COUNT(of); i++) {
    if (failed[i] && used < why_bytes)
      used += (size_t)snprintf(why + used, why_bytes - used, "%s%s", used ? "; " : "", of[i]);
    sent &= !failed[i];
  }
  free(text);
  return sent;
}

/* ---- the thread ---- */

struct ls_alert_post {
  ls_alert_failed_fn failed;
  void *user;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  struct {
    const ls_alert_rule_t *rule;
    json_t *notice;
  } waiting[WAITING_MAX]; /* a ring */
  int64_t put, taken;
  int64_t end_ns; /* 0: not ending */
};

static void *send_on(void *arg) {
  ls_alert_post_t *p = arg;
  char why[SAID_BYTES];
  pthread_mutex_lock(&p->lock);
  for (;;) {
    while (p->put == p->taken && p->end_ns == 0)
      pthread_cond_wait(&p->changed, &p->lock);
    if (p->put == p->taken) break;
    const ls_alert_rule_t *rule = p->waiting[p->taken % WAITING_MAX].rule;
    json_t *notice = p->waiting[p->taken++ % WAITING_MAX].notice;
    const bool late = p->end_ns > 0 && ls_clock_ns() > p->end_ns;
    pthread_mutex_unlock(&p->lock);
    snprintf(why, sizeof why, "the run ended before its receivers had taken all notices");
    if (late || !ls_alert_send(rule, notice, why, sizeof why)) p->failed(p->user, rule, why);
    json_decref(notice);
    pthread_mutex_lock(&p->lock);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

ls_status_t ls_alert_post_open(ls_ctx_t *ctx, ls_alert_failed_fn failed, void *user, ls_alert_post_t **post) {
  ls_alert_post_t *p = ls_alloc(ctx, sizeof *p);
  if (!p) return LS_ERR_MEMORY;
  p->failed = failed;
  p->user = user;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  int error = ls_signals_thread(&p->thread, "ls alerts", send_on, p);
  if (error == 0) {
    *post = p;
    return LS_OK;
  }
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->lock);
  ls_free(p);
  errno = error;
  return ls_fail_errno(ctx, "cannot start a thread that sends alerts");
}

void ls_alert_post_put(ls_alert_post_t *p, const ls_alert_rule_t *rule, json_t *notice) {
  pthread_mutex_lock(&p->lock);
  const bool full = p->put - p->taken == WAITING_MAX;
  if (!full) {
    p->waiting[p->put % WAITING_MAX].rule = rule;
    p->waiting[p->put++ % WAITING_MAX].notice = notice;
  }
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->lock);
  if (!full) return;
  json_decref(notice);
  p->failed(p->user, rule, "its receivers are too slow: too many notices wait");
}

void ls_alert_post_close(ls_alert_post_t *p) {
  if (!p) return;
  pthread_mutex_lock(&p->lock);
  p->end_ns = ls_clock_ns() + INT64_C(1000000000) * PROGRAM_LIMIT_S;
  pthread_cond_signal(&p->changed);
  pthread_mutex_unlock(&p->lock);
  pthread_join(p->thread, NULL);
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->lock);
  ls_free(p);
}
