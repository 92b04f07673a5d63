/* The manifest of a checkpoint: what belongs to it, how large it is, what its bytes hash to, and where the
 * training stood. It is written last, so a directory with a good manifest is a whole checkpoint. Its own last
 * member is the hash of every byte before it, so that an altered manifest is noticed too. */
#ifndef LS_CKPT_MANIFEST_H
#define LS_CKPT_MANIFEST_H

#include "ckpt/ckpt.h"
#include <xxhash.h>

#define LS_MANIFEST_NAME "manifest.json"
#define LS_MODEL_NAME    "model.safetensors"
#define LS_OPTIM_NAME    "optim.safetensors"

enum {
  LS_MANIFEST_VERSION = 1,
  LS_MANIFEST_FILES_MAX = 16,
  LS_MANIFEST_NAME_BYTES = 64,
  LS_MANIFEST_LIMIT_BYTES = 64 << 20,
  LS_MANIFEST_SEAL_BYTES = 62, /* the last member with its hash, and the closing brace */
  LS_HASH_TEXT_BYTES = 33      /* 32 hex digits, most significant first, and NUL */
};

typedef struct {
  char name[LS_MANIFEST_NAME_BYTES]; /* a plain file name: no slash, no leading dot */
  int64_t size_bytes;
  char xxh3_128[LS_HASH_TEXT_BYTES];
} ls_manifest_file_t;

typedef struct {
  int64_t step;
  double metric; /* NAN = unknown */
  int file_count;
  ls_manifest_file_t file[LS_MANIFEST_FILES_MAX];
  json_t *meta; /* an object, owned; only in a manifest that was read */
} ls_manifest_t;

/* Text of the file (ls_free) with `meta` (an object, borrowed; NULL is written as {}). */
ls_status_t ls_manifest_write(ls_ctx_t *ctx, const ls_manifest_t *manifest, const json_t *meta, char **text,
                              size_t *size_bytes);
/* Strict: every key, type and range is checked, then the hash. LS_ERR_CORRUPT says what is wrong after
 * `name`. */
ls_status_t ls_manifest_read(ls_ctx_t *ctx, const char *name, const char *text, size_t size_bytes,
                             ls_manifest_t *manifest);
void ls_manifest_release(ls_manifest_t *manifest); /* of a read manifest */

const ls_manifest_file_t *ls_manifest_file(const ls_manifest_t *manifest,
                                           const char *name); /* NULL: not listed */

/* What follows the text of a manifest (all of it but its closing "\n}"). */
void ls_manifest_seal(const char *text, size_t size_bytes, char seal[LS_MANIFEST_SEAL_BYTES + 1]);

void ls_hash_text(XXH128_hash_t hash, char text[LS_HASH_TEXT_BYTES]);

#endif
