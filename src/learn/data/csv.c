/* CSV to a matrix: every cell of a chosen column (csv_columns.h) is a number, a label or a date. Bad cells and rows are
 * reported together, the first ones each with its place. An error in the text itself (a quote out of place) ends the
 * reading. */
#include "data/csv_columns.h"
#include "data/read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_TEXT_BYTES = 44, FIRST_VALUES = 4096, FAULTS_SHOWN = 10 };

typedef struct {
  ls_ctx_t *ctx;
  ls_csv_scan_t scan;
  int64_t passed;      /* lines of the file between the header and the first row here */
  ls_labels_t *labels; /* of the chosen column; NULL: numbers alone */
  bool gaps;           /* cells may have no value: NaN */
  bool fills;          /* data.missing can be set, so errors advise it */
  bool targets;        /* cells are targets, labels or not */
  ls_csv_columns_t columns;
  double *values; /* (rows, chosen), room for capacity values */
  int64_t capacity, rows;
  int64_t faults; /* number of bad cells and rows so far; the first FAULTS_SHOWN are reported */
} table_t;

/* True for errors that are reported one by one. */
static bool speaks(table_t *t) {
  return t->faults++ < FAULTS_SHOWN;
}

/* A number apart from one comma, at which no cell ends. */
static bool has_decimal_comma(const table_t *t, const ls_csv_cell_t *cell) {
  char text[CELL_TEXT_BYTES];
  double unused;
  char *comma = cell->len < sizeof text ? memchr(cell->text, ',', cell->len) : NULL;
  if (!comma || t->scan.delimiter == ',') return false;
  memcpy(text, cell->text, cell->len);
  text[comma - cell->text] = '.';
  return ls_number_parse(text, cell->len, &unused) == LS_NUMBER_OK;
}

/* What helps where a number is needed. */
static const char *remedy(const table_t *t, const ls_csv_column_t *c, const ls_csv_cell_t *cell) {
  bool gap = ls_csv_is_gap(cell), date = ls_number_is_date(cell->text, cell->len);
  if (t->targets && gap) return ", and a target is never missing: remove the row";
  if (t->fills && gap) return "; data.missing: mean fills it";
  if (t->labels) return t->labels->numbers;
  if (t->targets) return "; with loss: cross-entropy texts of one target column are classes";
  if (t->fills && c->named && date) return "; name parts of it in data.columns, such as NAME.weekday";
  return c->named ? "" : "; to leave the column out, name the ones to use";
}

static void refuse_cell(table_t *t, const ls_csv_column_t *c, const ls_csv_cell_t *cell, ls_number_t fault) {
  char text[CELL_TEXT_BYTES];
  if (!speaks(t)) return;
  ls_text_shown(cell->text, cell->len, text, sizeof text);
  if (cell->len == 0)
    ls_csv_fail(&t->scan, cell, "column '%.200s': empty cell where a number is needed%s", c->shown,
                remedy(t, c, cell));
  else if (ls_number_is_date(cell->text, cell->len))
    ls_csv_fail(&t->scan, cell, "column '%.200s': a date is not a number: '%s'%s", c->shown, text,
                remedy(t, c, cell));
  else if (fault == LS_NUMBER_RANGE)
    ls_csv_fail(&t->scan, cell, "column '%.200s': '%s' is too large for a 32-bit float", c->shown, text);
  else if (has_decimal_comma(t, cell))
    ls_csv_fail(
        &t->scan, cell,
        "column '%.200s': '%s' has a decimal comma, and numbers need a decimal point: \"sed 's/,/./g' "
        "OLD > NEW\" replaces all commas of a file",
        c->shown, text);
  else
    ls_csv_fail(&t->scan, cell, "column '%.200s': '%s' is not a finite number%s%s", c->shown, text,
                memchr(cell->text, ',', cell->len) ? ", whose decimals follow a point" : "",
                remedy(t, c, cell));
}

/* A label's number into *value. One that stands for no value is a label only if a checkpoint has it. */
static ls_status_t read_label(table_t *t, const ls_csv_column_t *c, const ls_csv_cell_t *cell,
                              double *value) {
  int64_t number = 0;
  char shown[CELL_TEXT_BYTES], why[LS_CSV_GAP_TEXT_BYTES];
  const char *name = ls_csv_cell_text(&t->columns.arena, cell);
  if (!name) return LS_ERR_MEMORY;
  bool text = cell->len > 0 && *name && ls_text_utf8(name) && !memchr(cell->text, '\0', cell->len);
  bool gap = ls_csv_is_label_gap(cell);
  ls_status_t status =
      text && (!gap || t->labels->given) ? ls_labels_add(t->labels, name, &number) : LS_ERR_DATA;
  *value = (double)number;
  if (status != LS_ERR_DATA || !speaks(t)) return status == LS_ERR_DATA ? LS_OK : status;
  ls_text_shown(cell->text, cell->len, shown, sizeof shown);
  if (gap)
    ls_csv_fail(&t->scan, cell, "column '%.200s': %s", c->shown, ls_csv_gap_text(cell, why));
  else if (!text)
    ls_csv_fail(&t->scan, cell, "column '%.200s': the label is not UTF-8", c->shown);
  else if (t->labels->closed)
    ls_csv_fail(&t->scan, cell, "column '%.200s': label '%s' is none of the %d that the model was trained on",
                c->shown, shown, t->labels->count);
  else
    ls_csv_fail(&t->scan, cell,
                "column '%.200s': '%s' is label number %d, but the model's last layer has %" PRId64 " unit%s",
                c->shown, shown, t->labels->count + 1, t->labels->most, LS_PLURAL(t->labels->most));
  return LS_OK;
}

