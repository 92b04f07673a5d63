/* Opening a dataset: read by kind, check against the model, split, normalise. */
#include "data/mapped.h"
#include "data/order.h"
#include "data/parts.h"
#include "data/picture/images.h"
#include "data/text/corpus.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

int64_t ls_dataset_bytes(const ls_dataset_t *d) {
  if (d->corpus) return ls_corpus_bytes(d->corpus);
  int64_t list = d->images ? ls_images_bytes(d) : 0;
  if (d->mapped) return d->rows * (int64_t)ls_shape_bytes(&d->sample.target);
  if (!d->features) return list + d->rows * (int64_t)ls_shape_bytes(&d->sample.target);
  return list + d->rows * (int64_t)(ls_shape_bytes(&d->sample.x) + ls_shape_bytes(&d->sample.target));
}

int64_t ls_dataset_work_bytes(const ls_dataset_t *d) {
  return d->images ? atomic_load(&d->images->work_bytes) : 0;
}

ls_status_t ls_dataset_split(ls_ctx_t *ctx, double validation, ls_dataset_t *d) {
  if (d->corpus) return ls_corpus_split(ctx, validation, d);
  if (d->split_rows < d->rows) return LS_OK;
  d->validation_count = llround((double)d->rows * validation);
  d->train_count = d->rows - d->validation_count;
  if (d->train_count < 1)
    return ls_fail(ctx, LS_ERR_DATA, "%s: data.validation %g of %" PRId64 " sample%s leaves none to train on",
                   d->source, validation, d->rows, LS_PLURAL(d->rows));
  if (validation > 0.0 && d->validation_count == 0)
    ls_log(ctx, LS_LOG_WARN,
           "%s: data.validation %g of %" PRId64 " sample%s is none: there is no validation part", d->source,
           validation, d->rows, LS_PLURAL(d->rows));
  return LS_OK;
}

/* The validation files' columns must be those of the training file, in the same order. */
static ls_status_t check_columns(ls_ctx_t *ctx, const ls_source_t *train, const ls_source_t *held_out) {
  for (int64_t c = 0; train->features.names && c < train->features.named; c++)
    if (strcmp(train->features.names[c], held_out->features.names[c]) != 0)
      return ls_fail(ctx, LS_ERR_DATA,
                     "%s: feature %" PRId64 " (from 0) is column '%s', in %s it is '%s': name the columns "
                     "in data.columns",
                     held_out->feature_name, c, LS_SHOWN(held_out->features.names[c]), train->feature_name,
                     LS_SHOWN(train->features.names[c]));
  return LS_OK;
}

/* Rows of validation files are like those of the training files, which go with the model: no other model takes both. */
static ls_status_t check_rows(ls_ctx_t *ctx, const ls_source_t *train, const ls_source_t *held_out,
                              bool pictures) {
  char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
  if (pictures && !ls_shape_equal(&train->features.row, &held_out->features.row))
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: its pictures are %s, those of %s are %s: arrays of one dataset hold pictures of one "
                   "size (data.kind: images takes files of any size)",
                   held_out->feature_name, ls_shape_text(&held_out->features.row, a), train->feature_name,
                   ls_shape_text(&train->features.row, b));
  if (held_out->features.cols != train->features.cols)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s has %" PRId64
                   " feature%s per sample, but %s, with which the model is trained, has %" PRId64,
                   held_out->feature_name, held_out->features.cols, LS_PLURAL(held_out->features.cols),
                   train->feature_name, train->features.cols);
  return LS_OK;
}

/* Appends samples from validation files to the training samples. */
static ls_status_t add_validation(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                                  ls_source_t *train, ls_dataset_t *d) {
  ls_data_config_t files = *config;
  files.features = config->validation_features;
  files.targets = config->validation_targets;
  files.path = config->validation_path;
  files.indicators = train->indicators; /* those of the training file, as the labels */
  files.indicators_trained = true;
  ls_source_t held_out = {.arena = train->arena, .labels = train->labels};
  ls_status_t status = ls_source_read(ctx, &files, NULL, want, &held_out);
  if (status == LS_OK) status = check_rows(ctx, train, &held_out, d->images);
  if (status == LS_OK) status = ls_targets_check(ctx, want, &held_out);
  if (status == LS_OK) status = check_columns(ctx, train, &held_out);
  snprintf(d->validation_source, sizeof d->validation_source, "%s", held_out.feature_name);
  d->train_count = train->features.rows;
  d->validation_count = held_out.features.rows;
  if (status == LS_OK) status = ls_matrix_append(ctx, &train->features, &held_out.features);
  if (status == LS_OK) status = ls_matrix_append(ctx, &train->targets, &held_out.targets);
  if (held_out.file_bytes > train->file_bytes) train->file_bytes = held_out.file_bytes;
  ls_matrix_release(&held_out.features);
  ls_matrix_release(&held_out.targets);
  return status;
}

