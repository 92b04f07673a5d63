/* Opening a checkpoint: everything is verified before anything is used, by reading through the files once
 * with a small buffer; the tensors then go from the files straight to where they are wanted. The files stay
 * open in between, so a checkpoint that retention removes meanwhile can still be read. */
#include "ckpt/manifest.h"
#include "ckpt/match.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20, PART_MODEL = 0, PART_OPTIM = 1, PART_COUNT = 2 };

/* One safetensors file. */
typedef struct {
  const char *path; /* arena */
  int fd;
  size_t header_bytes; /* length and JSON: where the data begin */
  char xxh3_128[LS_HASH_TEXT_BYTES];
  ls_safetensors_entry_t *entries; /* arena, file order */
  int count;
} part_t;

struct ls_ckpt {
  ls_arena_t arena;
  const char *path;
  ls_manifest_t manifest;
  part_t part[PART_COUNT];
};

/* ---- reading with a running hash ---- */

typedef struct {
  ls_ctx_t *ctx;
  const char *path;
  int fd;
  uint64_t offset_bytes;
  XXH3_state_t *hash;
} reader_t;

static ls_status_t reader_open(reader_t *r, ls_ctx_t *ctx, const char *path, int fd) {
  *r = (reader_t){ctx, path, fd, 0, XXH3_createState()};
  if (!r->hash) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: hash of %s", path);
  XXH3_128bits_reset(r->hash);
  return LS_OK;
}

static void reader_close(reader_t *r) {
  XXH3_freeState(r->hash);
}

/* The next `size` bytes, in pieces that are hashed while they are in cache. */
static ls_status_t reader_get(reader_t *r, void *to, size_t size) {
  char *bytes = to;
  while (size > 0) {
    ssize_t n = pread(r->fd, bytes, size < CHUNK_BYTES ? size : CHUNK_BYTES, (off_t)r->offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ls_fail_errno(r->ctx, "%s: cannot be read", r->path);
    if (n == 0) return ls_fail(r->ctx, LS_ERR_CORRUPT, "%s: became shorter while it was read", r->path);
    XXH3_128bits_update(r->hash, bytes, (size_t)n);
    bytes += n;
    size -= (size_t)n;
    r->offset_bytes += (uint64_t)n;
  }
  return LS_OK;
}

static ls_status_t reader_skip(reader_t *r, uint64_t size, char *buffer) {
  ls_status_t status = LS_OK;
  while (size > 0 && !status) {
    size_t part = size < CHUNK_BYTES ? (size_t)size : CHUNK_BYTES;
    status = reader_get(r, buffer, part);
    size -= part;
  }
  return status;
}

static ls_status_t reader_compare(const reader_t *r, const char *expected) {
  char text[LS_HASH_TEXT_BYTES];
  ls_hash_text(XXH3_128bits_digest(r->hash), text);
  if (strcmp(text, expected) == 0) return LS_OK;
  return ls_fail(r->ctx, LS_ERR_CORRUPT, "%s: its bytes hash to %s, the manifest says %s: altered", r->path,
                 text, expected);
}

/* ---- verifying ---- */

/* Opens a listed file; it must be a regular one of the listed size. */
static ls_status_t open_file(ls_ctx_t *ctx, const char *path, int64_t size_bytes, int *fd) {
  int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe in its place must not block */
  if (opened < 0 && errno == ENOENT)
    return ls_fail(ctx, LS_ERR_CORRUPT, "%s: is listed in the manifest and missing", path);
  if (opened < 0) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  struct stat info;
  ls_status_t status = LS_OK;
  if (fstat(opened, &info) != 0)
    status = ls_fail_errno(ctx, "%s: cannot be examined", path);
  else if (!S_ISREG(info.st_mode))
    status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: is not a regular file", path);
  else if (info.st_size != size_bytes)
    status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: has %lld bytes, the manifest says %lld", path,
                     (long long)info.st_size, (long long)size_bytes);
  if (status)
    close(opened);
  else
    *fd = opened;
  return status;
}

