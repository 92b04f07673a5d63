/* CSV to a matrix: the header names the columns, names choose columns, every chosen cell is a number. Bad
 * cells and rows are reported together, the first ones each with its place. An error in the text itself (a
 * quote out of place) ends the reading. */
#include "data/csv_scan.h"
#include "data/number.h"
#include "data/read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_TEXT_BYTES = 44, FIRST_VALUES = 4096, FAULTS_SHOWN = 10 };

typedef struct {
  ls_csv_cell_t cell;
  const char *name, *shown; /* as shown in messages */
  bool except;              /* used by the caller for something else */
  bool named;               /* requested by name: a date in it is an error, not a reason to leave it out */
  int64_t place;            /* column of the matrix, -1 = left out */
  int64_t
      part[LS_DATE_PARTS]; /* columns of the matrix and one more, of the parts of its dates; 0 = left out */
  bool dated;              /* one of them is not */
} column_t;

typedef struct {
  ls_ctx_t *ctx;
  ls_csv_scan_t scan;
  int64_t passed;      /* lines of the file between the header and the first row here */
  ls_labels_t *labels; /* of the chosen column; NULL: numbers alone */
  bool gaps;           /* cells may have no value: NaN */
  bool fills;          /* .. if data.missing said so */
  bool targets;        /* cells are targets, labels or not */
  bool dates;          /* without names, columns of dates become parts */
  ls_arena_t arena;
  column_t *columns;
  int64_t count;  /* columns of the file */
  int64_t chosen; /* columns of the matrix */
  int64_t after;  /* the column found last, and one more */
  double *values; /* (rows, chosen), room for capacity values */
  int64_t capacity, rows;
  int64_t faults; /* number of bad cells and rows so far; the first FAULTS_SHOWN are reported */
} table_t;

static char *cell_name(ls_arena_t *arena, const ls_csv_cell_t *cell) {
  char *name = ls_arena_strndup(arena, cell->text, cell->len), *to = name;
  if (!name || !cell->doubled) return name;
  for (const char *from = name; *from; from++) {
    *to++ = *from;
    if (from[0] == '"' && from[1] == '"') from++;
  }
  *to = '\0';
  return name;
}

static int by_name(const void *a, const void *b) {
  const column_t *x = *(const column_t *const *)a, *y = *(const column_t *const *)b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->cell.begin > y->cell.begin) - (x->cell.begin < y->cell.begin);
}

static ls_status_t check_names(table_t *t) {
  const column_t **sorted = ls_alloc_array(t->ctx, (size_t)t->count, sizeof *sorted);
  if (!sorted) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < t->count; i++)
    sorted[i] = &t->columns[i];
  qsort(sorted, (size_t)t->count, sizeof *sorted, by_name);
  ls_status_t status = LS_OK;
  for (int64_t i = 1; i < t->count && status == LS_OK; i++)
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      status = ls_csv_fail(
          &t->scan, &sorted[i]->cell, "columns %" PRId64 " and %" PRId64 " are both named '%.200s'",
          (int64_t)(sorted[i - 1] - t->columns) + 1, (int64_t)(sorted[i] - t->columns) + 1, sorted[i]->shown);
  ls_free(sorted);
  return status;
}

static ls_status_t read_header(table_t *t) {
  if (ls_csv_scan_done(&t->scan))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: the file is empty: a header with column names is needed",
                   t->scan.name);
  int64_t capacity = 0;
  for (bool last = false; !last;) {
    if (t->count == capacity) {
      capacity = capacity ? capacity * 2 : 16;
      column_t *columns = ls_realloc_array(t->ctx, t->columns, (size_t)capacity, sizeof *columns);
      if (!columns) return LS_ERR_MEMORY;
      t->columns = columns;
    }
    column_t *c = &t->columns[t->count];
    *c = (column_t){.place = -1};
    ls_status_t status = ls_csv_scan_cell(&t->scan, &c->cell);
    if (status != LS_OK) return status;
    last = c->cell.last;
    t->count++;
    if (c->cell.len == 0)
      return ls_csv_fail(&t->scan, &c->cell, "column %" PRId64 " of the header has no name", t->count);
    if (memchr(c->cell.text, '\0', c->cell.len))
      return ls_csv_fail(&t->scan, &c->cell, "a column name holds a zero byte: is this text?");
    if (!(c->name = cell_name(&t->arena, &c->cell))) return LS_ERR_MEMORY;
    if (!(c->shown = ls_arena_shown(&t->arena, c->name))) return LS_ERR_MEMORY;
    if (!ls_text_utf8(c->name))
      return ls_csv_fail(&t->scan, &c->cell, "the header is not UTF-8: save the file as UTF-8");
  }
  return check_names(t);
}

