/* Places the tensors of a graph. Inputs, parameters and gradients have fixed places; values that the host
 * reads have a destination; everything else is transient. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

#include <string.h>

enum { FLOAT_BYTES = sizeof(float) };

ls_region_t ls_lowering_row(ls_lowering_t *l, const char *name) {
  int index = l->s->status ? -1 : ls_state_find(l->in->state, name);
  if (index < 0 && !l->s->status)
    l->s->status = ls_fail(l->s->ctx, LS_ERR_INTERNAL, "lower: row '%s' of the state was not declared", name);
  return index < 0 ? 0 : LS_REGION_STATE + index;
}

int ls_lowering_flat(ls_lowering_t *l, const char *name, ls_region_t region, int64_t begin, int64_t end) {
  return ls_schedule_tensor(l->s, name, LS_SHAPE(LS_F32, end - begin), region, (size_t)begin * FLOAT_BYTES);
}

int ls_lowering_put(ls_lowering_t *l, const char *name, ls_shape_t shape, ls_region_t region,
                    size_t *offset_bytes) {
  int tensor = ls_schedule_tensor(l->s, name, shape, region, *offset_bytes);
  *offset_bytes = ls_align_up(*offset_bytes + ls_shape_bytes(&shape));
  return tensor;
}

int ls_lowering_step(const ls_lowering_t *l) {
  ls_tensor_id_t id = ls_graph_find(l->in->graph, LS_NAME_STEP);
  return id < 0 ? -1 : l->tensor[id];
}

/* The 1 with which the backward pass starts (graph/backward.c) comes with the step's numbers: no task makes it. */
static void place_seed(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  const int maker = graph->seed < 0 ? -1 : graph->tensors[graph->seed].producer, step = ls_lowering_step(l);
  if (maker >= 0 && step >= 0 && graph->nodes[maker].op == &ls_op_fill && graph->nodes[maker].attrs.f[0] == 1)
    l->tensor[graph->seed] = ls_schedule_part(l->s, "dloss", graph->tensors[graph->seed].shape, step,
                                              offsetof(ls_step_params_t, dloss));
}

static ls_status_t place_inputs(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  size_t offset_bytes = 0;
  if (l->in->data_rows > 0) ls_lowering_tables(l, &offset_bytes);
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    if (t->role != LS_ROLE_INPUT || ls_lowering_gathered(l, t)) continue;
    if (strcmp(t->name, LS_COUNTER_NAME) == 0) {
      l->tensor[id] = ls_lowering_counter(l, &t->shape);
      continue;
    }
    l->tensor[id] = ls_lowering_put(l, t->name, t->shape, LS_REGION_INPUT, &offset_bytes);
  }
  place_seed(l);
  if (!offset_bytes || !l->in->copies) return l->s->status;

  /* Copies a whole slot at once, padding included. With one slot there is no next one: the host sends
   * each. */
  ls_shape_t bytes = LS_SHAPE(LS_U8, (int64_t)offset_bytes);
  ls_schedule_tensor(l->s, "input", bytes, LS_REGION_INPUT, 0);
  int from = ls_schedule_tensor(l->s, "next input (host)", bytes, LS_REGION_HOST_NEXT, 0);
  if (l->in->input_slots == 1) return l->s->status;
  int to = ls_schedule_tensor(l->s, "next input", bytes, LS_REGION_INPUT_NEXT, 0);
  ls_schedule_copy(l->s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "next input", from, to);
  return l->s->status;
}

/* The tensor in which the gradient at an element of the layout is computed: in this rank's part of its bucket. The head is
 * never scattered. */
static int gradient(ls_lowering_t *l, const char *name, ls_shape_t shape, int64_t element) {
  const ls_bucket_t *at = l->bucket;
  while (at->end <= element)
    at++;
  if (l->placement->scatters && element >= LS_LAYOUT_HEAD)
    return ls_schedule_part(l->s, name, shape, at->gradients,
                            (size_t)(element - ls_bucket_first(at)) * FLOAT_BYTES);
  int64_t place = l->parts * at->begin + l->part * (at->end - at->begin) + element - at->begin;
  return ls_schedule_tensor(l->s, name, shape, l->sums, (size_t)place * FLOAT_BYTES);
}

