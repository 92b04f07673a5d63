/* Lowers a configuration for all of its ranks in one process. */
#include "plan/world.h"

#include "machine/machine.h"

#include <math.h>

#include <string.h>

ls_status_t ls_plan_count_samples(ls_ctx_t *ctx, ls_config_t *config, ls_plan_options_t *options) {
  const ls_data_config_t *data = &config->data;
  const ls_data_want_t want = ls_train_want(&config->model);
  if (data->kind == LS_DATA_SYNTHETIC) {
    ls_data_dtype(data, &want, &config->model.dtype);
    options->rows = data->samples;
    options->samples = data->samples - llround((double)data->samples * data->validation);
    return LS_OK;
  }
  ls_dataset_t *dataset;
  ls_status_t status = ls_dataset_open(ctx, data, NULL, &want, ls_train_split_seed(config), NULL, &dataset);
  if (status != LS_OK) return status;
  options->rows = dataset->rows;
  options->samples = dataset->train_count;
  if (dataset->corpus || dataset->images || dataset->mapped) options->text_bytes = ls_dataset_bytes(dataset);
  options->reading_bytes = dataset->reading_bytes;
  config->model.dtype = dataset->sample.x.dtype;
  status = ls_dataset_time(ctx, dataset, &options->input);
  if (!dataset->features) options->work_bytes = ls_dataset_work_bytes(dataset);
  ls_dataset_close(dataset);
  return status;
}

/* Sets the dtype of samples as training has it; reads them only where nothing else knows it. False: they cannot be read, and
 * count as f32. `data`: NULL or the data set. */
static bool look_at_data(ls_config_t *config, const ls_dataset_t *data) {
  const ls_data_want_t want = ls_train_want(&config->model);
  if (data) config->model.dtype = data->sample.x.dtype;
  if (data || ls_data_dtype(&config->data, &want, &config->model.dtype)) return true;
  ls_ctx_t *quiet = ls_ctx_create(NULL, NULL);
  ls_plan_options_t unused = {0};
  const bool read = quiet && ls_plan_count_samples(quiet, config, &unused) == LS_OK;
  ls_ctx_destroy(quiet);
  return read;
}

/* Decides as training would on an idle device of this machine. Reads the data only if the decision depends on
 * them. */
static ls_status_t choose_data(ls_ctx_t *ctx, ls_config_t *config, const ls_backend_t *backend, int ranks,
                               int64_t samples, int64_t *data_rows) {
  ls_train_room_t room = {.backend = backend, .rows = samples};
  bool device = !backend->host_memory;
  int mode = config->data.resident;
  *data_rows = 0;
  if (mode == LS_RESIDENT_FALSE || (mode == LS_RESIDENT_AUTO && !device)) return LS_OK;
  ls_plan_options_t counted = {.rows = samples};
  ls_status_t status = samples > 0 ? LS_OK : ls_plan_count_samples(ctx, config, &counted);
  if (status != LS_OK) return status;
  room.rows = counted.rows;
  if (device) {
    ls_machine_t machine;
    bool assumed;
    int64_t library_bytes = ls_plan_libraries(NULL, backend, ranks, NULL, &assumed);
    status = ls_machine_read(ctx, &machine);
    if (status != LS_OK) return status;
    for (int i = 0; i < machine.gpu_count; i++) {
      int64_t free_bytes = machine.gpu[i].memory_bytes - library_bytes;
      if (free_bytes > 0 && (room.free_bytes == 0 || free_bytes < room.free_bytes))
        room.free_bytes = free_bytes;
    }
  }
  return ls_train_resident(ctx, config, ranks, &room, data_rows);
}

ls_status_t ls_plan_world_create(ls_ctx_t *ctx, const ls_config_t *given, const ls_dataset_t *data,
                                 ls_plan_world_t *out) {
  ls_config_t own = *given, *config = &own;
  const ls_backend_t *backend;
  const int ranks = (int)config->parallel.ranks;
  ls_plan_world_t lowered = {.world_size = ranks};
  ls_status_t status = ls_backend_find(ctx, config->parallel.backend, &backend);
  if (status == LS_OK) status = ls_backend_check_math(ctx, backend, (ls_math_t)config->train.precision);
  if (status != LS_OK) return status;
  status = ls_engine_check_share(ctx, ls_config_batching(config), ranks);
  if (status != LS_OK) return status;
  lowered.exact = look_at_data(config, data);
  ls_config_say_unused(ctx, config, backend);
  int64_t data_rows;
  status = choose_data(ctx, config, backend, ranks, data ? data->rows : 0, &data_rows);
  if (status != LS_OK) return status;
  lowered.backend = backend->name;
  lowered.graph = ls_alloc_array(ctx, (size_t)ranks, sizeof *lowered.graph);
  lowered.program = ls_alloc_array(ctx, (size_t)ranks, sizeof *lowered.program);
  if (!lowered.graph || !lowered.program) status = LS_ERR_MEMORY;
  ls_engine_share(ls_config_batching(config), 0, ranks, &lowered.share);
  for (int r = 0; r < ranks && status == LS_OK; r++) {
    ls_step_t step = {0};
    const ls_step_spec_t spec = {.step = ls_config_step(config),
                                 .kind = LS_STEP_TRAIN,
                                 .rank = r,
                                 .world_size = ranks,
                                 .data_rows = data_rows,
                                 .backend = backend};
    status = ls_step_lower(ctx, &spec, &step);
    lowered.graph[r] = step.graph;
    lowered.program[r] = step.program;
  }
  if (status == LS_OK) status = ls_program_check_world(lowered.program, ranks);
  if (status != LS_OK) {
    ls_plan_world_release(&lowered);
    return status;
  }
  *out = lowered;
  return LS_OK;
}

void ls_plan_world_release(ls_plan_world_t *lowered) {
  for (int r = 0; r < lowered->world_size; r++) {
    if (lowered->program) ls_program_release(&lowered->program[r]);
    if (lowered->graph) ls_graph_destroy(lowered->graph[r]);
  }
  ls_free(lowered->program);
  ls_free(lowered->graph);
  memset(lowered, 0, sizeof *lowered);
}
