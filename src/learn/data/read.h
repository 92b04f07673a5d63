/* Readers of outside files, into plain matrices. Each has a fuzz target; sizes are overflow-checked, limits
 * are enforced before allocation, every refusal names the place. */
#ifndef LS_DATA_READ_H
#define LS_DATA_READ_H

#include "data/data.h"
#include "data/watch.h"

/* A matrix of numbers as read: u8, u16 and i32 as the file has them; other numbers f32 where that holds every
 * value exactly, else f64, so that normalisation sees all digits. Owned by the caller (ls_matrix_release). */
typedef struct {
  int64_t rows, cols; /* cols: product of all further dimensions */
  ls_shape_t row;     /* those dimensions, and the dtype of `values` */
  void *values;       /* (rows, cols) */
  char **names;       /* (named) of the columns, one block with its texts; NULL: they have none */
  int64_t named;      /* cols, or the first of them (ls_matrix_mark_gaps) */
  bool integers;      /* every value is an integer in the file's type (idx; npy of an integer type) */
  bool read_wide;     /* values were f64 while they were read */
  bool bytes;         /* came as unsigned bytes (images) */
} ls_matrix_t;
void ls_matrix_release(ls_matrix_t *matrix);

/* matrix.c */
/* Takes `wide` (rows * cols values, each finite as f32; freed on failure) as the values of a matrix whose
 * rows and cols are set, as f32 where that loses nothing. LS_ERR_MEMORY. */
ls_status_t ls_matrix_take(ls_ctx_t *ctx, double *wide, ls_matrix_t *matrix);
/* Makes the values f32: value i becomes (float)((value - mean[c]) * scale[c]), c = i mod cols. Where they are
 * f64 the memory that this frees goes back. NaN becomes 0. LS_ERR_MEMORY. */
ls_status_t ls_matrix_narrow(ls_ctx_t *ctx, const double *mean, const float *scale, ls_matrix_t *matrix);

/* Appends an indicator column for each column that `marked` names: 1 where its value is NaN, else 0. Names stay
 * those of the values. LS_ERR_MEMORY. */
ls_status_t ls_matrix_mark_gaps(ls_ctx_t *ctx, const ls_strings_t *marked, ls_matrix_t *matrix);
/* The names of columns that have a NaN, in the arena. LS_ERR_MEMORY. */
ls_status_t ls_matrix_gaps(ls_arena_t *arena, const ls_matrix_t *matrix, ls_strings_t *names);

/* Appends the rows of `from`, which is emptied, to `to`. The widths agree. LS_ERR_MEMORY. */
ls_status_t ls_matrix_append(ls_ctx_t *ctx, ls_matrix_t *to, ls_matrix_t *from);

/* Values [first, first + count) as f64, which holds them all. */
void ls_matrix_values(const ls_matrix_t *matrix, int64_t first, int64_t count, double *out);
static inline double ls_matrix_at(const ls_matrix_t *m, int64_t i) {
  double value;
  ls_matrix_values(m, i, 1, &value);
  return value;
}
/* Whether f32 may not hold every value. Pure. */
static inline bool ls_matrix_is_wide(const ls_matrix_t *m) {
  return m->row.dtype == LS_F64 || m->row.dtype == LS_I32;
}
/* Turns whole numbers into i32 unless they are u8 or u16. LS_ERR_DATA: a value that is not whole or does not
 * fit; LS_ERR_MEMORY. */
ls_status_t ls_matrix_whole(ls_ctx_t *ctx, const char *name, ls_matrix_t *matrix);
/* Checks that values are rows of an embedding: whole numbers of 0 to ids - 1. `before`: rows in front of these, for the
 * message. LS_ERR_DATA. */
ls_status_t ls_matrix_ids(ls_ctx_t *ctx, const char *name, const ls_matrix_t *matrix, int64_t before,
                          int64_t ids);

/* Readers of bytes in memory (`name` is for messages). */
ls_status_t ls_read_idx(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_matrix_t *out);
ls_status_t ls_read_npy(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_matrix_t *out);
/* labels.c: the texts that name classes, in the order of their bytes. Names are copied to the arena. */
typedef struct {
  const char *name;
  int64_t number;
} ls_label_t;
typedef struct {
  ls_arena_t *arena;
  int64_t most;    /* classes of the model */
  int64_t classes; /* class numbers are below it; 0: the caller checks */
  bool text;       /* cells are labels; else class numbers, as the first one with a value shows */
  bool closed;     /* no label may be added: they are those of the training file, or of a checkpoint */
  bool given;      /* .. of a checkpoint, whose names may be texts that stand for no value */
  const char *
      numbers; /* why cells are class numbers, follows "is not a finite number"; not NULL if closed and no text */
  ls_label_t *label; /* (count) sorted by name */
  int count, capacity;
} ls_labels_t;
/* The number of a label, which is added if it is new. LS_ERR_DATA, not reported: it may not be; LS_ERR_MEMORY. */
ls_status_t ls_labels_add(ls_labels_t *labels, const char *name, int64_t *number);
/* Makes numbers the places in the list, and changes `count` values from the old ones. */
ls_status_t ls_labels_close(ls_labels_t *labels, double *values, int64_t count);
ls_status_t ls_labels_give(ls_labels_t *labels, const ls_strings_t *given); /* a checkpoint's; may be none */
ls_status_t ls_labels_list(const ls_labels_t *labels, ls_strings_t *out);   /* in the arena */
/* Warns if the model has more classes than the training data have labels. For a checkpoint, training has warned
 * already. */
