/* Which variants: combinations of the lists that make sense. */
#include "cli/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char word[BENCH_LIST_MAX][BENCH_WORD_BYTES];
  int64_t number[BENCH_LIST_MAX];
  int count;
} list_t;

/* "a,b,c"; numbers too when `numbers`. Repeated entries are refused: they would be compared with themselves.
 */
static ls_status_t read_list(ls_ctx_t *ctx, bench_flag_t flag, const char *text, bool numbers, list_t *list) {
  const char *name = bench_flags[flag].name;
  *list = (list_t){.count = 0};
  for (const char *at = text;; at++) {
    size_t len = strcspn(at, ",");
    if (list->count == BENCH_LIST_MAX)
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: more than %d entries", name, BENCH_LIST_MAX);
    if (len == 0 || len >= BENCH_WORD_BYTES)
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: an entry of \"%s\" is %s", name, text,
                     len ? "too long" : "empty");
    char *word = list->word[list->count], *end;
    memcpy(word, at, len);
    word[len] = '\0';
    errno = 0;
    list->number[list->count] = strtoll(word, &end, 10);
    if (numbers && (errno || *end || list->number[list->count] < 1 || list->number[list->count] > 1000000000))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "%s takes whole numbers from 1 on, not \"%s\"", name, word);
    for (int i = 0; i < list->count; i++)
      if (numbers ? list->number[i] == list->number[list->count] : !strcmp(list->word[i], word))
        return ls_fail(ctx, LS_ERR_ARGUMENT, "%s: \"%s\" is there twice", name, word);
    list->count++;
    at += len;
    if (!*at) return LS_OK;
  }
}

static ls_status_t list_or(bench_t *b, bench_flag_t flag, bool numbers, const char *fallback, list_t *list) {
  const char *text = b->args->extra[flag];
  return read_list(b->ctx, flag, text ? text : fallback, numbers, list);
}

/* The configuration as the variant means it, only to report its errors before anything runs. */
static ls_status_t check_variant(bench_t *b, const bench_variant_t *v) {
  const char *sets[CLI_SETS_MAX + 4];
  char own[4][96];
  int count = b->args->set_count;
  memcpy(sets, b->args->sets, (size_t)count * sizeof *sets);
  snprintf(own[0], sizeof own[0], "train.batch=%lld", (long long)v->batch);
  snprintf(own[1], sizeof own[1], "parallel.ranks=%d", v->ranks);
  snprintf(own[2], sizeof own[2], "parallel.strategy=%s", v->strategy);
  snprintf(own[3], sizeof own[3], "train.precision=%s", v->precision);
  for (int i = 0; i < 4; i++)
    sets[count++] = own[i];
  ls_config_t *config;
  ls_status_t status = ls_config_load(b->ctx, b->args->config, sets, count, &config);
  if (status == LS_OK) ls_config_destroy(config);
  return status;
}

static ls_status_t add_variant(bench_t *b, int64_t batch, int64_t ranks, const char *strategy,
                               const char *precision, bool show_precision) {
  if (b->variant_count == BENCH_VARIANT_MAX)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "more than %d variants; shorten the lists", BENCH_VARIANT_MAX);
  bench_variant_t *v = &b->variants[b->variant_count];
  *v = (bench_variant_t){.key = batch, .batch = b->method.weak ? batch * ranks : batch, .ranks = (int)ranks};
  snprintf(v->strategy, sizeof v->strategy, "%s", strategy);
  snprintf(v->precision, sizeof v->precision, "%s", precision);
  snprintf(v->series, sizeof v->series, "%d x %s%s%s", v->ranks, strategy, show_precision ? " " : "",
           show_precision ? precision : "");
  snprintf(v->name, sizeof v->name, "batch %lld%s, %s", (long long)batch, b->method.weak ? " per rank" : "",
           v->series);
  ls_status_t status = check_variant(b, v);
  if (status == LS_OK) b->variant_count++;
  return status;
}

/* single runs on one rank; the others on several, and on one only where single is not asked for. */
static bool sensible(const list_t *strategies, int at, int64_t ranks) {
  const ls_strategy_t *strategy = ls_strategy_find(strategies->word[at]);
  if (!strategy || ranks > 1) return !strategy || strategy->distributed;
  if (!strategy->distributed) return true;
  for (int i = 0; i < strategies->count; i++) {
    const ls_strategy_t *other = ls_strategy_find(strategies->word[i]);
    if (other && !other->distributed) return false;
  }
  return true;
}

static ls_status_t combine(bench_t *b, const list_t *batches, const list_t *ranks, const list_t *strategies,
                           const list_t *precisions) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < batches->count; i++)
    for (int p = 0; p < precisions->count; p++)
      for (int r = 0; r < ranks->count; r++)
        for (int s = 0; s < strategies->count && status == LS_OK; s++) {
          if (ranks->number[r] > 65536)
            return ls_fail(b->ctx, LS_ERR_ARGUMENT, "--ranks-list: %s are too many ranks", ranks->word[r]);
          if (sensible(strategies, s, ranks->number[r]))
            status = add_variant(b, batches->number[i], ranks->number[r], strategies->word[s],
                                 precisions->word[p], precisions->count > 1);
        }
  if (status == LS_OK && b->variant_count == 0)
    return ls_fail(b->ctx, LS_ERR_ARGUMENT, "the lists give no variant that can run");
  return status;
}

ls_status_t bench_sweep(bench_t *b) {
  ls_config_t *config;
  list_t batches, ranks, strategies, precisions;
  char batch_text[32], ranks_text[32], strategies_text[64];
  ls_status_t status = ls_config_load(b->ctx, b->args->config, b->args->sets, b->args->set_count, &config);
  if (status != LS_OK) return status;
  const ls_strategy_t *own = ls_strategy_find(config->parallel.strategy);
  snprintf(batch_text, sizeof batch_text, "%lld", (long long)config->train.batch);
  snprintf(ranks_text, sizeof ranks_text, config->parallel.ranks > 1 ? "1,%lld" : "%lld",
           (long long)config->parallel.ranks);
  snprintf(strategies_text, sizeof strategies_text, "single,%s", own && own->distributed ? own->name : "ddp");
  ls_config_destroy(config);
  status = list_or(b, BENCH_BATCHES, true, batch_text, &batches);
  if (status == LS_OK) status = list_or(b, BENCH_RANKS_LIST, true, ranks_text, &ranks);
  if (status == LS_OK) status = list_or(b, BENCH_STRATEGIES, false, strategies_text, &strategies);
  if (status == LS_OK) status = list_or(b, BENCH_PRECISIONS, false, "fp32", &precisions);
  if (status != LS_OK) return status;
  b->variants = ls_alloc_array(b->ctx, BENCH_VARIANT_MAX, sizeof *b->variants);
  return b->variants ? combine(b, &batches, &ranks, &strategies, &precisions) : LS_ERR_MEMORY;
}
