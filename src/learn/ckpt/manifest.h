/* The manifest of a checkpoint: its files with sizes and hashes, the file of each piece of a tensor, and the
 * position of the training. It is written last, so a directory with a good manifest is a whole checkpoint.
 * Its last member is the hash of every byte before it, so an altered manifest is detected too. */
#ifndef LS_CKPT_MANIFEST_H
#define LS_CKPT_MANIFEST_H

#include "ckpt/ckpt.h"
#include <xxhash.h>

#define LS_MANIFEST_NAME "manifest.json"
#define LS_MODEL_NAME    "model.safetensors"
#define LS_OPTIM_NAME    "optim.safetensors"

enum {
  LS_MANIFEST_VERSION = 1,        /* every tensor is whole, in one of the two files above */
  LS_MANIFEST_VERSION_PIECES = 2, /* "tensors" lists those that are not */
  LS_MANIFEST_FILES_MAX = 1 << 14,
  LS_MANIFEST_NAME_BYTES = 64,
  LS_MANIFEST_LIMIT_BYTES = 64 << 20,
  LS_MANIFEST_SEAL_BYTES = 62, /* the last member with its hash, and the closing brace */
  LS_HASH_TEXT_BYTES = 33      /* 32 hex digits, most significant first, and NUL */
};

typedef struct ls_manifest_file {
  char name[LS_MANIFEST_NAME_BYTES]; /* a plain file name: no slash, no leading dot */
  int64_t size_bytes;
  char xxh3_128[LS_HASH_TEXT_BYTES];
  bool pieces; /* of tensors: some piece is in it */
} ls_manifest_file_t;

/* A piece of a tensor. A file stores its pieces of one tensor one after the other, as one flat tensor of that
 * name. */
typedef struct {
  int file; /* index */
  ls_range_t range;
} ls_manifest_piece_t;

typedef enum { LS_PART_MODEL, LS_PART_OPTIM, LS_PART_COUNT } ls_ckpt_part_t;

typedef struct {
  const char *name;
  ls_ckpt_part_t part;
  ls_shape_t shape;
  int piece_count;
  ls_manifest_piece_t *piece; /* ascending; together the whole */
} ls_manifest_tensor_t;

typedef struct ls_manifest {
  int64_t step;
  double metric; /* NAN = unknown */
  int file_count;
  ls_manifest_file_t *file;
  int tensor_count; /* of those in pieces */
  ls_manifest_tensor_t *tensor;
  ls_arena_t arena;              /* of files and tensors */
  json_t *meta;                  /* an object, owned; only in a manifest that was read */
  char seal[LS_HASH_TEXT_BYTES]; /* the hash of its text; likewise */
} ls_manifest_t;

/* Text of the file (ls_free) with `meta` (an object, borrowed; NULL is written as {}). */
ls_status_t ls_manifest_write(ls_ctx_t *ctx, const ls_manifest_t *manifest, const json_t *meta, char **text,
                              size_t *size_bytes);
/* Strict: checks every key, type and range, that pieces cover their tensors, then the hash. LS_ERR_CORRUPT
 * names the fault after `name`. */
ls_status_t ls_manifest_read(ls_ctx_t *ctx, const char *name, const char *text, size_t size_bytes,
                             ls_manifest_t *manifest);
void ls_manifest_release(ls_manifest_t *manifest);

/* "model", and its file of whole tensors. */
extern const struct ls_ckpt_part_row { const char *name, *file; } ls_ckpt_parts[LS_PART_COUNT];

/* manifest_tensors.c: the member "tensors". NULL when memory is short. */
json_t *ls_manifest_tensors_json(const ls_manifest_t *manifest);
/* Read after the files, which it marks; files: their indices by name. Strict; LS_ERR_CORRUPT names the manifest
 * (`name`) and the tensor. */
ls_status_t ls_manifest_tensors_parse(ls_ctx_t *ctx, const char *name, const json_t *list,
                                      const json_t *files, ls_manifest_t *manifest);

/* Finishes the text of a manifest (all of it but its closing "\n}"). */
void ls_manifest_seal(const char *text, size_t size_bytes, char seal[LS_MANIFEST_SEAL_BYTES + 1]);

void ls_hash_text(XXH128_hash_t hash, char text[LS_HASH_TEXT_BYTES]);

#endif
