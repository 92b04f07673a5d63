/* The pictures of a dataset: settings, normalisation, opening, fingerprint. */
#include "data/picture/images.h"

#include "data/mapped.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { HASHED_FILES = 64, HASHED_SAMPLES = 4096, MEASURED_IMAGES = 2048, PART_OF_MEMORY = 8 };

/* Whether all samples are decoded at the beginning. */
static bool kept(const ls_data_config_t *config, const ls_dataset_t *d) {
  if (config->decode != LS_DECODE_AUTO || d->images->random) return config->decode == LS_DECODE_ONCE;
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  double bytes = (double)d->rows * (double)ls_shape_bytes(&d->sample.x);
  return pages > 0 && page_bytes > 0 && bytes <= (double)pages * (double)page_bytes / PART_OF_MEMORY;
}

static ls_status_t keep(ls_ctx_t *ctx, ls_dataset_t *d) {
  d->features = ls_alloc_array(ctx, (size_t)d->rows, ls_shape_bytes(&d->sample.x));
  ls_status_t status = d->features ? ls_images_decode(ctx, d, NULL, 0, d->rows, d->features) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_dataset_check(d);
  if (status != LS_OK) return status;
  ls_free(d->images->pixels);
  d->images->pixels = NULL;
  ls_mapped_close(d->mapped);
  d->mapped = NULL;
  return status;
}

/* ---- mean and scale ---- */

/* Each channel's, over training samples in equal distances, as they are evaluated. */
static ls_status_t measure(ls_ctx_t *ctx, ls_dataset_t *d) {
  int64_t count = d->train_count < MEASURED_IMAGES ? d->train_count : MEASURED_IMAGES, row[64];
  size_t bytes = ls_shape_bytes(&d->sample.x);
  int channels = d->images->channels;
  uint64_t sum[LS_STEP_CHANNELS] = {0}, square[LS_STEP_CHANNELS] = {0};
  uint8_t *block = ls_alloc_array(ctx, LS_COUNT(row), bytes);
  ls_status_t status = block ? LS_OK : LS_ERR_MEMORY;
  for (int64_t first = 0; first < count && status == LS_OK; first += LS_COUNT(row)) {
    int64_t some = count - first < LS_COUNT(row) ? count - first : LS_COUNT(row);
    for (int64_t i = 0; i < some; i++)
      row[i] = ls_dataset_row(d, LS_PART_TRAIN,
                              (int64_t)((double)(first + i) * (double)d->train_count / (double)count));
    if (!d->features) status = ls_images_decode(ctx, d, row, 0, some, block);
    for (int64_t i = 0; i < some && status == LS_OK; i++) {
      const uint8_t *x =
          d->features ? (const uint8_t *)d->features + (size_t)row[i] * bytes : block + (size_t)i * bytes;
      for (size_t k = 0; k < bytes; k++) {
        sum[k % (size_t)channels] += x[k];
        square[k % (size_t)channels] += (uint64_t)x[k] * x[k];
      }
    }
  }
  ls_free(block);
  double values = (double)count * (double)bytes / channels;
  for (int c = 0; c < channels; c++) {
    double mean = (double)sum[c] / values, variance = (double)square[c] / values - mean * mean;
    d->mean[c] = (float)mean;
    d->scale[c] = variance > 0 ? (float)(1.0 / sqrt(variance)) : 1.0f;
  }
  return status;
}

static double one_of(const ls_floats_t *list, int channel, double otherwise) {
  return list->count == 0 ? otherwise : list->v[list->count == 1 ? 0 : channel];
}

void ls_images_unit(const ls_data_config_t *config, int channel, float *mean, float *scale) {
  *mean = (float)(255.0 * one_of(&config->mean, channel, 0.0));
  *scale = (float)(1.0 / (255.0 * one_of(&config->std, channel, 1.0)));
}

ls_status_t ls_images_normalize(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_norm_t *given,
                                ls_dataset_t *d) {
  int channels = d->images->channels;
  const ls_norm_t *n = &d->norm;
  ls_status_t status = config->normalize && !given ? measure(ctx, d) : LS_OK;
  for (int c = 0; c < LS_STEP_CHANNELS; c++) {
    int from = c < channels ? c : 0;
    if (given) {
      d->mean[c] = (float)given->mean[from];
      d->scale[c] = given->scale[from];
    } else if (config->normalize) {
      d->mean[c] = d->mean[from];
      d->scale[c] = d->scale[from];
    } else {
      ls_images_unit(config, from, &d->mean[c], &d->scale[c]);
    }
  }
  for (int64_t i = 0; i < d->inputs; i++) {
    n->mean[i] = (double)d->mean[i % channels];
    n->scale[i] = d->scale[i % channels];
  }
  return status;
}

