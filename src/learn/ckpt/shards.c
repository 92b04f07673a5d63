/* Saves tensors that ranks divide: every rank writes its own files into the directory that rank 0 has
 * created, and tells rank 0 their contents. Rank 0 writes the manifest only when all of them are durable, so
 * files without a manifest are never taken for a checkpoint. */
#include "ckpt/manifest.h"
#include "ckpt/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- meetings ---- */

ls_status_t ls_ckpt_meet(ls_ckpt_team_t *team, ls_status_t own) {
  if (!team->comm || team->parted) return own;
  if (own && team->failed) team->failed(team->user, own);
  ls_status_t status = ls_comm_agree(team->comm, team->name, own);
  team->parted = status != LS_OK;
  return status;
}

ls_status_t ls_ckpt_meet_leader(ls_ckpt_team_t *team, ls_status_t own, int64_t *pid) {
  ls_status_t status = ls_ckpt_meet(team, own);
  return status ? status : ls_comm_broadcast(team->comm, "the leading process", pid, sizeof *pid, 0);
}

ls_status_t ls_ckpt_gather(ls_ctx_t *ctx, ls_arena_t *arena, ls_ckpt_team_t *team, const void *own,
                           int64_t size_bytes, ls_ckpt_gathered_t *all) {
  size_t size = (size_t)team->comm->size;
  all->stride = 0;
  all->size_bytes = ls_arena_array(arena, size, sizeof *all->size_bytes);
  ls_status_t status = ls_ckpt_meet(team, all->size_bytes ? LS_OK : LS_ERR_MEMORY);
  if (status) return status;
  status = ls_comm_gather(team->comm, "sizes of pieces", &size_bytes, sizeof size_bytes, all->size_bytes);
  if (status) return status;
  for (size_t r = 0; r < size; r++)
    if (all->size_bytes[r] > all->stride) all->stride = (all->size_bytes[r] + 7) / 8 * 8;
  char *padded = ls_alloc(ctx, (size_t)all->stride + 1);
  all->blob = ls_arena_array(arena, size, (size_t)all->stride + 1);
  status = ls_ckpt_meet(team, padded && all->blob ? LS_OK : LS_ERR_MEMORY);
  if (!status) {
    if (size_bytes > 0) memcpy(padded, own, (size_t)size_bytes);
    status = ls_comm_gather(team->comm, "pieces", padded, all->stride, all->blob);
  }
  ls_free(padded);
  return status;
}

/* ---- this rank's files ---- */

int64_t ls_ckpt_held_count(const ls_ckpt_tensor_t *tensor) {
  if (!tensor->held) return ls_shape_count(&tensor->shape);
  int64_t sum = 0;
  for (int i = 0; i < tensor->held_count; i++)
    sum += tensor->held[i].end - tensor->held[i].begin;
  return sum;
}

/* "model-00002-of-00004.safetensors"; ranks count from 0. */
static void piece_name(ls_ckpt_part_t part, int rank, int size, char name[LS_MANIFEST_NAME_BYTES]) {
  snprintf(name, LS_MANIFEST_NAME_BYTES, "%s-%05d-of-%05d.safetensors", ls_ckpt_parts[part].name, rank, size);
}

typedef struct {
  const ls_ckpt_tensor_t *tensors;
  int count;
} list_t;

static list_t list_of(const ls_ckpt_save_t *save, int part) {
  return part == LS_PART_MODEL ? (list_t){save->params, save->param_count}
                               : (list_t){save->optim, save->optim_count};
}

