/* Benchmarks. A repetition is a fresh training run without its warm-up steps. Many repetitions measure a variant,
 * interleaved with those of the other variants. A document (JSON) holds the raw values and all that follows from them;
 * tables, reports and comparisons read nothing else.
 *
 *   once.c      repetitions of one variant in this process          -> measurement (JSON)
 *   document.c  measurements of all variants                        -> document
 *   compare.c   two series of step times                            -> difference, tests, verdict
 *   validate.c  two measurements with curves and parameters         -> do they train the same network?
 *   plan.c      a plan's predictions in the variants that they mean
 *   peak.c      the share of the machine's peak rate that a variant reaches
 *   timeline.c  when each lane did what
 *   answers.c   the document's answers, in sentences
 *   driver.h    the sweep: variants, processes, order; publish.h: plans, studies, files
 * Reports and the study are made from the document by tools/report.
 *
 * Measurement: global_batch, ranks, strategy, precision, backend, device, threads_per_rank, params,
 * bytes_per_device {parameters, .., bookkeeping, libraries, total: docs/bench.md}, flops_per_step (rank 0),
 * collectives[], repetitions[] {step_time_us {mean, median, p95}, samples_per_s, step_parts_us or null,
 * grad_norm, loss, params_xxh3, gpu_limit, gpu {window_s, busy_percent, energy_j, memory_used_bytes} or
 * null}, curves {loss, grad_norm} or absent, traced {steps, step_time_us, step_parts_us, collectives} or
 * absent. */
#ifndef LS_BENCH_BENCH_H
#define LS_BENCH_BENCH_H

#include "base/text.h"
#include "machine/gpu_sampler.h"
#include "machine/profile.h"
#include "stat/stat.h"
#include "train/document.h"

#include <stdio.h>

enum { LS_BENCH_VERSION = 1, LS_BENCH_RESAMPLES = 2000 };
#define LS_BENCH_CONFIDENCE    0.95
#define LS_BENCH_ALPHA         0.05
#define LS_BENCH_OUTLIER_LIMIT 3.5
#define LS_BENCH_BUSY          0.75 /* load per processor beyond which a machine was busy */

/* once.c. `config` is changed: nothing is saved, no evaluation inside the run. Collective. */
typedef struct {
  int64_t repetitions, warmup_steps, steps;
  bool traced; /* once more after them, traced, where steps are captured (rank 0 learns their parts) */
  bool curves; /* keep loss and gradient norm of every step, evaluate at the end */
  const char *
      params_path; /* with curves: where rank 0 writes the final parameters (f32, layout order); NULL = not */
  void (*stuck)(void *user, const char *message); /* as in ls_trainer_options_t */
  void *stuck_user;
} ls_bench_once_t;
/* *measurement: new reference on rank 0, NULL on the others. */
ls_status_t ls_bench_once(ls_ctx_t *ctx, ls_world_t *world, ls_config_t *config, const ls_bench_once_t *job,
                          json_t **measurement);

/* timeline.c: [{lane, part, start_us, end_us}] of a step whose tasks (ls_program_task) took these times, summed over
 * `steps` steps, its micro-batches one after the other: tasks of one part that follow each other on a lane, with no gap that could be seen, are one
 * entry. */
json_t *ls_bench_timeline(const ls_program_t *p, const ls_task_time_t *sums, int64_t steps);

/* clock.c: did clocks or heat hold the machine back? GPU: bits of NVML's clocks throttle reasons that mean a
 * limit (nvml.h, nvmlClocksThrottleReason*): power cap, slowdown, heat, power brake. */
enum { LS_BENCH_GPU_LIMITS = 0x4 | 0x8 | 0x20 | 0x40 | 0x80 };
/* "power cap, heat" */
const char *ls_bench_gpu_limit_text(int64_t bits, char buf[64]);
/* Sum of the throttle counters of all processors (Linux, sysfs thermal_throttle); -1 when there are none. */
int64_t ls_bench_cpu_throttles(const char *sysfs_cpu);

/* series.c: numbers and texts out of JSON. `path` is "step_time_us.mean". */
const json_t *ls_bench_at(const json_t *object, const char *path); /* NULL when absent */
double ls_bench_number(const json_t *object, const char *path);    /* NAN when absent, null or not a number */
const char *ls_bench_word(const json_t *object, const char *path); /* "" when absent or not a text */
/* The variant of a document with this name; NULL when there is none. */
const json_t *ls_bench_variant(const json_t *document, const char *name);
/* Without flagged values: copies those whose flag is not set to the front; returns how many. */
int64_t ls_bench_keep(double *values, int64_t count, const bool *flags);
/* Summary of a series. low and high: the t interval of its mean. */
typedef struct {
  int64_t count;
  double mean, median, sd, low, high, bootstrap_low, bootstrap_high, min, max;
} ls_bench_summary_t;
extern const ls_record_t ls_bench_summary_record;
ls_status_t ls_bench_summarise(ls_ctx_t *ctx, const double *values, int64_t count, uint64_t seed,
                               ls_bench_summary_t *summary);

/* repetition.c: NAN, "", -1 and false: not known. */
typedef struct {
  double mean_us, median_us, p95_us; /* of its step times */
  double samples_per_s;
  bool parts, sampled; /* parts_us and gpu are known */
  double parts_us[LS_PHASE_STEP_COUNT];
  double grad_norm, loss;
  char params_xxh3[33];
  int64_t skipped_steps, gpu_limit; /* the bits that mean a limit */
  ls_gpu_sampler_report_t gpu;
} ls_bench_repetition_t;
json_t *ls_bench_repetition_json(const ls_bench_repetition_t *repetition);
/* Those of a variant of a document, or of a measurement; LS_ERR_DATA when one has no mean step time. Owned by the
 * caller (ls_free). */
