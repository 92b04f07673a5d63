/* Lowering: where things are placed, when buckets are complete, and that communication can overlap. */

#include "graph/ops/ops.h"
#include "schedule/double.h"
#include "world.h"

#include "unit.h"
#include <stdio.h>
#include <string.h>

static ls_ctx_t *ctx;
static ls_graph_t *graph;
static ls_state_table_t *table;
static const ls_layout_t *layout;
static ls_optim_rule_t optim;

enum { ROWS = 4 };

static int setup(void **state) {
  ctx = ls_ctx_create(NULL, NULL);
  network_make(ctx, ROWS, 0.5, true, &graph);
  assert_int_equal(ls_state_table_create(ctx, graph, 1, &table), LS_OK);
  layout = table->layout;
  ls_optim_config_t config = {.name = LS_OPTIM_ADAM, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
  ls_optim_rule(&config, 1, &optim);
  return 0;
}

static int teardown(void **state) {
  ls_state_table_release(table);
  ls_graph_destroy(graph);
  ls_ctx_destroy(ctx);
  return 0;
}

static ls_lower_t request(int world_size, int micro_batches, int64_t bucket_bytes) {
  return (ls_lower_t){.graph = graph,
                      .state = table,
                      .optim = &optim,
                      .world_size = world_size,
                      .micro_batches = micro_batches,
                      .input_slots = 2,
                      .options = {.bucket_bytes = bucket_bytes}};
}

static ls_program_t lower_all(const ls_strategy_t *strategy, const ls_lower_t *in) {
  ls_program_t p = {0};
  ls_status_t status = ls_strategy_lower(ctx, strategy, in, &p);
  if (!status) status = ls_program_check(&p);
  assert_string_equal(ls_ctx_error(ctx), "");
  assert_int_equal(status, LS_OK);
  return p;
}

/* The only member. */
static ls_schedule_t *lower(const ls_strategy_t *strategy, const ls_lower_t *in) {
  ls_program_t p = lower_all(strategy, in);
  assert_int_equal(p.count, 1);
  return p.member[0];
}

static int find_task(const ls_schedule_t *s, const char *name) {
  for (int t = 0; t < s->task_count; t++)
    if (!strcmp(s->tasks[t].name, name)) return t;
  fail_msg("no task '%s'", name);
  return -1;
}

static const ls_sched_tensor_t *find_tensor(const ls_schedule_t *s, const char *name) {
  for (int i = 0; i < s->tensor_count; i++)
    if (!strcmp(s->tensors[i].name, name)) return &s->tensors[i];
  fail_msg("no tensor '%s'", name);
  return NULL;
}

static void test_shares(void **state) {
  static const int64_t batches[] = {0, 1, 2, 7, 10, 128, 1000003};
  for (int b = 0; b < LS_COUNT(batches); b++)
    for (int world = 1; world <= 11; world++) {
      int64_t next = 0, least = INT64_MAX, most = 0;
      for (int r = 0; r < world; r++) {
        int64_t first, count;
        ls_share(batches[b], r, world, &first, &count);
        assert_int_equal(first, next);
        next += count;
        least = count < least ? count : least;
        most = count > most ? count : most;
      }
      assert_int_equal(next, batches[b]);
      assert_true(most - least <= 1);
    }
}

static void test_registry(void **state) {
  assert_ptr_equal(ls_strategy_find("single"), &ls_strategy_single);
  assert_ptr_equal(ls_strategy_find("ddp"), &ls_strategy_ddp);
  assert_null(ls_strategy_find("dp"));
  for (int i = 0; ls_strategies[i]; i++)
    assert_true(ls_strategies[i]->help && ls_strategies[i]->place);
}

/* Layout: head 16, layers.1.bias 2 (16), layers.1.weight 10 (16), layers.0.bias 5 (16), layers.0.weight 30
 * (32): 96 elements. */
static void test_buckets(void **state) {
  static const struct {
    int64_t bytes;
    int count;
    int64_t end[4];
  } cases[] = {
      {1, 4, {32, 48, 64, 96}}, {128, 3, {32, 64, 96}}, {129, 2, {48, 96}}, {64, 4, {32, 48, 64, 96}},
      {256, 2, {64, 96}},       {384, 1, {96}},         {1 << 30, 1, {96}},
  };
  assert_int_equal(layout->total, 96);
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_arena_t arena;
    ls_arena_init(&arena, ctx);
    ls_lower_t in = request(1, 1, cases[i].bytes);
    ls_bucket_t *bucket;
    int count;
    assert_int_equal(ls_buckets_make(&arena, &in, NULL, &bucket, &count), LS_OK);
    assert_int_equal(count, cases[i].count);
    int64_t begin = 0;
    int ready = 0;
    for (int b = 0; b < count; b++) {
      assert_int_equal(bucket[b].begin, begin);
      assert_int_equal(bucket[b].end, cases[i].end[b]);
      assert_true(bucket[b].ready_node >= ready); /* front to back */
      begin = bucket[b].end;
      ready = bucket[b].ready_node;
    }
    assert_int_equal(ready,
                     graph->tensors[graph->tensors[ls_graph_find(graph, "layers.0.weight")].grad].producer);
    ls_arena_release(&arena);
  }
}

