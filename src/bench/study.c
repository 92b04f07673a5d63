/* The study measured again: the document's variants sorted into its tables, its figures beside them, and its
 * conclusions judged. Everything goes into the document under "study"; reports read it from there. */
#include "bench/study.h"

#include <math.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *key) {
  return json_string_value(json_object_get(object, key));
}

static bool same_text(const char *a, const char *b) {
  return a && b ? !strcmp(a, b) : a == b;
}

static bool same_member(const json_t *a, const json_t *b, const char *key) {
  return same_text(text_of(a, key), text_of(b, key));
}

static int model_of(const json_t *variant) {
  for (int m = 0; m < LS_STUDY_MODELS; m++)
    if (same_text(text_of(variant, "model"), ls_study_models[m].preset)) return m;
  return -1;
}

static ls_study_setting_t *setting_of(ls_study_t *study, const char *peer_access) {
  for (int i = 0; i < study->setting_count; i++)
    if (same_text(study->setting[i].peer_access, peer_access)) return &study->setting[i];
  if (study->setting_count == LS_STUDY_SETTINGS) return NULL;
  ls_study_setting_t *own = &study->setting[study->setting_count++];
  *own = (ls_study_setting_t){.peer_access = peer_access};
  return own;
}

static const ls_study_row_t *published_row(int model, double batch) {
  for (int i = 0; i < LS_STUDY_ROWS; i++)
    if (ls_study_models[model].row[i].batch == batch) return &ls_study_models[model].row[i];
  return NULL;
}

static const json_t *find_one(const json_t *variants, const json_t *two) {
  const json_t *v;
  size_t i;
  json_array_foreach(variants, i, v) {
    if (ls_bench_number(v, "ranks") == 1 && same_member(v, two, "model") &&
        same_member(v, two, "precision") &&
        ls_bench_number(v, "global_batch") == ls_bench_number(two, "global_batch"))
      return v;
  }
  return NULL;
}

/* In its place by batch; a second variant of the same cell (another strategy) is not the study's. */
static void put_cell(ls_study_setting_t *setting, int model, const ls_study_cell_t *cell) {
  ls_study_cell_t *cells = setting->cell[model];
  int at = setting->count[model];
  for (int i = 0; i < setting->count[model]; i++)
    if (cells[i].batch == cell->batch) return;
  if (at == LS_STUDY_CELLS) return;
  for (; at > 0 && cells[at - 1].batch > cell->batch; at--)
    cells[at] = cells[at - 1];
  cells[at] = *cell;
  setting->count[model]++;
}

static void sort_in(const json_t *variants, ls_study_t *study) {
  const json_t *v, *first = json_array_get(variants, 0);
  size_t i;
  json_array_foreach(variants, i, v) {
    int model = model_of(v);
    if (model < 0 || ls_bench_number(v, "ranks") != 2 || !same_member(v, first, "precision")) continue;
    ls_study_setting_t *setting = setting_of(study, text_of(v, "peer_access"));
    double batch = ls_bench_number(v, "global_batch");
    ls_study_cell_t cell = {.batch = batch,
                            .published = published_row(model, batch),
                            .one = find_one(variants, v),
                            .two = v,
                            .speedup = ls_bench_number(v, "scaling.speedup")};
    ls_bench_speedup_interval(v, &cell.low, &cell.high);
    if (setting) put_cell(setting, model, &cell);
  }
}

static json_t *number_of(const json_t *variant, const char *path, double scale) {
  return ls_bench_json_number(scale * ls_bench_number(variant, path));
}

/* Of the device, without libraries: exact. */
static json_t *planned_bytes(const json_t *v) {
  double libraries = ls_bench_number(v, "bytes_per_device.libraries");
  return ls_bench_json_number(ls_bench_number(v, "bytes_per_device.total") -
                              (isfinite(libraries) ? libraries : 0));
}

/* What the tables show of one variant; its reason when it could not be measured. */
static json_t *side_json(const json_t *v) {
  if (!v) return json_null();
  if (json_object_get(v, "failed")) return json_pack("{s:O}", "failed", json_object_get(v, "failed"));
  double exposed =
      ls_bench_number(v, "step_parts_us.exposed_comm") / ls_bench_number(v, "step_parts_total_us");
  json_t *side = json_object(), *rate = json_object_get(v, "samples_per_s");
  if (rate) json_object_set(side, "samples_per_s", rate);
  json_object_set_new(side, "step_time_ms", number_of(v, "step_time_us.mean", 1e-3));
  json_object_set_new(side, "step_time_low_ms", number_of(v, "step_time_us.low", 1e-3));
  json_object_set_new(side, "step_time_high_ms", number_of(v, "step_time_us.high", 1e-3));
  json_object_set_new(side, "planned_bytes", planned_bytes(v));
  json_object_set_new(side, "used_bytes", number_of(v, "gpu.memory_used_bytes", 1));
  json_object_set_new(side, "peak_flops_percent", number_of(v, "utilisation.peak_flops_percent", 1));
  json_object_set_new(side, "gpu_busy_percent", number_of(v, "gpu.busy_percent", 1));
  json_object_set_new(side, "exposed_comm_percent", ls_bench_json_number(100 * exposed));
  return side;
}

