/* The programs of all ranks of a configuration in one process, without devices or memory: inspect shows them, check proves
 * them. */
#ifndef LS_PLAN_WORLD_H
#define LS_PLAN_WORLD_H

#include "model/summary.h"
#include "plan/plan.h"

typedef struct {
  int world_size;
  ls_engine_share_t share; /* rank 0's */
  const char *backend;     /* as "auto" resolves here */
  bool exact;              /* else the data could not be read, and their samples count as f32 */
  ls_graph_t **graph;      /* one per rank */
  ls_program_t *program;
} ls_plan_world_t;

/* Lowers the configuration for its ranks, and checks every program and their agreement. `data`: borrowed; NULL: they are
 * read if the schedule, or the dtype of samples, depends on them. */
ls_status_t ls_plan_world_create(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data,
                                 ls_plan_world_t *world);
/* The document of lockstep inspect. New reference; NULL when memory is short. */
json_t *ls_plan_world_json(const ls_plan_world_t *world, const ls_config_t *config,
                           const ls_model_summary_t *layers);
void ls_plan_world_release(ls_plan_world_t *world);

/* Counts the samples of the configuration's data into `options`, and times how they are read; sets config->model.dtype.
 * Synthetic data are not made. Local. */
ls_status_t ls_plan_count_samples(ls_ctx_t *ctx, ls_config_t *config, ls_plan_options_t *options);

#endif
