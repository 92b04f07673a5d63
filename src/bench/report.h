/* Inside the bench module: the report as a list of blocks, made once from the document and written as
 * Markdown (markdown.c) and HTML (html.c), so that both say the same.
 *
 * A block is a JSON object with "kind":
 *   heading  level, text
 *   text     text
 *   list     items [text]
 *   answers  items [{verdict, text}]: the first thing a reader sees
 *   facts    items [[name, text]]
 *   table    columns [{name, kind}], rows [[text]]
 *   chart    title, caption, body: HTML; Markdown has none
 * Texts may contain **bold** and `code`. */
#ifndef LS_BENCH_REPORT_H
#define LS_BENCH_REPORT_H

#include "bench/bench.h"
#include "bench/text.h"

/* report_blocks.c: each call appends one block. */
#define ls_report_heading(report, level, ...)                                                                \
  ls_report_add(report, "heading", level, json_sprintf(__VA_ARGS__))
#define ls_report_text(report, ...) ls_report_add(report, "text", 0, json_sprintf(__VA_ARGS__))
void ls_report_add(json_t *report, const char *kind, int level, json_t *text); /* takes text */
/* An item of the list that is the last block, else of a new list. */
#define ls_report_item(report, ...) ls_report_add_item(report, json_sprintf(__VA_ARGS__))
void ls_report_add_item(json_t *report, json_t *text);

/* How a cell shows what is at its path: as a text, a number, or figures out of an object. */
typedef enum {
  LS_CELL_WORD,
  LS_CELL_VERDICT,
  LS_CELL_TRACED, /* "(traced)" follows where the parts are */
  LS_CELL_OUTLIERS,
  LS_CELL_VALIDATION,
  LS_CELL_YES, /* or no */
  LS_CELL_DIGITS,
  LS_CELL_PERCENT,
  LS_CELL_CHANGE, /* percent with a sign */
  LS_CELL_BYTES,
  LS_CELL_P,
  LS_CELL_CORRELATION,
  LS_CELL_AROUND, /* mean ± */
  LS_CELL_RATE,
  LS_CELL_PREDICTION,
  LS_CELL_DIFFERENCE,
  LS_CELL_SHARE, /* of the step's parts */
  LS_CELL_SPEEDUP
} ls_report_cell_t;
typedef struct {
  const char *name; /* its heading; $ stands for the unit of times */
  char kind;        /* 't' text, 'n' number, 'v' verdict, 'h' what the row is about */
  /* Of tables that are made of objects (report_tables.c): */
  ls_report_cell_t as;
  const char *path;
  double per; /* what the number there is divided by; 0: the unit of times */
  int decimals;
} ls_report_column_t;
/* The table, borrowed. */
json_t *ls_report_table(json_t *report, const ls_report_column_t *columns, int count, const char *unit);
json_t *ls_report_row(json_t *table); /* borrowed */
#define ls_report_cell(row, ...) json_array_append_new(row, json_sprintf(__VA_ARGS__))
/* What the draw function writes about these variants; nothing written: no block. */
typedef void ls_chart_fn(FILE *to, const json_t *variants);
void ls_report_chart(json_t *report, const char *title, const char *caption, ls_chart_fn *draw,
                     const json_t *variants);
/* Takes out the tables without rows, with the headings and texts that are then about nothing, and the columns
 * in which no row has anything. */
void ls_report_tidy(json_t *report);

/* report.c: title and blocks of a document in this form. Owned by the caller (ls_free); NULL when memory is
 * short (reported). */
typedef void ls_report_form_t(FILE *to, const char *title, const json_t *report);
char *ls_report_write(ls_ctx_t *ctx, const json_t *document, ls_report_form_t *form);
/* report_title.c: "mlp-medium, batches 16 and 1024, 1 and 2 ranks". */
void ls_report_title(FILE *to, const json_t *document);

/* All step times of a table have one unit, which suits the smallest. */
ls_text_unit_t ls_report_unit(const json_t *variants);
/* report_tables.c, report_facts.c, study_text.c: their blocks. */
void ls_report_results(json_t *report, const json_t *variants);
void ls_report_parts(json_t *report, const json_t *variants);
void ls_report_memory(json_t *report, const json_t *variants);
void ls_report_collectives(json_t *report, const json_t *variants);
void ls_report_validation(json_t *report, const json_t *variants);
void ls_report_tests(json_t *report, const json_t *variants, double margin_percent);
void ls_report_repetitions(json_t *report, const json_t *variants);
void ls_report_facts(json_t *report, const json_t *document);
void ls_report_trust(json_t *report, const json_t *document);
void ls_report_study(json_t *report, const json_t *document);

/* charts */
ls_chart_fn ls_chart_step_time, ls_chart_speedup, ls_chart_parts, ls_chart_memory,
    ls_chart_timeline;                             /* chart_rows.c */
ls_chart_fn ls_chart_repetitions, ls_chart_curves; /* chart_xy.c */

/* The text at "a.b", or "". */
const char *ls_report_word(const json_t *object, const char *path);
/* Text for HTML: &, <, > and quotes are escaped, control characters left out. */
void ls_html_escape(FILE *to, const char *text, size_t len);

#endif