static json_t *published_json(const ls_study_row_t *r) {
  if (!r) return json_null();
  const struct {
    const char *key;
    double value;
  } numbers[] = {{"one_samples_per_s", r->one},
                 {"one_samples_per_s_margin", r->one_margin},
                 {"two_samples_per_s", r->two},
                 {"two_samples_per_s_margin", r->two_margin},
                 {"speedup", r->speedup},
                 {"efficiency_percent", r->efficiency_percent},
                 {"memory_gb", r->memory_gb},
                 {"one_utilisation_percent", r->one_utilisation},
                 {"two_utilisation_percent", r->two_utilisation},
                 {"one_step_time_ms", r->one_step_ms},
                 {"two_step_time_ms", r->two_step_ms}};
  json_t *row = json_object();
  for (int i = 0; i < LS_COUNT(numbers); i++)
    if (isfinite(numbers[i].value)) json_object_set_new(row, numbers[i].key, json_real(numbers[i].value));
  return row;
}

static json_t *cell_json(const ls_study_cell_t *c) {
  return json_pack("{s:f, s:o, s:o, s:{s:o, s:o, s:o}, s:{s:o, s:o, s:o}, s:o}", "batch", c->batch, "one",
                   side_json(c->one), "two", side_json(c->two), "speedup", "value",
                   ls_bench_json_number(c->speedup), "low", ls_bench_json_number(c->low), "high",
                   ls_bench_json_number(c->high), "efficiency_percent", "value",
                   ls_bench_json_number(50 * c->speedup), "low", ls_bench_json_number(50 * c->low), "high",
                   ls_bench_json_number(50 * c->high), "published", published_json(c->published));
}

static void add_table(json_t *tables, const ls_study_setting_t *setting, int model) {
  if (setting->count[model] == 0) return;
  json_t *rows = json_array();
  for (int i = 0; i < setting->count[model]; i++)
    json_array_append_new(rows, cell_json(&setting->cell[model][i]));
  json_array_append_new(tables, json_pack("{s:s, s:s, s:s?, s:o}", "model", ls_study_models[model].preset,
                                          "label", ls_study_models[model].label, "peer_access",
                                          setting->peer_access, "rows", rows));
}

/* Its timeline: ms of each part on one device and on two, the published beside the measured. */
static json_t *parts_json(const json_t *v) {
  static const char *const keys[] = {"forward", "backward", "exposed_comm", "optimizer"};
  if (!isfinite(ls_bench_number(v, "step_parts_us.forward"))) return json_null();
  json_t *parts = json_object();
  for (int i = 0; i < LS_COUNT(keys); i++) {
    char path[64];
    snprintf(path, sizeof path, "step_parts_us.%s", keys[i]);
    json_object_set_new(parts, keys[i], number_of(v, path, 1e-3));
  }
  double rest = ls_bench_number(v, "step_parts_us.rest") + ls_bench_number(v, "step_parts_us.input");
  json_object_set_new(parts, "rest", ls_bench_json_number(1e-3 * rest));
  json_object_set_new(parts, "total", number_of(v, "step_parts_total_us", 1e-3));
  json_object_set_new(parts, "source", json_incref(json_object_get(v, "step_parts_source")));
  return parts;
}

static void add_timeline(json_t *timelines, const ls_study_setting_t *setting, int model) {
  const ls_study_timeline_t *t = &ls_study_models[model].timeline;
  for (int i = 0; i < setting->count[model]; i++) {
    const ls_study_cell_t *c = &setting->cell[model][i];
    if (c->batch != t->batch) continue;
    json_t *published = json_object();
    for (int side = 0; side < 2; side++)
      json_object_set_new(
          published, side == 0 ? "one" : "two",
          json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "forward", side ? t->two.forward : t->one.forward,
                    "backward", side ? t->two.backward : t->one.backward, "exposed_comm",
                    side ? t->two.communication : t->one.communication, "optimizer",
                    side ? t->two.optimizer : t->one.optimizer, "rest", side ? t->two.rest : t->one.rest,
                    "total", side ? t->two.total : t->one.total));
    json_array_append_new(timelines,
                          json_pack("{s:s, s:s?, s:f, s:o, s:o, s:o}", "model", ls_study_models[model].preset,
                                    "peer_access", setting->peer_access, "batch", c->batch, "one",
                                    parts_json(c->one), "two", parts_json(c->two), "published", published));
  }
}

ls_status_t ls_bench_study(ls_ctx_t *ctx, json_t *document) {
  ls_study_t *study = ls_alloc(ctx, sizeof *study);
  if (!study) return LS_ERR_MEMORY;
  json_t *tables = json_array(), *timelines = json_array();
  sort_in(json_object_get(document, "variants"), study);
  for (int m = 0; m < LS_STUDY_MODELS; m++)
    for (int i = 0; i < study->setting_count; i++) {
      add_table(tables, &study->setting[i], m);
      add_timeline(timelines, &study->setting[i], m);
    }
  json_t *own =
      json_pack("{s:s, s:s, s:o, s:o, s:o}", "source", ls_study_title, "hardware", ls_study_hardware,
                "tables", tables, "timelines", timelines, "conclusions", ls_study_conclusions(study));
  ls_free(study);
  if (!own) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the study's tables");
  json_object_set_new(document, "study", own);
  return LS_OK;
}
