/* One thread per rank, each with a context, a world around its sim communicator and a trainer. */
#include "sim_world.h"

#include "unit.h"

#include "support/threads.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const sim_run_t *run;
  ls_comm_t *comm;
  ls_ctx_t *ctx;
  int64_t seen;
  sim_result_t *result; /* rank 0 fills it; others their hash */
  ls_status_t status;
} rank_t;

static void on_progress(void *user, const ls_progress_t *p) {
  rank_t *rank = user;
  rank->seen = p->step;
  if (rank->run->kill_after > 0 && p->step >= rank->run->kill_after) raise(SIGKILL);
  if (p->step <= SIM_STEPS_MAX) rank->result->loss[p->step - 1] = p->train_loss;
  rank->result->steps = (int)p->step;
}

static bool on_stop(void *user) {
  rank_t *rank = user;
  return rank->run->stop_after > 0 && rank->seen >= rank->run->stop_after;
}

static ls_status_t train(rank_t *rank, ls_world_t *world, const ls_config_t *config) {
  ls_trainer_t *trainer;
  ls_train_report_t report;
  ls_trainer_options_t options = {.memory = rank->run->memory, .resume = rank->run->resume};
  ls_train_hooks_t hooks = {.progress = on_progress, .stop = on_stop, .user = rank};
  ls_status_t status = ls_trainer_create(rank->ctx, world, config, &options, &trainer);
  if (status != LS_OK) return status;
  if (rank->run->begin) rank->run->begin(rank->run->user, trainer);
  status = ls_trainer_run(trainer, &hooks, &report);
  memcpy(rank->result->hash[world->comm->rank], report.params_xxh3, sizeof report.params_xxh3);
  if (world->comm->rank == 0) {
    const float *param;
    if (ls_trainer_parameters(trainer, &param) == LS_OK) {
      rank->result->param_count = trainer->engine.table->layout->total;
      rank->result->param =
          ls_alloc_array(rank->ctx, (size_t)trainer->engine.table->layout->total, sizeof *param);
      if (rank->result->param)
        memcpy(rank->result->param, param, (size_t)trainer->engine.table->layout->total * sizeof *param);
    }
    rank->result->report = report;
  }
  ls_trainer_destroy(trainer);
  return status;
}

static void *rank_main(void *arg) {
  rank_t *rank = arg;
  ls_world_t world = {.comm = rank->comm};
  ls_config_t *config;
  bool last = rank->run->last_text && rank->comm->rank == rank->run->ranks - 1;
  const char *text = last ? rank->run->last_text : rank->run->text;
  rank->status = ls_config_parse(rank->ctx, "test", text, strlen(text), NULL, 0, &config);
  if (rank->status != LS_OK) return NULL;
  rank->status = train(rank, &world, config);
  ls_config_destroy(config);
  return NULL;
}

void sim_train(const sim_run_t *run, sim_result_t *result) {
  memset(result, 0, sizeof *result);
  rank_t ranks[SIM_RANKS_MAX] = {0};
  ls_comm_t *comms[SIM_RANKS_MAX];
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  result->status = ls_comm_sim_create(ctx, run->ranks, 0, comms);
  if (result->status != LS_OK) {
    ls_ctx_destroy(ctx);
    return;
  }
  for (int r = 0; r < run->ranks; r++)
    ranks[r] = (rank_t){.run = run, .comm = comms[r], .ctx = ls_ctx_create(NULL, NULL), .result = result};
  threads_run(run->ranks, rank_main, ranks, sizeof *ranks);
  for (int r = 0; r < run->ranks; r++) {
    if (result->status == LS_OK) result->status = ranks[r].status;
    if (!result->error[0]) snprintf(result->error, sizeof result->error, "%s", ls_ctx_error(ranks[r].ctx));
    ls_comm_destroy(comms[r]);
    ls_ctx_destroy(ranks[r].ctx);
  }
  ls_ctx_destroy(ctx);
}

void sim_order(const char *text, const ls_data_memory_t *memory, int64_t count, int32_t *row) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm;
  ls_config_t *config;
  ls_trainer_t *t;
  float *weight = ls_alloc_array(ctx, (size_t)count, sizeof *weight);
  ls_step_params_t step;
  assert_non_null(weight);
  assert_int_equal(ls_comm_self_create(ctx, &comm), LS_OK);
  ls_world_t world = {.comm = comm};
  const ls_trainer_options_t options = {.memory = memory};
  assert_int_equal(ls_config_parse(ctx, "test", text, strlen(text), NULL, 0, &config), LS_OK);
  if (ls_trainer_create(ctx, &world, config, &options, &t) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  const ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                                 .seed = (uint64_t)config->train.seed,
                                 .shuffle = true,
                                 .global_batch = count,
                                 .rows = count,
                                 .micro_batches = 1,
                                 .total_samples = count,
                                 .total_steps = 1};
  const ls_batch_t to = {.row = row, .weight = weight, .step = &step};
  assert_int_equal(ls_batch_fill(t->dataset, &spec, 0, &to), LS_OK);
  ls_free(weight);
  ls_trainer_destroy(t);
  ls_config_destroy(config);
  ls_comm_destroy(comm);
  ls_ctx_destroy(ctx);
}

void sim_same_on_ranks(const char *label, const char *text, const ls_data_memory_t *memory,
                       sim_result_t *last) {
  char first[sizeof last->hash[0]] = "";
  for (int ranks = 1; ranks <= 3; ranks++) {
    if (ranks > 1) ls_free(last->param);
    sim_train(&(sim_run_t){.text = text, .ranks = ranks, .memory = memory}, last);
    assert_string_equal(last->error, "");
    if (ranks == 1) memcpy(first, last->hash[0], sizeof first);
    for (int r = 0; r < ranks; r++)
      if (strcmp(last->hash[r], first) != 0) fail_msg("%s: rank %d of %d has other bits", label, r, ranks);
  }
}
