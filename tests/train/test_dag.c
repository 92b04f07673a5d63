/* Networks that are no chain: a residual network with shared and frozen layers against plain loops and finite
 * differences, trained by several ranks, and gone on with from a checkpoint. */
#include "sim_world.h"

#include "schedule/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { ROWS = 3, IN = 4, WIDTH = 6, OUT = 2 };

#define LAYERS                                                                                               \
  "layers: [{dense: {units: 6, activation: tanh, name: stem%s}}, "                                           \
  "{repeat: {times: 2, layers: [{dense: {units: 6, activation: tanh, name: fc}}, "                           \
  "{dense: {units: 6, share: fc, name: again}}, {add: {from: [input, again], name: sum}}]}}, "               \
  "{concat: {from: [%s, block.1.sum]}}, {dense: {units: 2}}]"

typedef struct {
  ls_ctx_t *ctx;
  ls_config_t *config;
  ls_step_t member;
  ls_schedule_t *schedule; /* the member's, and the table of its state */
  ls_state_table_t *table;
  ls_device_t *device;
  ls_state_t *state;
  ls_run_t *run;
  float *param;
  float x[ROWS][IN], target[ROWS][OUT];
} net_t;

static void open_net(net_t *n, const char *freeze) {
  char text[1024];
  snprintf(text, sizeof text,
           "model: {input: [4], loss: mse, " LAYERS "}\ndata: {kind: synthetic, samples: 60}\n"
           "train: {batch: 3, steps: 1, optimizer: {name: sgd}}\n",
           freeze, "stem");
  *n = (net_t){.ctx = ls_ctx_create(NULL, NULL)};
  assert_int_equal(ls_config_parse(n->ctx, "c.yaml", text, strlen(text), NULL, 0, &n->config), LS_OK);
  const ls_step_spec_t spec = {.step = ls_config_step(n->config),
                               .kind = LS_STEP_TRAIN,
                               .world_size = 1,
                               .rows = ROWS,
                               .backend = &ls_backend_ref};
  assert_int_equal(ls_step_lower(n->ctx, &spec, &n->member), LS_OK);
  n->schedule = n->member.program.member[0];
  n->table = n->schedule->state;
  assert_int_equal(ls_schedule_check(n->schedule), LS_OK);
  const ls_backend_t *ref = &ls_backend_ref;
  assert_int_equal(ref->device->open(n->ctx, &(ls_device_options_t){.threads = 1}, &n->device), LS_OK);
  assert_int_equal(ls_state_create(n->ctx, n->table, n->device, true, &n->state), LS_OK);
  assert_int_equal(ls_run_create(n->ctx, &n->member.program, n->device, NULL, n->state, NULL, &n->run),
                   LS_OK);
  n->param = n->state->host[0];
  for (int i = 0; i < n->table->layout->count; i++) {
    const ls_layout_entry_t *e = &n->table->layout->entry[i];
    for (int64_t k = 0; k < e->count; k++)
      n->param[e->offset + k] = (float)((k * 37 + e->ordinal * 11) % 19 - 9) / 16;
  }
  for (int r = 0; r < ROWS; r++) {
    for (int i = 0; i < IN; i++)
      n->x[r][i] = (float)((r * 5 + i * 3) % 7 - 3) / 4;
    for (int o = 0; o < OUT; o++)
      n->target[r][o] = (float)(r - o) / 2;
  }
}

static void close_net(net_t *n) {
  ls_run_destroy(n->run);
  ls_state_destroy(n->state);
  ls_backend_ref.device->close(n->device);
  ls_step_release(&n->member);
  ls_config_destroy(n->config);
  ls_ctx_destroy(n->ctx);
}

