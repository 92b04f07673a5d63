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
void ls_report_heading(json_t *report, int level, const char *format, ...) LS_PRINTF(3, 4);
void ls_report_text(json_t *report, const char *format, ...) LS_PRINTF(2, 3);
/* An item of the list that is the last block, else of a new list. */
void ls_report_item(json_t *report, const char *format, ...) LS_PRINTF(2, 3);

typedef struct {
  const char *name; /* its heading, with the unit */
  char kind;        /* 't' text, 'n' number, 'v' verdict, 'h' what the row is about */
} ls_report_column_t;
/* The table, borrowed. */
json_t *ls_report_table(json_t *report, const ls_report_column_t *columns, int count);
json_t *ls_report_row(json_t *table); /* borrowed */
void ls_report_cell(json_t *row, const char *format, ...) LS_PRINTF(2, 3);
/* What the draw function writes about these variants; nothing written: no block. */
typedef void ls_chart_fn(FILE *to, const json_t *variants);
void ls_report_chart(json_t *report, const char *title, const char *caption, ls_chart_fn *draw,
                     const json_t *variants);
/* Takes out the tables without rows, with the headings and texts that are then about nothing, and the columns
 * in which no row has anything. */
void ls_report_tidy(json_t *report);

/* report.c: new reference; NULL when memory is short. */
json_t *ls_report_build(const json_t *document);
/* "mlp-medium, batches 16 and 1024, 1 and 2 ranks". Owned by the caller (free). */
char *ls_report_title(const json_t *document);

/* All step times of a table have one unit, which suits the smallest. */
ls_text_unit_t ls_report_unit(const json_t *variants);
/* report_tables.c, report_step.c, report_facts.c, study_text.c: their blocks. */
void ls_report_results(json_t *report, const json_t *document);
void ls_report_details(json_t *report, const json_t *document);
void ls_report_parts(json_t *report, const json_t *document);
void ls_report_memory(json_t *report, const json_t *document);
void ls_report_collectives(json_t *report, const json_t *document);
void ls_report_validation(json_t *report, const json_t *document);
void ls_report_facts(json_t *report, const json_t *document);
void ls_report_trust(json_t *report, const json_t *document);
void ls_report_study(json_t *report, const json_t *document);

/* charts */
ls_chart_fn ls_chart_step_time, ls_chart_speedup, ls_chart_parts, ls_chart_memory,
    ls_chart_timeline;                             /* chart_rows.c */
ls_chart_fn ls_chart_repetitions, ls_chart_curves; /* chart_xy.c */

/* The member's text, or "". */
const char *ls_report_word(const json_t *object, const char *key);
/* Text for HTML: &, <, > and quotes are escaped, control characters left out. */
void ls_html_escape(FILE *to, const char *text, size_t len);

#endif
