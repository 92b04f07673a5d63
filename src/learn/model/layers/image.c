/* Layers of images [H, W, C]: convolution and pooling. [H, W] counts as one channel. */
#include "device/window.h"
#include "graph/ops/ops.h"
#include "model/layers/kind.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_MAX = 1024, PLACES_MAX = 256 };

static ls_shape_t image_of(const ls_shape_t *sample) {
  ls_shape_t image = *sample;
  if (image.rank == 2) image.dim[image.rank++] = 1;
  return image;
}

/* ---- windows ---- */

/* Padding at the begin and at the end of one dimension. */
typedef struct {
  int64_t before, behind;
} padding_t;

#define PADDING_HELP                                                                                         \
  "same: as much as gives ceil(size / stride) positions. valid: none. A number: so much on every side."

/* False: not a padding. same: the smaller half lies before. */
static bool read_padding(const char *text, int64_t size, int64_t window, int64_t stride, padding_t *padding) {
  int64_t all = ((size + stride - 1) / stride - 1) * stride + window - size;
  char *end;
  *padding = (padding_t){0, 0};
  if (strcmp(text, "valid") == 0 || (strcmp(text, "same") == 0 && all <= 0)) return true;
  *padding = (padding_t){all / 2, all - all / 2};
  if (strcmp(text, "same") == 0) return true;
  int64_t number = strtoll(text, &end, 10);
  *padding = (padding_t){number, number};
  return *text >= '0' && *text <= '9' && *end == '\0' && number <= KERNEL_MAX;
}

/* Whether windows fit; also writes the padding. */
static bool windows_fit(const ls_shape_t *sample, const char *text, int64_t size, int64_t stride,
                        int64_t dilation, padding_t padding[2], char *why) {
  const ls_shape_t image = image_of(sample);
  if (image.rank != 3) {
    snprintf(why, LS_LAYER_WHY_BYTES, "reads images, [height, width, channels] or [height, width]");
    return false;
  }
  for (int k = 0; k < 2; k++) {
    int64_t window = dilation * (size - 1) + 1;
    if (!read_padding(text, image.dim[k], window, stride, &padding[k])) {
      snprintf(why, LS_LAYER_WHY_BYTES, "padding: `%.40s` must be same, valid or a number up to %d", text,
               KERNEL_MAX);
      return false;
    }
    if (ls_window_count(image.dim[k], window, stride, padding[k].before + padding[k].behind, 1) > 0) continue;
    snprintf(why, LS_LAYER_WHY_BYTES, "a window of %lld with padding %s is larger than the image",
             (long long)window, text);
    return false;
  }
  return true;
}

/* ---- conv2d ---- */

typedef struct {
  ls_layer_common_t common;
  int64_t filters, kernel, stride, dilation, groups;
  const char *padding;
  double init_std;
  int activation, init;
  bool bias;
} conv2d_t;
LS_LAYER_FITS(conv2d_t);

/* The usual one, and that of residual networks. */
static const char *const conv2d_init_names[] = {"auto",  "kaiming",     "xavier", "normal",
                                                "zeros", "kaiming_out", NULL};
enum { INIT_NORMAL = 3, INIT_KAIMING_OUT = 5 };

static const ls_option_t conv2d_rows[] = {
    LS_OPTION(conv2d_t, filters, .change = LS_CHANGE_MODEL, .min = 1, .max = LS_LAYER_UNITS_MAX,
              .help = "Channels of the output."),
    LS_OPTION(conv2d_t, kernel, .change = LS_CHANGE_MODEL, .min = 1, .max = KERNEL_MAX, .initial = "3",
              .help = "Height and width of the window."),
    LS_OPTION(conv2d_t, stride, .change = LS_CHANGE_MODEL, .min = 1, .max = KERNEL_MAX, .initial = "1",
              .help = "Distance of neighbouring windows."),
    LS_OPTION(conv2d_t, padding, .change = LS_CHANGE_MODEL, .initial = "same",
              .help = "Zeros around the image. " PADDING_HELP),
    LS_OPTION(conv2d_t, dilation, .change = LS_CHANGE_MODEL, .min = 1, .max = KERNEL_MAX, .initial = "1",
              .help = "Distance of neighbouring elements within a window."),
    LS_OPTION(
        conv2d_t, groups, .change = LS_CHANGE_MODEL, .min = 1, .max = LS_LAYER_UNITS_MAX, .initial = "1",
        .help = "Parts into which channels and filters are cut; a filter reads the channels of its part. As "
                "many as channels: depthwise."),
    LS_OPTION(conv2d_t, bias, .change = LS_CHANGE_MODEL, .initial = "true",
              .help = "Whether the layer adds a learned bias."),
    LS_OPTION(conv2d_t, activation, .change = LS_CHANGE_MODEL, .initial = "none",
              .choices = ls_activation_names, .help = "Applied to the layer's outputs."),
    LS_OPTION(conv2d_t, init, .change = LS_CHANGE_IGNORED, .initial = "auto", .choices = conv2d_init_names,
              .help = LS_LAYER_INIT_HELP " Inputs of an output: all of a window's. kaiming_out: normal, "
                                         "sqrt(2 / (kernel x kernel x filters))."),
    LS_OPTION(conv2d_t, init_std, .change = LS_CHANGE_IGNORED, .max = 100, .initial = "0.02",
              .help = "Standard deviation of the weights with init: normal."),
};
static const ls_section_t conv2d_section =
    LS_LAYER_SECTION("conv2d", conv2d_rows, "A convolution of images, with activation.");