/* One step at rate 0: the loss, and the gradients in their row. */
static double step(net_t *n) {
  const float *stats;
  float *weight = ls_run_input(n->run, "weight", 0);
  memcpy(ls_run_input(n->run, "x", 0), n->x, sizeof n->x);
  memcpy(ls_run_input(n->run, "target", 0), n->target, sizeof n->target);
  for (int r = 0; r < ROWS; r++)
    weight[r] = 1.0f / ROWS;
  *(ls_step_params_t *)ls_run_input(n->run, "step", 0) = (ls_step_params_t){.dloss = 1};
  assert_int_equal(ls_run_prime(n->run, 0), LS_OK);
  assert_int_equal(ls_run_launch(n->run, 0, 0), LS_OK);
  assert_int_equal(ls_run_wait(n->run, 0, &stats), LS_OK);
  return (double)stats[LS_STAT_LOSS];
}

static const float *values(const net_t *n, const char *name) {
  return n->param + ls_layout_find(n->table->layout, name)->offset;
}

static void linear(const net_t *n, const char *layer, int in, int out, const double *x, double *y) {
  char name[64];
  snprintf(name, sizeof name, "%s.weight", layer);
  const float *w = values(n, name);
  snprintf(name, sizeof name, "%s.bias", layer);
  for (int o = 0; o < out; o++) {
    y[o] = (double)values(n, name)[o];
    for (int i = 0; i < in; i++)
      y[o] += (double)w[o * in + i] * x[i];
  }
}

static double loss_by_hand(const net_t *n) {
  double loss = 0;
  for (int r = 0; r < ROWS; r++) {
    double x[IN], h[2 * WIDTH], a[WIDTH], y[OUT], *sum = h + WIDTH; /* h: the concatenation */
    for (int i = 0; i < IN; i++)
      x[i] = (double)n->x[r][i];
    linear(n, "stem", IN, WIDTH, x, h);
    for (int i = 0; i < WIDTH; i++)
      sum[i] = h[i] = tanh(h[i]);
    for (int block = 0; block < 2; block++) {
      double again[WIDTH];
      const char *fc = block ? "block.1.fc" : "block.0.fc";
      linear(n, fc, WIDTH, WIDTH, sum, a);
      for (int i = 0; i < WIDTH; i++)
        a[i] = tanh(a[i]);
      linear(n, fc, WIDTH, WIDTH, a, again);
      for (int i = 0; i < WIDTH; i++)
        sum[i] += again[i];
    }
    linear(n, "layers.8", 2 * WIDTH, OUT, h, y);
    for (int o = 0; o < OUT; o++)
      loss += (y[o] - (double)n->target[r][o]) * (y[o] - (double)n->target[r][o]) / OUT / ROWS;
  }
  return loss;
}

static void test_residual_network_by_hand(void **state) {
  (void)state;
  net_t n;
  open_net(&n, "");
  double want = loss_by_hand(&n), got = step(&n);
  assert_true(want > 0.1 && fabs(got - want) < 1e-6 * want);
  close_net(&n);
}

/* Every parameter: those that two layers share, those that are read along several ways, those before frozen
 * ones. */
static void test_gradients_against_finite_differences(void **state) {
  (void)state;
  for (int frozen = 0; frozen < 2; frozen++) {
    net_t n;
    open_net(&n, frozen ? ", freeze: true" : "");
    const ls_layout_t *layout = n.table->layout;
    step(&n);
    int gradients = ls_state_find(n.table, "gradients");
    const float *grad = n.state->data[gradients];
    assert_int_equal(ls_state_row_count(&n.table->row[gradients]), layout->trained);
    assert_int_equal(layout->trained_count, frozen ? 6 : 8);
    for (int i = 0; i < layout->trained_count; i++)
      for (int64_t k = 0; k < layout->entry[i].count; k++) {
        float *p = &n.param[layout->entry[i].offset + k], was = *p;
        const double by = 1.0 / 1024;
        *p = was + (float)by;
        double above = loss_by_hand(&n);
        *p = was - (float)by;
        double below = loss_by_hand(&n), want = (above - below) / (2 * by);
        *p = was;
        double got = (double)grad[p - n.param];
        if (fabs(got - want) > 1e-5 * (1 + fabs(want)))
          fail_msg("%s[%d]: %g, differences say %g", layout->entry[i].name, (int)k, got, want);
      }
    close_net(&n);
  }
}

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/lockstep-dag-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

