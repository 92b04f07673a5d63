/* What every statement of the study is put to: the cells of a case, who won in each, where its step's time
 * went. */
#include "bench/study_case.h"

#include <math.h>
#include <string.h>

ls_study_side_t ls_study_side(const ls_study_cell_t *c) {
  if (!isfinite(c->speedup)) return LS_STUDY_MISSING;
  if (c->high < 1) return LS_STUDY_SLOWER;
  return c->low > 1 ? LS_STUDY_FASTER : LS_STUDY_UNSURE; /* also without intervals */
}

const char *ls_study_short_name(int model) {
  return model == 0 ? "medium" : "large";
}

double ls_study_part(const json_t *variant, const char *name) {
  char path[64];
  const char *source = json_string_value(json_object_get(variant, "step_parts_source"));
  double scale = 1;
  if (source && !strcmp(source, "traced"))
    scale = ls_bench_number(variant, "step_time_us.mean") / ls_bench_number(variant, "traced.step_time_us");
  snprintf(path, sizeof path, "step_parts_us.%s", name);
  return scale * ls_bench_number(variant, path);
}

void ls_study_widen(ls_study_range_t *r, double value) {
  if (!(r->low <= value)) r->low = value;
  if (!(r->high >= value)) r->high = value;
}
