/* Prometheus' text format 0.0.4: base units, counters end in _total, labels of few values. As a file (for
 * node_exporter's textfile collector) it is replaced whole, so that nobody reads half of it. */
#include "monitor/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put_help(FILE *to, const ls_metric_t *m) {
  fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", m->metric, m->help, m->metric,
          m->kind == LS_METRIC_COUNTER ? "counter" : "gauge");
}

char *ls_prometheus_text(const ls_monitor_sample_t *s, size_t *size_bytes) {
  char *text = NULL, number[LS_JSON_REAL_BYTES];
  const char *family = "";
  FILE *to = open_memstream(&text, size_bytes);
  if (!to) return NULL;
  for (int i = 0; i < LS_METRIC_COUNT; i++) {
    const ls_metric_t *m = &ls_metrics[i];
    double value = ls_metric_value(m, s);
    if (!m->metric || !isfinite(value)) continue;
    if (strcmp(family, m->metric) != 0) put_help(to, m);
    family = m->metric;
    fprintf(to, "%s{rank=\"%d\"%s%s} %s\n", m->metric, s->rank, m->label ? "," : "", m->label ? m->label : "",
            ls_json_real(value * m->scale, number));
  }
  fprintf(
      to,
      "# HELP lockstep_record_timestamp_seconds When this was measured.\n"
      "# TYPE lockstep_record_timestamp_seconds gauge\nlockstep_record_timestamp_seconds{rank=\"%d\"} %.3f\n",
      s->rank, s->t);
  fclose(to);
  return text;
}

typedef struct {
  char path[PATH_MAX], temporary[PATH_MAX];
} textfile_t;

static ls_status_t textfile_open(ls_ctx_t *ctx, const ls_monitor_config_t *config,
                                 const ls_monitor_run_t *run, void **state) {
  textfile_t *f = ls_alloc(ctx, sizeof *f);
  if (!f) return LS_ERR_MEMORY;
  ls_monitor_path(config->dir, "metrics", "prom", run->rank, f->path, sizeof f->path);
  ls_monitor_path(config->dir, "metrics", "prom.tmp", run->rank, f->temporary, sizeof f->temporary);
  *state = f;
  return LS_OK;
}

static bool textfile_put(void *state, const ls_monitor_sample_t *s) {
  const textfile_t *f = state;
  size_t size_bytes = 0;
  char *text = ls_prometheus_text(s, &size_bytes);
  int fd = text ? open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
  bool written = fd >= 0 && ls_write_all(fd, text, size_bytes);
  if (fd >= 0 && close(fd) != 0) written = false;
  written = written && rename(f->temporary, f->path) == 0;
  free(text);
  return written;
}

const ls_sink_t ls_sink_prometheus = {"prometheus", false, textfile_open, textfile_put, ls_free};
