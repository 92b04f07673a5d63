/* The safetensors format: u64 header length, JSON header, tensor bytes; little endian. Reader limits: header
 * at most 100,000,000 bytes, no holes, no overlap, exact file length. Source: the format's public
 * specification (https://huggingface.co/docs/safetensors). Only the header is made and parsed here: the bytes
 * of tensors are streamed. */
#ifndef LS_CKPT_SAFETENSORS_H
#define LS_CKPT_SAFETENSORS_H

#include "ckpt/ckpt.h"

enum { LS_SAFETENSORS_LENGTH_BYTES = 8, LS_SAFETENSORS_SEAL_BYTES = 32 };

/* The bytes before the data, and the order in which the tensors' bytes follow: widest elements first, then by
 * name. `sealed`: __metadata__ has room for the seal (below). One block (ls_free). Errors: LS_ERR_ARGUMENT
 * for names that are empty, not printable ASCII or given twice. */
typedef struct {
  size_t header_bytes;             /* a multiple of 4096 */
  size_t data_bytes;               /* of all tensors */
  char *header;                    /* length, JSON, spaces */
  char *seal;                      /* of the header, zeros so far; NULL: not sealed */
  const ls_ckpt_tensor_t *order[]; /* (count) borrowed from the caller */
} ls_safetensors_layout_t;
ls_status_t ls_safetensors_layout(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensors, int count, bool sealed,
                                  ls_safetensors_layout_t **layout);

/* {"dtype": .., "shape": ..} of one tensor, parsed strictly: the dtype is known, the dimensions are whole
 * numbers, and the bytes that they need do not overflow. LS_ERR_CORRUPT names file and tensor. */
ls_status_t ls_safetensors_shape(ls_ctx_t *ctx, const char *file, const char *tensor, const json_t *object,
                                 ls_shape_t *shape, uint64_t *size_bytes);

/* One tensor of a file. */
typedef struct {
  const char *name; /* in the arena */
  ls_shape_t shape;
  uint64_t offset_bytes; /* from the begin of the data */
  uint64_t size_bytes;
} ls_safetensors_entry_t;

/* Length of the JSON header from the first 8 bytes of a file of `file_bytes`, checked. */
ls_status_t ls_safetensors_length(ls_ctx_t *ctx, const char *name, const void *first, uint64_t file_bytes,
                                  size_t *json_bytes);
/* Parses the JSON header; `data_bytes` is what follows it in the file. Entries come in file order. */
ls_status_t ls_safetensors_header(ls_ctx_t *ctx, ls_arena_t *arena, const char *name, const char *json,
                                  size_t json_bytes, uint64_t data_bytes, ls_safetensors_entry_t **entries,
                                  int *count);
/* The digits of the seal in a JSON header; NULL: the file has none. The seal is the XXH3-128 of the whole file with
 * zeros in the place of these digits. */
char *ls_safetensors_seal(char *json, size_t json_bytes);

#endif
