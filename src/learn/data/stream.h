/* Samples without targets, for predictions: block by block from a file or a stream of any length, by the readers of whole
 * files. */
#ifndef LS_DATA_STREAM_H
#define LS_DATA_STREAM_H

#include "data/read.h"

typedef struct ls_stream_rows ls_stream_rows_t;

/* Opens `path` ("-": stdin). Its first bytes tell the format: .npy, IDX, an archive of arrays (FILE.npz:NAME), else CSV
 * with a header. gzip is unpacked on the way.
 *
 * CSV: takes the columns that `config` names, in their order, else all that are not dates. The file may have others, such as
 * targets. A cell without a value is NaN if `missing` allows it, and indicators follow the columns. With data.window rows
 * become windows, also those whose target is beyond the file.
 *
 * data.kind: images: decodes the images of a folder in the order of paths, one image, or those that a CSV file of paths
 * names, as for evaluation.
 *
 * Only an archive, or an array in column order, is in memory as a whole. `want`: features of the model, and their
 * dimensions. `config` and `want` are borrowed until close. LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_stream_open(ls_ctx_t *ctx, const ls_data_config_t *config, const char *path,
                           const ls_data_want_t *want, ls_stream_rows_t **stream);
void ls_stream_close(ls_stream_rows_t *stream); /* NULL is allowed */
/* The next rows, as read; valid until the next call. rows 0: the end. LS_ERR_DATA as the readers of whole files, with
 * the same places, and for a token that is no row of the model's embedding. */
ls_status_t ls_stream_next(ls_stream_rows_t *stream, ls_matrix_t *rows);
/* Rows of the whole stream; -1: only its end will tell. */
int64_t ls_stream_total(const ls_stream_rows_t *stream);
/* The path of the picture that row `row` of the whole stream is: below the folder, or as the list has it. NULL: rows are no
 * files. */
const char *ls_stream_file(const ls_stream_rows_t *stream, int64_t row);

/* A dataset without samples: what a model has learned about its data, `norm` and the names in `config`. norm NULL: as
 * `config` has it without data, which is data.mean and data.std of images, else no normalisation. LS_ERR_CONFIG: settings of
 * images that do not fit want->x; LS_ERR_MEMORY. */
ls_status_t ls_dataset_without(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               const ls_norm_t *norm, ls_dataset_t **dataset);

#endif