void ls_labels_warn(ls_ctx_t *ctx, const char *source, const ls_labels_t *labels);
/* CSV: RFC 4180 with header. Zeroed members have the meaning that their comments begin with. */
typedef struct {
  const char *name, *text; /* name: for messages */
  size_t size;
  char delimiter; /* 0: found in the header (csv_scan.h) */
  /* NULL or empty: every column that is not an ISO date in its first row; such columns are left out with a message. Else
   * the columns, in the order of the matrix. "NAME.weekday" and the like are parts of dates. */
  const ls_strings_t *want;
  const ls_strings_t *except; /* NULL: none. Else columns that are never taken */
  bool trained;               /* the columns are a checkpoint's: a missing one is LS_ERR_MISMATCH */
  bool targets;               /* the cells are targets, which always have a value */
  bool gaps;  /* a cell may have no value (empty, NA, N/A, NaN, nan, null, ?), which becomes NaN */
  bool fills; /* data.missing can be set, so errors advise it */
  bool parts; /* unnamed columns of dates become several */
  bool *
      ordered; /* NULL, or: rows follow each other in time: dates that do not ascend give a warning and set false */
  int64_t passed; /* lines of the file between the header and the first row here */
  ls_labels_t
      *labels; /* NULL, or: the cells of the one column are labels if there are some already, or if the first
                        * one with a value is no number */
} ls_csv_read_t;
/* Bad cells and rows are reported together, a line for each column and kind of fault (csv_faults.h). LS_ERR_DATA,
 * LS_ERR_MISMATCH, LS_ERR_MEMORY. */
ls_status_t ls_read_csv(ls_ctx_t *ctx, const ls_csv_read_t *read, ls_matrix_t *out);
/* The features of the section; the caller adds name, text and delimiter. */
ls_csv_read_t ls_csv_features(const ls_data_config_t *config, const ls_strings_t *except);
/* Targets and features of the section's file (labels->most 0: targets are no labels). Reports the faults of both. */
ls_status_t ls_read_csv_pair(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                             const ls_data_config_t *config, ls_labels_t *labels, ls_matrix_t *features,
                             ls_matrix_t *targets);

/* Reads a whole file of a configuration, and gunzips it if it begins with the gzip magic (truncation and trailing garbage are
 * errors). */
ls_status_t ls_read_bytes(ls_ctx_t *ctx, const char *path, char **bytes, size_t *size);

/* Below, `configured`: the path comes from a configuration, whose rule for relative paths a message about a missing file then
 * gives. A path of the command line needs none. */

/* A file's bytes, borrowed until the view is closed: mapped, or in memory if the file was packed. After reading a
 * view, ask ls_watch_check before using the values or reporting a fault in them. */
typedef struct {
  char *bytes; /* to be read only; not ended by a NUL */
  size_t size;
  ls_watch_t *mapped; /* NULL: in memory */
} ls_view_t;
ls_status_t ls_view_open(ls_ctx_t *ctx, const char *path, bool configured, ls_view_t *view);
void ls_view_close(ls_view_t *view);
/* For reading a view in one go: from ls_view_doubt on, this thread's messages are dropped once the file has faulted, because
 * they are about zeros. ls_view_end ends that, reports the fault and closes the view. Returns LS_ERR_IO then, else `status`. */
void ls_view_doubt(ls_ctx_t *ctx, const ls_view_t *view);
ls_status_t ls_view_end(ls_ctx_t *ctx, ls_view_t *view, ls_status_t status);

/* A list and its texts in the arena. LS_ERR_MEMORY. */
ls_status_t ls_strings_copy(ls_arena_t *arena, const ls_strings_t *from, ls_strings_t *to);

/* The files that `path` means: itself where it exists or has no wildcards, else all that match it (glob(7)), in the
 * order of their names. The list and its strings are in the arena. LS_ERR_NOT_FOUND, LS_ERR_IO. */
ls_status_t ls_files_find(ls_arena_t *arena, const char *path, bool configured, ls_strings_t *files);

/* The largest file, packed or not, that may be read: 16 GiB, and never more than half of this machine's
 * memory. Pure. */
size_t ls_read_limit(void);

/* The study's synthetic set; see docs/data.md for the recipe. */
ls_status_t ls_synthetic_make(ls_ctx_t *ctx, const ls_data_config_t *config, const ls_data_want_t *want,
                              ls_matrix_t *features, ls_matrix_t *targets);

#endif
