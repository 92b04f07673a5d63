/* Section monitor, and the rows of its alerts. */
#include "monitor/monitor.h"

#include "base/secret.h"
#include "monitor/sink.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const ls_option_t rows[] = {
    LS_OPTION_PATH(
        ls_monitor_config_t, dir, .optional = true, .change = LS_CHANGE_IGNORED,
        .help = "Folder in which the run shows what its ranks do: a page, an event log, the files of sinks. "
                "Without it the run shows nothing, but lockstep train --supervise uses the folder monitor "
                "in train.checkpoint.dir. A resumed run goes on with the files that are there."),
    LS_OPTION(ls_monitor_config_t, every_s, .unit = "s", .min = 0.01, .max = 3600, .initial = "1",
              .change = LS_CHANGE_IGNORED, .help = "Time between two records of a rank."),
    LS_OPTION(ls_monitor_config_t, events_bytes, .unit = "bytes", .min = 65536, .max = 1e12,
              .initial = "67108864", .change = LS_CHANGE_IGNORED,
              .help = "A file of a rank's event log that has reached this size gets a number "
                      "(events.jsonl.1), and a new one begins."),
    LS_OPTION(ls_monitor_config_t, events_files, .min = 2, .max = 1e6, .initial = "8",
              .change = LS_CHANGE_IGNORED,
              .help = "Files of a rank's event log that stay, the newest included; older ones are removed."),
    LS_OPTION(ls_monitor_config_t, sinks, .optional = true, .change = LS_CHANGE_IGNORED,
              .help = "What else gets every record: tensorboard (an event file, rank 0), csv (samples.csv), "
                      "prometheus (metrics.prom, a text file for node_exporter)."),
    LS_OPTION(
        ls_monitor_config_t, http_port, .min = 0, .max = 65535, .initial = "0", .change = LS_CHANGE_IGNORED,
        .help = "Rank R answers GET /metrics on port http_port + R in Prometheus' text format; 0 = off."),
    LS_OPTION(ls_monitor_config_t, http_address, .initial = "127.0.0.1", .change = LS_CHANGE_IGNORED,
              .help = "IPv4 address on which it listens. Who can reach it can read the metrics."),
};
const ls_section_t ls_monitor_section = {
    "monitor", rows, LS_COUNT(rows),
    "Seeing the run from outside: records, files, alerts (docs/monitor.md)."};

static const ls_option_t alert_rows[] = {
    LS_OPTION(ls_alert_rule_t, name, .help = "Name of the alert."),
    LS_OPTION(ls_alert_rule_t, when,
              .help = "Condition that raises it: a name of the records, an operator (> >= < <=) "
                      "and a number, as in \"gpu_memory_ratio > 0.95\"."),
    LS_OPTION(ls_alert_rule_t, for_s, .unit = "s", .min = 0, .max = 1e6, .initial = "0",
              .help = "How long the condition has to hold."),
    LS_OPTION(ls_alert_rule_t, clear, .optional = true,
              .help = "Condition that clears it. Default: `when` does not hold."),
    LS_OPTION(ls_alert_rule_t, clear_for_s, .unit = "s", .min = 0, .max = 1e6, .initial = "0",
              .help = "How long that has to hold."),
    LS_OPTION(ls_alert_rule_t, tell, .optional = true,
              .help = "Names of the records whose values are said with it, such as straggler_rank."),
    LS_OPTION(
        ls_alert_rule_t, run, .optional = true,
        .help =
            "Program and its arguments, started when the alert is raised or cleared, for at most 10 s. Its "
            "stdin is the notice in the form of Alertmanager's webhook."),
    LS_OPTION(
        ls_alert_rule_t, webhook, .optional = true, .secret = true,
        .help =
            "An http or https address that gets the notice, by the program curl, which has 3 s. It is "
            "read anew for each notice; an address written here is hidden wherever it is saved or shown."),
    LS_OPTION(ls_alert_rule_t, mail, .optional = true,
              .help = "Addresses that get it as mail, by the program sendmail."),
    LS_OPTION_PATH(ls_alert_rule_t, file, .optional = true,
                   .help = "File to which notices are appended, a line each."),
};
const ls_section_t ls_alert_section = {"monitor.alerts", alert_rows, LS_COUNT(alert_rows),
                                       "A list of alerts. Without it lockstep uses its own "
                                       "(docs/monitor.md); an empty list is none. Alerts are said on "
                                       "stderr and in the event log."};

static ls_status_t check_condition(ls_ctx_t *ctx, const ls_doc_node_t *row, const char *key,
                                   const char *text) {
  ls_condition_t unused;
  char why[LS_CONDITION_WHY_BYTES];
  const ls_doc_node_t *node = ls_doc_get(row, key);
  if (!node || !text || ls_condition_read(text, &unused, why)) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "monitor.alerts.%s: %s", key, why);
}

static ls_status_t check_told(ls_ctx_t *ctx, const ls_doc_node_t *row, const ls_strings_t *tell) {
  for (int i = 0; i < tell->count; i++)
    if (!ls_metric_find(tell->v[i], strlen(tell->v[i])))
      return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(row, "tell")->place,
                        "monitor.alerts.tell: `%s` is not measured", LS_SHOWN(tell->v[i]));
  return LS_OK;
}

