/* samples.csv: a line of names, then a line for each record; unknown values are empty. */
#include "monitor/sink.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  int fd;
} csv_t;

static char *header(size_t *size_bytes) {
  char *text = NULL;
  FILE *to = open_memstream(&text, size_bytes);
  if (!to) return NULL;
  fputs("t,rank", to);
  for (int i = 0; i < LS_METRIC_COUNT; i++)
    fprintf(to, ",%s", ls_metrics[i].name);
  fputc('\n', to);
  fclose(to);
  return text;
}

/* A file of another version has other columns. */
static ls_status_t begin(ls_ctx_t *ctx, int fd, const char *path) {
  size_t size_bytes;
  char *first = header(&size_bytes), *found = first ? malloc(size_bytes) : NULL;
  ls_status_t status = LS_OK;
  if (!found) {
    status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for %s", path);
  } else {
    ssize_t got = pread(fd, found, size_bytes, 0);
    if (got == 0 && !ls_write_all(fd, first, size_bytes))
      status = ls_fail_errno(ctx, "%s: cannot be written", path);
    else if (got > 0 && ((size_t)got != size_bytes || memcmp(first, found, size_bytes) != 0))
      status =
          ls_fail(ctx, LS_ERR_MISMATCH, "%s: has the columns of another version; move the file aside", path);
  }
  free(found);
  free(first);
  return status;
}

static ls_status_t csv_open(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                            void **state) {
  char path[PATH_MAX];
  csv_t *c = ls_alloc(ctx, sizeof *c);
  if (!c) return LS_ERR_MEMORY;
  ls_monitor_path(config->dir, "samples", "csv", run->rank, path, sizeof path);
  c->fd = ls_lines_open(path);
  ls_status_t status = c->fd < 0 ? ls_fail_errno(ctx, "%s: cannot be opened", path) : begin(ctx, c->fd, path);
  if (status == LS_OK) {
    *state = c;
    return LS_OK;
  }
  if (c->fd >= 0) close(c->fd);
  ls_free(c);
  return status;
}

static bool csv_put(void *state, const ls_monitor_sample_t *s) {
  const csv_t *c = state;
  char *text = NULL, number[LS_JSON_REAL_BYTES];
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  if (!to) return false;
  fprintf(to, "%.3f,%d", s->t, s->rank);
  for (int i = 0; i < LS_METRIC_COUNT; i++) {
    double value = ls_metric_value(&ls_metrics[i], s);
    fprintf(to, ",%s", isfinite(value) ? ls_json_real(value, number) : "");
  }
  fputc('\n', to);
  fclose(to);
  bool written = ls_write_all(c->fd, text, size_bytes);
  free(text);
  return written;
}

static void csv_close(void *state) {
  csv_t *c = state;
  close(c->fd);
  ls_free(c);
}

const ls_sink_t ls_sink_csv = {"csv", false, csv_open, csv_put, csv_close};
