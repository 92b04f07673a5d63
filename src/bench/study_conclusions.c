/* The study's conclusions as rows, each with the test that this document's numbers are put to. A statement
 * about speed holds or falls by 95 % intervals, never by means alone; what the intervals do not decide, or
 * was not measured, stays undecided. The tests are per cell and not corrected for their number. They stand in
 * study_speed.c, study_parts.c and study_links.c. */
#include "bench/study_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEANS_REPETITIONS = 3 };           /* fewer decide nothing by means alone */
enum { MEDIUM = 1, LARGE = 2, BOTH = 3 }; /* which networks a statement is about */

typedef struct {
  const char *id, *statement, *test;
  int models;
  bool across; /* about all settings at once */
  ls_study_decide_fn *decide;
  bool means; /* judged by means, which have no intervals: needs MEANS_REPETITIONS */
} row_t;

static const row_t rows[] = {
    {"medium-slower", "Two devices are slower for the network of 258 thousand parameters at every batch.",
     "every speed-up's interval lies below 1; one above 1 refutes it", MEDIUM, false, ls_study_all_slower,
     false},
    {"large-slower", "Two devices are slower for the network of 6.9 million parameters at every batch.",
     "every speed-up's interval lies below 1; one above 1 refutes it", LARGE, false, ls_study_all_slower,
     false},
    {"under-10-million", "Below 10 million parameters a single device is consistently more efficient.",
     "as before, over both networks", BOTH, false, ls_study_all_slower, false},
    {"parameters-decide", "The number of parameters decides whether several devices pay.",
     "each network has one winner at all batches and with both links", BOTH, true, ls_study_parameters_decide,
     false},
    {"medium-batch", "For the medium network the loss grows with the batch.",
     "speed-up at the largest batch below that at the smallest, intervals apart", MEDIUM, false,
     ls_study_falls_with_batch, false},
    {"large-batch", "The large network approaches break-even as the batch grows.",
     "speed-up at the largest batch above that at the smallest, intervals apart", LARGE, false,
     ls_study_rises_with_batch, false},
    {"large-32", "Batch 32 is the large network's best.", "its speed-up is the highest, intervals apart",
     LARGE, false, ls_study_best_at_32, false},
    {"break-even-128", "Networks of 5 to 10 million parameters break even only above batch 128.",
     "no speed-up above 1 up to batch 128, one above it; undecided when no larger batch was measured", LARGE,
     false, ls_study_break_even_above_128, false},
    {"efficiency-45", "The efficiency of two devices never exceeds 45 %.",
     "every efficiency's interval ends at or below 45 %", BOTH, false, ls_study_efficiency_below_45, false},
    {"communication-reason", "Communication is what makes two devices slower.",
     "where they are slower, the step would be faster than one device's without exposed communication; "
     "traced parts scaled to the measured step",
     BOTH, false, ls_study_communication_explains, true},
    {"communication-ms", "Communication costs 58 to 85 ms (medium) and 88 to 135 ms (large) in every step.",
     "exposed communication of every cell lies within; traced parts scaled to the measured step", BOTH, false,
     ls_study_communication_costs, true},
    {"communication-medium",
     "Below 1 million parameters communicating takes 1.5 to 2 times as long as computing.",
     "exposed communication over forward, backward and optimizer; traced parts scaled to the measured step",
     MEDIUM, false, ls_study_communication_ratio, true},
    {"communication-large", "From 5 to 10 million parameters it takes 0.8 to 1.2 times as long.",
     "exposed communication over forward, backward and optimizer; traced parts scaled to the measured step",
     LARGE, false, ls_study_communication_ratio, true},
    {"compute-halves", "Two devices spend about half the time in forward and backward passes.",
     "at most 60 % in every cell; traced parts scaled to the measured step", BOTH, false,
     ls_study_compute_halves, true},
    {"optimizer-halves", "Two devices spend about half the time in the optimizer.",
     "at most 60 % in every cell; traced parts scaled to the measured step", BOTH, false,
     ls_study_optimizer_halves, true},
    {"utilisation-falls", "Each device is used less when there are two.",
     "arithmetic per device and second, as the efficiency's interval", BOTH, false,
     ls_study_utilisation_falls, false},
    {"memory-grows", "Each device needs more memory when there are two.", "memory in use on the device", BOTH,
     false, ls_study_memory_grows, true},
    {"topology", "The link between the devices matters: direct access makes two devices faster.",
     "step time of two devices with peer access on below that with it off, intervals apart, in every cell",
     BOTH, true, ls_study_topology_matters, false},
    {"direct-link", "A direct link removes 50 to 90 % of the communication overhead.",
     "exposed communication with peer access on against off, in every cell; traced parts scaled to the "
     "measured step",
     BOTH, true, ls_study_direct_link_removes, true},
    {"near-linear", "With a direct link larger networks scale nearly linearly.",
     "efficiency of the large network at its largest batch, peer access on: at least 90 %", LARGE, true,
     ls_study_direct_link_near_linear, false}};

/* The fewest repetitions of a measured variant that a case looks at. */
static double fewest_repetitions(const ls_study_case_t *c) {
  double fewest = INFINITY;
  for (int s = 0; s < c->study->setting_count; s++) {
    const ls_study_setting_t *setting = &c->study->setting[s];
    if (c->setting && c->setting != setting) continue;
    const ls_study_case_t own = {.setting = setting, .models = c->models};
    LS_STUDY_EACH_CELL(&own, m, i) {
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
  ls_study_case_t c = {.study = study, .setting = setting, .models = row->models};
  c.figures = open_memstream(&figures, &size_bytes);
  if (!c.figures) return NULL;
  ls_study_verdict_t verdict = row->decide(&c);
  double fewest = fewest_repetitions(&c);
  if (row->means && verdict != LS_STUDY_OPEN && fewest < MEANS_REPETITIONS) {
    verdict = LS_STUDY_OPEN;
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
