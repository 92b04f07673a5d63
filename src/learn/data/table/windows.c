/* Windows over time: rows of a table become samples of several rows each. Sample i begins at row i * stride; its
 * target is that of the row `horizon` rows after its last one. Windows overlap; each has its own copy. */
#include "data/parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static int64_t stride_of(const ls_data_config_t *config) {
  return config->stride > 0 ? config->stride : 1;
}

/* Windows of so many rows; may be none. */
static int64_t count_of(const ls_data_config_t *config, int64_t rows) {
  int64_t starts = rows - config->window - config->horizon;
  return starts < 0 ? 0 : starts / stride_of(config) + 1;
}

ls_status_t ls_windows_check(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                             const ls_source_t *s) {
  int64_t cols = s->features.cols, inputs;
  char gaps[LS_INDICATORS_TEXT_BYTES];
  if (__builtin_mul_overflow(cols, config->window, &inputs) || inputs != want->inputs)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s has %" PRId64 " feature%s%s, and with data.window: %" PRId64
                   " a sample has that many in every row, but the model's input is %" PRId64
                   ": set %s%" PRId64 "%s%" PRId64 "%s, or choose other columns",
                   s->feature_name, cols, LS_PLURAL(cols), ls_indicators_text(s, gaps), config->window,
                   want->inputs, want->preset ? "model.context to " : "model.input to [", config->window,
                   want->preset ? " and model.features to " : ", ", cols, want->preset ? "" : "]");
  return LS_OK;
}

void ls_windows_measure(const ls_data_config_t *config, ls_dataset_t *d) {
  d->ordered = true;
  d->train_count = d->split_rows;
  int64_t windows = count_of(config, d->split_rows);
  int64_t train = windows - llround((double)windows * config->validation);
  if (train > 0) d->train_count = (train - 1) * stride_of(config) + config->window + config->horizon;
}

/* One part's rows: from `row` on, to the windows from `to` on. */
static void cut(const ls_data_config_t *config, const ls_dataset_t *d, int64_t row, int64_t count, int64_t to,
                char *features, char *targets) {
  size_t x = ls_shape_bytes(&d->sample.x), y = ls_shape_bytes(&d->sample.target),
         all = (size_t)config->window * x;
  for (int64_t i = 0; i < count; i++, row += stride_of(config), to++) {
    int64_t target = row + config->window - 1 + config->horizon;
    memcpy(features + (size_t)to * all, (const char *)d->features + (size_t)row * x, all);
    memcpy(targets + (size_t)to * y, (const char *)d->targets + (size_t)target * y, y);
  }
}

/* Every position of a window has the row's mean and scale. */
static ls_status_t widen_norm(const ls_data_config_t *config, ls_dataset_t *d) {
  ls_norm_t row = d->norm, *n = &d->norm;
  n->inputs = row.inputs * config->window;
  n->mean = ls_arena_array(&d->arena, (size_t)(n->inputs + n->outputs), sizeof *n->mean);
  n->scale = ls_arena_array(&d->arena, (size_t)(n->inputs + n->outputs), sizeof *n->scale);
  if (!n->mean || !n->scale) return LS_ERR_MEMORY;
  n->target_mean = n->mean + n->inputs;
  n->target_scale = n->scale + n->inputs;
  for (int64_t i = 0; i < n->inputs; i++) {
    n->mean[i] = row.mean[i % row.inputs];
    n->scale[i] = row.scale[i % row.inputs];
  }
  for (int64_t i = 0; i < n->outputs; i++) {
    n->target_mean[i] = row.target_mean[i];
    n->target_scale[i] = row.target_scale[i];
  }
  return LS_OK;
}