/* Level k of the tree holds the sum of 2^k shards until another such sum exists; the two highest levels are
 * the destination itself, as is the only level without a tree. */
static int sum_at(ls_lowering_t *l, ls_tensor_id_t id, int level) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  const ls_destination_t *destination = &l->destination[id];
  if (level >= l->levels) return destination->tensor;
  int64_t place = level * l->layout->trained + destination->element;
  return ls_schedule_tensor(l->s, t->name, t->shape, l->shards, (size_t)place * FLOAT_BYTES);
}

static void make_sum(ls_lowering_t *l, ls_tensor_id_t id, int64_t element) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  ls_destination_t *destination = &l->destination[id];
  destination->element = element;
  destination->adds = l->placement->scatters && element >= LS_LAYOUT_HEAD ? 0 : l->adds;
  destination->tensor = gradient(l, t->name, t->shape, element);
  destination->begin = sum_at(l, id, 0);
}

bool ls_lowering_casts(const ls_graph_t *graph, const ls_graph_node_t *node) {
  return node->op == &ls_op_cast && graph->tensors[node->in[0]].role == LS_ROLE_PARAM;
}

/* One task casts all parameters. */
static void place_casts(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  for (int n = 0; n < graph->node_count && !l->s->status; n++) {
    const ls_graph_node_t *node = &graph->nodes[n];
    if (!ls_lowering_casts(graph, node)) continue;
    const ls_layout_entry_t *e = ls_layout_find(l->layout, graph->tensors[node->in[0]].name);
    const ls_graph_tensor_t *to = &graph->tensors[node->out[0]];
    if (!l->cast.end) l->cast.begin = e->offset;
    if (e->offset < l->cast.begin) l->cast.begin = e->offset;
    if (e->offset + e->count > l->cast.end) l->cast.end = e->offset + e->count;
    l->cast_to = to->shape.dtype;
    l->low = ls_lowering_row(l, LS_ROW_LOW);
    l->tensor[node->out[0]] = ls_schedule_tensor(l->s, to->name, to->shape, l->low,
                                                 (size_t)e->offset * ls_dtype_bytes(to->shape.dtype));
  }
}

static void cast_range(ls_lowering_t *l, ls_region_t masters, int64_t begin, int64_t end) {
  const ls_attrs_t attrs = {.i = {l->cast_to}};
  int from = ls_lowering_flat(l, "masters", masters, begin, end);
  int to = ls_schedule_tensor(l->s, "parameters.low", LS_SHAPE(l->cast_to, end - begin), l->low,
                              (size_t)begin * ls_dtype_bytes(l->cast_to));
  ls_schedule_op(l->s, LS_LANE_COMPUTE, LS_PHASE_STEP_FORWARD, "parameters.low", &ls_op_cast, &attrs, 1,
                 &from, 1, &to);
}

void ls_lowering_cast(ls_lowering_t *l) {
  const ls_range_t *all = &l->cast;
  int64_t trained = l->masters == l->params || all->end < l->layout->trained ? all->end : l->layout->trained;
  if (!all->end || l->adds) return;
  if (trained > all->begin) cast_range(l, l->masters, all->begin, trained);
  if (all->end > trained) cast_range(l, l->params, trained > all->begin ? trained : all->begin, all->end);
}

/* Buckets are for members that end the step, or that scatter. */
static ls_status_t place_buckets(ls_lowering_t *l) {
  const bool scatters = l->placement->scatters;
  for (int i = 0; (l->last || scatters) && i < l->bucket_count; i++) {
    ls_bucket_t *b = &l->bucket[i];
    if (!(b->name = ls_arena_printf(&l->work, "gradients %d", i))) return LS_ERR_MEMORY;
    b->parameters = ls_lowering_flat(l, "parameters", l->params, ls_bucket_first(b), b->end);
    b->head = l->last && b->begin == 0 ? ls_lowering_flat(l, "head", l->grads, 0, LS_LAYOUT_HEAD) : -1;
    if (scatters) {
      ls_lowering_scatter_place(l, b);
      continue;
    }
    b->gradients = b->parts = ls_lowering_flat(l, b->name, l->grads, b->begin, b->end);
    b->trained = ls_lowering_flat(l, b->name, l->grads, ls_bucket_first(b), b->end);
    b->received = ls_lowering_flat(l, "own part", l->grads, b->own.begin, b->own.end);
    if (l->parts > 1)
      b->parts = ls_schedule_tensor(l->s, b->name, LS_SHAPE(LS_F32, l->parts, b->end - b->begin), l->sums,
                                    (size_t)(l->parts * b->begin) * FLOAT_BYTES);
  }
  return l->s->status;
}

