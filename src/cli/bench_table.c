/* The benchmark's document on a terminal, as far as it fits. The JSON, Markdown and HTML forms have the rest. */
#include "bench/bench.h"
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

/* The columns that only some runs have, and the width of names. */
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

/* ---- the study ---- */

static void print_rate(const json_t *side) {
  double mean = ls_bench_number(side, "samples_per_s.mean"),
         half =
             (ls_bench_number(side, "samples_per_s.high") - ls_bench_number(side, "samples_per_s.low")) / 2;
  char text[48] = "-";
  if (isfinite(mean)) snprintf(text, sizeof text, "%.0f", mean);
  if (isfinite(half)) snprintf(text + strlen(text), sizeof text - strlen(text), " +- %.0f", half);
  cli_print(" %20s", text);
}

static void print_study_row(const json_t *row) {
  const json_t *one = json_object_get(row, "one"), *two = json_object_get(row, "two");
  cli_print("  %5.0f", ls_bench_number(row, "batch"));
  print_rate(one);
  print_rate(two);
  double speedup = ls_bench_number(row, "speedup.value"), low = ls_bench_number(row, "speedup.low"),
         study = ls_bench_number(row, "published.speedup");
  if (!isfinite(speedup)) {
    const json_t *failed = json_object_get(two, "failed");
    cli_print("   not measured: %s\n", ls_bench_word(failed ? two : one, "failed"));
    return;
  }
  cli_print("    %-22s %4.0f %%", ls_text_ratio(speedup, low, ls_bench_number(row, "speedup.high")).s,
            50 * speedup);
  double exposed = ls_bench_number(two, "exposed_comm_percent");
  if (isfinite(exposed))
    cli_print("  %4.0f %%", exposed);
  else
    cli_print("  %6s", "-");
  if (isfinite(study))
    cli_print("   %.0f, %.0f: %.2fx\n", ls_bench_number(row, "published.one_samples_per_s"),
              ls_bench_number(row, "published.two_samples_per_s"), study);
  else
    cli_print("   -\n");
}

static void print_study(const json_t *document) {
  const json_t *study = json_object_get(document, "study"), *table, *row, *conclusion, *finding;
  size_t i, k;
  const json_t *answer;
  if (!study) return;
  if (json_array_size(json_object_get(document, "crossovers")) > 0)
    cli_print("\n  from which batch on more ranks pay\n");
  json_array_foreach(json_object_get(document, "crossovers"), i, answer)
      cli_print("  %s\n", ls_bench_word(answer, "text"));
  json_array_foreach(json_object_get(study, "tables"), i, table) {
    const char *peer = ls_bench_word(table, "peer_access");
    cli_print("\n  %s%s%s\n  %5s %20s %20s   %-23s %6s  %6s   %s\n", ls_bench_word(table, "label"),
              peer[0] ? ", peer access " : "", peer, "batch", "one, samples/s", "two, samples/s",
              "speed-up (95 %)", "effic.", "comm.", "study, other hardware");
    json_array_foreach(json_object_get(table, "rows"), k, row) print_study_row(row);
  }
  cli_print("\n  the study's conclusions on this machine\n");
  json_array_foreach(json_object_get(study, "conclusions"), i, conclusion) {
    cli_print("  %s\n", ls_bench_word(conclusion, "statement"));
    json_array_foreach(json_object_get(conclusion, "findings"), k, finding) {
      const char *peer = ls_bench_word(finding, "peer_access");
      cli_print("    %s%s%-15s %s\n", peer[0] ? "peer " : "",
                peer[0] ? (peer[1] == 'n' ? "on:  " : "off: ") : "", ls_bench_word(finding, "verdict"),
                ls_bench_word(finding, "figures"));
    }
  }
}

void cli_bench_table(const json_t *d) {
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
  print_study(d);
}
