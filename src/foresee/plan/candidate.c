/* One candidate: from options to a schedule, and whether it fits. */
#include "plan/candidate.h"

#include <math.h>

/* Cautious allowances for the memory of libraries if probe has not measured it: context, modules, cuBLASLt
 * and NCCL on a GPU; program, BLAS and threads on a host. */
static const int64_t library_device_bytes = INT64_C(1) << 30, library_host_bytes = INT64_C(128) << 20;
/* How far predictions for a host were from trainings (bench/memory_accuracy.py): malloc keeps an unpredictable number of the
 * libraries' blocks. */
static const double host_margin = 0.05;
static const int64_t host_margin_least_bytes = 6000000;

int64_t ls_plan_libraries(const ls_profile_t *profile, const ls_backend_t *backend, int ranks,
                          const ls_train_memory_t *need, bool *assumed) {
  const int64_t more_bytes = need ? need->captured_bytes + need->side_bytes : 0;
  char key[LS_PROFILE_KEY_BYTES];
  int least = ranks > 1 ? 2 : 1; /* one rank alone needs no transport */
  for (int n = ranks; profile && n >= least; n--) {
    const char *variant = n > 1 ? ls_transport_variant(backend->name) : "";
    ls_profile_key(key, (ls_profile_key_t){LS_KEY_LIBRARIES, backend->name, variant, n});
    double bytes = ls_profile_value(profile, key, -1);
    if (bytes < 0) continue;
    *assumed = n != ranks;
    return (int64_t)bytes + more_bytes;
  }
  *assumed = true;
  return backend->host_memory ? library_host_bytes : library_device_bytes;
}

/* What a timed step took beyond probe's small training. The timing ran all ranks in one process, so each counts an
 * equal part. If the step took less, because it calls no library, every rank counts that much less. */
static int64_t beyond_probe(const ls_profile_t *profile, const ls_backend_t *backend, int ranks,
                            int64_t process_bytes) {
  bool assumed;
  const int64_t probe_bytes = ls_plan_libraries(profile, backend, 1, NULL, &assumed),
                more_bytes = process_bytes - probe_bytes;
  if (process_bytes == 0 || assumed) return 0;
  return more_bytes > 0 && ls_cost_together(backend, ranks) ? more_bytes / ranks : more_bytes;
}

int64_t ls_plan_device_bytes(const ls_profile_t *profile, const ls_backend_t *backend, int ranks,
                             const ls_train_memory_t *need, int64_t process_bytes, int64_t *library_bytes,
                             bool *assumed) {
  const int64_t libraries = ls_plan_libraries(profile, backend, ranks, need, assumed);
  *library_bytes = libraries + beyond_probe(profile, backend, ranks, process_bytes);
  int64_t bytes = need->device_bytes + *library_bytes;
  int64_t reading = need->reading_bytes > 0 ? need->reading_bytes + libraries : 0;
  return reading > bytes ? reading : bytes;
}

ls_status_t ls_plan_process_bytes(ls_ctx_t *ctx, const ls_config_t *config, const ls_profile_t *profile,
                                  const ls_backend_t *backend, int64_t rows, int64_t *bytes) {
  char family[LS_FAMILY_BYTES];
  *bytes = 0;
  if (!profile || !backend->host_memory) return LS_OK;
  ls_status_t status = ls_cost_family(ctx, config, backend, family);
  if (status == LS_OK) *bytes = ls_cost_process_bytes(profile, family, rows);
  return status;
}

static int threads_of(const ls_planner_t *p, int devices) {
  int cpus = p->cpus, wanted = (int)p->config->parallel.threads;
  if (wanted > 0 && (int64_t)wanted * devices <= cpus) return wanted;
  return cpus / devices < 1 ? 1 : cpus / devices;
}

/* Decides as training will, with a device to itself. Demanded residency is not refused here, even if it may
 * not fit. */
