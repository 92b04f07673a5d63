/* The files of a rank's event log. The newest is events.jsonl, of rank R > 0 events-R.jsonl; when it is large enough it gets a
 * number, events.jsonl.7, which it keeps, and a new one begins. The oldest are removed. */
#ifndef LS_MONITOR_EVENTS_H
#define LS_MONITOR_EVENTS_H

#include "monitor/monitor.h"

#include <limits.h>

/* Whether `name` is a file of a log: whose, and its number; 0: it is the newest. */
bool ls_events_name(const char *name, int *rank, int64_t *number);
void ls_events_path(const char *dir, int rank, int64_t number, char path[PATH_MAX]);

typedef struct {
  const char *dir; /* borrowed */
  int rank, files, fd;
  bool regular;
  int64_t newest;            /* the largest number that was given */
  int64_t bytes, most_bytes; /* of the newest file */
  char *first;               /* the line with which a new file begins; NULL: none */
} ls_events_t;

/* Goes on with the log that is there. fd is -1 until then. */
ls_status_t ls_events_open(ls_ctx_t *ctx, const ls_monitor_config_t *config, int rank, ls_events_t *events);
void ls_events_close(ls_events_t *events);
/* Takes the line (malloc). */
void ls_events_begin_with(ls_events_t *events, char *line);
/* Appends a line with its end. False with errno: it could not be written, or the next file not begun. */
bool ls_events_put(ls_events_t *events, const char *line, size_t size_bytes);

#endif
