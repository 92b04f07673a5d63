/* A program outside the project: trains on samples from memory and predicts. Valid C17 and C++. */
#include <lockstep/lockstep.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_message(void *user, ls_log_level_t level, const char *message) {
  (void)user;
  (void)level;
  fprintf(stderr, "%s\n", message);
}

static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 16, activation: tanh}}, "
                           "{dense: {units: 1}}]}\n"
                           "data: {kind: synthetic, validation: 0.25, normalize: false}\n"
                           "train: {batch: 32, epochs: 60, optimizer: {name: adam, lr: 0.01}}\n"
                           "parallel: {backend: cpu, threads: 1}\n";

enum { ROWS = 400 };
static float features[ROWS * 2], targets[ROWS];

static int train(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config) {
  ls_data_memory_t memory;
  ls_trainer_options_t options;
  ls_trainer_t *trainer = NULL;
  ls_train_report_t report;
  float x[2] = {0.5f, -0.25f}, y = 0;
  memset(&memory, 0, sizeof memory);
  memory.rows = ROWS;
  memory.inputs = 2;
  memory.outputs = 1;
  memory.features = features;
  memory.targets = targets;
  memset(&options, 0, sizeof options);
  options.memory = &memory;
  if (ls_trainer_create(ctx, world, config, &options, &trainer) != LS_OK) return 1;
  int bad = ls_trainer_run(trainer, NULL, &report) != LS_OK || ls_trainer_predict(trainer, 1, x, &y) != LS_OK;
  ls_trainer_destroy(trainer);
  printf("lockstep %s: validation loss %.4f -> %.4f, f(0.5, -0.25) = %.3f (0.25 expected)\n", ls_version(),
         report.val_loss_first, report.val_loss, (double)y);
  bad |= report.memory.step_bytes <= 0;
  return bad || !(report.val_loss < 0.01) || !(fabs((double)y - 0.25) < 0.2) ||
         strcmp(ls_version(), LS_VERSION) != 0;
}

int main(void) {
  for (int i = 0; i < ROWS; i++) {
    features[2 * i] = (float)(i % 20) / 10 - 1;
    features[2 * i + 1] = (float)(i / 20) / 10 - 1;
    targets[i] = features[2 * i] + features[2 * i + 1];
  }
  ls_ctx_t *ctx = ls_ctx_create(print_message, NULL);
  ls_config_t *config = NULL;
  ls_world_t *world = NULL;
  int failed = !ctx || ls_config_parse(ctx, "consumer", text, strlen(text), NULL, 0, &config) != LS_OK ||
               ls_world_open(ctx, 0, &world) != LS_OK || train(ctx, world, config);
  if (world) ls_world_close(world);
  ls_config_destroy(config);
  ls_ctx_destroy(ctx);
  return failed;
}
