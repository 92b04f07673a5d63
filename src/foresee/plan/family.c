/* Keys and curves of timings. */
#include "plan/family.h"

#include <stdio.h>
#include <string.h>

enum { POINTS_MAX = 48 };

/* The step of one row that exchanges everything at once: what all batches and all cuts have in common. */
ls_status_t ls_cost_family(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend,
                           char family[LS_FAMILY_BYTES]) {
  char name[LS_BACKEND_KEY_BYTES];
  ls_config_t one = *config;
  ls_parallel_config_t *parallel = &one.parallel;
  const ls_batching_t cut = ls_config_batching(config);
  one.train.batch = cut.shards ? cut.shards : cut.micro_batches * parallel->ranks;
  parallel->options.bucket_bytes = INT64_MAX;
  const int64_t resident = one.data.kind == LS_DATA_SYNTHETIC ? one.data.samples : 1;
  const ls_step_spec_t spec = {.step = ls_config_step(&one),
                               .kind = LS_STEP_TRAIN,
                               .world_size = (int)parallel->ranks,
                               .rows = 1,
                               .data_rows = one.data.resident == LS_RESIDENT_TRUE ? resident : 0,
                               .backend = backend};
  ls_step_t step;
  ls_status_t status = ls_step_lower(ctx, &spec, &step);
  if (status != LS_OK) return status;
  snprintf(family, LS_FAMILY_BYTES, "step %s%s t%lld of %lld%s %016llx",
           ls_backend_key(backend, (ls_math_t)one.train.precision, name),
           one.train.strict_sums ? " strict" : "", (long long)parallel->threads, (long long)parallel->ranks,
           parallel->bind ? "" : " free", (unsigned long long)ls_program_hash(&step.program));
  ls_step_release(&step);
  return LS_OK;
}

bool ls_family_by_bytes(const ls_task_t *task) {
  return task->phase == LS_PHASE_STEP_OPTIMIZER || task->phase == LS_PHASE_STEP_COMM;
}

/* The key of a task's time over rows. Tasks of the optimizer, and casts for the wire, work on the same bytes at any
 * number of rows, but find them in other caches; the buckets decide which bytes. False: not timed (a collective). */
bool ls_family_task_key(const char *family, const ls_schedule_t *s, const ls_task_t *task,
                        char key[LS_PROFILE_KEY_BYTES]) {
  if (task->kind == LS_TASK_COLLECTIVE) return false;
  if (ls_family_by_bytes(task))
    snprintf(key, LS_PROFILE_KEY_BYTES, "%s | %s of %lld bytes", family, task->name, (long long)task->bytes);
  else
    snprintf(key, LS_PROFILE_KEY_BYTES, "%s | %s%s%s", family, s->name ? s->name : "", s->name ? ": " : "",
             task->name);
  return true;
}

/* The key of the optimizer's tasks over bytes, for buckets that were not timed. */
void ls_family_op_key(const char *family, const ls_task_t *task, char key[LS_PROFILE_KEY_BYTES]) {
  snprintf(key, LS_PROFILE_KEY_BYTES, "%s | op %s", family, task->op ? task->op->name : "copy");
}

const char *ls_family_key(const char *family, const char *what, char key[LS_PROFILE_KEY_BYTES]) {
  snprintf(key, LS_PROFILE_KEY_BYTES, "%s | %s", family, what);
  return key;
}

bool ls_family_has(const ls_profile_t *profile, const char *key, double at) {
  const ls_curve_point_t *points;
  int count = ls_profile_curve(profile, key, &points);
  for (int i = 0; i < count; i++)
    if (points[i].bytes == at) return true;
  return false;
}

/* Sets one point of a curve; a full one forgets its second smallest. */
ls_status_t ls_family_put(ls_profile_t *profile, const char *key, double at, const ls_time_t *time) {
  ls_curve_point_t merged[POINTS_MAX + 1];
  const ls_curve_point_t *points;
  int count = ls_profile_curve(profile, key, &points), n = 0;
  bool placed = false;
  for (int i = 0; i < count && i < POINTS_MAX; i++) {
    if (!placed && points[i].bytes >= at) {
      merged[n++] = (ls_curve_point_t){at, *time};
      placed = true;
    }
    if (points[i].bytes != at) merged[n++] = points[i];
  }
  if (!placed) merged[n++] = (ls_curve_point_t){at, *time};
  if (n > POINTS_MAX) {
    memmove(merged + 1, merged + 2, (size_t)(n - 2) * sizeof *merged);
    n--;
  }
  return ls_profile_put_curve(profile, key, merged, n);
}

ls_time_t ls_family_scaled(ls_time_t t, double by) {
  return (ls_time_t){t.ns * by, t.low_ns * by, t.high_ns * by};
}

/* The curve's time at `at`; *exact tells whether it was measured there. Beyond the ends: the nearest
 * segment's slope upwards, the first point downwards; a single point is scaled in proportion upwards. */
bool ls_family_look_up(const ls_profile_t *profile, const char *key, double at, ls_time_t *time,
                       bool *exact) {
  const ls_curve_point_t *p;
  int count = ls_profile_curve(profile, key, &p);
  if (count < 1) return false;
  *exact = false;
  *time = ls_curve_time(p, count, at, false);
  for (int i = 0; i < count && !*exact; i++)
    if ((*exact = p[i].bytes == at)) *time = p[i].time;
  if (count == 1 && at > p[0].bytes && p[0].bytes > 0) *time = ls_family_scaled(p[0].time, at / p[0].bytes);
  return true;
}

void ls_cost_timing(const ls_backend_t *backend, const ls_candidate_t *c, char timing[LS_FAMILY_BYTES]) {
  if (ls_cost_together(backend, ls_candidate_devices(c)))
    snprintf(timing, LS_FAMILY_BYTES, "%.55s cut %016llx", c->family, (unsigned long long)c->cut);
  else
    snprintf(timing, LS_FAMILY_BYTES, "%s", c->family);
}

bool ls_cost_known(const ls_profile_t *profile, const char *timing, int64_t rows, bool well) {
  char key[LS_PROFILE_KEY_BYTES];
  return ls_family_has(profile, ls_family_key(timing, well ? "well timed" : "step", key), (double)rows);
}

bool ls_cost_step(const ls_profile_t *profile, const char *timing, double rows, ls_time_t *median,
                  ls_time_t *mean, bool *exact) {
  char key[LS_PROFILE_KEY_BYTES];
  return ls_family_look_up(profile, ls_family_key(timing, "step", key), rows, median, exact) &&
         (!mean || ls_family_look_up(profile, ls_family_key(timing, "mean", key), rows, mean, exact));
}

int64_t ls_cost_process_bytes(const ls_profile_t *profile, const char *family, int64_t rows) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t bytes;
  bool exact;
  return ls_family_look_up(profile, ls_family_key(family, "process", key), (double)rows, &bytes, &exact) &&
                 exact
             ? (int64_t)bytes.ns
             : 0;
}

ls_status_t ls_cost_keep_process_bytes(ls_profile_t *profile, const char *family, int64_t rows,
                                       int64_t bytes) {
  char key[LS_PROFILE_KEY_BYTES];
  const double value = (double)bytes;
  const ls_time_t as_time = {value, value, value};
  return ls_family_put(profile, ls_family_key(family, "process", key), (double)rows, &as_time);
}
