/* The files of a checkpoint, written durably into a temporary directory. Tensors go from memory to the file
 * piece by piece and are hashed on the way, so a save needs no second copy of them. A failed fsync is never
 * repeated on the same file, because the kernel may have dropped the dirty pages and would then report
 * success (https://lwn.net/Articles/752063/). Everything is discarded, and the save fails. */
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "ckpt/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 20 }; /* hashed, then written while still in cache */

/* ---- one file ---- */

typedef struct {
  ls_ctx_t *ctx;
  const char *path;
  int fd;
  XXH3_state_t *hash;
  int64_t size_bytes;
} writer_t;

static ls_status_t writer_open(writer_t *w, ls_ctx_t *ctx, const char *path, int fd) {
  *w = (writer_t){.ctx = ctx, .path = path, .fd = fd, .hash = XXH3_createState()};
  if (!w->hash) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: hash of %s", path);
  XXH3_128bits_reset(w->hash);
  return LS_OK;
}

static ls_status_t write_chunk(writer_t *w, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t n = ls_io_write(w->ctx, w->fd, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return ls_fail_errno(w->ctx, "%s: cannot be written", w->path);
    bytes += n;
    size -= (size_t)n;
    w->size_bytes += n;
  }
  return LS_OK;
}

static ls_status_t writer_put(writer_t *w, const void *from, size_t size) {
  const char *bytes = from;
  while (size > 0) {
    size_t part = size < CHUNK_BYTES ? size : CHUNK_BYTES;
    XXH3_128bits_update(w->hash, bytes, part);
    ls_status_t status = write_chunk(w, bytes, part);
    if (status) return status;
    bytes += part;
    size -= part;
  }
  return LS_OK;
}

static void writer_close(writer_t *w, ls_manifest_file_t *entry) {
  if (w->hash && entry) {
    ls_hash_text(XXH3_128bits_digest(w->hash), entry->xxh3_128);
    entry->size_bytes = w->size_bytes;
  }
  XXH3_freeState(w->hash);
}

