/* Reading a run's monitor folder, while the run goes on or afterwards: the event logs of all ranks, each read to its end
 * and then from there. Nothing is written, and the run does not notice. */
#ifndef LS_MONITOR_READ_H
#define LS_MONITOR_READ_H

#include "monitor/monitor.h"

enum { LS_VIEWER_LOSSES = 512, LS_VIEWER_EVENTS = 64 };

/* One rank's log, read from its oldest file to its newest. */
typedef struct {
  int rank;
  int fd;               /* of the file that is read; -1: none yet */
  int64_t number;       /* of that file when it was opened; 0: it was the newest */
  int64_t done;         /* the largest number of those that are read; 0: none */
  int64_t offset_bytes; /* so much of it is read */
  char *text;           /* what is read and not yet a whole line */
  size_t used, capacity;
  bool any;                   /* there is a record */
  ls_monitor_sample_t newest; /* values that its record did not have are NaN */
  json_t *start, *end; /* the newest lines of these kinds; `end` NULL: the run goes on, or ended without */
} ls_viewer_rank_t;

typedef struct {
  ls_ctx_t *ctx;
  char *dir;
  int count;
  ls_viewer_rank_t *rank;        /* in the order of ranks */
  int64_t losses;                /* of rank 0: how many there were */
  double loss[LS_VIEWER_LOSSES]; /* a ring of the newest ones */
  json_t *events;                /* the newest lines of other kinds than records, oldest first */
  /* Called for every line, with its rank; NULL: nobody. */
  void (*seen)(void *user, int rank, const json_t *line);
  void *user;
} ls_viewer_t;

/* The logs of `dir`, or of the folder "monitor" in it. LS_ERR_NOT_FOUND without a log, with the remedy. Set `seen` before the first update. */
ls_status_t ls_viewer_open(ls_ctx_t *ctx, const char *dir, ls_viewer_t *view);
void ls_viewer_close(ls_viewer_t *view); /* also of one that is zero */
/* Reads what is new, also of ranks that have begun since, and of a log that a new run has put in an old one's place.
 * *lines: how many. Lines that are no JSON are skipped. LS_ERR_NOT_FOUND: the folder is gone. */
ls_status_t ls_viewer_update(ls_viewer_t *view, int64_t *lines);
/* SILENT: no record for several times their distance, and no word of an end. UNREADABLE: the log has no record that can be
 * read. text: "running", "ended (ok)", "silent for 12 s"; may be NULL. */
typedef enum { LS_VIEWER_RUNNING, LS_VIEWER_ENDED, LS_VIEWER_SILENT, LS_VIEWER_UNREADABLE } ls_viewer_state_t;
enum { LS_VIEWER_STATE_BYTES = 64 };
ls_viewer_state_t ls_viewer_state(const ls_viewer_t *view, char *text);
/* NULL: the rank has no log. */
const ls_viewer_rank_t *ls_viewer_rank(const ls_viewer_t *view, int rank);

#endif
