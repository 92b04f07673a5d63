/* Samples keep their shape and dtype from the reader to the graph: training on bytes has the bits of training on
 * the f32 that a host makes of them, and tokens arrive as the integers that they are. */
#include "graph/ops/ops.h"
#include "sim_world.h"
#include "train/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { ROWS = 90, HIGH = 3, WIDE = 5, PIXELS = HIGH * WIDE, CLASSES = 4, SEED = 5 };

static uint8_t image[ROWS * PIXELS];
static int32_t label[ROWS];
static float number[ROWS * PIXELS];

/* An odd number of bytes a sample: micro-batches and tables begin anywhere. */
static void make_images(void) {
  for (int i = 0; i < ROWS * PIXELS; i++)
    image[i] = (uint8_t)(i * 37 % 251 * (i % 3));
  for (int r = 0; r < ROWS; r++)
    label[r] = r * 7 % CLASSES;
}

static const ls_data_memory_t as_bytes = {.rows = ROWS, .inputs = PIXELS, .classes = label, .bytes = image};
static const ls_data_memory_t as_numbers = {
    .rows = ROWS, .inputs = PIXELS, .classes = label, .features = number};

/* What a host makes of the bytes. */
static void make_numbers(void) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_data_config_t config = {.kind = LS_DATA_MEMORY, .validation = 0.2, .normalize = true};
  ls_data_want_t want = {.inputs = PIXELS, .outputs = CLASSES, .classes = true};
  ls_dataset_t *d;
  assert_int_equal(ls_dataset_open(ctx, &config, &as_bytes, &want, SEED, NULL, &d), LS_OK);
  assert_true(d->mean[0] > 0 && d->scale[0] != 1);
  for (int i = 0; i < ROWS * PIXELS; i++)
    number[i] = ls_norm_value(image[i], d->norm.mean[0], d->norm.scale[0]);
  ls_dataset_close(d);
  ls_ctx_destroy(ctx);
}

static void config_text(char *text, size_t size, bool bytes, bool resident, const char *backend,
                        int accumulate) {
  snprintf(
      text, size,
      "model: {input: [%d, %d], loss: cross-entropy, layers: [{dense: {units: 9, activation: tanh}}, {dense: "
      "{units: %d}}]}\n"
      "data: {kind: synthetic, validation: 0.2, normalize: %s, resident: %s}\n"
      "train: {batch: 16, epochs: 2, accumulate: %d, seed: %d, optimizer: {name: adam, lr: 0.01}}\n"
      "parallel: {strategy: ddp, backend: %s, threads: 2}\n",
      HIGH, WIDE, CLASSES, bytes ? "true" : "false", resident ? "true" : "false", accumulate, SEED, backend);
}

static void bytes_train_as_numbers_do(void **state) {
  (void)state;
  static const char *const backends[] = {"ref", "cpu"};
  make_images();
  make_numbers();
  for (int b = 0; b < 2; b++)
    for (int ranks = 1; ranks <= 2; ranks++)
      for (int accumulate = 1; accumulate <= 3; accumulate += 2)
        for (int resident = 0; resident < 2; resident++) {
          sim_result_t result[2];
          for (int bytes = 0; bytes < 2; bytes++) {
            char text[1024];
            config_text(text, sizeof text, bytes, resident, backends[b], accumulate);
            sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = bytes ? &as_bytes : &as_numbers},
                      &result[bytes]);
            assert_string_equal(result[bytes].error, "");
            assert_int_equal(result[bytes].status, LS_OK);
          }
          assert_string_not_equal(result[0].hash[0], "");
          for (int r = 0; r < ranks; r++)
            assert_string_equal(result[0].hash[r], result[1].hash[r]);
          assert_memory_equal(result[0].loss, result[1].loss, sizeof result[0].loss);
          assert_true(result[0].report.val_loss == result[1].report.val_loss);
          ls_free(result[0].param);
          ls_free(result[1].param);
        }
}

