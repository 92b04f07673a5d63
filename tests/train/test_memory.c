/* What a rank needs in memory: the sums against regions counted by hand, pages of a device, reading before
 * training. */
#include "train/memory.h"

#include <string.h>

#include "unit.h"

/* The program that is this schedule alone. */
#define PROGRAM(s) ((ls_program_t[]){ls_program_of(s)})

enum { MIB = 1 << 20 };

/* The rows of a state: parameters, gradients and what the optimizer carries. */
enum { PARAM, GRAD, OPTIM };
typedef struct {
  ls_state_row_t row[3];
  ls_state_table_t table;
  ls_sched_tensor_t name[3]; /* a tensor in each row */
} state_t;

static void state_of(state_t *state, int64_t param, int64_t grad, int64_t optim) {
  const int64_t bytes[] = {param, grad, optim};
  for (int i = 0; i < 3; i++) {
    state->row[i] = (ls_state_row_t){.name = "row", .part = "part", .shape = LS_SHAPE(LS_U8, bytes[i])};
    state->name[i] = (ls_sched_tensor_t){.region = LS_REGION_STATE + i};
  }
  state->row[PARAM].file = LS_STATE_MODEL;
  state->row[OPTIM].file = LS_STATE_OPTIMIZER;
  state->table = (ls_state_table_t){.row = state->row, .count = 3};
}

/* Regions as a schedule has them after finish; no tasks. Evaluation names the parameters alone. */
static ls_schedule_t schedule_of(state_t *state, bool training, size_t input, size_t transient, int slots) {
  ls_schedule_t s = {
      .input_slots = slots, .state = &state->table, .tensors = state->name, .tensor_count = training ? 3 : 1};
  s.run_bytes[LS_REGION_INPUT] = input;
  s.run_bytes[LS_REGION_TRANSIENT] = transient;
  return s;
}

static void a_host_holds_everything(void **state) {
  (void)state;
  static const ls_buffer_ops_t bytes = {.page_bytes = 1};
  const ls_backend_t backend = {.name = "test", .host_memory = true, .buffer = &bytes};
  state_t rows;
  state_of(&rows, 1000, 1100, 2000);
  ls_schedule_t train = schedule_of(&rows, true, 10, 500, 3), eval = schedule_of(&rows, false, 20, 300, 1);
  train.run_bytes[LS_REGION_STAT] = 64;
  ls_train_data_size_t data = {.samples_bytes = 7000, .reading_bytes = 100, .log_bytes = 80};
  ls_train_memory_t need;
  memset(&need, 0xff, sizeof need);
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  assert_int_equal(need.step_bytes, 1000 + 1100 + 2000 + 64 + 3 * 10 + 500);
  assert_int_equal(need.evaluation_bytes, 20); /* its activations lie where those of the step do */
  assert_int_equal(need.staging_bytes, 0);
  assert_int_equal(need.host_bytes, 0);
  int64_t own = need.step_bytes + need.evaluation_bytes + need.rounding_bytes + need.schedule_bytes;
  assert_int_equal(need.device_bytes, own + 7000 + 80);
  assert_int_equal(need.reading_bytes, 7000 + 100);
  /* a text larger than all regions: it is gone before they are there */
  data.reading_bytes = own + 12345;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  assert_int_equal(need.device_bytes, own + 7000 + 80);
  assert_int_equal(need.reading_bytes, own + 12345 + 7000);
  /* evaluation alone has no gradients */
  data.reading_bytes = 0;
  rows.table.count = 1;
  ls_train_need(&backend, NULL, PROGRAM(&eval), &data, &need);
  assert_int_equal(need.step_bytes, 0);
  assert_int_equal(need.evaluation_bytes, 1000 + 20 + 300);
}

