/* The columns of a CSV file: what its header names, and which of them become columns of a matrix. */
#ifndef LS_DATA_CSV_COLUMNS_H
#define LS_DATA_CSV_COLUMNS_H

#include "data/table/csv_faults.h"
#include "data/table/number.h"

/* Whether the dates of a column ascend. */
typedef struct {
  double last_s;    /* of the row before */
  int64_t back, on; /* rows that are earlier than the row before, or later */
  ls_csv_cell_t first_back;
} ls_csv_order_t;

typedef struct {
  ls_csv_cell_t cell;
  const char *name, *shown; /* as shown in messages */
  bool except;              /* used by the caller for something else, or the first one, without a name */
  bool named;               /* requested by name: a date in it is an error, not a reason to leave it out */
  int64_t place;            /* column of the matrix, -1 = left out */
  /* For each part of its dates the column's index + 1 in the matrix; 0 = unused. */
  int64_t part[LS_DATE_PARTS];
  bool dated;             /* has a part in use */
  ls_csv_fault_t *faults; /* of its cells */
  ls_csv_order_t *order;  /* its first value is a date; NULL: it is none, or the caller does not ask */
  bool look;              /* its first cell with a value is wanted, and not found yet */
  ls_csv_cell_t first;
} ls_csv_column_t;

typedef struct {
  /* Set by the caller: an empty arena for names; whether, without names, columns of dates become parts. */
  ls_arena_t arena;
  bool dates;
  ls_csv_column_t *column;
  int64_t count;  /* of the file */
  int64_t chosen; /* of the matrix */
  int64_t after;  /* the column found last, and one more */
} ls_csv_columns_t;

/* Reads the header. Call release after a failure, too. */
ls_status_t ls_csv_columns_read(ls_csv_scan_t *scan, ls_csv_columns_t *columns);
void ls_csv_columns_release(ls_csv_columns_t *columns);
/* Chooses the columns named in `want`, whose names a checkpoint gives if `trained`, and marks those in `except` (NULL:
 * none) as the caller's. */
ls_status_t ls_csv_columns_choose(const ls_csv_scan_t *scan, ls_csv_columns_t *columns,
                                  const ls_strings_t *want, bool trained, const ls_strings_t *except);
/* Finds `first`, the first cell that is no gap, of the columns with `look`, which it clears for them. Consumes no row. */
ls_status_t ls_csv_columns_look(const ls_csv_scan_t *scan, ls_csv_columns_t *columns,
                                bool (*is_gap)(const ls_csv_cell_t *cell));
/* Without names: every column except the excluded ones and those whose first value is a date, of which parts may be
 * features. Consumes no row. LS_ERR_DATA: nothing is left, or a column has the name of such a part. */
ls_status_t ls_csv_columns_by_value(const ls_csv_scan_t *scan, ls_csv_columns_t *columns);
/* Gives `order` to all columns whose first value is a date, features or not. Consumes no row. */
ls_status_t ls_csv_columns_dates(const ls_csv_scan_t *scan, ls_csv_columns_t *columns);
/* Warns if there are dates, but no column of them ascends. False: it has. */
bool ls_csv_columns_ascend(const ls_csv_scan_t *scan, const ls_csv_columns_t *columns);
/* The chosen columns' names in the order of the matrix: pointers, then the texts, one block (ls_free). */
ls_status_t ls_csv_columns_names(ls_ctx_t *ctx, const ls_csv_columns_t *columns, char ***names);

#endif