static bool conv2d_takes(const void *options, const ls_shape_t *sample, int count,
                         char why[LS_LAYER_WHY_BYTES]) {
  (void)count;
  const conv2d_t *o = options;
  const ls_shape_t image = image_of(sample);
  padding_t padding[2];
  if (!windows_fit(sample, o->padding, o->kernel, o->stride, o->dilation, padding, why)) return false;
  if (image.dim[2] % o->groups == 0 && o->filters % o->groups == 0) return true;
  snprintf(why, LS_LAYER_WHY_BYTES, "groups: %lld channels and %lld filters cannot be cut into %lld parts",
           (long long)image.dim[2], (long long)o->filters, (long long)o->groups);
  return false;
}

static ls_attrs_t conv2d_attrs(const conv2d_t *o, const ls_shape_t *sample) {
  padding_t p[2];
  char why[LS_LAYER_WHY_BYTES];
  windows_fit(sample, o->padding, o->kernel, o->stride, o->dilation, p, why);
  return (ls_attrs_t){.i = {o->stride, o->stride, p[0].before, p[1].before, p[0].behind, p[1].behind,
                            o->dilation, o->dilation, o->groups}};
}

static ls_shape_t conv2d_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)count;
  const conv2d_t *o = options;
  const ls_attrs_t a = conv2d_attrs(o, sample);
  ls_shape_t image = image_of(sample);
  for (int k = 0; k < 2; k++)
    image.dim[k] = ls_window_count(image.dim[k], o->kernel, o->stride, a.i[2 + k] + a.i[4 + k], o->dilation);
  image.dim[2] = o->filters;
  return image;
}

static int conv2d_params(const void *options, const ls_shape_t *sample, ls_layer_param_t *param) {
  const conv2d_t *o = options;
  const ls_shape_t image = image_of(sample);
  bool out = o->init == INIT_KAIMING_OUT;
  double std = out ? sqrt(2 / (double)(o->kernel * o->kernel * o->filters)) : o->init_std;
  param[0] = (ls_layer_param_t){"weight",
                                LS_SHAPE(LS_F32, o->filters, o->kernel, o->kernel, image.dim[2] / o->groups),
                                ls_layer_init(out ? INIT_NORMAL : o->init, std, o->activation)};
  param[1] = (ls_layer_param_t){"bias", LS_SHAPE(LS_F32, o->filters), {.kind = LS_INIT_ZEROS}};
  return o->bias ? 2 : 1;
}

static ls_tensor_id_t conv2d_build(ls_layer_builder_t *b, const void *options) {
  const conv2d_t *o = options;
  const ls_shape_t image = image_of(b->sample);
  ls_attrs_t attrs = conv2d_attrs(o, b->sample);
  const ls_attrs_t zeros = {.i = {o->filters}};
  ls_tensor_id_t in[] = {ls_layer_as(b, b->in[0], &image), b->param[0], o->bias ? b->param[1] : -1}, y;
  if (o->groups == 1 && ls_layer_int8(b, in[0], o->kernel * o->kernel * image.dim[2], &attrs)) {
    if (!o->bias) in[2] = ls_graph_op(b->graph, &ls_op_fill, &zeros, 0, NULL, NULL);
    y = ls_graph_op(b->graph, &ls_op_conv2d_int8, &attrs, 3, in, NULL);
    return ls_layer_activation(b, y, o->activation);
  }
  y = ls_graph_op(b->graph, &ls_op_conv2d, &attrs, 2, in, NULL);
  if (o->bias) y = ls_graph_op(b->graph, &ls_op_bias, NULL, 2, (ls_tensor_id_t[]){y, b->param[1]}, NULL);
  return ls_layer_activation(b, y, o->activation);
}

