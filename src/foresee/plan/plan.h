/* plan: predicts which devices, strategy and options make a step of this configuration fastest here, before
 * anything is trained. Every candidate's real schedule is built and priced (plan/price.h) with a profile
 * of this machine. Ops that the profile does not hold are timed (docs/plan.md says how) and added to it. All
 * times are predicted. */
#ifndef LS_PLAN_PLAN_H
#define LS_PLAN_PLAN_H

#include "comm/transport.h"
#include "plan/price.h"
#include "train/train.h"

enum { LS_FAMILY_BYTES = 80 };

typedef struct {
  ls_config_t
      config; /* the plan's configuration with this candidate's values of the options that a plan chooses
                       * (ls_config_setting): a shallow copy, whose pointers the plan's own holds */
  bool host;  /* the devices are processors: threads compute. Else threads only load samples */
  const ls_transport_t *transport; /* the transport of its ranks; NULL: it has one rank, or none is known */
  uint64_t schedule;               /* identity of rank 0's program (ls_program_hash) */
  uint64_t cut;                    /* identity of what the program exchanges, whatever its rows */
  int collectives;                 /* of rank 0's program; 0: nothing is exchanged */
  double flops;                    /* of rank 0 in a step */
  char family[LS_FAMILY_BYTES];    /* name of its timings (ls_cost_family); "": not named yet */
  int64_t rows;                    /* of rank 0's micro-batch */
  int64_t data_rows;               /* samples that stay on each device; 0 = the host gathers */
  ls_fit_t fit;                    /* of rank 0, which needs the most: only the training step */
  ls_train_memory_t need;          /* of rank 0: everything that the run allocates */
  int64_t library_bytes;           /* additional memory of libraries */
  int64_t process_bytes; /* ls_plan_process_bytes of it, or of a candidate with fewer devices; 0: not known */
  int64_t margin_bytes;  /* the prediction of a host's device_bytes is sure to about so many; 0: not known */
  bool library_assumed;  /* the profile does not have it: this is an allowance, used only for `fits` */
  int64_t device_bytes;  /* of a device: need.device_bytes + library_bytes; a prediction unless assumed */
  bool timed;            /* for this plan */
  int64_t timing_ns;     /* that the last timing took */
  struct ls_timing_block *block; /* of all its timings */
  int blocks;
  bool fits;         /* into the memory of a device, and of the host */
  bool host_short;   /* it does not fit because the host's memory is too small, not a device's */
  bool priced;       /* false: `why` says what is missing, the numbers below are NAN */
  bool interpolated; /* from neighbouring batches, because the time for measuring was over */
  ls_time_t step;    /* the median of a run's steps, and the interval that holds it in 90 % of runs */
  /* The mean, tails included: what a run takes for each of its steps. Its upper bound decides the choice. The interval is
   * what the timed steps say (90 %); without timed steps of all ranks all three are the predicted step. */
  ls_time_t mean;
  double exposed_ns, parts_ns[LS_PHASE_STEP_COUNT];
  double samples_per_s;
  double speedup,
      efficiency; /* of means, against the first on one device; speedup / devices. NAN where a busy
                               * machine makes them more than there are devices */
  double epoch_s, epoch_kwh, epoch_cost; /* NAN: not known */
  const char *why;   /* why it is not the choice; of the choice, why it is not sure, or "" */
  double busy_share; /* of the processors that other programs took when its step was timed */
} ls_candidate_t;

/* Cost of ownership of more devices against one, by the study's formula (docs/plan.md). */
typedef struct {
  bool known;               /* prices were given and both were priced */
  double saved_hours_month; /* may be negative */
  double benefit_month, hardware_month, overhead_month, energy_month;
  double net_month;
  double break_even_months; /* INFINITY = never */
  int devices;
  const char *verdict;
} ls_ownership_t;

/* A possible purchase and its effect: the same schedules priced again with scaled times. */
typedef struct {
  const char *id;   /* "device", "link-2x", "link-free", "input-free", "faster-device" */
  const char *what; /* for people; owned by the plan */
  bool known;       /* false: the profile cannot tell, the numbers below are NAN */
  int devices;      /* that the step then uses */
  double step_ns;   /* mean of the candidate that is fastest then */
  double speedup;   /* the choice's step / this step; both are means */
  bool helps;       /* by more than the choice's own step is sure */
  double price;     /* in all; NAN = not given */
  double saved_hours_month, benefit_month; /* NAN: trainings_per_month is not given */
  double money_per_hour;    /* price written off in a month / hours saved in it; NAN, INFINITY */
  double break_even_months; /* INFINITY = never; NAN */
} ls_purchase_t;
enum { LS_PURCHASES = 5 };

typedef struct {
  int devices;
  int64_t batch; /* global; -1 = not up to batch_max */
  bool known;    /* false: they could not be priced at any batch */
} ls_crossover_t;

