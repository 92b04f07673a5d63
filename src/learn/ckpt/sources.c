/* Finds the bytes of every tensor: whole in the file of its part, or in pieces that the manifest lists. Files
 * and manifest must agree; every element of a file is used exactly once. */
#include "ckpt/open.h"

#include <stdlib.h>
#include <string.h>

/* The entries of a file by name, and how many elements of each are in pieces so far. */
typedef struct {
  const ls_ckpt_file_t *file;
  const ls_safetensors_entry_t **by_name;
  int64_t *taken; /* per entry, in file order */
} index_t;

static int by_name(const void *a, const void *b) {
  return strcmp((*(const ls_safetensors_entry_t *const *)a)->name,
                (*(const ls_safetensors_entry_t *const *)b)->name);
}

static int name_to_entry(const void *name, const void *entry) {
  return strcmp(name, (*(const ls_safetensors_entry_t *const *)entry)->name);
}

static const ls_safetensors_entry_t *find(const index_t *index, const char *name) {
  if (index->file->count == 0) return NULL;
  const ls_safetensors_entry_t *const *found =
      bsearch(name, index->by_name, (size_t)index->file->count, sizeof *index->by_name, name_to_entry);
  return found ? *found : NULL;
}

static ls_status_t make_index(ls_arena_t *arena, const ls_ckpt_file_t *file, index_t *index) {
  index->file = file;
  index->by_name = ls_arena_array(arena, (size_t)file->count + 1, sizeof *index->by_name);
  index->taken = ls_arena_array(arena, (size_t)file->count + 1, sizeof *index->taken);
  if (!index->by_name || !index->taken) return LS_ERR_MEMORY;
  for (int i = 0; i < file->count; i++)
    index->by_name[i] = &file->entries[i];
  if (file->count > 1) qsort(index->by_name, (size_t)file->count, sizeof *index->by_name, by_name);
  return LS_OK;
}

static ls_status_t bad(ls_ctx_t *ctx, const char *file, const char *tensor, const char *fault) {
  return ls_fail(ctx, LS_ERR_CORRUPT, "%s: tensor '%s' %s", file, LS_SHOWN(tensor), fault);
}

/* A file's tensor is one source with one piece. */
static ls_status_t add_whole(ls_ckpt_t *ckpt, index_t *index, int f, ls_ckpt_source_t *to) {
  const ls_ckpt_file_t *file = &ckpt->file[f];
  ls_ckpt_piece_t *piece = ls_arena_array(&ckpt->arena, (size_t)file->count + 1, sizeof *piece);
  if (!piece) return LS_ERR_MEMORY;
  for (int i = 0; i < file->count; i++) {
    const ls_safetensors_entry_t *e = &file->entries[i];
    index->taken[i] = ls_shape_count(&e->shape);
    piece[i] = (ls_ckpt_piece_t){f, file->header_bytes + e->offset_bytes, {0, index->taken[i]}};
    to[i] = (ls_ckpt_source_t){e->name, e->shape, 1, &piece[i]};
  }
  return LS_OK;
}

static ls_status_t add_pieces(ls_ctx_t *ctx, ls_ckpt_t *ckpt, const index_t *index,
                              const ls_manifest_tensor_t *t, ls_ckpt_source_t *to) {
  *to = (ls_ckpt_source_t){t->name, t->shape, t->piece_count, NULL};
  to->piece = ls_arena_array(&ckpt->arena, (size_t)t->piece_count + 1, sizeof *to->piece);
  if (!to->piece) return LS_ERR_MEMORY;
  for (int i = 0; i < t->piece_count; i++) {
    const ls_manifest_piece_t *p = &t->piece[i];
    const index_t *in = &index[p->file];
    const ls_ckpt_file_t *file = in->file;
    const ls_safetensors_entry_t *e = find(in, t->name);
    if (!e) return bad(ctx, file->path, t->name, "is not there, but the manifest has a piece of it there");
    if (e->shape.dtype != t->shape.dtype || e->shape.rank != 1)
      return bad(ctx, file->path, t->name, "is not a flat piece of the dtype that the manifest says");
    int64_t *taken = &in->taken[e - file->entries], count = p->range.end - p->range.begin;
    if (count > e->shape.dim[0] - *taken)
      return bad(ctx, file->path, t->name, "has fewer elements than its pieces in the manifest");
    uint64_t before = (uint64_t)*taken * ls_dtype_bytes(t->shape.dtype);
    to->piece[i] = (ls_ckpt_piece_t){p->file, file->header_bytes + e->offset_bytes + before, p->range};
    *taken += count;
  }
  return LS_OK;
}

/* Every element of every file belongs to a tensor. */
static ls_status_t check_taken(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const index_t *index) {
  for (int f = 0; f < ckpt->file_count; f++)
    for (int i = 0; i < ckpt->file[f].count; i++)
      if (index[f].taken[i] != ls_shape_count(&ckpt->file[f].entries[i].shape))
        return bad(ctx, ckpt->file[f].path, ckpt->file[f].entries[i].name,
                   "has more elements than its pieces in the manifest");
  return LS_OK;
}

static ls_status_t add_part(ls_ctx_t *ctx, ls_ckpt_t *ckpt, index_t *index, int p) {
  const ls_manifest_t *m = &ckpt->manifest;
  int whole = -1, pieces = 0;
  for (int f = 0; f < ckpt->file_count; f++)
    if (ckpt->part[p].path && ckpt->file[f].path == ckpt->part[p].path) whole = f;
  for (int i = 0; i < m->tensor_count; i++)
    pieces += m->tensor[i].part == (ls_ckpt_part_t)p;
  int count = whole < 0 ? 0 : ckpt->file[whole].count;
  ls_ckpt_source_t *source = ls_arena_array(&ckpt->arena, (size_t)count + (size_t)pieces + 1, sizeof *source);
  ls_status_t status = source ? LS_OK : LS_ERR_MEMORY;
  if (!status && whole >= 0) status = add_whole(ckpt, &index[whole], whole, source);
  for (int i = 0; i < m->tensor_count && !status; i++) {
    if (m->tensor[i].part != (ls_ckpt_part_t)p) continue;
    if (whole >= 0 && find(&index[whole], m->tensor[i].name))
      status = bad(ctx, ckpt->file[whole].path, m->tensor[i].name, "is also in pieces");
    else
      status = add_pieces(ctx, ckpt, index, &m->tensor[i], &source[count++]);
  }
  ckpt->part[p].source = source;
  ckpt->part[p].count = count;
  return status;
}

ls_status_t ls_ckpt_find_sources(ls_ctx_t *ctx, ls_ckpt_t *ckpt) {
  ls_arena_t scratch;
  ls_arena_init(&scratch, ctx);
  index_t *index = ls_arena_array(&scratch, (size_t)ckpt->file_count + 1, sizeof *index);
  ls_status_t status = index ? LS_OK : LS_ERR_MEMORY;
  for (int f = 0; f < ckpt->file_count && !status; f++)
    status = make_index(&scratch, &ckpt->file[f], &index[f]);
  for (int p = 0; p < LS_PART_COUNT && !status; p++)
    status = add_part(ctx, ckpt, index, p);
  if (!status) status = check_taken(ctx, ckpt, index);
  ls_arena_release(&scratch);
  return status;
}