/* Writes a file of a directory that no reader knows yet, in its place. */
static int create(const char *path) {
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

/* Makes the file durable if `status` is ok, and closes it in any case. */
static ls_status_t end(ls_ctx_t *ctx, const char *path, int fd, ls_status_t status) {
  ls_new_file_t file = {.path = path, .fd = fd, .regular = true};
  return ls_new_file_end(ctx, &file, status);
}

/* The file is hashed once more beforehand, because its hash stands at its begin. */
static ls_status_t seal(ls_ctx_t *ctx, const ls_safetensors_layout_t *layout, int count) {
  char text[LS_HASH_TEXT_BYTES];
  XXH3_state_t *hash = XXH3_createState();
  if (!hash) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: hash of a file");
  XXH3_128bits_reset(hash);
  XXH3_128bits_update(hash, layout->header, layout->header_bytes);
  for (int i = 0; i < count; i++)
    XXH3_128bits_update(hash, layout->order[i]->data, ls_shape_bytes(&layout->order[i]->shape));
  ls_hash_text(XXH3_128bits_digest(hash), text);
  memcpy(layout->seal, text, LS_SAFETENSORS_SEAL_BYTES);
  XXH3_freeState(hash);
  return LS_OK;
}

/* entry: what the manifest is to say of the file; NULL: it has no manifest, and is sealed. */
static ls_status_t put_tensors(ls_ctx_t *ctx, const char *path, int fd, const ls_ckpt_tensor_t *tensors,
                               int count, ls_manifest_file_t *entry) {
  ls_safetensors_layout_t *layout;
  writer_t w;
  ls_status_t status = ls_safetensors_layout(ctx, tensors, count, !entry, &layout);
  if (status) return status;
  status = layout->seal ? seal(ctx, layout, count) : LS_OK;
  if (status) goto free_layout;
  status = writer_open(&w, ctx, path, fd);
  if (!status) status = writer_put(&w, layout->header, layout->header_bytes);
  for (int i = 0; i < count && !status; i++)
    status = writer_put(&w, layout->order[i]->data, ls_shape_bytes(&layout->order[i]->shape));
  writer_close(&w, entry);
free_layout:
  ls_free(layout);
  return status;
}

ls_status_t ls_ckpt_put_tensors(ls_ctx_t *ctx, const char *dir, const char *name,
                                const ls_ckpt_tensor_t *tensors, int count, ls_manifest_file_t *entry) {
  char *path = ls_path_join(ctx, dir, name);
  if (!path) return LS_ERR_MEMORY;
  int fd = create(path);
  ls_status_t status = fd < 0 ? ls_fail_errno(ctx, "%s: cannot be created", path)
                              : put_tensors(ctx, path, fd, tensors, count, entry);
  snprintf(entry->name, sizeof entry->name, "%s", name);
  if (fd >= 0) status = end(ctx, path, fd, status);
  ls_free(path);
  return status;
}

ls_status_t ls_ckpt_write_file(ls_ctx_t *ctx, const char *path, const ls_ckpt_tensor_t *tensors, int count) {
  ls_new_file_t file;
  ls_status_t status = ls_file_expect(ctx, path);
  if (status) return status;
  status = ls_new_file_begin(ctx, path, &file);
  if (!status) status = put_tensors(ctx, path, file.fd, tensors, count, NULL);
  return ls_new_file_end(ctx, &file, status);
}

static ls_status_t put_manifest(ls_ctx_t *ctx, const char *dir, const ls_manifest_t *manifest,
                                const json_t *meta) {
  char *text;
  size_t size;
  ls_status_t status = ls_manifest_write(ctx, manifest, meta, &text, &size);
  if (status) return status;
  char *path = ls_path_join(ctx, dir, LS_MANIFEST_NAME);
  if (!path) {
    status = LS_ERR_MEMORY;
    goto free_text;
  }
  writer_t w;
  int fd = create(path);
  status = fd < 0 ? ls_fail_errno(ctx, "%s: cannot be created", path) : writer_open(&w, ctx, path, fd);
  if (!status) status = writer_put(&w, text, size);
  if (fd >= 0) {
    writer_close(&w, NULL);
    status = end(ctx, path, fd, status);
  }
  ls_free(path);
free_text:
  ls_free(text);
  return status;
}

/* ---- the temporary directory ---- */

/* Tensors that are whole on this rank; if a rank saves alone, all: it holds every element. */
static ls_status_t put_whole(ls_ctx_t *ctx, const char *temp, const ls_ckpt_tensor_t *tensors, int count,
                             bool alone, ls_ckpt_part_t part, ls_manifest_t *manifest) {
  ls_ckpt_tensor_t *whole = ls_arena_array(&manifest->arena, (size_t)count + 1, sizeof *whole);
  if (!whole) return LS_ERR_MEMORY;
  int whole_count = 0;
  for (int i = 0; i < count; i++) {
    if (tensors[i].held && !alone) continue;
    if (ls_ckpt_held_count(&tensors[i]) != ls_shape_count(&tensors[i].shape))
      return ls_fail(ctx, LS_ERR_INTERNAL, "a rank alone is to save '%s', but does not hold all of it",
                     tensors[i].name);
    whole[whole_count++] = tensors[i];
  }
  return ls_ckpt_put_tensors(ctx, temp, ls_ckpt_parts[part].file, whole, whole_count,
                             &manifest->file[manifest->file_count++]);
}

static ls_status_t put_all(ls_ctx_t *ctx, ls_ckpt_team_t *team, const char *temp,
                           const ls_ckpt_save_t *save) {
  ls_manifest_t manifest = {.step = save->step, .metric = save->metric};
  size_t files = LS_PART_COUNT * (team->comm ? 1 + (size_t)team->comm->size : 1);
  bool alone = !team->comm;
  ls_arena_init(&manifest.arena, ctx);
  manifest.file = ls_arena_array(&manifest.arena, files, sizeof *manifest.file);
  ls_status_t status = manifest.file ? LS_OK : LS_ERR_MEMORY;
  if (!status)
    status = put_whole(ctx, temp, save->params, save->param_count, alone, LS_PART_MODEL, &manifest);
  if (!status) status = put_whole(ctx, temp, save->optim, save->optim_count, alone, LS_PART_OPTIM, &manifest);
  if (!alone) status = ls_ckpt_shards_put(ctx, team, status, temp, save, &manifest);
  if (!status) status = put_manifest(ctx, temp, &manifest, save->meta);
  ls_manifest_release(&manifest);
  return status;
}

ls_status_t ls_ckpt_fill(ls_ctx_t *ctx, ls_ckpt_team_t *team, const char *temp, const ls_ckpt_save_t *save,
                         int *lock_fd) {
  if (mkdir(temp, 0777) != 0) return ls_fail_errno(ctx, "%s: cannot be created", temp);
  ls_status_t status;
  int64_t pid = getpid();
  int fd = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    status = ls_fail_errno(ctx, "%s: cannot be opened", temp);
    goto remove_temp;
  }
  flock(fd, LOCK_EX | LOCK_NB); /* tells clean-ups that the directory is in use; without locks, the name
                                 * tells */
  status = team->comm ? ls_ckpt_meet_leader(team, LS_OK, &pid) : LS_OK;
  if (!status) status = put_all(ctx, team, temp, save);
  if (!status && fsync(fd) != 0) status = ls_fail_errno(ctx, "%s: cannot be made durable", temp);
  if (!status) {
    *lock_fd = fd;
    return LS_OK;
  }
  close(fd);
remove_temp:
  ls_dir_remove(NULL, temp);
  return status;
}
