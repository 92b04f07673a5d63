/* The document as one HTML file that needs nothing else: the plots as inline SVG, and the Markdown report's
 * tables turned into HTML, so that both say the same. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>lockstep "
    "bench</title>\n<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2em auto; padding: 0 1em; }\n"
    "div.wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; margin: 1em 0; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: 0.25em 0.7em; border-bottom: 1px solid #8886; text-align: right; white-space: nowrap; "
    "}\n"
    "th:first-child, td:first-child { text-align: left; }\n"
    "svg { width: 100%; max-width: 900px; height: auto; margin: 0.5em 0 1.5em; fill: none; }\n"
    "svg text.tick { fill: currentColor; font-size: 12px; }\n"
    "svg .outlier { stroke: currentColor; stroke-width: 2; }\n"
    "svg .grid { stroke: #8884; }\nsvg .one { stroke: currentColor; stroke-dasharray: 5 4; }\n"
    "svg .predicted { fill: none; stroke: currentColor; stroke-width: 1.5; }\n"
    "</style>\n</head>\n<body>\n";

/* Text with &, <, > escaped, **bold** and `code`. */
static void inline_text(FILE *to, const char *text, size_t len) {
  bool bold = false, code = false;
  for (size_t i = 0; i < len; i++) {
    if (i + 1 < len && text[i] == '*' && text[i + 1] == '*') {
      fputs(bold ? "</b>" : "<b>", to);
      bold = !bold;
      i++;
    } else if (text[i] == '`') {
      fputs(code ? "</code>" : "<code>", to);
      code = !code;
    } else if (text[i] == '&')
      fputs("&amp;", to);
    else if (text[i] == '<')
      fputs("&lt;", to);
    else if (text[i] == '>')
      fputs("&gt;", to);
    else
      fputc(text[i], to);
  }
  if (code) fputs("</code>", to);
  if (bold) fputs("</b>", to);
}

/* "| a | b |" as a row. */
static void table_row(FILE *to, const char *line, size_t len, const char *tag) {
  fputs("<tr>", to);
  size_t from = 1;
  for (size_t i = 1; i < len; i++) {
    if (line[i] != '|') continue;
    size_t first = from, end = i;
    while (first < end && line[first] == ' ')
      first++;
    while (end > first && line[end - 1] == ' ')
      end--;
    fprintf(to, "<%s>", tag);
    inline_text(to, line + first, end - first);
    fprintf(to, "</%s>", tag);
    from = i + 1;
  }
  fputs("</tr>\n", to);
}

static void plots_of(FILE *to, const json_t *document, const char *model) {
  char name[64] = "";
  if (model) snprintf(name, sizeof name, ": %s", model);
  fprintf(to, "<h2>Step time%s</h2>\n", name);
  ls_bench_svg_step_time(to, document);
  fprintf(to, "<h2>Speed-up%s</h2>\n", name);
  ls_bench_svg_speedup(to, document);
  fprintf(to,
          "<h2>Repetitions%s</h2>\n<p>Every repetition against its variant's median; ringed ones are flagged "
          "as outliers.</p>\n",
          name);
  ls_bench_svg_repetitions(to, document);
}

/* Networks of a sweep have batches of their own and times that differ by orders: plots for each. */
static void plots(FILE *to, const json_t *document) {
  const json_t *variants = json_object_get(document, "variants"), *v, *w;
  json_t *done = json_object();
  size_t i, k;
  json_array_foreach(variants, i, v) {
    const char *model = json_string_value(json_object_get(v, "model"));
    if (!model || json_object_get(done, model)) continue;
    json_t *own = json_array(), *part = json_pack("{s:o}", "variants", own);
    json_array_foreach(variants, k, w) {
      const char *other = json_string_value(json_object_get(w, "model"));
      if (other && !strcmp(other, model)) json_array_append(own, (json_t *)(uintptr_t)w);
    }
    plots_of(to, part, model);
    json_decref(part);
    json_object_set_new(done, model, json_true());
  }
  if (json_object_size(done) == 0) plots_of(to, document, NULL);
  json_decref(done);
}

typedef enum { IN_NOTHING, IN_TABLE, IN_LIST } block_t;

static void close_block(FILE *to, block_t *block) {
  if (*block == IN_TABLE) fputs("</table></div>\n", to);
  if (*block == IN_LIST) fputs("</ul>\n", to);
  *block = IN_NOTHING;
}

/* The few forms that markdown.c writes: headings, tables, lists, paragraphs of one line. */
static void convert(FILE *to, const char *text) {
  block_t block = IN_NOTHING;
  for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
    end = strchr(line, '\n');
    if (!end) end = line + strlen(line);
    size_t len = (size_t)(end - line);
    if (line[0] == '|') {
      if (len > 3 && !strncmp(line, "|---", 4)) continue;
      if (block != IN_TABLE) {
        close_block(to, &block);
        fputs("<div class=\"wide\"><table>\n", to);
        table_row(to, line, len, "th");
        block = IN_TABLE;
      } else {
        table_row(to, line, len, "td");
      }
      continue;
    }
    if (!strncmp(line, "- ", 2)) {
      if (block != IN_LIST) {
        close_block(to, &block);
        fputs("<ul>\n", to);
        block = IN_LIST;
      }
      fputs("<li>", to);
      inline_text(to, line + 2, len - 2);
      fputs("</li>\n", to);
      continue;
    }
    close_block(to, &block);
    size_t level = strspn(line, "#");
    if (len == 0) continue;
    if (level > 0)
      fprintf(to, "<h%zu>", level);
    else
      fputs("<p>", to);
    inline_text(to, line + level + (level > 0), len - level - (level > 0));
    if (level > 0)
      fprintf(to, "</h%zu>\n", level);
    else
      fputs("</p>\n", to);
  }
  close_block(to, &block);
}

char *ls_bench_html(ls_ctx_t *ctx, const json_t *document) {
  char *markdown = ls_bench_markdown(ctx, document), *text = NULL;
  size_t size_bytes = 0;
  if (!markdown) return NULL;
  FILE *to = open_memstream(&text, &size_bytes);
  bool bad = !to;
  if (to) {
    fputs(head, to);
    convert(to, markdown);
    plots(to, document);
    fputs("</body>\n</html>\n", to);
    bad = ferror(to) != 0;
    bad |= fclose(to) != 0;
  }
  ls_free(markdown);
  if (!bad) return text;
  ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
  free(text);
  return NULL;
}
