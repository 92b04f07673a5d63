/* Pillow's resize with a filter that grows with the reduction (Resample.c), bit for bit: weights of 22 bits, first along
 * rows into bytes, then along columns. */
#include "data/picture/picture.h"

#include <math.h>
#include <string.h>

enum { BITS = 22 };

static double bilinear(double x) {
  x = fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

static double bicubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static const struct {
  double (*weight)(double x);
  double support;
} filters[] = {[LS_SCALE_BILINEAR] = {bilinear, 1.0}, [LS_SCALE_BICUBIC] = {bicubic, 2.0}};

/* Which places of one dimension each new place is made of, for some of the new places. */
typedef struct {
  int taps;        /* room for so many per place */
  int32_t *weight; /* (out, taps) */
  int *first, *count;
} axis_t;

static int taps_of(ls_scale_t scale, int in, int64_t out) {
  double factor = in > out ? (double)in / (double)out : 1.0;
  return (int)ceil(filters[scale].support * factor) * 2 + 1;
}

static size_t axis_bytes(int taps, int out) {
  return (size_t)out * ((size_t)taps * sizeof(int32_t) + 2 * sizeof(int));
}

/* Fills `axis` in `memory` for places [begin, begin + count) of `out`; `exact` holds the weights of one place before they
 * are rounded. */
static void axis_make(ls_scale_t scale, int in, int64_t out, int64_t begin, int count, void *memory,
                      double *exact, axis_t *axis) {
  double step = (double)in / (double)out, factor = step < 1.0 ? 1.0 : step,
         support = filters[scale].support * factor;
  axis->taps = taps_of(scale, in, out);
  axis->weight = memory;
  axis->first = (int *)(axis->weight + (size_t)count * (size_t)axis->taps);
  axis->count = axis->first + count;
  for (int o = 0; o < count; o++) {
    double center = ((double)(begin + o) + 0.5) * step, sum = 0.0, inverse = 1.0 / factor;
    int from = (int)(center - support + 0.5), until = (int)(center + support + 0.5);
    if (from < 0) from = 0;
    if (until > in) until = in;
    int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
    for (int i = 0; i < until - from; i++)
      sum += exact[i] = filters[scale].weight((i + from - center + 0.5) * inverse);
    for (int i = 0; i < until - from; i++) {
      double w = (sum != 0.0 ? exact[i] / sum : exact[i]) * (1 << BITS);
      weight[i] = (int32_t)(w < 0 ? w - 0.5 : w + 0.5);
    }
    axis->first[o] = from;
    axis->count[o] = until - from;
  }
}

static uint8_t byte_of(int32_t sum) {
  sum >>= BITS;
  return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* One row. */
static void scale_row(const axis_t *axis, int out, int channels, const uint8_t *from, uint8_t *to) {
  for (int o = 0; o < out; o++, to += channels) {
    const int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
    const uint8_t *p = from + (size_t)axis->first[o] * (size_t)channels;
    int count = axis->count[o];
    if (channels == 3) {
      int32_t a = 1 << (BITS - 1), b = a, c = a;
      for (int i = 0; i < count; i++, p += 3) {
        a += weight[i] * p[0];
        b += weight[i] * p[1];
        c += weight[i] * p[2];
      }
      to[0] = byte_of(a);
      to[1] = byte_of(b);
      to[2] = byte_of(c);
      continue;
    }
    int32_t sum = 1 << (BITS - 1);
    for (int i = 0; i < count; i++)
      sum += weight[i] * p[i];
    to[0] = byte_of(sum);
  }
}

/* Row `o` of the new part from rows of the old picture, of which row r is row r % ring of `from`. */
static void scale_column(const axis_t *axis, int o, const uint8_t *from, size_t stride, int ring,
                         size_t values, int32_t *sum, uint8_t *to) {
  const int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
  for (size_t x = 0; x < values; x++)
    sum[x] = 1 << (BITS - 1);
  for (int i = 0; i < axis->count[o]; i++) {
    const uint8_t *row = from + (size_t)((axis->first[o] + i) % ring) * stride;
    int32_t w = weight[i];
    for (size_t x = 0; x < values; x++)
      sum[x] += w * row[x];
  }
  for (size_t x = 0; x < values; x++)
    to[x] = byte_of(sum[x]);
}

static size_t aligned(size_t bytes) {
  return (bytes + 15) & ~(size_t)15;
}

ls_status_t ls_picture_scale_part(ls_ctx_t *ctx, ls_picture_t *p, ls_scale_t scale,
                                  const ls_scaled_part_t *part, ls_room_t *work, ls_room_t *room) {
  const int height = part->height, width = part->width;
  const bool same_x = p->width == part->whole_width, same_y = p->height == part->whole_height;
  if (same_x && same_y) {
    *p = ls_picture_part(p, (int)part->top, (int)part->left, height, width);
    return LS_OK;
  }
  int taps_x = taps_of(scale, p->width, part->whole_width),
      taps_y = taps_of(scale, p->height, part->whole_height);
  const int ring = same_x ? p->height : taps_y < p->height ? taps_y : p->height;
  size_t row = (size_t)width * (size_t)p->channels;
  size_t exact = aligned((size_t)(taps_x > taps_y ? taps_x : taps_y) * sizeof(double)),
         x_bytes = aligned(axis_bytes(taps_x, width)), y_bytes = aligned(axis_bytes(taps_y, height)),
         sums = aligned(row * sizeof(int32_t)), between = same_x ? 0 : row * (size_t)ring;
  ls_status_t status = ls_room_need(ctx, work, exact + x_bytes + y_bytes + sums + between);
  if (status == LS_OK) status = ls_room_need(ctx, room, row * (size_t)height);
  if (status != LS_OK) return status;
  axis_t x, y;
  uint8_t *at = work->bytes + exact;
  axis_make(scale, p->width, part->whole_width, part->left, width, at, (double *)work->bytes, &x);
  axis_make(scale, p->height, part->whole_height, part->top, height, at + x_bytes, (double *)work->bytes, &y);
  int32_t *sum = (int32_t *)(at + x_bytes + y_bytes);
  uint8_t *rows = at + x_bytes + y_bytes + sums;
  const uint8_t *from = same_x ? p->pixel + (size_t)part->left * (size_t)p->channels : rows;
  const size_t stride = same_x ? p->stride : row;
  int made = y.first[0]; /* rows of the old picture before this one are scaled along their places */
  for (int o = 0; o < height; o++) {
    uint8_t *to = room->bytes + (size_t)o * row;
    for (const int end = y.first[o] + y.count[o]; !same_x && made < end; made++)
      scale_row(&x, width, p->channels, p->pixel + (size_t)made * p->stride,
                rows + (size_t)(made % ring) * row);
    if (same_y)
      memcpy(to, from + (size_t)((part->top + o) % ring) * stride, row);
    else
      scale_column(&y, o, from, stride, ring, row, sum, to);
  }
  *p = (ls_picture_t){height, width, p->channels, row, room->bytes};
  return LS_OK;
}

ls_status_t ls_picture_scale(ls_ctx_t *ctx, ls_picture_t *p, ls_scale_t scale, int height, int width,
                             ls_room_t *work, ls_room_t *room) {
  const ls_scaled_part_t whole = {height, width, 0, 0, height, width};
  return ls_picture_scale_part(ctx, p, scale, &whole, work, room);
}
