/* Whether a checkpoint belongs to a configuration: row by row, as each option's row says (ls_change_t). */
#ifndef LS_CONFIG_COMPARE_H
#define LS_CONFIG_COMPARE_H

#include "comm/comm.h"
#include "config/config.h"

/* The purpose for which the checkpoint is read. */
typedef enum {
  LS_USE_RESUME, /* continuing its run */
  LS_USE_MODEL   /* its weights alone: evaluation, prediction */
} ls_use_t;

/* Compares the resolved configuration in a checkpoint's meta data with `config`; `name` is the checkpoint's,
 * for messages. Refuses with LS_ERR_MISMATCH: all differences in one message, both sides named. Otherwise,
 * with `list`, one message of level info lists the allowed changes and the values kept from the checkpoint.
 * other_data: other data are allowed. weights_fit: the model accepts the checkpoint's weights, so a refusal
 * may recommend a new run with them. Local. */
ls_status_t ls_config_compare(ls_ctx_t *ctx, const char *name, const ls_config_t *config, const json_t *meta,
                              ls_use_t use, bool other_data, bool weights_fit, bool list);

/* Whether every rank was started with rank 0's options and `flags` (those of the command line by name; the reference is taken). Paths may differ, and what a rank may decide alone: threads, waits,
 * what watches it. LS_ERR_CONFIG on the ranks with others, which name the first. Collective. */
ls_status_t ls_config_compare_ranks(ls_ctx_t *ctx, ls_comm_t *comm, const ls_config_t *config, json_t *flags);

/* The feature columns of a checkpoint, by its meta data: as they were read, else as they were configured. Borrowed. */
json_t *ls_config_saved_columns(const json_t *meta);

#endif
