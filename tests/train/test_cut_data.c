/* A mapped data file that is cut during a run of an embedding program, whose handler of SIGBUS asks ls_data_fault. */
#include "train/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum { TEXT_BYTES = 5000 };

static void on_bus(int number, siginfo_t *info, void *context) {
  (void)number;
  (void)context;
  if (info->si_code != BUS_ADRERR || !ls_data_fault(info->si_addr)) _exit(99);
}

typedef struct {
  char data[128], message[1024];
  int64_t cut_at; /* the step after which the file is cut */
} run_t;

static void cut(void *user, const ls_progress_t *p) {
  run_t *run = user;
  if (p->step == run->cut_at) assert_int_equal(truncate(run->data, 0), 0);
}

static void keep(void *user, ls_log_level_t level, const char *message) {
  run_t *run = user;
  if (level == LS_LOG_ERROR) snprintf(run->message, sizeof run->message, "%s", message);
}

/* After step 1 the loader still needs samples. After step 3, the last one, only the checkpoint's fingerprint of the data does: it
 * would be that of zeros, and the checkpoint could not be resumed with the true file. */
static void the_run_fails_and_checkpoints_stay_good(void **state) {
  (void)state;
  struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGBUS, &bus, NULL), 0);
  for (int64_t cut_at = 1; cut_at <= 3; cut_at += 2) {
    char folder[] = "/tmp/lockstep-cut-XXXXXX", text[1024];
    assert_non_null(mkdtemp(folder));
    run_t run = {.cut_at = cut_at};
    snprintf(run.data, sizeof run.data, "%s/text", folder);
    FILE *file = fopen(run.data, "w");
    assert_non_null(file);
    for (int i = 0; i < TEXT_BYTES; i++)
      fputc('a' + i % 26, file);
    assert_int_equal(fclose(file), 0);
    snprintf(
        text, sizeof text,
        "model: {input: [8], loss: cross-entropy, layers: [{embedding: {size: 256, units: 4}}, {dense: "
        "{units: 256, "
        "over: last}}]}\n"
        "data: {kind: text, path: %s, tokens: bytes, context: 8}\n"
        "train: {batch: 4, steps: 3, evaluate_every: 0, checkpoint: {dir: %s/run, every_steps: 1, keep: 9}}\n"
        "parallel: {strategy: single, backend: cpu, threads: 1}\n",
        run.data, folder);
    ls_ctx_t *ctx = ls_ctx_create(keep, &run);
    ls_config_t *config;
    ls_world_t *world;
    ls_trainer_t *trainer;
    ls_train_report_t report;
    assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
    assert_int_equal(ls_world_open(ctx, 0, &world), LS_OK);
    assert_int_equal(ls_trainer_create(ctx, world, config, NULL, &trainer), LS_OK);
    const ls_train_hooks_t hooks = {.progress = cut, .user = &run};
    assert_int_equal(ls_trainer_run(trainer, &hooks, &report), LS_ERR_IO);
    assert_non_null(strstr(run.message, "/text: became shorter while it was read, from 5000 to 0 bytes"));
    ls_trainer_destroy(trainer);
    char last[256];
    snprintf(last, sizeof last, "%s/run/step-%012d", folder, 3);
    assert_false(ls_path_exists(last));
    snprintf(last, sizeof last, "%s/run/step-%012d", folder, 2);
    assert_int_equal(ls_path_exists(last), cut_at == 3);
    ls_world_close(world);
    ls_config_destroy(config);
    ls_ctx_destroy(ctx);
    assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
  }
}

typedef struct {
  char features[128], messages[4096];
  bool cuts;
} start_t;

/* The part that is held out of so few samples is none: a warning that comes when the files are mapped. */
static void cut_by_a_warning(void *user, ls_log_level_t level, const char *message) {
  start_t *s = user;
  if (level == LS_LOG_WARN && strstr(message, "data.validation") && s->cuts)
    assert_int_equal(truncate(s->features, 20), 0);
  if (level == LS_LOG_ERROR) strcat(strcat(s->messages, message), "\n");
}

static void make_array(const char *path, const char *shape, int bytes) {
  char header[119];
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  snprintf(header, sizeof header, "{'descr': '|u1', 'fortran_order': False, 'shape': %s, }", shape);
  fwrite("\x93NUMPY\1\0\x76\0", 1, 10, file);
  fprintf(file, "%-117s\n", header);
  for (int i = 0; i < bytes; i++)
    fputc(i % 2, file);
  assert_int_equal(fclose(file), 0);
}

/* The data's fingerprint is one of zeros then. The run said that these were other data (LS_ERR_MISMATCH), and that
 * --allow-data-change went on with them. */
static void a_file_that_is_cut_before_its_fingerprint_is_not_called_another(void **state) {
  (void)state;
  struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
  assert_int_equal(sigaction(SIGBUS, &bus, NULL), 0);
  char folder[] = "/tmp/lockstep-cut-XXXXXX", text[1024], path[128];
  assert_non_null(mkdtemp(folder));
  start_t start = {.cuts = false};
  snprintf(start.features, sizeof start.features, "%s/x.npy", folder);
  snprintf(path, sizeof path, "%s/y.npy", folder);
  make_array(path, "(3000,)", 3000);
  snprintf(text, sizeof text,
           "model: {input: [4], loss: cross-entropy, layers: [{dense: {units: 2}}]}\n"
           "data: {kind: npy, features: %s, targets: %s, mapped: true, normalize: false, validation: 1e-6}\n"
           "train: {batch: 4, steps: 3, evaluate_every: 0, checkpoint: {dir: %s/run, every_steps: 3}}\n"
           "parallel: {strategy: single, backend: cpu, threads: 1}\n",
           start.features, path, folder);
  const ls_trainer_options_t options[] = {{0}, {.resume = true}, {.resume = true, .allow_data_change = true}};
  for (int i = 0; i < LS_COUNT(options); i++) {
    make_array(start.features, "(3000, 4)", 12000);
    start.cuts = i > 0;
    start.messages[0] = '\0';
    ls_ctx_t *ctx = ls_ctx_create(cut_by_a_warning, &start);
    ls_config_t *config;
    ls_world_t *world;
    ls_trainer_t *trainer = NULL;
    ls_train_report_t report;
    assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
    assert_int_equal(ls_world_open(ctx, 0, &world), LS_OK);
    ls_status_t status = ls_trainer_create(ctx, world, config, &options[i], &trainer);
    if (i == 0) assert_int_equal(ls_trainer_run(trainer, NULL, &report), LS_OK);
    assert_int_equal(status, i == 0 ? LS_OK : LS_ERR_IO);
    if (i > 0)
      assert_non_null(strstr(start.messages, "/x.npy: became shorter while it was read, from 12128 to 20"));
    assert_null(strstr(start.messages, "allow-data-change"));
    ls_trainer_destroy(trainer);
    ls_world_close(world);
    ls_config_destroy(config);
    ls_ctx_destroy(ctx);
  }
  assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_that_is_cut_before_its_fingerprint_is_not_called_another),
      cmocka_unit_test(the_run_fails_and_checkpoints_stay_good)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
