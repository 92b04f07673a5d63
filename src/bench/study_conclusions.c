/* The study's conclusions as rows, each with the test that this document's numbers are put to. A statement
 * about speed holds or falls by 95 % intervals, never by means alone; what the intervals
 * do not decide, or was not measured, stays undecided. The tests are per cell and not corrected for their
 * number. */
#include "bench/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum { HOLDS, FAILS, OPEN } verdict_t;
enum { MEANS_REPETITIONS = 3 };           /* fewer decide nothing by means alone */
enum { MEDIUM = 1, LARGE = 2, BOTH = 3 }; /* which networks a statement is about */

/* One statement put to the cells of one setting; writes the figures that decided. */
typedef struct {
  const ls_study_t *study;
  const ls_study_setting_t *setting; /* NULL: a statement about all of them */
  int models;
  FILE *figures;
} case_t;
typedef verdict_t (*decide_fn)(const case_t *c);

typedef enum { SLOWER, FASTER, UNSURE, MISSING, SIDE_COUNT } side_t;

static side_t side_of(const ls_study_cell_t *c) {
  if (!isfinite(c->speedup)) return MISSING;
  if (c->high < 1) return SLOWER;
  return c->low > 1 ? FASTER : UNSURE; /* also without intervals */
}

static const char *short_name(int model) {
  return model == 0 ? "medium" : "large";
}

/* Every cell of the networks that a case is about. */
#define EACH_CELL(c, m, i)                                                                                   \
  for (int m = 0; m < LS_STUDY_MODELS; m++)                                                                  \
    for (int i = 0; ((c)->models >> m & 1) && i < (c)->setting->count[m]; i++)

/* Who wins where. */
static void count_sides(const case_t *c, int count[SIDE_COUNT]) {
  static const char *const words[SIDE_COUNT] = {"slower", "faster", "not told apart", "not measured"};
  memset(count, 0, SIDE_COUNT * sizeof *count);
  for (int m = 0; m < LS_STUDY_MODELS; m++) {
    if (!(c->models >> m & 1)) continue;
    fprintf(c->figures, "%s:", short_name(m));
    for (int side = 0; side < SIDE_COUNT; side++) {
      bool any = false;
      for (int i = 0; i < c->setting->count[m]; i++) {
        const ls_study_cell_t *cell = &c->setting->cell[m][i];
        if ((int)side_of(cell) != side) continue;
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

static verdict_t all_slower(const case_t *c) {
  int n[SIDE_COUNT];
  count_sides(c, n);
  if (n[FASTER] > 0) return FAILS;
  return n[SLOWER] > 0 && n[UNSURE] == 0 && n[MISSING] == 0 ? HOLDS : OPEN;
}

/* The smallest and the largest measured batch of the one network that the case is about. */
static bool ends(const case_t *c, const ls_study_cell_t **first, const ls_study_cell_t **last) {
  *first = *last = NULL;
  EACH_CELL(c, m, i) {
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

static verdict_t falls_with_batch(const case_t *c) {
  const ls_study_cell_t *first, *last;
  if (!ends(c, &first, &last)) return OPEN;
  if (last->high < first->low) return HOLDS;
  return last->low > first->high ? FAILS : OPEN;
}

static verdict_t rises_with_batch(const case_t *c) {
  verdict_t fall = falls_with_batch(c);
  return fall == HOLDS ? FAILS : fall == FAILS ? HOLDS : OPEN;
}

static verdict_t best_at_32(const case_t *c) {
  const ls_study_cell_t *own = NULL, *best = NULL;
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!isfinite(cell->speedup)) continue;
    if (cell->batch == 32) own = cell;
    if (!best || cell->speedup > best->speedup) best = cell;
  }
  if (!own) return OPEN;
  fprintf(c->figures, "best: %.2fx at %.0f; at 32: %.2fx (%.2f to %.2f)", best->speedup, best->batch,
          own->speedup, own->low, own->high);
  bool apart = true;
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (cell->low > own->high) return FAILS;
    if (cell != own && isfinite(cell->speedup)) apart &= cell->high < own->low;
  }
  return apart && best == own ? HOLDS : OPEN;
}

static verdict_t efficiency_below_45(const case_t *c) {
  double highest = NAN;
  bool above = false, below = true;
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!(highest >= cell->speedup)) highest = cell->speedup;
    above |= cell->low > 0.9;
    below &= cell->high <= 0.9; /* false without an interval */
  }
  if (isfinite(highest)) fprintf(c->figures, "highest: %.0f %%", 50 * highest);
  return above ? FAILS : below && isfinite(highest) ? HOLDS : OPEN;
}

static verdict_t break_even_above_128(const case_t *c) {
  bool up_to = false, above = false;
  int n[SIDE_COUNT];
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (side_of(cell) != FASTER) continue;
    if (cell->batch <= 128)
      up_to = true;
    else
      above = true;
  }
  count_sides(c, n);
  return up_to ? FAILS : above ? HOLDS : OPEN;
}

