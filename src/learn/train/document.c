/* Rows of the report and of its figures. */
#include "train/document.h"

#include "base/json.h"

#include <math.h>

typedef struct {
  const char *command, *status;
  double predicted_us;
  ls_train_report_t r;
} document_t;
#define REPORT(field, ...) LS_FIELD_AS(document_t, r.field, __VA_ARGS__)
#define SAME(field)        LS_FIELD_AS(document_t, r.field, #field)
#define PART(field, name)  LS_FIELD_AS(ls_step_parts_t, field##_ns, name, .scale = 1e-3)

static const ls_field_t part_rows[] = {PART(input, "input"),         PART(forward, "forward"),
                                       PART(backward, "backward"),   PART(comm, "exposed_comm"),
                                       PART(optimizer, "optimizer"), PART(rest, "rest")};
static const ls_field_t time_rows[] = {
    REPORT(step_time_median_us, "median"),
    REPORT(step_time_p95_us, "p95"),
    REPORT(step_time_mean_us, "mean"),
    REPORT(step_time_count, "steps"),
};
static const ls_field_t best_rows[] = {REPORT(best.name, "figure"), REPORT(best.value, "value"),
                                       REPORT(best.step, "step", .known = LS_KNOWN_FROM_0),
                                       REPORT(best.epoch, "epoch")};
static const ls_record_t part_record = LS_RECORD(part_rows), time_record = LS_RECORD(time_rows),
                         best_record = LS_RECORD(best_rows);
static const ls_field_t rows[] = {
    LS_FIELD(document_t, command),
    LS_FIELD(document_t, status),
    SAME(params),
    SAME(world_size),
    SAME(strategy),
    SAME(backend),
    SAME(precision),
    SAME(device),
    SAME(threads_per_rank),
    SAME(global_batch),
    SAME(steps),
    SAME(total_steps),
    REPORT(resumed_from, "resumed_from_step", .known = LS_KNOWN_FROM_0),
    REPORT(stopped_early, "stopped_early", .known = LS_KNOWN_ABOVE_0),
    SAME(samples_per_s),
    LS_FIELD_OBJECT(time_record, "step_time_us"),
    LS_FIELD_AS(document_t, predicted_us, "step_time_predicted_us", .known = LS_KNOWN_ABOVE_0),
    REPORT(parts, "step_parts_us", .record = &part_record, LS_FIELD_IF(document_t, r.parts.measured)),
    SAME(train_loss_first),
    SAME(train_loss),
    SAME(train_loss_steps),
    SAME(val_loss_first),
    SAME(val_loss),
    SAME(val_accuracy),
    SAME(val_perplexity),
    SAME(val_samples),
    LS_FIELD_OBJECT(best_record, "best"),
    SAME(skipped_steps),
    REPORT(loss_scale, "loss_scale", .known = LS_KNOWN_ABOVE_0),
    SAME(params_xxh3),
    REPORT(checkpoint, "checkpoint", .known = LS_KNOWN_ABOVE_0),
    SAME(wall_s),
    SAME(eval_s),
    SAME(save_s),
};
static const ls_record_t record = LS_RECORD(rows);

#define PHASE(i, name_)                                                                                      \
  {                                                                                                          \
    .name = (name_), .type = LS_FIELD_REAL, .offset = (i) * sizeof(double), .size_bytes = sizeof(double),    \
    .min = -INFINITY                                                                                         \
  }
static const ls_field_t phase_rows[] = {
    PHASE(LS_PHASE_STEP_INPUT, "input"),         PHASE(LS_PHASE_STEP_FORWARD, "forward"),
    PHASE(LS_PHASE_STEP_BACKWARD, "backward"),   PHASE(LS_PHASE_STEP_COMM, "exposed_comm"),
    PHASE(LS_PHASE_STEP_OPTIMIZER, "optimizer"), PHASE(LS_PHASE_STEP_REST, "rest"),
};
const ls_record_t ls_train_parts_record = LS_RECORD(phase_rows);

json_t *ls_train_metrics_json(const ls_eval_metrics_t *m) {
  json_t *object = json_object();
  for (int i = 0; i < m->count; i++)
    json_object_set_new(object, m->v[i].name, ls_json_number(m->v[i].value));
  return object;
}

void ls_train_metrics_each_put(json_t *document, const char *name, const ls_eval_metrics_t *m) {
  json_t *all = json_object();
  for (int i = 0; i < m->count; i++) {
    json_t *each = m->v[i].each ? json_object() : NULL;
    for (int o = 0; each && o < m->targets; o++)
      json_object_set_new(each, m->target[o], ls_json_number(m->v[i].of[o]));
    if (each) json_object_set_new(all, m->v[i].name, each);
  }
  if (json_object_size(all) > 0) json_object_set(document, name, all);
  json_decref(all);
}

json_t *ls_train_report_json(const ls_train_report_t *r, ls_status_t status, double predicted_us) {
  const document_t document = {"train", ls_status_name(status), predicted_us, *r};
  json_t *j = ls_record_json(&record, &document), *notes = json_array();
  if (r->val_metrics.count > 0) json_object_set_new(j, "val_metrics", ls_train_metrics_json(&r->val_metrics));
  ls_train_metrics_each_put(j, "val_metrics_each", &r->val_metrics);
  for (int i = 0; i < r->notes; i++)
    json_array_append_new(notes, ls_json_text(r->note[i]));
  json_object_set_new(j, "notes", notes);
  return j;
}
