/* See rows_world.h. */
#include "rows_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEADLINE_S = 20 };
int64_t rows_big = 1003;

/* ---- the table ---- */

/* Chunks k and 2 size - 1 - k of 2 size. */
static int divide(int64_t count, int rank, int size, cut_t cut, ls_range_t range[2]) {
  int64_t chunks = 2 * (int64_t)size, other = chunks - 1 - rank;
  range[0] = (ls_range_t){count * rank / chunks, count * (rank + 1) / chunks};
  range[1] = (ls_range_t){count * other / chunks, count * (other + 1) / chunks};
  if (cut == CUT_OVERLAP && rank == size - 1) range[0].begin -= range[0].begin > 0;
  if (cut == CUT_GAP && rank == 0) range[0].begin += count > 100;
  return 2;
}

static void declare(rank_t *rank, ls_state_row_t row, cut_t cut) {
  ls_range_t range[2];
  int index;
  row.part = "optimizer";
  row.life = LS_STATE_CARRIED;
  if (row.owner == LS_STATE_SHARDED) {
    int64_t count = row.of_layout ? rank->table->layout->trained : ls_shape_count(&row.shape);
    row.range = range;
    row.range_count = divide(count, rank->rank, rank->size, cut, range);
  }
  NEED(ls_state_declare(rank->table, &row, &index) == LS_OK);
}

static void make_table(rank_t *rank, cut_t cut) {
  ls_graph_t *g;
  NEED(ls_graph_create(rank->ctx, &g) == LS_OK);
  ls_graph_param(g, "b.weight", LS_SHAPE(LS_F32, 37, 11), (ls_init_t){LS_INIT_ONES, 0});
  int frozen = ls_graph_param(g, "c.frozen", LS_SHAPE(LS_F32, 23), (ls_init_t){LS_INIT_ONES, 0});
  g->tensors[frozen].trainable = false;
  ls_graph_param(g, "a.bias", LS_SHAPE(LS_F32, 17), (ls_init_t){LS_INIT_ONES, 0});
  NEED(ls_state_table_create(rank->ctx, g, 1, &rank->table) == LS_OK);
  ls_graph_destroy(g);
  ls_state_owner_t owner = cut == CUT_NONE ? LS_STATE_REPLICATED : LS_STATE_SHARDED;
  declare(rank,
          (ls_state_row_t){.name = "moment",
                           .of_layout = true,
                           .trained = true,
                           .shape = {.dtype = LS_F32},
                           .owner = owner,
                           .file = LS_STATE_OPTIMIZER},
          CUT_TWICE);
  declare(rank,
          (ls_state_row_t){
              .name = "half", .shape = LS_SHAPE(LS_BF16, 7, 9), .owner = owner, .file = LS_STATE_MODEL},
          CUT_TWICE);
  declare(rank,
          (ls_state_row_t){
              .name = "big", .shape = LS_SHAPE(LS_F64, rows_big), .owner = owner, .file = LS_STATE_MODEL},
          cut);
  declare(rank,
          (ls_state_row_t){
              .name = "few", .shape = LS_SHAPE(LS_U16, 2), .owner = owner, .file = LS_STATE_OPTIMIZER},
          CUT_TWICE);
  declare(rank, (ls_state_row_t){.name = "steps", .shape = LS_SHAPE(LS_I64, 3), .file = LS_STATE_OPTIMIZER},
          cut);
  declare(rank,
          (ls_state_row_t){
              .name = "own", .shape = LS_SHAPE(LS_I32, 5), .owner = LS_STATE_LOCAL, .file = LS_STATE_MODEL},
          cut);
  NEED(rank->table->count <= ROWS_MAX);
}

/* ---- values ---- */

static const ls_range_t *ranges_of(const ls_state_row_t *row, ls_range_t *all, int *count) {
  *all = (ls_range_t){0, ls_shape_count(&row->shape)};
  *count = row->owner == LS_STATE_SHARDED ? row->range_count : 1;
  return row->owner == LS_STATE_SHARDED ? row->range : all;
}

