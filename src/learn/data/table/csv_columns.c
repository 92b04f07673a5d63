/* The header of a CSV file, and the choice of columns: by name, or every one whose first value is no date. */
#include "data/table/csv_columns.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b) {
  const ls_csv_column_t *x = *(const ls_csv_column_t *const *)a, *y = *(const ls_csv_column_t *const *)b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->cell.begin > y->cell.begin) - (x->cell.begin < y->cell.begin);
}

static ls_status_t check_names(const ls_csv_scan_t *scan, const ls_csv_columns_t *t) {
  const ls_csv_column_t **sorted = ls_alloc_array(scan->ctx, (size_t)t->count, sizeof *sorted);
  if (!sorted) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < t->count; i++)
    sorted[i] = &t->column[i];
  qsort(sorted, (size_t)t->count, sizeof *sorted, by_name);
  ls_status_t status = LS_OK;
  for (int64_t i = 1; i < t->count && status == LS_OK; i++)
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
      status = ls_csv_fail(
          scan, &sorted[i]->cell, "columns %" PRId64 " and %" PRId64 " are both named '%.200s'",
          (int64_t)(sorted[i - 1] - t->column) + 1, (int64_t)(sorted[i] - t->column) + 1, sorted[i]->shown);
  ls_free(sorted);
  return status;
}

ls_status_t ls_csv_columns_read(ls_csv_scan_t *scan, ls_csv_columns_t *t) {
  if (ls_csv_scan_done(scan))
    return ls_fail(scan->ctx, LS_ERR_DATA, "%s: the file is empty: a header with column names is needed",
                   scan->name);
  int64_t capacity = 0;
  for (bool last = false; !last;) {
    if (t->count == capacity) {
      capacity = capacity ? capacity * 2 : 16;
      ls_csv_column_t *columns = ls_realloc_array(scan->ctx, t->column, (size_t)capacity, sizeof *columns);
      if (!columns) return LS_ERR_MEMORY;
      t->column = columns;
    }
    ls_csv_column_t *c = &t->column[t->count];
    *c = (ls_csv_column_t){.place = -1};
    ls_status_t status = ls_csv_scan_cell(scan, &c->cell);
    if (status != LS_OK) return status;
    last = c->cell.last;
    t->count++;
    c->except = c->cell.len == 0 && t->count == 1 && !last; /* row names of pandas and R */
    if (c->cell.len == 0 && !c->except)
      return ls_csv_fail(scan, &c->cell, "column %" PRId64 " of the header has no name", t->count);
    if (memchr(c->cell.text, '\0', c->cell.len))
      return ls_csv_fail(scan, &c->cell, "a column name holds a zero byte: is this text?");
    if (!(c->name = ls_csv_cell_text(&t->arena, &c->cell))) return LS_ERR_MEMORY;
    if (!(c->shown = c->except ? "(no name)" : ls_arena_shown(&t->arena, c->name))) return LS_ERR_MEMORY;
    if (!ls_text_utf8(c->name))
      return ls_csv_fail(scan, &c->cell, "the header is not UTF-8: save the file as UTF-8");
  }
  return check_names(scan, t);
}

/* Reports a header that may have been cut at the wrong character. */
static const char *delimiter_hint(const ls_csv_scan_t *scan, char text[160]) {
  char used[8], other[8];
  ls_csv_delimiter_text(scan->delimiter, used);
  if (scan->other)
    snprintf(text, 160,
             " (cut at %s; it also holds %s: if that separates the cells, --set data.delimiter=%s)", used,
             ls_csv_delimiter_text(scan->other, other), other);
  else
    snprintf(text, 160, " (cut at %s)", used);
  return text;
}

static ls_status_t refuse_unknown(const ls_csv_scan_t *scan, ls_csv_columns_t *t, const char *name,
                                  bool trained) {
  const char **names = ls_arena_array(&t->arena, (size_t)t->count + 1, sizeof *names);
  if (!names) return LS_ERR_MEMORY;
  for (int64_t i = 0; i < t->count; i++)
    names[i] = t->column[i].shown;
  const char *near = ls_nearest(name, names);
  if (near && trained)
    return ls_fail(scan->ctx, LS_ERR_MISMATCH,
                   "%s: the checkpoint was trained on column '%s', the file has '%.200s'", scan->name,
                   LS_SHOWN(name), near);
  if (near)
    return ls_csv_fail(scan, &t->column[0].cell, "there is no column '%s'; did you mean '%.200s'?",
                       LS_SHOWN(name), near);
  char list[LS_NAMES_TEXT_BYTES];
  ls_names_text(names, list);
  if (trained)
    return ls_fail(scan->ctx, LS_ERR_MISMATCH,
                   "%s: the checkpoint was trained on column '%s', the file has: %s", scan->name,
                   LS_SHOWN(name), list);
  char hint[160];
  return ls_csv_fail(scan, &t->column[0].cell, "there is no column '%s'; the header has: %s%s",
                     LS_SHOWN(name), list, delimiter_hint(scan, hint));
}

