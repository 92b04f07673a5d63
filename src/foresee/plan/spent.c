/* A training's memory in reports. */
#include "plan/spent.h"

#include "machine/machine.h"

#define BYTES(what) LS_FIELD_AS(ls_train_memory_t, what##_bytes, #what)
static const ls_field_t need_rows[] = {
    BYTES(step),
    BYTES(evaluation),
    BYTES(rounding),
    BYTES(samples),
    LS_FIELD(ls_train_memory_t, samples_ranks),
    BYTES(staging),
    BYTES(log),
    BYTES(schedule),
    BYTES(decoding),
    BYTES(reading),
    BYTES(exchange),
    BYTES(captured),
    BYTES(side),
    BYTES(device),
    BYTES(host),
};
const ls_record_t ls_plan_need_record = LS_RECORD(need_rows);

static const ls_field_t beside_rows[] = {
    LS_FIELD_AS(ls_plan_spent_t, predicted_bytes, "predicted", .known = LS_KNOWN_ABOVE_0),
    LS_FIELD_AS(ls_plan_spent_t, reason, "predicted_reason"),
    LS_FIELD_AS(ls_plan_spent_t, need.device_used_bytes, "measured", .known = LS_KNOWN_ABOVE_0),
    LS_FIELD_AS(ls_plan_spent_t, need.host_used_bytes, "host_measured", .known = LS_KNOWN_ABOVE_0),
    LS_FIELD_AS(ls_plan_spent_t, library_bytes, "libraries", LS_FIELD_UNLESS(ls_plan_spent_t, assumed)),
    LS_FIELD_AS(ls_plan_spent_t, need.device_total_bytes, "capacity", .known = LS_KNOWN_ABOVE_0),
};
static const ls_record_t beside_record = LS_RECORD(beside_rows);

const char *const ls_plan_no_libraries = "libraries: not measured here, run lockstep probe";

/* The bytes that a plan measured with this step, if one has timed it. */
static int64_t process_bytes(ls_ctx_t *own, const ls_config_t *config, const ls_train_report_t *r,
                             const ls_backend_t *backend, const ls_profile_t *profile) {
  ls_config_t copy = *config;
  ls_engine_share_t share;
  int64_t bytes;
  copy.parallel.strategy = r->strategy;
  copy.parallel.ranks = r->world_size;
  copy.parallel.threads = r->threads_per_rank;
  ls_engine_share(ls_config_batching(&copy), 0, r->world_size, &share);
  return ls_plan_process_bytes(own, &copy, profile, backend, share.rows, &bytes) == LS_OK ? bytes : 0;
}

/* A missing or faulty profile only means that nothing is predicted. */
static void predict(ls_ctx_t *own, const ls_config_t *config, const ls_train_report_t *r,
                    ls_plan_spent_t *m) {
  const ls_backend_t *backend = &ls_backend_cpu;
  ls_machine_t *machine = ls_alloc(own, sizeof *machine);
  ls_profile_t *profile = NULL;
  ls_backend_find(own, r->backend, &backend);
  if (machine && ls_machine_read(own, machine) == LS_OK) {
    char *path = ls_profile_default_path(own, machine);
    if (path && ls_path_exists(path)) ls_profile_load(own, path, machine, &profile);
    ls_free(path);
  }
  int64_t bytes =
      ls_plan_device_bytes(profile, backend, r->world_size, &m->need,
                           process_bytes(own, config, r, backend, profile), &m->library_bytes, &m->assumed);
  m->predicted_bytes = m->assumed ? 0 : bytes;
  m->reason = m->assumed ? ls_plan_no_libraries : NULL;
  ls_profile_destroy(profile);
  ls_free(machine);
}

void ls_plan_spent(const ls_config_t *config, const ls_train_report_t *report, ls_plan_spent_t *memory) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  *memory = (ls_plan_spent_t){.need = report->memory, .assumed = true, .reason = ls_plan_no_libraries};
  if (own) predict(own, config, report, memory);
  ls_ctx_destroy(own);
}

json_t *ls_plan_spent_json(const ls_plan_spent_t *m) {
  json_t *j = ls_record_json(&ls_plan_need_record, &m->need);
  if (ls_record_put(j, &beside_record, m)) return j;
  json_decref(j);
  return NULL;
}
