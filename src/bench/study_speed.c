/* The study's statements about who is faster, at which batch and by how much: speed-ups and their
 * intervals. */
#include "bench/study_case.h"

#include <math.h>
#include <string.h>

/* Who wins where. */
static void count_sides(const ls_study_case_t *c, int count[LS_STUDY_SIDES]) {
  static const char *const words[LS_STUDY_SIDES] = {"slower", "faster", "not told apart", "not measured"};
  memset(count, 0, LS_STUDY_SIDES * sizeof *count);
  for (int m = 0; m < LS_STUDY_MODELS; m++) {
    if (!(c->models >> m & 1)) continue;
    fprintf(c->figures, "%s:", ls_study_short_name(m));
    for (int side = 0; side < LS_STUDY_SIDES; side++) {
      bool any = false;
      for (int i = 0; i < c->setting->count[m]; i++) {
        const ls_study_cell_t *cell = &c->setting->cell[m][i];
        if ((int)ls_study_side(cell) != side) continue;
        if (any)
          fprintf(c->figures, ", %.0f", cell->batch);
        else
          fprintf(c->figures, " %s at %.0f", words[side], cell->batch);
        any = true;
        count[side]++;
      }
      if (any) fputc(';', c->figures);
    }
    fputc(' ', c->figures);
  }
}

ls_study_verdict_t ls_study_all_slower(const ls_study_case_t *c) {
  int n[LS_STUDY_SIDES];
  count_sides(c, n);
  if (n[LS_STUDY_FASTER] > 0) return LS_STUDY_FAILS;
  return n[LS_STUDY_SLOWER] > 0 && n[LS_STUDY_UNSURE] == 0 && n[LS_STUDY_MISSING] == 0 ? LS_STUDY_HOLDS
                                                                                       : LS_STUDY_OPEN;
}

/* The smallest and the largest measured batch of the one network that the case is about. */
static bool ends(const ls_study_case_t *c, const ls_study_cell_t **first, const ls_study_cell_t **last) {
  *first = *last = NULL;
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!isfinite(cell->speedup)) continue;
    if (!*first) *first = cell;
    *last = cell;
  }
  if (*first == *last) return false;
  fprintf(c->figures, "%.2fx (%.2f to %.2f) at %.0f, %.2fx (%.2f to %.2f) at %.0f", (*first)->speedup,
          (*first)->low, (*first)->high, (*first)->batch, (*last)->speedup, (*last)->low, (*last)->high,
          (*last)->batch);
  return true;
}

ls_study_verdict_t ls_study_falls_with_batch(const ls_study_case_t *c) {
  const ls_study_cell_t *first, *last;
  if (!ends(c, &first, &last)) return LS_STUDY_OPEN;
  if (last->high < first->low) return LS_STUDY_HOLDS;
  return last->low > first->high ? LS_STUDY_FAILS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_rises_with_batch(const ls_study_case_t *c) {
  ls_study_verdict_t fall = ls_study_falls_with_batch(c);
  return fall == LS_STUDY_HOLDS ? LS_STUDY_FAILS : fall == LS_STUDY_FAILS ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_best_at_32(const ls_study_case_t *c) {
  const ls_study_cell_t *own = NULL, *best = NULL;
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!isfinite(cell->speedup)) continue;
    if (cell->batch == 32) own = cell;
    if (!best || cell->speedup > best->speedup) best = cell;
  }
  if (!own) return LS_STUDY_OPEN;
  fprintf(c->figures, "best: %.2fx at %.0f; at 32: %.2fx (%.2f to %.2f)", best->speedup, best->batch,
          own->speedup, own->low, own->high);
  bool apart = true;
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (cell->low > own->high) return LS_STUDY_FAILS;
    if (cell != own && isfinite(cell->speedup)) apart &= cell->high < own->low;
  }
  return apart && best == own ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_efficiency_below_45(const ls_study_case_t *c) {
  double highest = NAN;
  bool above = false, below = true;
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!(highest >= cell->speedup)) highest = cell->speedup;
    above |= cell->low > 0.9;
    below &= cell->high <= 0.9; /* false without an interval */
  }
  if (isfinite(highest)) fprintf(c->figures, "highest: %.0f %%", 50 * highest);
  return above ? LS_STUDY_FAILS : below && isfinite(highest) ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_break_even_above_128(const ls_study_case_t *c) {
  bool up_to = false, above = false;
  int n[LS_STUDY_SIDES];
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (ls_study_side(cell) != LS_STUDY_FASTER) continue;
    if (cell->batch <= 128)
      up_to = true;
    else
      above = true;
  }
  count_sides(c, n);
  return up_to ? LS_STUDY_FAILS : above ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}

/* The same arithmetic in the same time on twice the devices is half the utilisation: it is the efficiency. */
ls_study_verdict_t ls_study_utilisation_falls(const ls_study_case_t *c) {
  ls_study_range_t share = {NAN, NAN};
  bool falls = true, rises = false;
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!isfinite(cell->speedup)) continue;
    ls_study_widen(&share, cell->speedup / 2);
    falls &= cell->high < 2;
    rises |= cell->low >= 2;
  }
  if (!isfinite(share.low)) return LS_STUDY_OPEN;
  fprintf(c->figures, "each of two devices computes at %.0f to %.0f %% of the rate of one alone",
          100 * share.low, 100 * share.high);
  return rises ? LS_STUDY_FAILS : falls ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}
