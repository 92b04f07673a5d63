/* CSV to a matrix: every cell of a chosen column (csv_columns.h) is a number, a label or a date. Bad cells and rows are
 * reported together, the first ones each with its place. An error in the text itself (a quote out of place) ends the
 * reading. */
#include "data/parts.h"
#include "data/table/csv_columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_TEXT_BYTES = 44, FIRST_VALUES = 4096 };

typedef struct {
  ls_ctx_t *ctx;
  ls_csv_read_t how;
  ls_csv_scan_t scan;
  bool rows_known; /* another table of the file reports rows of another length */
  ls_csv_columns_t columns;
  double *values; /* (rows, chosen), room for capacity values */
  int64_t capacity, rows;
  ls_csv_faults_t faults;
  ls_csv_fault_t *bad_rows;
  double least, greatest; /* of the class numbers */
} table_t;

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

/* Advice for a cell that is no number. */
static const char *remedy(const table_t *t, const ls_csv_column_t *c, const ls_csv_cell_t *cell) {
  bool gap = ls_csv_is_gap(cell), date = ls_number_is_date(cell->text, cell->len);
  if (t->how.targets && gap) return ", and a target is never missing: remove the row";
  if (t->how.fills && gap) return "; data.missing: mean fills it";
  if (t->how.labels) return t->how.labels->numbers;
  if (t->how.targets) return "; with loss: cross-entropy texts of one target column are classes";
  if (t->how.fills && c->named && date) return "; name parts of it in data.columns, such as NAME.weekday";
  return c->named ? "" : "; to leave the column out, name the ones to use";
}

/* Counts a bad cell, and keeps what is said of the first of its kind in the column. LS_ERR_MEMORY. */
static ls_status_t LS_PRINTF(5, 6) note(table_t *t, ls_csv_fault_t **of_column, ls_csv_fault_kind_t kind,
                                        const ls_csv_cell_t *cell, const char *fmt, ...) {
  char text[768];
  ls_csv_fault_t *f = ls_csv_fault_note(&t->faults, of_column, kind, cell);
  if (!f) return LS_ERR_MEMORY;
  if (f->text) return LS_OK;
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return (f->text = ls_arena_strdup(&t->columns.arena, text)) ? LS_OK : LS_ERR_MEMORY;
}

static ls_status_t refuse_cell(table_t *t, ls_csv_column_t *c, const ls_csv_cell_t *cell, ls_number_t fault) {
  char text[CELL_TEXT_BYTES];
  ls_text_shown(cell->text, cell->len, text, sizeof text);
  if (cell->len == 0)
    return note(t, &c->faults, LS_CSV_FAULT_GAP, cell,
                "column '%.200s': empty cell where a number is needed%s", c->shown, remedy(t, c, cell));
  if (ls_number_is_date(cell->text, cell->len))
    return note(t, &c->faults, LS_CSV_FAULT_DATE, cell, "column '%.200s': a date is not a number: '%s'%s",
                c->shown, text, remedy(t, c, cell));
  if (fault == LS_NUMBER_RANGE)
    return note(t, &c->faults, LS_CSV_FAULT_RANGE, cell,
                "column '%.200s': '%s' is too large for a 32-bit float", c->shown, text);
  if (has_decimal_comma(t, cell))
    return note(
        t, &c->faults, LS_CSV_FAULT_COMMA, cell,
        "column '%.200s': '%s' has a decimal comma, and numbers need a decimal point: \"sed 's/,/./g' "
        "OLD > NEW\" replaces all commas of a file",
        c->shown, text);
  return note(t, &c->faults, ls_csv_is_gap(cell) ? LS_CSV_FAULT_GAP : LS_CSV_FAULT_NUMBER, cell,
              "column '%.200s': '%s' is not a finite number%s%s", c->shown, text,
              memchr(cell->text, ',', cell->len) ? ", whose decimals follow a point" : "",
              remedy(t, c, cell));
}

