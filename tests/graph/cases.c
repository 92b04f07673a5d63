/* Deterministic data for op test cases, counter-based so that no case depends on another. */
#include "graph/cases.h"

#include "graph/low.h"
#include "graph/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const op_cases_t *cases_of(const ls_op_t *op) {
  static const op_cases_t none = {0};
  for (int file = 0; case_files[file]; file++)
    for (const op_cases_t *row = case_files[file]; row->op; row++)
      if (strcmp(row->op, op->name) == 0) return row;
  return &none;
}

/* FNV-1a (Fowler, Noll, Vo): one seed per op, case and tensor. */
static uint64_t seed_of(const ls_op_t *op, const op_case_t *c, int index) {
  uint64_t hash = 0xcbf29ce484222325u + (uint64_t)index;
  for (const char *p = op->name; *p; p++)
    hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
  for (const char *p = c->name; *p; p++)
    hash = (hash ^ (unsigned char)*p) * 0x100000001b3u;
  return hash;
}

static float unit(uint64_t seed, int64_t k) {
  return ls_rng_unit(ls_rng(seed, 0, (uint64_t)k / 4).v[k % 4]);
}

void case_fill_uniform(uint64_t seed, float lo, float hi, int64_t count, float *to) {
  ls_rng4_t words = {{0}};
  for (int64_t k = 0; k < count; k++) {
    if (k % 4 == 0) words = ls_rng(seed, 0, (uint64_t)k / 4);
    to[k] = hi > lo ? lo + (hi - lo) * ls_rng_unit(words.v[k % 4]) : lo;
  }
}

void case_fill_inout(const ls_op_t *op, const op_case_t *c, int index, int64_t count, float *to) {
  uint64_t seed = seed_of(op, c, 100 + index);
  for (int64_t k = 0; k < count; k++)
    to[k] = (float)(1 + (int)(4 * unit(seed, k)));
}

void case_fill_input(const ls_op_t *op, const op_case_t *c, int index, void *to) {
  const case_input_t *in = &c->in[index];
  uint64_t seed = seed_of(op, c, index);
  int64_t count = ls_shape_count(&in->shape);
  float *f = to;
  switch (in->fill) {
  case FILL_UNIFORM:
    case_fill_uniform(seed, in->lo, in->hi, count, f);
    for (int64_t k = count - 1; k >= 0 && in->shape.dtype == LS_F64; k--) { /* in place */
      double wide = (double)f[k];
      memcpy((double *)to + k, &wide, sizeof wide);
    }
    break;
  case FILL_POSITIVE: {
    double sum = 0;
    case_fill_uniform(seed, in->lo, in->hi, count, f);
    for (int64_t k = 0; k < count; k++)
      sum += f[k];
    for (int64_t k = 0; k < count; k++)
      f[k] = (float)(f[k] / sum);
    break;
  }
  case FILL_CLASS:
    for (int64_t k = 0; k < count; k++) {
      int32_t whole = (int32_t)(in->hi * unit(seed, k));
      if (in->shape.dtype == LS_F32) f[k] = (float)whole;
      if (in->shape.dtype == LS_U8) ((uint8_t *)to)[k] = (uint8_t)whole;
      if (ls_dtype_bytes(in->shape.dtype) == sizeof(uint16_t)) ((uint16_t *)to)[k] = (uint16_t)whole;
      if (in->shape.dtype == LS_I32) ((int32_t *)to)[k] = whole;
    }
    break;
  case FILL_STEP: {
    ls_step_params_t step = {.seed = 42,
                             .position = (uint64_t)in->lo,
                             .lr = 0.125f,
                             .mean = {33.3f, 44.5f, 0.25f, 7.0f},
                             .scale = {0.0123f, 0.25f, 3.5f, 0.0625f}};
    memcpy(to, &step, sizeof step);
    break;
  }
  }
}

ls_status_t case_shapes(ls_ctx_t *ctx, const ls_op_t *op, const op_case_t *c, ls_shape_t *in,
                        ls_shape_t *out) {
  for (int i = 0; i < c->in_count; i++)
    in[i] = c->in[i].shape;
  return ls_op_shape(ctx, op, &c->attrs, in, out);
}

/* ---- drawn cases ---- */

enum { SIZES_MAX = LS_NODE_IN_MAX * LS_DIMS_MAX };