static ls_status_t verify_hash(ls_ctx_t *ctx, const char *path, int fd, const ls_manifest_file_t *file) {
  char *buffer = ls_alloc(ctx, CHUNK_BYTES);
  if (!buffer) return LS_ERR_MEMORY;
  reader_t r;
  ls_status_t status = reader_open(&r, ctx, path, fd);
  if (!status) status = reader_skip(&r, (uint64_t)file->size_bytes, buffer);
  if (!status) status = reader_compare(&r, file->xxh3_128);
  reader_close(&r);
  ls_free(buffer);
  return status;
}

/* The entries of a verified safetensors file. */
static ls_status_t read_header(ls_ctx_t *ctx, ls_arena_t *arena, part_t *part, uint64_t file_bytes) {
  char first[LS_SAFETENSORS_LENGTH_BYTES] = {0};
  reader_t r;
  size_t json_bytes;
  char *json = NULL;
  ls_status_t status = reader_open(&r, ctx, part->path, part->fd);
  if (!status && file_bytes >= sizeof first) status = reader_get(&r, first, sizeof first);
  if (!status) status = ls_safetensors_length(ctx, part->path, first, file_bytes, &json_bytes);
  if (status) goto close_reader;
  json = ls_alloc(ctx, json_bytes);
  status = json ? reader_get(&r, json, json_bytes) : LS_ERR_MEMORY;
  if (status) goto close_reader;
  part->header_bytes = sizeof first + json_bytes;
  status = ls_safetensors_header(ctx, arena, part->path, json, json_bytes, file_bytes - part->header_bytes,
                                 &part->entries, &part->count);
close_reader:
  ls_free(json);
  reader_close(&r);
  return status;
}

/* Every number of a verified file is finite. */
static ls_status_t verify_finite(ls_ctx_t *ctx, const part_t *part) {
  char *buffer = ls_alloc(ctx, CHUNK_BYTES);
  if (!buffer) return LS_ERR_MEMORY;
  reader_t r;
  ls_status_t status = reader_open(&r, ctx, part->path, part->fd);
  for (int i = 0; i < part->count && !status; i++) {
    const ls_safetensors_entry_t *e = &part->entries[i];
    r.offset_bytes = part->header_bytes + e->offset_bytes;
    for (uint64_t done = 0; done < e->size_bytes && !status;) {
      size_t size = e->size_bytes - done < CHUNK_BYTES ? (size_t)(e->size_bytes - done) : CHUNK_BYTES;
      status = reader_get(&r, buffer, size);
      if (!status && ls_ckpt_nonfinite(e->shape.dtype, buffer, size) >= 0)
        status = ls_fail(ctx, LS_ERR_CORRUPT,
                         "%s: '%s' has values that are not finite: whoever saved them had diverged",
                         part->path, LS_SHOWN(e->name));
      done += size;
    }
  }
  reader_close(&r);
  ls_free(buffer);
  return status;
}

static int part_of(const char *name) {
  return strcmp(name, LS_MODEL_NAME) == 0 ? PART_MODEL : strcmp(name, LS_OPTIM_NAME) == 0 ? PART_OPTIM : -1;
}

static ls_status_t open_listed(ls_ctx_t *ctx, ls_ckpt_t *ckpt, const ls_manifest_file_t *file) {
  const char *slash = ckpt->path[strlen(ckpt->path) - 1] == '/' ? "" : "/";
  char *path = ls_arena_printf(&ckpt->arena, "%s%s%s", ckpt->path, slash, file->name);
  int fd = -1;
  ls_status_t status = path ? open_file(ctx, path, file->size_bytes, &fd) : LS_ERR_MEMORY;
  if (status) return status;
  status = verify_hash(ctx, path, fd, file);
  int p = part_of(file->name);
  if (status || p < 0) {
    close(fd);
    return status;
  }
  part_t *part = &ckpt->part[p];
  part->path = path;
  part->fd = fd; /* from here on closed with the checkpoint */
  memcpy(part->xxh3_128, file->xxh3_128, sizeof part->xxh3_128);
  status = read_header(ctx, &ckpt->arena, part, (uint64_t)file->size_bytes);
  return status ? status : verify_finite(ctx, part);
}