static ls_status_t refuse_label(table_t *t, ls_csv_column_t *c, const ls_csv_cell_t *cell, bool text) {
  char shown[CELL_TEXT_BYTES], why[LS_CSV_GAP_TEXT_BYTES];
  ls_text_shown(cell->text, cell->len, shown, sizeof shown);
  if (ls_csv_is_label_gap(cell))
    return note(t, &c->faults, LS_CSV_FAULT_GAP, cell, "column '%.200s': %s", c->shown,
                ls_csv_gap_text(cell, why));
  if (!text)
    return note(t, &c->faults, LS_CSV_FAULT_NUMBER, cell, "column '%.200s': the label is not UTF-8",
                c->shown);
  if (t->how.labels->closed)
    return note(t, &c->faults, LS_CSV_FAULT_LABEL, cell,
                "column '%.200s': label '%s' is none of the %d that the model was trained on", c->shown,
                shown, t->how.labels->count);
  return note(t, &c->faults, LS_CSV_FAULT_LABEL, cell,
              "column '%.200s': '%s' is label number %d, but the model's last layer has %" PRId64 " unit%s",
              c->shown, shown, t->how.labels->count + 1, t->how.labels->most, LS_PLURAL(t->how.labels->most));
}

/* Puts a label's number into *value. A text that means a missing value is a label only if a checkpoint has it. */
static ls_status_t read_label(table_t *t, ls_csv_column_t *c, const ls_csv_cell_t *cell, double *value) {
  int64_t number = 0;
  const char *name = ls_csv_cell_text(&t->columns.arena, cell);
  if (!name) return LS_ERR_MEMORY;
  bool text = cell->len > 0 && *name && ls_text_utf8(name) && !memchr(cell->text, '\0', cell->len);
  bool gap = ls_csv_is_label_gap(cell);
  ls_status_t status =
      text && (!gap || t->how.labels->given) ? ls_labels_add(t->how.labels, name, &number) : LS_ERR_DATA;
  *value = (double)number;
  return status == LS_ERR_DATA ? refuse_label(t, c, cell, text) : status;
}

/* Class numbers are checked here, where their lines are known. */
static ls_status_t check_class(table_t *t, ls_csv_column_t *c, const ls_csv_cell_t *cell, double number) {
  const int64_t classes = t->how.labels->classes;
  if (number < t->least) t->least = number;
  if (number > t->greatest) t->greatest = number;
  if (number >= 0 && number < (double)classes && number == floor(number)) return LS_OK;
  if (number != floor(number))
    return note(t, &c->faults, LS_CSV_FAULT_NUMBER, cell,
                "column '%.200s': target %g is not a class number: use loss: mse for real targets", c->shown,
                number);
  return note(t, &c->faults, LS_CSV_FAULT_CLASS, cell,
              "column '%.200s': class %.0f, but the model's last layer has %" PRId64
              " unit%s: classes are 0 to %" PRId64,
              c->shown, number, classes, LS_PLURAL(classes), classes - 1);
}

/* Notes a row whose length differs from the header's, and skips the rest of it. */
static ls_status_t refuse_ragged(table_t *t, ls_csv_cell_t *cell, int64_t cells) {
  ls_status_t status = LS_OK;
  if (!t->rows_known && cells > t->columns.count)
    status = note(t, &t->bad_rows, LS_CSV_FAULT_LONG_ROW, cell,
                  "this row has more cells than the header's %" PRId64, t->columns.count);
  else if (!t->rows_known)
    status = note(t, &t->bad_rows, LS_CSV_FAULT_SHORT_ROW, cell,
                  "this row has %" PRId64 " of the header's %" PRId64 " cells", cells, t->columns.count);
  while (status == LS_OK && !cell->last)
    status = ls_csv_scan_cell(&t->scan, cell);
  return status;
}

static ls_status_t read_date(table_t *t, ls_csv_column_t *c, const ls_csv_cell_t *cell, double *row) {
  double part[LS_DATE_PARTS];
  bool timed, gap = t->how.gaps && ls_csv_is_gap(cell),
              good = gap || ls_number_date(cell->text, cell->len, part, &timed);
  char text[CELL_TEXT_BYTES];
  for (int k = 0; k < LS_DATE_PARTS && good; k++)
    if (c->part[k] > 0) row[c->part[k] - 1] = gap ? NAN : part[k];
  if (good) return LS_OK;
  return note(t, &c->faults, ls_csv_is_gap(cell) ? LS_CSV_FAULT_GAP : LS_CSV_FAULT_NO_DATE, cell,
              "column '%.200s': '%s' is no date: YYYY-MM-DD was expected, with or without a time%s", c->shown,
              ls_text_shown(cell->text, cell->len, text, sizeof text),
              ls_csv_is_gap(cell) ? remedy(t, c, cell) : "");
}

