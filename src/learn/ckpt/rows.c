/* A state's saved rows as tensors of a checkpoint: their names, and the elements that this rank holds. No row
 * is known by its name. */
#include "ckpt/open.h"
#include "ckpt/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_saved(const ls_state_row_t *row) {
  return row->file != LS_STATE_UNSAVED && row->owner != LS_STATE_LOCAL;
}

static int tensors_of(const ls_state_table_t *table, const ls_state_row_t *row) {
  if (!row->of_layout) return 1;
  return row->trained ? table->layout->trained_count : table->layout->count;
}

static int part_of(const ls_state_row_t *row) {
  return row->file == LS_STATE_MODEL ? LS_PART_MODEL : LS_PART_OPTIM;
}

/* The elements of [begin, end) of a sharded row's whole that this rank holds, counted from `begin`. They are
 * contiguous in its memory, at `host` plus the bytes before them. */
static ls_status_t hold(ls_arena_t *arena, const ls_state_row_t *row, int64_t begin, int64_t end, char *host,
                        ls_ckpt_tensor_t *to) {
  const size_t each = ls_dtype_bytes(row->shape.dtype);
  ls_range_t *held = ls_arena_array(arena, (size_t)row->range_count + 1, sizeof *held);
  if (!held) return LS_ERR_MEMORY;
  int64_t before = 0;
  for (int i = 0; i < row->range_count; i++) {
    int64_t first = row->range[i].begin > begin ? row->range[i].begin : begin;
    int64_t last = row->range[i].end < end ? row->range[i].end : end;
    if (first < last) {
      if (to->held_count == 0 && host)
        to->data = host + (size_t)(before + first - row->range[i].begin) * each;
      held[to->held_count++] = (ls_range_t){first - begin, last - begin};
    }
    before += row->range[i].end - row->range[i].begin;
  }
  to->held = held;
  return LS_OK;
}

static ls_status_t add_row(const ls_state_table_t *table, const ls_state_row_t *row, char *host,
                           ls_ckpt_rows_t *rows) {
  int part = part_of(row), count = tensors_of(table, row);
  ls_status_t status = LS_OK;
  for (int i = 0; i < count && !status; i++) {
    const ls_layout_entry_t *e = row->of_layout ? &table->layout->entry[i] : NULL;
    ls_ckpt_tensor_t *to = &rows->tensor[part][rows->count[part]++];
    int64_t begin = e ? e->offset : 0;
    *to = (ls_ckpt_tensor_t){.name = e ? e->name : row->name, .shape = e ? e->shape : row->shape};
    to->shape.dtype = row->shape.dtype;
    if (e && part != LS_PART_MODEL) to->name = ls_arena_printf(&rows->arena, "%s.%s", row->name, e->name);
    if (!to->name) return LS_ERR_MEMORY;
    if (row->owner == LS_STATE_SHARDED)
      status = hold(&rows->arena, row, begin, begin + ls_shape_count(&to->shape), host, to);
    else
      to->data = host ? host + (size_t)begin * ls_dtype_bytes(row->shape.dtype) : NULL;
  }
  return status;
}

ls_status_t ls_ckpt_rows(ls_ctx_t *ctx, const ls_state_table_t *table, void *const *host,
                         ls_ckpt_rows_t *rows) {
  size_t room[LS_PART_COUNT] = {1, 1};
  for (int i = 0; i < table->count; i++)
    if (is_saved(&table->row[i])) room[part_of(&table->row[i])] += (size_t)tensors_of(table, &table->row[i]);
  *rows = (ls_ckpt_rows_t){0};
  ls_arena_init(&rows->arena, ctx);
  for (int p = 0; p < LS_PART_COUNT; p++)
    rows->tensor[p] = ls_arena_array(&rows->arena, room[p], sizeof *rows->tensor[p]);
  ls_status_t status = rows->tensor[0] && rows->tensor[1] ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; i < table->count && !status; i++)
    if (is_saved(&table->row[i])) status = add_row(table, &table->row[i], host ? host[i] : NULL, rows);
  if (rows->count[LS_PART_OPTIM] == 0)
    rows->tensor[LS_PART_OPTIM] = NULL; /* evaluation: it is not looked at */
  if (status) ls_arena_release(&rows->arena);
  return status;
}

bool ls_ckpt_sharded(const ls_state_table_t *table) {
  bool any = false;
  for (int i = 0; i < table->count; i++)
    any = any || (is_saved(&table->row[i]) && table->row[i].owner == LS_STATE_SHARDED);
  return any;
}

/* ---- loading ---- */

static ls_status_t read_own(ls_ctx_t *ctx, const ls_ckpt_t *ckpt, const ls_state_table_t *table,
                            void *const *host, bool weights, bool first) {
  ls_ckpt_rows_t rows;
  ls_status_t status = ls_ckpt_rows(ctx, table, host, &rows);
  if (status) return status;
  for (int p = 0; p < LS_PART_COUNT; p++)
    for (int i = 0; i < rows.count[p] && !first; i++)
      if (!rows.tensor[p][i].held) rows.tensor[p][i].data = NULL; /* comes from rank 0 */
  status = ls_ckpt_read(ctx, ckpt, rows.tensor[LS_PART_MODEL], rows.count[LS_PART_MODEL],
                        weights ? NULL : rows.tensor[LS_PART_OPTIM], rows.count[LS_PART_OPTIM]);
  ls_arena_release(&rows.arena);
  return status;
}

/* A rank other than 0 opens the checkpoint that rank 0 has verified, and reads its ranges. */
typedef struct {
  char seal[LS_HASH_TEXT_BYTES];
  char path[4096];
} opened_t;

