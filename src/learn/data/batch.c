/* A micro-batch: which rows, their values, their weights. A pure function of dataset, spec and number, so that
 * any rank can fill its share of any step at any time. */
#include "data/mapped.h"
#include "data/order.h"
#include "data/picture/images.h"
#include "data/text/corpus.h"

#include "base/clock.h"

#include <string.h>

/* Maps positions of the stream to rows of the dataset. Round keys are kept while the epoch stays the same. */
typedef struct {
  const ls_dataset_t *dataset;
  const ls_loader_spec_t *spec;
  uint64_t part_first, part_count; /* places of the split that belong to the part */
  ls_order_key_t split, epoch_order;
  uint64_t epoch; /* of epoch_order */
  bool has_epoch;
} cursor_t;

static cursor_t cursor_make(const ls_dataset_t *d, const ls_loader_spec_t *spec) {
  bool train = spec->part == LS_PART_TRAIN;
  cursor_t c = {.dataset = d,
                .spec = spec,
                .part_first = train ? 0 : (uint64_t)d->train_count,
                .part_count = (uint64_t)(train ? d->train_count : d->validation_count)};
  ls_order_key_make(d->seed, LS_ORDER_SPLIT, 0, (uint64_t)d->split_rows, &c.split);
  return c;
}

static void cursor_epoch(cursor_t *c, uint64_t epoch) {
  if (!c->has_epoch || c->epoch != epoch)
    ls_order_key_make(c->spec->seed, LS_ORDER_EPOCH, epoch, c->part_count, &c->epoch_order);
  c->has_epoch = true;
  c->epoch = epoch;
}

/* Writes the rows of the positions from `position` on, up to the end of the epoch; returns their number. */
static int cursor_rows(cursor_t *c, uint64_t position, int64_t most, uint64_t row[LS_ORDER_EACH_MAX]) {
  uint64_t epoch = position / c->part_count, index = position % c->part_count;
  int count = most < LS_ORDER_EACH_MAX ? (int)most : LS_ORDER_EACH_MAX;
  if ((uint64_t)count > c->part_count - index) count = (int)(c->part_count - index);
  for (int i = 0; i < count; i++)
    row[i] = index + (uint64_t)i;
  if (c->spec->shuffle) {
    cursor_epoch(c, epoch);
    ls_order_each(&c->epoch_order, row, count);
  }
  const ls_corpus_t *corpus = c->dataset->corpus;
  for (int i = 0; corpus && i < count; i++) {
    const ls_corpus_part_t *part = &corpus->part[c->spec->part];
    row[i] = (uint64_t)(corpus->random && c->spec->shuffle
                            ? ls_corpus_random(part, c->spec->seed, position + (uint64_t)i)
                            : ls_corpus_window(part, (int64_t)row[i]));
  }
  if (corpus) return count;
  for (int i = 0; i < count; i++)
    row[i] += c->part_first;
  if (!c->dataset->ordered && row[0] < (uint64_t)c->dataset->split_rows) ls_order_each(&c->split, row, count);
  return count;
}

static void copy_row(void *to, int64_t to_row, const void *from, int64_t row, size_t bytes) {
  memcpy((char *)to + (size_t)to_row * bytes, (const char *)from + (size_t)row * bytes, bytes);
}

/* The row's sample, at `position` of the stream, into row `to_row`. */
static ls_status_t put_row(const ls_dataset_t *d, const ls_loader_spec_t *spec, int64_t row,
                           uint64_t position, int64_t to_row, const ls_batch_t *to, ls_batch_work_t *work) {
  if (to->row) {
    to->row[to_row] = (int32_t)row;
    return LS_OK;
  }
  size_t bytes = ls_shape_bytes(&d->sample.x);
  char *x = (char *)to->x + (size_t)to_row * bytes;
  const ls_augment_t *augment = &d->augment;
  if (d->corpus) {
    int32_t *target = (int32_t *)to->target + to_row * d->corpus->context;
    ls_corpus_put(d->corpus, row, x, target);
    if (d->corpus->masked > 0) ls_corpus_mask(d->corpus, spec->seed, position, x, target);
    return LS_OK;
  }
  copy_row(to->target, to_row, d->targets, row, ls_shape_bytes(&d->sample.target));
  if (d->images && !d->features)
    return ls_images_put(d, row, spec->shuffle, spec->seed, position, work, (uint8_t *)x);
  const char *from;
  if (d->mapped) {
    ls_status_t status = ls_room_need(d->arena.ctx, &work->pixels, bytes);
    if (status != LS_OK) return status;
    ls_mapped_row(d, row, 0, d->inputs, work->pixels.bytes);
    from = (const char *)work->pixels.bytes;
  } else {
    from = (const char *)d->features + (size_t)row * bytes;
  }
  if (spec->shuffle && (augment->flip || augment->padding > 0))
    ls_augment_copy(augment, true, spec->seed, position, from, (size_t)augment->width * augment->pixel_bytes,
                    x);
  else
    memcpy(x, from, bytes);
  return LS_OK;
}

