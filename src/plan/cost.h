/* From a profile to a cost model of one candidate. What was timed is kept by family: everything that a step's
 * task times depend on but the number of rows. Inside of the plan module. */
#ifndef LS_PLAN_COST_H
#define LS_PLAN_COST_H

#include "comm/transport.h"
#include "plan/timing.h"
#include "schedule/price.h"

enum { LS_FAMILY_BYTES = 64 };

typedef struct {
  const ls_profile_t *profile;
  const ls_backend_t *backend;
  char transport[LS_TRANSPORT_KEY_BYTES]; /* its key */
  int ranks, threads;
  char family[LS_FAMILY_BYTES];
  double rows;
  double crowd_compute, crowd_memory; /* factors >= 1 while the other ranks compute too */
  double exchange;                    /* out: how long a collective takes in this step, by its curve's time */
  double memory_ns_per_byte;          /* of one rank; 0 = not known */
  int64_t rank_bytes;                 /* that a step works on */
  int64_t cache_bytes;                /* of one rank's share; 0 = not known */
  bool interpolated;                  /* out: a time came from other rows */
  const char *missing;                /* out: the key that is not there */
  char key[LS_PROFILE_KEY_BYTES];
} ls_cost_t;

/* A collective of `bytes` by the profile's curve of so many ranks; between those of fewer and of more (less
 * than twice as many) where it has none. False: nor does it have those. */
bool ls_cost_collective(const ls_profile_t *profile, const char *kind, const char *transport, int ranks,
                        double bytes, ls_time_t *time);
/* Whether the ranks are timed together. */
bool ls_cost_beside(const ls_backend_t *backend, int ranks);
/* The processors that a rank may use when `ranks` share this machine; 0 = all. */
int ls_cost_cpus(const ls_backend_t *backend, int ranks);
/* `config` as ls_plan_config makes it: it says whether the data stay on the device. */
ls_status_t ls_cost_family(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend, int ranks,
                           int threads, char family[LS_FAMILY_BYTES]);
/* Whether exactly this many rows were timed; `well`: as often as a plan's own candidates are. */
bool ls_cost_known(const ls_profile_t *profile, const char *family, int64_t rows, bool well);
/* The share of the processors that other programs took when so many rows were timed; 0 = they did not
 * disturb.
 */
double ls_cost_busy(const ls_profile_t *profile, const char *family, int64_t rows);
/* How long all ranks' step took when so many rows were timed; NAN: they were not. */
double ls_cost_period_ns(const ls_profile_t *profile, const char *family, int64_t rows);
/* What a whole step of so many rows takes by what was timed so far; NAN: nothing was. */
double ls_cost_step_ns(const ls_profile_t *profile, const char *family, int64_t rows);
/* Keeps what was timed, under the family and (for other uses) under the ops' own keys. */
ls_status_t ls_cost_keep(ls_ctx_t *ctx, ls_profile_t *profile, const char *family,
                         const ls_backend_t *backend, int threads, const ls_timing_t *timing, bool well);

/* What a step with its exchange took, against what the model says of it: by this the collectives' times of
 * the family are corrected (by 1 to 2.5), and what remains is added to the step. `cost`
 * as for a price of timing's schedule. Nothing is kept when the profile has no curve for the collectives, or
 * when something shorter is kept and is not to be replaced. */
ls_status_t ls_cost_keep_exchange(ls_ctx_t *ctx, ls_profile_t *profile, ls_cost_t *cost,
                                  const ls_timing_t *timing, bool replace);

/* The model borrows `cost`. LS_ERR_NOT_FOUND (unreported): the step's overhead is not known. */
ls_status_t ls_cost_model(ls_cost_t *cost, ls_cost_model_t *model);
/* A rank's own variation from step to step makes all wait for the slowest: what that adds. Measured where
 * ranks were timed together, else from the rank's own variation. */
double ls_cost_skew_ns(const ls_cost_t *cost);

#endif