/* Reports a row whose length differs from the header's, and skips the rest of it. */
static ls_status_t refuse_ragged(table_t *t, ls_csv_cell_t *cell, int64_t cells) {
  bool first = speaks(t);
  if (first && cells > t->columns.count)
    ls_csv_fail(&t->scan, cell, "this row has more cells than the header's %" PRId64, t->columns.count);
  else if (first)
    ls_csv_fail(&t->scan, cell, "this row has %" PRId64 " of the header's %" PRId64 " cells", cells,
                t->columns.count);
  ls_status_t status = LS_OK;
  while (status == LS_OK && !cell->last)
    status = ls_csv_scan_cell(&t->scan, cell);
  return status;
}

static void read_date(table_t *t, const ls_csv_column_t *c, const ls_csv_cell_t *cell, double *row) {
  double part[LS_DATE_PARTS];
  bool timed, gap = t->gaps && ls_csv_is_gap(cell),
              good = gap || ls_number_date(cell->text, cell->len, part, &timed);
  char text[CELL_TEXT_BYTES];
  for (int k = 0; k < LS_DATE_PARTS && good; k++)
    if (c->part[k] > 0) row[c->part[k] - 1] = gap ? NAN : part[k];
  if (!good && speaks(t))
    ls_csv_fail(&t->scan, cell,
                "column '%.200s': '%s' is no date: YYYY-MM-DD was expected, with or without a time%s",
                c->shown, ls_text_shown(cell->text, cell->len, text, sizeof text),
                ls_csv_is_gap(cell) ? remedy(t, c, cell) : "");
}

/* Reads one row into `row` (chosen values). Errors in its cells are reported and counted; a status is
 * returned only if the next row cannot be found. */
static ls_status_t read_row(table_t *t, double *row) {
  for (int64_t i = 0;; i++) {
    ls_csv_cell_t cell;
    ls_status_t status = ls_csv_scan_cell(&t->scan, &cell);
    if (status != LS_OK) return status;
    if (cell.last != (i + 1 == t->columns.count)) return refuse_ragged(t, &cell, cell.last ? i + 1 : i + 2);
    const ls_csv_column_t *c = &t->columns.column[i];
    if (c->dated) read_date(t, c, &cell, row);
    if (c->place >= 0 && t->labels && t->labels->text) {
      if ((status = read_label(t, c, &cell, &row[c->place]))) return status;
    } else if (c->place >= 0 && t->gaps && ls_csv_is_gap(&cell)) {
      row[c->place] = NAN;
    } else if (c->place >= 0) {
      ls_number_t fault = ls_number_parse(cell.text, cell.len, &row[c->place]);
      if (fault != LS_NUMBER_OK) refuse_cell(t, c, &cell, fault);
    }
    if (cell.last) return LS_OK;
  }
}

static ls_status_t grow(table_t *t) {
  int64_t used = t->rows * t->columns.chosen;
  if (t->capacity - used >= t->columns.chosen) return LS_OK;
  int64_t capacity = t->capacity ? t->capacity * 2 : FIRST_VALUES;
  if (capacity < used + t->columns.chosen) capacity = used + t->columns.chosen;
  double *values = ls_realloc_array(t->ctx, t->values, (size_t)capacity, sizeof *values);
  if (!values) return LS_ERR_MEMORY;
  t->values = values;
  t->capacity = capacity;
  return LS_OK;
}

/* Reads every row; after an error, rows are only checked. */
static ls_status_t read_rows(table_t *t) {
  ls_status_t status = LS_OK;
  while (status == LS_OK && !ls_csv_scan_done(&t->scan)) {
    status = grow(t);
    if (status == LS_OK) status = read_row(t, t->values + t->rows * t->columns.chosen);
    if (t->faults == 0) t->rows++;
  }
  if (t->faults > FAULTS_SHOWN)
    ls_fail(t->ctx, LS_ERR_DATA, "%s: and %" PRId64 " more bad cells or rows", t->scan.name,
            t->faults - FAULTS_SHOWN);
  return status == LS_OK && t->faults > 0 ? LS_ERR_DATA : status;
}