static void host_ranks_exchange_in_shared_memory(void **state) {
  (void)state;
  enum { CHUNK = 512 * 1024 };
  static const ls_buffer_ops_t bytes = {.page_bytes = 1};
  ls_backend_t backend = {.name = "test", .host_memory = true, .buffer = &bytes};
  state_t rows;
  state_of(&rows, 1000, 0, 0);
  ls_schedule_t train = schedule_of(&rows, true, 10, 500, 3), eval = schedule_of(&rows, false, 20, 300, 1);
  ls_sched_tensor_t tensors[] = {{.size_bytes = 6000}, {.size_bytes = 4000}};
  static const ls_op_t dwb = {.name = "linear_dwb"};
  ls_task_t tasks[] = {{.kind = LS_TASK_OP, .op = &dwb},
                       {.kind = LS_TASK_COLLECTIVE, .in_count = 1, .in = {0}},
                       {.kind = LS_TASK_COLLECTIVE, .in_count = 1, .in = {1}}};
  ls_sched_group_t world = {.name = "world", .count = 4};
  train.tensors = tensors;
  train.tensor_count = LS_COUNT(tensors);
  train.tasks = tasks;
  train.task_count = LS_COUNT(tasks);
  train.groups = &world;
  train.group_count = 1;
  const ls_train_data_size_t data = {.samples_bytes = 7000, .decoding_bytes = 900};
  ls_train_memory_t need;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  /* two buffers: the own slot, and of three others' messages a half */
  assert_int_equal(need.exchange_bytes, 2 * (CHUNK + 3 * 6000 / 2));
  assert_int_equal(need.reading_bytes, 0);
  assert_int_equal(need.schedule_bytes,
                   ls_run_book_bytes(PROGRAM(&train))); /* three tasks; the other has none */
  assert_in_range(need.schedule_bytes, 3 * 200, 3 * 4000);
  assert_int_equal(need.device_bytes, need.step_bytes + need.evaluation_bytes + need.rounding_bytes + 7000 +
                                          need.exchange_bytes + need.schedule_bytes + 900);
  /* each collective of a captured step keeps memory */
  backend.captured_bytes = 100;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  assert_int_equal(need.captured_bytes, 2 * 100);
  backend.captured_bytes = 0;
  /* larger messages travel in chunks; one rank exchanges nothing; nor do GPUs, in host memory */
  tensors[1].size_bytes = 9 * CHUNK;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  assert_int_equal(need.exchange_bytes, 2 * (CHUNK + 3 * CHUNK / 2));
  world.count = 1;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  assert_int_equal(need.exchange_bytes, 0);
  world.count = 4;
  backend.host_memory = false;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  assert_int_equal(need.exchange_bytes, 0);
}

static void a_device_gives_whole_pages(void **state) {
  (void)state;
  static const ls_buffer_ops_t pages = {.page_bytes = 2 * MIB};
  const ls_backend_t backend = {.name = "test", .host_memory = false, .buffer = &pages};
  state_t rows;
  state_of(&rows, 5 * MIB, 5 * MIB, 10 * MIB);
  ls_schedule_t train = schedule_of(&rows, true, 100, 3 * MIB + 1, 3),
                eval = schedule_of(&rows, false, 200, 2 * MIB, 1);
  train.run_bytes[LS_REGION_HOST_NEXT] = 100;
  train.run_bytes[LS_REGION_HOST_STAT] = 64;
  const ls_train_data_size_t data = {.samples_bytes = 7000, .log_bytes = 80};
  ls_train_memory_t need;
  ls_train_need(&backend, PROGRAM(&train), PROGRAM(&eval), &data, &need);
  /* 5, 5, 10 and 3+ MiB in pages of 2; four small ones share a page */
  assert_int_equal(need.device_bytes, (int64_t)(6 + 6 + 10 + 4 + 2) * MIB);
  assert_int_equal(need.device_bytes, need.step_bytes + need.evaluation_bytes + need.rounding_bytes);
  assert_int_equal(need.staging_bytes, 3 * 164 + 15 * MIB);
  assert_int_equal(need.host_bytes, need.staging_bytes + 7080);
}

static void evaluation_takes_no_more_rows_than_there_are(void **state) {
  (void)state;
  const struct {
    int64_t batch, samples;
    int ranks;
    int64_t rows;
  } cases[] = {{32, 10000, 1, 64},
               {1024, 10000, 2, 512},
               {100000, 10000, 2, 1024},
               {1024, 101, 2, 51},
               {257, 10000, 2, 129}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    const ls_batching_t cut = {cases[i].batch, 1, 0};
    assert_int_equal(ls_engine_eval_rows(cut, cases[i].samples, cases[i].ranks), cases[i].rows);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_host_holds_everything),
      cmocka_unit_test(host_ranks_exchange_in_shared_memory),
      cmocka_unit_test(a_device_gives_whole_pages),
      cmocka_unit_test(evaluation_takes_no_more_rows_than_there_are),
  };
  return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
