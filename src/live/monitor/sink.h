/* A sink writes records somewhere. It is a row: it opens its target, takes a record at a time, and closes. All calls come from
 * one thread at a time. */
#ifndef LS_MONITOR_SINK_H
#define LS_MONITOR_SINK_H

#include "monitor/monitor.h"

typedef struct {
  const char *name;
  bool first_rank_only;
  /* Sinks that go on with an earlier run's file say so themselves. Reports its failure. */
  ls_status_t (*open)(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                      void **state);
  bool (*put)(void *state, const ls_monitor_sample_t *sample); /* false: errno says why */
  void (*close)(void *state);
} ls_sink_t;

extern const ls_sink_t *const ls_sinks[]; /* ended by NULL */
extern const char *const ls_sink_names[]; /* the same names, ended by NULL */
const ls_sink_t *ls_sink_find(const char *name);
extern const ls_sink_t ls_sink_tensorboard, ls_sink_csv, ls_sink_prometheus, ls_sink_http;

/* http.c: whether this build has a server. */
extern const bool ls_http_here;

/* prometheus.c: a record in the text format 0.0.4; released with free. NULL: memory is short. */
char *ls_prometheus_text(const ls_monitor_sample_t *sample, size_t *size_bytes);

/* tensorboard.c: CRC-32C (Castagnoli) with TensorFlow's mask. */
uint32_t ls_crc32c_masked(const void *bytes, size_t size_bytes);

/* Appends to a file of lines; a torn last line, left by a crash, is ended first. -1 with errno. */
int ls_lines_open(const char *path);
/* All of it; false with errno. */
bool ls_write_all(int fd, const void *bytes, size_t size_bytes);

#endif