/* Head and padding of a layout are in no tensor. */
static bool is_saved(const rank_t *rank, const ls_state_row_t *row, int64_t element) {
  bool saved = !row->of_layout && row->owner != LS_STATE_LOCAL;
  const ls_layout_t *layout = rank->table->layout;
  for (int i = 0; row->of_layout && i < (row->trained ? layout->trained_count : layout->count); i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    saved = saved || (element >= e->offset && element < e->offset + e->count);
  }
  return saved;
}

/* No byte of it is 0xff, so it is finite in every type. */
static void value_of(int row, int64_t element, int64_t step, size_t size, unsigned char *value) {
  uint64_t x = ((uint64_t)step * ROWS_MAX + (uint64_t)row) * 0x9E3779B97F4A7C15u +
               (uint64_t)element * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 31) & 0x3f3f3f3f3f3f3f3fu;
  memcpy(value, &x, size);
}

typedef void (*visit_fn)(rank_t *rank, int row, int64_t element, unsigned char *at, bool saved, int64_t step);

static void visit_all(rank_t *rank, int64_t step, visit_fn visit) {
  for (int i = 0; i < rank->table->count; i++) {
    const ls_state_row_t *row = &rank->table->row[i];
    ls_range_t all;
    int count;
    const ls_range_t *range = ranges_of(row, &all, &count);
    unsigned char *at = rank->host[i];
    for (int k = 0; k < count; k++)
      for (int64_t e = range[k].begin; e < range[k].end; e++, at += ls_dtype_bytes(row->shape.dtype))
        visit(rank, i, e, at, is_saved(rank, row, e), step);
  }
}

static void fill_one(rank_t *rank, int row, int64_t element, unsigned char *at, bool saved, int64_t step) {
  (void)saved;
  value_of(row, element, step, ls_dtype_bytes(rank->table->row[row].shape.dtype), at);
}

static void check_one(rank_t *rank, int row, int64_t element, unsigned char *at, bool saved, int64_t step) {
  unsigned char want[8];
  size_t size = ls_dtype_bytes(rank->table->row[row].shape.dtype);
  memset(want, 0xA5, sizeof want);
  if (saved) value_of(row, element, step, size, want);
  if (memcmp(at, want, size) == 0) return;
  print_error("rank %d of %d: element %lld of %s is wrong\n", rank->rank, rank->size, (long long)element,
              rank->table->row[row].name);
  abort();
}

static void count_one(rank_t *rank, int row, int64_t element, unsigned char *at, bool saved, int64_t step) {
  (void)element, (void)at, (void)step;
  const ls_state_row_t *r = &rank->table->row[row];
  int64_t size = saved ? (int64_t)ls_dtype_bytes(r->shape.dtype) : 0;
  *(r->owner == LS_STATE_SHARDED ? &rank->own_bytes : &rank->replicated_bytes) += size;
}

void rows_fill(rank_t *rank, int64_t step) {
  visit_all(rank, step, fill_one);
}

void rows_poison(rank_t *rank) {
  for (int i = 0; i < rank->table->count; i++)
    memset(rank->host[i], 0xA5, ls_state_row_bytes(&rank->table->row[i]));
}

void rows_check(const rank_t *rank, int64_t step) {
  rank_t copy = *rank;
  visit_all(&copy, step, check_one);
}

/* ---- saving and loading ---- */

ls_ckpt_save_t rows_request(const rank_t *rank, const ls_ckpt_rows_t *rows, int64_t step, double metric) {
  return (ls_ckpt_save_t){.step = step,
                          .metric = metric,
                          .params = rows->tensor[0],
                          .param_count = rows->count[0],
                          .optim = rows->tensor[1],
                          .optim_count = rows->count[1],
                          .comm = rank->comm};
}