/* Reports a header that may have been cut at the wrong character. */
static const char *delimiter_hint(const table_t *t, char text[160]) {
  char used[8], other[8];
  ls_csv_delimiter_text(t->scan.delimiter, used);
  if (t->scan.other)
    snprintf(text, 160,
             " (cut at %s; it also holds %s: if that separates the cells, --set data.delimiter=%s)", used,
             ls_csv_delimiter_text(t->scan.other, other), other);
  else
    snprintf(text, 160, " (cut at %s)", used);
  return text;
}

static ls_status_t refuse_unknown(table_t *t, const char *name, bool trained) {
  const char **names = ls_arena_array(&t->arena, (size_t)t->count + 1, sizeof *names);
  if (!names) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < t->count; i++)
    names[i] = t->columns[i].shown;
  const char *near = ls_nearest(name, names);
  if (near && trained)
    return ls_fail(t->ctx, LS_ERR_MISMATCH,
                   "%s: the checkpoint was trained on column '%s', the file has '%.200s'", t->scan.name,
                   LS_SHOWN(name), near);
  if (near)
    return ls_csv_fail(&t->scan, &t->columns[0].cell, "there is no column '%s'; did you mean '%.200s'?",
                       LS_SHOWN(name), near);
  char list[LS_NAMES_TEXT_BYTES];
  ls_names_text(names, list);
  if (trained)
    return ls_fail(t->ctx, LS_ERR_MISMATCH, "%s: the checkpoint was trained on column '%s', the file has: %s",
                   t->scan.name, LS_SHOWN(name), list);
  char hint[160];
  return ls_csv_fail(&t->scan, &t->columns[0].cell, "there is no column '%s'; the header has: %s%s",
                     LS_SHOWN(name), list, delimiter_hint(t, hint));
}

/* Names mostly come in the file's order, so the search begins behind the one found before. */
static column_t *find_column(table_t *t, const char *name) {
  for (int64_t i = 0; i < t->count; i++) {
    int64_t at = (t->after + i) % t->count;
    if (strcmp(t->columns[at].name, name) != 0) continue;
    t->after = at + 1;
    return &t->columns[at];
  }
  return NULL;
}

/* The column of dates of which `name` is a part: "date.weekday". */
static column_t *find_part(table_t *t, const char *name, int *part) {
  const char *dot = strrchr(name, '.');
  for (*part = 0; dot && ls_date_part_names[*part]; ++*part) {
    if (strcmp(dot + 1, ls_date_part_names[*part]) != 0) continue;
    for (int64_t i = 0; i < t->count; i++)
      if (strlen(t->columns[i].name) == (size_t)(dot - name) &&
          !memcmp(t->columns[i].name, name, (size_t)(dot - name)))
        return &t->columns[i];
  }
  return NULL;
}

static ls_status_t choose_columns(table_t *t, const ls_strings_t *want, bool trained,
                                  const ls_strings_t *except) {
  for (int i = 0; except && i < except->count; i++) {
    column_t *c = find_column(t, except->v[i]);
    if (!c) return refuse_unknown(t, except->v[i], false);
    c->except = true;
  }
  for (int i = 0; want && i < want->count; i++) {
    column_t *c = find_column(t, want->v[i]);
    int part = 0;
    column_t *of = c ? NULL : find_part(t, want->v[i], &part);
    if (of && of->part[part] > 0)
      return ls_csv_fail(&t->scan, &of->cell, "column '%.200s' is asked for twice", LS_SHOWN(want->v[i]));
    if (of) {
      of->part[part] = ++t->chosen;
      of->dated = true;
      continue;
    }
    if (!c) return refuse_unknown(t, want->v[i], trained);
    if (c->place >= 0) return ls_csv_fail(&t->scan, &c->cell, "column '%.200s' is asked for twice", c->shown);
    if (c->except)
      return ls_csv_fail(&t->scan, &c->cell, "column '%.200s' cannot be both a feature and a target",
                         c->shown);
    c->named = true;
    c->place = t->chosen++;
  }
  return LS_OK;
}

/* Without names: every column except the excluded ones and those whose first cell is a date. Looks at the
 * first row without consuming it. */
