/* Repetitions of one variant in this process. They share a trainer (device, connections, memory, captured
 * code); each begins with the initial values, leaves its warm-up steps out and measures the rest. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRACED_STEPS_MAX = 30 }; /* every task of a traced step is put on the device by itself: slow */

/* The figures that the progress hook gathers, on rank 0 only. */
typedef struct {
  ls_ctx_t *ctx;
  ls_trainer_t *trainer;
  const ls_bench_once_t *job;
  double *step_us; /* (steps) measured ones */
  int64_t seen, measured;
  int64_t parts_ns[LS_PHASE_STEP_COUNT];
  double grad_norm_sum, loss;
  ls_gpu_sampler_t *sampler;   /* of the GPUs, NULL on hosts */
  ls_gpu_sampler_report_t gpu; /* during the measured steps */
  bool traced;                 /* an extra repetition for its parts alone */
  ls_task_time_t *task_sum;    /* (tasks) sums of the measured steps */
  int64_t task_steps;
  json_t *curve_loss, *curve_grad_norm; /* NULL without curves */
} gather_t;

static const ls_program_t *program(const gather_t *g) {
  return &ls_trainer_engine(g->trainer)->step[LS_STEP_TRAIN].program;
}

static int64_t steps_of(const gather_t *g) {
  return g->traced && g->job->steps > TRACED_STEPS_MAX ? TRACED_STEPS_MAX : g->job->steps;
}

static void gather_tasks(gather_t *g, const ls_step_times_t *took) {
  if (!took) return;
  for (int i = 0; i < ls_program_task(program(g), program(g)->count, 0); i++) {
    g->task_sum[i].start_ns += took->task[i].start_ns;
    g->task_sum[i].end_ns += took->task[i].end_ns;
  }
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    g->parts_ns[i] += took->parts_ns[i];
  g->task_steps++;
}

static void gather_step(void *user, const ls_progress_t *p) {
  gather_t *g = user;
  if (g->curve_loss) {
    json_array_append_new(g->curve_loss, ls_json_number(p->train_loss));
    json_array_append_new(g->curve_grad_norm, ls_json_number(p->grad_norm));
  }
  if (g->seen++ < g->job->warmup_steps || g->measured == steps_of(g)) {
    if (g->seen == g->job->warmup_steps) ls_gpu_sampler_begin(g->sampler);
    return;
  }
  g->step_us[g->measured++] = (double)p->step_time_ns * 1e-3;
  g->grad_norm_sum += p->grad_norm;
  g->loss = p->train_loss;
  gather_tasks(g, ls_trainer_engine(g->trainer)->took);
  if (g->measured == steps_of(g)) ls_gpu_sampler_end(g->sampler, &g->gpu);
}

static void mean_parts(const gather_t *g, double parts_us[LS_PHASE_STEP_COUNT]) {
  for (int i = 0; i < LS_PHASE_STEP_COUNT; i++)
    parts_us[i] = (double)g->parts_ns[i] * 1e-3 / (double)g->task_steps;
}

/* The bits that mean a limit; -1 = not known. */
static int64_t gpu_limits(const gather_t *g) {
  return g->gpu.throttle_reasons < 0 ? -1 : g->gpu.throttle_reasons & LS_BENCH_GPU_LIMITS;
}

static json_t *repetition_json(gather_t *g, const ls_train_report_t *report) {
  ls_bench_repetition_t r = {.mean_us = ls_stat_mean(g->step_us, g->measured),
                             .parts = g->task_steps > 0,
                             .sampled = g->sampler != NULL,
                             .grad_norm = g->grad_norm_sum / (double)g->measured,
                             .loss = g->loss,
                             .skipped_steps = report->skipped_steps,
                             .gpu_limit = gpu_limits(g),
                             .gpu = g->gpu};
  ls_stat_sort(g->step_us, g->measured);
  r.median_us = ls_stat_quantile(g->step_us, g->measured, 0.5);
  r.p95_us = ls_stat_quantile(g->step_us, g->measured, 0.95);
  r.samples_per_s = (double)report->global_batch * 1e6 / r.mean_us;
  mean_parts(g, r.parts_us);
  snprintf(r.params_xxh3, sizeof r.params_xxh3, "%s", report->params_xxh3);
  return ls_bench_repetition_json(&r);
}