ls_status_t rows_save(rank_t *rank, const char *dir, int64_t step, double metric, int keep) {
  ls_ckpt_rows_t rows = {0};
  rows_fill(rank, step);
  ls_status_t status = ls_ckpt_rows(rank->ctx, rank->table, rank->host, &rows);
  status = ls_comm_agree(rank->comm, "rows", status);
  const ls_ckpt_save_t save = rows_request(rank, &rows, step, metric);
  char *path = NULL;
  if (!status) status = ls_ckpt_save(rank->ctx, dir, &save, keep, &path);
  NEED((path != NULL) == (!status && rank->rank == 0));
  ls_free(path);
  ls_arena_release(&rows.arena);
  return status;
}

int64_t rows_load(rank_t *rank, const char *dir, void (*opened)(void)) {
  ls_ckpt_t *ckpt = NULL;
  ls_status_t status = rank->rank == 0 ? ls_ckpt_open_newest(rank->ctx, dir, &ckpt) : LS_OK;
  int64_t step = status == LS_OK && ckpt ? ls_ckpt_step(ckpt) : -1;
  status = ls_comm_agree(rank->comm, "opening", status);
  if (!status) status = ls_comm_broadcast(rank->comm, "step", &step, sizeof step, 0);
  rows_poison(rank);
  if (opened) opened();
  if (!status) status = ls_ckpt_load(rank->ctx, rank->comm, ckpt, rank->table, rank->host, false);
  ls_ckpt_close(ckpt);
  rank->status = status;
  if (status) return -1;
  rows_check(rank, step);
  return step;
}

/* ---- ranks ---- */

typedef struct {
  rank_t *rank;
  cut_t cut;
  work_fn work;
} start_t;

static void keep_message(void *user, ls_log_level_t level, const char *message) {
  rank_t *rank = user;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  size_t used = strlen(rank->f->log);
  snprintf(rank->f->log + used, sizeof rank->f->log - used, "%d %c %s\n", rank->rank, "EWID"[level], message);
  pthread_mutex_unlock(&lock);
}

static void *rank_main(void *arg) {
  const start_t *start = arg;
  rank_t *rank = start->rank;
  rank->ctx = ls_ctx_create(keep_message, rank);
  NEED(rank->ctx);
  make_table(rank, start->cut);
  for (int i = 0; i < rank->table->count; i++)
    NEED((rank->host[i] = malloc(ls_state_row_bytes(&rank->table->row[i]) + 1)));
  visit_all(rank, 0, count_one);
  start->work(rank);
  for (int i = 0; i < rank->table->count; i++)
    free(rank->host[i]);
  ls_state_table_release(rank->table);
  ls_ctx_destroy(rank->ctx);
  return NULL;
}

void world_run(int size, cut_t cut, work_fn work, void *arg, rank_t rank[RANKS_MAX]) {
  ls_comm_t *comms[RANKS_MAX];
  start_t start[RANKS_MAX];
  NEED(ls_comm_sim_create(f->ctx, size, (int64_t)DEADLINE_S * 1000000000, comms) == LS_OK);
  for (int r = 0; r < size; r++) {
    rank[r] = (rank_t){.rank = r, .size = size, .comm = comms[r], .f = f, .arg = arg};
    start[r] = (start_t){&rank[r], cut, work};
  }
  threads_run(size, rank_main, start, sizeof *start);
  for (int r = 0; r < size; r++)
    ls_comm_destroy(comms[r]);
}

static void load_newest(rank_t *rank) {
  int64_t step = rows_load(rank, rank->f->dir, NULL);
  if (rank->rank == 0) *(int64_t *)rank->arg = step;
}

int64_t world_newest(int size) {
  rank_t rank[RANKS_MAX];
  int64_t step = -1;
  world_run(size, CUT_TWICE, load_newest, &step, rank);
  return step;
}
