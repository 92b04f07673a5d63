/* Inside the study of the bench module: what its statements are put to, and how each is decided. */
#ifndef LS_BENCH_STUDY_CASE_H
#define LS_BENCH_STUDY_CASE_H

#include "bench/study.h"

typedef enum { LS_STUDY_HOLDS, LS_STUDY_FAILS, LS_STUDY_OPEN } ls_study_verdict_t;

/* One statement put to the cells of one setting; writes the figures that decided. */
typedef struct {
  const ls_study_t *study;
  const ls_study_setting_t *setting; /* NULL: a statement about all of them */
  int models;
  FILE *figures;
} ls_study_case_t;
typedef ls_study_verdict_t ls_study_decide_fn(const ls_study_case_t *c);

/* Every cell of the networks that a case is about. */
#define LS_STUDY_EACH_CELL(c, m, i)                                                                          \
  for (int m = 0; m < LS_STUDY_MODELS; m++)                                                                  \
    for (int i = 0; ((c)->models >> m & 1) && i < (c)->setting->count[m]; i++)

/* study_case.c: who won in a cell. */
typedef enum {
  LS_STUDY_SLOWER,
  LS_STUDY_FASTER,
  LS_STUDY_UNSURE,
  LS_STUDY_MISSING,
  LS_STUDY_SIDES
} ls_study_side_t;
ls_study_side_t ls_study_side(const ls_study_cell_t *cell);
const char *ls_study_short_name(int model); /* "medium" */
/* Traced steps are slower than the captured ones that step times are of: their parts are scaled to these, so
 * that both can stand in one sentence. NAN when the traced step's time is not known. */
double ls_study_part(const json_t *variant, const char *name);
/* Keeps the range of a figure over cells. */
typedef struct {
  double low, high;
} ls_study_range_t;
void ls_study_widen(ls_study_range_t *range, double value);

/* study_speed.c */
ls_study_decide_fn ls_study_all_slower, ls_study_falls_with_batch, ls_study_rises_with_batch,
    ls_study_best_at_32, ls_study_efficiency_below_45, ls_study_break_even_above_128,
    ls_study_utilisation_falls;
/* study_parts.c */
ls_study_decide_fn ls_study_communication_explains, ls_study_communication_costs,
    ls_study_communication_ratio, ls_study_compute_halves, ls_study_optimizer_halves, ls_study_memory_grows;
/* study_links.c */
ls_study_decide_fn ls_study_topology_matters, ls_study_direct_link_removes, ls_study_direct_link_near_linear,
    ls_study_parameters_decide;

#endif
