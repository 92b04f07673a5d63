/* Conditions, their hysteresis, and what a notice says. */
#include "monitor/alert.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const which_rank[] = {"straggler_rank", "straggler_ratio", "straggler_cause"},
                         *const which_xid[] = {"gpu_xid", "gpu_recovery_action"},
                         *const which_limit[] = {"gpu_power_w", "gpu_power_limit_w"},
                         *const which_heat[] = {"gpu_temperature_c"};
const ls_alert_rule_t ls_alert_usual[LS_ALERT_USUAL_COUNT] = {
    {.name = "not-finite", .when = "nonfinite > 0", .clear_for_s = 60},
    {.name = "no-progress", .when = "idle_s > 120"},
    {.name = "restart", .when = "resumed_s < 60"},
    {.name = "slow",
     .when = "step_time_ratio > 1.5",
     .clear = "step_time_ratio < 1.2",
     .for_s = 10,
     .clear_for_s = 10},
    {.name = "straggler", .when = "straggler > 0", .clear_for_s = 10, .tell = {3, which_rank}},
    {.name = "memory",
     .when = "memory_ratio > 0.95",
     .clear = "memory_ratio < 0.9",
     .for_s = 10,
     .clear_for_s = 10},
    {.name = "disk", .when = "disk_ratio > 0.95", .clear = "disk_ratio < 0.9"},
    {.name = "gpu-memory",
     .when = "gpu_memory_ratio > 0.95",
     .clear = "gpu_memory_ratio < 0.9",
     .for_s = 10,
     .clear_for_s = 10},
    {.name = "gpu-margin",
     .when = "gpu_margin_c <= 5",
     .clear = "gpu_margin_c >= 10",
     .for_s = 30,
     .clear_for_s = 120,
     .tell = {1, which_heat}},
    {.name = "gpu-power",
     .when = "gpu_power_ratio > 1.05",
     .clear = "gpu_power_ratio <= 1",
     .for_s = 30,
     .clear_for_s = 60,
     .tell = {2, which_limit}},
    {.name = "gpu-error", .when = "gpu_xid_errors > 0", .tell = {2, which_xid}},
    {.name = "gpu-memory-error", .when = "gpu_ecc_new > 0", .clear_for_s = 60},
    {.name = "gpu-heat", .when = "gpu_heat_limited > 0", .for_s = 10, .clear_for_s = 60},
    {.name = "gpu-brake", .when = "gpu_brake_limited > 0", .for_s = 5, .clear_for_s = 60},
};

static const char *const operators[] = {">=", "<=", ">", "<", NULL};

bool ls_condition_read(const char *text, ls_condition_t *condition, char why[LS_CONDITION_WHY_BYTES]) {
  *condition = (ls_condition_t){.limit = NAN};
  const char *at = text + strspn(text, " ");
  const size_t len = strcspn(at, " <>=");
  const char *op = at + len + strspn(at + len, " ");
  const ls_metric_t *metric = ls_metric_find(at, len);
  if (!metric) {
    const char *names[LS_METRIC_COUNT + 1] = {NULL};
    char word[LS_SHOWN_BYTES], near[LS_NAMES_TEXT_BYTES];
    for (int i = 0; i < LS_METRIC_COUNT; i++)
      names[i] = ls_metrics[i].name;
    ls_text_shown(at, len, word, sizeof word);
    if (!*ls_nearest_text("", word, names, near)) ls_names_text(names, near);
    snprintf(why, LS_CONDITION_WHY_BYTES, "`%s` is not measured%s%s", word,
             *near == ';' ? "" : "; possible: ", near);
    return false;
  }
  for (int i = 0; operators[i] && !condition->op[0]; i++)
    if (!strncmp(op, operators[i], strlen(operators[i])))
      snprintf(condition->op, sizeof condition->op, "%s", operators[i]);
  char *end = NULL;
  if (condition->op[0]) condition->limit = strtod(op + strlen(condition->op), &end);
  if (!end || *end || !isfinite(condition->limit)) {
    snprintf(why, LS_CONDITION_WHY_BYTES,
             "a condition is NAME OPERATOR NUMBER, with one of > >= < <=: \"%s > 0.9\"", metric->name);
    return false;
  }
  condition->metric = metric;
  return true;
}

/* Neither holds when the value is not known. */
static bool holds(const ls_condition_t *c, double value) {
  bool equal = c->op[1] == '=';
  return c->op[0] == '>' ? value > c->limit || (equal && value >= c->limit)
                         : value < c->limit || (equal && value <= c->limit);
}