/* Names mostly come in the file's order, so the search begins after the last hit. */
static ls_csv_column_t *find_column(ls_csv_columns_t *t, const char *name) {
  for (int64_t i = 0; i < t->count; i++) {
    int64_t at = (t->after + i) % t->count;
    if (strcmp(t->column[at].name, name) != 0) continue;
    t->after = at + 1;
    return &t->column[at];
  }
  return NULL;
}

/* The column of dates of which `name` is a part: "date.weekday". */
static ls_csv_column_t *find_part(ls_csv_columns_t *t, const char *name, int *part) {
  const char *dot = strrchr(name, '.');
  for (*part = 0; dot && ls_date_part_names[*part]; ++*part) {
    if (strcmp(dot + 1, ls_date_part_names[*part]) != 0) continue;
    for (int64_t i = 0; i < t->count; i++)
      if (strlen(t->column[i].name) == (size_t)(dot - name) &&
          !memcmp(t->column[i].name, name, (size_t)(dot - name)))
        return &t->column[i];
  }
  return NULL;
}

ls_status_t ls_csv_columns_choose(const ls_csv_scan_t *scan, ls_csv_columns_t *t, const ls_strings_t *want,
                                  bool trained, const ls_strings_t *except) {
  for (int i = 0; except && i < except->count; i++) {
    ls_csv_column_t *c = find_column(t, except->v[i]);
    if (!c) return refuse_unknown(scan, t, except->v[i], false);
    c->except = true;
  }
  for (int i = 0; want && i < want->count; i++) {
    ls_csv_column_t *c = find_column(t, want->v[i]);
    int part = 0;
    ls_csv_column_t *of = c ? NULL : find_part(t, want->v[i], &part);
    if (of && of->part[part] > 0)
      return ls_csv_fail(scan, &of->cell, "column '%.200s' is asked for twice", LS_SHOWN(want->v[i]));
    if (of) {
      of->part[part] = ++t->chosen;
      of->dated = true;
      continue;
    }
    if (!c) return refuse_unknown(scan, t, want->v[i], trained);
    if (c->place >= 0) return ls_csv_fail(scan, &c->cell, "column '%.200s' is asked for twice", c->shown);
    if (c->except)
      return ls_csv_fail(scan, &c->cell, "column '%.200s' cannot be both a feature and a target", c->shown);
    c->named = true;
    c->place = t->chosen++;
  }
  return LS_OK;
}

ls_status_t ls_csv_columns_look(const ls_csv_scan_t *scan, ls_csv_columns_t *t,
                                bool (*is_gap)(const ls_csv_cell_t *cell)) {
  ls_csv_scan_t rows = *scan;
  ls_csv_cell_t cell;
  int64_t left = 0;
  for (int64_t i = 0; i < t->count; i++)
    left += t->column[i].look;
  while (left > 0 && !ls_csv_scan_done(&rows)) /* rows of other lengths are refused where they are read */
    for (int64_t i = 0; i == 0 || !cell.last; i++) {
      ls_status_t status = ls_csv_scan_cell(&rows, &cell);
      if (status != LS_OK) return status;
      ls_csv_column_t *c = i < t->count ? &t->column[i] : NULL;
      if (!c || !c->look || is_gap(&cell)) continue;
      c->first = cell;
      c->look = false;
      left--;
    }
  return LS_OK;
}

static void choose_by_value(const ls_csv_scan_t *scan, ls_csv_columns_t *t, ls_csv_column_t *c) {
  const ls_csv_cell_t *cell = &c->first;
  double part[LS_DATE_PARTS];
  bool timed = false, value = cell->text != NULL;
  if (value && t->dates && ls_number_date(cell->text, cell->len, part, &timed)) {
    static const int parts[] = {LS_DATE_YEAR, LS_DATE_MONTH, LS_DATE_DAY, LS_DATE_WEEKDAY, LS_DATE_HOUR};
    for (int k = 0; k < LS_COUNT(parts) - !timed; k++)
      c->part[parts[k]] = ++t->chosen;
    c->dated = true;
  } else if (value && ls_number_is_date(cell->text, cell->len))
    ls_log(scan->ctx, LS_LOG_INFO, "%s: column '%.200s' holds dates and is left out", scan->name, c->shown);
  else
    c->place = t->chosen++;
}