/* ---- opening ---- */

ls_status_t ls_images_settings(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_shape_t *x,
                               ls_images_t *im) {
  *im = (ls_images_t){.height = (int)x->dim[0],
                      .width = (int)x->dim[1],
                      .channels = x->rank == 3 ? (int)x->dim[2] : 1,
                      .resize = config->resize,
                      .scale = config->interpolation,
                      .random = config->crop == LS_CROP_RANDOM,
                      .area = config->crop_area > 0 ? config->crop_area : 0.08};
  if (x->rank < 2 || x->rank > 3 || (im->channels != 1 && im->channels != 3) || x->dim[0] > INT16_MAX ||
      x->dim[1] > INT16_MAX) {
    char text[LS_SHAPE_TEXT_BYTES], remedy[LS_CHANNELS_TEXT_BYTES];
    const bool turned = ls_channels_first(x, remedy);
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "pictures need model.input [height, width, 3], or [height, width] for grey ones, not %s%s%s",
        ls_shape_text(x, text), turned ? "; " : "", turned ? remedy : "");
  }
  if (im->resize > 0 && (im->resize < im->height || im->resize < im->width))
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.resize is %" PRId64
                   ", the images' shorter side, but the model takes %d x %d pixels of them",
                   im->resize, im->height, im->width);
  const ls_floats_t *lists[] = {&config->mean, &config->std};
  for (int i = 0; i < LS_COUNT(lists); i++)
    if (lists[i]->count > 1 && lists[i]->count != im->channels)
      return ls_fail(ctx, LS_ERR_CONFIG, "data.%s has %d numbers, but the model's images have %d channel%s",
                     i == 0 ? "mean" : "std", lists[i]->count, im->channels, LS_PLURAL(im->channels));
  return LS_OK;
}

/* Rows without dimensions are pictures of the model's size. */
ls_status_t ls_images_array(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                            const char *name, const ls_shape_t *row, ls_dataset_t *d) {
  ls_images_t *im = d->images = ls_arena_alloc(&d->arena, sizeof *im);
  char text[LS_SHAPE_TEXT_BYTES];
  if (!im) return LS_ERR_MEMORY;
  ls_status_t status = ls_images_settings(ctx, config, &want->x, im);
  if (status != LS_OK) return status;
  const ls_shape_t *x = row->rank == 1 && ls_shape_count(row) == want->inputs ? &want->x : row;
  const int64_t channels = x->rank == 3 ? x->dim[2] : 1;
  if (want->positions > 0)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.resize, crop, mean, std, interpolation and decode change pictures, but not the targets "
        "of their positions");
  if (row->dtype != LS_U8)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: samples are %s, but data.resize, crop, mean, std, interpolation and decode need "
                   "pictures, which are unsigned bytes",
                   name, ls_shape_text(row, text));
  if (x->rank < 2 || x->rank > 3 || (channels != 1 && channels != 3) ||
      x->dim[0] > LS_PICTURE_PIXELS_MAX / x->dim[1])
    return ls_fail(
        ctx, LS_ERR_DATA,
        "%s: samples are %s; pictures are [height, width], [height, width, 1] or [height, width, 3] "
        "(numpy.transpose)",
        name, ls_shape_text(row, text));
  im->each = (ls_picture_t){.height = (int)x->dim[0],
                            .width = (int)x->dim[1],
                            .channels = (int)channels,
                            .stride = (size_t)(x->dim[1] * channels)};
  d->sample.x = want->x;
  d->sample.x.dtype = LS_U8;
  return LS_OK;
}

ls_status_t ls_images_ready(ls_ctx_t *ctx, const ls_normalize_t *how, ls_matrix_t *targets, ls_dataset_t *d) {
  const ls_data_config_t *config = how->pictures;
  size_t pixels = ls_images_pixel_bytes(d);
  ls_status_t status = ls_augment_set(ctx, config, &d->sample.x, &d->augment);
  /* Decoding below gives samples as they are evaluated, which augment does not touch. */
  if (status == LS_OK && kept(config, d)) status = keep(ctx, d);
  if (status == LS_OK) status = ls_normalize(ctx, d, NULL, targets, how);
  int64_t threads = ls_cpu_count() < d->rows ? ls_cpu_count() : d->rows;
  int64_t samples = d->features ? d->rows * (int64_t)ls_shape_bytes(&d->sample.x) : 0;
  int64_t gone = d->features ? (int64_t)pixels : 0; /* first the file's rooms, then the samples' rooms */
  int64_t reading = d->reading_bytes + gone - (gone > 0 ? samples : 0),
          making = gone + threads * ls_dataset_work_bytes(d);
  d->reading_bytes = reading > making ? reading : making;
  return status;
}

