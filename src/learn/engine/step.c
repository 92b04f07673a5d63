/* Steps: a loader that fills slots ahead, and the order in which slots are filled, launched and waited for,
 * counted in micro-batches through the run.
 *
 * A device with memory of its own is kept one micro-batch ahead of the host: micro-batch k is launched before
 * k - 1 is waited for, so the device never waits for the host. Host backends finish a micro-batch inside
 * launch. */
#include "engine/engine.h"

#include "base/clock.h"

#include <string.h>

enum { LOADER_SPIN_NS = 100000 };

static int slot_of(int64_t unit) {
  return (int)(unit % LS_ENGINE_SLOTS);
}

ls_batch_t ls_engine_batch(const ls_engine_t *e, ls_step_kind_t kind, int slot) {
  ls_run_t *run = e->step[kind].run;
  return (ls_batch_t){.x = ls_run_input(run, LS_NAME_X, slot),
                      .target = ls_run_input(run, LS_NAME_TARGET, slot),
                      .weight = ls_run_input(run, LS_NAME_WEIGHT, slot),
                      .step = ls_run_input(run, LS_NAME_STEP, slot),
                      .row = ls_run_input(run, LS_NAME_ROWS, slot)};
}

ls_status_t ls_engine_once(ls_engine_t *e, ls_step_kind_t kind) {
  ls_run_t *run = e->step[kind].run;
  ls_status_t status = ls_run_prime(run, 0);
  if (status == LS_OK) status = ls_run_launch(run, 0, 0);
  return status == LS_OK ? ls_run_wait(run, 0, NULL) : status;
}

ls_status_t ls_engine_start(ls_engine_t *e, const ls_engine_steps_t *steps) {
  const ls_sample_t *sample = &steps->dataset->sample;
  const int64_t row_bytes = (int64_t)(ls_shape_bytes(&sample->x) + ls_shape_bytes(&sample->target));
  ls_loader_spec_t spec = {
      .part = LS_PART_TRAIN,
      .seed = steps->seed,
      .shuffle = true,
      .global_batch = e->options.step.batching.batch,
      .first = e->share.first,
      .rows = e->share.rows,
      .stride = e->share.stride,
      .accumulate = e->share.accumulate,
      .origin = steps->origin,
      .total_samples = steps->total_samples,
      .total_steps = steps->total_steps,
      .lr = steps->lr,
      .lr_user = steps->lr_user,
      .deadline_ns = e->comm->deadline_ns,
      .threads = ls_engine_loader_threads(e->backend, e->threads, e->share.rows, row_bytes, e->data_rows > 0),
      .times = &e->input,
      .spin_ns = e->backend->host_processors ? 0 : LOADER_SPIN_NS};
  const int decoding = ls_engine_input_threads(e, steps->dataset);
  if (decoding > spec.threads) spec.threads = decoding;
  ls_batch_t slots[LS_ENGINE_SLOTS];
  for (int i = 0; i < LS_ENGINE_SLOTS; i++)
    slots[i] = ls_engine_batch(e, LS_STEP_TRAIN, i);
  const ls_program_t *p = &e->step[LS_STEP_TRAIN].program;
  e->took = NULL;
  if (p->count > 1 &&
      !(e->sums = ls_alloc_array(e->ctx, 2 * (size_t)ls_program_task(p, p->count, 0), sizeof *e->sums)))
    return LS_ERR_MEMORY;
  e->observer = steps->observer;
  e->launched = e->finished = steps->first_step;
  e->unit_launched = e->unit_finished = steps->first_step * e->share.accumulate;
  ls_status_t status =
      ls_loader_create(e->ctx, steps->dataset, &spec, steps->first_step, LS_ENGINE_SLOTS, slots, &e->loader);
  if (status != LS_OK || steps->first_step >= steps->total_steps) return status;
  status = ls_loader_acquire(e->loader, e->unit_launched);
  return status == LS_OK ? ls_run_prime(e->step[LS_STEP_TRAIN].run, slot_of(e->unit_launched)) : status;
}

void ls_engine_stop(ls_engine_t *e) {
  ls_loader_destroy(e->loader);
  ls_free(e->sums);
  e->loader = NULL;
  e->sums = NULL;
}

