/* Alerts with hysteresis: a rule is raised when its condition has been true for a while, and cleared when the opposite
 * condition has. An unknown value changes nothing. */
#ifndef LS_MONITOR_ALERT_H
#define LS_MONITOR_ALERT_H

#include "base/option.h"
#include "monitor/record.h"

/* "gpu_memory_ratio > 0.95" */
typedef struct {
  const ls_metric_t *metric; /* NULL: none */
  char op[3];
  double limit;
} ls_condition_t;

/* A row of monitor.alerts. */
typedef struct {
  const char *name, *when, *clear; /* clear NULL: that `when` does not hold */
  double for_s, clear_for_s;
  ls_strings_t tell;   /* names of further values that it says */
  ls_strings_t run;    /* a program; it reads the notice from stdin */
  const char *webhook; /* names an address that gets the notice (base/secret.h); NULL = none */
  ls_strings_t mail;   /* addresses */
  const char *file;    /* notices are appended to it; NULL = none */
} ls_alert_rule_t;

/* Reads a condition. On failure `why` says what is wrong with it. */
enum { LS_CONDITION_WHY_BYTES = 1024 };
bool ls_condition_read(const char *text, ls_condition_t *condition, char why[LS_CONDITION_WHY_BYTES]);

typedef enum { LS_ALERT_SAME, LS_ALERT_RAISED, LS_ALERT_CLEARED } ls_alert_change_t;
typedef struct {
  const ls_alert_rule_t *rule;
  ls_condition_t raise, clear; /* clear.metric NULL: that `raise` does not hold */
  bool raised;
  double since; /* t of the record since which the condition that would change it is true; NaN = it is not */
  double value; /* when it changed last */
  double raised_at; /* t of the record that raised it */
} ls_alert_t;
/* Conditions that ls_condition_read has refused never hold. */
ls_alert_t ls_alert_of(const ls_alert_rule_t *rule);
/* Judges the next record; records come in the order of their t. Pure. */
ls_alert_change_t ls_alert_judge(ls_alert_t *alert, const ls_monitor_sample_t *sample);

/* The rules of a configuration without monitor.alerts. */
enum { LS_ALERT_USUAL_COUNT = 14 };
extern const ls_alert_rule_t ls_alert_usual[LS_ALERT_USUAL_COUNT];

/* The notice in the form of Alertmanager's webhook (version 4), so that its receivers understand it; `dir` says which
 * run. New reference; NULL when memory is short. */
json_t *ls_alert_notice(const ls_alert_t *alert, const char *host, const char *dir,
                        const ls_monitor_sample_t *sample);
/* alert_send.c: whether curl may be given the address, and what is said of others. */
#define LS_ALERT_NO_URL                                                                                      \
  "an address that begins with http:// or https:// was expected, or env:NAME or file:PATH that has one"
bool ls_alert_is_url(const char *text);
/* Whether the rule's receivers can be known now. False: `why`. */
bool ls_alert_check(const ls_alert_rule_t *rule, char *why, size_t why_bytes);
/* Gives the notice to all that the rule names, each for at most 10 s. False: `why` says what failed. */
bool ls_alert_send(const ls_alert_rule_t *rule, const json_t *notice, char *why, size_t why_bytes);

/* A thread that sends notices in turn, so that nobody waits for a receiver. */
typedef struct ls_alert_post ls_alert_post_t;
typedef void (*ls_alert_failed_fn)(void *user, const ls_alert_rule_t *rule,
                                   const char *why); /* of that thread */
ls_status_t ls_alert_post_open(ls_ctx_t *ctx, ls_alert_failed_fn failed, void *user, ls_alert_post_t **post);
/* Takes the reference; the rule is borrowed until close. Never waits. */
void ls_alert_post_put(ls_alert_post_t *post, const ls_alert_rule_t *rule, json_t *notice);
/* Begins to send nothing more than 10 s from now; the rest fails. NULL: nothing. */
void ls_alert_post_close(ls_alert_post_t *post);

#endif