/* Whether labels are texts: as the first one with a value. Class numbers are so in other files, too. */
static ls_status_t look_at_labels(table_t *t) {
  ls_labels_t *l = t->labels;
  ls_csv_cell_t label = {.text = NULL};
  char shown[CELL_TEXT_BYTES];
  double unused;
  if (l->closed) return LS_OK;
  for (int64_t i = 0; i < t->columns.count; i++)
    t->columns.column[i].look = t->columns.column[i].place >= 0;
  ls_status_t status = ls_csv_columns_look(&t->scan, &t->columns, ls_csv_is_label_gap);
  if (status != LS_OK) return status;
  for (int64_t i = 0; i < t->columns.count; i++)
    if (t->columns.column[i].place >= 0) label = t->columns.column[i].first;
  l->text = label.text && ls_number_parse(label.text, label.len, &unused) == LS_NUMBER_BAD;
  if (l->text || !label.text) return LS_OK;
  ls_text_shown(label.text, label.len, shown, sizeof shown);
  l->closed = true;
  l->numbers = ls_arena_printf(l->arena,
                               ", but the first label is one ('%s' in line %" PRId64
                               " of %s): give class numbers alone, or texts alone",
                               shown, label.line, t->scan.name);
  return l->numbers ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t read_table(table_t *t, const ls_strings_t *want, bool trained,
                              const ls_strings_t *except) {
  ls_status_t status = ls_csv_columns_read(&t->scan, &t->columns);
  t->scan.line += t->passed;
  if (status == LS_OK) status = ls_csv_columns_choose(&t->scan, &t->columns, want, trained, except);
  if (status != LS_OK) return status;
  if (ls_csv_scan_done(&t->scan))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: there are no rows below the header", t->scan.name);
  if (!want || want->count == 0) status = ls_csv_columns_by_value(&t->scan, &t->columns);
  if (status == LS_OK && t->labels) status = look_at_labels(t);
  if (status == LS_OK) status = read_rows(t);
  return status == LS_OK && t->labels && t->labels->text ? ls_labels_close(t->labels, t->values, t->rows)
                                                         : status;
}

static ls_status_t read_text(table_t *start, const char *name, const char *text, size_t size, char delimiter,
                             const ls_strings_t *want, bool trained, const ls_strings_t *except,
                             ls_matrix_t *out) {
  table_t t = *start;
  ls_ctx_t *ctx = t.ctx;
  ls_arena_init(&t.columns.arena, ctx);
  ls_status_t status = ls_csv_scan_begin(ctx, name, text, size, delimiter, &t.scan);
  if (status == LS_OK) status = read_table(&t, want, trained, except);
  ls_matrix_t made = {.rows = t.rows,
                      .cols = t.columns.chosen,
                      .named = t.columns.chosen,
                      .row = LS_SHAPE(LS_F64, t.columns.chosen)};
  if (status == LS_OK) status = ls_csv_columns_names(ctx, &t.columns, &made.names);
  if (status != LS_OK) goto free_values;
  status = ls_matrix_take(ctx, t.values, &made);
  if (status == LS_OK) *out = made;
  goto free_header;

free_values:
  ls_free(t.values);
free_header:
  ls_csv_columns_release(&t.columns);
  return status;
}

ls_status_t ls_read_csv(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                        const ls_strings_t *want, bool trained, const ls_strings_t *except,
                        ls_matrix_t *out) {
  table_t t = {.ctx = ctx, .targets = want && want->count > 0};
  return read_text(&t, name, text, size, delimiter, want, trained, except, out);
}

ls_status_t ls_read_csv_after(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                              const ls_strings_t *want, bool trained, bool gaps, int64_t passed,
                              ls_matrix_t *out) {
  table_t t = {.ctx = ctx, .passed = passed, .gaps = gaps};
  return read_text(&t, name, text, size, delimiter, want, trained, NULL, out);
}

ls_status_t ls_read_csv_features(ls_ctx_t *ctx, const char *name, const char *text, size_t size,
                                 char delimiter, const ls_data_config_t *config, const ls_strings_t *except,
                                 ls_matrix_t *out) {
  table_t t = {.ctx = ctx,
               .gaps = config->missing != LS_MISSING_ERROR,
               .fills = !config->columns_trained,
               .columns.dates = config->dates == LS_DATES_PARTS};
  return read_text(&t, name, text, size, delimiter, &config->columns, config->columns_trained, except, out);
}

ls_status_t ls_read_csv_labels(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                               const ls_strings_t *want, ls_labels_t *labels, ls_matrix_t *out) {
  table_t t = {.ctx = ctx, .labels = labels, .targets = true};
  return read_text(&t, name, text, size, delimiter, want, false, NULL, out);
}
