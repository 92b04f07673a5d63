/* Samples of arrays that stay in their files, mapped: larger than memory, read row by row when a batch needs them. */
#ifndef LS_DATA_MAPPED_H
#define LS_DATA_MAPPED_H

#include "data/parts.h"
#include "data/table/elements.h"

/* Rows [first, first + array.dim[0]) of the dataset. */
typedef struct {
  ls_view_t view;
  ls_array_t array;
  size_t offset; /* of row 0 in the view */
  int64_t first;
} ls_mapped_file_t;

struct ls_mapped {
  ls_mapped_file_t *file;
  int files;
};

/* *wanted: whether the section's features stay in their files: asked for, or larger than a part of the memory and possible.
 * LS_ERR_NOT_FOUND: no file matches. */
ls_status_t ls_mapped_wanted(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                             const ls_norm_t *norm, bool *wanted);
/* Opens the whole dataset of the section. Features stay in their files, those of validation files last; targets are
 * read. The caller zeroes *source first and releases it. LS_ERR_CONFIG, LS_ERR_DATA, LS_ERR_MISMATCH,
 * LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_MEMORY. */
ls_status_t ls_mapped_build(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                            const ls_norm_t *norm, ls_source_t *source, ls_dataset_t *dataset);
/* Values [first, first + count) of a row as sample.x has them: bytes, or f32 normalised. Pure. */
void ls_mapped_row(const ls_dataset_t *dataset, int64_t row, int64_t first, int64_t count, void *out);
const uint8_t *ls_mapped_bytes(const ls_mapped_t *mapped,
                               int64_t row); /* of an array of bytes; in the file */
void ls_mapped_close(ls_mapped_t *mapped);   /* NULL is fine */

#endif
