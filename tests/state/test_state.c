/* The state table: rows are declared once, shards are packed, what is saved comes to the host and goes back,
 * and a kind of state that nobody knows is allocated, filled, counted and proven like any other. */

#include "base/context.h"
#include "schedule/double.h"
#include "schedule/run.h"

#include "unit.h"
#include <string.h>

static ls_state_table_t *table;
static ls_graph_t *graph;

static int setup(void **state) {
  int rc = context_setup(state);
  ls_graph_create(ctx, &graph);
  ls_graph_param(graph, "w", LS_SHAPE(LS_F32, 5, 3), (ls_init_t){LS_INIT_NORMAL, 1});
  ls_graph_param(graph, "b", LS_SHAPE(LS_F32, 5), (ls_init_t){LS_INIT_ONES, 0});
  return rc || ls_state_table_create(ctx, graph, 1, &table) ? -1 : 0;
}

static int teardown(void **state) {
  ls_state_table_release(table);
  ls_graph_destroy(graph);
  return context_teardown(state);
}

static int declare(ls_state_row_t row) {
  int index = -1;
  return ls_state_declare(table, &row, &index) == LS_OK ? index : -1;
}

static void expect(const char *word) {
  assert_non_null(strstr(ls_ctx_error(ctx), word));
  ls_ctx_clear(ctx);
}

static void a_row_is_declared_once(void **unused) {
  ls_state_row_t row = {.name = "error feedback",
                        .part = "compression",
                        .of_layout = true,
                        .shape = {.dtype = LS_F32},
                        .life = LS_STATE_CARRIED};
  assert_int_equal(ls_state_find(table, "parameters"), 0);
  assert_int_equal(declare(row), 1);
  assert_int_equal(declare(row), 1);
  assert_int_equal(table->count, 2);
  assert_int_equal(ls_shape_count(&table->row[1].shape), table->layout->total);
  row.life = LS_STATE_STEP;
  assert_int_equal(declare(row), -1);
  expect("'error feedback' is declared twice");
  for (int i = 0; i < 40; i++) { /* the table grows */
    char name[16];
    snprintf(name, sizeof name, "row %d", i);
    assert_int_equal(declare((ls_state_row_t){.name = name, .part = "x", .shape = LS_SHAPE(LS_U8, 3)}),
                     2 + i);
  }
  assert_string_equal(table->row[41].name, "row 39");
}

static void ranges_lie_in_the_whole_in_order(void **unused) {
  const ls_range_t good[] = {{0, 2}, {5, 9}}, late[] = {{5, 11}}, mixed[] = {{5, 9}, {0, 2}},
                   over[] = {{0, 5}, {4, 6}};
  ls_state_row_t row = {.name = "s",
                        .part = "x",
                        .shape = LS_SHAPE(LS_F32, 10),
                        .owner = LS_STATE_SHARDED,
                        .range = late,
                        .range_count = 1};
  assert_int_equal(declare(row), -1);
  expect("ranges of 's'");
  row.range = mixed;
  row.range_count = 2;
  assert_int_equal(declare(row), -1);
  row.range = over;
  assert_int_equal(declare(row), -1);
  row.range = good;
  row.owner = LS_STATE_REPLICATED; /* it has no ranges */
  assert_int_equal(declare(row), -1);
  row.owner = LS_STATE_SHARDED;
  int index = declare(row);
  assert_int_equal(ls_state_row_count(&table->row[index]), 6);
  assert_int_equal(ls_state_row_bytes(&table->row[index]), 24);
}

static void count_up(const ls_state_row_t *row, const ls_layout_t *layout, uint64_t seed, void *whole) {
  (void)layout;
  for (int64_t k = 0; k < ls_shape_count(&row->shape); k++)
    ((int32_t *)whole)[k] = (int32_t)(k + (int64_t)seed);
}

static void expect_change(const ls_device_t *device, uint64_t *epoch, bool changed) {
  assert_true((device->epoch != *epoch) == changed);
  *epoch = device->epoch;
}

