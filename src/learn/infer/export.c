/* A model for other programs: its tensors under their names, or the network as ONNX. */
#include "infer/infer.h"

#include "model/names.h"
#include "model/onnx.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

/* Adds the foreign tensors of one of ours, with copies if the layout differs. */
static ls_status_t add_foreign(ls_arena_t *arena, const ls_names_t *names, const ls_ckpt_tensor_t *ours,
                               ls_ckpt_tensor_t *to, int *count) {
  ls_foreign_names_t foreign;
  int row = 0;
  if (!ls_names_find(names, ours->name, &row, &foreign)) return LS_OK;
  const ls_shape_t part = ls_weight_part(&ours->shape, foreign.count);
  const int64_t values = ls_shape_count(&part);
  for (int i = 0; i < foreign.count; i++) {
    float *copy = (float *)ours->data + i * values;
    if (foreign.layout != LS_WEIGHT_SAME) {
      copy = ls_arena_array(arena, (size_t)values, sizeof *copy);
      if (!copy) return LS_ERR_MEMORY;
      ls_weight_copy(foreign.layout, &part, false, (const float *)ours->data + i * values, copy);
    }
    to[*count] = (ls_ckpt_tensor_t){
        .name = ls_arena_printf(arena, "%s%s", foreign.bare ? "" : names->prefix[0], foreign.name[i]),
        .shape = ls_weight_shape(foreign.layout, &part),
        .data = copy};
    if (!to[(*count)++].name) return LS_ERR_MEMORY;
  }
  return LS_OK;
}

static const float *find_param(void *rows_, const char *name) {
  const ls_ckpt_rows_t *rows = rows_;
  for (int i = 0; i < rows->count[0]; i++)
    if (!strcmp(rows->tensor[0][i].name, name)) return rows->tensor[0][i].data;
  return NULL;
}

/* A JSON list (free); NULL: there are no names, or not all of them are UTF-8. */
static char *names_text(int64_t count, const char *const *name) {
  json_t *list = count > 0 ? ls_train_names_json(count, name) : NULL;
  char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
  json_decref(list);
  return text;
}

ls_status_t ls_infer_export_onnx(ls_trainer_t *t, const char *path, int *count) {
  const ls_dataset_t *d = t->dataset;
  const ls_norm_t *norm = &d->norm;
  const ls_strings_t *target = &t->config->data.target;
  ls_arena_t arena;
  ls_strings_t classes = {0};
  ls_ckpt_rows_t rows = {0};
  char *bytes = NULL;
  size_t size;
  ls_arena_init(&arena, t->ctx);
  ls_status_t status = ls_infer_check_norm(t);
  if (status == LS_OK && d->labels.count > 0)
    status = ls_class_names(&arena, &d->labels, ls_model_classes(&t->config->model), &classes);
  const int64_t columns = d->columns ? d->column_count + d->indicators.count : 0;
  const char **column = ls_arena_array(&arena, (size_t)columns + 1, sizeof *column);
  if (!column) status = LS_ERR_MEMORY;
  for (int64_t i = 0; i < columns && status == LS_OK; i++)
    if (!(column[i] = i < d->column_count
                          ? d->columns[i]
                          : ls_arena_printf(&arena, "%s.missing", d->indicators.v[i - d->column_count])))
      status = LS_ERR_MEMORY;
  char *class_text = names_text(classes.count, classes.v),
       *column_text = names_text(status == LS_OK ? columns : 0, column),
       *target_text =
           t->classes ? NULL : names_text(target->count == t->outputs ? target->count : 0, target->v);
  if (status == LS_OK) status = ls_state_pull(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
  if (status == LS_OK) status = ls_ckpt_rows(t->ctx, t->engine.table, t->engine.state->host, &rows);
  const ls_onnx_source_t source = {
      .param = find_param,
      .user = &rows,
      .mean = norm->mean,
      .scale = norm->scale,
      .target_mean = norm->target_mean,
      .target_scale = norm->target_scale,
      .meta = {{"classes", class_text}, {"columns", column_text}, {"targets", target_text}}};
  if (status == LS_OK) status = ls_onnx_make(t->ctx, &t->config->model, &source, &bytes, &size);
  if (status == LS_OK) status = ls_file_replace(t->ctx, path, bytes, size);
  *count = rows.count[0];
  ls_free(bytes);
  free(class_text);
  free(column_text);
  free(target_text);
  ls_arena_release(&rows.arena);
  ls_arena_release(&arena);
  return status;
}

ls_status_t ls_infer_export(ls_trainer_t *t, const char *path, int map, int *count) {
  ls_ckpt_rows_t rows = {0};
  ls_arena_t arena;
  ls_arena_init(&arena, t->ctx);
  ls_status_t status = ls_state_pull(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
  if (status == LS_OK) status = ls_ckpt_rows(t->ctx, t->engine.table, t->engine.state->host, &rows);
  ls_ckpt_tensor_t *to = ls_arena_array(&arena, (size_t)rows.count[0] * LS_NAMES_PARTS_MAX + 1, sizeof *to);
  if (status == LS_OK && !to) status = LS_ERR_MEMORY;
  *count = 0;
  for (int i = 0; i < rows.count[0] && status == LS_OK; i++)
    status = add_foreign(&arena, ls_names_list[map], &rows.tensor[0][i], to, count);
  if (status == LS_OK) status = ls_ckpt_write_file(t->ctx, path, to, *count);
  ls_arena_release(&rows.arena);
  ls_arena_release(&arena);
  return status;
}
