/* Maps each tensor of a checkpoint to a wanted tensor. */
#ifndef LS_CKPT_MATCH_H
#define LS_CKPT_MATCH_H

#include "ckpt/open.h"
#include "ckpt/store.h"

/* (*to)[i] is the wanted tensor of source i; in the arena. LS_ERR_MISMATCH names the first differences:
 * missing, additional, other type or shape. */
ls_status_t ls_ckpt_match(ls_ctx_t *ctx, ls_arena_t *arena, const char *file, const ls_ckpt_source_t *sources,
                          int source_count, const ls_ckpt_tensor_t *want, int want_count,
                          const ls_ckpt_tensor_t ***to);

#endif