static ls_status_t choose_data(const ls_planner_t *p, ls_candidate_t *c) {
  ls_train_room_t room = {.backend = p->backend, .rows = p->data_rows};
  c->config.data.resident = p->config->data.resident;
  bool bounded = c->config.data.resident == LS_RESIDENT_AUTO && !p->backend->host_memory;
  bool assumed;
  const int devices = ls_candidate_devices(c);
  int64_t left_bytes = p->memory_bytes - ls_plan_libraries(p->profile, p->backend, devices, NULL, &assumed);
  if (bounded && left_bytes > 0) room.free_bytes = left_bytes;
  ls_status_t status = ls_train_resident(p->ctx, &c->config, devices, &room, &c->data_rows);
  c->config.data.resident = c->data_rows > 0 ? LS_RESIDENT_TRUE : LS_RESIDENT_FALSE;
  return status;
}

static const ls_transport_t *transport_of(const ls_planner_t *p) {
  const ls_transport_t *named = ls_transport_find(p->config->parallel.transport);
  return named ? named : ls_transport_default(p->backend);
}

ls_candidate_t ls_candidate_make(const ls_planner_t *p, int devices, const ls_strategy_t *strategy) {
  ls_candidate_t c = {.config = *p->config,
                      .host = p->backend->host_processors,
                      .transport = devices > 1 ? transport_of(p) : NULL,
                      .speedup = NAN,
                      .efficiency = NAN,
                      .epoch_s = NAN,
                      .epoch_kwh = NAN,
                      .epoch_cost = NAN,
                      .samples_per_s = NAN,
                      .exposed_ns = NAN,
                      .step = {NAN, NAN, NAN},
                      .why = ""};
  ls_parallel_config_t *parallel = &c.config.parallel;
  parallel->strategy = (strategy ? strategy : ls_config_usual(p->config, devices))->name;
  parallel->backend = p->backend->name;
  parallel->ranks = devices;
  parallel->threads = threads_of(p, devices);
  ls_strategy_settle(&parallel->options, p->backend);
  return c;
}

/* rows 0: of rank 0's share. */
static ls_status_t lower(const ls_planner_t *p, ls_candidate_t *c, ls_step_kind_t kind, int64_t rows,
                         ls_program_t *program) {
  const ls_step_spec_t spec = {.step = ls_config_step(&c->config),
                               .kind = kind,
                               .world_size = ls_candidate_devices(c),
                               .rows = rows,
                               .data_rows = c->data_rows,
                               .backend = p->backend};
  ls_step_t step;
  ls_status_t status = ls_step_lower(p->ctx, &spec, &step);
  if (status != LS_OK) return status;
  if (rows == 0) c->rows = step.rows;
  ls_graph_destroy(step.graph);
  *program = step.program;
  return LS_OK;
}

ls_status_t ls_candidate_name(const ls_planner_t *p, ls_candidate_t *c) {
  return ls_cost_family(p->ctx, &c->config, p->backend, c->family);
}

/* The cut: kinds and sizes of the collectives in their order. */
static void note_tasks(const ls_program_t *program, ls_candidate_t *c) {
  c->collectives = 0;
  c->cut = 0;
  c->flops = 0;
  for (int i = 0; i < program->count; i++)
    for (int t = 0; t < program->member[i]->task_count; t++) {
      const ls_task_t *task = &program->member[i]->tasks[t];
      c->flops += ls_program_times(program, i) * (double)task->flops;
      if (task->kind != LS_TASK_COLLECTIVE) continue;
      const uint64_t facts[] = {(uint64_t)i, task->collective, ls_task_large_bytes(program->member[i], task)};
      for (int k = 0; k < LS_COUNT(facts); k++)
        c->cut = (c->cut ^ facts[k]) * UINT64_C(1099511628211); /* FNV-1a over words */
      c->collectives++;
    }
}

