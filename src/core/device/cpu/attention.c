/* Attention and its gradient, with or without padding, block by block: scores of QUERIES x KEYS stay in the nearest
 * cache. Forward, threads share blocks of queries. Backward, they share heads, because keys collect from all
 * queries. Nothing depends on the number of threads. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { QUERIES = 64, KEYS = 64, COLUMNS = 64 };

typedef struct {
  const ls_simd_t *simd;
  int64_t t, d, heads, size, blocks; /* blocks of queries */
  bool causal;
  float scale, kept; /* kept: the factor of probabilities that are not dropped */
  uint64_t seed, position, counters;
  uint32_t stream, threshold;
  const int32_t *lengths; /* of each sample; NULL: all are t long */
  const float *qkv, *dy, *result;
  float *y, *lse, *dqkv;
} attention_t;

typedef struct {
  float s[QUERIES][KEYS], dp[QUERIES][KEYS], part[QUERIES][COLUMNS]; /* QUERIES == KEYS: part serves both */
} room_t;
_Static_assert((int)QUERIES == (int)KEYS, "a part holds rows of queries or of keys");

static attention_t attention_of(ls_stream_t *stream, const ls_kernel_args_t *args, int qkv, int step_index) {
  const ls_shape_t *shape = &args->in[qkv].shape;
  const ls_step_params_t *step = args->in[step_index].data;
  double rate = args->attrs->f[0];
  attention_t a = {.simd = ls_cpu_simd(stream),
                   .t = shape->dim[1],
                   .d = shape->dim[2] / 3,
                   .heads = args->attrs->i[0],
                   .causal = args->attrs->i[1] != 0,
                   .kept = (float)(1 / (1 - rate)),
                   .seed = step->seed,
                   .position = step->position,
                   .stream = (uint32_t)(LS_RNG_DROPOUT + args->attrs->i[2]),
                   .threshold = (uint32_t)ceil((double)(float)rate * 0x1p24),
                   .qkv = args->in[qkv].data};
  a.size = a.d / a.heads;
  a.blocks = (a.t + QUERIES - 1) / QUERIES;
  a.scale = (float)(1 / sqrt((double)a.size));
  a.counters = (uint64_t)(a.heads * a.t * a.t + 3) / 4;
  return a;
}

/* The dropout factors of a query: `count` of them, from key `first` on. */
static const float *mask(const attention_t *a, int64_t row, int64_t head, int64_t query, int64_t first,
                         int64_t count, float room[KEYS + 4]) {
  uint64_t e = (uint64_t)((head * a->t + query) * a->t + first), skip = e % 4;
  for (int64_t i = 0; i < count + (int64_t)skip; i++)
    room[i] = 1;
  a->simd->dropout(count + (int64_t)skip, a->seed, a->stream,
                   (a->position + (uint64_t)row) * a->counters + e / 4, a->threshold, a->kept, room, room);
  return room + skip;
}

static int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Places of a sample that take part. */
static int64_t length_of(const attention_t *a, int64_t row) {
  return a->lengths ? least(a->lengths[row] > 0 ? a->lengths[row] : 0, a->t) : a->t;
}

/* The number of keys among `count` from `first` on that the query sees. */
static int64_t seen(const attention_t *a, int64_t query, int64_t first, int64_t count) {
  return a->causal ? least(query + 1 - first, count) : count;
}

/* y (rows, size) = y * old + part of this block of keys, in columns that fit the room. */
static void add_values(const attention_t *a, room_t *room, int64_t rows, int64_t keys, bool first,
                       const float *old, const float *v, float *y) {
  for (int64_t c = 0; c < a->size; c += COLUMNS) {
    int64_t columns = least(COLUMNS, a->size - c);
    float *to = first ? y + c : room->part[0];
    a->simd->product_nn(rows, 0, columns, keys, room->s[0], KEYS, v + c, 3 * a->d, to,
                        first ? a->d : COLUMNS);
    for (int64_t r = 0; r < rows && !first; r++)
      for (int64_t k = 0; k < columns; k++)
        y[r * a->d + c + k] = y[r * a->d + c + k] * old[r] + room->part[r][k];
  }
}