/* Bytes over time as nccl-tests defines them (PERFORMANCE.md): bus = algorithm x 2 (n - 1) / n for an
 * all-reduce, x (n - 1) / n for the two halves of it. A rank's time contains its waiting for the slowest one.
 */
static void add_collectives(const gather_t *g, int k, json_t *list) {
  const ls_schedule_t *s = program(g)->member[k];
  const ls_task_time_t *sum = g->task_sum + ls_program_task(program(g), k, 0);
  double count = (double)g->task_steps * ls_program_times(program(g), k);
  for (int i = 0; i < s->task_count; i++) {
    const ls_task_t *task = &s->tasks[i];
    if (task->kind != LS_TASK_COLLECTIVE) continue;
    double time_us = (double)(sum[i].end_ns - sum[i].start_ns) * 1e-3 / count;
    double bytes = (double)ls_task_large_bytes(s, task); /* the large buffer */
    double n = ls_task_ranks(s, task);
    bool parts = task->collective == LS_REDUCE_SCATTER || task->collective == LS_ALL_GATHER;
    double factor = task->collective == LS_ALL_REDUCE ? 2 * (n - 1) / n : parts ? (n - 1) / n : 1;
    double algorithm = time_us > 0 ? bytes * 1e6 / time_us : NAN;
    json_array_append_new(list, json_pack("{s:s, s:s, s:I, s:o, s:o, s:o}", "name", task->name, "kind",
                                          ls_collective_name(task->collective), "size_bytes",
                                          (json_int_t)bytes, "time_us", ls_json_number(time_us),
                                          "algorithm_bw_bytes_per_s", ls_json_number(algorithm),
                                          "bus_bw_bytes_per_s", ls_json_number(algorithm * factor)));
  }
}

static json_t *collectives_json(const gather_t *g) {
  json_t *list = json_array();
  for (int k = 0; k < program(g)->count && g->task_steps > 0; k++)
    add_collectives(g, k, list);
  return list;
}

/* The memory of a rank's device, as plan and train count it: the training step, lockstep's other allocations, and libraries,
 * which only a measurement shows. Ranks with a device of their own keep samples and exchange in the host's memory. */