static ls_status_t read_manifest(ls_ctx_t *ctx, ls_ckpt_t *ckpt) {
  char *path = ls_path_join(ctx, ckpt->path, LS_MANIFEST_NAME);
  if (!path) return LS_ERR_MEMORY;
  char *text = NULL;
  size_t size;
  ls_status_t status;
  if (!ls_path_exists(ckpt->path))
    status = ls_fail(ctx, LS_ERR_NOT_FOUND, "%s: there is no such checkpoint", ckpt->path);
  else if (!ls_path_exists(path))
    status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: missing, so this is not a whole checkpoint", path);
  else
    status = ls_file_read(ctx, path, LS_MANIFEST_LIMIT_BYTES, &text, &size);
  if (!status) status = ls_manifest_read(ctx, path, text, size, &ckpt->manifest);
  ls_free(text);
  ls_free(path);
  return status;
}

static ls_status_t open_all(ls_ctx_t *ctx, ls_ckpt_t *ckpt) {
  ls_status_t status = read_manifest(ctx, ckpt);
  for (int i = 0; i < ckpt->manifest.file_count && !status; i++)
    status = open_listed(ctx, ckpt, &ckpt->manifest.file[i]);
  for (int p = 0; p < PART_COUNT && !status; p++)
    if (ckpt->part[p].fd < 0)
      status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: the manifest does not list %s", ckpt->path,
                       p == PART_MODEL ? LS_MODEL_NAME : LS_OPTIM_NAME);
  return status;
}

/* A .safetensors file alone, as the parameters. */
static ls_status_t open_file_alone(ls_ctx_t *ctx, ls_ckpt_t *ckpt) {
  part_t *part = &ckpt->part[PART_MODEL];
  struct stat info;
  char *buffer = ls_alloc(ctx, CHUNK_BYTES);
  if (!buffer) return LS_ERR_MEMORY;
  reader_t r;
  ls_status_t status =
      stat(ckpt->path, &info) == 0 ? LS_OK : ls_fail_errno(ctx, "%s: cannot be opened", ckpt->path);
  part->path = ckpt->path;
  if (!status) status = open_file(ctx, part->path, info.st_size, &part->fd);
  if (!status) status = reader_open(&r, ctx, part->path, part->fd);
  if (status) goto free_buffer;
  status = reader_skip(&r, (uint64_t)info.st_size, buffer);
  ls_hash_text(XXH3_128bits_digest(r.hash), part->xxh3_128); /* what is read later must be the same */
  reader_close(&r);
  if (!status) status = read_header(ctx, &ckpt->arena, part, (uint64_t)info.st_size);
  if (!status) status = verify_finite(ctx, part);
free_buffer:
  ls_free(buffer);
  return status;
}

static ls_status_t open_with(ls_ctx_t *ctx, const char *path,
                             ls_status_t (*fill)(ls_ctx_t *ctx, ls_ckpt_t *ckpt), ls_ckpt_t **ckpt) {
  if (!path[0]) return ls_fail(ctx, LS_ERR_ARGUMENT, "the path of a checkpoint is empty");
  ls_ckpt_t *made = ls_alloc(ctx, sizeof *made);
  if (!made) return LS_ERR_MEMORY;
  ls_arena_init(&made->arena, ctx);
  for (int p = 0; p < PART_COUNT; p++)
    made->part[p].fd = -1;
  made->path = ls_arena_strdup(&made->arena, path);
  ls_status_t status = made->path ? fill(ctx, made) : LS_ERR_MEMORY;
  made->arena.ctx = NULL; /* nothing is added from here on; the checkpoint may outlive the context */
  if (status)
    ls_ckpt_close(made);
  else
    *ckpt = made;
  return status;
}

