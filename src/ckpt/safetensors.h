/* The safetensors format, in memory. Reader limits: header at most 100,000,000 bytes, no holes, no overlap, exact
 * file length. Source: the format's public specification. */
#ifndef LS_CKPT_SAFETENSORS_H
#define LS_CKPT_SAFETENSORS_H

#include "ckpt/ckpt.h"

/* Serialised file image (ls_free). Data begins at a multiple of 4096. */
ls_status_t ls_safetensors_write(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensors, int count, char **bytes,
                                 size_t *size_bytes);
/* Tensors of a file image; their data point into `bytes`. Names are in `arena`. LS_ERR_CORRUPT names the fault. */
ls_status_t ls_safetensors_read(ls_ctx_t *ctx, ls_arena_t *arena, const char *name, char *bytes, size_t size_bytes,
                                ls_ckpt_tensor_t **tensors, int *count);

#endif
