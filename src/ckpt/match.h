/* Which memory each tensor of a file is wanted in. */
#ifndef LS_CKPT_MATCH_H
#define LS_CKPT_MATCH_H

#include "ckpt/safetensors.h"
#include "ckpt/store.h"

/* (*to)[i] is where entry i goes; in the arena. LS_ERR_MISMATCH names the first differences: missing,
 * further, other type or shape. */
ls_status_t ls_ckpt_match(ls_ctx_t *ctx, ls_arena_t *arena, const char *file,
                          const ls_safetensors_entry_t *entries, int entry_count,
                          const ls_ckpt_tensor_t *want, int want_count, void ***to);

#endif