/* Adds what micro-batch m took to its step's times. */
static void add_times(ls_engine_t *e, int64_t step, int m) {
  const ls_run_t *run = e->step[LS_STEP_TRAIN].run;
  const ls_program_t *p = &e->step[LS_STEP_TRAIN].program;
  const ls_task_time_t *times = ls_run_times(run);
  ls_step_times_t *to = &e->times[step % 2];
  int64_t parts_ns[LS_PHASE_STEP_COUNT];
  to->timed = ls_run_timed(run) && (m == 0 || to->timed);
  if (!to->timed) return;
  to->task = times;
  if (e->sums && times) {
    int member = ls_run_member(run), tasks = ls_program_task(p, p->count, 0);
    ls_task_time_t *all = e->sums + step % 2 * tasks, *sum = all + ls_program_task(p, member, 0);
    if (m == 0) memset(all, 0, (size_t)tasks * sizeof *all);
    for (int t = 0; t < p->member[member]->task_count; t++) {
      sum[t].start_ns += times[t].start_ns;
      sum[t].end_ns += times[t].end_ns;
    }
    to->task = all;
  }
  const int64_t since_ns = ls_run_since_ns(run), before_ns = m > 0 ? to->device_ns : 0;
  to->device_ns = since_ns > 0 && (m == 0 || before_ns > 0) ? before_ns + since_ns : 0;
  ls_run_parts(run, parts_ns);
  if (e->lag == 0) parts_ns[LS_PHASE_STEP_INPUT] += e->waited_ns; /* else the device works meanwhile */
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    to->parts_ns[i] = (m > 0 ? to->parts_ns[i] : 0) + parts_ns[i];
}

/* Waits for the oldest micro-batch in flight; its slot may be filled again. */
static ls_status_t finish_unit(ls_engine_t *e) {
  const float *stats;
  ls_status_t status = ls_run_wait(e->step[LS_STEP_TRAIN].run, slot_of(e->unit_finished), &stats);
  int64_t step = e->unit_finished / e->share.accumulate;
  int m = (int)(e->unit_finished % e->share.accumulate);
  ls_loader_release(e->loader, e->unit_finished++);
  if (status != LS_OK) return status;
  add_times(e, step, m);
  if (m + 1 == e->share.accumulate) {
    e->took = e->times[step % 2].timed ? &e->times[step % 2] : NULL;
    e->done_ns = ls_clock_ns();
    memcpy(e->stats, stats, sizeof e->stats);
  }
  if (e->observer.seen) e->observer.seen(e->observer.user, step, m);
  return LS_OK;
}

static ls_status_t launch_unit(ls_engine_t *e) {
  int slot = slot_of(e->unit_launched);
  /* with a copy lane the next one travels meanwhile */
  int64_t begin_ns = ls_clock_ns();
  ls_status_t status = ls_loader_acquire(e->loader, e->unit_launched + e->lag);
  e->waited_ns = ls_clock_ns() - begin_ns;
  if (status == LS_OK) status = ls_run_launch(e->step[LS_STEP_TRAIN].run, slot, e->unit_launched);
  e->launched_ns[slot] = ls_run_start_ns(e->step[LS_STEP_TRAIN].run);
  e->unit_launched++;
  return status;
}

ls_status_t ls_engine_launch(ls_engine_t *e) {
  ls_comm_set_step(e->comm, e->launched);
  ls_comm_set_step(e->exchange, e->launched);
  ls_status_t status = LS_OK;
  for (int m = 0; m < e->share.accumulate && status == LS_OK; m++) {
    while (e->unit_launched - e->unit_finished > e->lag && status == LS_OK)
      status = finish_unit(e);
    if (status == LS_OK) status = launch_unit(e);
  }
  e->launched++;
  return status;
}

ls_status_t ls_engine_wait(ls_engine_t *e, const float **stats) {
  ls_status_t status = LS_OK;
  while (e->unit_finished < (e->finished + 1) * e->share.accumulate && status == LS_OK)
    status = finish_unit(e);
  e->finished++;
  if (stats) *stats = e->stats;
  return status;
}