/* Computes one block of queries. Each block of keys has probabilities of its own. When it is joined by its lse, the
 * result so far shrinks to its share of the whole. */
static void forward_block(const attention_t *a, int64_t row, int64_t head, int64_t query, room_t *room) {
  int64_t length = length_of(a, row), rows = least(QUERIES, length - query), stride = 3 * a->d;
  const float *q = a->qkv + (row * a->t + query) * stride + head * a->size;
  const float *k = a->qkv + row * a->t * stride + a->d + head * a->size;
  float *y = a->y + (row * a->t + query) * a->d + head * a->size;
  float *lse = a->lse + (row * a->heads + head) * a->t + query, old[QUERIES], kept[KEYS + 4];
  for (int64_t r = rows < 0 ? 0 : rows; r < least(QUERIES, a->t - query); r++) {
    memset(y + r * a->d, 0, (size_t)a->size * sizeof *y);
    lse[r] = 0;
  }
  int64_t end = rows <= 0 ? 0 : a->causal ? query + rows : length;
  for (int64_t first = 0; first < end; first += KEYS) {
    int64_t keys = least(KEYS, end - first);
    a->simd->product_nt(rows, 0, keys, a->size, q, stride, k + first * stride, stride, NULL, room->s[0],
                        KEYS);
    for (int64_t r = 0; r < rows; r++) {
      float *s = room->s[r], share = 1;
      int64_t count = seen(a, query + r, first, keys);
      float block = a->simd->softmax_row(count, a->scale, s, s);
      if (first > 0) {
        float whole = fmaxf(lse[r], block) + log1pf(expf(-fabsf(lse[r] - block)));
        old[r] = expf(lse[r] - whole);
        share = expf(block - whole);
        block = whole;
      }
      lse[r] = block;
      const float *m = a->threshold ? mask(a, row, head, query + r, first, count, kept) : NULL;
      for (int64_t i = 0; i < count && (m || first > 0); i++)
        s[i] *= m ? share * m[i] : share;
      memset(s + count, 0, (size_t)(keys - count) * sizeof *s);
    }
    add_values(a, room, rows, keys, first == 0, old, k + a->d + first * stride, y);
  }
}

static void forward_blocks(const void *arg, int64_t begin, int64_t end) {
  const attention_t *a = arg;
  room_t room;
  for (int64_t i = begin; i < end; i++)
    forward_block(a, i / a->blocks / a->heads, i / a->blocks % a->heads, i % a->blocks * QUERIES, &room);
}

/* An exponential takes as long as about 16 FLOPs. */
static ls_cpu_work_t work(const attention_t *a, int64_t rows, int64_t products) {
  int64_t pairs = rows * a->heads * a->t * a->t;
  return LS_CPU_FLOPS(pairs / (a->causal ? 2 : 1) * (2 * products * a->size + 16));
}

static ls_status_t attention(ls_stream_t *stream, const ls_kernel_args_t *args) {
  attention_t a = attention_of(stream, args, 0, 1);
  int64_t rows = args->in[0].shape.dim[0];
  a.lengths = args->in_count > 2 ? args->in[2].data : NULL;
  a.y = args->out[0].data;
  a.lse = args->out[1].data;
  ls_cpu_loop(stream, rows * a.heads * a.blocks, 1, work(&a, rows, 2), forward_blocks, &a);
  return LS_OK;
}

/* to (rows, size), 3 d apart, = or += the product of one block: s^T b if `across`, else s b. */
static void add_product(const attention_t *a, room_t *room, bool across, bool first, int64_t rows,
                        int64_t depth, const float *s, const float *b, int64_t ldb, float *to) {
  int64_t stride = 3 * a->d;
  for (int64_t c = 0; c < a->size; c += COLUMNS) {
    int64_t columns = least(COLUMNS, a->size - c), ld = first ? stride : COLUMNS;
    float *out = first ? to + c : room->part[0];
    if (across)
      a->simd->product_tn(0, rows, columns, depth, s, KEYS, b + c, ldb, out, ld);
    else
      a->simd->product_nn(rows, 0, columns, depth, s, KEYS, b + c, ldb, out, ld);
    for (int64_t r = 0; r < rows && !first; r++)
      a->simd->add(columns, to + r * stride + c, room->part[r], to + r * stride + c);
  }
}

