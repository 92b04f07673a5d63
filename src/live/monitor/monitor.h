/* Seeing a run from outside. The training loop shows its numbers without waiting for anyone; a thread looks at them
 * every monitor.every_s, adds what it measures of host and GPU, and hands the record to sinks (files, HTTP) and alerts.
 * Every rank watches itself and writes files of its own into monitor.dir:
 *   events.jsonl   rank 0's event log; rank R writes events-R.jsonl. One JSON object a line, see docs/monitor.md.
 *                  Earlier parts of it: events.jsonl.1, .2 (events.h)
 * A failure while the run goes on is said once and changes nothing in the training. */
#ifndef LS_MONITOR_MONITOR_H
#define LS_MONITOR_MONITOR_H

#include "base/base.h"
#include "monitor/alert.h"
#include "monitor/page.h"
#include "monitor/shown.h"

#include <assert.h>

enum { LS_MONITOR_VERSION = 1, LS_MONITOR_PARTS = 6 };

/* Section monitor. */
typedef struct {
  const char *dir; /* NULL: nothing is watched */
  double every_s;
  int64_t events_bytes, events_files; /* of the event log: size of a file (0: any), and how many stay */
  ls_strings_t sinks;                 /* names of ls_sinks; the event log is always written */
  int64_t http_port;                  /* 0 = none; rank R listens on http_port + R */
  const char *http_address;
  int alert_count;
  const ls_alert_rule_t *alerts; /* NULL: the usual ones */
} ls_monitor_config_t;

extern const ls_section_t ls_monitor_section, ls_alert_section;
/* Fills the section; `map` NULL: defaults. As ls_option_parse. */
ls_status_t ls_monitor_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map,
                             ls_monitor_config_t *config);
/* Whether a server can listen on `text`: an IPv4 address. */
bool ls_monitor_is_address(const char *text);
/* New reference; NULL when memory is short. */
json_t *ls_monitor_json(const ls_monitor_config_t *config);

/* Facts that stay the same during a run. Texts are borrowed for the call. */
typedef struct {
  int rank, ranks, local_rank;
  int64_t first_step, total_steps, batch;
  int64_t resumed_from; /* step, -1 = not resumed */
  int64_t params;
  double exchanged_bytes; /* of a step, by this rank */
  double predicted_us;    /* step time by a plan; 0 = none */
  int64_t
      need_bytes; /* memory of its device that this rank needs by computation, without libraries; 0 = not known */
  json_t *cost; /* prices of the configuration; NULL: none */
  const char *strategy, *backend, *precision, *device;
  ls_page_t *page; /* of all ranks, borrowed until stop; NULL: none */
  int gpu;         /* which of this process' GPUs; -1 = none */
  /* Gets each record, in the monitor's thread; NULL: nobody wants them. */
  void (*record)(void *user, const ls_monitor_sample_t *sample);
  void *user;
} ls_monitor_run_t;

/* The loop's side: sums since it began, and its newest numbers. */
typedef struct {
  int64_t step;                       /* steps done, earlier runs included */
  int64_t steps, skipped;             /* of this process */
  int64_t done_ns;                    /* when the newest one ended (ls_clock_ns) */
  int64_t step_ns;                    /* all below are sums */
  int64_t parts_ns[LS_MONITOR_PARTS]; /* input, forward, backward, comm, optimizer, rest */
  int64_t parts_steps, comm_steps;    /* steps in which all parts, and in which comm was measured */
  int64_t eval_ns, save_ns;
  int64_t losses; /* applied steps, and the sum of their losses */
  double loss_sum;
  double loss, grad_norm, lr;
  double loss_scale; /* of fp16; 0 = none */
  int64_t val_step;  /* of the newest evaluation, as the next ones; NaN = none */
  double val_loss, val_accuracy, val_perplexity, val_top5, val_f1, val_r2, val_mae;
} ls_monitor_state_t;
static_assert(sizeof(ls_monitor_state_t) <= LS_SHOWN_WORDS * sizeof(uint64_t),
              "the state fits into the block");

typedef struct ls_monitor ls_monitor_t;
/* Opens the sinks and starts the thread. Refuses what cannot be opened. ctx is borrowed until stop. */
ls_status_t ls_monitor_start(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                             ls_monitor_t **monitor);
/* Shows the state. Local, called by one thread, never waits. NULL: nothing. */
void ls_monitor_show(ls_monitor_t *monitor, const ls_monitor_state_t *state);
/* A line of the event log of this kind; the members' reference is taken. Any thread. NULL monitor: nothing. */
void ls_monitor_event(ls_monitor_t *monitor, const char *kind, json_t *members);
/* The last record, then the line "end" with this status; ends the thread. NULL: nothing. */
void ls_monitor_stop(ls_monitor_t *monitor, ls_status_t status);

/* "DIR/events.jsonl", for rank R > 0 "DIR/events-R.jsonl". */
void ls_monitor_path(const char *dir, const char *name, const char *ending, int rank, char *path,
                     size_t size_bytes);

#endif
