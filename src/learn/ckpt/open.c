/* Opens a checkpoint. Everything is verified before anything is used, by reading the files once with a small
 * buffer; the tensors then go from the files straight to their destination (read.c). The files stay open in
 * between, so a checkpoint that retention removes in that time can still be read. */
#include "ckpt/open.h"
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Compares the file's hash, or finds it out where none is listed: the same bytes must be read later. */
static ls_status_t verify_hash(ls_ctx_t *ctx, ls_ckpt_file_t *file) {
  ls_ckpt_reader_t r;
  ls_status_t status = ls_ckpt_reader_open(&r, ctx, file->path, file->fd);
  if (!status) status = ls_ckpt_reader_skip(&r, file->size_bytes);
  if (!status && file->xxh3_128[0])
    status = ls_ckpt_reader_compare(&r, file->xxh3_128, "the manifest");
  else if (!status)
    ls_hash_text(XXH3_128bits_digest(r.hash), file->xxh3_128);
  ls_ckpt_reader_close(&r);
  return status;
}

/* Compares the file's own hash; the reader is after the header. */
static ls_status_t verify_seal(ls_ckpt_reader_t *r, const ls_ckpt_file_t *part, const char *first, char *json,
                               char *seal) {
  char expected[LS_SAFETENSORS_SEAL_BYTES + 1] = "";
  memcpy(expected, seal, LS_SAFETENSORS_SEAL_BYTES);
  memset(seal, '0', LS_SAFETENSORS_SEAL_BYTES);
  XXH3_128bits_reset(r->hash);
  XXH3_128bits_update(r->hash, first, LS_SAFETENSORS_LENGTH_BYTES);
  XXH3_128bits_update(r->hash, json, part->header_bytes - LS_SAFETENSORS_LENGTH_BYTES);
  ls_status_t status = ls_ckpt_reader_skip(r, part->size_bytes - part->header_bytes);
  return status ? status : ls_ckpt_reader_compare(r, expected, "its header");
}

/* The entries of a verified safetensors file. verify: its seal, where it has one. */
static ls_status_t read_header(ls_ctx_t *ctx, ls_arena_t *arena, ls_ckpt_file_t *part, bool verify) {
  const uint64_t file_bytes = part->size_bytes;
  char first[LS_SAFETENSORS_LENGTH_BYTES] = {0};
  ls_ckpt_reader_t r;
  size_t json_bytes;
  char *json = NULL;
  ls_status_t status = ls_ckpt_reader_open(&r, ctx, part->path, part->fd);
  if (!status && file_bytes >= sizeof first) status = ls_ckpt_reader_get(&r, first, sizeof first);
  if (!status) status = ls_safetensors_length(ctx, part->path, first, file_bytes, &json_bytes);
  if (status) goto close_reader;
  json = ls_alloc(ctx, json_bytes);
  status = json ? ls_ckpt_reader_get(&r, json, json_bytes) : LS_ERR_MEMORY;
  if (status) goto close_reader;
  part->header_bytes = sizeof first + json_bytes;
  status = ls_safetensors_header(ctx, arena, part->path, json, json_bytes, file_bytes - part->header_bytes,
                                 &part->entries, &part->count);
  char *seal = ls_safetensors_seal(json, json_bytes);
  part->sealed = seal != NULL;
  if (!status && seal && verify) status = verify_seal(&r, part, first, json, seal);
close_reader:
  ls_free(json);
  ls_ckpt_reader_close(&r);
  return status;
}

/* Every number of a verified file is finite. */
static ls_status_t verify_finite(ls_ctx_t *ctx, const ls_ckpt_file_t *part) {
  char chunk[LS_CKPT_CHUNK_BYTES];
  ls_ckpt_reader_t r;
  ls_status_t status = ls_ckpt_reader_open(&r, ctx, part->path, part->fd);
  for (int i = 0; i < part->count && !status; i++) {
    const ls_safetensors_entry_t *e = &part->entries[i];
    r.offset_bytes = part->header_bytes + e->offset_bytes;
    for (uint64_t done = 0; done < e->size_bytes && !status;) {
      size_t size = e->size_bytes - done < sizeof chunk ? (size_t)(e->size_bytes - done) : sizeof chunk;
      status = ls_ckpt_reader_get(&r, chunk, size);
      if (!status && ls_ckpt_nonfinite(e->shape.dtype, chunk, size) >= 0)
        status = ls_fail(ctx, LS_ERR_CORRUPT,
                         "%s: '%s' has values that are not finite: whoever saved them had diverged",
                         part->path, LS_SHOWN(e->name));
      done += size;
    }
  }
  ls_ckpt_reader_close(&r);
  return status;
}

/* Opens and verifies a file of so many bytes; `tensors`: a safetensors file, whose entries are read. Where
 * another rank has verified it, sizes and formats are checked. */
static ls_status_t take_file(ls_ctx_t *ctx, ls_ckpt_t *ckpt, ls_ckpt_file_t *file, int64_t size_bytes,
                             bool tensors) {
  ls_status_t status = open_file(ctx, file->path, size_bytes, &file->fd);
  file->size_bytes = (uint64_t)size_bytes;
  if (!status && !ckpt->seal) status = verify_hash(ctx, file);
  if (!status && tensors) status = read_header(ctx, &ckpt->arena, file, !ckpt->seal);
  if (!status && tensors && !ckpt->seal) status = verify_finite(ctx, file);
  if (!status && !tensors) {
    close(file->fd);
    file->fd = -1;
  }
  return status;
}

static bool has_tensors(const ls_manifest_file_t *listed) {
  bool whole = false;
  for (int p = 0; p < LS_PART_COUNT; p++)
    whole = whole || strcmp(listed->name, ls_ckpt_parts[p].file) == 0;
  return whole || listed->pieces;
}

