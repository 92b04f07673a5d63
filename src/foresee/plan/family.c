/* Keys and curves of timings. */
#include "plan/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { POINTS_MAX = 48 };

static char *dump(json_t *json) {
  char *text = json ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  json_decref(json);
  return text;
}

/* The part of the key that tells a step apart from that of the default strategy on the same network. */
static char *strategy_text(ls_arena_t *arena, const ls_config_t *config, int ranks) {
  const ls_strategy_t *strategy = ls_strategy_find(config->parallel.strategy);
  if (strategy == ls_strategy_default(ranks)) return ls_arena_strdup(arena, "");
  const void *options = ls_config_strategy(config, strategy).own;
  char *own = strategy->section ? dump(ls_option_json(strategy->section, options)) : NULL;
  char *text = ls_arena_printf(arena, "|%s%s", strategy->name, own ? own : "");
  free(own);
  return text;
}

ls_status_t ls_cost_family(ls_ctx_t *ctx, const ls_config_t *config, const ls_backend_t *backend, int ranks,
                           int threads, char family[LS_FAMILY_BYTES]) {
  char name[LS_BACKEND_KEY_BYTES];
  char *model = dump(ls_model_json(&config->model)), *optimizer = dump(ls_optim_json(&config->optimizer));
  char shards[48] = "";
  if (config->parallel.reproducible)
    snprintf(shards, sizeof shards, "|%lld shards", (long long)config->parallel.shards);
  char wire[16] = "";
  if (config->parallel.wire && ranks > 1)
    snprintf(wire, sizeof wire, "|%s", ls_wire_names[config->parallel.wire]);
  const char *side = ls_config_side_lane(config, backend) ? "|side lane" : "";
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  char *strategy = strategy_text(&arena, config, ranks);
  char *text =
      model && optimizer && strategy
          ? ls_arena_printf(&arena, "%s|%s|clip %d|parts %lld|data %lld%s%s%s%s%s%s%s%s", model, optimizer,
                            config->train.clip_norm > 0, (long long)config->train.accumulate,
                            config->data.kind == LS_DATA_SYNTHETIC ? (long long)config->data.samples : -1ll,
                            config->data.resident == LS_RESIDENT_TRUE ? "|resident" : "", shards,
                            config->parallel.fuse ? "|fused" : "", config->parallel.bind ? "" : "|free", wire,
                            config->model.dtype == LS_U8 ? "|bytes" : "", side, strategy)
          : NULL;
  ls_status_t status = text ? LS_OK : ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the name of a timing");
  if (text)
    snprintf(family, LS_FAMILY_BYTES, "step %s t%d of %d %016llx",
             ls_backend_key(backend, (ls_math_t)config->train.precision, name), threads, ranks,
             (unsigned long long)XXH3_64bits(text, strlen(text)));
  ls_arena_release(&arena);
  free(optimizer);
  free(model);
  return status;
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

/* Where the optimizer's tasks are kept over bytes, for buckets that were not timed. */
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

void ls_cost_timing(const char *family, const ls_backend_t *backend, int ranks, int buckets,
                    char timing[LS_FAMILY_BYTES]) {
  if (ls_cost_together(backend, ranks))
    snprintf(timing, LS_FAMILY_BYTES, "%.60s in %d", family, buckets);
  else
    snprintf(timing, LS_FAMILY_BYTES, "%s", family);
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