/* Every all-reduce is issued as soon as its bucket is complete, and no task of the backward pass waits for
 * one. */
static void test_communication_overlaps(void **state) {
  for (int micro_batches = 1; micro_batches <= 3; micro_batches++) {
    ls_lower_t in = request(2, micro_batches, 1);
    ls_program_t p = lower_all(&ls_strategy_ddp, &in);
    const ls_schedule_t *s = p.member[p.count - 1];
    int collectives = 0, backward_after = 0;
    for (int i = 0; i + 1 < p.count; i++) /* only the member that ends the step communicates */
      for (int t = 0; t < p.member[i]->task_count; t++)
        assert_int_equal(p.member[i]->tasks[t].lane, LS_LANE_COMPUTE);
    for (int t = 0; t < s->task_count; t++) {
      const ls_task_t *task = &s->tasks[t];
      if (task->lane == LS_LANE_COMM) {
        collectives++;
        assert_int_equal(task->phase, LS_PHASE_STEP_COMM);
        bool alone = s->tasks[t - 1].lane != LS_LANE_COMM; /* else one op completed two buckets */
        assert_int_equal(task->wait_count, alone);
        if (alone) assert_int_equal(task->wait[0], t - 1);
      }
      if (task->phase == LS_PHASE_STEP_BACKWARD) {
        assert_int_equal(task->wait_count, 0);
        backward_after += collectives > 0;
      }
    }
    assert_int_equal(collectives, 4);
    assert_true(backward_after >= 3);
    for (int b = 0; b < 4; b++) { /* norms come after the backward pass, in order */
      char name[32];
      snprintf(name, sizeof name, "sum of squares %d", b);
      assert_int_equal(find_task(s, name), find_task(s, "sum of squares 0") + b);
    }
    assert_int_equal(s->tasks[find_task(s, "sum of squares 0") - 1].lane, LS_LANE_COMM);
    ls_program_release(&p);
  }
}

/* One rank sums the squares right after a bucket's last gradient. */
/* The 1 with which it starts is the host's, in every member; a seed of another value, or of the graph's own, has its task. */
static void the_backward_pass_starts_without_a_task(void **state) {
  const ls_graph_node_t *fill = &graph->nodes[graph->tensors[graph->seed].producer];
  assert_ptr_equal(fill->op, &ls_op_fill);
  for (int value = 1; value <= 2; value++) {
    ls_lower_t in = request(2, 3, 1);
    graph->nodes[graph->tensors[graph->seed].producer].attrs.f[0] = value;
    ls_program_t p = lower_all(&ls_strategy_ddp, &in);
    for (int m = 0; m < p.count; m++) {
      int fills = 0;
      for (int t = 0; t < p.member[m]->task_count; t++)
        fills += p.member[m]->tasks[t].op == &ls_op_fill;
      assert_int_equal(fills, value != 1);
      if (value != 1) continue;
      const ls_sched_tensor_t *seed = find_tensor(p.member[m], "dloss"),
                              *step = find_tensor(p.member[m], "step");
      assert_int_equal(seed->region, LS_REGION_INPUT);
      assert_int_equal(seed->offset_bytes, step->offset_bytes + offsetof(ls_step_params_t, dloss));
    }
    ls_program_release(&p);
  }
}