/* The sizes of a listed case, ascending, and what stands for each of them. */
typedef struct {
  int count;
  int64_t was[SIZES_MAX], now[SIZES_MAX];
} sizes_t;

static void collect(const op_case_t *c, sizes_t *sizes) {
  sizes->count = 0;
  for (int i = 0; i < c->in_count; i++)
    for (int d = 0; c->in[i].fill != FILL_STEP && d < c->in[i].shape.rank; d++) {
      int64_t size = c->in[i].shape.dim[d];
      int at = 0;
      while (at < sizes->count && sizes->was[at] < size)
        at++;
      if (at < sizes->count && sizes->was[at] == size) continue;
      memmove(&sizes->was[at + 1], &sizes->was[at], (size_t)(sizes->count++ - at) * sizeof sizes->was[0]);
      sizes->was[at] = size;
    }
}

/* Small mostly; within a vector, beyond a vector, beyond a block. */
static int64_t draw_size(draw_t *draw, int64_t was) {
  static const int64_t most[] = {1, 9, 9, 9, 40, 90};
  const int64_t way = draw_below(draw, 2 + LS_COUNT(most));
  return way < 2 ? was : 1 + draw_below(draw, most[way - 2]);
}

static void draw_sizes(draw_t *draw, sizes_t *sizes) {
  for (int k = 0; k < sizes->count; k++) {
    sizes->now[k] = draw_size(draw, sizes->was[k]);
    if (k == 0 || draw_one_in(draw, 3)) continue;
    const int64_t of = draw_below(draw, k), rest = sizes->was[k] % sizes->was[of],
                  times = sizes->was[k] / sizes->was[of];
    if (rest <= 1 && times <= 4) sizes->now[k] = times * sizes->now[of] + rest;
  }
}

static const int64_t *find_now(const sizes_t *sizes, int64_t was) {
  for (int k = 0; k < sizes->count; k++)
    if (sizes->was[k] == was) return &sizes->now[k];
  return NULL;
}

/* The new size for `was`; `was` itself if that is no size. */
static int64_t now_of(const sizes_t *sizes, int64_t was) {
  const int64_t *now = find_now(sizes, was);
  return now ? *now : was;
}

static bool has_bounds(const op_case_t *c) {
  bool has = false;
  for (int i = 0; i < c->in_count; i++)
    has = has || c->in[i].fill == FILL_CLASS;
  return has;
}

/* One try. False: a bound of whole numbers may belong to either of two sizes. */
static bool try_case(const ls_op_t *op, draw_t *draw, op_case_t *to) {
  sizes_t sizes;
  const op_cases_t *row = cases_of(op);
  *to = row->cases[draw_below(draw, row->count)];
  collect(to, &sizes);
  draw_sizes(draw, &sizes);
  for (int i = 0; i < to->in_count; i++) {
    if (to->in[i].fill != FILL_CLASS) continue;
    const int64_t bound = (int64_t)to->in[i].hi;
    const int64_t *size = find_now(&sizes, bound), *next = find_now(&sizes, bound - 1);
    if (size && next) return false;
    if (size || next) to->in[i].hi = (float)(size ? *size : *next + 1);
  }
  for (int i = 0; i < to->in_count; i++)
    for (int d = 0; to->in[i].fill != FILL_STEP && d < to->in[i].shape.rank; d++) {
      int64_t *size = &to->in[i].shape.dim[d];
      *size = !has_bounds(to) && draw_one_in(draw, 12) ? draw_size(draw, *size) : now_of(&sizes, *size);
    }
  for (int k = 0; k < LS_COUNT(to->attrs.i); k++)
    if (row->drawn >> k & 1)
      to->attrs.i[k] = draw_one_in(draw, 4) ? draw_below(draw, 5) : now_of(&sizes, to->attrs.i[k]);
  return true;
}

static bool fits(const ls_op_t *op, const op_case_t *c, int64_t elements) {
  ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  if (case_shapes(NULL, op, c, in, out)) return false;
  for (int i = 0; i < op->in_count; i++)
    if (ls_shape_count(&in[i]) > elements) return false;
  for (int i = 0; i < op->out_count; i++)
    if (ls_shape_count(&out[i]) < 1 || ls_shape_count(&out[i]) > elements) return false;
  return ls_op_flops(op, &c->attrs, in, out) <= 64 * elements;
}

