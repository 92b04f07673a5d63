/* The thread that looks, and the event log. Only this thread (after its end: stop) measures and uses sinks; the lock is
 * for the event log, which the training thread writes to as well, rarely. */
#include "monitor/monitor.h"

#include "base/secret.h"
#include "base/signals.h"
#include "monitor/events.h"
#include "monitor/measure.h"
#include "monitor/sink.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SINKS_MAX = 8, HOST_BYTES = 128, WHY_BYTES = 1024 };
static const int64_t sync_every_ns = INT64_C(10) * 1000000000;

typedef struct {
  const ls_sink_t *sink;
  void *state;
  bool failed; /* it was said */
} output_t;

struct ls_monitor {
  ls_shown_t shown;
  ls_ctx_t *ctx;
  ls_measure_t measure;
  char host[HOST_BYTES];
  char *dir; /* by its whole path */
  int64_t every_ns, synced_ns;
  output_t output[SINKS_MAX];
  int output_count;
  ls_alert_t *alert;
  int alert_count;
  ls_alert_post_t *post; /* NULL: no alert has a receiver */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  bool ending, log_failed;
  ls_events_t log;
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Takes the reference. The failure is said once. */
static void write_line(ls_monitor_t *m, json_t *line) {
  char *text = line ? ls_json_dump(line, JSON_COMPACT) : NULL;
  size_t len = text ? strlen(text) : 0;
  json_decref(line);
  if (!text) return;
  text[len] = '\n'; /* over its NUL */
  pthread_mutex_lock(&m->lock);
  bool say = !ls_events_put(&m->log, text, len + 1) && !m->log_failed;
  int error = errno;
  m->log_failed |= say;
  pthread_mutex_unlock(&m->lock);
  free(text);
  if (say) ls_log(m->ctx, LS_LOG_WARN, "monitor.dir: the event log cannot be written: %s", strerror(error));
}

static json_t *line_of(const ls_monitor_t *m, const char *kind, json_t *members) {
  json_t *line = json_pack("{s:s, s:f, s:i}", "kind", kind, "t", round(now_s() * 1e3) / 1e3, "rank",
                           m->measure.run.rank);
  if (line && members) json_object_update(line, members);
  return line;
}

void ls_monitor_event(ls_monitor_t *m, const char *kind, json_t *members) {
  if (m) write_line(m, line_of(m, kind, members));
  json_decref(members);
}

/* ---- a record ---- */

static void tell(ls_monitor_t *m, const ls_alert_t *alert, const ls_monitor_sample_t *s) {
  json_t *notice = ls_alert_notice(alert, m->host, m->dir ? m->dir : "?", s);
  const json_t *said = json_object_get(notice, "commonAnnotations");
  const char *summary = json_string_value(json_object_get(said, "summary"));
  if (!summary) summary = alert->rule->name; /* memory is short */
  ls_log(m->ctx, alert->raised ? LS_LOG_WARN : LS_LOG_INFO, "alert: %s", summary);
  ls_monitor_event(m, "alert",
                   json_pack("{s:o?, s:s, s:o?, s:o?, s:o?}", "alert", ls_json_text(alert->rule->name),
                             "status", alert->raised ? "raised" : "cleared", "when",
                             ls_json_text(alert->rule->when), "value", ls_json_number(alert->value),
                             "summary", ls_json_text(summary)));
  if (m->post && notice)
    ls_alert_post_put(m->post, alert->rule, notice);
  else
    json_decref(notice);
}

static void not_sent(void *user, const ls_alert_rule_t *rule, const char *why) {
  ls_monitor_t *m = user;
  ls_log(m->ctx, LS_LOG_WARN, "alert %s could not be passed on: %s", rule->name, why);
  ls_monitor_event(m, "alert_failed",
                   json_pack("{s:o?, s:o?}", "alert", ls_json_text(rule->name), "why", ls_json_text(why)));
}

/* Without the lock, which nobody is to wait for meanwhile; another file may take the log's place. */
static void sync_log(ls_monitor_t *m) {
  pthread_mutex_lock(&m->lock);
  const int fd = dup(m->log.fd);
  pthread_mutex_unlock(&m->lock);
  if (fd < 0) return;
  fdatasync(fd);
  close(fd);
}

static void record(ls_monitor_t *m) {
  ls_monitor_state_t state;
  ls_monitor_sample_t s;
  if (!ls_shown_read(&m->shown, &state, sizeof state)) state = m->measure.state;
  ls_measure_take(&m->measure, &state, &s);
  json_t *line = json_pack("{s:s}", "kind", "record");
  if (line) ls_monitor_sample_put(line, &s);
  write_line(m, line);
  for (int i = 0; i < m->output_count; i++) {
    output_t *o = &m->output[i];
    if (o->sink->put(o->state, &s) || o->failed) continue;
    o->failed = true;
    ls_log(m->ctx, LS_LOG_WARN, "monitor.sinks: %s cannot be written: %s", o->sink->name, strerror(errno));
  }
  for (int i = 0; i < m->alert_count; i++) {
    const ls_metric_t *metric = m->alert[i].raise.metric;
    if (metric && metric->of == LS_OF_ALL && m->measure.run.rank > 0) continue; /* once for the run */
    if (ls_alert_judge(&m->alert[i], &s) != LS_ALERT_SAME) tell(m, &m->alert[i], &s);
  }
  if (m->measure.run.record) m->measure.run.record(m->measure.run.user, &s);
  int64_t now_ns = ls_clock_ns();
  if (now_ns - m->synced_ns < sync_every_ns) return;
  m->synced_ns = now_ns;
  sync_log(m);
}

static void *watch(void *arg) {
  ls_monitor_t *m = arg;
  int64_t next_ns = ls_clock_ns() + m->every_ns;
  pthread_mutex_lock(&m->lock);
  while (!m->ending) {
    const struct timespec until = {.tv_sec = next_ns / 1000000000, .tv_nsec = next_ns % 1000000000};
    if (pthread_cond_timedwait(&m->changed, &m->lock, &until) != ETIMEDOUT) continue;
    pthread_mutex_unlock(&m->lock);
    record(m);
    int64_t now_ns = ls_clock_ns();
    next_ns += m->every_ns;
    if (next_ns < now_ns) next_ns = now_ns + m->every_ns; /* it was stopped, or a file took long */
    pthread_mutex_lock(&m->lock);
  }
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

/* ---- begin and end ---- */

static ls_status_t open_output(ls_monitor_t *m, const ls_sink_t *sink, const ls_monitor_config_t *config) {
  const ls_monitor_run_t *run = &m->measure.run;
  if (sink->first_rank_only && run->rank != 0) return LS_OK;
  output_t *o = &m->output[m->output_count];
  ls_status_t status = sink->open(m->ctx, config, run, &o->state);
  if (status != LS_OK) return status;
  o->sink = sink;
  m->output_count++;
  return LS_OK;
}

static ls_status_t open_outputs(ls_monitor_t *m, const ls_monitor_config_t *config) {
  ls_status_t status = ls_dir_make(m->ctx, config->dir);
  if (status == LS_OK) status = ls_events_open(m->ctx, config, m->measure.run.rank, &m->log);
  for (int i = 0; ls_sinks[i] && status == LS_OK; i++) /* each once, however often it is named */
    for (int k = 0; k < config->sinks.count; k++)
      if (!strcmp(ls_sinks[i]->name, config->sinks.v[k])) {
        status = open_output(m, ls_sinks[i], config);
        break;
      }
  if (status == LS_OK && config->http_port > 0) status = open_output(m, &ls_sink_http, config);
  return status;
}

/* Its address can be read here; whether it stands in the configuration is said once, by rank 0. */
static ls_status_t check_webhook(const ls_monitor_t *m, const ls_alert_rule_t *rule) {
  char why[WHY_BYTES];
  if (!ls_alert_check(rule, why, sizeof why))
    return ls_fail(m->ctx, LS_ERR_CONFIG, "monitor.alerts.webhook of %s: %s", LS_SHOWN(rule->name), why);
  if (rule->webhook && ls_secret_is_value(rule->webhook) && m->measure.run.rank == 0)
    ls_log(m->ctx, LS_LOG_WARN,
           "monitor.alerts.webhook of %s: the address stands in the configuration itself. What is saved and "
           "shown hides "
           "it; write env:NAME or file:PATH to keep it out of the configuration, too",
           LS_SHOWN(rule->name));
  return LS_OK;
}

static ls_status_t take_alerts(ls_monitor_t *m, const ls_monitor_config_t *config) {
  const ls_alert_rule_t *rules = config->alerts ? config->alerts : ls_alert_usual;
  m->alert_count = config->alerts ? config->alert_count : LS_ALERT_USUAL_COUNT;
  m->alert = ls_alloc_array(m->ctx, (size_t)m->alert_count + 1, sizeof *m->alert);
  if (!m->alert) return LS_ERR_MEMORY;
  bool sent = false;
  for (int i = 0; i < m->alert_count; i++) {
    ls_status_t status = check_webhook(m, &rules[i]);
    if (status != LS_OK) return status;
    m->alert[i] = ls_alert_of(&rules[i]);
    sent |= rules[i].file || rules[i].run.count > 0 || rules[i].webhook || rules[i].mail.count > 0;
  }
  return sent ? ls_alert_post_open(m->ctx, not_sent, m, &m->post) : LS_OK;
}

/* The log's later files begin with the same facts, as long as this process writes them. */
static void say_start(ls_monitor_t *m, const ls_monitor_run_t *r) {
  json_t *facts = json_pack(
      "{s:i, s:o?, s:i, s:i, s:I, s:I, s:I, s:I, s:o?, s:s, s:s, s:s, s:o?, s:o?, s:o?, s:O?, s:f}",
      "version", LS_MONITOR_VERSION, "host", ls_json_text(m->host), "pid", (int)getpid(), "ranks", r->ranks,
      "step", (json_int_t)r->first_step, "total_steps", (json_int_t)r->total_steps, "batch",
      (json_int_t)r->batch, "params", (json_int_t)r->params, "resumed_from",
      r->resumed_from < 0 ? json_null() : json_integer((json_int_t)r->resumed_from), "strategy", r->strategy,
      "backend", r->backend, "precision", r->precision, "device", ls_json_text(r->device), "predicted_us",
      r->predicted_us > 0 ? json_real(r->predicted_us) : json_null(), "need_bytes",
      r->need_bytes > 0 ? json_integer((json_int_t)r->need_bytes) : json_null(), "cost",
      r->cost ? r->cost : json_null(), "every_s", 1e-9 * (double)m->every_ns);
  json_t *line = line_of(m, "continue", facts);
  json_decref(facts);
  char *text = line ? ls_json_dump(line, JSON_COMPACT) : NULL, *first = NULL;
  if (text && asprintf(&first, "%s\n", text) > 0) ls_events_begin_with(&m->log, first);
  free(text);
  if (line) json_object_set_new(line, "kind", json_string("start"));
  write_line(m, line);
}

static void release(ls_monitor_t *m) {
  ls_alert_post_close(m->post);
  for (int i = 0; i < m->output_count; i++)
    m->output[i].sink->close(m->output[i].state);
  ls_events_close(&m->log);
  ls_measure_end(&m->measure);
  pthread_cond_destroy(&m->changed);
  pthread_mutex_destroy(&m->lock);
  ls_free(m->alert);
  free(m->dir);
  ls_free(m);
}

ls_status_t ls_monitor_start(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                             ls_monitor_t **monitor) {
  ls_monitor_t *m = ls_alloc_aligned(ctx, 64, sizeof *m);
  if (!m) return LS_ERR_MEMORY;
  m->ctx = ctx;
  m->log.fd = -1;
  m->every_ns = (int64_t)(config->every_s * 1e9);
  m->synced_ns = ls_clock_ns();
  gethostname(m->host, sizeof m->host - 1);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&m->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&m->lock, NULL);
  ls_status_t status = ls_measure_begin(ctx, &m->measure, config->dir, run);
  if (status == LS_OK) status = open_outputs(m, config);
  if (status == LS_OK) status = take_alerts(m, config);
  if (status == LS_OK) {
    m->dir = realpath(config->dir, NULL);
    say_start(m, run);
    int error = ls_signals_thread(&m->thread, "ls monitor", watch, m);
    errno = error;
    if (error != 0) status = ls_fail_errno(ctx, "cannot start a thread that watches the run");
  }
  if (status == LS_OK)
    *monitor = m;
  else
    release(m);
  return status;
}

void ls_monitor_show(ls_monitor_t *m, const ls_monitor_state_t *state) {
  if (m) ls_shown_write(&m->shown, state, sizeof *state);
}

void ls_monitor_stop(ls_monitor_t *m, ls_status_t status) {
  if (!m) return;
  pthread_mutex_lock(&m->lock);
  m->ending = true;
  pthread_cond_broadcast(&m->changed);
  pthread_mutex_unlock(&m->lock);
  pthread_join(m->thread, NULL);
  record(m);
  ls_alert_post_close(m->post);
  m->post = NULL;
  ls_monitor_event(m, "end",
                   json_pack("{s:s, s:s}", "status", ls_status_name(status), "text", ls_status_text(status)));
  fdatasync(m->log.fd);
  release(m);
}