ls_alert_t ls_alert_of(const ls_alert_rule_t *rule) {
  char why[LS_CONDITION_WHY_BYTES];
  ls_alert_t a = {.rule = rule, .since = NAN, .value = NAN, .raised_at = NAN};
  ls_condition_read(rule->when, &a.raise, why);
  if (rule->clear) ls_condition_read(rule->clear, &a.clear, why);
  return a;
}

ls_alert_change_t ls_alert_judge(ls_alert_t *a, const ls_monitor_sample_t *s) {
  const ls_condition_t *c = a->raised && a->clear.metric ? &a->clear : &a->raise;
  if (!c->metric) return LS_ALERT_SAME;
  const double value = ls_metric_value(c->metric, s);
  if (isnan(value)) return LS_ALERT_SAME;
  if (holds(c, value) == (a->raised && c == &a->raise)) {
    a->since = NAN;
    return LS_ALERT_SAME;
  }
  if (isnan(a->since)) a->since = s->t;
  if (s->t - a->since < (a->raised ? a->rule->clear_for_s : a->rule->for_s)) return LS_ALERT_SAME;
  a->raised = !a->raised;
  a->since = NAN;
  a->value = value;
  if (a->raised) a->raised_at = s->t;
  return a->raised ? LS_ALERT_RAISED : LS_ALERT_CLEARED;
}

/* RFC 3339, to the millisecond; of an alert that goes on: the year 1, as Alertmanager writes it. */
static json_t *time_json(double t) {
  char text[64] = "0001-01-01T00:00:00Z", day[32];
  time_t seconds = isfinite(t) ? (time_t)t : 0;
  struct tm parts;
  if (isfinite(t) && gmtime_r(&seconds, &parts)) {
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof text, "%s.%03dZ", day, (int)((t - (double)seconds) * 1e3));
  }
  return json_string(text);
}

/* "{}:{alertname=\"hot\", instance=..": receivers take notices of one key for one matter, so it names all that differs
 * between two matters: rule, host, rank and run. */
static json_t *group_key(const json_t *labels) {
  char *text = NULL;
  const char *name, *before = "{}:{";
  json_t *value;
  size_t size_bytes;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return NULL;
  json_object_foreach((json_t *)(uintptr_t)labels, name, value) {
    fprintf(to, "%s%s=\"", before, name);
    for (const char *at = json_string_value(value); at && *at; at++)
      fprintf(to, strchr("\"\\", *at) ? "\\%c" : "%c", *at);
    fputc('"', to);
    before = ", ";
  }
  fputc('}', to);
  fclose(to);
  json_t *key = ls_json_text(text);
  free(text);
  return key;
}

json_t *ls_alert_notice(const ls_alert_t *a, const char *host, const char *dir,
                        const ls_monitor_sample_t *s) {
  const ls_metric_t *metric = a->raise.metric;
  const char *status = a->raised ? "firing" : "resolved";
  char rank[16], number[32], summary[512];
  snprintf(rank, sizeof rank, "%d", s->rank);
  snprintf(number, sizeof number, "%.6g", a->value);
  snprintf(summary, sizeof summary, "%s %s on rank %d of %s: %s is %s", a->rule->name,
           a->raised ? "raised" : "cleared", s->rank, host, metric->name, number);
  for (int i = 0; i < a->rule->tell.count; i++) {
    const char *name = a->rule->tell.v[i];
    const ls_metric_t *more = ls_metric_find(name, strlen(name));
    size_t used = strlen(summary);
    char value[LS_METRIC_TEXT_BYTES];
    if (more && !isnan(ls_metric_value(more, s)))
      snprintf(summary + used, sizeof summary - used, ", %s %s", name, ls_metric_text(more, s, value));
  }
  json_t *labels = json_pack("{s:o?, s:o?, s:s, s:o?}", "alertname", ls_json_text(a->rule->name), "instance",
                             ls_json_text(host), "rank", rank, "run", ls_json_text(dir));
  json_t *said = json_pack("{s:o?, s:s, s:s}", "summary", ls_json_text(summary), "description", metric->help,
                           "value", number); /* texts, all of them: receivers refuse a number */
  return json_pack(
      "{s:s, s:o?, s:i, s:s, s:s, s:O?, s:O?, s:O?, s:s, s:[{s:s, s:o?, s:o?, s:o?, s:o?, s:s}]}", "version",
      "4", "groupKey", group_key(labels), "truncatedAlerts", 0, "status", status, "receiver", "lockstep",
      "groupLabels", labels, "commonLabels", labels, "commonAnnotations", said, "externalURL", "", "alerts",
      "status", status, "labels", labels, "annotations", said, "startsAt", time_json(a->raised_at), "endsAt",
      time_json(a->raised ? (double)NAN : s->t), "generatorURL", "");
}