bool ls_data_dtype(const ls_data_config_t *config, const ls_data_want_t *want, ls_dtype_t *dtype) {
  const struct {
    int kind;
    ls_dtype_t values, tokens;
  } rows[] = {
      {LS_DATA_CSV, LS_F32, LS_I32}, {LS_DATA_IMAGES, LS_U8, LS_U8}, {LS_DATA_SYNTHETIC, LS_F32, LS_U16}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (rows[i].kind == config->kind) {
      *dtype = want->whole ? rows[i].tokens : rows[i].values;
      return true;
    }
  return false;
}

ls_status_t ls_dataset_augment(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               ls_dataset_t *d) {
  ls_shape_t x = want->x;
  x.dtype = d->sample.x.dtype;
  return ls_augment_set(ctx, config, &x, &d->augment);
}

ls_status_t ls_dataset_pictures(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                                const ls_source_t *r, ls_data_want_t *row, ls_dataset_t *d) {
  row->inputs = r->features.cols;
  row->x = r->features.row;
  return ls_images_array(ctx, config, want, r->feature_name, &r->features.row, d);
}

static ls_status_t build(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                         const ls_norm_t *norm, ls_source_t *r, ls_dataset_t *d) {
  const bool windows = config->window > 0 && config->kind == LS_DATA_CSV;
  ls_data_want_t row = *want; /* of one row */
  ls_norm_t given = norm ? *norm : (ls_norm_t){0};
  snprintf(d->source, sizeof d->source, "%s", r->feature_name);
  d->split_rows = r->features.rows;
  ls_status_t status = windows ? ls_windows_check(ctx, config, want, r) : LS_OK;
  if (windows) row.inputs = r->features.cols;
  if (windows) given.inputs /= config->window;
  const bool pictures = ls_data_pictures(config);
  if (status == LS_OK && pictures) status = ls_dataset_pictures(ctx, config, want, r, &row, d);
  if (status == LS_OK) status = ls_targets_check(ctx, &row, r);
  if (status == LS_OK && !norm) status = ls_channels_check(ctx, d->source, &r->features.row, &want->x);
  if (status == LS_OK && ls_data_validation_files(config)) status = add_validation(ctx, config, &row, r, d);
  if (status != LS_OK) return status;
  d->reading_bytes = (int64_t)r->file_bytes;
  d->rows = r->features.rows;
  d->inputs = pictures ? want->inputs : row.inputs;
  d->column_count = r->features.named;
  d->indicators = r->indicators;
  d->classes = want->classes;
  d->outputs = want->outputs;
  d->sample.target = d->classes ? (ls_shape_t){.dtype = LS_I32} : LS_SHAPE(LS_F32, want->outputs);
  if (want->positions > 0) d->sample.target = LS_SHAPE(LS_I32, want->positions);
  if (d->classes) status = ls_labels_take(ctx, &r->targets, d);
  if (windows)
    ls_windows_measure(config, d);
  else if (status == LS_OK)
    status = ls_dataset_split(ctx, config->validation, d);
  const ls_normalize_t how = {.given = norm ? &given : NULL,
                              .compute = config->normalize,
                              .one_unit = config->kind == LS_DATA_IDX || r->features.bytes,
                              .whole = want->whole,
                              .labels = want->labels,
                              .ids = want->ids,
                              .pictures = pictures ? config : NULL};
  if (status == LS_OK && pictures) {
    d->images->pixels = r->features.values;
    r->features.values = NULL;
    return ls_images_ready(ctx, &how, &r->targets, d);
  }
  if (status == LS_OK) status = ls_normalize(ctx, d, &r->features, &r->targets, &how);
  if (status == LS_OK) status = ls_dataset_augment(ctx, config, want, d);
  d->columns = r->features.names;
  r->features.names = NULL;
  if (!windows) return status;
  if (status == LS_OK) status = ls_windows_cut(ctx, config, d);
  return status == LS_OK ? ls_dataset_split(ctx, config->validation, d) : status;
}

/* Classes may have names, unless a checkpoint knows them by numbers. */
static ls_status_t prepare_labels(const ls_data_config_t *config, const ls_data_want_t *want, ls_dataset_t *d,
                                  ls_labels_t *labels) {
  bool numbers = config->classes_trained && config->labels.count == 0;
  bool images = config->kind == LS_DATA_IMAGES;
  if (!images && (config->kind != LS_DATA_CSV || !want->classes || config->target.count != 1)) return LS_OK;
  *labels = (ls_labels_t){.arena = &d->arena,
                          .most = want->outputs,
                          .classes = want->positions > 0 ? 0 : want->outputs,
                          .text = images || config->labels.count > 0,
                          .closed = !images && numbers,
                          .numbers = ", but the model was trained on class numbers"};
  return config->labels.count > 0 ? ls_labels_give(labels, &config->labels) : LS_OK;
}

/* Path of the first file that has faulted; NULL: none has. */
static const ls_watch_t *failed_watch(const ls_dataset_t *d) {
  const int texts = d->corpus ? d->corpus->files : 0, arrays = d->mapped ? d->mapped->files : 0;
  for (int i = 0; i < texts + arrays; i++) {
    const ls_view_t *view = i < texts ? &d->corpus->file[i].view : &d->mapped->file[i - texts].view;
    if (ls_watch_failed(view->mapped)) return view->mapped;
  }
  return NULL;
}

static bool has_faulted(const void *dataset) {
  return failed_watch(dataset) != NULL;
}

ls_status_t ls_dataset_check(const ls_dataset_t *d) {
  return ls_watch_check(failed_watch(d));
}

ls_status_t ls_dataset_open(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_memory_t *memory,
                            const ls_data_want_t *want, uint64_t seed, const ls_norm_t *norm,
                            ls_dataset_t **dataset) {
  ls_status_t status = ls_data_config_check(ctx, config);
  if (status != LS_OK) return status;
  if (want->inputs < 1 || want->outputs < 1)
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "a model of %" PRId64 " inputs and %" PRId64 " outputs cannot be trained", want->inputs,
                   want->outputs);
  ls_dataset_t *d = ls_alloc(ctx, sizeof *d);
  if (!d) return LS_ERR_MEMORY;
  ls_arena_init(&d->arena, ctx);
  d->seed = seed;
  ls_source_t r = {.arena = &d->arena};
  ls_ctx_doubt(ctx, has_faulted, d); /* what is said of zeros is wrong */
  if (config->kind == LS_DATA_TEXT) {
    status = ls_corpus_open(ctx, config, want, d);
  } else {
    status = prepare_labels(config, want, d, &r.labels);
    if (status == LS_OK && config->kind == LS_DATA_IMAGES) {
      status = ls_images_open(ctx, config, want, norm, &r.labels, d);
      goto opened;
    }
    bool mapped = false;
    if (status == LS_OK) status = ls_mapped_wanted(ctx, config, want, norm, &mapped);
    if (mapped && status == LS_OK) {
      status = ls_mapped_build(ctx, config, want, norm, &r, d);
      goto opened;
    }
    if (status == LS_OK) status = ls_source_read(ctx, config, memory, want, &r);
    if (status == LS_OK && r.labels.text) status = ls_labels_list(&r.labels, &d->labels);
    if (status == LS_OK) status = build(ctx, config, want, norm, &r, d);
    if (status == LS_OK) ls_labels_warn(ctx, d->source, &r.labels);
  }
opened:
  ls_matrix_release(&r.features);
  ls_matrix_release(&r.targets);
  ls_ctx_doubt(ctx, NULL, NULL);
  const ls_status_t fault = ls_dataset_check(d);
  if (fault != LS_OK) status = fault;
  if (status != LS_OK) goto close_dataset;
  *dataset = d;
  return LS_OK;

close_dataset:
  ls_dataset_close(d);
  return status;
}

