/* Predictions as CSV, .npy or JSON lines. */
#ifndef LS_CLI_PREDICT_H
#define LS_CLI_PREDICT_H

#include "cli/cli.h"

typedef struct cli_rows_out cli_rows_out_t;
typedef struct {
  const char *path;   /* "-": stdout */
  const char *format; /* a name of cli_rows_formats; NULL: by the ending of the path, CSV where it has none */
  bool classes;       /* rows are probabilities of classes, else values */
  int64_t width;      /* of a row */
  const char *const *names; /* (width) of classes or values; NULL: "0", "1", .. */
  int64_t rows;             /* that will come; -1 = not known */
  const char *(*file)(const void *source,
                      int64_t row); /* the file that a row is about; NULL: rows are no files */
  const void *source;
} cli_rows_spec_t;
extern const char *const cli_rows_formats[]; /* NULL-terminated */

/* Nothing is written before the first rows come, or the close after none, so that a bad input leaves stdout empty. A regular
 * file is written beside its place and put there by close: it exists whole or not at all. The specification
 * is borrowed until close. LS_ERR_ARGUMENT: no such format, or one that needs a file to go back in. */
ls_status_t cli_rows_open(ls_ctx_t *ctx, const cli_rows_spec_t *spec, cli_rows_out_t **out);
ls_status_t cli_rows_put(cli_rows_out_t *out, int64_t rows, const float *values);
/* Frees it in any case; `status`: of the work so far, returned. After a failure nothing is left. */
ls_status_t cli_rows_close(cli_rows_out_t *out, ls_status_t status);

#endif