/* A quarter of the bytes in memory, in the slot and on the device; what is given to predict are numbers. */
static void bytes_take_a_quarter(void **state) {
  (void)state;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  assert_int_equal(ls_comm_self_create(ctx, &comm), LS_OK);
  ls_world_t world = {.comm = comm};
  float given[2 * PIXELS], output[2][2 * CLASSES];
  for (int i = 0; i < 2 * PIXELS; i++)
    given[i] = image[i];
  for (int resident = 0; resident < 2; resident++) {
    char text[1024];
    ls_config_t *config = NULL;
    ls_trainer_t *t;
    ls_fit_t fit;
    ls_train_memory_t need;
    config_text(text, sizeof text, true, resident, "ref", 1);
    assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
    assert_int_equal(ls_trainer_create(ctx, &world, config, &(ls_trainer_options_t){.memory = &as_bytes}, &t),
                     LS_OK);
    ls_trainer_need(t, &need);
    assert_int_equal(need.samples_bytes, ROWS * (PIXELS + 4));
    ls_program_fit(&t->engine.step[LS_STEP_TRAIN].program, &fit);
    assert_int_equal(ls_fit_bytes(&fit, "data"), resident ? ROWS * (PIXELS + 4) : 0);
    const ls_graph_t *g = t->engine.step[LS_STEP_TRAIN].graph;
    const ls_graph_tensor_t *x = &g->tensors[ls_graph_find(g, "x")];
    assert_true(ls_shape_equal(&x->shape, &LS_SHAPE(LS_U8, 16, HIGH, WIDE)));
    if (resident)
      assert_memory_equal(t->engine.state->data[ls_state_find(t->engine.table, "features")], image,
                          sizeof image);
    assert_int_equal(ls_trainer_predict(t, 2, given, output[resident]), LS_OK);
    ls_trainer_destroy(t);
    ls_config_destroy(config);
  }
  assert_memory_equal(output[0], output[1], sizeof output[0]);
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

/* A step computes all of its rows: a few samples get one of their number, whatever follows them. */
static void few_samples_take_few_rows(void **state) {
  (void)state;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  ls_config_t *config = NULL;
  ls_trainer_t *t;
  char text[1024];
  float output[2][ROWS * CLASSES];
  make_numbers();
  config_text(text, sizeof text, false, false, "ref", 1);
  assert_int_equal(ls_comm_self_create(ctx, &comm), LS_OK);
  ls_world_t world = {.comm = comm};
  assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
  const ls_trainer_options_t options = {.no_training = true, .no_data = true};
  assert_int_equal(ls_trainer_create(ctx, &world, config, &options, &t), LS_OK);
  for (int first = 0; first < ROWS; first += 2)
    assert_int_equal(ls_trainer_predict(t, 2, number + first * PIXELS, output[0] + first * CLASSES), LS_OK);
  assert_int_equal(t->engine.step[LS_STEP_PREDICT].rows, 2);
  assert_int_equal(ls_trainer_predict(t, ROWS, number, output[1]), LS_OK);
  for (int i = 0; i < ROWS * CLASSES; i++)
    assert_true(fabsf(output[0][i] - output[1][i]) < 1e-6F);
  assert_int_equal(ls_trainer_predict(t, 0, number, output[1]), LS_OK);
  ls_trainer_destroy(t);
  ls_config_destroy(config);
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

/* ---- tokens ---- */

enum { SEQUENCES = 7, POSITIONS = 3, BATCH = 4 };

static int flat(ls_graph_t *g, int x, int64_t rows, int64_t cols) {
  const ls_attrs_t to = {.i = {cols ? 2 : 1, rows, cols}};
  return ls_graph_op(g, &ls_op_reshape, &to, 1, &x, NULL);
}

/* x as numbers. The loss is the distance of x and target, or with classes the cross-entropy of every position, of
 * which each has its part of the sequence's weight: of logits that are equal for all classes. */
static ls_graph_t *token_graph(ls_ctx_t *ctx, const ls_sample_t *sample, bool classes) {
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  int x = ls_graph_input(g, "x", LS_SHAPE(sample->x.dtype, BATCH, POSITIONS)), out[3];
  int target = ls_graph_input(g, "target", LS_SHAPE(sample->target.dtype, BATCH, POSITIONS));
  int weight = ls_graph_input(g, "weight", LS_SHAPE(LS_F32, BATCH));
  int step = ls_graph_input(g, "step", LS_SHAPE(LS_U8, 64));
  x = ls_graph_op(g, &ls_op_normalize, NULL, 2, (int[]){x, step}, NULL);
  if (classes) {
    const int64_t rows = BATCH * POSITIONS;
    int logits = ls_graph_op(g, &ls_op_fill, &(ls_attrs_t){.i = {rows * CLASSES}, .f = {1}}, 0, NULL, NULL);
    int each = ls_graph_op(g, &ls_op_reduce_dx, &(ls_attrs_t){.i = {1, 1}}, 2, (int[]){weight, x}, NULL);
    int in[] = {flat(g, logits, rows, CLASSES), flat(g, target, rows, 0), flat(g, each, rows, 0)};
    ls_graph_op(g, &ls_op_softmax_xent, NULL, 3, in, out);
  } else {
    target = ls_graph_op(g, &ls_op_normalize, NULL, 2, (int[]){target, step}, NULL);
    ls_graph_op(g, &ls_op_mse, NULL, 3, (int[]){x, target, weight}, out);
  }
  ls_graph_rename(g, x, "output");
  ls_graph_rename(g, out[0], "loss");
  ls_graph_rename(g, out[1], "correct");
  assert_int_equal(g->status, LS_OK);
  return g;
}

/* One batch of the dataset's sequences in their order. */
static void check_tokens(ls_ctx_t *ctx, const ls_dataset_t *d, bool resident, bool classes) {
  ls_graph_t *g = token_graph(ctx, &d->sample, classes);
  ls_state_table_t *table;
  ls_program_t program;
  ls_device_t *device;
  ls_stream_t *stream;
  ls_state_t *state;
  ls_run_t *run;
  ls_loader_t *loader;
  const float *stats;
  float got[BATCH * POSITIONS];
  assert_int_equal(ls_state_table_create(ctx, g, 1, &table), LS_OK);
  ls_lower_t in = {.graph = g,
                   .state = table,
                   .world_size = 1,
                   .micro_batches = 1,
                   .input_slots = 1,
                   .data_rows = resident ? SEQUENCES : 0,
                   .options = {.bucket_bytes = 64}};
  if (ls_strategy_lower(ctx, &ls_strategy_single, &in, &program) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  assert_int_equal(ls_program_check(&program), LS_OK);
  assert_int_equal(ls_backend_cpu.device->open(ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(ls_backend_cpu.stream->create(device, LS_STREAM_INLINE, &stream), LS_OK);
  assert_int_equal(ls_state_create(ctx, table, device, true, &state), LS_OK);
  if (resident) {
    int x = ls_state_find(table, "features"), y = ls_state_find(table, "targets");
    assert_int_equal(table->row[x].shape.dtype, d->sample.x.dtype);
    memcpy(state->data[x], d->features, ls_state_row_bytes(&table->row[x]));
    memcpy(state->data[y], d->targets, ls_state_row_bytes(&table->row[y]));
  }
  assert_int_equal(ls_run_create(ctx, &program, device, NULL, state, NULL, &run), LS_OK);
  ls_batch_t slot = {.x = ls_run_input(run, "x", 0),
                     .target = ls_run_input(run, "target", 0),
                     .weight = ls_run_input(run, "weight", 0),
                     .step = ls_run_input(run, "step", 0),
                     .row = ls_run_input(run, "rows", 0)};
  ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                           .global_batch = BATCH,
                           .rows = BATCH,
                           .micro_batches = 1,
                           .total_samples = BATCH - 1,
                           .total_steps = 1};
  assert_int_equal(ls_loader_create(ctx, d, &spec, 0, 1, &slot, &loader), LS_OK);
  assert_int_equal(ls_loader_acquire(loader, 0), LS_OK);
  assert_int_equal(ls_run_prime(run, 0), LS_OK);
  assert_int_equal(ls_run_launch(run, 0, 0), LS_OK);
  assert_int_equal(ls_run_wait(run, 0, &stats), LS_OK);
  assert_int_equal(ls_run_read(run, "output", 0, got, sizeof got), LS_OK);
  double loss = 0, correct = 0;
  for (int i = 0; i < BATCH - 1; i++) /* the last row has no weight */
    for (int p = 0; p < POSITIONS; p++) {
      int64_t row = ls_dataset_row(d, LS_PART_TRAIN, i);
      float token, target = (float)((const int32_t *)d->targets)[row * POSITIONS + p];
      ls_dataset_features(d, row, p, 1, &token);
      assert_true(got[i * POSITIONS + p] == token);
      double distance = (double)(token - target) * (double)(token - target);
      loss += (classes ? log(CLASSES) : distance) / ((BATCH - 1) * POSITIONS);
      correct += classes && target == 0; /* the first of equal classes */
    }
  assert_true(fabs((double)stats[LS_STAT_LOSS] - loss) <= 1e-6 * loss);
  assert_true((double)stats[LS_STAT_CORRECT] == correct);
  ls_loader_destroy(loader);
  ls_run_destroy(run);
  ls_state_destroy(state);
  ls_backend_cpu.stream->destroy(stream);
  ls_backend_cpu.device->close(device);
  ls_program_release(&program);
  ls_state_table_release(table);
  ls_graph_destroy(g);
}

static void write_npy(const char *path, const char *type, const void *values, size_t bytes) {
  char header[64];
  int length = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d)}",
                        type, SEQUENCES, POSITIONS);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fwrite("\x93NUMPY\1\0", 8, 1, file);
  fputc(length, file);
  fputc(0, file);
  fwrite(header, (size_t)length, 1, file);
  fwrite(values, bytes, 1, file);
  assert_int_equal(fclose(file), 0);
}

static void tokens_arrive_as_integers(void **unused) {
  (void)unused;
  enum { COUNT = SEQUENCES * POSITIONS };
  uint8_t u8[COUNT];
  uint16_t u16[COUNT];
  int32_t i32[COUNT], target[COUNT];
  for (int i = 0; i < COUNT; i++) {
    u8[i] = (uint8_t)(i * 12);
    u16[i] = (uint16_t)(50000 + i);
    i32[i] = 100000 + i;
    target[i] = i * i % CLASSES;
  }
  static const ls_dtype_t dtype[] = {LS_U8, LS_U16, LS_I32};
  static const char *const type[] = {"|u1", "<u2", "<i4"};
  const void *const values[] = {u8, u16, i32};
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  char folder[] = "/tmp/lockstep-samples-XXXXXX", x[64], y[64];
  assert_non_null(mkdtemp(folder));
  snprintf(x, sizeof x, "%s/x.npy", folder);
  snprintf(y, sizeof y, "%s/y.npy", folder);
  for (int i = 0; i < LS_COUNT(dtype); i++) {
    write_npy(x, type[i], values[i], COUNT * ls_dtype_bytes(dtype[i]));
    write_npy(y, "<i4", target, sizeof target);
    ls_data_config_t config = {.kind = LS_DATA_NPY, .features = x, .targets = y, .normalize = true};
    ls_data_want_t want = {
        .inputs = POSITIONS, .outputs = CLASSES, .classes = true, .positions = POSITIONS, .whole = true};
    ls_dataset_t *d;
    assert_int_equal(ls_dataset_open(ctx, &config, NULL, &want, 1, NULL, &d), LS_OK);
    assert_int_equal(d->sample.x.dtype, dtype[i]);
    for (int way = 0; way < 4; way++)
      check_tokens(ctx, d, way % 2, way / 2);
    ls_dataset_close(d);
  }
  remove(x);
  remove(y);
  remove(folder);
  ls_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_train_as_numbers_do), cmocka_unit_test(bytes_take_a_quarter),
      cmocka_unit_test(few_samples_take_few_rows), cmocka_unit_test(tokens_arrive_as_integers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
