/* The data section of a configuration: its rows, and the keys that belong to each kind. */
#include "data/parts.h"
#include "data/picture/picture.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"idx", "csv", "npy", "text", "images", "synthetic", NULL};

/* In the order of ls_tokens_t and ls_windows_t. */
static const char *const tokens[] = {"auto", "characters", "bytes", "u16", "i32", NULL};
static const char *const windows[] = {"random", "strided", NULL};

/* In the order of ls_missing_t. */
static const char *const missing[] = {"error", "mean", "indicator", NULL};

/* In the order of ls_scale_t, ls_crop_t and ls_decode_t. */
static const char *const interpolations[] = {"bilinear", "bicubic", NULL};
static const char *const crops[] = {"centre", "random", NULL};
static const char *const decodes[] = {"auto", "once", "always", NULL};

/* In the order of ls_mapped_choice_t. */
static const char *const mappings[] = {"auto", "true", "false", NULL};

/* In the order of ls_dates_t. */
static const char *const dates[] = {"skip", "parts", NULL};

/* In the order of ls_resident_t. */
static const char *const residents[] = {"auto", "true", "false", NULL};

static const ls_option_t rows[] = {
    LS_OPTION(ls_data_config_t, kind, .change = LS_CHANGE_IGNORED, .choices = kinds,
              .help = "Format of the data."),
    LS_OPTION_PATH(ls_data_config_t, features, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of the features, one sample per row, gzip allowed, or all files "
                           "that match, as in x-*.npy. FILE.npz:NAME "
                           "names an array of an archive."),
    LS_OPTION_PATH(ls_data_config_t, targets, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of the targets: class numbers, or values to predict."),
    LS_OPTION_PATH(
        ls_data_config_t, path, .change = LS_CHANGE_IGNORED, .optional = true,
        .help =
            "csv: file with a header line, gzip allowed. text: file, or all files that match, as in "
            "shards/*.bin, one after the other. images: folder with a folder of PNG and JPEG files for each "
            "class, or a CSV file of their paths and labels."),
    LS_OPTION(
        ls_data_config_t, target, .change = LS_CHANGE_MODEL, .optional = true,
        .help = "csv: names of the target columns. images: the column of the labels in a CSV file; default: "
                "label."),
    LS_OPTION(ls_data_config_t, columns, .change = LS_CHANGE_MODEL, .optional = true,
              .help = "csv: names of the feature columns. Default: all columns but the targets and "
                      "dates. images: the column of the paths in a CSV file; default: file."),
    LS_OPTION(ls_data_config_t, delimiter, .initial = "auto",
              .help = "csv: the character between cells, tab, or auto: the one of comma, semicolon and "
                      "tab that the header contains."),
    LS_OPTION(ls_data_config_t, validation, .change = LS_CHANGE_DATA, .min = 0, .max = 0.999, .initial = "0",
              .help = "Part of the samples held out for validation."),
    LS_OPTION(
        ls_data_config_t, split_seed, .change = LS_CHANGE_DATA, .min = -1, .max = 9e15, .initial = "-1",
        .help =
            "Seed of the choice of those samples; -1: train.seed. With a seed of its own, runs of several "
            "train.seed have one split."),
    LS_OPTION_PATH(ls_data_config_t, validation_features, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of held-out features, instead of a part of the samples."),
    LS_OPTION_PATH(ls_data_config_t, validation_targets, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of their targets."),
    LS_OPTION_PATH(ls_data_config_t, validation_path, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "csv, text, images: file or folder of held-out samples, instead of a part of the "
                           "samples. With csv it has "
                           "the same columns as path."),
    LS_OPTION(
        ls_data_config_t, tokens, .change = LS_CHANGE_MODEL, .choices = tokens, .initial = "auto",
        .help =
            "text: what a token is: characters of UTF-8 text, bytes, or the numbers in a token file (u16, "
            "i32, with or without llm.c's header). auto: numbers if the file has that header, u16 if its "
            "name ends in .bin, else characters."),
    LS_OPTION(ls_data_config_t, context, .change = LS_CHANGE_IGNORED, .unit = "tokens", .min = 0, .max = 1e9,
              .initial = "0", .help = "text: length of a sample; 0 follows the model's input."),
    LS_OPTION(
        ls_data_config_t, windows, .change = LS_CHANGE_RUN, .choices = windows, .initial = "random",
        .help =
            "text: where training samples begin: anywhere, by a random number of (seed, epoch, index), or "
            "every `stride` tokens, each once per epoch. Validation goes from window to window."),
    LS_OPTION(
        ls_data_config_t, stride, .change = LS_CHANGE_RUN, .min = 0, .max = 1e9, .initial = "0",
        .help = "text: tokens between strided training windows; 0 is the context. csv: rows between windows; "
                "0 is 1."),
    LS_OPTION(
        ls_data_config_t, masked, .change = LS_CHANGE_RUN, .max = 0.99, .initial = "0",
        .help =
            "text: share of a sample's tokens that the network is to find again, such as 0.15; 80 % of them "
            "are "
            "replaced by mask_token, 10 % by any token, chosen by (seed, epoch, index). 0: the target of a "
            "place is the next token."),
    LS_OPTION(ls_data_config_t, mask_token, .change = LS_CHANGE_RUN, .min = 0, .max = 1 << 24, .initial = "0",
              .help = "text: the token that stands for masked ones."),
    LS_OPTION(
        ls_data_config_t, window, .change = LS_CHANGE_MODEL, .unit = "rows", .min = 0, .max = 1e6,
        .initial = "0",
        .help =
            "csv: rows of a sample, [window, features], in the order of the file. 0: every row is a sample."),
    LS_OPTION(
        ls_data_config_t, horizon, .change = LS_CHANGE_MODEL, .unit = "rows", .min = 0, .max = 1e6,
        .initial = "1",
        .help =
            "csv: rows from the last one of a window to that of its target. Above 0 the target columns are "
            "features as well."),
    LS_OPTION(ls_data_config_t, missing, .change = LS_CHANGE_MODEL, .choices = missing, .initial = "error",
              .help = "csv: features without a value (an empty cell, ?, or what pandas reads so, such as NA, "
                      "NaN, null, None or "
                      "#N/A). error: refused. mean: the mean of the column's values in the training part. "
                      "indicator: the same, and "
                      "behind the columns one more for each that has gaps in the training file, 1 where the "
                      "value is missing, else "
                      "0."),
    LS_OPTION(ls_data_config_t, mapped, .change = LS_CHANGE_IGNORED, .choices = mappings, .initial = "auto",
              .help = "npy: features stay in their files, which are mapped and may be larger than memory. "
                      "auto: if they "
                      "take more than a quarter of it, and are not to be normalised."),
    LS_OPTION(
        ls_data_config_t, dates, .change = LS_CHANGE_MODEL, .choices = dates, .initial = "skip",
        .help =
            "csv: columns of dates (YYYY-MM-DD, with or without a time) that columns does not name. skip: "
            "left "
            "out. parts: features NAME.year, .month, .day, .weekday (Monday is 0), and .hour if there is a "
            "time. columns can name these, .yearday and .minute, too."),
    LS_OPTION(
        ls_data_config_t, normalize, .change = LS_CHANGE_KEPT, .initial = "false",
        .help =
            "Shift and scale to mean 0 and deviation 1, measured on the training part (real targets too)."),
    LS_OPTION(
        ls_data_config_t, resize, .change = LS_CHANGE_MODEL, .unit = "pixels", .min = 0, .max = 32767,
        .initial = "0",
        .help =
            "images, idx, npy: the shorter side is scaled to this, then the centre is cut out. 0: the whole "
            "picture is scaled to the model's height and width."),
    LS_OPTION(ls_data_config_t, interpolation, .change = LS_CHANGE_MODEL, .choices = interpolations,
              .initial = "bilinear",
              .help = "images, idx, npy: how they are scaled, as Pillow does it, bit for bit."),
    LS_OPTION(
        ls_data_config_t, crop, .change = LS_CHANGE_RUN, .choices = crops, .initial = "centre",
        .help = "images, idx, npy: training samples are cut out like those of validation, or are random "
                "parts of the "
                "picture (a part of the area, ratio 3/4 to 4/3), scaled, by a random number of (seed, epoch, "
                "index)."),
    LS_OPTION(ls_data_config_t, crop_area, .change = LS_CHANGE_RUN, .min = 0.01, .max = 1, .initial = "0.08",
              .help = "images, idx, npy: the least part of the picture that a random crop covers."),
    LS_OPTION(
        ls_data_config_t, padding, .change = LS_CHANGE_RUN, .unit = "pixels", .min = 0, .max = 1024,
        .initial = "0",
        .help =
            "images, idx, npy: training images get so many pixels of 0 around them, then their size is cut "
            "out at a random place."),
    LS_OPTION(
        ls_data_config_t, flip, .change = LS_CHANGE_RUN, .initial = "false",
        .help = "images, idx, npy: every second training image, chosen at random, is turned left to right."),
    LS_OPTION(ls_data_config_t, mean, .change = LS_CHANGE_KEPT, .optional = true, .min = -10, .max = 10,
              .help = "images, idx, npy: subtracted from each channel, as a part of 255 (for weights of "
                      "ImageNet 0.485, 0.456, "
                      "0.406). Default 0. Or data.normalize: true measures it on the training part."),
    LS_OPTION(ls_data_config_t, std, .change = LS_CHANGE_KEPT, .optional = true, .min = 1e-6, .max = 1e6,
              .help = "images, idx, npy: each channel is divided by this, as a part of 255 (0.229, 0.224, "
                      "0.225). Default 1."),
    LS_OPTION(ls_data_config_t, decode, .change = LS_CHANGE_IGNORED, .choices = decodes, .initial = "auto",
              .help =
                  "images, idx, npy: pictures are decoded once, when the run begins, or always, for each "
                  "batch. auto: once, unless "
                  "training samples are random parts or all samples take more than an eighth of the memory."),
    LS_OPTION(ls_data_config_t, resident, .change = LS_CHANGE_IGNORED, .choices = residents,
              .initial = "auto",
              .help = "Whether all samples stay on the device: true, false, or auto (on a GPU, if they "
                      "take at most a quarter of its free memory)."),
    LS_OPTION(ls_data_config_t, samples, .change = LS_CHANGE_DATA, .unit = "samples", .min = 1, .max = 1e9,
              .initial = "10000", .help = "synthetic: number of samples."),
    LS_OPTION(ls_data_config_t, inputs, .change = LS_CHANGE_DATA, .min = 0, .max = 1e7, .initial = "0",
              .help = "synthetic: features per sample; 0 follows the model."),
    LS_OPTION(ls_data_config_t, outputs, .change = LS_CHANGE_DATA, .min = 0, .max = 1e6, .initial = "0",
              .help = "synthetic: targets per sample, or classes; 0 follows the model."),
    LS_OPTION(ls_data_config_t, noise, .change = LS_CHANGE_DATA, .min = 0, .max = 1e6, .initial = "0.1",
              .help = "synthetic: standard deviation of the noise added to the teacher's outputs."),
    LS_OPTION(ls_data_config_t, data_seed, .change = LS_CHANGE_DATA, .min = 0, .max = 9e15, .initial = "42",
              .help = "synthetic: seed of features, teacher and noise."),
};

const ls_section_t ls_data_section = {.name = "data",
                                      .rows = rows,
                                      .count = LS_COUNT(rows),
                                      .help = "Where samples come from and how they are split."};

bool ls_data_validation_files(const ls_data_config_t *c) {
  if (c->kind == LS_DATA_MEMORY) return false;
  return c->validation_features || c->validation_targets || c->validation_path;
}

bool ls_data_makes(const ls_data_config_t *c) {
  return c->flip || c->padding > 0 || c->crop == LS_CROP_RANDOM || c->decode == LS_DECODE_ALWAYS;
}

bool ls_data_pictures(const ls_data_config_t *c) {
  if (c->kind == LS_DATA_IMAGES) return true;
  if (c->kind != LS_DATA_IDX && c->kind != LS_DATA_NPY) return false;
  return c->resize > 0 || c->interpolation != LS_SCALE_BILINEAR || c->crop != LS_CROP_CENTRE ||
         c->mean.count > 0 || c->std.count > 0 || c->decode != LS_DECODE_AUTO;
}

void ls_data_config_all(ls_data_config_t *c) {
  c->validation = 0;
  c->validation_features = c->validation_targets = c->validation_path = NULL;
}

static ls_status_t check_validation(ls_ctx_t *ctx, const ls_data_config_t *c) {
  if (ls_data_validation_files(c) && c->validation > 0.0)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.validation %g holds out a part of the samples, but data.validation_%s names a file: give "
        "one of the two",
        c->validation,
        c->validation_path       ? "path"
        : c->validation_features ? "features"
                                 : "targets");
  if (!c->validation_features != !c->validation_targets)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.validation_%s is missing: features and targets come together",
                   c->validation_features ? "targets" : "features");
  return LS_OK;
}

bool ls_data_delimiter(const ls_data_config_t *c, char *delimiter) {
  static const struct {
    const char *name;
    char delimiter;
  } names[] = {{"auto", 0}, {"tab", '\t'}, {"\t", '\t'}, {"\\t", '\t'}, {"comma", ','}, {"semicolon", ';'}};
  const char *text = c->delimiter ? c->delimiter : "auto";
  for (int i = 0; i < LS_COUNT(names); i++) {
    if (strcmp(text, names[i].name) != 0) continue;
    *delimiter = names[i].delimiter;
    return true;
  }
  *delimiter = *text;
  /* A character that occurs in numbers, quotes or line ends cannot separate cells. */
  return strlen(text) == 1 && *text >= ' ' && *text <= '~' && !strchr("0123456789+-.eE\"", *text);
}

#define OF(kind) (1u << LS_DATA_##kind)
enum { FILES = OF(IDX) | OF(NPY), PATHS = OF(CSV) | OF(TEXT) | OF(IMAGES), PIXELS = FILES | OF(IMAGES) };

/* Keys that only some kinds take, or cannot do without. */
static const struct {
  const char *key;
  unsigned takes, needs;
} keys[] = {
    {"features", FILES, FILES},
    {"targets", FILES, FILES},
    {"path", PATHS, PATHS},
    {"target", OF(CSV) | OF(IMAGES), OF(CSV)},
    {"validation_features", FILES},
    {"validation_targets", FILES},
    {"validation_path", PATHS},
    {"columns", OF(CSV) | OF(IMAGES)},
    {"delimiter", OF(CSV) | OF(IMAGES)},
    {"tokens", OF(TEXT)},
    {"context", OF(TEXT)},
    {"windows", OF(TEXT)},
    {"masked", OF(TEXT)},
    {"mask_token", OF(TEXT)},
    {"stride", OF(CSV) | OF(TEXT)},
    {"normalize", ~OF(TEXT)},
    {"window", OF(CSV)},
    {"missing", OF(CSV)},
    {"dates", OF(CSV)},
    {"mapped", OF(NPY)},
    {"resize", PIXELS},
    {"interpolation", PIXELS},
    {"crop", PIXELS},
    {"crop_area", PIXELS},
    {"padding", PIXELS},
    {"flip", PIXELS},
    {"mean", PIXELS},
    {"std", PIXELS},
    {"decode", PIXELS},
};

/* Whether a key has another value than it has unset. */
static bool is_given(const ls_data_config_t *c, const char *key) {
  const ls_option_t *row = rows;
  while (strcmp(row->name, key) != 0)
    row++;
  const void *field = (const char *)c + row->offset;
  const char *text;
  switch (row->type) {
  case LS_OPT_STRINGS:
    return ((const ls_strings_t *)field)->count > 0;
  case LS_OPT_INT:
    return *(const int64_t *)field != 0;
  case LS_OPT_ENUM:
    return *(const int *)field != 0;
  case LS_OPT_FLOAT:
    return *(const double *)field != 0 && *(const double *)field != strtod(row->initial, NULL);
  case LS_OPT_FLOATS:
    return ((const ls_floats_t *)field)->count > 0;
  case LS_OPT_BOOL:
    return *(const bool *)field;
  default:
    text = *(const char *const *)field;
    return text && (!row->initial || strcmp(text, row->initial) != 0);
  }
}

/* Reports every error; the first gives the status. */
ls_status_t ls_data_keys_check(ls_ctx_t *ctx, const ls_data_config_t *c) {
  ls_status_t first = LS_OK, status;
  const char *kind = kinds[c->kind];
  for (int i = 0; i < LS_COUNT(keys); i++, first = first != LS_OK ? first : status) {
    bool given = is_given(c, keys[i].key);
    status = LS_OK;
    if (!given && keys[i].needs & 1u << c->kind)
      status = ls_fail(ctx, LS_ERR_CONFIG, "data.%s is needed with data.kind: %s", keys[i].key, kind);
    if (given && !(keys[i].takes & 1u << c->kind))
      status = ls_fail(ctx, LS_ERR_CONFIG, "data.%s does not go with data.kind: %s", keys[i].key, kind);
  }
  status = check_validation(ctx, c);
  return first != LS_OK ? first : status;
}

ls_status_t ls_data_config_check(ls_ctx_t *ctx, const ls_data_config_t *c) {
  if (c->kind < 0 || c->kind > LS_DATA_MEMORY)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "unknown kind of data: %d", c->kind);
  if (!(c->validation >= 0.0 && c->validation < 1.0))
    return ls_fail(ctx, LS_ERR_CONFIG, "data.validation is %g: it must be at least 0 and less than 1",
                   c->validation);
  if (c->kind == LS_DATA_MEMORY) return LS_OK;
  char delimiter;
  if (!ls_data_delimiter(c, &delimiter))
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.delimiter is \"%s\": one character that is no part of a number was expected, tab or auto",
        LS_SHOWN(c->delimiter));
  ls_status_t status = ls_data_keys_check(ctx, c);
  if (status != LS_OK) return status;
  if (c->missing != LS_MISSING_ERROR && !c->normalize)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.missing: %s needs data.normalize: true, which measures the columns' means and saves them",
        missing[c->missing]);
  if (c->kind == LS_DATA_TEXT && c->stride > 0 && c->windows != LS_WINDOWS_STRIDED)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.stride goes with data.windows: strided");
  if (is_given(c, "crop_area") && c->crop != LS_CROP_RANDOM)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.crop_area goes with data.crop: random");
  if (c->window == 0 && ((c->kind == LS_DATA_CSV && c->stride > 0) || c->horizon > 1))
    return ls_fail(ctx, LS_ERR_CONFIG, "data.%s goes with data.window: the rows of a sample",
                   c->horizon > 1 ? "horizon" : "stride");
  if (c->normalize && (c->mean.count > 0 || c->std.count > 0))
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.normalize: true measures mean and deviation, but data.%s gives them: keep one of the two",
        c->mean.count > 0 ? "mean" : "std");
  if (c->decode == LS_DECODE_ONCE && c->crop == LS_CROP_RANDOM)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.decode: once keeps one sample of each image, but data.crop: random takes another "
                   "part each time");
  if (c->kind == LS_DATA_IMAGES && c->columns.count > 1)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.columns names %d columns; images have one, that of the paths",
                   c->columns.count);
  if (c->kind == LS_DATA_IMAGES && c->target.count > 1)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.target names %d columns; images have one, that of the labels",
                   c->target.count);
  if (ls_data_makes(c) && c->resident == LS_RESIDENT_TRUE)
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.resident: true keeps the samples as they are on the device, but data.%s them each time",
        c->crop == LS_CROP_RANDOM ? "crop: random changes"
        : c->flip                 ? "flip changes"
        : c->padding > 0          ? "padding changes"
                                  : "decode: always makes");
  if (c->mapped == LS_MAPPED_TRUE && c->resident == LS_RESIDENT_TRUE)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.resident: true does not go with data.mapped: true: keep one of the two");
  if (c->kind == LS_DATA_TEXT && c->resident == LS_RESIDENT_TRUE)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.resident: true does not go with data.kind: text: its windows overlap, and "
                   "the host cuts them out of the files");
  if (c->kind != LS_DATA_SYNTHETIC) return LS_OK;
  if (c->samples < 1 || c->samples > UINT32_MAX || c->inputs < 0 || c->outputs < 0)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.samples, data.inputs or data.outputs is out of range");
  return LS_OK;
}
