/* The study's statements about where a step's time goes, and its memory: communication, computing, the
 * optimizer. Judged by means: these figures have no intervals. */
#include "bench/study_case.h"

#include <math.h>

static double computing(const json_t *v) {
  return ls_study_part(v, "forward") + ls_study_part(v, "backward") + ls_study_part(v, "optimizer");
}

ls_study_verdict_t ls_study_communication_explains(const ls_study_case_t *c) {
  int explained = 0, left = 0;
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    double exposed = ls_study_part(cell->two, "exposed_comm");
    if (ls_study_side(cell) != LS_STUDY_SLOWER || !isfinite(exposed)) continue;
    double lost =
        ls_bench_number(cell->two, "step_time_us.mean") - ls_bench_number(cell->one, "step_time_us.mean");
    if (exposed > lost)
      explained++;
    else
      left++;
  }
  fprintf(c->figures, "slower in %d cells with known parts; faster without exposed communication in %d",
          explained + left, explained);
  return left > 0 ? LS_STUDY_FAILS : explained > 0 ? LS_STUDY_HOLDS : LS_STUDY_OPEN;
}

ls_study_verdict_t ls_study_communication_costs(const ls_study_case_t *c) {
  bool inside = true, any = false;
  for (int m = 0; m < LS_STUDY_MODELS; m++) {
    ls_study_range_t ms = {NAN, NAN};
    for (int i = 0; i < c->setting->count[m]; i++) {
      double own = 1e-3 * ls_study_part(c->setting->cell[m][i].two, "exposed_comm");
      if (!isfinite(own)) continue;
      any = true;
      ls_study_widen(&ms, own);
      inside &=
          own >= ls_study_models[m].communication_low_ms && own <= ls_study_models[m].communication_high_ms;
    }
    if (isfinite(ms.low))
      fprintf(c->figures, "%s: %.3g to %.3g ms exposed; ", ls_study_short_name(m), ms.low, ms.high);
  }
  return !any ? LS_STUDY_OPEN : inside ? LS_STUDY_HOLDS : LS_STUDY_FAILS;
}

ls_study_verdict_t ls_study_communication_ratio(const ls_study_case_t *c) {
  bool inside = true;
  ls_study_range_t ratio = {NAN, NAN};
  LS_STUDY_EACH_CELL(c, m, i) {
    const json_t *two = c->setting->cell[m][i].two;
    double own = ls_study_part(two, "exposed_comm") / computing(two);
    if (!isfinite(own)) continue;
    ls_study_widen(&ratio, own);
    inside &= own >= ls_study_models[m].ratio_low && own <= ls_study_models[m].ratio_high;
  }
  if (!isfinite(ratio.low)) return LS_STUDY_OPEN;
  fprintf(c->figures, "%.2f to %.2f times", ratio.low, ratio.high);
  return inside ? LS_STUDY_HOLDS : LS_STUDY_FAILS;
}

/* Two devices' share over one device's; about a half is what the study's timelines show. */
static ls_study_verdict_t halved(const ls_study_case_t *c, const char *first, const char *second) {
  ls_study_range_t share = {NAN, NAN};
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    double two = ls_study_part(cell->two, first) + (second ? ls_study_part(cell->two, second) : 0),
           one = ls_study_part(cell->one, first) + (second ? ls_study_part(cell->one, second) : 0);
    if (isfinite(two / one)) ls_study_widen(&share, two / one);
  }
  if (!isfinite(share.low)) return LS_STUDY_OPEN;
  fprintf(c->figures, "%.0f to %.0f %% of one device's time", 100 * share.low, 100 * share.high);
  return share.high <= 0.6 ? LS_STUDY_HOLDS : LS_STUDY_FAILS;
}

ls_study_verdict_t ls_study_compute_halves(const ls_study_case_t *c) {
  return halved(c, "forward", "backward");
}
ls_study_verdict_t ls_study_optimizer_halves(const ls_study_case_t *c) {
  return halved(c, "optimizer", NULL);
}

ls_study_verdict_t ls_study_memory_grows(const ls_study_case_t *c) {
  ls_study_range_t more = {NAN, NAN};
  LS_STUDY_EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    double own = ls_bench_number(cell->two, "gpu.memory_used_bytes") -
                 ls_bench_number(cell->one, "gpu.memory_used_bytes");
    if (isfinite(own)) ls_study_widen(&more, own / (1 << 20));
  }
  if (!isfinite(more.low)) {
    fputs("memory in use was not read", c->figures);
    return LS_STUDY_OPEN;
  }
  fprintf(c->figures, "%+.0f to %+.0f MiB a device", more.low, more.high);
  return more.low > 0 ? LS_STUDY_HOLDS : more.high <= 0 ? LS_STUDY_FAILS : LS_STUDY_OPEN;
}
