/* Which options of the data section go with which kind, and with each other. */
#include "data/parts.h"
#include "data/picture/picture.h"

#include <stdlib.h>
#include <string.h>

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

static const ls_option_t *row_of(const char *key) {
  const ls_option_t *row = ls_data_section.rows;
  while (strcmp(row->name, key) != 0)
    row++;
  return row;
}

/* Whether a key has another value than it has unset. */
static bool is_given(const ls_data_config_t *c, const char *key) {
  const ls_option_t *row = row_of(key);
  const void *field = (const char *)c + row->offset;
  const char *text;
  switch (row->type) {
  case LS_FIELD_STRINGS:
    return ((const ls_strings_t *)field)->count > 0;
  case LS_FIELD_INT64:
    return *(const int64_t *)field != 0;
  case LS_FIELD_CHOICE:
    return *(const int *)field != 0;
  case LS_FIELD_REAL:
    return *(const double *)field != 0 && *(const double *)field != strtod(row->initial, NULL);
  case LS_FIELD_REALS:
    return ((const ls_floats_t *)field)->count > 0;
  case LS_FIELD_BOOL:
    return *(const bool *)field;
  default:
    text = *(const char *const *)field;
    return text && (!row->initial || strcmp(text, row->initial) != 0);
  }
}

/* Reports every error; the first gives the status. */
ls_status_t ls_data_keys_check(ls_ctx_t *ctx, const ls_data_config_t *c) {
  ls_status_t first = LS_OK, status;
  const char *kind = row_of("kind")->choices[c->kind];
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

/* The number of columns fits what images take. */
static ls_status_t check_image_columns(ls_ctx_t *ctx, const ls_data_config_t *c) {
  const struct {
    const char *key, *of;
    int count;
  } rules[] = {{"columns", "paths", c->columns.count}, {"target", "labels", c->target.count}};
  for (int i = 0; c->kind == LS_DATA_IMAGES && i < LS_COUNT(rules); i++)
    if (rules[i].count > 1)
      return ls_fail(ctx, LS_ERR_CONFIG, "data.%s names %d columns; images have one, that of the %s",
                     rules[i].key, rules[i].count, rules[i].of);
  return LS_OK;
}

/* Options that contradict each other. */
static ls_status_t check_together(ls_ctx_t *ctx, const ls_data_config_t *c) {
  const bool resident = c->resident == LS_RESIDENT_TRUE;
  const struct {
    bool fault;
    const char *before, *word, *after;
  } rules[] = {
      {c->missing != LS_MISSING_ERROR && !c->normalize, "missing: ", row_of("missing")->choices[c->missing],
       " needs data.normalize: true, which measures the columns' means and saves them"},
      {c->kind == LS_DATA_TEXT && c->stride > 0 && c->windows != LS_WINDOWS_STRIDED,
       "stride goes with data.windows: strided"},
      {is_given(c, "crop_area") && c->crop != LS_CROP_RANDOM, "crop_area goes with data.crop: random"},
      {c->window == 0 && ((c->kind == LS_DATA_CSV && c->stride > 0) || c->horizon > 1), "",
       c->horizon > 1 ? "horizon" : "stride", " goes with data.window: the rows of a sample"},
      {c->normalize && (c->mean.count > 0 || c->std.count > 0),
       "normalize: true measures mean and deviation, but data.", c->mean.count > 0 ? "mean" : "std",
       " gives them: keep one of the two"},
      {c->decode == LS_DECODE_ONCE && c->crop == LS_CROP_RANDOM,
       "decode: once keeps one sample of each image, but data.crop: random takes another part each time"},
      {ls_data_makes(c) && resident, "resident: true keeps the samples as they are on the device, but data.",
       c->crop == LS_CROP_RANDOM ? "crop: random changes"
       : c->flip                 ? "flip changes"
       : c->padding > 0          ? "padding changes"
                                 : "decode: always makes",
       " them each time"},
      {c->mapped == LS_MAPPED_TRUE && resident,
       "resident: true does not go with data.mapped: true: keep one of the two"},
      {c->kind == LS_DATA_TEXT && resident,
       "resident: true does not go with data.kind: text: its windows overlap, and the host cuts them out of "
       "the files"},
      {c->kind == LS_DATA_SYNTHETIC &&
           (c->samples < 1 || c->samples > UINT32_MAX || c->inputs < 0 || c->outputs < 0),
       "samples, data.inputs or data.outputs is out of range"},
  };
  for (int i = 0; i < LS_COUNT(rules); i++)
    if (rules[i].fault)
      return ls_fail(ctx, LS_ERR_CONFIG, "data.%s%s%s", rules[i].before, rules[i].word ? rules[i].word : "",
                     rules[i].after ? rules[i].after : "");
  return LS_OK;
}

ls_status_t ls_data_config_check(ls_ctx_t *ctx, const ls_data_config_t *c) {
  char delimiter;
  if (c->kind < 0 || c->kind > LS_DATA_MEMORY)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "unknown kind of data: %d", c->kind);
  if (!(c->validation >= 0.0 && c->validation < 1.0))
    return ls_fail(ctx, LS_ERR_CONFIG, "data.validation is %g: it must be at least 0 and less than 1",
                   c->validation);
  if (c->kind == LS_DATA_MEMORY) return LS_OK;
  if (!ls_data_delimiter(c, &delimiter))
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.delimiter is \"%s\": one character that is no part of a number was expected, tab or auto",
        LS_SHOWN(c->delimiter));
  ls_status_t status = ls_data_keys_check(ctx, c);
  if (status == LS_OK) status = check_image_columns(ctx, c);
  return status == LS_OK ? check_together(ctx, c) : status;
}
