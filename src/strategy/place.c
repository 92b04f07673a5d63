/* Where the tensors of a graph go. Inputs, parameters and gradients have fixed places; what the host wants to
 * see has a destination; everything else is transient. */
#include "graph/ops/ops.h"
#include "strategy/lowering.h"

#include <string.h>

enum { ALIGN_BYTES = 64, FLOAT_BYTES = sizeof(float) };

static size_t align_up(size_t size_bytes) {
  return (size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

ls_region_t ls_lowering_row(ls_lowering_t *l, const ls_state_row_t *row) {
  int index;
  if (l->s->status || (l->s->status = ls_state_declare(l->in->state, row, &index))) return 0;
  return LS_REGION_STATE + index;
}

const char *ls_lowering_name(ls_lowering_t *l, const char *name) {
  if (l->in->accumulate == 1) return name;
  const char *text = ls_arena_printf(&l->work, "%s@%d", name, l->micro);
  if (!text && !l->s->status) l->s->status = LS_ERR_MEMORY;
  return text ? text : name;
}

/* All micro-batches of one kind in a row: more rows, or one more dimension where rows are not
 * first ("step"). */
static ls_shape_t whole_shape(const ls_shape_t *one, int accumulate, const char *name) {
  if (!strcmp(name, LS_NAME_STEP)) return LS_SHAPE(LS_U8, accumulate, one->dim[0]);
  ls_shape_t whole = *one;
  whole.dim[0] *= accumulate;
  return whole;
}

int ls_lowering_each(ls_lowering_t *l, const char *name, const ls_shape_t *shape, ls_region_t region,
                     size_t *offset_bytes) {
  int accumulate = l->in->accumulate;
  size_t size_bytes = ls_shape_bytes(shape);
  ls_schedule_tensor(l->s, name, whole_shape(shape, accumulate, name), region, *offset_bytes);
  int first = l->s->tensor_count;
  for (int m = 0; m < accumulate; m++) {
    const char *each = ls_arena_printf(&l->work, "%s@%d", name, m);
    if (!each) return -1;
    ls_schedule_tensor(l->s, each, *shape, region, *offset_bytes + (size_t)m * size_bytes);
  }
  *offset_bytes = align_up(*offset_bytes + (size_t)accumulate * size_bytes);
  return l->s->status ? -1 : first;
}

static ls_status_t declare_inputs(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  size_t offset_bytes = 0;
  if (l->in->data_rows > 0) {
    ls_status_t status = ls_lowering_tables(l, &offset_bytes);
    if (status) return status;
  }
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    if (t->role != LS_ROLE_INPUT || ls_lowering_gathered(l, t)) continue;
    l->input[id] = ls_lowering_each(l, t->name, &t->shape, LS_REGION_INPUT, &offset_bytes);
    if (l->input[id] < 0) return l->s->status ? l->s->status : LS_ERR_MEMORY;
  }
  if (!offset_bytes || !l->in->copies) return l->s->status;

  /* A whole slot in one copy, padding included. With one slot there is no next one: the host brings each. */
  ls_shape_t bytes = LS_SHAPE(LS_U8, (int64_t)offset_bytes);
  ls_schedule_tensor(l->s, "input", bytes, LS_REGION_INPUT, 0);
  int from = ls_schedule_tensor(l->s, "next input (host)", bytes, LS_REGION_HOST_NEXT, 0);
  if (l->in->input_slots == 1) return l->s->status;
  int to = ls_schedule_tensor(l->s, "next input", bytes, LS_REGION_INPUT_NEXT, 0);
  ls_schedule_copy(l->s, LS_LANE_COPY_IN, LS_PHASE_STEP_INPUT, "next input", from, to);
  return l->s->status;
}

static bool gathers(const ls_lowering_t *l) {
  return l->exchange && l->exchange->gathers;
}

/* Where the gradient at an element of the layout is computed: in its place, or where the exchange gathers, in
 * this rank's part of its bucket. */
static int gradient(ls_lowering_t *l, const char *name, ls_shape_t shape, int64_t element) {
  if (!gathers(l)) return ls_schedule_tensor(l->s, name, shape, l->grads, (size_t)element * FLOAT_BYTES);
  const ls_bucket_t *at = l->bucket;
  while (at->end <= element)
    at++;
  int64_t place = l->in->world_size * at->begin + l->in->rank * (at->end - at->begin) + element - at->begin;
  return ls_schedule_tensor(l->s, name, shape, l->gathered, (size_t)place * FLOAT_BYTES);
}

static void declare_gradients(ls_lowering_t *l) {
  ls_state_row_t row = {.name = "gradients",
                        .part = "gradients",
                        .of_layout = true,
                        .trained = true,
                        .shape = {.dtype = LS_F32}};
  l->grads = ls_lowering_row(l, &row);
  if (!gathers(l)) return;
  row = (ls_state_row_t){.name = "gathered gradients",
                         .part = "gradients",
                         .shape = LS_SHAPE(LS_F32, l->in->world_size, l->layout->trained),
                         .owner = LS_STATE_LOCAL};
  l->gathered = ls_lowering_row(l, &row);
}

static ls_status_t declare_params(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  const ls_layout_t *layout = l->layout;
  l->params = LS_REGION_STATE + ls_state_find(l->in->state, "parameters");
  ls_schedule_tensor(l->s, "params", LS_SHAPE(LS_F32, layout->total), l->params, 0);
  if (l->in->optim) declare_gradients(l);
  for (int id = 0; id < graph->tensor_count; id++) {
    const ls_graph_tensor_t *t = &graph->tensors[id];
    if (t->role != LS_ROLE_PARAM && t->role != LS_ROLE_STATE) continue;
    const ls_layout_entry_t *e = ls_layout_find(layout, t->name);
    if (!e || !ls_shape_equal(&e->shape, &t->shape))
      return ls_fail(l->s->ctx, LS_ERR_MISMATCH, "lower: the layout has no parameter '%s' of this shape",
                     t->name);
    size_t offset_bytes = (size_t)e->offset * FLOAT_BYTES;
    l->param[id] = ls_schedule_tensor(l->s, t->name, t->shape, l->params, offset_bytes);
    if (t->grad < 0 || !l->in->optim) continue;
    const char *name = graph->tensors[t->grad].name;
    l->destination[t->grad] = (ls_destination_t){.sum = true, .direct = true};
    l->destination[t->grad].tensor = gradient(l, name, t->shape, e->offset);
  }
  return l->s->status;
}

/* What an op makes, and nobody else looks at through a view, can be made in place. A sum moreover must not be
 * read in the graph: it means this micro-batch of this rank only until it is added to. */
static bool may_be_direct(const ls_graph_t *graph, ls_tensor_id_t id, bool sum) {
  const ls_graph_tensor_t *t = &graph->tensors[id];
  return t->producer >= 0 && t->alias_of < 0 && !(sum && t->use_count > 0);
}

/* Training: an element of the head of the gradients; evaluation: of the stats. */
static ls_status_t declare_scalar(ls_lowering_t *l, const char *name, int element) {
  const ls_graph_t *graph = l->in->graph;
  ls_tensor_id_t id = ls_graph_find(graph, name);
  ls_shape_t one = LS_SHAPE(LS_F32, 1);
  if (id < 0 || !ls_shape_equal(&graph->tensors[id].shape, &one))
    return ls_fail(l->s->ctx, LS_ERR_ARGUMENT, "lower: the graph has no value '%s' of shape f32 (1)", name);
  l->destination[id] = (ls_destination_t){.sum = true, .direct = may_be_direct(graph, id, true)};
  l->destination[id].tensor =
      l->in->optim ? gradient(l, name, one, element)
                   : ls_schedule_tensor(l->s, name, one, LS_REGION_STAT, (size_t)element * FLOAT_BYTES);
  return l->s->status;
}

/* Training: loss and correct count are the head of the gradients, so that the first bucket sums them over
 * ranks. */
static ls_status_t declare_training(ls_lowering_t *l) {
  ls_schedule_t *s = l->s;
  ls_status_t status = declare_scalar(l, LS_NAME_LOSS, LS_HEAD_LOSS);
  if (!status) status = declare_scalar(l, LS_NAME_CORRECT, LS_HEAD_CORRECT);
  if (status) return status;
  ls_shape_t sixteen = LS_SHAPE(LS_F32, LS_STAT_COUNT);
  l->stats = ls_schedule_tensor(s, "stats", sixteen, LS_REGION_STAT, 0);
  l->ctrl = ls_schedule_tensor(s, "ctrl", sixteen, LS_REGION_STAT, ALIGN_BYTES);
  int sums = l->in->options.reproducible ? 1 : l->bucket_count;
  l->partials =
      ls_schedule_tensor(s, "sums of squares", LS_SHAPE(LS_F32, sums), LS_REGION_STAT, 2 * ALIGN_BYTES);
  for (int b = 0; b < l->bucket_count; b++) {
    const ls_bucket_t *bucket = &l->bucket[b];
    const char *name = ls_arena_printf(&l->work, "gradients %d", b);
    if (!name) return LS_ERR_MEMORY;
    int64_t count = bucket->end - bucket->begin, size = s->world_size;
    l->bucket_tensor[b] = l->bucket_parts[b] =
        ls_schedule_tensor(s, name, LS_SHAPE(LS_F32, count), l->grads, (size_t)bucket->begin * FLOAT_BYTES);
    if (gathers(l))
      l->bucket_parts[b] = ls_schedule_tensor(s, name, LS_SHAPE(LS_F32, size, count), l->gathered,
                                              (size_t)(size * bucket->begin) * FLOAT_BYTES);
  }
  return s->status;
}
_Static_assert(LS_STAT_COUNT *FLOAT_BYTES == ALIGN_BYTES && LS_CTRL_COUNT * FLOAT_BYTES == ALIGN_BYTES,
               "one line each");
_Static_assert((int)LS_HEAD_COUNT == (int)LS_LAYOUT_HEAD, "the head of the layout is the optimizers' head");

/* Evaluation: what is to be read by name; the first two stats are loss and correct count. */
static ls_status_t declare_evaluation(ls_lowering_t *l) {
  const ls_graph_t *graph = l->in->graph;
  l->stats = ls_schedule_tensor(l->s, "stats", LS_SHAPE(LS_F32, LS_STAT_COUNT), LS_REGION_STAT, 0);
  ls_status_t status = declare_scalar(l, LS_NAME_LOSS, LS_STAT_LOSS);
  if (!status) status = declare_scalar(l, LS_NAME_CORRECT, LS_STAT_CORRECT);
  ls_tensor_id_t output = ls_graph_find(graph, LS_NAME_OUTPUT);
  if (status || output < 0) return status;
  size_t offset_bytes = ALIGN_BYTES;
  l->destination[output] = (ls_destination_t){.direct = may_be_direct(graph, output, false)};
  l->destination[output].tensor =
      ls_lowering_each(l, LS_NAME_OUTPUT, &graph->tensors[output].shape, LS_REGION_STAT, &offset_bytes);
  return l->destination[output].tensor < 0 ? LS_ERR_MEMORY : LS_OK;
}

ls_status_t ls_lowering_declare(ls_lowering_t *l) {
  ls_status_t status = declare_inputs(l);
  if (!status) status = declare_params(l);
  if (!status) status = l->in->optim ? declare_training(l) : declare_evaluation(l);
  return status ? status : l->s->status;
}

/* The destination of `id` for the current micro-batch. */
static int destination_of(const ls_lowering_t *l, ls_tensor_id_t id) {
  const ls_destination_t *destination = &l->destination[id];
  return destination->tensor < 0 || destination->sum ? destination->tensor : destination->tensor + l->micro;
}

int ls_lowering_place(ls_lowering_t *l, ls_tensor_id_t id) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  const ls_destination_t *destination = &l->destination[id];
  if (l->tensor[id] >= 0) return l->tensor[id];
  int place;
  if (l->param[id] >= 0)
    place = l->param[id];
  else if (l->input[id] >= 0)
    place = l->input[id] + l->micro;
  else if (t->alias_of >= 0)
    place = ls_schedule_view(l->s, ls_lowering_name(l, t->name), t->shape, ls_lowering_place(l, t->alias_of));
  else if (destination->tensor >= 0 && destination->direct && (l->micro == 0 || !destination->sum))
    place = destination_of(l, id);
  else
    place =
        ls_schedule_tensor(l->s, ls_lowering_name(l, t->name), t->shape, LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  return l->tensor[id] = place;
}

/* A value in bytes of its own, which later shards may be added to: the first shard's is the destination. */
static int keep_apart(ls_lowering_t *l, ls_tensor_id_t id, ls_step_phase_t phase, const char *name,
                      int place) {
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  int keep = l->destination[id].tensor;
  if (l->micro > 0) {
    if (l->destination[id].direct && t->alias_of < 0) return place;
    keep = ls_schedule_tensor(l->s, name, t->shape, LS_REGION_TRANSIENT, LS_OFFSET_AUTO);
  }
  if (place != keep) ls_schedule_copy(l->s, LS_LANE_COMPUTE, phase, name, place, keep);
  return keep;
}

/* Shards are added as a binary counter counts: the sums of two equally many neighbours become one as soon as
 * both are there. The last shard leaves everything at destination. */
static void deliver_tree(ls_lowering_t *l, ls_tensor_id_t id, ls_step_phase_t phase, const char *name,
                         int place) {
  int *waiting = l->tree + (size_t)id * LS_TREE_LEVELS;
  int top = __builtin_popcount((unsigned)l->micro);
  if (!(l->micro & 1)) {
    waiting[top] = keep_apart(l, id, phase, name, place);
    return;
  }
  for (int bits = l->micro; bits & 1; bits >>= 1) {
    int sum = waiting[--top];
    ls_schedule_op(l->s, LS_LANE_COMPUTE, phase, name, &ls_op_accumulate, NULL, 1, &place, 1, &sum);
    place = sum;
  }
}

void ls_lowering_deliver(ls_lowering_t *l, ls_tensor_id_t id) {
  int destination = destination_of(l, id);
  if (destination < 0 || l->s->status) return;
  int place = ls_lowering_place(l, id);
  const ls_graph_tensor_t *t = &l->in->graph->tensors[id];
  ls_step_phase_t phase = t->role == LS_ROLE_PARAM_GRAD ? LS_PHASE_STEP_BACKWARD : LS_PHASE_STEP_FORWARD;
  const char *name = ls_lowering_name(l, t->name);
  if (l->tree && l->destination[id].sum) {
    deliver_tree(l, id, phase, name, place);
    return;
  }
  if (place == destination) return;
  if (l->destination[id].sum && l->micro > 0)
    ls_schedule_op(l->s, LS_LANE_COMPUTE, phase, name, &ls_op_accumulate, NULL, 1, &place, 1, &destination);
  else
    ls_schedule_copy(l->s, LS_LANE_COMPUTE, phase, name, place, destination);
}
