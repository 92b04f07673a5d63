/* Pictures as blocks of samples, decoded as for evaluation. */
#include "data/blocks.h"
#include "data/picture/images.h"

#include <string.h>

enum { IMAGES_BATCH = 64 };

/* The samples of `count` pictures from `first` on become the batch. */
static ls_status_t give_images(ls_stream_rows_t *s, int64_t first, int64_t count, ls_matrix_t *rows) {
  const ls_dataset_t *d = s->images;
  s->rows =
      (ls_matrix_t){.rows = count, .cols = ls_shape_count(&d->sample.x), .row = d->sample.x, .bytes = true};
  s->rows.values = ls_alloc_array(s->ctx, (size_t)count, ls_shape_bytes(&d->sample.x));
  if (!s->rows.values) return LS_ERR_MEMORY;
  *rows = s->rows;
  return ls_images_decode(s->ctx, d, NULL, first, count, s->rows.values);
}

static ls_status_t next_images(ls_stream_rows_t *s, ls_matrix_t *rows) {
  int64_t left = s->images->rows - s->row, count = left < IMAGES_BATCH ? left : IMAGES_BATCH;
  if (count == 0) return LS_OK;
  s->row += count;
  return give_images(s, s->row - count, count, rows);
}

/* An array's rows, which are pictures, as the samples that evaluation makes of them. */
static ls_status_t next_pictures(ls_stream_rows_t *s, ls_matrix_t *rows) {
  ls_status_t status = ls_blocks_next_array(s, rows);
  if (status != LS_OK || rows->rows == 0) return status;
  s->images->images->pixels = s->rows.values; /* which the close of the images frees if this fails */
  s->rows.values = NULL;
  status = give_images(s, 0, rows->rows, rows);
  ls_free(s->images->images->pixels);
  s->images->images->pixels = NULL;
  return status;
}

/* Dataset of pictures without any so far. */
static ls_status_t make_images(ls_stream_rows_t *s, ls_shape_t x) {
  ls_dataset_t *d = s->images = ls_arena_alloc(&s->arena, sizeof *d);
  if (!d) return LS_ERR_MEMORY;
  ls_arena_init(&d->arena, s->ctx);
  d->sample.x = x;
  d->sample.x.dtype = LS_U8;
  return LS_OK;
}

ls_status_t ls_blocks_pictures(ls_stream_rows_t *s) {
  ls_shape_t row = ls_array_row_shape(&s->array);
  ls_status_t status = make_images(s, s->want->x);
  if (status == LS_OK) status = ls_images_array(s->ctx, s->config, s->want, s->name, &row, s->images);
  if (status == LS_OK) status = ls_augment_set(s->ctx, s->config, &s->images->sample.x, &s->images->augment);
  s->next = next_pictures;
  return status;
}

ls_status_t ls_blocks_images(ls_stream_rows_t *s, const char *path, bool listed) {
  const ls_data_config_t *config = s->config;
  const ls_shape_t *x = &s->want->x;
  if (!listed && !strcmp(path, "-"))
    return ls_fail(s->ctx, LS_ERR_DATA,
                   "an image cannot come from stdin: name the file, or a folder of images");
  if (make_images(s, *x) != LS_OK) return LS_ERR_MEMORY;
  ls_dataset_t *d = s->images;
  d->images = ls_arena_alloc(&s->arena, sizeof *d->images);
  if (!d->images) return LS_ERR_MEMORY;
  ls_status_t status = ls_images_settings(s->ctx, config, x, d->images);
  if (status == LS_OK) status = ls_augment_set(s->ctx, config, &d->sample.x, &d->augment);
  for (size_t want = LS_BYTES_BLOCK; listed && status == LS_OK && !s->bytes.ended; want *= 2)
    status = want < ls_read_limit() ? ls_bytes_fill(&s->bytes, want)
                                    : ls_fail(s->ctx, LS_ERR_DATA, "%s: more than %zu bytes", s->name, want);
  if (status == LS_OK)
    status = listed ? ls_images_read_list(s->ctx, config, path, s->name, s->bytes.at, s->bytes.used,
                                          d->images, &d->rows)
                    : ls_images_find(s->ctx, path, d->images, &d->rows);
  d->split_rows = d->rows;
  s->total = d->rows;
  s->next = next_images;
  return status;
}

void ls_blocks_images_close(ls_stream_rows_t *s) {
  if (!s->images) return;
  ls_images_close(s->images->images);
  ls_arena_release(&s->images->arena);
}

const char *ls_blocks_images_file(const ls_stream_rows_t *s, int64_t row) {
  const ls_images_t *im = s->next == next_images ? s->images->images : NULL;
  return im ? im->names + im->name_at[row] : NULL;
}