static ls_status_t choose_by_first_row(table_t *t) {
  ls_csv_scan_t scan = t->scan;
  for (int64_t i = 0; i < t->count; i++) {
    ls_csv_cell_t cell;
    ls_status_t status = ls_csv_scan_cell(&scan, &cell);
    if (status != LS_OK) return status;
    column_t *c = &t->columns[i];
    double part[LS_DATE_PARTS];
    bool timed = false;
    if (!c->except && t->dates && ls_number_date(cell.text, cell.len, part, &timed)) {
      static const int parts[] = {LS_DATE_YEAR, LS_DATE_MONTH, LS_DATE_DAY, LS_DATE_WEEKDAY, LS_DATE_HOUR};
      for (int k = 0; k < LS_COUNT(parts) - !timed; k++)
        c->part[parts[k]] = ++t->chosen;
      c->dated = true;
    } else if (!c->except && ls_number_is_date(cell.text, cell.len))
      ls_log(t->ctx, LS_LOG_INFO, "%s: column '%.200s' holds dates and is left out", scan.name, c->shown);
    else if (!c->except)
      c->place = t->chosen++;
    if (cell.last) break; /* a short row is refused where rows are read */
  }
  if (t->chosen == 0)
    return ls_csv_fail(&t->scan, &t->columns[0].cell, "no column of numbers is left to be a feature");
  return LS_OK;
}

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
static const char *remedy(const table_t *t, const column_t *c, const ls_csv_cell_t *cell) {
  bool gap = ls_csv_is_gap(cell);
  if (t->targets && gap) return ", and a target is never missing: remove the row";
  if (t->fills && gap) return "; data.missing: mean fills it";
  if (t->labels) return t->labels->numbers;
  if (t->targets) return "; with loss: cross-entropy texts of one target column are classes";
  return c->named ? "" : "; to leave the column out, name the ones to use";
}

