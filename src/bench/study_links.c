/* The study's statements about several settings at once: what a direct link between the devices changes, and
 * what holds with both links. */
#include "bench/study_case.h"

#include <math.h>
#include <string.h>

static const ls_study_setting_t *find_setting(const ls_study_t *study, const char *peer_access) {
  for (int i = 0; i < study->setting_count; i++) {
    const char *own = study->setting[i].peer_access;
    if (own && !strcmp(own, peer_access)) return &study->setting[i];
  }
  return NULL;
}

/* What the cells say that were measured with peer access and without. */
typedef struct {
  int on_faster, off_faster, unsure;
  ls_study_range_t removed; /* part of the exposed communication that peer access removes */
  ls_study_range_t ratio;
} pairs_t;

static void compare_cells(const ls_study_cell_t *on, const ls_study_cell_t *off, pairs_t *pairs) {
  double ratio =
      ls_bench_number(off->two, "step_time_us.mean") / ls_bench_number(on->two, "step_time_us.mean");
  if (!isfinite(ratio)) return;
  ls_study_widen(&pairs->ratio, ratio);
  if (ls_bench_number(on->two, "step_time_us.high") < ls_bench_number(off->two, "step_time_us.low"))
    pairs->on_faster++;
  else if (ls_bench_number(off->two, "step_time_us.high") < ls_bench_number(on->two, "step_time_us.low"))
    pairs->off_faster++;
  else
    pairs->unsure++;
  double removed = 1 - ls_study_part(on->two, "exposed_comm") / ls_study_part(off->two, "exposed_comm");
  if (isfinite(removed)) ls_study_widen(&pairs->removed, removed);
}

static bool compare_settings(const ls_study_case_t *c, pairs_t *pairs) {
  const ls_study_setting_t *on = find_setting(c->study, "on"), *off = find_setting(c->study, "off");
  *pairs = (pairs_t){.removed = {NAN, NAN}, .ratio = {NAN, NAN}};
  if (!on || !off) {
    fputs("peer access was not measured both on and off", c->figures);
    return false;
  }
  for (int m = 0; m < LS_STUDY_MODELS; m++)
    for (int i = 0; i < on->count[m]; i++)
      for (int k = 0; k < off->count[m]; k++)
        if (on->cell[m][i].batch == off->cell[m][k].batch)
          compare_cells(&on->cell[m][i], &off->cell[m][k], pairs);
  return true;
}

ls_study_verdict_t ls_study_topology_matters(const ls_study_case_t *c) {
  pairs_t p;
  if (!compare_settings(c, &p)) return LS_STUDY_OPEN;
  fprintf(c->figures, "with peer access faster in %d cells, slower in %d, not told apart in %d", p.on_faster,
          p.off_faster, p.unsure);
  if (isfinite(p.ratio.low))
    fprintf(c->figures, "; a step without takes %.2f to %.2f times as long", p.ratio.low, p.ratio.high);
  if (p.off_faster > 0) return LS_STUDY_FAILS;
  return p.on_faster > 0 && p.unsure == 0 ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_direct_link_removes(const ls_study_case_t *c) {
  pairs_t p;
  if (!compare_settings(c, &p) || !isfinite(p.removed.low)) return LS_STUDY_OPEN;
  fprintf(c->figures, "%.0f to %.0f %% less exposed communication", 100 * p.removed.low,
          100 * p.removed.high);
  return p.removed.low >= 0.5 && p.removed.high <= 0.9 ? LS_STUDY_HOLDS : LS_STUDY_FAILS;
}

ls_study_verdict_t ls_study_direct_link_near_linear(const ls_study_case_t *c) {
  const ls_study_setting_t *on = find_setting(c->study, "on");
  const ls_study_cell_t *cell = on && on->count[LS_STUDY_MODELS - 1] > 0
                                    ? &on->cell[LS_STUDY_MODELS - 1][on->count[LS_STUDY_MODELS - 1] - 1]
                                    : NULL;
  if (!cell || !isfinite(cell->speedup)) {
    fputs("the large network was not measured with peer access", c->figures);
    return LS_STUDY_OPEN;
  }
  fprintf(c->figures, "efficiency %.0f %% (%.0f to %.0f) at batch %.0f", 50 * cell->speedup, 50 * cell->low,
          50 * cell->high, cell->batch);
  if (cell->low >= 1.8) return LS_STUDY_HOLDS;
  return cell->high < 1.8 ? LS_STUDY_FAILS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_parameters_decide(const ls_study_case_t *c) {
  bool differs = false, complete = c->study->setting_count > 0;
  for (int m = 0; m < LS_STUDY_MODELS; m++) {
    int n[LS_STUDY_SIDES] = {0};
    for (int s = 0; s < c->study->setting_count; s++)
      for (int i = 0; i < c->study->setting[s].count[m]; i++)
        n[ls_study_side(&c->study->setting[s].cell[m][i])]++;
    fprintf(c->figures, "%s: slower in %d, faster in %d, neither shown in %d; ", ls_study_short_name(m),
            n[LS_STUDY_SLOWER], n[LS_STUDY_FASTER], n[LS_STUDY_UNSURE] + n[LS_STUDY_MISSING]);
    differs |= n[LS_STUDY_SLOWER] > 0 && n[LS_STUDY_FASTER] > 0;
    complete &= (n[LS_STUDY_SLOWER] > 0) != (n[LS_STUDY_FASTER] > 0) && n[LS_STUDY_UNSURE] == 0 &&
                n[LS_STUDY_MISSING] == 0;
  }
  return differs ? LS_STUDY_FAILS : complete ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}