static ls_status_t follow(ls_ctx_t *ctx, const opened_t *opened, const ls_state_table_t *table,
                          void *const *host, bool weights) {
  ls_ckpt_t *ckpt;
  ls_status_t status = ls_ckpt_open_verified(ctx, opened->path, opened->seal, &ckpt);
  if (status) return status;
  status = read_own(ctx, ckpt, table, host, weights, false);
  ls_ckpt_close(ckpt);
  return status;
}

ls_status_t ls_ckpt_load(ls_ctx_t *ctx, ls_comm_t *comm, const ls_ckpt_t *ckpt, const ls_state_table_t *table,
                         void *const *host, bool weights) {
  opened_t opened = {0};
  ls_status_t status = LS_OK;
  bool together = comm->size > 1 && ls_ckpt_sharded(table);
  if (comm->rank == 0) status = read_own(ctx, ckpt, table, host, weights, true);
  if (together) {
    if (comm->rank == 0) {
      snprintf(opened.seal, sizeof opened.seal, "%s", ckpt->manifest.seal);
      if (snprintf(opened.path, sizeof opened.path, "%s", ckpt->path) >= (int)sizeof opened.path && !status)
        status = ls_fail(ctx, LS_ERR_IO, "%s: the name is too long to be told to other ranks", ckpt->path);
    }
    ls_status_t told = ls_comm_broadcast(comm, "checkpoint", &opened, sizeof opened, 0);
    if (!status) status = told;
    if (comm->rank != 0 && !status) status = follow(ctx, &opened, table, host, weights);
  }
  status = ls_comm_agree(comm, "loading the checkpoint", status);
  for (int i = 0; i < table->count && !status; i++) {
    const ls_state_row_t *row = &table->row[i];
    if (!is_saved(row) || row->owner != LS_STATE_REPLICATED || (weights && part_of(row) != LS_PART_MODEL))
      continue;
    status = ls_comm_broadcast(comm, row->name, host[i], (int64_t)ls_state_row_bytes(row), 0);
  }
  return status;
}

/* ---- the fingerprint ---- */

#define HASHING "hashing the parameters"

static int by_name(const void *a, const void *b) {
  return strcmp(((const ls_ckpt_tensor_t *)a)->name, ((const ls_ckpt_tensor_t *)b)->name);
}

/* Gathers the whole of a divided tensor in `whole`. Ranks tell their ranges, then their elements. */
static ls_status_t assemble(ls_ctx_t *ctx, ls_comm_t *comm, const ls_ckpt_tensor_t *t, char *whole) {
  const size_t each = ls_dtype_bytes(t->shape.dtype);
  ls_ckpt_team_t team = {.comm = comm, .name = HASHING};
  ls_ckpt_gathered_t ranges, values;
  ls_arena_t scratch;
  ls_arena_init(&scratch, ctx);
  ls_status_t status = ls_ckpt_gather(ctx, &scratch, &team, t->held,
                                      (int64_t)((size_t)t->held_count * sizeof *t->held), &ranges);
  if (!status)
    status = ls_ckpt_gather(ctx, &scratch, &team, t->data, ls_ckpt_held_count(t) * (int64_t)each, &values);
  for (int r = 0; r < comm->size && !status; r++) {
    const char *from = values.blob + r * values.stride;
    for (int64_t at = 0; at < ranges.size_bytes[r]; at += (int64_t)sizeof(ls_range_t)) {
      ls_range_t range;
      memcpy(&range, ranges.blob + r * ranges.stride + at, sizeof range);
      size_t size_bytes = (size_t)(range.end - range.begin) * each;
      memcpy(whole + (size_t)range.begin * each, from, size_bytes);
      from += size_bytes;
    }
  }
  ls_arena_release(&scratch);
  return status;
}

static ls_status_t hash_tensor(ls_ctx_t *ctx, ls_comm_t *comm, const ls_ckpt_tensor_t *t,
                               XXH3_state_t *hash) {
  const size_t size_bytes = ls_shape_bytes(&t->shape);
  if (!t->held || comm->size == 1) {
    XXH3_128bits_update(hash, t->data, size_bytes);
    return LS_OK;
  }
  char *whole = ls_alloc(ctx, size_bytes + 1);
  ls_status_t status = ls_comm_agree(comm, HASHING, whole ? LS_OK : LS_ERR_MEMORY);
  if (!status) status = assemble(ctx, comm, t, whole);
  if (!status) XXH3_128bits_update(hash, whole, size_bytes);
  ls_free(whole);
  return status;
}

ls_status_t ls_ckpt_hash(ls_ctx_t *ctx, ls_comm_t *comm, const ls_state_table_t *table, void *const *host,
                         char hex[33]) {
  ls_ckpt_rows_t rows = {0};
  ls_status_t status = ls_ckpt_rows(ctx, table, host, &rows);
  XXH3_state_t *hash = XXH3_createState();
  if (!status && !hash) status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory: hash of the parameters");
  if (ls_ckpt_sharded(table)) status = ls_comm_agree(comm, HASHING, status);
  ls_ckpt_tensor_t *tensor = rows.tensor[LS_PART_MODEL];
  int count = rows.count[LS_PART_MODEL];
  if (count > 1) qsort(tensor, (size_t)count, sizeof *tensor, by_name);
  if (!status) XXH3_128bits_reset(hash);
  for (int i = 0; i < count && !status; i++)
    status = hash_tensor(ctx, comm, &tensor[i], hash);
  if (!status) ls_hash_text(XXH3_128bits_digest(hash), hex);
  XXH3_freeState(hash);
  ls_arena_release(&rows.arena);
  return status;
}