static ls_status_t place_params(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  const ls_layout_t *layout = l->layout;
  const int mean = l->in->mean && !l->in->optim ? ls_state_find(l->in->state, LS_OPTIM_EMA) : -1;
  l->params = LS_REGION_STATE + LS_STATE_PARAMETERS;
  l->masters = mean >= 0 ? LS_REGION_STATE + mean : l->params;
  ls_lowering_flat(l, "params", l->params, 0, layout->total);
  if (l->in->optim) l->sums = l->grads = ls_lowering_row(l, LS_ROW_GRADIENTS);
  if (l->levels > 0) l->shards = ls_lowering_row(l, LS_ROW_SHARDS);
  if (l->parts > 1) l->sums = ls_lowering_row(l, LS_ROW_GATHERED);
  ls_status_t status = l->in->optim ? place_buckets(l) : LS_OK;
  if (status) return status;
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    if (t->role != LS_ROLE_PARAM && t->role != LS_ROLE_STATE) continue;
    const ls_layout_entry_t *e = ls_layout_find(layout, t->name);
    if (!e || !ls_shape_equal(&e->shape, &t->shape))
      return ls_fail(l->s->ctx, LS_ERR_MISMATCH, "lower: the layout has no parameter '%s' of this shape",
                     t->name);
    size_t offset_bytes = (size_t)e->offset * FLOAT_BYTES;
    ls_region_t region = e->offset < layout->trained ? l->masters : l->params;
    l->tensor[id] = ls_schedule_tensor(l->s, t->name, t->shape, region, offset_bytes);
    if (t->grad < 0 || !l->in->optim) continue;
    make_sum(l, t->grad, e->offset);
  }
  place_casts(l);
  return l->s->status;
}

/* A place in region STAT. */
static void make_value(ls_lowering_t *l, ls_tensor_id_t id, size_t *offset_bytes) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  l->destination[id].tensor = l->destination[id].begin =
      ls_lowering_put(l, t->name, t->shape, LS_REGION_STAT, offset_bytes);
}

/* Training: an element of the head of the gradients; evaluation: of the stats. */
static ls_status_t place_scalar(ls_lowering_t *l, const char *name, int element) {
  const ls_graph_t *graph = l->in->graph;
  ls_tensor_id_t id = ls_graph_find(graph, name);
  ls_shape_t one = LS_SHAPE(LS_F32, 1);
  if (id < 0 || !ls_shape_equal(&graph->tensors[id].shape, &one))
    return ls_fail(l->s->ctx, LS_ERR_ARGUMENT, "lower: the graph has no value '%s' of shape f32 (1)", name);
  size_t offset_bytes = (size_t)element * FLOAT_BYTES;
  if (l->in->optim)
    make_sum(l, id, element);
  else
    make_value(l, id, &offset_bytes);
  return l->s->status;
}

/* Training: loss and correct count are the head of the gradients, so the first bucket sums them over
 * ranks. */
static ls_status_t place_training(ls_lowering_t *l) {
  ls_schedule_t *s = l->s;
  ls_status_t status = place_scalar(l, LS_NAME_LOSS, LS_HEAD_LOSS);
  if (!status) status = place_scalar(l, LS_NAME_CORRECT, LS_HEAD_CORRECT);
  if (status || !l->last) return status;
  ls_shape_t sixteen = LS_SHAPE(LS_F32, LS_STAT_COUNT);
  l->stats = ls_schedule_tensor(s, "stats", sixteen, LS_REGION_STAT, 0);
  l->ctrl = ls_schedule_tensor(s, "ctrl", sixteen, LS_REGION_STAT, LS_ALIGN_BYTES);
  int sums = l->in->options.reproducible ? 1 : l->bucket_count;
  l->partials =
      ls_schedule_tensor(s, "sums of squares", LS_SHAPE(LS_F32, sums), LS_REGION_STAT, 2 * LS_ALIGN_BYTES);
  return s->status;
}
_Static_assert(LS_STAT_COUNT *FLOAT_BYTES == LS_ALIGN_BYTES && LS_CTRL_COUNT * FLOAT_BYTES == LS_ALIGN_BYTES,
               "one line each");