void ls_dataset_close(ls_dataset_t *d) {
  if (!d) return;
  ls_dataset_unmap(d);
  ls_free(d->columns);
  ls_arena_release(&d->arena);
  ls_free(d);
}

#define FEATURES(type)                                                                                       \
  for (int64_t i = 0; i < count; i++)                                                                        \
    out[i] = ls_norm_value(((const type *)d->features)[first + i], (double)d->mean[(first + i) % channels],  \
                           d->scale[(first + i) % channels]);                                                \
  break;

void ls_dataset_features(const ls_dataset_t *d, int64_t row, int64_t first, int64_t count, float *out) {
  int64_t channels = ls_channels(&d->sample.x);
  for (int64_t i = 0; d->mapped && d->sample.x.dtype == LS_U8 && i < count; i++) {
    uint8_t byte;
    ls_mapped_row(d, row, first + i, 1, &byte);
    out[i] = ls_norm_value(byte, (double)d->mean[0], d->scale[0]);
  }
  if (d->mapped && d->sample.x.dtype != LS_U8) ls_mapped_row(d, row, first, count, out);
  if (d->mapped) return;
  first += row * d->inputs;
  switch (d->sample.x.dtype) {
  case LS_U8:
    FEATURES(uint8_t)
  case LS_U16:
    FEATURES(uint16_t)
  case LS_I32:
    FEATURES(int32_t)
  default:
    memcpy(out, (const float *)d->features + first, (size_t)count * sizeof *out);
  }
}

/* One bijection of the rows that are split: its first train_count places are the training part, the rest is
 * held out. */
void ls_dataset_rows(const ls_dataset_t *d, ls_part_t part, int64_t index, int count, int64_t *row) {
  uint64_t place[LS_ORDER_EACH_MAX];
  ls_order_key_t key;
  for (int i = 0; d->corpus && i < count; i++)
    row[i] = ls_corpus_window(&d->corpus->part[part], index + i);
  if (d->corpus) return;
  ls_order_key_make(d->seed, LS_ORDER_SPLIT, 0, (uint64_t)d->split_rows, &key);
  for (int i = 0; i < count; i++)
    place[i] = (uint64_t)((part == LS_PART_TRAIN ? index : d->train_count + index) + i);
  if (!d->ordered && place[0] < (uint64_t)d->split_rows) ls_order_each(&key, place, count);
  for (int i = 0; i < count; i++)
    row[i] = (int64_t)place[i];
}

int64_t ls_dataset_row(const ls_dataset_t *d, ls_part_t part, int64_t index) {
  int64_t row;
  ls_dataset_rows(d, part, index, 1, &row);
  return row;
}