const ls_layer_kind_t ls_kind_conv2d = {.section = &conv2d_section,
                                        .name = "conv2d",
                                        .takes = conv2d_takes,
                                        .params = conv2d_params,
                                        .shape = conv2d_shape,
                                        .build = conv2d_build};

/* ---- pool ---- */

typedef struct {
  ls_layer_common_t common;
  int64_t size, stride;
  const char *padding;
  int kind;
} pool_t;
LS_LAYER_FITS(pool_t);

static const char *const pool_names[] = {"max", "average", NULL};
enum { POOL_MAX };

static const ls_option_t pool_rows[] = {
    LS_OPTION(pool_t, kind, .change = LS_CHANGE_MODEL, .initial = "max", .choices = pool_names,
              .help = "The largest element of a window, or the mean of those that lie in the image."),
    LS_OPTION(pool_t, size, .change = LS_CHANGE_MODEL, .min = 1, .max = KERNEL_MAX, .initial = "2",
              .help = "Height and width of the window; of max: at most 16."),
    LS_OPTION(pool_t, stride, .change = LS_CHANGE_MODEL, .max = KERNEL_MAX, .initial = "0",
              .help = "Distance of neighbouring windows. 0: the window's size."),
    LS_OPTION(pool_t, padding, .change = LS_CHANGE_MODEL, .initial = "valid",
              .help = "Around the image; no element of a window. " PADDING_HELP),
};
static const ls_section_t pool_section =
    LS_LAYER_SECTION("pool", pool_rows, "Pooling of each channel of images.");

static int64_t pool_stride(const pool_t *o) {
  return o->stride ? o->stride : o->size;
}

static bool pool_takes(const void *options, const ls_shape_t *sample, int count,
                       char why[LS_LAYER_WHY_BYTES]) {
  (void)count;
  const pool_t *o = options;
  padding_t p[2];
  if (!windows_fit(sample, o->padding, o->size, pool_stride(o), 1, p, why)) return false;
  bool inside =
      p[0].before < o->size && p[0].behind < o->size && p[1].before < o->size && p[1].behind < o->size;
  if (inside && (o->kind != POOL_MAX || o->size * o->size <= PLACES_MAX)) return true;
  snprintf(why, LS_LAYER_WHY_BYTES,
           inside ? "size: %lld, at most 16 for max" : "padding must be less than the window's size, %lld",
           (long long)o->size);
  return false;
}

static ls_attrs_t pool_attrs(const pool_t *o, const ls_shape_t *sample) {
  padding_t p[2];
  char why[LS_LAYER_WHY_BYTES];
  windows_fit(sample, o->padding, o->size, pool_stride(o), 1, p, why);
  return (ls_attrs_t){.i = {o->size, o->size, pool_stride(o), pool_stride(o), p[0].before, p[1].before,
                            p[0].behind, p[1].behind}};
}

static ls_shape_t pool_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)count;
  const pool_t *o = options;
  const ls_attrs_t a = pool_attrs(o, sample);
  ls_shape_t image = image_of(sample);
  for (int k = 0; k < 2; k++)
    image.dim[k] = ls_window_count(image.dim[k], o->size, pool_stride(o), a.i[4 + k] + a.i[6 + k], 1);
  return image;
}

static ls_tensor_id_t pool_build(ls_layer_builder_t *b, const void *options) {
  const pool_t *o = options;
  const ls_shape_t image = image_of(b->sample);
  const ls_attrs_t attrs = pool_attrs(o, b->sample);
  ls_tensor_id_t x = ls_layer_as(b, b->in[0], &image);
  return ls_graph_op(b->graph, o->kind == POOL_MAX ? &ls_op_max_pool : &ls_op_avg_pool, &attrs, 1, &x, NULL);
}

const ls_layer_kind_t ls_kind_pool = {
    .section = &pool_section, .name = "pool", .takes = pool_takes, .shape = pool_shape, .build = pool_build};

/* ---- global_pool ---- */

typedef struct {
  ls_layer_common_t common;
  int kind;
} global_pool_t;
LS_LAYER_FITS(global_pool_t);

