/* Steps of opening a dataset that have a file of their own. */
#ifndef LS_DATA_PARTS_H
#define LS_DATA_PARTS_H

#include "data/read.h"

/* The kind of data that the section selects; checks that the given keys belong to it. LS_ERR_CONFIG. */
ls_status_t ls_data_config_check(ls_ctx_t *ctx, const ls_data_config_t *config);
/* Whether the validation part has files of its own. */
bool ls_data_validation_files(const ls_data_config_t *config);
/* The character that data.delimiter means; 0 for auto. False if it means none. */
bool ls_data_delimiter(const ls_data_config_t *config, char *delimiter);

/* The destination of one set of samples. */
typedef struct {
  ls_arena_t *arena; /* of names */
  ls_matrix_t features, targets;
  const char *feature_name, *target_name; /* for messages */
  bool mapped;                            /* features stay in their files */
  size_t file_bytes;                      /* largest number of bytes held at once */
  ls_strings_t indicators;                /* csv: the columns that have one */
  ls_labels_t labels; /* csv: where its one target column holds labels; most 0: it may not */
} ls_source_t;

/* source.c: reads what the section selects, neither text nor images; `memory` and `want` as in ls_dataset_open. The caller
 * releases both matrices, also after an error. LS_ERR_DATA, LS_ERR_ARGUMENT, LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_MEMORY. */
ls_status_t ls_source_read(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_memory_t *memory,
                           const ls_data_want_t *want, ls_source_t *source);
/* The same of idx and npy: targets, and features unless they stay in their files (source->mapped). */
ls_status_t ls_source_pair(ls_ctx_t *ctx, const ls_data_config_t *config, ls_source_t *source);

/* Checks the widths and row counts against each other and against the model's needs, and that classes are
 * class numbers. LS_ERR_DATA. */
ls_status_t ls_targets_check(ls_ctx_t *ctx, const ls_data_want_t *want, const ls_source_t *source);
/* Advice for a model.input with channels first, as PyTorch has them; NULL: the input does not look so. Returns buf. */
enum { LS_CHANNELS_TEXT_BYTES = 128, LS_INDICATORS_TEXT_BYTES = 64 };
const char *ls_channels_first(const ls_shape_t *x, char buf[LS_CHANNELS_TEXT_BYTES]);
/* Refuses samples that seem to be pictures for such an input, which would take lines of pixels for channels. LS_ERR_DATA. */
ls_status_t ls_channels_check(ls_ctx_t *ctx, const char *name, const ls_shape_t *sample, const ls_shape_t *x);
/* Says how many of the features are indicators, to follow their number: "" or " (the last 2 of them ..)". Returns
 * buf. */
const char *ls_indicators_text(const ls_source_t *source, char buf[LS_INDICATORS_TEXT_BYTES]);
/* Advice if class numbers go from `least` to `greatest` and the model has `classes`: "" or text that follows a
 * message. Returns buf. */
enum { LS_CLASS_REMEDY_BYTES = 128 };
const char *ls_class_remedy(double least, double greatest, int64_t classes, char buf[LS_CLASS_REMEDY_BYTES]);
/* Refuses samples with the dimensions of the model's input in another order, those of 1 aside, such as channels before
 * pixels: only their number would fit. Other dimensions are no matter. LS_ERR_DATA. */
ls_status_t ls_samples_check(ls_ctx_t *ctx, const char *name, const ls_shape_t *sample,
                             const ls_shape_t *input);
/* Checked classes become dataset->targets, i32; their matrix is emptied. */
ls_status_t ls_labels_take(ls_ctx_t *ctx, ls_matrix_t *targets, ls_dataset_t *dataset);

/* Windows over time (data.window). A dataset of rows is checked, its rows that training windows touch are chosen for
 * measuring means, and at last it becomes one of windows, in the order of time: the last ones are the validation part.
 * LS_ERR_DATA: the model has another input; too few rows. LS_ERR_MEMORY. */
ls_status_t ls_windows_check(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                             const ls_source_t *source);
void ls_windows_measure(const ls_data_config_t *config, ls_dataset_t *dataset);
ls_status_t ls_windows_cut(ls_ctx_t *ctx, const ls_data_config_t *config, ls_dataset_t *dataset);

/* Windows of rows that come in parts, in the order of the file, to be predicted: the last ones may have no target in it.
 * Begins with zeros; `config` is borrowed. */
typedef struct {
  const ls_data_config_t *config;
  double *row; /* (count, cols): those from the first row of the next window on */
  int64_t count, capacity, cols;
  int64_t skip;  /* rows in front of the next window that are still to come: a stride beyond the window */
  int64_t given; /* windows so far */
} ls_window_rows_t;
/* LS_ERR_MEMORY. */
ls_status_t ls_windows_add(ls_ctx_t *ctx, ls_window_rows_t *windows, const ls_matrix_t *rows);
/* Up to `most` windows of the rows that are there, (windows, window * cols); rows 0: there is none. LS_ERR_MEMORY. */
ls_status_t ls_windows_next(ls_ctx_t *ctx, ls_window_rows_t *windows, int64_t most, ls_matrix_t *out);

/* Checks that images can be shifted and flipped as the section says, and how. LS_ERR_CONFIG. */
ls_status_t ls_augment_set(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_shape_t *x,
                           ls_augment_t *augment);
/* The same for a dataset whose samples have the model's dimensions (`want`), and a dtype of their own. */
ls_status_t ls_dataset_augment(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               ls_dataset_t *dataset);
/* Rows are pictures, from which samples will be made: *row is what they are, not what the model wants. Errors: see
 * ls_images_array. */
ls_status_t ls_dataset_pictures(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                                const ls_source_t *source, ls_data_want_t *row, ls_dataset_t *dataset);

/* One mean and scale for all values, which the device applies. */
static inline void ls_dataset_one_unit(ls_dataset_t *dataset, float mean, float scale) {
  for (int c = 0; c < LS_STEP_CHANNELS; c++) {
    dataset->mean[c] = mean;
    dataset->scale[c] = scale;
  }
}

/* Fills dataset->norm and applies it; the values move into dataset->features and targets (classes: not
 * there). given: use these values (NULL = compute from the training part, or with compute false none);
 * one_unit: all features share one mean and scale; whole: the features are neither normalised nor made f32.
 * Bytes stay bytes where one mean, which f32 holds, and one scale are for all of them. LS_ERR_DATA, LS_ERR_MISMATCH, LS_ERR_MEMORY. */
typedef struct {
  const ls_norm_t *given;
  bool compute, one_unit, whole;
  bool labels; /* the targets stay as they are */
  int64_t ids; /* whole: they are below this; 0 = any */
  const ls_data_config_t
      *pictures; /* features are samples of dataset->images, normalised as this says; else NULL */
} ls_normalize_t;
ls_status_t ls_normalize(ls_ctx_t *ctx, ls_dataset_t *dataset, ls_matrix_t *features, ls_matrix_t *targets,
                         const ls_normalize_t *how);

/* Warns about columns whose digits f32 cannot hold: distinct values become equal, and the step between two
 * floats there is more than a thousandth of the column's standard deviation. `what` is "feature" or "target".
 * LS_ERR_MEMORY. */
ls_status_t ls_collapse_warn(ls_ctx_t *ctx, const char *source, const char *what, const ls_matrix_t *matrix);

#endif