/* Traced steps are slower than the captured ones that step times are of: their parts are scaled to these, so
 * that both can stand in one sentence. NAN when the traced step's time is not known. */
static double part(const json_t *variant, const char *name) {
  char path[64];
  const char *source = json_string_value(json_object_get(variant, "step_parts_source"));
  double scale = 1;
  if (source && !strcmp(source, "traced"))
    scale = ls_bench_number(variant, "step_time_us.mean") / ls_bench_number(variant, "traced.step_time_us");
  snprintf(path, sizeof path, "step_parts_us.%s", name);
  return scale * ls_bench_number(variant, path);
}

static double computing(const json_t *v) {
  return part(v, "forward") + part(v, "backward") + part(v, "optimizer");
}

/* Keeps the range of a figure over cells. */
typedef struct {
  double low, high;
} range_t;

static void widen(range_t *r, double value) {
  if (!(r->low <= value)) r->low = value;
  if (!(r->high >= value)) r->high = value;
}

static verdict_t communication_explains(const case_t *c) {
  int explained = 0, left = 0;
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    double exposed = part(cell->two, "exposed_comm");
    if (side_of(cell) != SLOWER || !isfinite(exposed)) continue;
    double lost =
        ls_bench_number(cell->two, "step_time_us.mean") - ls_bench_number(cell->one, "step_time_us.mean");
    if (exposed > lost)
      explained++;
    else
      left++;
  }
  fprintf(c->figures, "slower in %d cells with known parts; faster without exposed communication in %d",
          explained + left, explained);
  return left > 0 ? FAILS : explained > 0 ? HOLDS : OPEN;
}

static verdict_t communication_costs(const case_t *c) {
  bool inside = true, any = false;
  for (int m = 0; m < LS_STUDY_MODELS; m++) {
    range_t ms = {NAN, NAN};
    for (int i = 0; i < c->setting->count[m]; i++) {
      double own = 1e-3 * part(c->setting->cell[m][i].two, "exposed_comm");
      if (!isfinite(own)) continue;
      any = true;
      widen(&ms, own);
      inside &=
          own >= ls_study_models[m].communication_low_ms && own <= ls_study_models[m].communication_high_ms;
    }
    if (isfinite(ms.low))
      fprintf(c->figures, "%s: %.3g to %.3g ms exposed; ", short_name(m), ms.low, ms.high);
  }
  return !any ? OPEN : inside ? HOLDS : FAILS;
}

static verdict_t communication_ratio(const case_t *c) {
  bool inside = true;
  range_t ratio = {NAN, NAN};
  EACH_CELL(c, m, i) {
    const json_t *two = c->setting->cell[m][i].two;
    double own = part(two, "exposed_comm") / computing(two);
    if (!isfinite(own)) continue;
    widen(&ratio, own);
    inside &= own >= ls_study_models[m].ratio_low && own <= ls_study_models[m].ratio_high;
  }
  if (!isfinite(ratio.low)) return OPEN;
  fprintf(c->figures, "%.2f to %.2f times", ratio.low, ratio.high);
  return inside ? HOLDS : FAILS;
}

