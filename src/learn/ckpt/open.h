/* An open checkpoint: its files, and the position of every tensor in them. Inside view of opening and
 * reading. */
#ifndef LS_CKPT_OPEN_H
#define LS_CKPT_OPEN_H

#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

enum { LS_CKPT_CHUNK_BYTES = 1 << 16 };

/* A safetensors file; fd -1: a listed file that holds no tensors. */
typedef struct {
  const char *path; /* arena */
  int fd;
  size_t header_bytes; /* length and JSON: where the data begin */
  uint64_t size_bytes;
  char xxh3_128[LS_HASH_TEXT_BYTES]; /* "" = not known */
  bool sealed;                       /* it has its own hash, too */
  ls_safetensors_entry_t *entries;   /* arena, file order */
  int count;
} ls_ckpt_file_t;

/* Elements of a flattened tensor, in a file. */
typedef struct {
  int file;
  uint64_t offset_bytes; /* from the begin of the file */
  ls_range_t range;
} ls_ckpt_piece_t;

/* A tensor, in one file or several. */
typedef struct {
  const char *name;
  ls_shape_t shape;
  int piece_count;
  ls_ckpt_piece_t *piece; /* ascending; together the whole */
} ls_ckpt_source_t;

struct ls_ckpt {
  ls_arena_t arena;
  const char *path;
  const char *seal; /* seal of the manifest that another rank has verified; NULL: this rank verifies */
  ls_manifest_t manifest;
  ls_ckpt_file_t *file; /* arena */
  int file_count;
  struct {
    const char *path; /* of its file of whole tensors; NULL: there is none */
    ls_ckpt_source_t *source;
    int count;
  } part[LS_PART_COUNT];
};

/* Opens a checkpoint that another rank has opened and verified: the manifest must have that seal; sizes and
 * formats are checked, bytes are not hashed. */
ls_status_t ls_ckpt_open_verified(ls_ctx_t *ctx, const char *path, const char *seal, ls_ckpt_t **ckpt);

/* sources.c: combines files and manifest. LS_ERR_CORRUPT names file and tensor if they contradict each
 * other. */
ls_status_t ls_ckpt_find_sources(ls_ctx_t *ctx, ls_ckpt_t *ckpt);

/* match.c: maps each tensor of a checkpoint to a wanted tensor. (*to)[i] is that of source i; in the arena.
 * LS_ERR_MISMATCH names the first differences: missing, additional, other type or shape. */
ls_status_t ls_ckpt_match(ls_ctx_t *ctx, ls_arena_t *arena, const char *file, const ls_ckpt_source_t *sources,
                          int source_count, const ls_ckpt_tensor_t *want, int want_count,
                          const ls_ckpt_tensor_t ***to);

/* ---- reading with a running hash ---- */

typedef struct {
  ls_ctx_t *ctx;
  const char *path;
  int fd;
  uint64_t offset_bytes;
  XXH3_state_t *hash;
} ls_ckpt_reader_t;

ls_status_t ls_ckpt_reader_open(ls_ckpt_reader_t *r, ls_ctx_t *ctx, const char *path, int fd);
void ls_ckpt_reader_close(ls_ckpt_reader_t *r);
/* The next `size` bytes, in pieces that are hashed while they are in cache. */
ls_status_t ls_ckpt_reader_get(ls_ckpt_reader_t *r, void *to, size_t size);
ls_status_t ls_ckpt_reader_skip(ls_ckpt_reader_t *r, uint64_t size);
/* `by`: who says `expected`, for the message. */
ls_status_t ls_ckpt_reader_compare(const ls_ckpt_reader_t *r, const char *expected, const char *by);

#endif
