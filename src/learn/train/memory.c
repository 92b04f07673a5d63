/* The memory of a rank: computes the need, and asks the system for the use. */
#include "train/memory.h"
#include "train/trainer.h"

#include "base/process.h"

#include <string.h>

/* Allocations of device memory as the backend makes them: large ones take whole pages, small ones share pages. */
typedef struct {
  int64_t page_bytes;
  int64_t exact, large, small;
} pages_t;

static int64_t round_up(int64_t bytes, int64_t unit) {
  return unit > 1 ? (bytes + unit - 1) / unit * unit : bytes;
}

static void hold(pages_t *pages, size_t size_bytes) {
  enum { SMALL_UNIT_BYTES = 512 };
  int64_t bytes = (int64_t)size_bytes;
  pages->exact += bytes;
  if (2 * bytes >= pages->page_bytes)
    pages->large += round_up(bytes, pages->page_bytes);
  else
    pages->small += round_up(bytes, SMALL_UNIT_BYTES);
}

static void hold_run(pages_t *pages, const ls_program_t *p) {
  hold(pages, ls_program_bytes(p, LS_REGION_STAT));
  for (int i = 0; i < p->member[0]->input_slots; i++)
    hold(pages, ls_program_bytes(p, LS_REGION_INPUT));
}

static int64_t held(const pages_t *pages) {
  return pages->large + round_up(pages->small, pages->page_bytes);
}

/* Shared memory in which host ranks meet; each group has its own. */
static int64_t exchange_bytes(const ls_program_t *p) {
  const ls_schedule_t *all = ls_program_groups(p);
  int64_t sum = 0;
  for (int g = 0; g < all->group_count; g++) {
    int64_t most = 0;
    if (all->groups[g].own < 0) continue;
    for (int i = 0; i < p->count; i++)
      for (int t = 0; t < p->member[i]->task_count; t++) {
        const ls_task_t *task = &p->member[i]->tasks[t];
        if (task->kind != LS_TASK_COLLECTIVE || task->group != g) continue;
        int64_t bytes = (int64_t)ls_task_large_bytes(p->member[i], task);
        if (bytes > most) most = bytes;
      }
    sum += ls_comm_shared_bytes(all->groups[g].count, most);
  }
  return sum;
}

static int64_t collectives(const ls_program_t *p) {
  int64_t count = 0;
  for (int i = 0; p && i < p->count; i++)
    for (int t = 0; t < p->member[i]->task_count; t++)
      count += p->member[i]->tasks[t].kind == LS_TASK_COLLECTIVE;
  return count;
}

/* Whether a second stream computes. */
static bool computes_aside(const ls_program_t *p) {
  bool aside = false;
  for (int i = 0; p && i < p->count; i++)
    for (int t = 0; t < p->member[i]->task_count; t++)
      aside |= p->member[i]->tasks[t].lane == LS_LANE_SIDE;
  return aside;
}

/* Adds up the need on the device, and in host memory. Memory for reading is free again before the rest is allocated. */
static void add_up(const ls_backend_t *backend, const ls_train_data_size_t *data, int64_t saved_bytes,
                   ls_train_memory_t *need) {
  const int64_t first = need->samples_bytes + need->exchange_bytes;
  int64_t later = need->log_bytes + need->schedule_bytes + need->decoding_bytes;
  if (!backend->host_memory || data->beside) need->staging_bytes += saved_bytes;
  later += backend->host_memory ? need->device_bytes + (data->beside ? saved_bytes : 0) : need->staging_bytes;
  if (backend->host_memory) {
    need->reading_bytes = data->reading_bytes > 0 ? first + data->reading_bytes : 0;
    need->device_bytes = first + later;
  } else {
    need->host_bytes = first + (data->reading_bytes > later ? data->reading_bytes : later);
  }
}