typedef struct {
  ls_arena_t arena;
  ls_config_t config; /* that was planned: a shallow copy of the caller's, which has to live */
  const char *backend, *precision;
  ls_input_times_t input; /* as in the options */
  int64_t batch, samples; /* global batch; samples of an epoch, -1 = not known */
  int64_t shards;         /* of a reproducible step, in every candidate; 0 = it is not */
  int64_t params;
  ls_candidate_t *candidate; /* fastest first, those that cannot be priced or do not fit last */
  int count;
  int choice;                  /* index, -1 = none */
  int64_t memory_bytes;        /* to be filled: of a device, of a host by all ranks; 0 = not known */
  int64_t host_memory_bytes;   /* to be filled, if devices have memory of their own; 0 = not known */
  ls_crossover_t crossover[2]; /* of two and of four devices */
  int crossover_count;
  int64_t batch_max; /* up to which was looked */
  ls_ownership_t ownership;
  ls_purchase_t purchase[LS_PURCHASES]; /* what would bring most first; 0 where nothing was chosen */
  int purchase_count;
  bool replayed; /* for a machine that is not here */
  /* static: the option that the configuration has on and every candidate off; NULL = none */
  const char *left_out;
  int timed; /* number of kinds of steps that had to be timed */
  bool profile_changed;
  double busy_share; /* the largest of the candidates' shares; not 0: the next plan times those steps again */
} ls_plan_t;

typedef struct {
  int devices_max;     /* 0 = all there are */
  const int64_t *only; /* only these numbers of devices; NULL = every one that is worth trying */
  int only_count;
  double budget_s;      /* for timing; 0 = 6 */
  bool no_crossover;    /* leave that search out */
  bool fresh;           /* repeat the timings of earlier plans */
  bool replay;          /* plan for the profile's machine instead of this one: nothing is opened or timed */
  int64_t samples;      /* of an epoch, -1 = not known */
  int64_t memory_bytes; /* of a device, of a host all ranks' together; 0 = as the profile says */
  int64_t rows;         /* of the data set with its validation part; 0 = synthetic data's, else samples */
  int64_t
      text_bytes; /* of text and images that are kept in memory; other samples are counted by their shapes */
  int64_t reading_bytes;  /* taken while the data set is read */
  int64_t work_bytes;     /* of each thread that decodes samples for each batch */
  ls_input_times_t input; /* ls_dataset_time: samples that are decoded for each batch */
  const char *stat_path;  /* how busy the processors are, instead of /proc/stat */
} ls_plan_options_t;

/* Needs no data. New timings are added to the profile (profile_changed). LS_ERR_NOT_FOUND if no candidate can
 * be priced. The caller releases the plan after LS_OK. */
ls_status_t ls_plan_make(ls_ctx_t *ctx, const ls_config_t *config, ls_profile_t *profile,
                         const ls_plan_options_t *options, ls_plan_t *plan);
void ls_plan_release(ls_plan_t *plan);

/* Memory of libraries in a rank's process, by the profile, with what this run's collectives and side stream keep on a GPU
 * (NULL: nothing). *assumed: the profile (which may be NULL) has no value for so many ranks, and a cautious allowance is
 * returned. */
int64_t ls_plan_libraries(const ls_profile_t *profile, const ls_backend_t *backend, int ranks,
                          const ls_train_memory_t *need, bool *assumed);
/* The peak of a rank on a device: its need plus *library_bytes, or, if that is more, the memory for reading files, before
 * libraries multiply. process_bytes: as ls_plan_process_bytes returns it. */
int64_t ls_plan_device_bytes(const ls_profile_t *profile, const ls_backend_t *backend, int ranks,
                             const ls_train_memory_t *need, int64_t process_bytes, int64_t *library_bytes,
                             bool *assumed);
/* Memory of a process beyond lockstep's own allocations, measured while a plan timed this step on a host. `config` is
 * a candidate's, or says the strategy, ranks and threads of a training; rows: of rank 0's micro-batch. *bytes 0: the step
 * was not timed. */
ls_status_t ls_plan_process_bytes(ls_ctx_t *ctx, const ls_config_t *config, const ls_profile_t *profile,
                                  const ls_backend_t *backend, int64_t rows, int64_t *bytes);

static inline int ls_candidate_devices(const ls_candidate_t *c) {
  return (int)c->config.parallel.ranks;
}
static inline int ls_candidate_threads(const ls_candidate_t *c) {
  return (int)c->config.parallel.threads;
}

/* rows.c: candidates as vectors of option rows. Texts are owned by the arena; NULL when memory is short. */
/* The options that say the candidate, as arguments of --set; NULL-terminated. */
const char **ls_plan_sets(ls_arena_t *arena, const ls_plan_t *plan, const ls_candidate_t *candidate);
/* "ddp, 2 devices x 1 thread", on GPUs "ddp, 2 devices, side_lane on". */
const char *ls_plan_name(ls_arena_t *arena, const ls_candidate_t *candidate);
/* ", NAME VALUE" for each option that is a choice and not at the row's first one. */
const char *ls_plan_choices(ls_arena_t *arena, const ls_candidate_t *candidate);
/* The options that tune, where candidates differ: "parallel.side_lane is off instead of on, ..". */
const char *ls_plan_difference(ls_arena_t *arena, const ls_candidate_t *candidate,
                               const ls_candidate_t *than);

#endif