static const char *const global_names[] = {"mean", "max", "first", "last", NULL};
enum { GLOBAL_MEAN, GLOBAL_MAX, GLOBAL_FIRST, GLOBAL_LAST };

static const ls_option_t global_pool_rows[] = {
    LS_OPTION(global_pool_t, kind, .change = LS_CHANGE_MODEL, .initial = "mean", .choices = global_names,
              .help = "What stands for all positions: their mean, the largest, the first or the last."),
};
static const ls_section_t global_pool_section =
    LS_LAYER_SECTION("global_pool", global_pool_rows,
                     "One value for each channel of images [H, W, C], or each feature of sequences [T, F].");

static bool global_pool_takes(const void *options, const ls_shape_t *sample, int count,
                              char why[LS_LAYER_WHY_BYTES]) {
  (void)options, (void)count;
  if (sample->rank == 2 || sample->rank == 3) return true;
  snprintf(why, LS_LAYER_WHY_BYTES, "reads images [height, width, channels] or sequences [time, features]");
  return false;
}

static ls_shape_t global_pool_shape(const void *options, const ls_shape_t *sample, int count) {
  (void)options, (void)count;
  return LS_SHAPE(LS_F32, sample->dim[sample->rank - 1]);
}

/* The largest of all places, in rounds of windows, since max_pool knows an element's place as a byte. The first of equals wins
 * each round, so the first of all gets the gradient. */
static ls_tensor_id_t largest(ls_layer_builder_t *b, ls_tensor_id_t x, const ls_shape_t *line) {
  const ls_shape_t column = LS_SHAPE(LS_F32, line->dim[0], 1, line->dim[1]);
  x = ls_layer_as(b, x, &column);
  for (int64_t places = line->dim[0], windows; places > 1; places = windows) {
    const int64_t size = places < PLACES_MAX ? places : PLACES_MAX;
    windows = (places + size - 1) / size;
    const ls_attrs_t attrs = {.i = {size, 1, size, 1, 0, 0, windows * size - places, 0}};
    x = ls_graph_op(b->graph, &ls_op_max_pool, &attrs, 1, &x, NULL);
  }
  return x;
}

static ls_tensor_id_t global_pool_build(ls_layer_builder_t *b, const void *options) {
  const global_pool_t *o = options;
  const ls_shape_t *s = b->sample;
  const ls_shape_t line = LS_SHAPE(LS_F32, ls_shape_count(s) / s->dim[s->rank - 1], s->dim[s->rank - 1]),
                   one = LS_SHAPE(LS_F32, line.dim[1]);
  const ls_tensor_id_t lengths = ls_layer_lengths(b), padded[] = {b->in[0], lengths};
  if (lengths >= 0 && (o->kind == GLOBAL_MEAN || o->kind == GLOBAL_LAST)) {
    const ls_attrs_t last = {.i = {o->kind == GLOBAL_LAST}};
    return ls_graph_op(b->graph, &ls_op_pool_valid, &last, 2, padded, NULL);
  }
  if (o->kind == GLOBAL_MAX) {
    const ls_shape_t row = LS_SHAPE(LS_F32, 1, line.dim[1]);
    const ls_attrs_t least = {.f = {-INFINITY}};
    ls_tensor_id_t y = b->in[0];
    if (lengths >= 0) y = ls_graph_op(b->graph, &ls_op_mask_places, &least, 2, padded, NULL);
    y = largest(b, y, &line);
    if (lengths >= 0) { /* of a sample without places: 0 */
      const ls_tensor_id_t most[] = {ls_layer_as(b, y, &row), lengths};
      y = ls_graph_op(b->graph, &ls_op_mask_places, NULL, 2, most, NULL);
    }
    return ls_layer_as(b, y, &one);
  }
  ls_tensor_id_t x = ls_layer_as(b, b->in[0], &line);
  if (o->kind == GLOBAL_MEAN) return ls_graph_op(b->graph, &ls_op_mean_positions, NULL, 1, &x, NULL);
  const ls_attrs_t at = {.i = {o->kind == GLOBAL_FIRST ? 0 : -1}};
  return ls_graph_op(b->graph, &ls_op_take_position, &at, 1, &x, NULL);
}

const ls_layer_kind_t ls_kind_global_pool = {.section = &global_pool_section,
                                             .name = "global_pool",
                                             .takes = global_pool_takes,
                                             .shape = global_pool_shape,
                                             .build = global_pool_build};