static void look_at_order(ls_csv_order_t *order, const ls_csv_cell_t *cell) {
  if (!ls_number_is_date(cell->text, cell->len)) return;
  const double at_s = ls_number_seconds(cell->text, cell->len);
  order->on += at_s > order->last_s && isfinite(order->last_s);
  if (at_s < order->last_s && order->back++ == 0) order->first_back = *cell;
  order->last_s = at_s;
}

static ls_status_t read_cell(table_t *t, ls_csv_column_t *c, const ls_csv_cell_t *cell, double *row) {
  if (c->order) look_at_order(c->order, cell);
  if (c->dated) {
    ls_status_t status = read_date(t, c, cell, row);
    if (status != LS_OK) return status;
  }
  if (c->place < 0) return LS_OK;
  double *value = &row[c->place];
  if (t->how.labels && t->how.labels->text) return read_label(t, c, cell, value);
  if (t->how.gaps && ls_csv_is_gap(cell)) {
    *value = NAN;
    return LS_OK;
  }
  ls_number_t fault = ls_number_parse(cell->text, cell->len, value);
  if (fault != LS_NUMBER_OK) return refuse_cell(t, c, cell, fault);
  return t->how.labels && t->how.labels->classes > 0 ? check_class(t, c, cell, *value) : LS_OK;
}

/* Reads one row into `row` (chosen values). Faults of its cells are noted; a status is returned only if the next row
 * cannot be found. */
