/* Arrays of numpy as they lie in their files: bytes as they are, every other type made f32 row by row. */
#include "data/mapped.h"

#include "data/picture/images.h"
#include "data/table/npz.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART_OF_MEMORY = 4, BLOCK = 256 };

/* Adds the bytes of all files that match. One file that is not there has none: who reads it says so. */
static ls_status_t add_size(ls_ctx_t *ctx, const char *path, double *bytes) {
  ls_arena_t arena;
  ls_strings_t files = {0};
  struct stat info;
  ls_arena_init(&arena, ctx);
  bool there = ls_path_exists(path) || strpbrk(path, "*?[");
  ls_status_t status = there ? ls_files_find(&arena, path, true, &files) : LS_OK;
  for (int i = 0; i < files.count; i++)
    *bytes += stat(files.v[i], &info) == 0 ? (double)info.st_size : 0;
  ls_arena_release(&arena);
  return status;
}

ls_status_t ls_mapped_wanted(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                             const ls_norm_t *norm, bool *wanted) {
  *wanted = config->kind == LS_DATA_NPY && config->mapped == LS_MAPPED_TRUE;
  if (config->kind != LS_DATA_NPY || config->mapped != LS_MAPPED_AUTO) return LS_OK;
  if (want->whole || (config->normalize && !norm && !ls_data_pictures(config))) return LS_OK;
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  double bytes = 0;
  ls_status_t status = add_size(ctx, config->features, &bytes);
  *wanted = pages > 0 && page_bytes > 0 && bytes > (double)pages * (double)page_bytes / PART_OF_MEMORY;
  return status;
}

static ls_status_t open_file(ls_ctx_t *ctx, const char *path, ls_mapped_file_t *f) {
  const bool member = path[ls_npz_file_length(path)];
  ls_status_t status = member ? LS_OK : ls_view_open(ctx, path, true, &f->view);
  if (status != LS_OK) return status;
  if (member || ls_npz_is(path, f->view.bytes, f->view.size))
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: arrays of an archive cannot stay in it: save the array with numpy.save, or "
                   "data.mapped: false",
                   path);
  if (!f->view.mapped)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: a packed file cannot stay where it is: unpack it, or data.mapped: false", path);
  status = ls_npy_header(ctx, path, f->view.bytes, f->view.size, &f->array, &f->offset);
  if (status == LS_OK) status = ls_array_check(ctx, &f->array, f->view.size - f->offset, f->offset);
  if (status == LS_OK && f->array.by_column)
    status = ls_fail(
        ctx, LS_ERR_DATA,
        "%s: an array in column order (fortran_order) has no rows that could be read one by one: save "
        "numpy.ascontiguousarray(array), or data.mapped: false",
        path);
  return status;
}

static ls_status_t open_files(ls_ctx_t *ctx, const char *const path[2], ls_dataset_t *d, ls_matrix_t *m) {
  ls_strings_t found[2] = {{0}};
  ls_status_t status = LS_OK;
  for (int p = 0; p < 2 && status == LS_OK; p++)
    if (path[p]) status = ls_files_find(&d->arena, path[p], true, &found[p]);
  int count = found[0].count + found[1].count;
  if (status == LS_OK &&
      !(d->mapped->file = ls_arena_array(&d->arena, (size_t)count, sizeof(ls_mapped_file_t))))
    status = LS_ERR_MEMORY;
  for (int i = 0; i < count && status == LS_OK; i++) {
    ls_mapped_file_t *f = &d->mapped->file[i];
    const char *name = i < found[0].count ? found[0].v[i] : found[1].v[i - found[0].count];
    d->mapped->files++;
    status = open_file(ctx, name, f);
    if (status != LS_OK) break;
    ls_shape_t row = ls_array_row_shape(&f->array);
    if (row.dtype != LS_U8) row.dtype = LS_F32;
    if (i > 0 && !ls_shape_equal(&row, &m->row)) {
      char a[LS_SHAPE_TEXT_BYTES], b[LS_SHAPE_TEXT_BYTES];
      return ls_fail(ctx, LS_ERR_DATA, "%s: its rows are %s, those of %s are %s", name,
                     ls_shape_text(&row, a), d->mapped->file[0].array.name, ls_shape_text(&m->row, b));
    }
    f->first = m->rows;
    m->row = row;
    m->cols = ls_shape_count(&row);
    m->rows += f->array.dim[0];
    m->bytes = row.dtype == LS_U8;
    if (i < found[0].count) d->split_rows = m->rows;
  }
  return status;
}