static ls_status_t open_listed(ls_ctx_t *ctx, ls_ckpt_t *ckpt, const ls_manifest_file_t *listed,
                               ls_ckpt_file_t *file) {
  if (ckpt->seal && !has_tensors(listed)) return LS_OK;
  const char *slash = ckpt->path[strlen(ckpt->path) - 1] == '/' ? "" : "/";
  file->path = ls_arena_printf(&ckpt->arena, "%s%s%s", ckpt->path, slash, listed->name);
  memcpy(file->xxh3_128, listed->xxh3_128, sizeof file->xxh3_128);
  return file->path ? take_file(ctx, ckpt, file, listed->size_bytes, has_tensors(listed)) : LS_ERR_MEMORY;
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
  if (!status && ckpt->seal && strcmp(ckpt->seal, ckpt->manifest.seal) != 0)
    status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: is not the manifest that rank 0 has read", path);
  ls_free(text);
  ls_free(path);
  return status;
}

static ls_status_t make_files(ls_ckpt_t *ckpt, int count) {
  ckpt->file = ls_arena_array(&ckpt->arena, (size_t)count + 1, sizeof *ckpt->file);
  if (!ckpt->file) return LS_ERR_MEMORY;
  for (int i = 0; i < count; i++)
    ckpt->file[i].fd = -1;
  ckpt->file_count = count;
  return LS_OK;
}

static ls_status_t open_all(ls_ctx_t *ctx, ls_ckpt_t *ckpt) {
  ls_status_t status = read_manifest(ctx, ckpt);
  const ls_manifest_t *m = &ckpt->manifest;
  if (!status) status = make_files(ckpt, m->file_count);
  for (int i = 0; i < m->file_count && !status; i++)
    status = open_listed(ctx, ckpt, &m->file[i], &ckpt->file[i]);
  for (int p = 0; p < LS_PART_COUNT && !status; p++) {
    for (int i = 0; i < m->file_count; i++)
      if (strcmp(m->file[i].name, ls_ckpt_parts[p].file) == 0) ckpt->part[p].path = ckpt->file[i].path;
    if (!ckpt->part[p].path)
      status = ls_fail(ctx, LS_ERR_CORRUPT, "%s: the manifest does not list %s", ckpt->path,
                       ls_ckpt_parts[p].file);
  }
  return status ? status : ls_ckpt_find_sources(ctx, ckpt);
}

/* A .safetensors file alone, as the parameters. */
static ls_status_t open_file_alone(ls_ctx_t *ctx, ls_ckpt_t *ckpt) {
  struct stat info;
  ls_status_t status = make_files(ckpt, 1);
  if (status) return status;
  ckpt->file->path = ckpt->part[LS_PART_MODEL].path = ckpt->path;
  if (stat(ckpt->path, &info) != 0) return ls_fail_errno(ctx, "%s: cannot be opened", ckpt->path);
  status = take_file(ctx, ckpt, ckpt->file, info.st_size, true);
  return status ? status : ls_ckpt_find_sources(ctx, ckpt);
}

static ls_status_t open_with(ls_ctx_t *ctx, const char *path, const char *seal,
                             ls_status_t (*fill)(ls_ctx_t *ctx, ls_ckpt_t *ckpt), ls_ckpt_t **ckpt) {
  if (!path[0]) return ls_fail(ctx, LS_ERR_ARGUMENT, "the path of a checkpoint is empty");
  ls_ckpt_t *made = ls_alloc(ctx, sizeof *made);
  if (!made) return LS_ERR_MEMORY;
  ls_arena_init(&made->arena, ctx);
  made->seal = seal;
  made->path = ls_arena_strdup(&made->arena, path);
  ls_status_t status = made->path ? fill(ctx, made) : LS_ERR_MEMORY;
  made->seal = NULL;      /* the caller's */
  made->arena.ctx = NULL; /* nothing is added from here on; the checkpoint may outlive the context */
  if (status)
    ls_ckpt_close(made);
  else
    *ckpt = made;
  return status;
}

static bool is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

ls_status_t ls_ckpt_open(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt) {
  return open_with(ctx, path, NULL, open_all, ckpt);
}

ls_status_t ls_ckpt_open_weights(ls_ctx_t *ctx, const char *path, ls_ckpt_t **ckpt) {
  if (is_file(path)) return open_with(ctx, path, NULL, open_file_alone, ckpt);
  return ls_ckpt_open_newest(ctx, path, ckpt);
}

ls_status_t ls_ckpt_open_verified(ls_ctx_t *ctx, const char *path, const char *seal, ls_ckpt_t **ckpt) {
  return open_with(ctx, path, seal, is_file(path) ? open_file_alone : open_all, ckpt);
}

void ls_ckpt_close(ls_ckpt_t *ckpt) {
  if (!ckpt) return;
  for (int i = 0; i < ckpt->file_count; i++)
    if (ckpt->file[i].fd >= 0) close(ckpt->file[i].fd);
  ls_manifest_release(&ckpt->manifest);
  ls_arena_release(&ckpt->arena);
  ls_free(ckpt);
}

const char *ls_ckpt_path(const ls_ckpt_t *ckpt) {
  return ckpt->path;
}
bool ls_ckpt_sealed(const ls_ckpt_t *ckpt) {
  return ckpt->file_count > 0 && ckpt->file->sealed;
}
int64_t ls_ckpt_step(const ls_ckpt_t *ckpt) {
  return ckpt->manifest.step;
}
const json_t *ls_ckpt_meta(const ls_ckpt_t *ckpt) {
  return ckpt->manifest.meta;
}