static void put_step(const ls_dataset_t *d, const ls_loader_spec_t *spec, int64_t step, int64_t position,
                     ls_step_params_t *to) {
  *to = (ls_step_params_t){.seed = spec->seed,
                           .position = (uint64_t)position,
                           .lr = spec->lr ? spec->lr(spec->lr_user, step) : 0.0f,
                           .dloss = 1};
  memcpy(to->mean, d->mean, sizeof to->mean);
  memcpy(to->scale, d->scale, sizeof to->scale);
}

ls_status_t ls_batch_fill_part(const ls_dataset_t *d, const ls_loader_spec_t *spec, int64_t unit,
                               const ls_batch_t *to, int part, int parts, ls_batch_work_t *work) {
  int64_t begin_ns = ls_clock_ns(), copied_ns = work->times.copy_ns;
  ls_status_t status = LS_OK;
  cursor_t cursor = cursor_make(d, spec);
  int64_t step = unit / spec->micro_batches, first = spec->first + unit % spec->micro_batches * spec->stride;
  int64_t begin = spec->origin + step * spec->global_batch, valid = spec->total_samples - begin;
  if (valid > spec->global_batch) valid = spec->global_batch;
  if (cursor.part_count == 0) valid = 0;
  float weight = valid > 0 ? (float)(1.0 / (double)valid) : 0.0f;
  int64_t position = begin + first;

  if (part == 0) put_step(d, spec, step, position, to->step);
  int64_t from, until;
  ls_pool_share(spec->rows, 1, part, parts, &from, &until);
  int64_t real = valid - first, r = from;
  if (real > until) real = until;
  while (r < real && status == LS_OK) {
    uint64_t row[LS_ORDER_EACH_MAX];
    int count = cursor_rows(&cursor, (uint64_t)(position + r), real - r, row);
    for (int i = 0; i < count && status == LS_OK; i++, r++) {
      status = put_row(d, spec, (int64_t)row[i], (uint64_t)(position + r), r, to, work);
      to->weight[r] = weight;
    }
  }
  /* Padding repeats a real row of the part: its numbers are ordinary, its weight is 0. */
  int64_t padding = r < until && cursor.part_count ? ls_dataset_row(d, spec->part, 0) : 0;
  for (; r < until && status == LS_OK; r++) {
    status = put_row(d, spec, padding, (uint64_t)(position + r), r, to, work);
    to->weight[r] = 0.0f;
  }
  work->times.samples += until - from;
  if (d->features || !d->images) work->times.copy_ns = copied_ns + ls_clock_ns() - begin_ns;
  return status;
}

ls_status_t ls_batch_fill(const ls_dataset_t *dataset, const ls_loader_spec_t *spec, int64_t unit,
                          const ls_batch_t *to) {
  ls_batch_work_t work = {0};
  ls_status_t status = ls_batch_fill_part(dataset, spec, unit, to, 0, 1, &work);
  ls_batch_work_release(&work);
  return status == LS_OK ? ls_dataset_check(dataset) : status;
}

size_t ls_batch_work_bytes(const ls_batch_work_t *work) {
  return work->file.capacity + work->pixels.capacity + work->scratch.capacity + work->scaled.capacity;
}

void ls_batch_work_release(ls_batch_work_t *work) {
  ls_room_t *rooms[] = {&work->file, &work->pixels, &work->scratch, &work->scaled};
  for (int i = 0; i < LS_COUNT(rooms); i++)
    ls_free(rooms[i]->bytes);
  *work = (ls_batch_work_t){0};
}
