/* Steps: the order in which slots are filled, launched and waited for, counted in micro-batches through the run.
 *
 * A device with memory of its own is kept one micro-batch ahead of the host: micro-batch k is launched before
 * k - 1 is waited for, so the device never waits for the host. Host backends finish a micro-batch inside
 * launch. */
#include "engine/engine.h"

#include "base/clock.h"

#include <string.h>

static int slot_of(int64_t unit) {
  return (int)(unit % LS_ENGINE_SLOTS);
}

ls_status_t ls_engine_once(ls_engine_t *e, ls_step_kind_t kind) {
  ls_run_t *run = e->step[kind].run;
  ls_status_t status = ls_run_prime(run, 0);
  if (status == LS_OK) status = ls_run_launch(run, 0, 0);
  return status == LS_OK ? ls_run_wait(run, 0, NULL) : status;
}

ls_status_t ls_engine_start(ls_engine_t *e, const ls_engine_steps_t *steps) {
  const ls_program_t *p = &e->step[LS_STEP_TRAIN].program;
  e->steps = *steps;
  e->took = NULL;
  if (p->count > 1 &&
      !(e->sums = ls_alloc_array(e->ctx, 2 * (size_t)ls_program_task(p, p->count, 0), sizeof *e->sums)))
    return LS_ERR_MEMORY;
  e->launched = e->finished = steps->first_step;
  e->unit_launched = e->unit_finished = steps->first_step * e->share.micro_batches;
  if (steps->first_step >= steps->total_steps) return LS_OK;
  ls_status_t status = steps->acquire(steps->source, e->unit_launched);
  return status == LS_OK ? ls_run_prime(e->step[LS_STEP_TRAIN].run, slot_of(e->unit_launched)) : status;
}

void ls_engine_stop(ls_engine_t *e) {
  if (e->steps.source) e->steps.close(e->steps.source);
  ls_free(e->sums);
  e->steps.source = NULL;
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
  int64_t step = e->unit_finished / e->share.micro_batches;
  int m = (int)(e->unit_finished % e->share.micro_batches);
  e->steps.release(e->steps.source, e->unit_finished++);
  if (status != LS_OK) return status;
  add_times(e, step, m);
  if (m + 1 == e->share.micro_batches) {
    e->took = e->times[step % 2].timed ? &e->times[step % 2] : NULL;
    e->done_ns = ls_clock_ns();
    memcpy(e->stats, stats, sizeof e->stats);
  }
  if (e->steps.observer.seen) e->steps.observer.seen(e->steps.observer.user, step, m);
  return LS_OK;
}

static ls_status_t launch_unit(ls_engine_t *e) {
  int slot = slot_of(e->unit_launched);
  /* with a copy lane the next one travels meanwhile */
  int64_t begin_ns = ls_clock_ns();
  ls_status_t status = e->steps.acquire(e->steps.source, e->unit_launched + e->lag);
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
  for (int m = 0; m < e->share.micro_batches && status == LS_OK; m++) {
    while (e->unit_launched - e->unit_finished > e->lag && status == LS_OK)
      status = finish_unit(e);
    if (status == LS_OK) status = launch_unit(e);
  }
  e->launched++;
  return status;
}

ls_status_t ls_engine_wait(ls_engine_t *e, const float **stats) {
  ls_status_t status = LS_OK;
  while (e->unit_finished < (e->finished + 1) * e->share.micro_batches && status == LS_OK)
    status = finish_unit(e);
  e->finished++;
  if (stats) *stats = e->stats;
  return status;
}
