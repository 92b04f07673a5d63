/* Makes a cost model of one candidate from a profile. Times are kept per family (the timing key): everything on
 * which a step's task times depend, except the number of rows. Inside the plan module. */
#ifndef LS_PLAN_COST_H
#define LS_PLAN_COST_H

#include "comm/transport.h"
#include "plan/plan.h"
#include "plan/price.h"
#include "plan/timing.h"

typedef struct {
  const ls_profile_t *profile;
  const ls_backend_t *backend;
  char transport[LS_TRANSPORT_KEY_BYTES]; /* its key */
  int ranks, threads;
  char family[LS_FAMILY_BYTES], timing[LS_FAMILY_BYTES];
  double rows;
  double contention_compute, contention_memory; /* factors >= 1 while the other ranks compute too */
  double memory_ns_per_byte;                    /* of one rank; 0 = not known */
  int64_t rank_bytes;                           /* that a step works on */
  int64_t cache_bytes;                          /* of one rank's share; 0 = not known */
  bool interpolated;                            /* out: a time came from other numbers of rows */
  const char *missing;                          /* out: the key that is not there */
  char key[LS_PROFILE_KEY_BYTES];
} ls_cost_t;

/* Time of a collective of `bytes` by the profile's curve for so many ranks; without one, interpolated between
 * the next fewer and the next more (less than twice as many). False: these are missing, too. */
bool ls_cost_collective(const ls_profile_t *profile, const char *kind, const char *transport, int ranks,
                        double bytes, ls_time_t *time);
/* Whether the ranks are timed together, and so with their exchange. */
bool ls_cost_together(const ls_backend_t *backend, int ranks);
/* The processors that a rank may use when `ranks` share this machine; 0 = all. */
int ls_cost_cpus(const ls_backend_t *backend, int ranks);
/* The name of the timings of a step: everything on which its times depend, except the number of rows and the cut of what
 * is exchanged. `config` is a candidate's, or says the strategy, ranks and threads, and whether the data stay on the device. */
ls_status_t ls_cost_family(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend,
                           char family[LS_FAMILY_BYTES]);
/* The name of a candidate's timing: its family, and of ranks that exchange also the cut of what they exchange. */
void ls_cost_timing(const ls_backend_t *backend, const ls_candidate_t *candidate,
                    char timing[LS_FAMILY_BYTES]);
/* Whether exactly this many rows were timed; `well`: as often as a plan's own candidates are. */
bool ls_cost_known(const ls_profile_t *profile, const char *timing, int64_t rows, bool well);
/* The share of the processors that other programs took when so many rows were timed; 0 = no disturbance. */
double ls_cost_busy(const ls_profile_t *profile, const char *timing, int64_t rows);
/* A timed step of so many rows: its median and its mean (ls_timing_summary), between timed numbers of rows on a line.
 * mean may be NULL. False: there is none. */
bool ls_cost_step(const ls_profile_t *profile, const char *timing, double rows, ls_time_t *median,
                  ls_time_t *mean, bool *exact);
/* Stores the times of a timing's tasks, under the family and (for other uses) under the ops' own keys. */
ls_status_t ls_cost_keep_tasks(ls_ctx_t *ctx, ls_profile_t *profile, const char *family,
                               const ls_backend_t *backend, int ranks, int threads,
                               const ls_timing_t *timing);
/* Stores what all blocks of a timing say about its step. */
ls_status_t ls_cost_keep_step(ls_ctx_t *ctx, ls_profile_t *profile, const char *timing, int64_t rows,
                              const ls_timing_block_t *block, int blocks, bool well);
/* Bytes that the process of a timing took (ls_timing_t). 0: so many rows were not timed, or the system does not say. */
int64_t ls_cost_process_bytes(const ls_profile_t *profile, const char *family, int64_t rows);
ls_status_t ls_cost_keep_process_bytes(ls_profile_t *profile, const char *family, int64_t rows,
                                       int64_t bytes);

/* The model borrows `cost`. LS_ERR_NOT_FOUND (unreported): the step's overhead is not known. */
ls_status_t ls_cost_model(ls_cost_t *cost, ls_cost_model_t *model);
/* The time that a rank waits for the slowest one, because steps vary, where ranks were timed alone; else 0. */
double ls_cost_skew_ns(const ls_cost_t *cost);
/* How far a run's median is from what was timed (a part of it, at 90 %), beyond what the blocks show. exact: this step was
 * timed, not one like it. */
double ls_cost_error(bool exact);

#endif