static ls_status_t check_receivers(ls_ctx_t *ctx, const ls_doc_node_t *row, const ls_alert_rule_t *rule) {
  if (rule->webhook && ls_secret_is_value(rule->webhook) && !ls_alert_is_url(rule->webhook))
    return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(row, "webhook")->place,
                      "monitor.alerts.webhook: " LS_ALERT_NO_URL);
  for (int i = 0; i < rule->mail.count; i++) {
    const char *address = rule->mail.v[i];
    if (!*address || address[strcspn(address, " \t\r\n,;:<>()\"")] || strspn(address, "-") > 0)
      return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(row, "mail")->place,
                        "monitor.alerts.mail: `%s` is no address such as ops@example.org", LS_SHOWN(address));
  }
  return LS_OK;
}

/* Receivers know an alert by its name. */
static ls_status_t check_name(ls_ctx_t *ctx, const ls_doc_node_t *row, const ls_alert_rule_t *rules,
                              int count) {
  const char *name = rules[count].name;
  const ls_doc_node_t *node = ls_doc_get(row, "name");
  if (!name || !node) return LS_OK;
  if (!*name) return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "monitor.alerts.name: a name was expected");
  for (int i = 0; i < count; i++)
    if (rules[i].name && !strcmp(rules[i].name, name))
      return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place,
                        "monitor.alerts.name: `%s` is the name of an alert above; write another",
                        LS_SHOWN(name));
  return LS_OK;
}

static ls_status_t parse_alerts(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *list,
                                ls_monitor_config_t *config) {
  if (list->kind != LS_DOC_LIST)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &list->place, "monitor.alerts: a list of alerts was expected");
  ls_alert_rule_t *rules = ls_arena_alloc(arena, ((size_t)list->count + 1) * sizeof *rules);
  if (!rules) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  int count = 0;
  for (const ls_doc_node_t *row = list->child; row; row = row->next) {
    ls_alert_rule_t *rule = &rules[count++];
    status = ls_worse(status, ls_option_parse(ctx, arena, &ls_alert_section, row, NULL, rule));
    status = ls_worse(status, check_name(ctx, row, rules, count - 1));
    status = ls_worse(status, check_condition(ctx, row, "when", rule->when));
    status = ls_worse(status, check_condition(ctx, row, "clear", rule->clear));
    status = ls_worse(status, check_told(ctx, row, &rule->tell));
    status = ls_worse(status, check_receivers(ctx, row, rule));
  }
  config->alerts = rules;
  config->alert_count = count;
  return status;
}

static ls_status_t check_sinks(ls_ctx_t *ctx, const ls_doc_node_t *node, const ls_monitor_config_t *config) {
  for (int i = 0; i < config->sinks.count; i++) {
    if (ls_sink_find(config->sinks.v[i])) continue;
    char names[LS_NAMES_TEXT_BYTES], near[LS_NAMES_TEXT_BYTES];
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "monitor.sinks: `%s` is not one of %s%s",
                      LS_SHOWN(config->sinks.v[i]), ls_names_text(ls_sink_names, names),
                      ls_nearest_text("monitor.sinks", config->sinks.v[i], ls_sink_names, near));
  }
  return LS_OK;
}

bool ls_monitor_is_address(const char *text) {
  struct in_addr unused;
  return inet_pton(AF_INET, text, &unused) == 1;
}

static ls_status_t check_address(ls_ctx_t *ctx, const ls_doc_node_t *node,
                                 const ls_monitor_config_t *config) {
  if (!node || ls_monitor_is_address(config->http_address)) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place,
                    "monitor.http_address: `%s` is no IPv4 address such as 127.0.0.1",
                    LS_SHOWN(config->http_address));
}

ls_status_t ls_monitor_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                             ls_monitor_config_t *config) {
  static const char *const nested[] = {"alerts", NULL};
  ls_status_t status = ls_option_parse(ctx, arena, &ls_monitor_section, map, nested, config);
  const ls_doc_node_t *alerts = ls_doc_get(map, "alerts");
  if (alerts && alerts->kind != LS_DOC_NULL)
    status = ls_worse(status, parse_alerts(ctx, arena, alerts, config));
  if (status == LS_OK) status = check_sinks(ctx, ls_doc_get(map, "sinks"), config);
  if (status == LS_OK) status = check_address(ctx, ls_doc_get(map, "http_address"), config);
  if (status == LS_OK && config->http_port > 0 && !ls_http_here) {
    const ls_doc_node_t *port = ls_doc_get(map, "http_port");
    status = ls_fail_at(
        ctx, LS_ERR_CONFIG, &port->place,
        "monitor.http_port: this build has no HTTP server; install libmicrohttpd-dev and build again, or "
        "use monitor.sinks: [prometheus]");
  }
  return status;
}

json_t *ls_monitor_json(const ls_monitor_config_t *config) {
  json_t *json = ls_option_json(&ls_monitor_section, config);
  json_t *alerts = config->alerts ? json_array() : NULL;
  for (int i = 0; i < config->alert_count; i++)
    json_array_append_new(alerts, ls_option_json(&ls_alert_section, &config->alerts[i]));
  if (alerts) json_object_set_new(json, "alerts", alerts);
  return json;
}