static void test_norm_while_hot(void **state) {
  ls_lower_t in = request(1, 1, 1);
  ls_schedule_t *s = lower(&ls_strategy_single, &in);
  assert_int_equal(s->tasks[find_task(s, "sum of squares 0") - 1].phase, LS_PHASE_STEP_BACKWARD);
  assert_int_equal(s->tasks[find_task(s, "sum of squares 3") - 1].phase, LS_PHASE_STEP_OPTIMIZER);
  assert_true(find_task(s, "sum of squares 0") + 2 < find_task(s, "sum of squares 2"));
  for (int t = 0; t < s->task_count; t++)
    assert_int_equal(s->tasks[t].lane, LS_LANE_COMPUTE);
  ls_schedule_destroy(s);
}

/* The side lane's tasks, and those that wait for them. Only the first layer's gradient is left after the last
 * gradient of values; it goes to the lane that is expected to be free. */
static void gradients_of_parameters_run_aside(void **state) {
  for (int exchange = 0; exchange < 2; exchange++) {
    ls_lower_t in = request(1 + exchange, 1, 1);
    in.options.side_lane = true;
    ls_schedule_t *s = lower(exchange ? &ls_strategy_ddp : &ls_strategy_single, &in);
    int aside = 0, squares = 0;
    for (int t = 0; t < s->task_count; t++) {
      const ls_task_t *task = &s->tasks[t];
      bool gradient = task->op == &ls_op_linear_dwb, square = task->op == &ls_op_sumsq;
      aside += gradient;
      squares += square && task->lane == LS_LANE_SIDE;
      if (gradient) assert_int_equal(task->lane, LS_LANE_SIDE);
      if (task->lane == LS_LANE_SIDE) assert_true(gradient || square);
      if (task->phase == LS_PHASE_STEP_BACKWARD && !gradient) assert_int_equal(task->wait_count, 0);
      if (task->kind != LS_TASK_COLLECTIVE || !exchange) continue;
      for (int i = 0; i < task->wait_count; i++)
        assert_int_equal(s->tasks[task->wait[i]].lane, LS_LANE_SIDE);
    }
    assert_int_equal(aside, 2);
    assert_int_equal(squares,
                     exchange ? 0 : 2); /* of the output layer's buckets; the rest comes at the end */
    ls_schedule_destroy(s);
  }
  ls_lower_t in = request(1, 1, 1);
  in.options.side_lane = true;
  in.optim = NULL;
  ls_graph_t *forward;
  ls_state_table_t *own;
  network_make(ctx, ROWS, 0, false, &forward);
  assert_int_equal(ls_state_table_create(ctx, forward, 1, &own), LS_OK);
  in.graph = forward;
  in.state = own;
  ls_schedule_t *s = lower(&ls_strategy_single, &in); /* an evaluation has nothing for it */
  for (int t = 0; t < s->task_count; t++)
    assert_int_equal(s->tasks[t].lane, LS_LANE_COMPUTE);
  ls_schedule_destroy(s);
  ls_state_table_release(own);
  ls_graph_destroy(forward);
}

/* A slot holds one micro-batch, whichever member reads it, one input after the other. */
static void test_inputs(void **state) {
  ls_lower_t in = request(1, 3, 1 << 20);
  in.copies = true;
  ls_program_t p = lower_all(&ls_strategy_single, &in);
  assert_int_equal(p.count, 3);
  for (int k = 0; k < p.count; k++) {
    const ls_schedule_t *s = p.member[k];
    size_t end = 0;
    static const char *const names[] = {"x", "target", "weight", "step"};
    for (int i = 0; i < LS_COUNT(names); i++) {
      const ls_sched_tensor_t *t = find_tensor(s, names[i]);
      assert_int_equal(t->region, LS_REGION_INPUT);
      assert_int_equal(t->offset_bytes, (end + 63) / 64 * 64);
      end = t->offset_bytes + t->size_bytes;
    }
    ls_shape_t params = LS_SHAPE(LS_U8, 64), rows = LS_SHAPE(LS_F32, ROWS, INPUTS);
    assert_true(ls_shape_equal(&find_tensor(s, "step")->shape, &params));
    assert_true(ls_shape_equal(&find_tensor(s, "x")->shape, &rows));
    assert_int_equal(s->run_bytes[LS_REGION_INPUT], s->run_bytes[LS_REGION_INPUT_NEXT]);
    assert_int_equal(s->run_bytes[LS_REGION_INPUT], s->run_bytes[LS_REGION_HOST_NEXT]);
    assert_int_equal(s->tasks[0].lane, LS_LANE_COPY_IN);
    assert_int_equal(s->tasks[0].bytes, s->run_bytes[LS_REGION_INPUT]);
  }
  const ls_schedule_t *last = p.member[2];
  assert_true(find_task(last, "stats") <
              find_task(last, "update")); /* the stats leave while the update runs */
  ls_program_release(&p);
}

