/* The report as Markdown: everything but the charts. */
#include "bench/report.h"

#include <stdlib.h>
#include <string.h>

/* A cell stays in its cell. */
static void cell(FILE *to, const char *text) {
  for (; text && *text; text++) {
    if (*text == '|')
      fputs("\\|", to);
    else
      fputc(*text == '\n' ? ' ' : *text, to);
  }
}

static void table(FILE *to, const json_t *block) {
  const json_t *columns = json_object_get(block, "columns"), *column, *row;
  size_t i, k;
  json_array_foreach(columns, k, column) fprintf(to, "| %s ", ls_report_word(column, "name"));
  fputs("|\n", to);
  json_array_foreach(columns, k, column)
      fputs(ls_report_word(column, "kind")[0] == 'n' ? "|--:" : "|---", to);
  fputs("|\n", to);
  json_array_foreach(json_object_get(block, "rows"), i, row) {
    json_array_foreach(columns, k, column) {
      fputs("| ", to);
      cell(to, json_string_value(json_array_get(row, k)));
      fputc(' ', to);
    }
    fputs("|\n", to);
  }
}

static void items(FILE *to, const json_t *block, const char *kind) {
  const json_t *item;
  size_t i;
  json_array_foreach(json_object_get(block, "items"), i, item) {
    if (!strcmp(kind, "facts"))
      fprintf(to, "- %s: %s\n", json_string_value(json_array_get(item, 0)),
              json_string_value(json_array_get(item, 1)));
    else if (!strcmp(kind, "answers"))
      fprintf(to, "- %s\n", ls_report_word(item, "text"));
    else
      fprintf(to, "- %s\n", json_string_value(item));
  }
}

static void write_block(FILE *to, const json_t *block) {
  const char *kind = ls_report_word(block, "kind");
  if (!strcmp(kind, "chart")) return;
  if (!strcmp(kind, "heading"))
    fprintf(to, "%.*s %s\n", (int)ls_bench_number(block, "level"), "####", ls_report_word(block, "text"));
  else if (!strcmp(kind, "text"))
    fprintf(to, "%s\n", ls_report_word(block, "text"));
  else if (!strcmp(kind, "table"))
    table(to, block);
  else
    items(to, block, kind);
  fputc('\n', to);
}

static void write_page(FILE *to, const char *title, const json_t *report) {
  const json_t *block;
  size_t i;
  fprintf(to, "# lockstep bench: %s\n\n", title);
  json_array_foreach(report, i, block) write_block(to, block);
}

char *ls_bench_markdown(ls_ctx_t *ctx, const json_t *document) {
  return ls_report_write(ctx, document, write_page);
}
