/* The configuration of a run: the sections that each module describes, put together. This room reads them from a
 * document, checks them, compares them with a checkpoint's, and writes them. It is the struct behind the public ls_config_t. */
#ifndef LS_CONFIG_CONFIG_H
#define LS_CONFIG_CONFIG_H

#include "data/data.h"
#include "engine/engine.h"
#include "model/model.h"
#include "monitor/monitor.h"
#include "optim/optim.h"
#include "strategy/strategy.h"
#include "supervise/safety.h"
#include "supervise/supervise.h"
#include <lockstep/config.h>

/* Section train. Exactly one of epochs and steps is given. */
enum { LS_ACCUMULATE_MAX = 1 << 16 }; /* micro-batches of a step: what is counted, not what is built */

typedef struct {
  int64_t batch; /* global */
  int64_t epochs, steps;
  const ls_place_t
      *replaced; /* no option: of the one in the file that --set replaced by the other; NULL: none */
  int64_t seed;
  int precision; /* ls_math_t */
  bool strict_sums;
  int64_t accumulate; /* at most LS_ACCUMULATE_MAX */
  bool smaller;       /* no option: for safety, accumulate is twice what was configured */
  double clip_norm;
  int64_t max_skipped;
  int64_t past_step;      /* 0: nothing is left out */
  int64_t replica_steps;  /* 0 = replicas are not compared */
  int64_t evaluate_every; /* epochs; 0 = only before and after */
  int64_t patience;       /* evaluations; 0 = never stops early */
  ls_strings_t metrics;
  const char *best;
  int metric[LS_SCORES_MAX], figure; /* of the two: indices of ls_scores */
} ls_train_config_t;

/* Section train.checkpoint. */
typedef struct {
  const char *dir;     /* NULL: nothing is saved */
  int64_t every_steps; /* < 0: as often as pays */
  double failure_hours;
  bool beside;
  int64_t keep;
  ls_place_t dir_place; /* where dir was written */
} ls_checkpoint_config_t;

/* Section parallel. */
typedef struct {
  const char *strategy; /* where none was written: what so many ranks use */
  int64_t ranks;
  const char *backend, *transport;
  int64_t threads;               /* per rank; 0 = cores of the node / ranks on it */
  ls_strategy_options_t options; /* ls_config_strategy completes them */
  bool reproducible;
  int wire;       /* dtype of gradients between ranks, by ls_wire_names */
  int64_t shards; /* of a reproducible step; a power of two */
  bool fuse;
  bool bind;
  double deadline_s;
  double predicted_us; /* step time that a plan predicted; 0 = none */
  bool automatic;      /* strategy was "auto": it then holds the default, in case there is no plan */
  bool usual;          /* no strategy was named (or "auto"): a world of another size takes its own */
  ls_hosts_config_t hosts;
  const char *remote_shell; /* NULL: what this host uses */
  const void *own[LS_STRATEGY_MAX +
                  1]; /* what each strategy's own section says, in the list's order; NULL: has none */
} ls_parallel_config_t;

/* Section cost: what devices, energy and waiting cost. 0 = not given. */
typedef struct {
  const char *currency;
  double device_price, device_hour, power_w, price_kwh;
  double engineer_hour, overhead_month, trainings_per_month, amortize_months;
  double link_price, host_price;                   /* a link twice as fast; memory and storage of the host */
  double faster_device_price, faster_device_speed; /* of each device in use; times as fast */
} ls_cost_config_t;

enum { LS_CONFIG_OWN_MAX = 8 };
struct ls_config {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  ls_doc_t doc; /* that was read: places point into it */
  ls_model_config_t model;
  ls_data_config_t data;
  ls_train_config_t train;
  ls_optim_config_t optimizer;
  ls_rate_config_t rate;
  ls_prune_config_t prune;
  ls_checkpoint_config_t checkpoint;
  ls_parallel_config_t parallel;
  ls_cost_config_t cost;
  ls_monitor_config_t monitor;
  ls_safety_config_t safety;
  ls_supervise_config_t supervise;
  ls_restarts_config_t restarts;
  ls_ranks_config_t supervise_ranks;
  void *own[LS_CONFIG_OWN_MAX]; /* of registered sections, in the order of their registration */
};

