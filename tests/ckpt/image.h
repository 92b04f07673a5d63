/* Whole safetensors files in memory, made of the header that the module writes and parses. */
#ifndef TESTS_CKPT_IMAGE_H
#define TESTS_CKPT_IMAGE_H

#include "ckpt/safetensors.h"

/* The bytes of a file (ls_free). Its data begin at a multiple of 4096. */
ls_status_t image_write(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensors, int count, char **bytes,
                        size_t *size_bytes);
/* The tensors of a file: their data point into `bytes`, their names are in `arena`. */
ls_status_t image_read(ls_ctx_t *ctx, ls_arena_t *arena, const char *name, char *bytes, size_t size_bytes,
                       ls_ckpt_tensor_t **tensors, int *count);

#endif