/* Two devices' share over one device's; about a half is what the study's timelines show. */
static verdict_t halved(const case_t *c, const char *first, const char *second) {
  range_t share = {NAN, NAN};
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    double two = part(cell->two, first) + (second ? part(cell->two, second) : 0),
           one = part(cell->one, first) + (second ? part(cell->one, second) : 0);
    if (isfinite(two / one)) widen(&share, two / one);
  }
  if (!isfinite(share.low)) return OPEN;
  fprintf(c->figures, "%.0f to %.0f %% of one device's time", 100 * share.low, 100 * share.high);
  return share.high <= 0.6 ? HOLDS : FAILS;
}

static verdict_t compute_halves(const case_t *c) {
  return halved(c, "forward", "backward");
}
static verdict_t optimizer_halves(const case_t *c) {
  return halved(c, "optimizer", NULL);
}

/* The same arithmetic in the same time on twice the devices is half the utilisation: it is the efficiency. */
static verdict_t utilisation_falls(const case_t *c) {
  range_t share = {NAN, NAN};
  bool falls = true, rises = false;
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    if (!isfinite(cell->speedup)) continue;
    widen(&share, cell->speedup / 2);
    falls &= cell->high < 2;
    rises |= cell->low >= 2;
  }
  if (!isfinite(share.low)) return OPEN;
  fprintf(c->figures, "each of two devices computes at %.0f to %.0f %% of the rate of one alone",
          100 * share.low, 100 * share.high);
  return rises ? FAILS : falls ? HOLDS : OPEN;
}

static verdict_t memory_grows(const case_t *c) {
  range_t more = {NAN, NAN};
  EACH_CELL(c, m, i) {
    const ls_study_cell_t *cell = &c->setting->cell[m][i];
    double own = ls_bench_number(cell->two, "gpu.memory_used_bytes") -
                 ls_bench_number(cell->one, "gpu.memory_used_bytes");
    if (isfinite(own)) widen(&more, own / (1 << 20));
  }
  if (!isfinite(more.low)) {
    fputs("memory in use was not read", c->figures);
    return OPEN;
  }
  fprintf(c->figures, "%+.0f to %+.0f MiB a device", more.low, more.high);
  return more.low > 0 ? HOLDS : more.high <= 0 ? FAILS : OPEN;
}

/* ---- statements about several settings ---- */

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
  range_t removed; /* part of the exposed communication that peer access removes */
  range_t ratio;
} pairs_t;

static void compare_cells(const ls_study_cell_t *on, const ls_study_cell_t *off, pairs_t *pairs) {
  double ratio =
      ls_bench_number(off->two, "step_time_us.mean") / ls_bench_number(on->two, "step_time_us.mean");
  if (!isfinite(ratio)) return;
  widen(&pairs->ratio, ratio);
  if (ls_bench_number(on->two, "step_time_us.high") < ls_bench_number(off->two, "step_time_us.low"))
    pairs->on_faster++;
  else if (ls_bench_number(off->two, "step_time_us.high") < ls_bench_number(on->two, "step_time_us.low"))
    pairs->off_faster++;
  else
    pairs->unsure++;
  double removed = 1 - part(on->two, "exposed_comm") / part(off->two, "exposed_comm");
  if (isfinite(removed)) widen(&pairs->removed, removed);
}