/* A section that belongs to no module of the tree. Its values fill a struct of so many bytes. */
typedef struct {
  const ls_section_t *section;
  size_t bytes;
} ls_config_own_t;
/* Appends it, not copied: it is then documented, read, checked, compared and written like all others. Call it before a
 * configuration is read, from one thread. False: there are LS_CONFIG_OWN_MAX. */
bool ls_config_register(const ls_config_own_t *own);
const void *ls_config_own(const ls_config_t *config, const ls_config_own_t *own);

extern const char *const ls_wire_names[]; /* "f32", "bf16", "f16", NULL */

/* The options of the configured strategy (NULL), or of another row. */
ls_strategy_options_t ls_config_strategy(const ls_config_t *config, const ls_strategy_t *strategy);
/* The strategy of so many ranks where none is named. */
const ls_strategy_t *ls_config_usual(const ls_config_t *config, int64_t ranks);
/* The parts of the configuration that an engine uses; it borrows them. parallel.strategy names a row. The caller adds its
 * ranks to the engine's options. */
ls_batching_t ls_config_batching(const ls_config_t *config);
ls_step_options_t ls_config_step(const ls_config_t *config);
ls_engine_options_t ls_config_engine(const ls_config_t *config);
/* Says, as information, which option of the configuration has no effect on this backend. */
void ls_config_say_unused(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend);

enum { LS_CONFIG_SETS_MAX = 64 /* that the program takes from its command line */ };

/* A source of a configuration, with what ls_config_load and ls_config_parse do not offer. */
typedef struct {
  const char *name;      /* the file; or, with `text`, what messages call it */
  const char *text;      /* NULL: the file is read */
  size_t size_bytes;     /* of the text */
  const char *data_root; /* where relative paths of the file's data section start; NULL: as in its others */
  const char *env;       /* the chosen environment (ls_doc_layer); NULL: none */
  bool env_needed;
  const char *over, *over_name; /* a map (YAML) over all of it, and its file in messages; NULL: none */
} ls_config_source_t;
ls_status_t ls_config_read(ls_ctx_t *ctx, const ls_config_source_t *source, const char *const *sets,
                           int set_count, ls_config_t **config);

/* The resolved configuration as JSON (new reference; NULL when memory is short). */
json_t *ls_config_json(const ls_config_t *config);
/* [{option, value, from}] for every option; from: "FILE:LINE", LS_DOC_SET_FILE or "default". New reference; NULL when memory
 * is short. */
json_t *ls_config_resolved(const ls_config_t *config);
#define LS_CONFIG_NAME "config.json" /* the resolved configuration in a run's directory */

/* All sections but those of layers (ls_layer_section_at), NULL after the last, and rules for the whole file. The reference,
 * the manual page and completion are made from them. */
const ls_section_t *ls_config_section(int index);
extern const char ls_config_file_help[];

/* An option that a plan chooses, with its value in a configuration. */
typedef struct {
  const ls_section_t *section;
  const ls_option_t *row;
  const void *of; /* the section's struct in the configuration; borrowed */
  bool tunes;     /* how ranks work, not which ones there are */
} ls_setting_t;
/* One after the other: rows with .plan, then all rows of the strategy's own section. False after the last. Configurations
 * with the same strategy have the same rows. */
bool ls_config_setting(const ls_config_t *config, int index, ls_setting_t *setting);
/* The settings that tune, by name (new reference; NULL when memory is short). */
json_t *ls_config_tuned_json(const ls_config_t *config);

/* Refusals that depend on how a run is started: section safety without records to judge; more ranks that must be left than
 * there are, which only a supervised run minds. LS_ERR_CONFIG at the place. Local. */
ls_status_t ls_config_safety_check(ls_ctx_t *ctx, const ls_config_t *config);
ls_status_t ls_config_least_check(ls_ctx_t *ctx, const ls_config_t *config);

#endif
