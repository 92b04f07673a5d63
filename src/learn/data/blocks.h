/* A stream of samples (stream.h) in blocks, for the files that read one format each: they use the readers of whole files,
 * block by block. */
#ifndef LS_DATA_BLOCKS_H
#define LS_DATA_BLOCKS_H

#include "data/bytes.h"
#include "data/parts.h"
#include "data/stream.h"
#include "data/table/elements.h"

struct ls_stream_rows {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  const char *name; /* for messages, in the arena */
  const ls_data_config_t *config;
  const ls_data_want_t *want;
  ls_bytes_t bytes;
  /* The next rows, as ls_stream_next. */
  ls_status_t (*next)(ls_stream_rows_t *s, ls_matrix_t *rows);
  int64_t total;    /* rows of the whole; -1: only the end will tell */
  int64_t given;    /* rows handed out */
  ls_matrix_t rows; /* the block that was handed out */
  /* CSV */
  ls_strings_t columns;     /* configured, or chosen by the first block */
  bool ordered;             /* of windows, until a warning */
  size_t header;            /* bytes in front of the rows; 0 = not known yet */
  int64_t passed;           /* lines between the header and the first row of the buffer */
  ls_window_rows_t windows; /* over time; its config is NULL without them */
  /* arrays */
  ls_array_t array; /* dim[0]: rows of the whole */
  size_t offset;    /* of the data in the file */
  int64_t row;      /* the next one, of an array or of pictures in files */
  /* pictures: only what decoding needs is there */
  ls_dataset_t *images;
};

/* table/blocks.c */
ls_status_t ls_blocks_csv(ls_stream_rows_t *s);
/* The header is .npy's, else IDX's. */
ls_status_t ls_blocks_array(ls_stream_rows_t *s, bool npy);
ls_status_t ls_blocks_next_array(ls_stream_rows_t *s, ls_matrix_t *rows);

/* picture/blocks.c. The pictures of a folder, a file, or (listed) of a CSV file of paths that the stream is. */
ls_status_t ls_blocks_images(ls_stream_rows_t *s, const char *path, bool listed);
/* The rows of the array that the stream is are pictures. */
ls_status_t ls_blocks_pictures(ls_stream_rows_t *s);
void ls_blocks_images_close(ls_stream_rows_t *s);
const char *ls_blocks_images_file(const ls_stream_rows_t *s, int64_t row); /* NULL: rows are no files */

#endif