/* Computes scores and slopes of a block, then adds its parts of dq, dk and dv. */
static void backward_block(const attention_t *a, int64_t row, int64_t head, int64_t query, int64_t first,
                           const float *given, room_t *room) {
  int64_t length = length_of(a, row), stride = 3 * a->d;
  int64_t rows = least(QUERIES, length - query), keys = least(KEYS, length - first);
  int64_t own = row * a->t * stride + head * a->size;
  const float *q = a->qkv + own + query * stride, *k = a->qkv + own + a->d + first * stride;
  const float *dy = a->dy + (row * a->t + query) * a->d + head * a->size;
  const float *lse = a->lse + (row * a->heads + head) * a->t + query;
  float *dq = a->dqkv + own + query * stride, *dk = a->dqkv + own + a->d + first * stride, kept[KEYS + 4];
  a->simd->product_nt(rows, 0, keys, a->size, q, stride, k, stride, NULL, room->s[0], KEYS);
  a->simd->product_nt(rows, 0, keys, a->size, dy, a->d, k + a->d, stride, NULL, room->dp[0], KEYS);
  for (int64_t r = 0; r < rows; r++) {
    int64_t count = seen(a, query + r, first, keys);
    const float *m = a->threshold ? mask(a, row, head, query + r, first, count, kept) : NULL;
    a->simd->attention_slopes(count, a->scale, lse[r], given[r], m, room->s[r], room->dp[r]);
    memset(room->s[r] + count, 0, (size_t)(keys - count) * sizeof(float));
    memset(room->dp[r] + count, 0, (size_t)(keys - count) * sizeof(float));
  }
  bool newest = query == (a->causal ? first : 0); /* the first block of queries that sees these keys */
  add_product(a, room, false, first == 0, rows, keys, room->dp[0], k, stride, dq);
  add_product(a, room, true, newest, keys, rows, room->dp[0], q, stride, dk);
  add_product(a, room, true, newest, keys, rows, room->s[0], dy, a->d, dk + a->d);
}

static void backward_heads(const void *arg, int64_t begin, int64_t end) {
  const attention_t *a = arg;
  room_t room;
  float given[QUERIES];
  for (int64_t i = begin; i < end; i++) {
    int64_t row = i / a->heads, head = i % a->heads, length = length_of(a, row);
    for (int64_t k = length * 3; k < a->t * 3; k++)
      memset(a->dqkv + (row * a->t * 3 + k) * a->d + head * a->size, 0, (size_t)a->size * sizeof *a->dqkv);
    for (int64_t query = 0; query < length; query += QUERIES) {
      for (int64_t r = 0; r < least(QUERIES, length - query); r++) {
        int64_t at = (row * a->t + query + r) * a->d + head * a->size;
        given[r] = a->simd->dot(a->size, a->dy + at, a->result + at);
      }
      for (int64_t first = 0; first < (a->causal ? query + 1 : length); first += KEYS)
        backward_block(a, row, head, query, first, given, &room);
    }
  }
}

static ls_status_t attention_dx(ls_stream_t *stream, const ls_kernel_args_t *args) {
  attention_t a = attention_of(stream, args, 1, 4);
  int64_t rows = args->in[1].shape.dim[0];
  a.lengths = args->in_count > 5 ? args->in[5].data : NULL;
  a.dy = args->in[0].data;
  a.result = args->in[2].data;
  a.lse = args->in[3].data;
  a.dqkv = args->out[0].data;
  ls_cpu_loop(stream, rows * a.heads, 1, work(&a, rows, 5), backward_heads, &a);
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_attention_rows[] = {{"attention", attention},
                                              {"attention_dx", attention_dx},
                                              {"attention_padded", attention},
                                              {"attention_padded_dx", attention_dx},
                                              {0}};