/* 1,024 micro-batches have the tasks, books, inputs and memory of three, or where they are added in a tree a
 * member for each of its levels. */
static void more_micro_batches_make_no_schedule_larger(void **state) {
  for (int tree = 0; tree < 2; tree++) {
    ls_fit_t fit[2];
    ls_program_t p[2];
    for (int i = 0; i < 2; i++) {
      ls_state_table_t *own;
      ls_lower_t in = request(1, i ? 1024 : 4, 64);
      assert_int_equal(ls_state_table_create(ctx, graph, 1, &own), LS_OK);
      in.state = own;
      in.copies = true;
      in.options.reproducible = tree;
      p[i] = lower_all(&ls_strategy_ddp, &in);
      ls_state_table_release(own);
      ls_program_fit(&p[i], &fit[i]);
      int sum = 0;
      for (int k = 0; k < p[i].count; k++)
        sum += p[i].times[k];
      assert_int_equal(sum, in.micro_batches);
    }
    assert_int_equal(p[0].count, 3);
    assert_int_equal(p[1].count, tree ? 11 : 3);
    assert_int_equal(ls_fit_bytes(&fit[0], "inputs"), ls_fit_bytes(&fit[1], "inputs"));
    assert_int_equal(ls_fit_bytes(&fit[0], "activations"), ls_fit_bytes(&fit[1], "activations"));
    assert_int_equal(fit[0].host_pinned_bytes, fit[1].host_pinned_bytes);
    if (tree) {
      assert_int_equal(p[1].times[0], 512);
      assert_int_equal(p[1].times[10], 1);
      for (int k = 2; k < p[1].count;
           k++) { /* a level is one addition more for each parameter, loss and count */
        assert_int_equal(p[1].member[k - 1]->task_count - p[1].member[k - 2]->task_count, 6);
        assert_true(k == 10 || p[1].member[k]->run_bytes[LS_REGION_STAT] == 0);
      }
    } else {
      assert_int_equal(p[1].times[1], 1022);
      assert_int_equal(ls_program_task(&p[0], p[0].count, 0), ls_program_task(&p[1], p[1].count, 0));
      assert_int_equal(ls_run_book_bytes(&p[0]), ls_run_book_bytes(&p[1]));
      assert_int_equal(fit[0].device_total_bytes, fit[1].device_total_bytes);
    }
    ls_program_release(&p[0]);
    ls_program_release(&p[1]);
  }
}

/* One slot has no next input to copy; the host still fills pinned memory. */
static void test_one_slot_with_copies(void **state) {
  ls_lower_t in = request(1, 1, 1 << 20);
  in.copies = true;
  in.input_slots = 1;
  ls_schedule_t *s = lower(&ls_strategy_single, &in);
  assert_int_equal(s->run_bytes[LS_REGION_INPUT_NEXT], 0);
  assert_int_equal(s->run_bytes[LS_REGION_HOST_NEXT], s->run_bytes[LS_REGION_INPUT]);
  assert_int_not_equal(s->tasks[0].lane, LS_LANE_COPY_IN);
  ls_schedule_destroy(s);
}