_Static_assert((int)LS_HEAD_COUNT == (int)LS_LAYOUT_HEAD && (int)LS_LAYOUT_HEAD_USED == LS_HEAD_CORRECT + 1,
               "the head of the layout is the optimizers' head");

/* Evaluation: values that were given a name are read by it; the first two stats are loss and correct count. */
static ls_status_t place_evaluation(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  l->stats = ls_schedule_tensor(l->s, "stats", LS_SHAPE(LS_F32, LS_STAT_COUNT), LS_REGION_STAT, 0);
  ls_status_t status = place_scalar(l, LS_NAME_LOSS, LS_STAT_LOSS);
  if (!status) status = place_scalar(l, LS_NAME_CORRECT, LS_STAT_CORRECT);
  size_t offset_bytes = LS_ALIGN_BYTES;
  for (int id = 0; id < graph->tensor_count && !status; id++)
    if (graph->tensors[id].named && l->destination[id].tensor < 0) make_value(l, id, &offset_bytes);
  return status ? status : l->s->status;
}

ls_status_t ls_lowering_places(ls_lowering_t *l) {
  ls_status_t status = place_inputs(l);
  if (!status) status = place_params(l);
  if (!status) status = l->in->optim ? place_training(l) : place_evaluation(l);
  return status ? status : l->s->status;
}

/* An op writes its result directly to the destination if no view shares its bytes. A sum, moreover, must not be read in
 * the graph: until later micro-batches are added it holds only this micro-batch of this rank. */
static bool is_direct(const ls_lowering_t *l, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  const bool read = l->in->optim && t->role != LS_ROLE_PARAM_GRAD && t->use_count > 0;
  return l->destination[id].tensor >= 0 && t->producer >= 0 && !l->destination[id].adds && !read;
}

int ls_lowering_place(ls_lowering_t *l, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  if (l->tensor[id] >= 0) return l->tensor[id];
  int place;
  if (t->alias_of >= 0)
    place = ls_schedule_view(l->s, t->name, t->shape, ls_lowering_place(l, t->alias_of));
  else if (is_direct(l, id))
    place = l->destination[id].begin;
  else
    place = ls_schedule_tensor(l->s, t->name, t->shape, LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  return l->tensor[id] = place;
}

/* Two sums of equally many neighbours become one as soon as both exist, like a binary counter. */
static void add_up(ls_lowering_t *l, ls_tensor_id_t id, ls_step_phase_t phase, int place) {
  const char *name = l->in->graph->tensors[id].name;
  const int adds = l->destination[id].adds;
  for (int level = 0; level < adds; level++) {
    int sum = sum_at(l, id, level), next = level + 1 < adds ? sum : sum_at(l, id, level + 1);
    if (next == sum)
      ls_schedule_op(l->s, l->on, phase, name, &ls_op_accumulate, NULL, 1, &place, 1, &sum);
    else
      ls_schedule_op(l->s, l->on, phase, name, &ls_op_add, NULL, 2, (int[]){sum, place}, 1, &next);
    place = sum;
  }
}

void ls_lowering_deliver(ls_lowering_t *l, ls_tensor_id_t id) {
  const ls_destination_t *destination = &l->destination[id];
  if (destination->tensor < 0 || l->s->status) return;
  int place = ls_lowering_place(l, id);
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  ls_step_phase_t phase = t->role == LS_ROLE_PARAM_GRAD ? LS_PHASE_STEP_BACKWARD : LS_PHASE_STEP_FORWARD;
  if (destination->adds)
    add_up(l, id, phase, place);
  else if (place != destination->begin)
    ls_schedule_copy(l->s, l->on, phase, t->name, place, destination->begin);
}
