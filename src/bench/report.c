/* The report of a document, from its answer down to its details, and the text that is written of it. */
#include "bench/report.h"

#include <stdlib.h>

static json_t *build(const json_t *d) {
  json_t *report = json_array();
  const json_t *variants = json_object_get(d, "variants");
  json_array_append_new(report, json_pack("{s:s, s:o}", "kind", "answers", "items", ls_bench_answers(d)));
  ls_report_facts(report, d);
  ls_report_heading(report, 2, "Results");
  ls_report_results(report, variants);
  ls_report_chart(report, "Speed-up over the reference",
                  "How many times as fast as the reference, which stands at the dashed line.",
                  ls_chart_speedup, variants);
  ls_report_chart(
      report, "Step time",
      "Mean of a step over all repetitions; less is better. An interval without a mark at its end "
      "goes on beyond the scale.",
      ls_chart_step_time, variants);
  ls_report_study(report, d);
  ls_report_heading(report, 2, "Where a step's time goes");
  ls_report_parts(report, variants);
  ls_report_collectives(report, variants);
  ls_report_heading(report, 2, "Memory");
  ls_report_memory(report, variants);
  ls_report_heading(report, 2, "Do several ranks train the same network?");
  ls_report_validation(report, variants);
  ls_report_tests(report, variants, ls_bench_number(d, "method.margin_percent"));
  ls_report_repetitions(report, variants);
  ls_report_trust(report, d);
  ls_report_tidy(report);
  return report;
}

char *ls_report_write(ls_ctx_t *ctx, const json_t *document, ls_report_form_t *form) {
  char *text = NULL, *title = NULL;
  size_t size_bytes = 0, title_bytes = 0;
  FILE *head = open_memstream(&title, &title_bytes), *to = NULL;
  if (head) ls_report_title(head, document);
  bool bad = !head || fclose(head) != 0 || !(to = open_memstream(&text, &size_bytes));
  if (!bad) {
    json_t *report = build(document);
    form(to, title, report);
    json_decref(report);
    bad = ferror(to) != 0;
  }
  if (to && fclose(to) != 0) bad = true;
  free(title);
  if (!bad) return text;
  ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
  free(text);
  return NULL;
}