/* Features are found again by name, so no column may be called what a part is, feature or not. */
static ls_status_t check_parts(const ls_csv_scan_t *scan, ls_csv_columns_t *t) {
  for (int64_t i = 0; i < t->count; i++) {
    int part;
    const ls_csv_column_t *c = &t->column[i], *of = find_part(t, c->name, &part);
    if (of && of->part[part] > 0)
      return ls_csv_fail(
          scan, &c->cell,
          "column '%.200s' has the name of a part of the dates in column '%.200s' (data.dates: "
          "parts): rename it, or name the features in data.columns",
          c->shown, of->shown);
  }
  return LS_OK;
}

ls_status_t ls_csv_columns_by_value(const ls_csv_scan_t *scan, ls_csv_columns_t *t) {
  for (int64_t i = 0; i < t->count; i++)
    t->column[i].look = !t->column[i].except;
  ls_status_t status = ls_csv_columns_look(scan, t, ls_csv_is_gap);
  if (!*t->column[0].name)
    ls_log(scan->ctx, LS_LOG_INFO,
           "%s: column 1 has no name and is left out, as an index is (pandas leaves it out of the file with "
           "index=False)",
           scan->name);
  for (int64_t i = 0; i < t->count && status == LS_OK; i++)
    if (!t->column[i].except) choose_by_value(scan, t, &t->column[i]);
  if (status == LS_OK && t->chosen == 0)
    return ls_csv_fail(scan, &t->column[0].cell, "no column of numbers is left to be a feature");
  return status == LS_OK ? check_parts(scan, t) : status;
}

ls_status_t ls_csv_columns_dates(const ls_csv_scan_t *scan, ls_csv_columns_t *t) {
  for (int64_t i = 0; i < t->count; i++)
    t->column[i].look = true;
  ls_status_t status = ls_csv_columns_look(scan, t, ls_csv_is_gap);
  for (int64_t i = 0; i < t->count && status == LS_OK; i++) {
    ls_csv_column_t *c = &t->column[i];
    if (!c->first.text || !ls_number_is_date(c->first.text, c->first.len)) continue;
    if (!(c->order = ls_arena_alloc(&t->arena, sizeof *c->order))) return LS_ERR_MEMORY;
    *c->order = (ls_csv_order_t){.last_s = -INFINITY};
  }
  return status;
}

bool ls_csv_columns_ascend(const ls_csv_scan_t *scan, const ls_csv_columns_t *t) {
  const ls_csv_column_t *c = NULL;
  for (int64_t i = 0; i < t->count; i++) {
    const ls_csv_order_t *order = t->column[i].order;
    if (order && order->back == 0) return true;
    if (order && !c) c = &t->column[i];
  }
  if (!c) return true;
  const ls_csv_cell_t *cell = &c->order->first_back;
  char text[44];
  ls_log(scan->ctx, LS_LOG_WARN,
         "%s:%" PRId64 ": column '%.200s': '%s' is earlier than the row before (%" PRId64
         " such row%s%s), but windows take rows in the order of the file: sort it by date, each series in a "
         "file of its own",
         scan->name, cell->line, c->shown, ls_text_shown(cell->text, cell->len, text, sizeof text),
         c->order->back, LS_PLURAL(c->order->back), c->order->on == 0 ? ": the newest come first" : "");
  return false;
}

ls_status_t ls_csv_columns_names(ls_ctx_t *ctx, const ls_csv_columns_t *t, char ***names) {
  size_t bytes = (size_t)t->chosen * sizeof **names;
  for (int64_t i = 0; i < t->count; i++) {
    const ls_csv_column_t *c = &t->column[i];
    if (c->place >= 0) bytes += strlen(c->name) + 1;
    for (int k = 0; k < LS_DATE_PARTS; k++)
      if (c->part[k] > 0) bytes += strlen(c->name) + 1 + strlen(ls_date_part_names[k]) + 1;
  }
  char **list = ls_alloc(ctx, bytes);
  if (!list) return LS_ERR_MEMORY;
  char *text = (char *)(list + t->chosen);
  for (int64_t i = 0; i < t->count; i++) {
    const ls_csv_column_t *c = &t->column[i];
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

void ls_csv_columns_release(ls_csv_columns_t *t) {
  ls_free(t->column);
  ls_arena_release(&t->arena);
}
