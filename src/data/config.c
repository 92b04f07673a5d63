/* The data section of a configuration: its rows, and the keys that belong to each kind. */
#include "data/parts.h"

#include <string.h>

static const char *const kinds[] = {"idx", "csv", "npy", "synthetic", NULL};

/* In the order of ls_resident_t. */
static const char *const residents[] = {"auto", "true", "false", NULL};

static const ls_option_t rows[] = {
    LS_OPTION(ls_data_config_t, kind, .change = LS_CHANGE_IGNORED, .choices = kinds,
              .help = "Format of the data."),
    LS_OPTION_PATH(ls_data_config_t, features, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of the features, one sample per row, gzip allowed. FILE.npz:NAME "
                           "names an array of an archive."),
    LS_OPTION_PATH(ls_data_config_t, targets, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of the targets: class numbers, or values to predict."),
    LS_OPTION_PATH(ls_data_config_t, path, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "csv: file with a header line, gzip allowed."),
    LS_OPTION(ls_data_config_t, target, .change = LS_CHANGE_MODEL, .optional = true,
              .help = "csv: names of the target columns."),
    LS_OPTION(ls_data_config_t, columns, .change = LS_CHANGE_MODEL, .optional = true,
              .help = "csv: names of the feature columns. Default: all columns but the targets and "
                      "dates."),
    LS_OPTION(ls_data_config_t, delimiter, .initial = "auto",
              .help = "csv: the character between cells, tab, or auto: the one of comma, semicolon and "
                      "tab that the header contains."),
    LS_OPTION(ls_data_config_t, validation, .change = LS_CHANGE_DATA, .min = 0, .max = 0.999, .initial = "0",
              .help = "Part of the samples held out for validation."),
    LS_OPTION_PATH(ls_data_config_t, validation_features, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of held-out features, instead of a part of the samples."),
    LS_OPTION_PATH(ls_data_config_t, validation_targets, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "idx, npy: file of their targets."),
    LS_OPTION_PATH(ls_data_config_t, validation_path, .change = LS_CHANGE_IGNORED, .optional = true,
                   .help = "csv: file of held-out samples, instead of a part of the samples. It has the same "
                           "columns as path."),
    LS_OPTION(
        ls_data_config_t, normalize, .change = LS_CHANGE_KEPT, .initial = "false",
        .help =
            "Shift and scale to mean 0 and deviation 1, measured on the training part (real targets too)."),
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

static ls_status_t need(ls_ctx_t *ctx, const char *kind, const char *key, bool given) {
  if (given) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG, "data.%s is needed with data.kind: %s", key, kind);
}

static ls_status_t refuse(ls_ctx_t *ctx, const char *kind, const char *key, bool given) {
  if (!given) return LS_OK;
  return ls_fail(ctx, LS_ERR_CONFIG, "data.%s does not go with data.kind: %s", key, kind);
}

bool ls_data_validation_files(const ls_data_config_t *c) {
  if (c->kind == LS_DATA_MEMORY) return false;
  return c->validation_features || c->validation_targets || c->validation_path;
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

ls_status_t ls_data_config_check(ls_ctx_t *ctx, const ls_data_config_t *c) {
  if (c->kind < 0 || c->kind > LS_DATA_MEMORY)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "unknown kind of data: %d", c->kind);
  if (!(c->validation >= 0.0 && c->validation < 1.0))
    return ls_fail(ctx, LS_ERR_CONFIG, "data.validation is %g: it must be at least 0 and less than 1",
                   c->validation);
  if (c->kind == LS_DATA_MEMORY) return LS_OK;
  const char *kind = kinds[c->kind];
  char delimiter;
  if (!ls_data_delimiter(c, &delimiter))
    return ls_fail(
        ctx, LS_ERR_CONFIG,
        "data.delimiter is \"%s\": one character that is no part of a number was expected, tab or auto",
        LS_SHOWN(c->delimiter));
  bool files = c->kind == LS_DATA_IDX || c->kind == LS_DATA_NPY, csv = c->kind == LS_DATA_CSV;
  /* Reports every error of the section; the first gives the status. */
  ls_status_t s[] = {
      files ? need(ctx, kind, "features", c->features) : refuse(ctx, kind, "features", c->features),
      files ? need(ctx, kind, "targets", c->targets) : refuse(ctx, kind, "targets", c->targets),
      csv ? need(ctx, kind, "path", c->path) : refuse(ctx, kind, "path", c->path),
      csv ? need(ctx, kind, "target", c->target.count > 0) : refuse(ctx, kind, "target", c->target.count > 0),
      files ? LS_OK : refuse(ctx, kind, "validation_features", c->validation_features),
      files ? LS_OK : refuse(ctx, kind, "validation_targets", c->validation_targets),
      csv ? LS_OK : refuse(ctx, kind, "validation_path", c->validation_path),
      check_validation(ctx, c),
      csv ? LS_OK : refuse(ctx, kind, "columns", c->columns.count > 0),
      csv ? LS_OK : refuse(ctx, kind, "delimiter", c->delimiter && strcmp(c->delimiter, "auto") != 0),
  };
  for (int i = 0; i < LS_COUNT(s); i++)
    if (s[i] != LS_OK) return s[i];
  if (c->kind != LS_DATA_SYNTHETIC) return LS_OK;
  if (c->samples < 1 || c->samples > UINT32_MAX || c->inputs < 0 || c->outputs < 0)
    return ls_fail(ctx, LS_ERR_CONFIG, "data.samples, data.inputs or data.outputs is out of range");
  return LS_OK;
}
