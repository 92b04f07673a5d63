/* Pillow's resize with a filter that grows with the reduction (Resample.c), bit for bit: weights of 22 bits, first along
 * rows into bytes, then along columns. */
#include "data/picture.h"

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

/* Which places of one dimension each new place is made of. */
typedef struct {
  int taps;        /* room for so many per place */
  int32_t *weight; /* (out, taps) */
  int *first, *count;
} axis_t;

static int taps_of(ls_scale_t scale, int in, int out) {
  double factor = in > out ? (double)in / out : 1.0;
  return (int)ceil(filters[scale].support * factor) * 2 + 1;
}

static size_t axis_bytes(int taps, int out) {
  return (size_t)out * ((size_t)taps * sizeof(int32_t) + 2 * sizeof(int));
}

/* Fills `axis` in `memory`; `exact` holds the weights of one place before they are rounded. */
static void axis_make(ls_scale_t scale, int in, int out, void *memory, double *exact, axis_t *axis) {
  double step = (double)in / out, factor = step < 1.0 ? 1.0 : step, support = filters[scale].support * factor;
  axis->taps = taps_of(scale, in, out);
  axis->weight = memory;
  axis->first = (int *)(axis->weight + (size_t)out * (size_t)axis->taps);
  axis->count = axis->first + out;
  for (int o = 0; o < out; o++) {
    double center = (o + 0.5) * step, sum = 0.0, inverse = 1.0 / factor;
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

/* Row `o` of the new picture from rows of `from`, whose first is row `begin` of the old one. */
static void scale_column(const axis_t *axis, int o, const uint8_t *from, size_t stride, int begin,
                         size_t values, int32_t *sum, uint8_t *to) {
  const int32_t *weight = axis->weight + (size_t)o * (size_t)axis->taps;
  for (size_t x = 0; x < values; x++)
    sum[x] = 1 << (BITS - 1);
  for (int i = 0; i < axis->count[o]; i++) {
    const uint8_t *row = from + (size_t)(axis->first[o] - begin + i) * stride;
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

ls_status_t ls_picture_scale(ls_ctx_t *ctx, ls_picture_t *p, ls_scale_t scale, int height, int width,
                             ls_room_t *work, ls_room_t *room) {
  if (p->height == height && p->width == width) return LS_OK;
  int taps_x = taps_of(scale, p->width, width), taps_y = taps_of(scale, p->height, height);
  size_t row = (size_t)width * (size_t)p->channels;
  size_t exact = aligned((size_t)(taps_x > taps_y ? taps_x : taps_y) * sizeof(double)),
         x_bytes = aligned(axis_bytes(taps_x, width)), y_bytes = aligned(axis_bytes(taps_y, height)),
         sums = aligned(row * sizeof(int32_t)), between = row * (size_t)p->height;
  ls_status_t status = ls_room_need(ctx, work, exact + x_bytes + y_bytes + sums + between);
  if (status == LS_OK) status = ls_room_need(ctx, room, row * (size_t)height);
  if (status != LS_OK) return status;
  axis_t x, y;
  uint8_t *at = work->bytes + exact;
  axis_make(scale, p->width, width, at, (double *)work->bytes, &x);
  axis_make(scale, p->height, height, at + x_bytes, (double *)work->bytes, &y);
  int32_t *sum = (int32_t *)(at + x_bytes + y_bytes);
  uint8_t *rows = at + x_bytes + y_bytes + sums;
  int begin = y.first[0], end = y.first[height - 1] + y.count[height - 1];
  const uint8_t *from = p->pixel + (size_t)begin * p->stride;
  size_t stride = p->stride;
  if (p->width != width) {
    for (int r = begin; r < end; r++)
      scale_row(&x, width, p->channels, p->pixel + (size_t)r * p->stride, rows + (size_t)(r - begin) * row);
    from = rows;
    stride = row;
  }
  for (int o = 0; o < height; o++) {
    uint8_t *to = room->bytes + (size_t)o * row;
    if (p->height == height)
      memcpy(to, from + (size_t)o * stride, row);
    else
      scale_column(&y, o, from, stride, begin, row, sum, to);
  }
  *p = (ls_picture_t){height, width, p->channels, row, room->bytes};
  return LS_OK;
}
