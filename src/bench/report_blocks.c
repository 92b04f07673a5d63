/* The report's blocks: made one after the other, tidied at the end. */
#include "bench/report.h"

#include <stdlib.h>
#include <string.h>

const char *ls_report_word(const json_t *object, const char *path) {
  const char *text = json_string_value(ls_bench_at(object, path));
  return text ? text : "";
}

static json_t *append(json_t *report, json_t *block) {
  json_array_append_new(report, block);
  return block;
}

void ls_report_add(json_t *report, const char *kind, int level, json_t *text) {
  append(report, json_pack("{s:s, s:i, s:o*}", "kind", kind, "level", level, "text", text));
}

void ls_report_add_item(json_t *report, json_t *text) {
  json_t *last = json_array_get(report, json_array_size(report) - 1);
  if (strcmp(ls_report_word(last, "kind"), "list") != 0)
    last = append(report, json_pack("{s:s, s:[]}", "kind", "list", "items"));
  json_array_append_new(json_object_get(last, "items"), text);
}

json_t *ls_report_table(json_t *report, const ls_report_column_t *columns, int count, const char *unit) {
  json_t *list = json_array();
  for (int i = 0; i < count; i++) {
    int plain = (int)strcspn(columns[i].name, "$");
    const char *rest = columns[i].name + plain;
    json_array_append_new(list, json_pack("{s:o, s:s%}", "name",
                                          json_sprintf("%.*s%s%s", plain, columns[i].name, *rest ? unit : "",
                                                       rest + (*rest != 0)),
                                          "kind", &columns[i].kind, (size_t)1));
  }
  return append(report, json_pack("{s:s, s:o, s:[]}", "kind", "table", "columns", list, "rows"));
}

json_t *ls_report_row(json_t *table) {
  return append(json_object_get(table, "rows"), json_array());
}

void ls_report_chart(json_t *report, const char *title, const char *caption, ls_chart_fn *draw,
                     const json_t *variants) {
  char *body = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&body, &size_bytes);
  if (!to) return;
  draw(to, variants);
  if (fclose(to) == 0 && size_bytes > 0)
    append(report, json_pack("{s:s, s:s, s:s, s:o}", "kind", "chart", "title", title, "caption", caption,
                             "body", ls_json_text(body)));
  free(body);
}

static bool column_empty(const json_t *rows, size_t column) {
  const json_t *row;
  size_t i;
  json_array_foreach(rows, i, row) {
    const char *text = json_string_value(json_array_get(row, column));
    if (text && *text) return false;
  }
  return true;
}

static void drop_empty_columns(json_t *table) {
  json_t *columns = json_object_get(table, "columns"), *rows = json_object_get(table, "rows"), *row;
  size_t i;
  for (size_t column = json_array_size(columns); column-- > 0;) {
    if (!column_empty(rows, column)) continue;
    json_array_remove(columns, column);
    json_array_foreach(rows, i, row) json_array_remove(row, column);
  }
}

/* A heading and its texts stay when a table, list or chart follows before the next heading of its level. */
static bool is_void(const json_t *report, size_t at) {
  int level = (int)ls_bench_number(json_array_get(report, at), "level");
  for (size_t i = at + 1; i < json_array_size(report); i++) {
    const json_t *block = json_array_get(report, i);
    const char *kind = ls_report_word(block, "kind");
    if (!strcmp(kind, "heading") && (int)ls_bench_number(block, "level") <= level) return true;
    if (strcmp(kind, "heading") != 0 && strcmp(kind, "text") != 0) return false;
  }
  return true;
}

void ls_report_tidy(json_t *report) {
  for (size_t i = json_array_size(report); i-- > 0;) {
    json_t *block = json_array_get(report, i);
    const char *kind = ls_report_word(block, "kind");
    if (!strcmp(kind, "table")) {
      drop_empty_columns(block);
      if (json_array_size(json_object_get(block, "rows")) == 0) json_array_remove(report, i);
    }
  }
  for (size_t i = json_array_size(report); i-- > 0;) {
    if (strcmp(ls_report_word(json_array_get(report, i), "kind"), "heading") != 0 || !is_void(report, i))
      continue;
    do
      json_array_remove(report, i);
    while (!strcmp(ls_report_word(json_array_get(report, i), "kind"), "text"));
  }
}