static bool compare_settings(const case_t *c, pairs_t *pairs) {
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

static verdict_t topology_matters(const case_t *c) {
  pairs_t p;
  if (!compare_settings(c, &p)) return OPEN;
  fprintf(c->figures, "with peer access faster in %d cells, slower in %d, not told apart in %d", p.on_faster,
          p.off_faster, p.unsure);
  if (isfinite(p.ratio.low))
    fprintf(c->figures, "; a step without takes %.2f to %.2f times as long", p.ratio.low, p.ratio.high);
  if (p.off_faster > 0) return FAILS;
  return p.on_faster > 0 && p.unsure == 0 ? HOLDS : OPEN;
}

static verdict_t direct_link_removes(const case_t *c) {
  pairs_t p;
  if (!compare_settings(c, &p) || !isfinite(p.removed.low)) return OPEN;
  fprintf(c->figures, "%.0f to %.0f %% less exposed communication", 100 * p.removed.low,
          100 * p.removed.high);
  return p.removed.low >= 0.5 && p.removed.high <= 0.9 ? HOLDS : FAILS;
}

static verdict_t direct_link_near_linear(const case_t *c) {
  const ls_study_setting_t *on = find_setting(c->study, "on");
  const ls_study_cell_t *cell = on && on->count[LS_STUDY_MODELS - 1] > 0
                                    ? &on->cell[LS_STUDY_MODELS - 1][on->count[LS_STUDY_MODELS - 1] - 1]
                                    : NULL;
  if (!cell || !isfinite(cell->speedup)) {
    fputs("the large network was not measured with peer access", c->figures);
    return OPEN;
  }
  fprintf(c->figures, "efficiency %.0f %% (%.0f to %.0f) at batch %.0f", 50 * cell->speedup, 50 * cell->low,
          50 * cell->high, cell->batch);
  if (cell->low >= 1.8) return HOLDS;
  return cell->high < 1.8 ? FAILS : OPEN;
}

static verdict_t parameters_decide(const case_t *c) {
  bool differs = false, complete = c->study->setting_count > 0;
  for (int m = 0; m < LS_STUDY_MODELS; m++) {
    int n[SIDE_COUNT] = {0};
    for (int s = 0; s < c->study->setting_count; s++)
      for (int i = 0; i < c->study->setting[s].count[m]; i++)
        n[side_of(&c->study->setting[s].cell[m][i])]++;
    fprintf(c->figures, "%s: slower in %d, faster in %d, neither shown in %d; ", short_name(m), n[SLOWER],
            n[FASTER], n[UNSURE] + n[MISSING]);
    differs |= n[SLOWER] > 0 && n[FASTER] > 0;
    complete &= (n[SLOWER] > 0) != (n[FASTER] > 0) && n[UNSURE] == 0 && n[MISSING] == 0;
  }
  return differs ? FAILS : complete ? HOLDS : OPEN;
}

/* ---- the rows ---- */

typedef struct {
  const char *id, *statement, *test;
  int models;
  bool across; /* about all settings at once */
  decide_fn decide;
  bool means; /* judged by means, which have no intervals: needs MEANS_REPETITIONS */
} row_t;

static const row_t rows[] = {
    {"medium-slower", "Two devices are slower for the network of 258 thousand parameters at every batch.",
     "every speed-up's interval lies below 1; one above 1 refutes it", MEDIUM, false, all_slower, false},
    {"large-slower", "Two devices are slower for the network of 6.9 million parameters at every batch.",
     "every speed-up's interval lies below 1; one above 1 refutes it", LARGE, false, all_slower, false},
    {"under-10-million", "Below 10 million parameters a single device is consistently more efficient.",
     "as before, over both networks", BOTH, false, all_slower, false},
    {"parameters-decide", "The number of parameters decides whether several devices pay.",
     "each network has one winner at all batches and with both links", BOTH, true, parameters_decide, false},
    {"medium-batch", "For the medium network the loss grows with the batch.",
     "speed-up at the largest batch below that at the smallest, intervals apart", MEDIUM, false,
     falls_with_batch, false},
    {"large-batch", "The large network approaches break-even as the batch grows.",
     "speed-up at the largest batch above that at the smallest, intervals apart", LARGE, false,
     rises_with_batch, false},
    {"large-32", "Batch 32 is the large network's best.", "its speed-up is the highest, intervals apart",
     LARGE, false, best_at_32, false},
    {"break-even-128", "Networks of 5 to 10 million parameters break even only above batch 128.",
     "no speed-up above 1 up to batch 128, one above it; undecided when no larger batch was measured", LARGE,
     false, break_even_above_128, false},
    {"efficiency-45", "The efficiency of two devices never exceeds 45 %.",
     "every efficiency's interval ends at or below 45 %", BOTH, false, efficiency_below_45, false},
    {"communication-reason", "Communication is what makes two devices slower.",
     "where they are slower, the step would be faster than one device's without exposed communication; "
     "traced parts scaled to the measured step",
     BOTH, false, communication_explains, true},
    {"communication-ms", "Communication costs 58 to 85 ms (medium) and 88 to 135 ms (large) in every step.",
     "exposed communication of every cell lies within; traced parts scaled to the measured step", BOTH, false,
     communication_costs, true},
    {"communication-medium",
     "Below 1 million parameters communicating takes 1.5 to 2 times as long as computing.",
     "exposed communication over forward, backward and optimizer; traced parts scaled to the measured step",
     MEDIUM, false, communication_ratio, true},
    {"communication-large", "From 5 to 10 million parameters it takes 0.8 to 1.2 times as long.",
     "exposed communication over forward, backward and optimizer; traced parts scaled to the measured step",
     LARGE, false, communication_ratio, true},
    {"compute-halves", "Two devices spend about half the time in forward and backward passes.",
     "at most 60 % in every cell; traced parts scaled to the measured step", BOTH, false, compute_halves,
     true},
    {"optimizer-halves", "Two devices spend about half the time in the optimizer.",
     "at most 60 % in every cell; traced parts scaled to the measured step", BOTH, false, optimizer_halves,
     true},
    {"utilisation-falls", "Each device is used less when there are two.",
     "arithmetic per device and second, as the efficiency's interval", BOTH, false, utilisation_falls, false},
    {"memory-grows", "Each device needs more memory when there are two.", "memory in use on the device", BOTH,
     false, memory_grows, true},
    {"topology", "The link between the devices matters: direct access makes two devices faster.",
     "step time of two devices with peer access on below that with it off, intervals apart, in every cell",
     BOTH, true, topology_matters, false},
    {"direct-link", "A direct link removes 50 to 90 % of the communication overhead.",
     "exposed communication with peer access on against off, in every cell; traced parts scaled to the "
     "measured step",
     BOTH, true, direct_link_removes, true},
    {"near-linear", "With a direct link larger networks scale nearly linearly.",
     "efficiency of the large network at its largest batch, peer access on: at least 90 %", LARGE, true,
     direct_link_near_linear, false}};

/* The fewest repetitions of a measured variant that a case looks at. */
static double fewest_repetitions(const case_t *c) {
  double fewest = INFINITY;
  for (int s = 0; s < c->study->setting_count; s++) {
    const ls_study_setting_t *setting = &c->study->setting[s];
    if (c->setting && c->setting != setting) continue;
    const case_t own = {.setting = setting, .models = c->models};
    EACH_CELL(&own, m, i) {
      const json_t *sides[2] = {setting->cell[m][i].one, setting->cell[m][i].two};
      for (int k = 0; k < 2; k++)
        fewest = fmin(fewest, ls_bench_number(sides[k], "step_time_us.count")); /* NAN: not measured */
    }
  }
  return fewest;
}

static json_t *finding(const row_t *row, const ls_study_t *study, const ls_study_setting_t *setting) {
  static const char *const words[] = {"holds", "does not hold", "not decided"};
  char *figures = NULL;
  size_t size_bytes = 0;
  case_t c = {.study = study, .setting = setting, .models = row->models};
  c.figures = open_memstream(&figures, &size_bytes);
  if (!c.figures) return NULL;
  verdict_t verdict = row->decide(&c);
  double fewest = fewest_repetitions(&c);
  if (row->means && verdict != OPEN && fewest < MEANS_REPETITIONS) {
    verdict = OPEN;
    fprintf(c.figures, "; only %.0f repetition%s", fewest, fewest > 1 ? "s" : "");
  }
  if (fclose(c.figures) != 0) {
    free(figures);
    return NULL;
  }
  size_t len = strlen(figures);
  while (len > 0 && strchr("; ", figures[len - 1]))
    figures[--len] = '\0';
  json_t *json = json_pack("{s:s?, s:s, s:s}", "peer_access", setting ? setting->peer_access : NULL,
                           "verdict", words[verdict], "figures", len > 0 ? figures : "not measured");
  free(figures);
  return json;
}

json_t *ls_study_conclusions(const ls_study_t *study) {
  json_t *list = json_array();
  for (int r = 0; r < LS_COUNT(rows); r++) {
    json_t *findings = json_array();
    for (int i = 0; i < (rows[r].across ? 1 : study->setting_count); i++)
      json_array_append_new(findings, finding(&rows[r], study, rows[r].across ? NULL : &study->setting[i]));
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:o}", "id", rows[r].id, "statement",
                                          rows[r].statement, "test", rows[r].test, "all_links",
                                          rows[r].across, "findings", findings));
  }
  return list;
}