static void refuse_cell(table_t *t, const column_t *c, const ls_csv_cell_t *cell, ls_number_t fault) {
  char text[CELL_TEXT_BYTES];
  if (!speaks(t)) return;
  ls_text_shown(cell->text, cell->len, text, sizeof text);
  if (cell->len == 0)
    ls_csv_fail(&t->scan, cell, "column '%.200s': empty cell where a number is needed%s", c->shown,
                remedy(t, c, cell));
  else if (ls_number_is_date(cell->text, cell->len))
    ls_csv_fail(&t->scan, cell, "column '%.200s': a date is not a number: '%s'", c->shown, text);
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
static ls_status_t read_label(table_t *t, const column_t *c, const ls_csv_cell_t *cell, double *value) {
  int64_t number = 0;
  char shown[CELL_TEXT_BYTES], why[LS_CSV_GAP_TEXT_BYTES];
  const char *name = cell_name(&t->arena, cell);
  if (!name) return LS_ERR_MEMORY;
  bool text =
      cell->len > 0 && strlen(name) + 1 > 1 && ls_text_utf8(name) && !memchr(cell->text, '\0', cell->len);
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
  if (first && cells > t->count)
    ls_csv_fail(&t->scan, cell, "this row has more cells than the header's %" PRId64, t->count);
  else if (first)
    ls_csv_fail(&t->scan, cell, "this row has %" PRId64 " of the header's %" PRId64 " cells", cells,
                t->count);
  ls_status_t status = LS_OK;
  while (status == LS_OK && !cell->last)
    status = ls_csv_scan_cell(&t->scan, cell);
  return status;
}

static void read_date(table_t *t, const column_t *c, const ls_csv_cell_t *cell, double *row) {
  double part[LS_DATE_PARTS];
  bool timed, gap = t->gaps && ls_csv_is_gap(cell),
              good = gap || ls_number_date(cell->text, cell->len, part, &timed);
  char text[CELL_TEXT_BYTES];
  for (int k = 0; k < LS_DATE_PARTS && good; k++)
    if (c->part[k] > 0) row[c->part[k] - 1] = gap ? NAN : part[k];
  if (!good && speaks(t))
    ls_csv_fail(&t->scan, cell,
                "column '%.200s': '%s' is no date: YYYY-MM-DD was expected, with or without a time", c->shown,
                ls_text_shown(cell->text, cell->len, text, sizeof text));
}

/* Reads one row into `row` (chosen values). Errors in its cells are reported and counted; a status is
 * returned only if the next row cannot be found. */
static ls_status_t read_row(table_t *t, double *row) {
  for (int64_t i = 0;; i++) {
    ls_csv_cell_t cell;
    ls_status_t status = ls_csv_scan_cell(&t->scan, &cell);
    if (status != LS_OK) return status;
    if (cell.last != (i + 1 == t->count)) return refuse_ragged(t, &cell, cell.last ? i + 1 : i + 2);
    const column_t *c = &t->columns[i];
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
  int64_t used = t->rows * t->chosen;
  if (t->capacity - used >= t->chosen) return LS_OK;
  int64_t capacity = t->capacity ? t->capacity * 2 : FIRST_VALUES;
  if (capacity < used + t->chosen) capacity = used + t->chosen;
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
    if (status == LS_OK) status = read_row(t, t->values + t->rows * t->chosen);
    if (t->faults == 0) t->rows++;
  }
  if (t->faults > FAULTS_SHOWN)
    ls_fail(t->ctx, LS_ERR_DATA, "%s: and %" PRId64 " more bad cells or rows", t->scan.name,
            t->faults - FAULTS_SHOWN);
  return status == LS_OK && t->faults > 0 ? LS_ERR_DATA : status;
}

/* The first label with a value, without consuming its row. *label stays as it is if there is none. */
static ls_status_t first_label(const table_t *t, ls_csv_cell_t *label) {
  ls_csv_scan_t scan = t->scan;
  ls_csv_cell_t cell;
  for (bool found = false; !found && !ls_csv_scan_done(&scan);)
    for (int64_t i = 0; i == 0 || !cell.last; i++) {
      ls_status_t status = ls_csv_scan_cell(&scan, &cell);
      if (status != LS_OK) return status;
      if (i >= t->count || t->columns[i].place < 0 || ls_csv_is_label_gap(&cell)) continue;
      *label = cell;
      found = true;
    }
  return LS_OK;
}

/* Whether labels are texts: as the first one with a value. Class numbers are so in other files, too. */
static ls_status_t look_at_labels(table_t *t) {
  ls_labels_t *l = t->labels;
  ls_csv_cell_t label = {.text = NULL};
  char shown[CELL_TEXT_BYTES];
  double unused;
  if (l->closed) return LS_OK;
  ls_status_t status = first_label(t, &label);
  if (status != LS_OK) return status;
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
  ls_status_t status = read_header(t);
  t->scan.line += t->passed;
  if (status == LS_OK) status = choose_columns(t, want, trained, except);
  if (status != LS_OK) return status;
  if (ls_csv_scan_done(&t->scan))
    return ls_fail(t->ctx, LS_ERR_DATA, "%s: there are no rows below the header", t->scan.name);
  if (!want || want->count == 0) status = choose_by_first_row(t);
  if (status == LS_OK && t->labels) status = look_at_labels(t);
  if (status == LS_OK) status = read_rows(t);
  return status == LS_OK && t->labels && t->labels->text ? ls_labels_close(t->labels, t->values, t->rows)
                                                         : status;
}

/* The chosen columns' names in the order of the matrix: pointers, then the texts. */
static ls_status_t copy_names(table_t *t, char ***names) {
  size_t bytes = (size_t)t->chosen * sizeof **names;
  for (int64_t i = 0; i < t->count; i++) {
    const column_t *c = &t->columns[i];
    if (c->place >= 0) bytes += strlen(c->name) + 1;
    for (int k = 0; k < LS_DATE_PARTS; k++)
      if (c->part[k] > 0) bytes += strlen(c->name) + 1 + strlen(ls_date_part_names[k]) + 1;
  }
  char **list = ls_alloc(t->ctx, bytes);
  if (!list) return LS_ERR_MEMORY;
  char *text = (char *)(list + t->chosen);
  for (int64_t i = 0; i < t->count; i++) {
    const column_t *c = &t->columns[i];
    for (int k = 0; k < LS_DATE_PARTS; k++)
      if (c->part[k] > 0) {
        list[c->part[k] - 1] = text;
        text += sprintf(text, "%s.%s", c->name, ls_date_part_names[k]) + 1;
      }
    if (c->place < 0) continue;
    list[c->place] = strcpy(text, c->name);
    text += strlen(text) + 1;
  }
  *names = list;
  return LS_OK;
}

static ls_status_t read_text(table_t *start, const char *name, const char *text, size_t size, char delimiter,
                             const ls_strings_t *want, bool trained, const ls_strings_t *except,
                             ls_matrix_t *out) {
  table_t t = *start;
  ls_ctx_t *ctx = t.ctx;
  ls_arena_init(&t.arena, ctx);
  ls_status_t status = ls_csv_scan_begin(ctx, name, text, size, delimiter, &t.scan);
  if (status == LS_OK) status = read_table(&t, want, trained, except);
  ls_matrix_t made = {.rows = t.rows, .cols = t.chosen, .named = t.chosen, .row = LS_SHAPE(LS_F64, t.chosen)};
  if (status == LS_OK) status = copy_names(&t, &made.names);
  if (status != LS_OK) goto free_values;
  status = ls_matrix_take(ctx, t.values, &made);
  if (status == LS_OK) *out = made;
  goto free_header;

free_values:
  ls_free(t.values);
free_header:
  ls_free(t.columns);
  ls_arena_release(&t.arena);
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
               .dates = config->dates == LS_DATES_PARTS};
  return read_text(&t, name, text, size, delimiter, &config->columns, config->columns_trained, except, out);
}

ls_status_t ls_read_csv_labels(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                               const ls_strings_t *want, ls_labels_t *labels, ls_matrix_t *out) {
  table_t t = {.ctx = ctx, .labels = labels, .targets = true};
  return read_text(&t, name, text, size, delimiter, want, false, NULL, out);
}