static bool draw_from_listed(const ls_op_t *op, draw_t *draw, int64_t elements, op_case_t *to) {
  enum { TRIES = 20000 };
  int tries = 0;
  while (tries < TRIES && !(try_case(op, draw, to) && fits(op, to, elements)))
    tries++;
  return tries < TRIES;
}

/* conv2d of conv2d_dx and conv2d_dw. NULL: none. */
static const ls_op_t *forward_of(const ls_op_t *op) {
  const ls_op_t *found = NULL;
  for (int k = 0; ls_ops[k]; k++) {
    const size_t length = strlen(ls_ops[k]->name);
    if (ls_ops[k]->backward && strncmp(op->name, ls_ops[k]->name, length) == 0 && op->name[length] == '_' &&
        (!found || length > strlen(found->name)))
      found = ls_ops[k];
  }
  return found;
}

/* The sizes that `op` has in the gradient of `from`, a case of `forward`. False: it has no such node. */
static bool take_sizes(ls_ctx_t *ctx, const ls_op_t *op, const ls_op_t *forward, const op_case_t *from,
                       op_case_t *to) {
  ls_graph_t *graph = NULL;
  ls_tensor_id_t in[LS_NODE_IN_MAX], dy[LS_NODE_OUT_MAX], dx[LS_NODE_IN_MAX];
  bool wanted[LS_NODE_IN_MAX], found = false;
  static const char *const names[] = {"in0", "in1", "in2", "in3", "in4", "in5", "in6", "in7"};
  if (ls_graph_create(ctx, &graph)) return false;
  for (int i = 0; i < from->in_count; i++) {
    in[i] = ls_graph_input(graph, names[i], from->in[i].shape);
    wanted[i] = from->in[i].shape.dtype == LS_F32;
  }
  for (int i = 0; i < forward->out_count; i++)
    dy[i] = -1;
  dy[0] = ls_graph_op(graph, forward, &from->attrs, from->in_count, in, NULL);
  const ls_graph_node_t first = graph->nodes[0]; /* a copy: appending moves the array */
  dy[0] = ls_graph_input(graph, "dy", graph->tensors[dy[0]].shape);
  (void)forward->backward(graph, &first, dy, wanted, dx);
  for (int n = 1; n < graph->node_count && !found; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    found = node->op == op;
    for (int i = 0; found && i < op->in_count; i++)
      to->in[i].shape = graph->tensors[node->in[i]].shape;
    if (found) to->attrs = node->attrs;
  }
  ls_graph_destroy(graph);
  return found;
}

/* Draws sizes as layers have them. Only the forward case knows bounds of whole numbers. */
static bool draw_gradient(const ls_op_t *op, draw_t *draw, int64_t elements, op_case_t *to) {
  const ls_op_t *forward = forward_of(op);
  op_case_t from;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  const op_cases_t *row = cases_of(op);
  *to = row->cases[draw_below(draw, row->count)];
  const bool found = forward && draw_from_listed(forward, draw, elements, &from) && !has_bounds(&from) &&
                     take_sizes(ctx, op, forward, &from, to);
  ls_ctx_destroy(ctx);
  return found;
}

bool case_draw(const ls_op_t *op, draw_t *draw, int64_t elements, char name[CASE_NAME_BYTES], op_case_t *to) {
  if (!draw_gradient(op, draw, elements, to) && !draw_from_listed(op, draw, elements, to)) return false;
  int at = snprintf(name, CASE_NAME_BYTES, "drawn by seed %llu like '%s':", (unsigned long long)draw->seed,
                    to->name);
  for (int i = 0; i < to->in_count && at < CASE_NAME_BYTES; i++) {
    char text[LS_SHAPE_TEXT_BYTES];
    at += snprintf(name + at, (size_t)(CASE_NAME_BYTES - at), " %s", ls_shape_text(&to->in[i].shape, text));
  }
  for (int k = 0; k < LS_COUNT(to->attrs.i) && at < CASE_NAME_BYTES; k++)
    if (to->attrs.i[k])
      at += snprintf(name + at, (size_t)(CASE_NAME_BYTES - at), " i%d=%lld", k, (long long)to->attrs.i[k]);
  to->name = name;
  double tolerance = 0; /* sums may be longer than those of the case, and of other numbers */
  for (int k = 0; k < cases_of(op)->count; k++)
    tolerance = fmax(tolerance, cases_of(op)->cases[k].tolerance);
  to->tolerance = 4 * tolerance;
  return true;
}
