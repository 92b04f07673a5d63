/* Steps: a loader that fills slots ahead, and the order in which slots are filled, launched and waited for.
 *
 * A device with memory of its own is kept one step ahead of what the host looks at: step k is launched before
 * step k - 1 is waited for, so that the device never waits for the host. Host backends finish a step inside
 * launch. */
#include "engine/engine.h"

static int slot_of(int64_t step) {
  return (int)(step % LS_ENGINE_SLOTS);
}

ls_batch_t ls_engine_batch(const ls_engine_t *e, ls_member_id_t member, int slot) {
  ls_run_t *run = e->member[member].run;
  return (ls_batch_t){.x = ls_run_input(run, LS_NAME_X, slot),
                      .target = ls_run_input(run, LS_NAME_TARGET, slot),
                      .weight = ls_run_input(run, LS_NAME_WEIGHT, slot),
                      .step = ls_run_input(run, LS_NAME_STEP, slot),
                      .row = ls_run_input(run, LS_NAME_ROWS, slot)};
}

ls_status_t ls_engine_once(ls_engine_t *e, ls_member_id_t member) {
  ls_run_t *run = e->member[member].run;
  ls_status_t status = ls_run_prime(run, 0);
  if (status == LS_OK) status = ls_run_launch(run, 0);
  return status == LS_OK ? ls_run_wait(run, 0, NULL) : status;
}

ls_status_t ls_engine_start(ls_engine_t *e, const ls_engine_steps_t *steps) {
  const ls_model_config_t *model = &e->config->model;
  int64_t row_bytes = ls_model_samples_bytes(model, 1);
  ls_loader_spec_t spec = {.part = LS_PART_TRAIN,
                           .seed = steps->seed,
                           .shuffle = true,
                           .global_batch = e->config->train.batch,
                           .first = e->share.first,
                           .count = e->share.count,
                           .rows = e->share.rows,
                           .accumulate = e->share.accumulate,
                           .origin = steps->origin,
                           .total_samples = steps->total_samples,
                           .total_steps = steps->total_steps,
                           .lr = steps->lr,
                           .lr_user = steps->lr_user,
                           .deadline_ns = e->comm->deadline_ns,
                           .threads = ls_engine_loader_threads(e->backend, e->threads, e->share.count,
                                                               row_bytes, e->data_rows > 0)};
  ls_batch_t slots[LS_ENGINE_SLOTS];
  for (int i = 0; i < LS_ENGINE_SLOTS; i++)
    slots[i] = ls_engine_batch(e, LS_MEMBER_TRAIN, i);
  e->launched = e->finished = steps->first_step;
  e->total_steps = steps->total_steps;
  ls_status_t status =
      ls_loader_create(e->ctx, steps->dataset, &spec, steps->first_step, LS_ENGINE_SLOTS, slots, &e->loader);
  if (status != LS_OK || steps->first_step >= steps->total_steps) return status;
  status = ls_loader_acquire(e->loader, e->launched);
  return status == LS_OK ? ls_run_prime(e->member[LS_MEMBER_TRAIN].run, slot_of(e->launched)) : status;
}

void ls_engine_stop(ls_engine_t *e) {
  ls_loader_destroy(e->loader);
  e->loader = NULL;
}

ls_status_t ls_engine_launch(ls_engine_t *e) {
  int slot = slot_of(e->launched);
  ls_comm_set_step(e->comm, e->launched);
  ls_comm_set_step(e->exchange, e->launched);
  /* with a copy lane the next batch travels during this step */
  ls_status_t status = ls_loader_acquire(e->loader, e->launched + e->lag);
  e->launched_ns[slot] = ls_clock_ns();
  if (status == LS_OK) status = ls_run_launch(e->member[LS_MEMBER_TRAIN].run, slot);
  e->launched++;
  return status;
}

ls_status_t ls_engine_wait(ls_engine_t *e, const float **stats) {
  ls_status_t status = ls_run_wait(e->member[LS_MEMBER_TRAIN].run, slot_of(e->finished), stats);
  ls_loader_release(e->loader, e->finished);
  e->finished++;
  return status;
}