static ls_status_t take_norm(ls_ctx_t *ctx, const ls_norm_t *given, const ls_matrix_t *m, ls_dataset_t *d) {
  ls_norm_t *n = &d->norm;
  if (given && given->inputs != m->cols)
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "%s has %" PRId64 " features, but the checkpoint's normalisation is for %" PRId64,
                   d->source, m->cols, given->inputs);
  *n = (ls_norm_t){.inputs = m->cols, .outputs = d->classes ? 0 : d->outputs};
  n->mean = ls_arena_array(&d->arena, (size_t)(n->inputs + n->outputs), sizeof *n->mean);
  n->scale = ls_arena_array(&d->arena, (size_t)(n->inputs + n->outputs), sizeof *n->scale);
  if (!n->mean || !n->scale) return LS_ERR_MEMORY;
  n->target_mean = n->mean + n->inputs;
  n->target_scale = n->scale + n->inputs;
  for (int64_t i = 0; i < n->inputs + n->outputs; i++) {
    bool x = i < n->inputs;
    n->mean[i] = !given ? 0.0 : x ? given->mean[i] : given->target_mean[i - n->inputs];
    n->scale[i] = !given ? 1.0f : x ? given->scale[i] : given->target_scale[i - n->inputs];
  }
  bool bytes = m->row.dtype == LS_U8;
  ls_dataset_one_unit(d, bytes ? (float)n->mean[0] : 0, bytes ? n->scale[0] : 1);
  return LS_OK;
}

/* Reads the headers of the section's files, then of its validation files: rows and widths, without values.
 * ls_normalize sets the norms of pictures. */
static ls_status_t open_features(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                                 const ls_norm_t *norm, ls_dataset_t *d, ls_matrix_t *features) {
  const char *const paths[] = {config->features, config->validation_features};
  const bool pictures = ls_data_pictures(config);
  if (want->whole || (config->normalize && !norm && !pictures))
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.mapped: true does not go with %s: every value would be read at the beginning",
                   want->whole ? "tokens" : "data.normalize");
  *features = (ls_matrix_t){0};
  d->mapped = ls_arena_alloc(&d->arena, sizeof *d->mapped);
  if (!d->mapped) return LS_ERR_MEMORY;
  ls_status_t status = open_files(ctx, paths, d, features);
  return status == LS_OK && !pictures ? take_norm(ctx, norm, features, d) : status;
}

/* Maps the features, those of validation files last. Reads the targets; held_out's are not yet appended. */
static ls_status_t read_mapped(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               const ls_norm_t *norm, ls_source_t *r, ls_source_t *held_out,
                               ls_dataset_t *d) {
  ls_data_config_t files = *config;
  files.features = config->validation_features;
  files.targets = config->validation_targets;
  r->mapped = held_out->mapped = true;
  ls_status_t status = ls_source_pair(ctx, config, r);
  if (status == LS_OK) status = open_features(ctx, config, want, norm, d, &r->features);
  return status == LS_OK && files.features ? ls_source_pair(ctx, &files, held_out) : status;
}

/* Training and validation files alone, as their messages name them; then their targets become one. */
static ls_status_t join_mapped(ls_ctx_t *ctx, const ls_data_want_t *row, ls_source_t *r,
                               ls_source_t *held_out, ls_dataset_t *d) {
  const int64_t rows = r->features.rows;
  held_out->features = r->features;
  held_out->features.rows = rows - d->split_rows;
  r->features.rows = d->split_rows;
  ls_status_t status = ls_targets_check(ctx, row, r);
  r->features.rows = rows;
  if (status != LS_OK || !held_out->feature_name) return status;
  status = ls_targets_check(ctx, row, held_out);
  if (status == LS_OK) status = ls_matrix_append(ctx, &r->targets, &held_out->targets);
  snprintf(d->validation_source, sizeof d->validation_source, "%s", held_out->feature_name);
  d->train_count = d->split_rows;
  d->validation_count = rows - d->split_rows;
  return status;
}

