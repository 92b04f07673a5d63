/* The programs of every rank of a configuration, without devices or memory: what inspect shows and
 * check proves. */
#ifndef LS_CLI_LOWERED_H
#define LS_CLI_LOWERED_H

#include "cli/cli.h"

typedef struct {
  int world_size;
  ls_engine_share_t share; /* rank 0's */
  const char *backend;     /* as "auto" resolves here */
  bool exact;              /* else the data could not be read, and their samples count as f32 */
  ls_graph_t **graph;      /* one per rank */
  ls_program_t *program;
} cli_lowered_t;

/* Lowers the configuration for its ranks, and checks every program and their agreement. `data`: borrowed; NULL: they are
 * read if the schedule, or the dtype of samples, depends on them. */
ls_status_t cli_lowered_create(ls_ctx_t *ctx, const ls_config_t *config, const ls_dataset_t *data,
                               cli_lowered_t *lowered);
void cli_lowered_release(cli_lowered_t *lowered);

#endif
