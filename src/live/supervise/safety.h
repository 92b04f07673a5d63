/* Safety: what a run does by itself when a device comes near a limit, as rungs of a ladder. Watching and telling are the
 * monitor's (records, alerts); a rung slows the run down, lets it stand still, or ends it after a save. Each rung is
 * left again when its condition clears. Clocks, power limits and fans are never touched. */
#ifndef LS_SUPERVISE_SAFETY_H
#define LS_SUPERVISE_SAFETY_H

#include "monitor/alert.h"

/* Ordered by weight. */
typedef enum {
  LS_SAFETY_NONE,
  LS_SAFETY_DUTY,    /* waits between steps, so that it computes for `share` of the time */
  LS_SAFETY_SMALLER, /* saves, and goes on with half the micro-batch and twice as many of them */
  LS_SAFETY_PAUSE,   /* saves, and stands still until it is left */
  LS_SAFETY_END,     /* saves and ends: the same command with --resume goes on */
} ls_safety_act_t;
extern const char *const ls_safety_acts[]; /* "none", "duty", .. */

/* A row of the section safety. */
typedef struct {
  const char *name, *when, *clear; /* as of an alert */
  double for_s, clear_for_s;
  int act;
  double share;
} ls_safety_rung_t;

typedef struct {
  int count;
  const ls_safety_rung_t *rung;
} ls_safety_config_t;
extern const ls_section_t ls_safety_section;
/* node NULL: no rung. Reports LS_ERR_CONFIG with its place. */
ls_status_t ls_safety_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                            ls_safety_config_t *config);
/* A list; new reference. */
json_t *ls_safety_json(const ls_safety_config_t *config);

/* One rank's place on the ladder. */
enum { LS_SAFETY_RUNGS_MAX = 16 };
typedef struct {
  ls_safety_config_t config;
  ls_alert_rule_t rule[LS_SAFETY_RUNGS_MAX];
  ls_alert_t alert[LS_SAFETY_RUNGS_MAX];
} ls_safety_t;
/* smaller: rungs of LS_SAFETY_SMALLER hold already. */
void ls_safety_begin(const ls_safety_config_t *config, bool smaller, ls_safety_t *safety);
typedef struct {
  ls_safety_act_t act; /* the heaviest rung that holds */
  double share;        /* the smallest of those of LS_SAFETY_DUTY, else 1 */
  bool smaller;        /* one of LS_SAFETY_SMALLER holds */
} ls_safety_now_t;
/* Judges the next record. Returns the rungs that this record has changed, as bits. Pure. */
unsigned ls_safety_judge(ls_safety_t *safety, const ls_monitor_sample_t *sample, ls_safety_now_t *now);

#endif