/* A rank's elements of one part as flat tensors in a file of its own; no file if it holds nothing. */
static ls_status_t put_part(ls_ctx_t *ctx, const ls_comm_t *comm, const char *temp, list_t list, int part,
                            ls_manifest_file_t *entry) {
  ls_ckpt_tensor_t *own = ls_alloc_array(ctx, (size_t)list.count + 1, sizeof *own);
  if (!own) return LS_ERR_MEMORY;
  int count = 0;
  char name[LS_MANIFEST_NAME_BYTES];
  for (int i = 0; i < list.count; i++) {
    const ls_ckpt_tensor_t *t = &list.tensors[i];
    int64_t held = t->held ? ls_ckpt_held_count(t) : 0;
    if (held > 0)
      own[count++] =
          (ls_ckpt_tensor_t){.name = t->name, .shape = LS_SHAPE(t->shape.dtype, held), .data = t->data};
  }
  piece_name((ls_ckpt_part_t)part, comm->rank, comm->size, name);
  ls_status_t status = count ? ls_ckpt_put_tensors(ctx, temp, name, own, count, entry) : LS_OK;
  ls_free(own);
  return status;
}

/* ---- what rank 0 is told ---- */

/* A rank's message: its files (no name: none), then for each tensor with `held`, the model's first, the
 * number of its ranges and the ranges. */
static ls_status_t make_message(ls_ctx_t *ctx, const ls_ckpt_save_t *save,
                                const ls_manifest_file_t entry[LS_PART_COUNT], char **message,
                                size_t *size_bytes) {
  FILE *to = open_memstream(message, size_bytes);
  if (to) fwrite(entry, sizeof *entry, LS_PART_COUNT, to);
  for (int p = 0; p < LS_PART_COUNT && to; p++)
    for (int i = 0; i < list_of(save, p).count; i++) {
      const ls_ckpt_tensor_t *t = &list_of(save, p).tensors[i];
      const int64_t count = t->held_count;
      if (!t->held) continue;
      fwrite(&count, sizeof count, 1, to);
      fwrite(t->held, sizeof *t->held, (size_t)count, to);
    }
  bool whole = to && !ferror(to);
  if (to && fclose(to) == 0 && whole) return LS_OK;
  return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: message of a rank's pieces");
}

/* The next `size` bytes of a rank's message; false: it has fewer, so its tensors differ. */
static bool take(const ls_ckpt_gathered_t *all, int rank, int64_t *at, void *to, size_t size) {
  if (all->size_bytes[rank] - *at < (int64_t)size) return false;
  memcpy(to, all->blob + rank * all->stride + *at, size);
  *at += (int64_t)size;
  return true;
}

static int64_t take_count(const ls_ckpt_gathered_t *all, int rank, int64_t *at) {
  int64_t count;
  bool good = take(all, rank, at, &count, sizeof count) && count >= 0 &&
              count <= (all->size_bytes[rank] - *at) / (int64_t)sizeof(ls_range_t);
  return good ? count : -1;
}

static int by_begin(const void *a, const void *b) {
  const ls_manifest_piece_t *x = a, *y = b;
  return x->range.begin < y->range.begin ? -1 : x->range.begin > y->range.begin;
}

/* Pieces in order, without empty ones; they must make up the tensor. */
static ls_status_t check_cover(ls_ctx_t *ctx, ls_manifest_tensor_t *t) {
  int64_t next = 0, count = ls_shape_count(&t->shape);
  qsort(t->piece, (size_t)t->piece_count, sizeof *t->piece, by_begin);
  for (int i = 0; i <= t->piece_count; i++) {
    int64_t begin = i < t->piece_count ? t->piece[i].range.begin : count;
    if (begin != next)
      return ls_fail(ctx, LS_ERR_INTERNAL, "a checkpoint cannot be saved: element %lld of '%s' is held %s",
                     (long long)(begin < next ? begin : next), t->name,
                     begin < next ? "twice" : "by no rank");
    if (i < t->piece_count) next = t->piece[i].range.end;
  }
  return LS_OK;
}