void ls_train_need(const ls_backend_t *backend, const ls_program_t *train, const ls_program_t *eval,
                   const ls_train_data_size_t *data, ls_train_memory_t *need) {
  *need = (ls_train_memory_t){.samples_bytes = data->samples_bytes,
                              .log_bytes = data->log_bytes,
                              .decoding_bytes = data->decoding_bytes};
  pages_t pages = {.page_bytes = (int64_t)backend->buffer->page_bytes};
  const ls_state_table_t *state = (train ? train : eval)->member[0]->state; /* one for both */
  int64_t saved_bytes = 0;
  ls_fit_t fit;
  for (int i = 0; i < state->count; i++) {
    size_t row_bytes = ls_state_row_bytes(&state->row[i]);
    hold(&pages, row_bytes);
    if (state->row[i].file != LS_STATE_UNSAVED) saved_bytes += (int64_t)row_bytes;
  }
  size_t train_bytes = train ? ls_program_bytes(train, LS_REGION_TRANSIENT) : 0;
  size_t eval_bytes = eval ? ls_program_bytes(eval, LS_REGION_TRANSIENT) : 0;
  hold(&pages, train_bytes > eval_bytes ? train_bytes : eval_bytes); /* one block for both */
  if (train) {
    hold_run(&pages, train);
    ls_program_fit(train, &fit);
    need->step_bytes = fit.device_total_bytes;
    if (backend->host_memory) need->exchange_bytes = exchange_bytes(train);
    need->staging_bytes = fit.host_pinned_bytes;
    need->schedule_bytes = ls_run_book_bytes(train);
  }
  if (eval) {
    hold_run(&pages, eval);
    ls_program_fit(eval, &fit);
    need->evaluation_bytes = pages.exact - need->step_bytes;
    need->staging_bytes += fit.host_pinned_bytes;
    need->schedule_bytes += ls_run_book_bytes(eval);
  }
  need->captured_bytes = (int64_t)backend->captured_bytes * (collectives(train) + collectives(eval));
  if (computes_aside(train)) need->side_bytes = (int64_t)backend->side_bytes;
  need->rounding_bytes = held(&pages) - pages.exact;
  need->device_bytes = held(&pages);
  add_up(backend, data, saved_bytes, need);
}

/* The largest of all ranks' values. Collective. */
static ls_status_t largest(ls_trainer_t *t, int64_t values[2]) {
  ls_comm_t *comm = t->world->comm;
  if (comm->size == 1) return LS_OK;
  int64_t *all = ls_alloc_array(t->ctx, (size_t)comm->size, 2 * sizeof *all);
  ls_status_t status = ls_comm_agree(comm, "memory used", all ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK) status = ls_comm_gather(comm, "memory used", values, 2 * sizeof *all, all);
  for (int i = 0; status == LS_OK && i < 2 * comm->size; i++)
    if (all[i] > values[i % 2]) values[i % 2] = all[i];
  ls_free(all);
  return status;
}

bool ls_train_saves_beside(const ls_config_t *config) {
  const ls_checkpoint_config_t *c = &config->checkpoint;
  return c->dir && c->beside && c->every_steps > 0;
}

void ls_trainer_need(const ls_trainer_t *t, ls_train_memory_t *need) {
  const ls_dataset_t *d = t->dataset;
  int64_t steps = t->run.total_steps < LS_LOG_CAPACITY ? t->run.total_steps : LS_LOG_CAPACITY;
  const ls_train_data_size_t data = {
      .samples_bytes = ls_dataset_bytes(d),
      .reading_bytes = d->reading_bytes,
      .decoding_bytes = d->features ? 0 : ls_feed_decoders(&t->engine, d) * ls_dataset_work_bytes(d),
      .beside = ls_train_saves_beside(t->config),
      .log_bytes = steps * (int64_t)sizeof(double)};
  const ls_program_t *train = &t->engine.step[LS_STEP_TRAIN].program;
  ls_train_need(t->engine.backend, train->count ? train : NULL, &t->engine.step[LS_STEP_EVALUATE].program,
                &data, need);
  need->samples_ranks = t->sharing;
}

ls_status_t ls_trainer_memory(ls_trainer_t *t, ls_train_memory_t *memory) {
  int64_t used[2] = {0, ls_process_peak_bytes()};
  ls_trainer_need(t, memory);
  const ls_backend_t *backend = t->engine.backend;
  if (backend->host_memory) {
    used[0] = used[1];
  } else if (backend->device->memory) {
    ls_status_t status = backend->device->memory(t->engine.device, &used[0], &memory->device_total_bytes);
    if (status != LS_OK) return status;
  }
  ls_status_t status = largest(t, used);
  memory->device_used_bytes = used[0];
  memory->host_used_bytes = used[1];
  return status;
}