static void config_text(char *text, size_t size, const char *freeze, const char *from, const char *dir) {
  int used = snprintf(text, size, "model: {input: [4], loss: mse, " LAYERS "}\n", freeze, from);
  snprintf(text + used, size - (size_t)used,
           "data: {kind: synthetic, samples: 300, validation: 0.2}\n"
           "train: {batch: 30, epochs: 4, checkpoint: {dir: %s/%s, every_steps: 5}}\n"
           "parallel: {strategy: ddp, backend: cpu, threads: 1, bucket_bytes: 64}\n",
           folder, dir);
}

/* What is frozen is saved with the model, is the same on every rank, and costs no gradient. */
static void test_ranks_and_resume(void **state) {
  (void)state;
  char whole_text[1024], part_text[1024];
  sim_result_t whole, part, rest, many;
  config_text(whole_text, sizeof whole_text, ", freeze: true", "stem", "whole");
  config_text(part_text, sizeof part_text, ", freeze: true", "stem", "part");
  sim_train(&(sim_run_t){.text = whole_text, .ranks = 1}, &whole);
  assert_string_equal(whole.error, "");
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .stop_after = 13}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  sim_train(&(sim_run_t){.text = part_text, .ranks = 1, .resume = true}, &rest);
  assert_string_equal(rest.error, "");
  assert_int_equal(rest.report.resumed_from, 13);
  assert_string_equal(rest.report.params_xxh3, whole.report.params_xxh3);
  config_text(part_text, sizeof part_text, ", freeze: true", "stem", "many");
  sim_train(&(sim_run_t){.text = part_text, .ranks = 3}, &many);
  assert_string_equal(many.error, "");
  for (int r = 1; r < 3; r++)
    assert_string_equal(many.hash[r], many.hash[0]);
  int64_t frozen = 0;
  for (int64_t i = 0; i < whole.param_count; i++) {
    assert_true(fabsf(many.param[i] - whole.param[i]) < 1e-4f);
    frozen +=
        i >= whole.param_count - 32 - 16 && many.param[i] == whole.param[i]; /* weight (6, 4), bias (6) */
  }
  assert_int_equal(frozen, 48);
  ls_free(whole.param);
  ls_free(part.param);
  ls_free(rest.param);
  ls_free(many.param);
}

static void expect_mismatch(const char *text, const char *message) {
  sim_result_t result;
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .resume = true}, &result);
  assert_int_equal(result.status, LS_ERR_MISMATCH);
  if (!strstr(result.error, message)) fail_msg("\"%s\" lacks \"%s\"", result.error, message);
  ls_free(result.param);
}

static void test_another_graph_is_a_mismatch(void **state) {
  (void)state;
  char text[1024];
  sim_result_t part;
  config_text(text, sizeof text, "", "stem", "changed");
  sim_train(&(sim_run_t){.text = text, .ranks = 1, .stop_after = 3}, &part);
  assert_int_equal(part.status, LS_ERR_INTERRUPTED);
  ls_free(part.param);
  config_text(text, sizeof text, "", "block.0.sum", "changed");
  expect_mismatch(text,
                  "model.layers.7.concat.from: checkpoint has [\"stem\", \"block.1.sum\"], configuration "
                  "has [\"block.0.sum\", \"block.1.sum\"]");
  config_text(text, sizeof text, ", freeze: true", "stem", "changed");
  expect_mismatch(text, "model.layers.0.dense.freeze: checkpoint has false, configuration has true");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_residual_network_by_hand),
      cmocka_unit_test(test_gradients_against_finite_differences),
      cmocka_unit_test(test_ranks_and_resume),
      cmocka_unit_test(test_another_graph_is_a_mismatch),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