/* Both on the host and on a device with memory of its own. */
static void rows_are_filled_brought_and_taken_back(void **unused) {
  const ls_range_t own[] = {{1, 3}, {6, 7}};
  int whole = declare((ls_state_row_t){.name = "steps",
                                       .part = "optimizer",
                                       .shape = LS_SHAPE(LS_I32, 8),
                                       .life = LS_STATE_CARRIED,
                                       .file = LS_STATE_OPTIMIZER,
                                       .fill = count_up});
  int shard = declare((ls_state_row_t){.name = "shard",
                                       .part = "optimizer",
                                       .shape = LS_SHAPE(LS_I32, 8),
                                       .owner = LS_STATE_SHARDED,
                                       .range = own,
                                       .range_count = 2,
                                       .life = LS_STATE_CARRIED,
                                       .file = LS_STATE_OPTIMIZER,
                                       .fill = count_up});
  int local = declare((ls_state_row_t){.name = "scrap", .part = "x", .shape = LS_SHAPE(LS_F32, 100)});
  const ls_backend_t *const backends[] = {&ls_backend_ref, &double_eager};
  for (int b = 0; b < LS_COUNT(backends); b++) {
    ls_device_t *device;
    ls_stream_t *stream;
    ls_state_t *state;
    assert_int_equal(backends[b]->device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
    assert_int_equal(backends[b]->stream->create(device, LS_STREAM_INLINE, &stream), LS_OK);
    uint64_t epoch = device->epoch;
    assert_int_equal(ls_state_create(ctx, table, device, true, &state), LS_OK);
    expect_change(device, &epoch, true);
    assert_int_equal(ls_state_fill(state, stream, 100, 0), LS_OK);
    expect_change(device, &epoch, true);
    assert_int_equal(ls_state_pull(state, stream, 0), LS_OK);
    expect_change(device, &epoch, false);
    int32_t *steps = state->host[whole], *part = state->host[shard];
    assert_true(steps[0] == 100 && steps[7] == 107);
    assert_true(part[0] == 101 && part[1] == 102 && part[2] == 106);
    assert_null(state->host[local]);
    const ls_layout_entry_t *bias = ls_layout_find(table->layout, "b");
    assert_true(((float *)state->host[0])[bias->offset] == 1);
    steps[3] = -5;
    assert_int_equal(ls_state_push(state, stream, 0), LS_OK);
    expect_change(device, &epoch, true);
    assert_int_equal(ls_state_refill(state, stream, 100, 0), LS_OK);
    expect_change(device, &epoch, true);
    steps[3] = -5;
    assert_int_equal(ls_state_push(state, stream, 0), LS_OK);
    steps[3] = 0;
    if (!backends[b]->host_memory) {
      assert_int_equal(ls_state_pull(state, stream, 0), LS_OK);
      assert_int_equal(steps[3], -5);
    }
    ls_state_destroy(state);
    backends[b]->stream->destroy(stream);
    device->backend->device->close(device);
  }
}

/* A schedule holds the table that it was lowered with: it may outlive who made it. */
static void a_schedule_keeps_its_table(void **unused) {
  ls_schedule_t *s;
  ls_state_table_t *own;
  ls_fit_t fit;
  int row;
  assert_int_equal(ls_state_table_create(ctx, graph, 1, &own), LS_OK);
  const ls_state_row_t toy = {
      .name = "toy", .part = "toys", .shape = LS_SHAPE(LS_U8, 77), .life = LS_STATE_CARRIED};
  assert_int_equal(ls_state_declare(own, &toy, &row), LS_OK);
  assert_int_equal(ls_schedule_create(ctx, own, 0, 1, 1, &s), LS_OK);
  ls_schedule_tensor(s, "toy", toy.shape, LS_REGION_STATE + row, 0);
  assert_int_equal(ls_schedule_finish(s), LS_OK);
  ls_state_table_release(own);
  assert_int_equal(ls_schedule_check(s), LS_OK);
  ls_program_fit((ls_program_t[]){ls_program_of(s)}, &fit);
  assert_int_equal(ls_fit_bytes(&fit, "toys"), 77);
  assert_int_equal(ls_fit_bytes(&fit, "parameters"), 0); /* it does not name them */
  assert_int_equal(fit.device_total_bytes, 77);
  ls_schedule_tensor(s, "nowhere", toy.shape, LS_REGION_STATE + row + 1, 0);
  assert_int_equal(s->status, LS_ERR_INTERNAL);
  ls_schedule_destroy(s);
}

static ls_status_t make_all(void) {
  ls_state_table_t *own = NULL;
  ls_device_t *device = NULL;
  ls_state_t *state = NULL;
  ls_stream_t *stream = NULL;
  int index;
  ls_status_t status = ls_state_table_create(ctx, graph, 1, &own);
  for (int i = 0; i < 12 && !status; i++)
    status = ls_state_declare(own, &(ls_state_row_t){.name = i % 2 ? "a" : "b", .part = "x"}, &index);
  if (!status) status = ls_backend_ref.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device);
  if (!status) status = ls_backend_ref.stream->create(device, LS_STREAM_INLINE, &stream);
  if (!status) status = ls_state_create(ctx, own, device, true, &state);
  if (!status) status = ls_state_fill(state, stream, 1, 0);
  ls_state_destroy(state);
  if (stream) ls_backend_ref.stream->destroy(stream);
  if (device) ls_backend_ref.device->close(device);
  ls_state_table_release(own);
  return status;
}

static void every_allocation_may_fail(void **unused) {
  ls_status_t status = LS_ERR_MEMORY;
  for (int n = 1; status; n++) {
    ls_ctx_fail_alloc(ctx, n);
    status = make_all();
    ls_ctx_fail_alloc(ctx, 0);
    assert_true(status == LS_OK || status == LS_ERR_MEMORY);
    assert_true(n > 5 || status == LS_ERR_MEMORY);
  }
}

TESTS(setup, teardown, a_row_is_declared_once, ranges_lie_in_the_whole_in_order,
      rows_are_filled_brought_and_taken_back, a_schedule_keeps_its_table, every_allocation_may_fail)
