/* The rows of the table, for each of its users. */
#include "monitor/record.h"

#include "monitor/straggler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ls_metric_t ls_metrics[LS_METRIC_COUNT] = {
#define ROW(of_, field_, kind_, metric_, label_, scale_, tag_, help_)                                        \
  {.name = #field_,                                                                                          \
   .offset = offsetof(ls_monitor_sample_t, field_),                                                          \
   .of = LS_OF_##of_,                                                                                        \
   .kind = LS_METRIC_##kind_,                                                                                \
   .metric = (metric_),                                                                                      \
   .label = (label_),                                                                                        \
   .scale = (scale_),                                                                                        \
   .tag = (tag_),                                                                                            \
   .help = (help_)},
    LS_MONITOR_TABLE(ROW)
#undef ROW
};

static const ls_field_t rows[] = {LS_FIELD(ls_monitor_sample_t, t), LS_FIELD(ls_monitor_sample_t, rank),
#define ROW(of, field_, kind, metric, label, scale, tag, help)                                               \
  LS_FIELD_AS(ls_monitor_sample_t, field_, #field_, .left_out = true, .min = -1e300),
                                  LS_MONITOR_TABLE(ROW)
#undef ROW
};
const ls_record_t ls_monitor_sample_record = LS_RECORD(rows);

const ls_metric_t *ls_metric_find(const char *name, size_t len) {
  for (int i = 0; i < LS_METRIC_COUNT; i++)
    if (strlen(ls_metrics[i].name) == len && !memcmp(ls_metrics[i].name, name, len)) return &ls_metrics[i];
  return NULL;
}

const char *ls_metric_text(const ls_metric_t *m, const ls_monitor_sample_t *s,
                           char text[LS_METRIC_TEXT_BYTES]) {
  const double value = ls_metric_value(m, s);
  const bool cause = m->offset == offsetof(ls_monitor_sample_t, straggler_cause);
  if (cause && value >= 0 && value < LS_STRAGGLER_CAUSES)
    snprintf(text, LS_METRIC_TEXT_BYTES, "%s", ls_straggler_cause_name((ls_straggler_cause_t)value));
  else
    snprintf(text, LS_METRIC_TEXT_BYTES, "%.6g", value);
  return text;
}

static json_t *number_json(double value) {
  enum { DIGITS = 8, TEXT_BYTES = 32 };
  const double whole_max = 1e15;
  char text[TEXT_BYTES];
  if (fabs(value) <= whole_max && value == trunc(value)) return json_integer((json_int_t)value);
  snprintf(text, sizeof text, "%.*g", DIGITS, value);
  return json_real(strtod(text, NULL));
}

bool ls_monitor_sample_put(json_t *object, const ls_monitor_sample_t *s) {
  bool whole = json_object_set_new(object, "t", json_real(round(s->t * 1e3) / 1e3)) == 0 &&
               json_object_set_new(object, "rank", json_integer(s->rank)) == 0;
  for (int i = 0; i < LS_METRIC_COUNT && whole; i++) {
    double value = ls_metric_value(&ls_metrics[i], s);
    if (isfinite(value)) whole = json_object_set_new(object, ls_metrics[i].name, number_json(value)) == 0;
  }
  return whole;
}