static ls_status_t refuse_short(ls_ctx_t *ctx, const ls_data_config_t *config, const char *source,
                                int64_t rows) {
  return ls_fail(ctx, LS_ERR_DATA,
                 "%s: %" PRId64 " row%s give no sample of data.window: %" PRId64
                 " rows with a target %" PRId64 " rows behind: %" PRId64 " are needed",
                 source, rows, LS_PLURAL(rows), config->window, config->horizon,
                 config->window + config->horizon);
}

ls_status_t ls_windows_cut(ls_ctx_t *ctx, const ls_data_config_t *config, ls_dataset_t *d) {
  int64_t held_rows = d->rows - d->split_rows;
  int64_t own = count_of(config, d->split_rows), held = held_rows > 0 ? count_of(config, held_rows) : 0;
  if (own == 0) return refuse_short(ctx, config, d->source, d->split_rows);
  if (held_rows > 0 && held == 0) return refuse_short(ctx, config, d->validation_source, held_rows);
  size_t x = ls_shape_bytes(&d->sample.x), y = ls_shape_bytes(&d->sample.target);
  char *features = ls_alloc_array(ctx, (size_t)(own + held), (size_t)config->window * x);
  char *targets = ls_alloc_array(ctx, (size_t)(own + held), y);
  ls_status_t status = features && targets ? widen_norm(config, d) : LS_ERR_MEMORY;
  if (status != LS_OK) {
    ls_free(features);
    ls_free(targets);
    return status;
  }
  cut(config, d, 0, own, 0, features, targets);
  cut(config, d, d->split_rows, held, own, features, targets);
  ls_free(d->features);
  ls_free(d->targets);
  d->features = features;
  d->targets = targets;
  d->reading_bytes += d->rows * (int64_t)(x + y);
  d->rows = own + held;
  d->split_rows = d->train_count = own;
  d->validation_count = held;
  d->sample.x = (ls_shape_t){d->sample.x.dtype, 2, {config->window, d->inputs}};
  d->inputs = d->norm.inputs;
  return LS_OK;
}

static ls_status_t reserve(ls_ctx_t *ctx, ls_window_rows_t *w, int64_t rows) {
  if (rows <= w->capacity) return LS_OK;
  double *grown = ls_realloc_array(ctx, w->row, (size_t)rows, (size_t)w->cols * sizeof *grown);
  if (!grown) return LS_ERR_MEMORY;
  w->row = grown;
  w->capacity = rows;
  return LS_OK;
}

ls_status_t ls_windows_add(ls_ctx_t *ctx, ls_window_rows_t *w, const ls_matrix_t *rows) {
  int64_t skip = w->skip < rows->rows ? w->skip : rows->rows, more = rows->rows - skip;
  w->cols = rows->cols;
  ls_status_t status = reserve(ctx, w, w->count + more);
  if (status != LS_OK) return status;
  if (more > 0) ls_matrix_values(rows, skip * w->cols, more * w->cols, w->row + w->count * w->cols);
  w->skip -= skip;
  w->count += more;
  return LS_OK;
}

ls_status_t ls_windows_next(ls_ctx_t *ctx, ls_window_rows_t *w, int64_t most, ls_matrix_t *out) {
  const int64_t window = w->config->window, stride = stride_of(w->config), width = window * w->cols;
  int64_t count = w->count < window ? 0 : (w->count - window) / stride + 1;
  if (count > most) count = most;
  *out = (ls_matrix_t){.rows = count, .cols = width, .row = LS_SHAPE(LS_F64, width)};
  if (count == 0) return LS_OK;
  double *to = out->values = ls_alloc_array(ctx, (size_t)count, (size_t)width * sizeof *to);
  if (!to) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < count; i++)
    memcpy(to + i * width, w->row + i * stride * w->cols, (size_t)width * sizeof *to);
  int64_t over = count * stride < w->count ? count * stride : w->count;
  w->skip = count * stride - over;
  w->count -= over;
  w->given += count;
  memmove(w->row, w->row + over * w->cols, (size_t)(w->count * w->cols) * sizeof *w->row);
  return LS_OK;
}
