/* Random parts, shifts and flips of images. */
#include "data/picture/augment.h"
#include "data/parts.h"

#include <math.h>
#include <string.h>

enum { TRIES = 10, STREAM_COPY = TRIES /* a stream after those of the tries */ };
static const double ratio_least = 3.0 / 4.0, ratio_most = 4.0 / 3.0;

static int below(uint32_t word, int count) {
  return (int)((uint64_t)word * (uint64_t)count >> 32);
}

ls_picture_t ls_augment_part(const ls_picture_t *p, double least, uint64_t seed, uint64_t position) {
  double area = (double)p->height * p->width, low = log(ratio_least), high = log(ratio_most);
  for (int i = 0; i < TRIES; i++) {
    ls_rng4_t word = ls_rng(seed, LS_RNG_AUGMENT + (uint32_t)i, position);
    double part = area * (least + (1.0 - least) * (double)ls_rng_unit(word.v[0]));
    double ratio = exp(low + (high - low) * (double)ls_rng_unit(word.v[1]));
    int width = (int)rint(sqrt(part * ratio)), height = (int)rint(sqrt(part / ratio));
    if (width < 1 || height < 1 || width > p->width || height > p->height) continue;
    return ls_picture_part(p, below(word.v[2], p->height - height + 1),
                           below(word.v[3], p->width - width + 1), height, width);
  }
  double ratio = (double)p->width / p->height;
  int width = ratio > ratio_most ? (int)rint(p->height * ratio_most) : p->width,
      height = ratio < ratio_least ? (int)rint(p->width / ratio_least) : p->height;
  return ls_picture_part(p, (p->height - height) / 2, (p->width - width) / 2, height, width);
}

/* One row, in which place x takes place x + shift, or, flipped, place width - 1 - x + shift, if there is one. */
#define MOVE(bytes)                                                                                          \
  for (int64_t x = begin; x < end; x++)                                                                      \
    memcpy(to + x * (bytes), from + (flip ? last - x : x + shift) * (bytes), (bytes));                       \
  break;

static void move_row(const ls_augment_t *a, int64_t shift, bool flip, const uint8_t *from, uint8_t *to) {
  int64_t width = a->width, last = width - 1 + shift, bytes = (int64_t)a->pixel_bytes;
  int64_t begin = flip ? shift : -shift, end = width + begin;
  begin = begin < 0 ? 0 : begin > width ? width : begin; /* a shift may be wider than the image */
  end = end > width ? width : end < begin ? begin : end;
  memset(to, 0, (size_t)(begin * bytes));
  memset(to + end * bytes, 0, (size_t)((width - end) * bytes));
  switch (flip ? bytes : 0) {
  case 0:
    memcpy(to + begin * bytes, from + (begin + shift) * bytes, (size_t)((end - begin) * bytes));
    break;
  case 1:
    MOVE(1)
  case 3:
    MOVE(3)
  case 4:
    MOVE(4)
  default:
    MOVE(a->pixel_bytes)
  }
}

ls_status_t ls_augment_set(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_shape_t *x,
                           ls_augment_t *a) {
  bool random = config->flip || config->padding > 0;
  const char *key = config->flip ? "flip" : "padding";
  if (x->rank < 2 || x->rank > 3) {
    char text[LS_SHAPE_TEXT_BYTES];
    if (!random) return LS_OK;
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.%s needs images: model.input is %s, not [height, width, channels]", key,
                   ls_shape_text(x, text));
  }
  if (random && x->dtype != LS_U8 && config->normalize)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.%s does not go with data.normalize where samples are no bytes: every value has its own mean",
        key);
  *a = (ls_augment_t){.height = x->dim[0],
                      .width = x->dim[1],
                      .pixel_bytes = ls_dtype_bytes(x->dtype) * (size_t)(x->rank == 3 ? x->dim[2] : 1),
                      .padding = (int)config->padding,
                      .flip = config->flip};
  return LS_OK;
}

void ls_augment_copy(const ls_augment_t *a, bool drawn, uint64_t seed, uint64_t position, const void *from,
                     size_t stride, void *to) {
  size_t row = (size_t)a->width * a->pixel_bytes;
  ls_rng4_t word = {{0}};
  if (drawn && (a->flip || a->padding > 0)) word = ls_rng(seed, LS_RNG_AUGMENT + STREAM_COPY, position);
  bool flip = drawn && a->flip && word.v[0] >> 31;
  int down = drawn ? below(word.v[1], 2 * a->padding + 1) - a->padding : 0;
  int right = drawn ? below(word.v[2], 2 * a->padding + 1) - a->padding : 0;
  for (int64_t y = 0; y < a->height; y++) {
    uint8_t *at = (uint8_t *)to + (size_t)y * row;
    int64_t source = y + down;
    if (source < 0 || source >= a->height)
      memset(at, 0, row);
    else
      move_row(a, right, flip, (const uint8_t *)from + (size_t)source * stride, at);
  }
}