ls_status_t ls_candidate_lower(const ls_planner_t *p, ls_candidate_t *c, ls_program_t *program) {
  ls_status_t status = choose_data(p, c);
  if (status == LS_OK) status = lower(p, c, LS_STEP_TRAIN, 0, program);
  if (status != LS_OK) return status;
  c->schedule = ls_program_hash(program);
  note_tasks(program, c);
  ls_program_fit(program, &c->fit);
  return LS_OK;
}

/* Evaluation has a program of its own. */
static ls_status_t lower_evaluation(const ls_planner_t *p, ls_candidate_t *c, ls_program_t *program) {
  int64_t rows =
      ls_engine_eval_rows(ls_config_batching(&c->config), p->eval_samples, ls_candidate_devices(c));
  return lower(p, c, LS_STEP_EVALUATE, rows, program);
}

/* A rank's part of the host's memory. All of them count the samples, which are there once. */
static int64_t host_part(const ls_candidate_t *c, int64_t memory_bytes) {
  int64_t samples_bytes = c->need.samples_bytes < memory_bytes ? c->need.samples_bytes : 0;
  return (memory_bytes + (ls_candidate_devices(c) - 1) * samples_bytes) / ls_candidate_devices(c);
}

static bool fits(const ls_planner_t *p, ls_candidate_t *c) {
  c->host_short = false;
  int64_t have = p->backend->host_memory ? host_part(c, p->memory_bytes) : p->memory_bytes;
  if (p->memory_bytes > 0 && c->device_bytes > have) return false;
  c->host_short = p->host_memory_bytes > 0 && c->need.host_bytes > host_part(c, p->host_memory_bytes);
  return !c->host_short;
}

ls_status_t ls_candidate_memory(const ls_planner_t *p, ls_candidate_t *c) {
  c->process_bytes = c->family[0] ? ls_cost_process_bytes(p->profile, c->family, c->rows) : 0;
  if (!c->process_bytes) c->process_bytes = p->process_bytes;
  c->device_bytes = ls_plan_device_bytes(p->profile, p->backend, ls_candidate_devices(c), &c->need,
                                         c->process_bytes, &c->library_bytes, &c->library_assumed);
  c->margin_bytes = 0;
  if (p->backend->host_memory && !c->library_assumed)
    c->margin_bytes = (int64_t)fmax(host_margin * (double)c->device_bytes, (double)host_margin_least_bytes);
  c->fits = fits(p, c);
  return LS_OK;
}

static ls_status_t add_up(const ls_planner_t *p, ls_candidate_t *c) {
  ls_program_t train = {0}, eval = {0};
  ls_status_t status = ls_candidate_lower(p, c, &train);
  if (status == LS_OK) status = lower_evaluation(p, c, &eval);
  ls_train_data_size_t data = p->data;
  data.decoding_bytes = ls_candidate_threads(c) * p->work_bytes;
  if (status == LS_OK) ls_train_need(p->backend, &train, &eval, &data, &c->need);
  ls_program_release(&eval);
  ls_program_release(&train);
  if (status != LS_OK) return status;
  c->need.samples_ranks = ls_candidate_devices(c);
  return ls_candidate_memory(p, c);
}

/* More micro-batches have smaller activations, but one more gradient to add. If nothing fits, the candidate
 * that needs least is shown. */
ls_status_t ls_candidate_fit(const ls_planner_t *p, ls_candidate_t *c) {
  ls_status_t status = add_up(p, c);
  /* the user chose the shards: another number would give other bits */
  if (p->config->parallel.reproducible) return status;
  ls_candidate_t next = *c;
  int64_t *parts = &next.config.train.accumulate;
  while (status == LS_OK && !c->fits && next.rows > 1 && 2 * *parts <= LS_ACCUMULATE_MAX) {
    *parts *= 2;
    status = add_up(p, &next);
    if (status == LS_OK && (next.fits || next.device_bytes < c->device_bytes)) *c = next;
  }
  return status;
}