ls_status_t ls_mapped_build(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                            const ls_norm_t *norm, ls_source_t *r, ls_dataset_t *d) {
  d->inputs = want->inputs;
  d->outputs = want->outputs;
  d->classes = want->classes;
  snprintf(d->source, sizeof d->source, "%s", config->features);
  ls_data_want_t row = *want; /* of one row */
  ls_source_t held_out = {0};
  ls_status_t status = read_mapped(ctx, config, want, norm, r, &held_out, d);
  d->sample.x = r->features.row;
  if (status == LS_OK && ls_data_pictures(config))
    status = ls_dataset_pictures(ctx, config, want, r, &row, d);
  if (status == LS_OK) status = join_mapped(ctx, &row, r, &held_out, d);
  if (status == LS_OK && !norm) status = ls_channels_check(ctx, d->source, &r->features.row, &want->x);
  ls_matrix_release(&held_out.targets);
  if (status != LS_OK) return status;
  d->rows = r->features.rows;
  d->sample.target = d->classes ? (ls_shape_t){.dtype = LS_I32} : LS_SHAPE(LS_F32, want->outputs);
  if (want->positions > 0) d->sample.target = LS_SHAPE(LS_I32, want->positions);
  if (d->classes) {
    status = ls_labels_take(ctx, &r->targets, d);
  } else if (!d->images) {
    status = ls_matrix_narrow(ctx, d->norm.target_mean, d->norm.target_scale, &r->targets);
    d->targets = r->targets.values;
    r->targets.values = NULL;
  }
  if (status == LS_OK) status = ls_dataset_split(ctx, config->validation, d);
  const ls_normalize_t how = {
      .given = norm, .compute = config->normalize, .labels = want->labels, .pictures = config};
  if (status == LS_OK && d->images) return ls_images_ready(ctx, &how, &r->targets, d);
  return status == LS_OK ? ls_dataset_augment(ctx, config, want, d) : status;
}

static const ls_mapped_file_t *file_of(const ls_mapped_t *m, int64_t row) {
  int low = 0, high = m->files - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (m->file[middle].first <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return &m->file[low];
}

const uint8_t *ls_mapped_bytes(const ls_mapped_t *m, int64_t row) {
  const ls_mapped_file_t *f = file_of(m, row);
  return (const uint8_t *)f->view.bytes + f->offset +
         (size_t)(row - f->first) * (size_t)ls_array_row_bytes(&f->array);
}

void ls_mapped_row(const ls_dataset_t *d, int64_t row, int64_t first, int64_t count, void *out) {
  const ls_mapped_file_t *f = file_of(d->mapped, row);
  size_t one = (size_t)(ls_array_row_bytes(&f->array) / d->inputs);
  const char *from =
      f->view.bytes + f->offset + ((size_t)(row - f->first) * (size_t)d->inputs + (size_t)first) * one;
  if (d->sample.x.dtype == LS_U8) {
    memcpy(out, from, (size_t)count);
    return;
  }
  for (int64_t i = 0; i < count; i += BLOCK) {
    double value[BLOCK];
    int64_t some = count - i < BLOCK ? count - i : BLOCK;
    ls_array_values(&f->array, from + (size_t)i * one, some, value);
    for (int64_t k = 0; k < some; k++)
      ((float *)out)[i + k] =
          ls_norm_value(value[k], d->norm.mean[first + i + k], d->norm.scale[first + i + k]);
  }
}

void ls_mapped_close(ls_mapped_t *m) {
  for (int i = 0; m && i < m->files; i++)
    ls_view_close(&m->file[i].view);
}
