/* Medians of own times by rank, and the facts that explain a difference. */
#include "monitor/straggler.h"

#include "stat/stat.h"

#include <math.h>
#include <string.h>

static const double named_from = 0.05, named_until = 0.03;
static const double beyond_noise = 5; /* standard errors of the difference */

typedef struct {
  bool known;
  double own_ns, own_error_ns, input_ns; /* medians; the standard error of the first */
  ls_page_speed_look_t look;
} rank_t;

struct ls_straggler {
  int ranks, named; /* -1: none is */
  rank_t *rank;
  double *sorted;
};

const char *ls_straggler_cause_name(ls_straggler_cause_t cause) {
  static const char *const names[] = {"input", "heat", "clock", "other load", "own work", "slower processor"};
  _Static_assert(LS_COUNT(names) == LS_STRAGGLER_CAUSES, "every cause has a name");
  return names[cause];
}

ls_status_t ls_straggler_create(ls_ctx_t *ctx, int ranks, ls_straggler_t **straggler) {
  ls_straggler_t *s = ls_alloc(ctx, sizeof *s);
  if (!s) return LS_ERR_MEMORY;
  s->ranks = ranks;
  s->named = -1;
  s->rank = ls_alloc_array(ctx, (size_t)ranks, sizeof *s->rank);
  s->sorted = ls_alloc_array(ctx, (size_t)ranks, sizeof *s->sorted);
  if (s->rank && s->sorted) {
    *straggler = s;
    return LS_OK;
  }
  ls_straggler_destroy(s);
  return LS_ERR_MEMORY;
}

void ls_straggler_destroy(ls_straggler_t *s) {
  if (!s) return;
  ls_free(s->sorted);
  ls_free(s->rank);
  ls_free(s);
}

static double median(double *values) {
  ls_stat_sort(values, LS_STRAGGLER_STEPS);
  return ls_stat_quantile(values, LS_STRAGGLER_STEPS, 0.5);
}

/* The standard error of a median of n values with median absolute deviation d: 1.253 (1.483 d) / sqrt(n). */
static void take(rank_t *r) {
  double own[LS_STRAGGLER_STEPS], input[LS_STRAGGLER_STEPS];
  r->known = r->look.timed >= LS_STRAGGLER_STEPS;
  for (int i = 0; i < LS_STRAGGLER_STEPS && r->known; i++) {
    own[i] = (double)r->look.own_ns[i];
    input[i] = (double)r->look.input_ns[i];
    r->known = own[i] > 0;
  }
  if (!r->known) return;
  r->own_ns = median(own);
  r->input_ns = median(input);
  for (int i = 0; i < LS_STRAGGLER_STEPS; i++)
    own[i] = fabs(own[i] - r->own_ns);
  r->own_error_ns = 1.253 * 1.483 * median(own) / sqrt(LS_STRAGGLER_STEPS);
}

static ls_straggler_cause_t cause_of(const rank_t *slow, const rank_t *usual) {
  const double excess_ns = slow->own_ns - usual->own_ns, share = excess_ns / slow->own_ns;
  const ls_page_speed_look_t *a = &slow->look, *b = &usual->look;
  if (slow->input_ns - usual->input_ns > excess_ns / 2) return LS_STRAGGLER_INPUT;
  if ((a->limits & LS_LIMIT_HEAT) > (b->limits & LS_LIMIT_HEAT)) return LS_STRAGGLER_HEAT;
  if ((a->limits & LS_LIMIT_POWER) > (b->limits & LS_LIMIT_POWER)) return LS_STRAGGLER_CLOCK;
  if (a->clock_ratio > 0 && b->clock_ratio > 0 && a->clock_ratio < b->clock_ratio * (1 - share / 2))
    return LS_STRAGGLER_CLOCK;
  if (a->waiting_ratio - b->waiting_ratio > share / 2) return LS_STRAGGLER_LOAD;
  return b->loop_ns > 0 && a->loop_ns * (1 - share / 2) > b->loop_ns ? LS_STRAGGLER_PROCESSOR
                                                                     : LS_STRAGGLER_OWN;
}

bool ls_straggler_look(ls_straggler_t *s, const ls_page_t *page, ls_straggler_is_t *is) {
  int known = 0, slowest = -1, usual = -1;
  for (int i = 0; i < s->ranks; i++) {
    ls_page_speed_look(page, i, LS_STRAGGLER_STEPS, &s->rank[i].look);
    take(&s->rank[i]);
    if (!s->rank[i].known) continue;
    s->sorted[known++] = s->rank[i].own_ns;
    if (slowest < 0 || s->rank[i].own_ns > s->rank[slowest].own_ns) slowest = i;
  }
  if (known < 2) {
    s->named = -1;
    return false;
  }
  ls_stat_sort(s->sorted, known);
  for (int i = 0; i < s->ranks; i++) /* of two ranks: the other one */
    if (i != slowest && s->rank[i].known && s->rank[i].own_ns == s->sorted[(known - 1) / 2]) usual = i;
  if (usual < 0) usual = slowest; /* all are equal */
  const rank_t *slow = &s->rank[slowest], *other = &s->rank[usual];
  const double excess_ns = slow->own_ns - other->own_ns,
               noise_ns = hypot(slow->own_error_ns, other->own_error_ns);
  const bool begins = excess_ns > named_from * other->own_ns && excess_ns > beyond_noise * noise_ns;
  const bool goes_on = s->named == slowest && excess_ns > named_until * other->own_ns;
  s->named = begins || goes_on ? slowest : -1;
  *is = (ls_straggler_is_t){.rank = slowest, .ratio = slow->own_ns / other->own_ns, .named = s->named >= 0};
  if (is->named) is->cause = cause_of(slow, other);
  return true;
}
