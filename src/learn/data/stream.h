/* Samples without targets, read batch by batch from a file or a stream of any length: what predictions are made of. */
#ifndef LS_DATA_STREAM_H
#define LS_DATA_STREAM_H

#include "data/read.h"

typedef struct ls_stream_rows ls_stream_rows_t;

/* Opens `path` ("-": stdin). Its first bytes tell the format: .npy, IDX, an archive of arrays (FILE.npz:NAME), else CSV
 * with a header; gzip is unpacked on the way. With data.kind: images a folder of images, or one, or those that a CSV file
 * of paths names, are decoded as for evaluation: a folder's in the order of paths. Of a CSV file the columns that `config` names are taken, in their order,
 * else all that are not dates; others, such as targets, may be there. A cell without a value is NaN where `missing` allows it,
 * and indicators stand behind the columns. With data.window rows of a CSV file become
 * windows, also those that have no target in the file. `want`: features of the model, and their dimensions. Only an
 * archive, or an array in column order, is held as a whole. `config` and `want` are borrowed until close. LS_ERR_NOT_FOUND,
 * LS_ERR_IO, LS_ERR_DATA, LS_ERR_MEMORY. */
ls_status_t ls_stream_open(ls_ctx_t *ctx, const ls_data_config_t *config, const char *path,
                           const ls_data_want_t *want, ls_stream_rows_t **stream);
void ls_stream_close(ls_stream_rows_t *stream); /* NULL is allowed */
/* The next rows, as read; valid until the next call. rows 0: the end. LS_ERR_DATA as the readers of whole files, with
 * the same places, and for a token that is no row of the model's embedding. */
ls_status_t ls_stream_next(ls_stream_rows_t *stream, ls_matrix_t *rows);
/* Rows of the whole stream; -1: only its end will tell. */
int64_t ls_stream_total(const ls_stream_rows_t *stream);
/* Of pictures in files the path of row `row` of the whole stream: below the folder, or as the list has it. NULL: rows are no
 * files. */
const char *ls_stream_file(const ls_stream_rows_t *stream, int64_t row);

/* A dataset without samples: what a model has learned about its data, `norm` and the names in `config`. norm NULL: as
 * `config` has it without data, which is data.mean and data.std of images, else no normalisation. LS_ERR_CONFIG: settings of
 * images that do not fit want->x; LS_ERR_MEMORY. */
ls_status_t ls_dataset_without(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                               const ls_norm_t *norm, ls_dataset_t **dataset);

#endif
