/* lockstep compare A B: two benchmark documents, or two variants of them, against each other. */
#include "bench/pairs.h"
#include "cli/cli.h"

enum { COMPARE_VARIANT_A, COMPARE_VARIANT_B, COMPARE_MARGIN, COMPARE_FLAG_COUNT };

static const cli_extra_t flags[] = {
    [COMPARE_VARIANT_A] = {"--variant-a", "NAME", "Variant of A (default: each that B has too)."},
    [COMPARE_VARIANT_B] = {"--variant-b", "NAME", "Variant of B (default: --variant-a)."},
    [COMPARE_MARGIN] = {"--margin", "PERCENT", "Differences below this count as equivalent (default 5).",
                        CLI_SHARE(5)},
    [COMPARE_FLAG_COUNT] = {NULL, NULL, NULL}};

static void print_pair(const ls_bench_pair_t *p) {
  static const char *const words[] = {[LS_BENCH_FASTER] = "A is faster",
                                      [LS_BENCH_SLOWER] = "A is slower",
                                      [LS_BENCH_EQUIVALENT] = "equivalent",
                                      [LS_BENCH_UNDECIDED] = "undecided: more repetitions are needed"};
  const ls_bench_comparison_t *c = &p->all, *kept = &p->kept;
  const ls_welch_t *w = &c->welch;
  bool other = c->verdict != kept->verdict;
  cli_print("A: %s: %.1f us per step\nB: %s: %.1f us per step\n", p->a, p->a_us, p->b, p->b_us);
  cli_print("  A - B: %+.2f us (95 %% from %+.2f to %+.2f), %+.2f %% (from %+.2f to %+.2f) of B\n",
            w->difference, w->interval.low, w->interval.high, c->difference_percent, c->low_percent,
            c->high_percent);
  cli_print("  Welch p %.3g (without outliers %.3g), equivalence within %g %%: p %.3g (%.3g)\n", w->p,
            kept->welch.p, c->margin_percent, c->equivalence_p, kept->equivalence_p);
  cli_print("  verdict: %s%s%s%s\n", words[c->verdict], other ? " (without outliers: " : "",
            other ? ls_bench_verdict_word(kept->verdict) : "", other ? ")" : "");
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  json_t *a = NULL, *b = NULL;
  ls_bench_pairs_t pairs = {.count = 0};
  ls_status_t status = ls_bench_document_read(ctx, args->operand[0], &a);
  if (status == LS_OK) status = ls_bench_document_read(ctx, args->operand[1], &b);
  if (status == LS_OK)
    status =
        ls_bench_compare_documents(ctx, a, b, args->extra[COMPARE_VARIANT_A], args->extra[COMPARE_VARIANT_B],
                                   args->percent[COMPARE_MARGIN], &pairs);
  if (status == LS_OK && args->json) cli_print_json(ls_bench_pairs_json(&pairs));
  for (int i = 0; status == LS_OK && !args->json && i < pairs.count; i++)
    print_pair(&pairs.pair[i]);
  ls_free(pairs.pair);
  json_decref(b);
  json_decref(a);
  return status;
}

static const cli_command_t command = {
    .name = "compare",
    .place = 54,
    .summary = "Compares two benchmarks: difference with interval, tests, verdict.",
    .details =
        "A and B are JSON documents of lockstep bench (the same file twice compares two of its variants).",
    .flags = CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
    .operands = "A B",
    .operand_count = 2,
    .extra = flags,
    .run = run};
CLI_COMMAND(command)
