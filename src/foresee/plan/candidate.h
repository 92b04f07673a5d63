/* The life of one candidate: lowered, fitted, timed if needed, priced. Inside the plan module. */
#ifndef LS_PLAN_CANDIDATE_H
#define LS_PLAN_CANDIDATE_H

#include "plan/cost.h"
#include "plan/plan.h"
#include "train/memory.h"

/* How often a plan times a candidate at most. */
enum { LS_TIMING_ROUNDS = 6 };

/* Factors on the profile's times, to price possible purchases; all 1: as measured. */
typedef struct {
  double compute, exchange, input; /* ops; collectives; copies and filling of inputs */
} ls_scale_t;

/* A step that this plan has timed. */
typedef struct ls_timed ls_timed_t;

/* The state of a plan, shared by all candidates. */
typedef struct {
  ls_ctx_t *ctx;
  const ls_config_t *config;
  ls_profile_t *profile;
  const ls_backend_t *backend;
  int devices;               /* that are here */
  int64_t memory_bytes;      /* of a device; of a host all ranks' together; 0 = not known */
  int64_t host_memory_bytes; /* if devices have memory of their own; 0 = not known */
  ls_train_data_size_t data;
  int64_t data_rows;    /* of the data, both parts; 0 = not known */
  int64_t work_bytes;   /* of one thread that decodes samples for each batch */
  double input_ns;      /* of one thread for a sample that is decoded for its batch; 0: none is */
  int64_t eval_samples; /* that are evaluated */
  bool evaluates;       /* on a host: some are, so a timing's process evaluates too */
  int64_t deadline_ns;  /* when timing has to end */
  int64_t window_ns;    /* of one timing */
  ls_arena_t *arena;
  int timed;
  bool any_known;          /* a timing is there: what is late is left out */
  bool searching;          /* for a crossover: less often timed */
  double flops_per_ns;     /* of the fastest priced candidate's rank; 0: not known */
  int64_t free_bytes;      /* that the host has left where ranks are timed in its memory; < 0: not known */
  bool fresh;              /* times from earlier plans are measured again */
  int cpus;                /* that the ranks of this machine share */
  bool replay;             /* the plan is for another machine: times come from its profile's rates */
  int64_t process_bytes;   /* of the first candidate that was timed; 0: none was */
  const ls_scale_t *scale; /* NULL: none */
  ls_timed_t *timings;     /* in the arena */
} ls_planner_t;

/* A candidate with so many devices and the configuration's own options, nothing computed yet. strategy NULL:
 * the default for so many devices. */
ls_candidate_t ls_candidate_make(const ls_planner_t *p, int devices, const ls_strategy_t *strategy);
/* Sets the name of its timings, by ls_cost_family. */
ls_status_t ls_candidate_name(const ls_planner_t *p, ls_candidate_t *c);
/* Rank 0's program. Sets rows, data_rows, schedule, cut, collectives and fit. */
ls_status_t ls_candidate_lower(const ls_planner_t *p, ls_candidate_t *c, ls_program_t *program);
/* Doubles the micro-batches until a rank's memory suffices. And what ls_candidate_lower does. */
ls_status_t ls_candidate_fit(const ls_planner_t *p, ls_candidate_t *c);
/* Its memory by what the profile says now, after ls_candidate_fit: sets process_bytes, library_bytes, margin_bytes,
 * device_bytes, fits. */
ls_status_t ls_candidate_memory(const ls_planner_t *p, ls_candidate_t *c);
/* Times the candidate's step if the profile does not have it (or `fresh`, or it is marked as busy), or if it
 * was timed for this candidate before (then both count), as far as the deadline allows. */
ls_status_t ls_candidate_time(ls_planner_t *p, ls_candidate_t *c);
/* Whether its own step can be timed here. */
bool ls_candidate_timeable(const ls_planner_t *p, const ls_candidate_t *c);
/* Fills priced, step and the fields that follow from it; `why` if it cannot be priced. */
ls_status_t ls_candidate_price(const ls_planner_t *p, ls_candidate_t *c);

/* busy.c: first remembers what this plan has timed; then, given how busy other programs were meanwhile (NAN =
 * not known), marks the timing in the profile if they disturbed it (ls_cost_busy), else removes the mark. */
ls_status_t ls_busy_note(ls_planner_t *p, const char *timing, int64_t rows);
bool ls_busy_timed(const ls_planner_t *p, const char *timing, int64_t rows);
ls_status_t ls_busy_mark(ls_planner_t *p, double others);

/* enumerate.c: fits every candidate that is worth trying, and leaves out those with the step of another. */
ls_status_t ls_plan_enumerate(const ls_planner_t *p, const ls_plan_options_t *options, ls_plan_t *plan);
/* Whether so many devices are among those asked for. */
bool ls_plan_asked_for(int n, const ls_plan_options_t *options);
/* crossover.c: the smallest global batch from which `devices` are faster than one, by pricing alone. */
ls_status_t ls_plan_crossover(ls_planner_t *p, int devices, int64_t batch_max, ls_crossover_t *crossover);
/* conclude.c: sorts priced candidates; choice, comparison with one device, costs and reasons. */
ls_status_t ls_plan_conclude(const ls_config_t *config, ls_plan_t *plan);
/* Reports why there is no choice: nothing fits (what needs least), or nothing could be priced. */
ls_status_t ls_plan_nothing_chosen(ls_ctx_t *ctx, const ls_plan_t *plan);
/* ownership.c */
void ls_plan_ownership(const ls_config_t *config, const ls_plan_t *plan, ls_ownership_t *o);
/* Hours per month by which runs with so many ns a step are longer than those with `than_ns`; NAN: not
 * known. */
double ls_plan_saved_hours(const ls_config_t *config, const ls_plan_t *plan, double step_ns, double than_ns);
/* purchase.c: fills plan->purchase from the sorted candidates. */
ls_status_t ls_plan_purchases(const ls_planner_t *p, ls_plan_t *plan);
/* replay.c: the candidate's step as the profile's rates make it, kept like a timing. LS_ERR_NOT_FOUND
 * (unreported): the profile has no rates of this kind of device. */
ls_status_t ls_replay_time(const ls_planner_t *p, const ls_candidate_t *c);

#endif
