/* Makes the faults of supervise/inject.h happen to supervised runs of a configuration, at ranks and steps that a seed
 * chooses, and compares what comes out with an undisturbed run. Every run is this program's train, with a resolved
 * configuration as a file. */
#ifndef LS_CHAOS_CHAOS_H
#define LS_CHAOS_CHAOS_H

#include "config/config.h"
#include "supervise/inject.h"

/* The runs of one kind. Times are seconds after the fault, median and longest; NAN = no run had one. */
typedef struct {
  const ls_inject_kind_t *kind;
  int runs, same, named; /* with the undisturbed run's bits; whose cause the supervisor named */
  double noticed_s[2], again_s[2];
} ls_chaos_row_t;

typedef struct {
  const ls_config_t *config; /* of the runs, with their number of ranks */
  const char *name;          /* of the configuration, for the document */
  const char *kinds;         /* names, separated by commas; NULL: all that fit the configuration */
  int64_t seeds, first_seed; /* runs of each kind */
  const char *dir;           /* folder of the runs */
  bool keep;                 /* leave there what they wrote: KIND-SEED */
  int (*stop)(void);         /* not 0: end now */
  void (*begin)(void *user, int64_t steps); /* after the undisturbed run; NULL: nobody looks, as the next */
  void (*row)(void *user, const ls_chaos_row_t *row); /* after each kind */
  void *user;
} ls_chaos_t;

/* Before anything runs: LS_ERR_ARGUMENT for a name that there is not or that cannot happen to such a run, LS_ERR_CONFIG
 * where the strategy may change. */
ls_status_t ls_chaos_check(ls_ctx_t *ctx, const ls_chaos_t *chaos);
/* The document: config, ranks, steps, runs, right, kinds [{kind, runs, same_bits, cause_named, outcomes}]. *document: new
 * reference. LS_ERR_CONFIG: the undisturbed run fails, or is too short. LS_ERR_INTERRUPTED without a message: stopped. */
ls_status_t ls_chaos_run(ls_ctx_t *ctx, const ls_chaos_t *chaos, json_t **document);

#endif