static json_t *bytes_json(const ls_program_t *p, const ls_train_memory_t *m, bool host) {
  ls_fit_t fit;
  ls_program_fit(p, &fit);
  int64_t samples = host ? m->samples_bytes : 0, exchange = host ? m->exchange_bytes : 0;
  int64_t evaluation = m->evaluation_bytes, rest = m->device_bytes - m->step_bytes - evaluation;
  bool measured = m->device_used_bytes > m->device_bytes;
  json_t *j = json_object();
  for (int i = 0; i < fit.part_count; i++)
    if (strcmp(fit.part[i].name, "other") != 0)
      json_object_set_new(
          j, fit.part[i].name,
          json_integer(fit.part[i].bytes + (strcmp(fit.part[i].name, "data") == 0 ? samples : 0)));
  const struct {
    const char *name;
    int64_t size_bytes;
  } rows[] = {{"evaluation", evaluation},
              {"exchange", exchange},
              {"bookkeeping", ls_fit_bytes(&fit, "other") + rest - samples - exchange},
              {"libraries", measured ? m->device_used_bytes - m->device_bytes : -1},
              {"total", measured ? m->device_used_bytes : -1}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    json_object_set_new(j, rows[i].name,
                        rows[i].size_bytes < 0 ? json_null() : json_integer(rows[i].size_bytes));
  return j;
}

/* A thread's time for a sample. */
static json_t *input_json(const ls_input_times_t *t) {
  const struct {
    const char *name;
    int64_t ns;
  } parts[] = {{"read_us", t->read_ns},
               {"decode_us", t->decode_ns},
               {"augment_us", t->augment_ns},
               {"copy_us", t->copy_ns}};
  json_t *j = json_object();
  for (int i = 0; i < LS_COUNT(parts); i++)
    json_object_set_new(
        j, parts[i].name,
        ls_json_number(t->samples > 0 ? (double)parts[i].ns * 1e-3 / (double)t->samples : NAN));
  return j;
}

static json_t *header_json(const gather_t *g, const ls_config_t *config, const ls_train_report_t *r) {
  const ls_program_t *p = program(g);
  int64_t flops = 0;
  int buckets = 0;
  for (int k = 0; k < p->count; k++)
    for (int i = 0; i < p->member[k]->task_count; i++) {
      flops += p->times[k] * p->member[k]->tasks[i].flops;
      buckets += p->times[k] * (p->member[k]->tasks[i].kind == LS_TASK_COLLECTIVE);
    }
  ls_config_t used = *config;
  ls_strategy_settle(&used.parallel.options, ls_trainer_engine(g->trainer)->backend);
  json_t *options = ls_config_tuned_json(&used);
  json_object_set_new(options, "shards",
                      json_integer(config->parallel.reproducible ? config->parallel.shards : 0));
  json_object_set_new(options, "buckets", json_integer(buckets / p->period));
  return json_pack("{s:I, s:i, s:s, s:o, s:s, s:s, s:s, s:i, s:I, s:o, s:I, s:o, s:o, s:o, s:[]}",
                   "global_batch", (json_int_t)r->global_batch, "ranks", r->world_size, "strategy",
                   r->strategy, "options", options, "precision", ls_math_names[config->train.precision],
                   "backend", r->backend, "device", r->device, "threads_per_rank", r->threads_per_rank,
                   "params", (json_int_t)r->params, "bytes_per_device",
                   bytes_json(p, &r->memory, ls_trainer_engine(g->trainer)->backend->host_memory),
                   "flops_per_step", (json_int_t)(flops / p->period), "input",
                   input_json(ls_trainer_input(g->trainer)), "collectives", collectives_json(g), "timeline",
                   ls_bench_timeline(program(g), g->task_sum, g->task_steps), "repetitions");
}

/* Final loss: on the validation part when there is one, else the mean of the last training losses. */
static ls_status_t add_curves(gather_t *g, const ls_train_report_t *report, json_t *measurement) {
  double loss = isfinite(report->val_loss) ? report->val_loss : report->train_loss;
  json_object_set_new(measurement, "curves",
                      json_pack("{s:o, s:O, s:O}", "final_loss", ls_json_number(loss), "loss", g->curve_loss,
                                "grad_norm", g->curve_grad_norm));
  if (!g->job->params_path) return LS_OK;
  const float *param;
  ls_status_t status = ls_trainer_parameters(g->trainer, &param);
  if (status != LS_OK) return status;
  return ls_file_write(g->ctx, g->job->params_path, param,
                       (size_t)ls_trainer_engine(g->trainer)->table->layout->total * sizeof *param);
}

/* The figures that only a traced repetition has. */
static json_t *traced_json(gather_t *g) {
  double parts_us[LS_PHASE_STEP_COUNT];
  mean_parts(g, parts_us);
  return json_pack("{s:I, s:o, s:o, s:o, s:o}", "steps", (json_int_t)g->measured, "step_time_us",
                   ls_json_number(ls_stat_mean(g->step_us, g->measured)), "step_parts_us",
                   g->task_steps > 0 ? ls_record_json(&ls_train_parts_record, parts_us) : json_null(),
                   "collectives", collectives_json(g), "timeline",
                   ls_bench_timeline(program(g), g->task_sum, g->task_steps));
}

static ls_status_t keep(gather_t *g, const ls_config_t *config, const ls_train_report_t *report,
                        json_t **measurement) {
  if (g->traced) {
    json_object_set_new(*measurement, "traced", traced_json(g));
    return LS_OK;
  }
  if (!*measurement) *measurement = header_json(g, config, report);
  json_t *repetition = repetition_json(g, report);
  if (!*measurement || json_array_append_new(json_object_get(*measurement, "repetitions"), repetition) != 0)
    return ls_fail(g->ctx, LS_ERR_MEMORY, "out of memory for a measurement");
  return g->curve_loss ? add_curves(g, report, *measurement) : LS_OK;
}

/* One repetition, kept in *measurement (made by the first). */
static ls_status_t repeat(gather_t *g, ls_world_t *world, const ls_config_t *config, json_t **measurement) {
  ls_train_hooks_t hooks = {.progress = gather_step, .user = g};
  ls_trainer_options_t options = {
      .trace = g->traced, .stuck = g->job->stuck, .stuck_user = g->job->stuck_user};
  ls_train_report_t report;
  if (g->job->curves) {
    g->curve_loss = json_array();
    g->curve_grad_norm = json_array();
  }
  ls_status_t status = g->trainer ? ls_trainer_restart(g->trainer)
                                  : ls_trainer_create(g->ctx, world, config, &options, &g->trainer);
  bool root = ls_world_rank(world) == 0;
  if (status == LS_OK && root) {
    int tasks = ls_program_task(program(g), program(g)->count, 0);
    g->task_sum = ls_alloc_array(g->ctx, (size_t)tasks, sizeof *g->task_sum);
    if (!g->task_sum) status = LS_ERR_MEMORY;
  }
  if (status == LS_OK && g->job->warmup_steps == 0) ls_gpu_sampler_begin(g->sampler);
  if (status == LS_OK) status = ls_trainer_run(g->trainer, &hooks, &report);
  if (status == LS_OK && root) status = keep(g, config, &report, measurement);
  ls_free(g->task_sum);
  json_decref(g->curve_grad_norm);
  json_decref(g->curve_loss);
  return status;
}

/* The run that is measured: only its steps. With curves the validation part stays, so that its loss is known.
 */
static void prepare(ls_config_t *config, const ls_bench_once_t *job) {
  config->train.epochs = 0;
  config->train.steps = job->warmup_steps + job->steps;
  config->train.evaluate_every = 0;
  config->monitor.dir = NULL;
  config->checkpoint = (ls_checkpoint_config_t){.keep = config->checkpoint.keep};
  if (!job->curves) ls_data_config_all(&config->data);
}

/* Rank 0 watches the GPUs of its node's ranks. Not being able to is no failure of the measurement. */
static ls_gpu_sampler_t *start_sampler(ls_ctx_t *ctx, const ls_world_t *world, const ls_backend_t *backend) {
  ls_gpu_sampler_t *sampler = NULL;
  int gpus[LS_GPU_MAX], ranks = world->comm->local_size;
  if (backend->host_processors || ls_world_rank(world) != 0) return NULL;
  int count = ls_gpu_sampler_visible(getenv("CUDA_VISIBLE_DEVICES"), ranks, gpus);
  return ls_gpu_sampler_start(ctx, gpus, count, &sampler) == LS_OK ? sampler : NULL;
}

ls_status_t ls_bench_once(ls_ctx_t *ctx, ls_world_t *world, ls_config_t *config, const ls_bench_once_t *job,
                          json_t **out) {
  json_t *measurement = NULL;
  const ls_backend_t *backend;
  gather_t next = {.ctx = ctx, .job = job, .loss = NAN, .gpu = {.throttle_reasons = -1}};
  ls_status_t status = ls_backend_find(ctx, config->parallel.backend, &backend);
  if (status != LS_OK) return status;
  next.step_us = ls_alloc_array(ctx, (size_t)job->steps, sizeof *next.step_us);
  if (!next.step_us) return LS_ERR_MEMORY;
  prepare(config, job);
  next.sampler = start_sampler(ctx, world, backend);
  /* Host backends know the parts of every step; a captured one is traced once more for them. */
  int64_t all = job->repetitions + (job->traced && backend->capture);
  for (int64_t r = 0; r < all && status == LS_OK; r++) {
    next.traced = r == job->repetitions;
    if (next.traced) { /* has a trainer of its own */
      ls_trainer_destroy(next.trainer);
      next.trainer = NULL;
      if (job->steps > TRACED_STEPS_MAX) config->train.steps = job->warmup_steps + TRACED_STEPS_MAX;
    }
    gather_t g = next;
    status = repeat(&g, world, config, &measurement);
    next.trainer = g.trainer;
    if (next.traced && status != LS_OK && status != LS_ERR_INTERRUPTED) {
      ls_log(ctx, LS_LOG_WARN, "the traced repetition failed; parts and collectives stay unknown");
      status = LS_OK; /* what was measured before it is whole */
    }
  }
  ls_trainer_destroy(next.trainer);
  ls_gpu_sampler_stop(next.sampler);
  ls_free(next.step_us);
  if (status != LS_OK)
    json_decref(measurement);
  else
    *out = measurement;
  return status;
}