ls_status_t ls_ckpt_open(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt) {
  return open_with(ctx, path, open_all, ckpt);
}

ls_status_t ls_ckpt_open_weights(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt) {
  struct stat info;
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) return open_with(ctx, path, open_file_alone, ckpt);
  return ls_ckpt_open_newest(ctx, path, ckpt);
}

void ls_ckpt_close(ls_ckpt_t *ckpt) {
  if (!ckpt) return;
  for (int p = 0; p < PART_COUNT; p++)
    if (ckpt->part[p].fd >= 0) close(ckpt->part[p].fd);
  ls_manifest_release(&ckpt->manifest);
  ls_arena_release(&ckpt->arena);
  ls_free(ckpt);
}

const char *ls_ckpt_path(const ls_ckpt_t *ckpt) {
  return ckpt->path;
}
int64_t ls_ckpt_step(const ls_ckpt_t *ckpt) {
  return ckpt->manifest.step;
}
const json_t *ls_ckpt_meta(const ls_ckpt_t *ckpt) {
  return ckpt->manifest.meta;
}

/* ---- reading ---- */

/* Hashed again on the way, so that what arrives is what was saved even if the disk changed its mind. */
static ls_status_t copy_part(ls_ctx_t *ctx, const part_t *part, void *const *to) {
  char *buffer = ls_alloc(ctx, CHUNK_BYTES);
  if (!buffer) return LS_ERR_MEMORY;
  reader_t r;
  ls_status_t status = reader_open(&r, ctx, part->path, part->fd);
  if (!status) status = reader_skip(&r, part->header_bytes, buffer);
  for (int i = 0; i < part->count && !status; i++)
    status = reader_get(&r, to[i], (size_t)part->entries[i].size_bytes);
  if (!status) status = reader_compare(&r, part->xxh3_128);
  reader_close(&r);
  ls_free(buffer);
  return status;
}

/* Finds where each tensor of both files goes; the arrays live in `scratch`. */
static ls_status_t match(ls_ctx_t *ctx, ls_arena_t *scratch, const ls_ckpt_t *ckpt,
                         const ls_ckpt_tensor_t *params, int param_count, const ls_ckpt_tensor_t *optim,
                         int optim_count, void **to[PART_COUNT]) {
  const part_t *model = &ckpt->part[PART_MODEL], *rest = &ckpt->part[PART_OPTIM];
  ls_status_t status = ls_ckpt_match(ctx, scratch, model->path, model->entries, model->count, params,
                                     param_count, &to[PART_MODEL]);
  if (status || !optim) return status;
  return ls_ckpt_match(ctx, scratch, rest->path, rest->entries, rest->count, optim, optim_count,
                       &to[PART_OPTIM]);
}

ls_status_t ls_ckpt_check(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_ckpt_tensor_t *params,
                          int param_count, const ls_ckpt_tensor_t *optim, int optim_count) {
  void **to[PART_COUNT];
  ls_arena_t scratch;
  ls_arena_init(&scratch, ctx);
  ls_status_t status = match(ctx, &scratch, ckpt, params, param_count, optim, optim_count, to);
  ls_arena_release(&scratch);
  return status;
}

ls_status_t ls_ckpt_read(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_ckpt_tensor_t *params,
                         int param_count, const ls_ckpt_tensor_t *optim, int optim_count) {
  void **to[PART_COUNT];
  ls_arena_t scratch;
  ls_arena_init(&scratch, ctx);
  ls_status_t status = match(ctx, &scratch, ckpt, params, param_count, optim, optim_count, to);
  if (!status) status = copy_part(ctx, &ckpt->part[PART_MODEL], to[PART_MODEL]);
  if (!status && optim) status = copy_part(ctx, &ckpt->part[PART_OPTIM], to[PART_OPTIM]);
  ls_arena_release(&scratch);
  return status;
}