static void test_fit(void **state) {
  static const ls_op_t *const *const lists[] = {ls_ops, ls_optim_ops};
  double_ops(2, lists);
  ls_lower_t in = request(1, 2, 1);
  in.copies = true;
  ls_program_t p = lower_all(&ls_strategy_single, &in);
  ls_fit_t fit;
  ls_program_fit(&p, &fit);
  assert_int_equal(ls_fit_bytes(&fit, "parameters"), layout->total * 4);
  assert_int_equal(ls_fit_bytes(&fit, "gradients"), layout->total * 4);
  assert_int_equal(ls_fit_bytes(&fit, "optimizer"), (2 * layout->total + 16) * 4);
  int64_t activations = ls_fit_bytes(&fit, "activations");
  assert_true(activations > 0 && 2 * activations < fit.transient_unshared_bytes);

  const ls_backend_t *backend = &double_capture;
  ls_device_t *device;
  assert_int_equal(backend->device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  ls_state_t *memory;
  assert_int_equal(ls_state_create(ctx, table, device, false, &memory), LS_OK);
  ls_run_t *run;
  assert_int_equal(ls_run_create(ctx, &p, device, NULL, memory, NULL, &run), LS_OK);
  assert_int_equal(double_counts(device)->captures, p.count * in.input_slots);
  assert_int_equal(double_counts(device)->device_bytes, fit.device_total_bytes);
  assert_int_equal(double_counts(device)->host_bytes, fit.host_pinned_bytes);
  ls_run_destroy(run);
  ls_state_destroy(memory);
  backend->device->close(device);
  ls_program_release(&p);
}

/* Data on the device: counted in full, once for all slots; what the host fills shrinks to row numbers; each
 * micro-batch gathers its own rows. */
static void test_data_on_the_device(void **state) {
  enum { SAMPLES = 1000 };
  for (int copies = 0; copies < 2; copies++)
    for (int micro_batches = 1; micro_batches <= 3; micro_batches++) {
      int64_t sum = 0;
      ls_fit_t filled, gathered;
      ls_lower_t in = request(1, micro_batches, 1);
      in.copies = copies;
      ls_program_t p = lower_all(&ls_strategy_single, &in);
      ls_program_fit(&p, &filled);
      ls_program_release(&p);
      in.data_rows = SAMPLES;
      p = lower_all(&ls_strategy_single, &in);
      ls_program_fit(&p, &gathered);
      assert_int_equal(ls_fit_bytes(&filled, "data"), 0);
      assert_int_equal(ls_fit_bytes(&gathered, "data"), SAMPLES * INPUTS * 4 + SAMPLES * OUTPUTS * 4);
      for (int i = 0; i < gathered.part_count; i++)
        sum += gathered.part[i].bytes;
      assert_int_equal(gathered.device_total_bytes, sum);
      assert_true(ls_fit_bytes(&gathered, "inputs") < ls_fit_bytes(&filled, "inputs"));
      for (int k = 0; k < p.count; k++) {
        const ls_schedule_t *s = p.member[k];
        assert_int_equal(ls_schedule_find(s, "no such tensor"), -1);
        const ls_task_t *task = &s->tasks[find_task(s, "gather")];
        assert_ptr_equal(task->op, &ls_op_gather_rows);
        assert_int_equal(task->lane, LS_LANE_COMPUTE);
        assert_int_equal(task->in[0], ls_schedule_find(s, "rows"));
        assert_int_equal(s->tensors[task->in[0]].region, LS_REGION_INPUT);
        assert_int_equal(task->in[1], ls_schedule_find(s, "features"));
        assert_int_equal(task->in[2], ls_schedule_find(s, "targets"));
      }
      ls_program_release(&p);
    }
}

/* Micro-batches take turns in the activations of one, and add a gradient at a time. */
static void test_memory_of_micro_batches(void **state) {
  ls_fit_t one, four;
  ls_lower_t in = request(1, 1, 1);
  ls_program_t p = lower_all(&ls_strategy_single, &in);
  ls_program_fit(&p, &one);
  ls_program_release(&p);
  in.micro_batches = 4;
  p = lower_all(&ls_strategy_single, &in);
  ls_program_fit(&p, &four);
  ls_program_release(&p);
  assert_int_equal(ls_fit_bytes(&four, "inputs"), ls_fit_bytes(&one, "inputs"));
  assert_true(ls_fit_bytes(&four, "activations") <
              ls_fit_bytes(&one, "activations") + layout->total * 4); /* plus one gradient */
}

static void expect_refused(const ls_strategy_t *strategy, const ls_lower_t *in, ls_status_t want,
                           const char *word) {
  ls_program_t p = {0};
  assert_int_equal(ls_strategy_lower(ctx, strategy, in, &p), want);
  assert_int_equal(p.count, 0);
  if (!strstr(ls_ctx_error(ctx), word)) fail_msg("'%s' is not in: %s", word, ls_ctx_error(ctx));
  ls_ctx_clear(ctx);
}

static void test_refusals(void **state) {
  ls_lower_t in = request(2, 1, 1);
  expect_refused(&ls_strategy_single, &in, LS_ERR_ARGUMENT, "one rank");
  in = request(1, 0, 1);
  expect_refused(&ls_strategy_single, &in, LS_ERR_ARGUMENT, "micro-batches");
  in = request(1, 2, 1);
  in.optim = NULL;
  expect_refused(&ls_strategy_single, &in, LS_ERR_ARGUMENT, "one micro-batch");
  in = request(1, 1, 0);
  expect_refused(&ls_strategy_single, &in, LS_ERR_ARGUMENT, "0 bytes");
  in = request(1, 1, 1);
  in.input_slots = 0;
  expect_refused(&ls_strategy_single, &in, LS_ERR_ARGUMENT, "input slots");

  ls_graph_t *other; /* no loss, no step */
  assert_int_equal(ls_graph_create(ctx, &other), LS_OK);
  int x = ls_graph_input(other, "x", LS_SHAPE(LS_F32, 2, 3));
  int w = ls_graph_param(other, "layers.0.weight", LS_SHAPE(LS_F32, 2, 3), (ls_init_t){LS_INIT_ZEROS, 0});
  ls_graph_op(other, &ls_op_add, NULL, 2, (int[]){x, w}, NULL);
  in = request(1, 1, 1);
  in.graph = other;
  expect_refused(&ls_strategy_single, &in, LS_ERR_MISMATCH, "'layers.0.weight'");
  ls_state_table_t *own;
  assert_int_equal(ls_state_table_create(ctx, other, 1, &own), LS_OK);
  in.state = own;
  expect_refused(&ls_strategy_single, &in, LS_ERR_ARGUMENT, "'loss'");
  ls_state_table_release(own);
  ls_graph_destroy(other);
}

/* A loss seen through a view, and a parameter that the loss does not reach. */
static void test_unusual_graph(void **state) {
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  ls_init_t zeros = {LS_INIT_ZEROS, 0};
  ls_graph_input(g, "step", LS_SHAPE(LS_U8, 64));
  int x = ls_graph_input(g, "x", LS_SHAPE(LS_F32, 1, 6));
  int w = ls_graph_param(g, "w", LS_SHAPE(LS_F32, 2, 3), zeros);
  ls_graph_param(g, "idle", LS_SHAPE(LS_F32, 4), zeros);
  int flat = ls_graph_op(g, &ls_op_reshape, &(ls_attrs_t){.i = {2, 1, 6}}, 1, (int[]){w}, NULL);
  int y = ls_graph_op(g, &ls_op_mul, NULL, 2, (int[]){x, flat}, NULL);
  int sum = ls_graph_op(g, &ls_op_reduce, &(ls_attrs_t){.i = {1}}, 1, (int[]){y}, NULL);
  int loss = ls_graph_op(g, &ls_op_reshape, &(ls_attrs_t){.i = {1, 1}}, 1, (int[]){sum}, NULL);
  ls_graph_rename(g, loss, "loss");
  int correct = ls_graph_op(g, &ls_op_mul, NULL, 2, (int[]){loss, loss}, NULL);
  ls_graph_rename(g, correct, "correct");
  ls_graph_rename(g, y, "output");
  ls_graph_backward(g, loss, -1);
  assert_string_equal(ls_ctx_error(ctx), "");
  ls_state_table_t *own;
  assert_int_equal(ls_state_table_create(ctx, g, 1, &own), LS_OK);

  for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
    ls_lower_t in = request(1, micro_batches, 1);
    in.graph = g;
    in.state = own;
    ls_program_t p = lower_all(&ls_strategy_single, &in);
    ls_state_t *memory;
    ls_device_t *device;
    ls_run_t *run;
    assert_int_equal(ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
    assert_int_equal(ls_state_create(ctx, own, device, false, &memory), LS_OK);
    const ls_layout_entry_t *e = ls_layout_find(own->layout, "w");
    float *param = memory->data[0], *grad = memory->data[ls_state_find(own, "gradients")];
    for (int k = 0; k < 6; k++)
      param[e->offset + k] = (float)k;
    assert_int_equal(ls_run_create(ctx, &p, device, NULL, memory, NULL, &run), LS_OK);
    const float *stats = NULL;
    for (int m = 0; m < micro_batches; m++) {
      float *input = ls_run_input(run, "x", 0);
      *(ls_step_params_t *)ls_run_input(run, "step", 0) = (ls_step_params_t){.dloss = 1};
      for (int k = 0; k < 6; k++)
        input[k] = (float)(6 * m + k + 1);
      assert_int_equal(ls_run_launch(run, 0, m), LS_OK);
      assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
    }
    assert_true(stats[LS_STAT_LOSS] == (micro_batches == 1 ? 70 : 70 + 160));
    for (int k = 0; k < 6; k++)
      assert_true(grad[e->offset + k] == (float)(micro_batches == 1 ? k + 1 : 2 * k + 8));
    ls_run_destroy(run);
    ls_state_destroy(memory);
    ls_backend_ref.device->close(device);
    ls_program_release(&p);

    in.optim = NULL; /* output and loss are read in the graph and looked at from outside */
    in.micro_batches = 1;
    ls_schedule_destroy(lower(&ls_strategy_single, &in));
  }
  ls_state_table_release(own);
  ls_graph_destroy(g);
}

static void test_every_allocation_fails_once(void **state) {
  ls_status_t status = LS_ERR_MEMORY;
  ls_lower_t in = request(2, 2, 1);
  in.copies = true;
  for (int n = 1; status; n++) {
    ls_program_t p = {0};
    ls_ctx_fail_alloc(ctx, n);
    status = ls_strategy_lower(ctx, &ls_strategy_ddp, &in, &p);
    ls_ctx_fail_alloc(ctx, 0);
    assert_true(status == LS_OK || status == LS_ERR_MEMORY);
    assert_true((status == LS_OK) == (p.count > 0));
    assert_true(n > 3 || status);
    ls_program_release(&p);
  }
}

/* Gradients, moments, sums and exchange end where the trainable parameters end. */
static void test_frozen_parameters_cost_nothing(void **state) {
  ls_graph_t *part;
  ls_state_table_t *own;
  network_make_of(ctx, ROWS, &(job_t){.frozen = true}, &part);
  assert_int_equal(ls_graph_find(part, "grad.layers.0.weight"), -1);
  assert_int_equal(ls_state_table_create(ctx, part, 1, &own), LS_OK);
  ls_lower_t in = request(2, 1, 64);
  in.graph = part;
  in.state = own;
  ls_schedule_t *s = lower(&ls_strategy_ddp, &in);
  int64_t trained = own->layout->trained, exchanged = 0;
  assert_true(trained < own->layout->total);
  for (int t = 0; t < s->task_count; t++) {
    if (s->tasks[t].kind == LS_TASK_COLLECTIVE)
      exchanged += ls_shape_count(&s->tensors[s->tasks[t].out[0]].shape);
    assert_null(strstr(s->tasks[t].name, "layers.0 linear_dwb"));
  }
  assert_int_equal(exchanged, trained);
  ls_fit_t fit;
  ls_program_fit((ls_program_t[]){ls_program_of(s)}, &fit);
  assert_int_equal(ls_fit_bytes(&fit, "parameters"), own->layout->total * 4);
  assert_int_equal(ls_fit_bytes(&fit, "gradients"), trained * 4);
  assert_int_equal(ls_fit_bytes(&fit, "optimizer"), (2 * trained + 16) * 4);
  ls_schedule_destroy(s);
  ls_state_table_release(own);
  for (int id = 0; id < part->tensor_count; id++)
    part->tensors[id].trainable = false;
  assert_int_equal(ls_state_table_create(ctx, part, 1, &own), LS_OK);
  in.state = own;
  ls_program_t none;
  assert_int_equal(ls_strategy_lower(ctx, &ls_strategy_ddp, &in, &none), LS_ERR_ARGUMENT);
  assert_non_null(strstr(ls_ctx_error(ctx), "nothing to train"));
  ls_state_table_release(own);
  ls_graph_destroy(part);
}

TESTS(setup, teardown, test_shares, test_registry, test_buckets, test_communication_overlaps,
      the_backward_pass_starts_without_a_task, test_norm_while_hot, gradients_of_parameters_run_aside,
      test_inputs, more_micro_batches_make_no_schedule_larger, test_one_slot_with_copies, test_fit,
      test_data_on_the_device, test_memory_of_micro_batches, test_refusals,
      test_frozen_parameters_cost_nothing, test_unusual_graph, test_every_allocation_fails_once)