static ls_status_t read_row(table_t *t, double *row) {
  for (int64_t i = 0;; i++) {
    ls_csv_cell_t cell;
    ls_status_t status = ls_csv_scan_cell(&t->scan, &cell);
    if (status != LS_OK) return status;
    if (cell.last != (i + 1 == t->columns.count)) return refuse_ragged(t, &cell, cell.last ? i + 1 : i + 2);
    status = read_cell(t, &t->columns.column[i], &cell, row);
    if (status != LS_OK || cell.last) return status;
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

/* Reads every row; after a fault, rows are only checked. */
static ls_status_t read_rows(table_t *t) {
  ls_status_t status = LS_OK;
  while (status == LS_OK && !ls_csv_scan_done(&t->scan)) {
    status = grow(t);
    if (status == LS_OK) status = read_row(t, t->values + t->rows * t->columns.chosen);
    if (!t->faults.first) t->rows++;
  }
  return status;
}

/* Reports what was noted. LS_ERR_DATA: something was. */
static ls_status_t tell(table_t *t) {
  char remedy[LS_CLASS_REMEDY_BYTES];
  for (ls_csv_fault_t *f = t->faults.first; f; f = f->next)
    if (f->kind == LS_CSV_FAULT_CLASS) {
      ls_class_remedy(t->least, t->greatest, t->how.labels->classes, remedy);
      if (!(f->text = ls_arena_printf(&t->columns.arena, "%s%s", f->text, remedy))) return LS_ERR_MEMORY;
    }
  return ls_csv_faults_tell(&t->scan, &t->faults);
}

/* Whether labels are texts: as the first one with a value. Class numbers are so in other files, too. */
static ls_status_t look_at_labels(table_t *t) {
  ls_labels_t *l = t->how.labels;
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

/* If the user names no columns and some cannot be features: lists the others, in the form of the option. */
static void tell_numbers(const table_t *t, const ls_strings_t *want) {
  char list[LS_NAMES_TEXT_BYTES];
  size_t used = 0;
  int bad = 0;
  for (int64_t i = 0; i < t->columns.count; i++) {
    const ls_csv_column_t *c = &t->columns.column[i];
    bad += c->faults != NULL;
    if (c->place < 0 || c->faults) continue;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%s\"", used ? ", " : "", c->shown);
    if (used >= sizeof list) return;
  }
  if (want->count == 0 && bad > 0 && used > 0)
    ls_log(t->ctx, LS_LOG_INFO, "%s: columns of numbers alone: data.columns: [%s]", t->scan.name, list);
}

/* Reads the header and chooses columns. What was opened is closed by close_table, also after a failure. */
static ls_status_t open_table(table_t *t) {
  const ls_csv_read_t *how = &t->how;
  ls_arena_init(&t->columns.arena, t->ctx);
  t->columns.dates = how->parts;
  t->faults.arena = &t->columns.arena;
  t->least = INFINITY;
  t->greatest = -INFINITY;
  ls_status_t status = ls_csv_scan_begin(t->ctx, how->name, how->text, how->size, how->delimiter, &t->scan);
  if (status == LS_OK) status = ls_csv_columns_read(&t->scan, &t->columns);
  t->scan.line += how->passed;
  if (status == LS_OK)
    status = ls_csv_columns_choose(&t->scan, &t->columns, how->want, how->trained, how->except);
  if (status != LS_OK) return status;
  if (ls_csv_scan_done(&t->scan))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: there are no rows below the header", t->scan.name);
  if (!how->want || how->want->count == 0) status = ls_csv_columns_by_value(&t->scan, &t->columns);
  if (status == LS_OK && how->ordered) status = ls_csv_columns_dates(&t->scan, &t->columns);
  return status == LS_OK && how->labels ? look_at_labels(t) : status;
}

/* The values as a matrix; they are taken or freed. */
static ls_status_t take_table(table_t *t, ls_matrix_t *out) {
  ls_matrix_t made = {.rows = t->rows,
                      .cols = t->columns.chosen,
                      .named = t->columns.chosen,
                      .row = LS_SHAPE(LS_F64, t->columns.chosen)};
  ls_status_t status =
      t->how.labels && t->how.labels->text ? ls_labels_close(t->how.labels, t->values, t->rows) : LS_OK;
  if (status == LS_OK) status = ls_csv_columns_names(t->ctx, &t->columns, &made.names);
  if (status != LS_OK) return status;
  status = ls_matrix_take(t->ctx, t->values, &made);
  t->values = NULL;
  if (status == LS_OK) *out = made;
  return status;
}

static void close_table(table_t *t) {
  ls_free(t->values);
  ls_csv_columns_release(&t->columns);
}

ls_status_t ls_read_csv(ls_ctx_t *ctx, const ls_csv_read_t *read, ls_matrix_t *out) {
  table_t t = {.ctx = ctx, .how = *read};
  ls_status_t status = open_table(&t);
  if (status == LS_OK) status = read_rows(&t);
  const ls_status_t faults = tell(&t);
  if (status == LS_OK) status = faults;
  if (status == LS_OK && read->ordered)
    *read->ordered = ls_csv_columns_ascend(&t.scan, &t.columns) && *read->ordered;
  if (status == LS_OK) status = take_table(&t, out);
  close_table(&t);
  return status;
}

ls_csv_read_t ls_csv_features(const ls_data_config_t *config, const ls_strings_t *except) {
  return (ls_csv_read_t){.want = &config->columns,
                         .except = except,
                         .trained = config->columns_trained,
                         .gaps = config->missing != LS_MISSING_ERROR,
                         .fills = !config->columns_trained,
                         .parts = config->dates == LS_DATES_PARTS};
}

/* The faults of both sides are reported before any of them ends the reading. */
ls_status_t ls_read_csv_pair(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                             const ls_data_config_t *config, ls_labels_t *labels, ls_matrix_t *features,
                             ls_matrix_t *targets) {
  bool ordered = true;
  table_t y = {.ctx = ctx, .how = {name, text, size, delimiter, &config->target, .targets = true}},
          x = {.ctx = ctx, .how = ls_csv_features(config, NULL)};
  y.how.labels = labels->most > 0 ? labels : NULL;
  x.how.name = name;
  x.how.text = text;
  x.how.size = size;
  x.how.delimiter = delimiter;
  x.how.ordered = config->window > 0 ? &ordered : NULL;
  ls_status_t status = open_table(&y);
  /* A window's own targets are known by the time of a later one. */
  const bool known = config->window > 0 && config->horizon > 0 && !labels->text;
  x.how.except = known ? NULL : &config->target;
  if (status == LS_OK) status = open_table(&x);
  if (status == LS_OK) status = read_rows(&y);
  x.rows_known = true;
  if (status == LS_OK) status = read_rows(&x);
  ls_status_t faults = tell(&y);
  faults = ls_worse(faults, tell(&x));
  tell_numbers(&x, &config->columns);
  if (status == LS_OK) status = faults;
  if (status == LS_OK) ls_csv_columns_ascend(&x.scan, &x.columns);
  if (status == LS_OK) status = take_table(&y, targets);
  if (status == LS_OK) status = take_table(&x, features);
  close_table(&y);
  close_table(&x);
  return status;
}