/* file[part]: index in the manifest of each rank's. */
static ls_status_t add_tensor(ls_ctx_t *ctx, const ls_ckpt_gathered_t *all, int size, int64_t *at,
                              const ls_ckpt_tensor_t *tensor, ls_ckpt_part_t part, const int *file,
                              ls_manifest_t *m) {
  ls_manifest_tensor_t *t = &m->tensor[m->tensor_count++];
  *t = (ls_manifest_tensor_t){.name = tensor->name, .part = part, .shape = tensor->shape};
  int64_t room = 1;
  for (int r = 0; r < size; r++) {
    int64_t look = at[r], count = take_count(all, r, &look);
    if (count < 0) return ls_fail(ctx, LS_ERR_INTERNAL, "rank %d saves other tensors than rank 0", r);
    room += count;
  }
  t->piece = ls_arena_array(&m->arena, (size_t)room, sizeof *t->piece);
  if (!t->piece) return LS_ERR_MEMORY;
  for (int r = 0; r < size; r++)
    for (int64_t left = take_count(all, r, &at[r]); left > 0; left--) {
      ls_manifest_piece_t *p = &t->piece[t->piece_count];
      take(all, r, &at[r], &p->range, sizeof p->range);
      p->file = file[r];
      t->piece_count += p->range.begin < p->range.end;
    }
  return check_cover(ctx, t);
}

static ls_status_t join(ls_ctx_t *ctx, const ls_comm_t *comm, const ls_ckpt_save_t *save,
                        const ls_ckpt_gathered_t *all, ls_manifest_t *m) {
  size_t size = (size_t)comm->size, tensors = (size_t)save->param_count + (size_t)save->optim_count;
  int64_t *at = ls_arena_array(&m->arena, size, sizeof *at);
  int *file = ls_arena_array(&m->arena, size * LS_PART_COUNT, sizeof *file);
  m->tensor = ls_arena_array(&m->arena, tensors + 1, sizeof *m->tensor);
  if (!at || !file || !m->tensor) return LS_ERR_MEMORY;
  for (int r = 0; r < comm->size; r++)
    for (int p = 0; p < LS_PART_COUNT; p++) {
      ls_manifest_file_t *f = &m->file[m->file_count];
      take(all, r, &at[r], f, sizeof *f);
      file[(size_t)p * size + (size_t)r] = m->file_count;
      m->file_count += f->name[0] != '\0';
    }
  ls_status_t status = LS_OK;
  for (int p = 0; p < LS_PART_COUNT; p++)
    for (int i = 0; i < list_of(save, p).count && !status; i++)
      if (list_of(save, p).tensors[i].held)
        status = add_tensor(ctx, all, comm->size, at, &list_of(save, p).tensors[i], (ls_ckpt_part_t)p,
                            file + (size_t)p * size, m);
  return status;
}

ls_status_t ls_ckpt_shards_put(ls_ctx_t *ctx, ls_ckpt_team_t *team, ls_status_t own, const char *temp,
                               const ls_ckpt_save_t *save, ls_manifest_t *manifest) {
  ls_manifest_file_t entry[LS_PART_COUNT] = {0};
  ls_status_t status = own;
  char *message = NULL;
  size_t size_bytes = 0;
  ls_arena_t scratch;
  ls_arena_init(&scratch, ctx);
  for (int p = 0; p < LS_PART_COUNT && !status; p++)
    status = put_part(ctx, team->comm, temp, list_of(save, p), p, &entry[p]);
  /* Rank 0 syncs when everything is there; on network file systems each node is responsible for its own
   * entries. */
  if (!status && team->comm->rank != 0) status = ls_dir_sync(ctx, temp);
  if (!status) status = make_message(ctx, save, entry, &message, &size_bytes);
  status = ls_ckpt_meet(team, status);
  ls_ckpt_gathered_t all;
  if (!status) status = ls_ckpt_gather(ctx, &scratch, team, message, (int64_t)size_bytes, &all);
  if (!status && team->comm->rank == 0) status = join(ctx, team->comm, save, &all, manifest);
  free(message);
  ls_arena_release(&scratch);
  return status;
}
