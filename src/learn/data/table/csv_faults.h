/* Bad cells and rows of a CSV file, gathered: a line for each column and kind of fault, with the place of the first, how many there
 * are and what they hold. */
#ifndef LS_DATA_CSV_FAULTS_H
#define LS_DATA_CSV_FAULTS_H

#include "data/table/csv_scan.h"

typedef enum {
  LS_CSV_FAULT_SHORT_ROW, /* fewer cells than the header */
  LS_CSV_FAULT_LONG_ROW,
  LS_CSV_FAULT_GAP,
  LS_CSV_FAULT_DATE,
  LS_CSV_FAULT_NUMBER,
  LS_CSV_FAULT_RANGE,
  LS_CSV_FAULT_COMMA,
  LS_CSV_FAULT_NO_DATE,
  LS_CSV_FAULT_LABEL,
  LS_CSV_FAULT_CLASS
} ls_csv_fault_kind_t;

enum { LS_CSV_FAULT_VALUES = 4 };
typedef struct ls_csv_fault {
  struct ls_csv_fault *next, *of_column; /* the next one found; the next of the same column */
  ls_csv_fault_kind_t kind;
  ls_csv_cell_t cell; /* the first */
  const char *text;   /* about it; NULL: it is new, and the finder sets it */
  int64_t count;
  ls_csv_cell_t value[LS_CSV_FAULT_VALUES]; /* different ones */
  int values;
  bool more; /* there are others */
} ls_csv_fault_t;

typedef struct {
  ls_arena_t *arena;
  ls_csv_fault_t *first, *last;
} ls_csv_faults_t;

/* Counts a fault in the list of its column, or of the rows. NULL: out of memory. */
ls_csv_fault_t *ls_csv_fault_note(ls_csv_faults_t *faults, ls_csv_fault_t **of_column,
                                  ls_csv_fault_kind_t kind, const ls_csv_cell_t *cell);
/* Reports the first ones, in the order in which they were found, and how many bad cells and rows the others have. Returns
 * LS_ERR_DATA, or LS_OK if there are none. */
ls_status_t ls_csv_faults_tell(const ls_csv_scan_t *scan, const ls_csv_faults_t *faults);

#endif