ls_status_t ls_bench_repetitions(ls_ctx_t *ctx, const json_t *variant, ls_bench_repetition_t **repetitions,
                                 int64_t *count);
/* Their mean step times in us. */
ls_status_t ls_bench_step_times(ls_ctx_t *ctx, const json_t *variant, double **values, int64_t *count);

/* compare.c: a against b, by time per step (smaller is better). */
typedef enum {
  LS_BENCH_FASTER,     /* a is faster */
  LS_BENCH_SLOWER,     /* a is slower */
  LS_BENCH_EQUIVALENT, /* any difference is below the margin */
  LS_BENCH_UNDECIDED   /* neither shown: more repetitions are needed */
} ls_bench_verdict_t;
typedef struct {
  ls_welch_t welch;
  double difference_percent, low_percent, high_percent; /* of b's mean */
  double margin_percent, equivalence_p;
  ls_bench_verdict_t verdict;
} ls_bench_comparison_t;
/* margin_percent of b's mean. NANs and UNDECIDED below two values on a side. */
void ls_bench_compare(const double *a, int64_t na, const double *b, int64_t nb, double margin_percent,
                      ls_bench_comparison_t *comparison);
const char *ls_bench_verdict_word(ls_bench_verdict_t verdict); /* "faster" */
/* The interval of a variant's speed-up in reports: the wider one of two. The bootstrap's is too narrow for few repetitions;
 * the other is Welch's interval of the difference as a ratio, which agrees with the verdict. *high may be infinite. NANs
 * below two repetitions. */
void ls_bench_speedup_interval(const json_t *variant, double *low, double *high);
ls_text_t
ls_bench_speedup_text(const json_t *variant); /* "1.41x (1.28 to 1.56)"; "" where nothing is compared */
extern const ls_record_t ls_bench_comparison_record;
/* All of a against all of b, and both without their outliers, which are dropped from the arrays. */
ls_status_t ls_bench_compare_both(ls_ctx_t *ctx, double *a, int64_t na, double *b, int64_t nb,
                                  double margin_percent, ls_bench_comparison_t *all,
                                  ls_bench_comparison_t *kept);

/* The repetitions' mean step times of a variant of a document, by name; the first variant when name is NULL.
 * LS_ERR_NOT_FOUND lists the names there are. */
ls_status_t ls_bench_document_series(ls_ctx_t *ctx, const json_t *document, const char *name,
                                     const char **found, double **values, int64_t *count);
/* Reads a document and checks what comparing and drawing rely on: LS_ERR_DATA names the file. */
ls_status_t ls_bench_document_read(ls_ctx_t *ctx, const char *path, json_t **document);

/* validate.c: the study's criteria between a run on one rank and a run on several, and whether their
 * parameters have the same bits. Where both are reproducible (parallel.reproducible, equally many shards)
 * they have to. */
typedef struct {
  json_t *measurement; /* with curves */
  float *params;       /* the final ones; count 0: not known */
  int64_t count;
} ls_bench_trained_t;
/* The "validation" of a document; "same_network": all three criteria, and identical where they are reproducible. New
 * reference. */
json_t *ls_bench_validate(const ls_bench_trained_t *one, const ls_bench_trained_t *several);
/* A validation of a document in words: "identical across ranks", "same network", "NOT identical across
 * ranks", "NOT the same network". Static. */
const char *ls_bench_validation_verdict(const json_t *validation);

/* document.c */
typedef struct {
  const char *config;
  int64_t repetitions, per_process, steps, warmup_steps, order_seed;
  double margin_percent;
  bool weak;
  int64_t control_pairs, control_repetitions;
  int64_t cpu_throttles_before, cpu_throttles_after; /* -1 = unknown */
  const char *incomplete;                            /* why measuring ended early; NULL = it did not */
} ls_bench_method_t;
/* `variants`: array of measurements, each with "name", "key" (variants with equal keys, models
 * and precisions are compared: the global batch, for weak scaling the batch per rank), "model" and
 * "peer_access" where they differ between variants, and, when it could not be measured, "failed"
 * (after some rounds: "incomplete"); "validation" is kept as it is. `control`: the p values of
 * the control's pairs. Both are borrowed. *document: new reference. */
ls_status_t ls_bench_document(ls_ctx_t *ctx, const ls_bench_method_t *method, const json_t *variants,
                              const json_t *control, json_t **document);

/* plan.c: puts {predicted, low, high, error_percent} of a plan's candidates into the variants they mean, as
 * "predicted_step_time_us": same number of parameters, backend, precision, batch, ranks, strategy and
 * schedule. Returns how many matched. */
int ls_bench_plan_merge(json_t *document, const json_t *plan);

/* peak.c: adds "utilisation" {peak_flops_per_s, peak_flops_percent} to the variants for whose device and
 * precision the profile has times of matrix products. */
void ls_bench_peak(json_t *document, const ls_profile_t *profile);

/* answers.c: adds what tables and reports say first, so that all say the same:
 *   answers                         [{verdict: "faster", "slower", "equivalent", "undecided", "reference" or "warning",
 *                                   text}]: does it pay, by how much, how sure is it? Texts have **bold** parts
 *   variants[].scaling.interval_*   ls_bench_speedup_interval
 *   variants[].validation.verdict   ls_bench_validation_verdict */
void ls_bench_conclude(json_t *document);
/* Puts `run` (taken: created, .., load_before, processors) into the document. Efficiencies above one that were
 * measured on a busy machine say what the machine did meanwhile: they become null. */
void ls_bench_add_run(json_t *document, json_t *run);
bool ls_bench_busy(const json_t *document); /* before it was measured, by its run */

#endif