ls_status_t ls_images_open(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                           const ls_norm_t *norm, ls_labels_t *labels, ls_dataset_t *d) {
  ls_images_t *im = ls_arena_alloc(&d->arena, sizeof *im);
  if (!im) return LS_ERR_MEMORY;
  ls_status_t status = ls_images_settings(ctx, config, &want->x, im);
  if (status != LS_OK) return status;
  if (!want->classes || want->positions > 0)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.kind: images has one class for each image: it needs loss: cross-entropy");
  d->images = im;
  snprintf(d->source, sizeof d->source, "%s", config->path);
  snprintf(d->validation_source, sizeof d->validation_source, "%s",
           config->validation_path ? config->validation_path : "");
  d->inputs = want->inputs;
  d->outputs = want->outputs;
  d->classes = true;
  d->sample.x = want->x;
  d->sample.x.dtype = LS_U8;
  d->sample.target = (ls_shape_t){.dtype = LS_I32};
  status = ls_images_list(ctx, config, want, labels, d);
  if (status == LS_OK && labels->text) status = ls_labels_list(labels, &d->labels);
  if (status == LS_OK) ls_labels_warn(ctx, d->source, labels);
  if (status == LS_OK) status = ls_dataset_split(ctx, config->validation, d);
  const ls_normalize_t how = {.given = norm, .pictures = config};
  return status == LS_OK ? ls_images_ready(ctx, &how, NULL, d) : status;
}

/* For an array: the settings that decide, whether it is mapped or in memory. */
static uint64_t hash_array(const ls_dataset_t *d, int64_t first, int64_t count, uint64_t hash) {
  size_t bytes = ls_shape_bytes(&d->sample.x), target = ls_shape_bytes(&d->sample.target);
  int64_t stride = 1 + count / HASHED_SAMPLES;
  ls_batch_work_t work = {0};
  uint8_t *made = ls_alloc(d->arena.ctx, bytes);
  for (int64_t row = first; row < first + count; row++) {
    hash = XXH3_64bits_withSeed((const char *)d->targets + (size_t)row * target, target, hash);
    if ((row - first) % stride != 0) continue;
    const uint8_t *x = d->features ? (const uint8_t *)d->features + (size_t)row * bytes : made;
    if (d->features || (made && ls_images_put(d, row, false, 0, 0, &work, made) == LS_OK))
      hash = XXH3_64bits_withSeed(x, bytes, hash);
  }
  ls_batch_work_release(&work);
  ls_free(made);
  return hash;
}

uint64_t ls_images_hash(const ls_dataset_t *d, int64_t first, int64_t count, uint64_t hash) {
  const ls_images_t *im = d->images;
  int64_t stride = 1 + count / HASHED_FILES;
  if (im->names_bytes == 0) return hash_array(d, first, count, hash);
  ls_room_t room = {0};
  for (int64_t row = first; row < first + count; row++) {
    const char *name = im->names + im->name_at[row];
    hash = XXH3_64bits_withSeed(name, strlen(name), hash);
    hash = XXH3_64bits_withSeed((const int32_t *)d->targets + row, sizeof(int32_t), hash);
    char *path;
    size_t size;
    if ((row - first) % stride != 0 || ls_images_path(d, row, &path) != LS_OK) continue;
    if (ls_images_read(NULL, path, &room, &size) == LS_OK)
      hash = XXH3_64bits_withSeed(room.bytes, size, hash);
    ls_free(path);
  }
  ls_free(room.bytes);
  return hash;
}

int64_t ls_images_bytes(const ls_dataset_t *d) {
  const ls_images_t *im = d->images;
  if (im->names_bytes == 0) return (int64_t)ls_images_pixel_bytes(d);
  return (int64_t)im->names_bytes + d->rows * (int64_t)sizeof *im->name_at;
}

size_t ls_images_pixel_bytes(const ls_dataset_t *d) {
  return d->images->pixels ? (size_t)d->rows * ls_images_each_bytes(d->images) : 0;
}

void ls_images_close(ls_images_t *im) {
  if (!im) return;
  ls_free(im->name_at);
  ls_free(im->names);
  ls_free(im->pixels);
}
