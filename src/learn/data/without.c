/* A dataset without samples, for a model that predicts. */
#include "data/parts.h"
#include "data/picture/images.h"
#include "data/stream.h"

#include <string.h>

ls_status_t ls_dataset_without(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               const ls_norm_t *norm, ls_dataset_t **out) {
  static const ls_strings_t none = {0};
  const ls_strings_t *columns = config->kind == LS_DATA_CSV ? &config->columns : &none;
  ls_images_t images;
  const bool pictures = ls_data_pictures(config);
  if (pictures && ls_images_settings(ctx, config, &want->x, &images) != LS_OK) return LS_ERR_CONFIG;
  ls_dataset_t *d = ls_alloc(ctx, sizeof *d);
  if (!d) return LS_ERR_MEMORY;
  ls_arena_init(&d->arena, ctx);
  int64_t targets = want->classes ? 0 : want->outputs, all = want->inputs + targets;
  d->inputs = want->inputs;
  d->outputs = want->outputs;
  d->classes = want->classes;
  d->sample.x = LS_SHAPE(LS_F32, want->inputs);
  ls_dataset_one_unit(d, 0, 1);
  double *mean = ls_arena_array(&d->arena, (size_t)all, sizeof *mean);
  float *scale = ls_arena_array(&d->arena, (size_t)all, sizeof *scale);
  size_t bytes = (size_t)columns->count * sizeof *d->columns;
  for (int i = 0; i < columns->count; i++)
    bytes += strlen(columns->v[i]) + 1;
  if (columns->count > 0) d->columns = ls_alloc(ctx, bytes);
  ls_labels_t classes = {.arena = &d->arena, .most = want->outputs};
  ls_status_t status = ls_labels_give(&classes, &config->labels);
  if (status == LS_OK) status = ls_labels_list(&classes, &d->labels);
  if (status == LS_OK) status = ls_strings_copy(&d->arena, &config->vocabulary, &d->vocabulary);
  if (status == LS_OK) status = ls_strings_copy(&d->arena, &config->indicators, &d->indicators);
  if (!mean || !scale || (columns->count > 0 && !d->columns) || status != LS_OK) {
    ls_dataset_close(d);
    return LS_ERR_MEMORY;
  }
  d->column_count = columns->count;
  char *text = d->columns ? (char *)(d->columns + columns->count) : NULL;
  for (int i = 0; i < columns->count; i++) {
    d->columns[i] = strcpy(text, columns->v[i]);
    text += strlen(text) + 1;
  }
  const int64_t channels = want->x.rank == 3 ? want->x.dim[2] : 1; /* of images */
  for (int64_t i = 0; i < all; i++) {
    bool x = i < want->inputs;
    int64_t at = x ? i : i - want->inputs;
    mean[i] = !norm ? 0.0 : x ? norm->mean[at] : norm->target_mean[at];
    scale[i] = !norm ? 1.0f : x ? norm->scale[at] : norm->target_scale[at];
    if (!norm && x && pictures) {
      float shift;
      ls_images_unit(config, (int)(i % channels), &shift, &scale[i]);
      mean[i] = (double)shift;
    }
  }
  d->norm = (ls_norm_t){want->inputs, targets, mean, mean + want->inputs, scale, scale + want->inputs};
  *out = d;
  return LS_OK;
}
