/* Memory in reports: the computed need of a run, the additional memory of libraries as probe measured it, and
 * the memory used. */
#include "cli/planner.h"

json_t *cli_memory_json(const ls_train_memory_t *m) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "step",
                   (json_int_t)m->step_bytes, "evaluation", (json_int_t)m->evaluation_bytes, "rounding",
                   (json_int_t)m->rounding_bytes, "samples", (json_int_t)m->samples_bytes, "samples_ranks",
                   (json_int_t)m->samples_ranks, "staging", (json_int_t)m->staging_bytes, "log",
                   (json_int_t)m->log_bytes, "schedule", (json_int_t)m->schedule_bytes, "reading",
                   (json_int_t)m->reading_bytes, "exchange", (json_int_t)m->exchange_bytes, "scratch",
                   (json_int_t)m->scratch_bytes, "device", (json_int_t)m->device_bytes, "host",
                   (json_int_t)m->host_bytes);
}

/* The profile's absence and its faults are no matter here. */
static void predict(ls_ctx_t *own, const ls_train_report_t *r, cli_memory_t *m) {
  const ls_backend_t *backend = &ls_backend_cpu;
  ls_machine_t *machine = ls_alloc(own, sizeof *machine);
  ls_profile_t *profile = NULL;
  ls_backend_find(own, r->backend, &backend);
  if (machine && ls_machine_read(own, machine) == LS_OK) {
    char *path = ls_profile_default_path(own, machine);
    if (path && ls_path_exists(path)) ls_profile_load(own, path, machine, &profile);
    ls_free(path);
  }
  bool assumed;
  int64_t bytes =
      ls_plan_device_bytes(profile, backend, r->world_size, &m->need, &m->library_bytes, &assumed);
  if (!assumed) m->predicted_bytes = bytes;
  ls_profile_destroy(profile);
  ls_free(machine);
}

void cli_memory_predict(const ls_train_report_t *report, cli_memory_t *memory) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  *memory = (cli_memory_t){.need = report->memory};
  if (own) predict(own, report, memory);
  ls_ctx_destroy(own);
}

static json_t *known(int64_t bytes) {
  return bytes > 0 ? json_integer(bytes) : json_null();
}

static const char no_libraries[] = "libraries: not measured here, run lockstep probe";

json_t *cli_memory_reason(bool libraries) {
  return libraries ? json_null() : json_string(no_libraries);
}

json_t *cli_memory_report(const cli_memory_t *m) {
  json_t *j = cli_memory_json(&m->need);
  bool libraries = m->predicted_bytes > 0;
  json_object_set_new(j, "predicted", known(m->predicted_bytes));
  json_object_set_new(j, "predicted_reason", cli_memory_reason(libraries));
  json_object_set_new(j, "measured", known(m->need.device_used_bytes));
  json_object_set_new(j, "host_measured", known(m->need.host_used_bytes));
  json_object_set_new(j, "libraries", libraries ? json_integer(m->library_bytes) : json_null());
  json_object_set_new(j, "capacity", known(m->need.device_total_bytes));
  return j;
}

void cli_memory_print(const cli_memory_t *m) {
  const int64_t used_bytes = m->need.device_used_bytes, predicted_bytes = m->predicted_bytes;
  if (predicted_bytes > 0)
    cli_print("  %-24s %12s predicted (libraries %s)", "memory of a device", cli_bytes(predicted_bytes),
              cli_bytes(m->library_bytes));
  else
    cli_print("  %-24s %12s needed by schedule and data (%s)", "memory of a device",
              cli_bytes(m->need.device_bytes), no_libraries);
  if (used_bytes > 0) cli_print(", %s measured", cli_bytes(used_bytes));
  if (used_bytes > 0 && predicted_bytes > 0)
    cli_print(", %+.1f %%", 100 * ((double)predicted_bytes / (double)used_bytes - 1));
  cli_print("\n");
  if (m->need.samples_ranks > 1)
    cli_print("  %-24s %12s shared by the %lld ranks of a node\n", "memory of the samples",
              cli_bytes(m->need.samples_bytes), (long long)m->need.samples_ranks);
}
