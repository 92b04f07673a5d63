/* The benchmark's document on a terminal, as far as it fits; the JSON, Markdown and HTML forms have the
 * rest. */
#include "bench/text.h"
#include "cli/bench.h"

#include <math.h>
#include <string.h>

/* Prints the conclusions before the numbers, without the marks of bold text. */
static void print_answers(const json_t *d) {
  const json_t *answer;
  size_t i;
  cli_print("\n");
  json_array_foreach(json_object_get(d, "answers"), i, answer) {
    cli_print("  ");
    for (const char *c = ls_bench_word(answer, "text"); *c;) {
      size_t marks = strncmp(c, "**", 2) == 0 ? 2 : 0, plain = strcspn(c + marks, "*");
      if (plain == 0 && !marks) plain = 1; /* a star that marks nothing */
      cli_print("%.*s", (int)plain, c + marks);
      c += marks + plain;
    }
    cli_print("\n");
  }
}

/* Which of the columns that only some runs have are there, and how wide names get. */
typedef struct {
  bool predicted, compared;
  int name_width;
  ls_text_unit_t unit;
} layout_t;

static layout_t layout_of(const json_t *variants) {
  layout_t l = {.name_width = 8};
  const json_t *v;
  size_t i;
  double least_us = INFINITY;
  json_array_foreach(variants, i, v) {
    int width = (int)strlen(ls_bench_word(v, "name"));
    if (width > l.name_width) l.name_width = width;
    l.predicted |= json_object_get(v, "predicted_step_time_us") != NULL;
    l.compared |= json_object_get(v, "scaling") != NULL;
    least_us = fmin(least_us, ls_bench_number(v, "step_time_us.mean"));
  }
  l.unit = ls_text_unit(least_us);
  return l;
}

static void print_row(const json_t *v, const layout_t *l) {
  const char *verdict = ls_bench_word(v, "against_reference.verdict");
  if (l->compared)
    cli_print("  %-12s", json_object_get(v, "failed") ? "-" : *verdict ? verdict : "reference");
  cli_print("  %-*s", l->name_width, ls_bench_word(v, "name"));
  if (json_object_get(v, "failed")) {
    cli_print("  not measured: %s\n", ls_bench_word(v, "failed"));
    return;
  }
  if (l->compared) cli_print("  %-22s", ls_bench_speedup_text(v).s);
  cli_print("  %18s  %12s",
            ls_text_around(ls_bench_number(v, "step_time_us.mean"), ls_bench_number(v, "step_time_us.low"),
                           ls_bench_number(v, "step_time_us.high"), l->unit.us, "+-")
                .s,
            ls_text_count(ls_bench_number(v, "samples_per_s.mean"), 0).s);
  if (l->compared)
    cli_print("  %6s", ls_text_percent(100 * ls_bench_number(v, "scaling.efficiency"), 0, false).s);
  if (l->compared) cli_print("  %7s", ls_text_p(ls_bench_number(v, "against_reference.welch_p")).s);
  cli_print("  %4zu", json_array_size(json_object_get(v, "outliers")));
  if (l->predicted)
    cli_print("  %10s  %8s",
              ls_text_digits(ls_bench_number(v, "predicted_step_time_us.predicted") / l->unit.us).s,
              ls_text_percent(ls_bench_number(v, "predicted_step_time_us.error_percent"), 1, true).s);
  if (json_object_get(v, "incomplete"))
    cli_print("  only %.0f repetitions: %s", ls_bench_number(v, "step_time_us.count"),
              ls_bench_word(v, "incomplete"));
  cli_print("\n");
}

static void print_head(const layout_t *l) {
  char step[48];
  snprintf(step, sizeof step, "step time, %s", l->unit.name);
  cli_print("\n");
  if (l->compared) cli_print("  %-12s", "verdict");
  cli_print("  %-*s", l->name_width, "variant");
  if (l->compared) cli_print("  %-22s", "speed-up (95 %)");
  cli_print("  %18s  %12s", step, "samples/s");
  if (l->compared) cli_print("  %6s  %7s", "effic.", "p");
  cli_print("  %4s", "out");
  if (l->predicted) cli_print("  %10s  %8s", "predicted", "error");
  cli_print("\n");
}

void bench_print_table(const json_t *d) {
  const json_t *variants = json_object_get(d, "variants"), *v;
  const layout_t l = layout_of(variants);
  size_t i;
  print_answers(d);
  print_head(&l);
  json_array_foreach(variants, i, v) print_row(v, &l);
  cli_print("\n  %.0f repetitions of ", ls_bench_number(d, "method.repetitions"));
  if (json_object_get(d, "crossovers") && json_object_get(json_array_get(variants, 0), "steps"))
    cli_print("as many steps as the time limit allows");
  else
    cli_print("%.0f steps after %.0f", ls_bench_number(d, "method.steps"),
              ls_bench_number(d, "method.warmup_steps"));
  cli_print("; +- is the 95 %% interval of the mean; out: flagged repetitions\n");
  if (ls_bench_number(d, "control.pairs") > 0)
    cli_print("  A/A control: %.0f false alarms in %.0f pairs\n", ls_bench_number(d, "control.false_alarms"),
              ls_bench_number(d, "control.pairs"));
  json_array_foreach(variants, i, v) {
    const json_t *c = json_object_get(v, "validation");
    if (c)
      cli_print("  %s against one rank: %s (loss %.2g, correlation %.6f, weights %.2g)\n",
                ls_bench_word(v, "name"), ls_bench_validation_verdict(c),
                ls_bench_number(c, "final_loss_difference"), ls_bench_number(c, "grad_norm_correlation"),
                ls_bench_number(c, "weight_difference_mean_abs"));
  }
  cli_print("  clock and heat limits: CPU %s, GPU %s\n", ls_bench_word(d, "limits.cpu"),
            ls_bench_word(d, "limits.gpu"));
}
