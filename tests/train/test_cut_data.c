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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_run_fails_and_checkpoints_stay_good)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
