/* The report as one HTML file that needs nothing else: no scripts, no fonts, nothing fetched. Tables fold to
 * cards on narrow screens (html_style.c), which takes their meaning from them, so roles say it again. */
#include "bench/report.h"

#include <stdlib.h>
#include <string.h>

extern const char *const ls_report_style[]; /* html_style.c: lines, NULL-terminated */

void ls_html_escape(FILE *to, const char *text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (text[i] == '&')
      fputs("&amp;", to);
    else if (text[i] == '<')
      fputs("&lt;", to);
    else if (text[i] == '>')
      fputs("&gt;", to);
    else if (text[i] == '"')
      fputs("&quot;", to);
    else if ((unsigned char)text[i] >= ' ')
      fputc(text[i], to);
  }
}

/* With **bold** and `code`; what is open at the end is closed. */
static void inline_text(FILE *to, const char *text) {
  const char *open[2] = {NULL, NULL};
  size_t depth = 0;
  while (text && *text) {
    const char *tag = !strncmp(text, "**", 2) ? "strong" : *text == '`' ? "code" : NULL;
    size_t plain = strcspn(text + (tag == NULL), "*`") + (tag == NULL);
    if (!tag) {
      ls_html_escape(to, text, plain);
      text += plain;
      continue;
    }
    text += *text == '*' ? 2 : 1;
    if (depth > 0 && open[depth - 1] == tag)
      fprintf(to, "</%s>", open[--depth]);
    else if (depth < 2 && (depth == 0 || open[0] != tag))
      fprintf(to, "<%s>", open[depth++] = tag);
  }
  while (depth > 0)
    fprintf(to, "</%s>", open[--depth]);
}

/* The class of a verdict: its first word among those that have a colour. */
static const char *verdict_class(const char *verdict) {
  static const char *const known[][2] = {
      {"faster", "faster"},          {"slower", "slower"},       {"equivalent", "equivalent"},
      {"undecided", "undecided"},    {"reference", "reference"}, {"warning", "slower"},
      {"not measured", "undecided"}, {"NOT", "slower"},          {"identical", "faster"},
      {"same network", "faster"},    {"holds", "faster"},        {"does not hold", "slower"},
      {"not decided", "undecided"}};
  for (int i = 0; i < LS_COUNT(known); i++)
    if (!strncmp(verdict, known[i][0], strlen(known[i][0]))) return known[i][1];
  return "undecided";
}

static void table_cell(FILE *to, const json_t *column, const char *text) {
  char kind = ls_report_word(column, "kind")[0];
  const char *name = ls_report_word(column, "name");
  if (kind == 'h')
    fputs("<th scope=\"row\" role=\"rowheader\" class=\"h\" data-label=\"", to);
  else
    fprintf(to, "<td role=\"cell\" class=\"%c%s\" data-label=\"", kind, text && *text ? "" : " none");
  ls_html_escape(to, name, strlen(name));
  fputs("\">", to);
  if (kind == 'v' && text && *text) fprintf(to, "<span class=\"verdict %s\">", verdict_class(text));
  inline_text(to, text);
  if (kind == 'v' && text && *text) fputs("</span>", to);
  fputs(kind == 'h' ? "</th>" : "</td>", to);
}

static void table(FILE *to, const json_t *block) {
  const json_t *columns = json_object_get(block, "columns"), *column, *row;
  size_t i, k;
  fputs("<table role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">", to);
  json_array_foreach(columns, k, column) {
    fprintf(to, "<th scope=\"col\" role=\"columnheader\" class=\"%c\">", ls_report_word(column, "kind")[0]);
    inline_text(to, ls_report_word(column, "name"));
    fputs("</th>", to);
  }
  fputs("</tr></thead>\n<tbody role=\"rowgroup\">\n", to);
  json_array_foreach(json_object_get(block, "rows"), i, row) {
    fputs("<tr role=\"row\">", to);
    json_array_foreach(columns, k, column) table_cell(to, column, json_string_value(json_array_get(row, k)));
    fputs("</tr>\n", to);
  }
  fputs("</tbody></table>\n", to);
}

static void items(FILE *to, const json_t *block, const char *kind) {
  const json_t *item;
  size_t i;
  bool facts = !strcmp(kind, "facts"), answers = !strcmp(kind, "answers");
  fprintf(to, "<%s class=\"%s\">\n", facts ? "dl" : "ul", kind);
  json_array_foreach(json_object_get(block, "items"), i, item) {
    if (facts) {
      fprintf(to, "<div><dt>%s</dt><dd>", json_string_value(json_array_get(item, 0)));
      inline_text(to, json_string_value(json_array_get(item, 1)));
      fputs("</dd></div>\n", to);
      continue;
    }
    fprintf(to, "<li class=\"%s\">", answers ? verdict_class(ls_report_word(item, "verdict")) : "item");
    inline_text(to, answers ? ls_report_word(item, "text") : json_string_value(item));
    fputs("</li>\n", to);
  }
  fputs(facts ? "</dl>\n" : "</ul>\n", to);
}

static void write_block(FILE *to, const json_t *block) {
  const char *kind = ls_report_word(block, "kind");
  if (!strcmp(kind, "heading")) {
    int level = (int)ls_bench_number(block, "level");
    fprintf(to, "<h%d>", level);
    inline_text(to, ls_report_word(block, "text"));
    fprintf(to, "</h%d>\n", level);
  } else if (!strcmp(kind, "text")) {
    fputs("<p>", to);
    inline_text(to, ls_report_word(block, "text"));
    fputs("</p>\n", to);
  } else if (!strcmp(kind, "table")) {
    table(to, block);
  } else if (!strcmp(kind, "chart")) {
    fprintf(to, "<figure><figcaption><strong>%s</strong> %s</figcaption>\n%s</figure>\n",
            ls_report_word(block, "title"), ls_report_word(block, "caption"), ls_report_word(block, "body"));
  } else {
    items(to, block, kind);
  }
}

static void write_page(FILE *to, const char *title, const json_t *report) {
  const json_t *block;
  size_t i;
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\"/>\n<title>lockstep bench: ",
        to);
  ls_html_escape(to, title, strlen(title));
  fputs("</title>\n<style>\n", to);
  for (i = 0; ls_report_style[i]; i++)
    fprintf(to, "%s\n", ls_report_style[i]);
  fputs("</style>\n</head>\n<body>\n<main>\n<p class=\"kind\">lockstep bench</p>\n<h1>", to);
  ls_html_escape(to, title, strlen(title));
  fputs("</h1>\n", to);
  json_array_foreach(report, i, block) write_block(to, block);
  fputs("</main>\n</body>\n</html>\n", to);
}

char *ls_bench_html(ls_ctx_t *ctx, const json_t *document) {
  return ls_report_write(ctx, document, write_page);
}
