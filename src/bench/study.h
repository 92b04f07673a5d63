/* Inside the bench module: the study that the project grew from, as far as it can be measured again. Its
 * figures come from "Multi-GPU Training Performance: When Hardware Topology Matters" (June 2025) and its
 * "Comprehensive Study Results": two RTX 4070 Ti SUPER behind a PCIe host bridge, without peer access. */
#ifndef LS_BENCH_STUDY_H
#define LS_BENCH_STUDY_H

#include "bench/bench.h"

enum { LS_STUDY_MODELS = 2, LS_STUDY_CELLS = 64, LS_STUDY_SETTINGS = 3, LS_STUDY_ROWS = 5 };

/* A row of its tables. NAN: it has no such column. */
typedef struct {
  double batch;
  double one, one_margin, two, two_margin; /* samples/s; half its 95 % interval */
  double speedup, efficiency_percent, memory_gb;
  double one_utilisation, two_utilisation; /* percent */
  double one_step_ms, two_step_ms;
} ls_study_row_t;

/* A step of its two timelines, in ms. `rest` is what it calls overhead. */
typedef struct {
  double batch;
  struct {
    double forward, backward, communication, optimizer, rest, total;
  } one, two;
} ls_study_timeline_t;

typedef struct {
  const char *preset, *label; /* "mlp-medium", "medium, 258,432 parameters" */
  ls_study_row_t row[LS_STUDY_ROWS];
  ls_study_timeline_t timeline;
  double communication_low_ms, communication_high_ms; /* its "total overhead per step" */
  double ratio_low, ratio_high;                       /* its communication over computation */
} ls_study_model_t;

/* study_figures.c */
extern const ls_study_model_t ls_study_models[LS_STUDY_MODELS];
extern const char ls_study_title[], ls_study_hardware[];

/* One batch of one network as measured here: borrowed variants of the document, NULL where there is none. */
typedef struct {
  double batch;
  const ls_study_row_t *published; /* NULL: the study did not measure this batch */
  const json_t *one, *two;
  double speedup, low, high; /* NAN: not measured, or no interval; high may be infinite */
} ls_study_cell_t;

/* Everything that was measured with one kind of link. */
typedef struct {
  const char *peer_access;                               /* "on", "off"; NULL: nobody chose */
  ls_study_cell_t cell[LS_STUDY_MODELS][LS_STUDY_CELLS]; /* ascending batches */
  int count[LS_STUDY_MODELS];
} ls_study_setting_t;

typedef struct {
  ls_study_setting_t setting[LS_STUDY_SETTINGS];
  int setting_count;
} ls_study_t;

/* study_conclusions.c: every conclusion with its verdict, as an array (new reference). */
json_t *ls_study_conclusions(const ls_study_t *study);

#endif
