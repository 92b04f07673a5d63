/* Inside view of lockstep bench: the sweep, its children and their measurements. */
#ifndef LS_CLI_BENCH_H
#define LS_CLI_BENCH_H

#include "bench/bench.h"
#include "cli/cli.h"
#include "cli/list.h"

#include <time.h>

/* Own flags, in the order of the rows in bench.c. */
typedef enum {
  BENCH_STUDY,
  BENCH_MODELS,
  BENCH_BATCHES,
  BENCH_RANKS_LIST,
  BENCH_STRATEGIES,
  BENCH_PRECISIONS,
  BENCH_PEER,
  BENCH_WEAK,
  BENCH_REPETITIONS,
  BENCH_STEPS,
  BENCH_WARMUP,
  BENCH_PER_PROCESS,
  BENCH_MARGIN,
  BENCH_CONTROL,
  BENCH_CONTROL_REPETITIONS,
  BENCH_VALIDATE,
  BENCH_FROM,
  BENCH_PLAN,
  BENCH_MARKDOWN,
  BENCH_HTML,
  BENCH_OUTPUT,
  BENCH_SEED,
  BENCH_LIMIT,
  BENCH_BUDGET,
  BENCH_ONCE,
  BENCH_ONCE_PARAMS,
  BENCH_ONCE_TRACED,
  BENCH_FLAG_COUNT
} bench_flag_t;
extern const cli_extra_t bench_flags[];

enum {
  BENCH_VARIANT_MAX = 256,
  BENCH_SETS = 7, /* assignments that make a variant of a configuration */
  BENCH_SET_BYTES = 96,
  BENCH_REASON_BYTES = 512
};

typedef struct {
  int64_t batch, key; /* global batch; what is compared: the same, or the batch per rank */
  int ranks;
  int64_t samples, bucket_bytes; /* 0 = the configuration's */
  const char *peer; /* whether NCCL may let GPUs reach each other's memory: "on", "off"; NULL: as it is */
  char model[CLI_WORD_BYTES]; /* a preset; "" = the configuration's */
  char strategy[CLI_WORD_BYTES], precision[CLI_WORD_BYTES];
  char name[160], series[96];
  char refused[256]; /* why it is not tried; "" = it is */
} bench_variant_t;

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  ls_bench_method_t method;
  bool validate;
  const char *study;         /* of --study: the name of its definition; NULL: none */
  bool own_config;           /* of the study, not of the user */
  bool side_lane;            /* the configuration asks for one */
  bool host;                 /* the backend computes on this machine's cores; known with peer or study */
  int devices;               /* of the backend here; 0 = not asked */
  int64_t limit_s, budget_s; /* of a process; of all rounds */
  json_t *sweep;             /* of --study: bench_study_word */
  bench_variant_t *variants;
  int variant_count;
  struct {
    bool model, precision;
  } shown;                    /* properties that differ between variants and so belong to their names */
  char *dir;                  /* of the children's files */
  json_t *plans;              /* {path, plan} of --plan */
  json_t *measured, *control; /* one per variant; p values of pairs */
  json_t *crossovers;         /* of --study families: NULL otherwise */
  int64_t rounds_done;        /* complete rounds, even if measuring failed */
  int lost_count;             /* variants that failed while they were measured; refused ones do not count */
  char lost[BENCH_REASON_BYTES]; /* the first of them, and why */
  char network[64];              /* the configuration's preset, or "" */
  int64_t seed;                  /* train.seed */
  time_t begun;
  double load_before; /* load average of a minute; NAN: unknown */
  int64_t saved_ns;   /* when they were last saved, 0 = never */
  bool unsaved;       /* saving them failed: not tried again */
} bench_t;

/* bench_sweep.c: variants from the flags and the configuration, each checked as a configuration. */
ls_status_t bench_sweep(bench_t *b);
/* Adds a variant that has all but its name, series and batch; checks it as a configuration. */
ls_status_t bench_variant_add(bench_t *b, const bench_variant_t *wanted);
/* The assignments that make the configuration this variant's; returns how many. */
int bench_variant_sets(const bench_variant_t *variant, char sets[BENCH_SETS][BENCH_SET_BYTES]);
/* A reason as reports show it: its first line, without table separators. */
void bench_one_line(char *text);

/* bench_study.c: reads the study's definition: the sweep of --study for lists that the flags leave open. */
ls_status_t bench_study_read(bench_t *b);
/* The study that --study asks for, NULL without the flag. */
ls_status_t bench_study_name(ls_ctx_t *ctx, const cli_args_t *args, const char **name);
/* Sets *count to what the sweep says; unchanged if it says nothing. */
void bench_study_count(const bench_t *b, const char *key, int64_t *count);
/* "config": its configuration as text; values of flags: "models", "networks" (with batches of --batches), "peer". */
const char *bench_study_word(const bench_t *b, const char *key);
void bench_print_study(const json_t *document);

/* bench_child.c: runs one process that measures `repetitions` of a variant; returns its report.
 * LS_ERR_INTERRUPTED if this program was asked to stop. If *message is not empty the failure is the variant's
 * own, and not reported: LS_ERR_DEVICE with the child's words, LS_ERR_TIMEOUT (--limit). */
typedef struct {
  int64_t repetitions;
  int64_t steps, warmup_steps; /* 0 steps: the method's */
  const char *params_path;     /* not NULL: with curves, parameters are written there */
  bool traced;                 /* once more after them, traced, where steps are captured */
} bench_child_t;
ls_status_t bench_child_run(bench_t *b, const bench_variant_t *variant, const bench_child_t *child,
                            json_t **measurement, char message[256]);
/* Runs this program: its stdout goes to the file `result`, or, where that is NULL, nowhere. As bench_child_run for
 * the status and *message; `what` names it where the user stops it. */
ls_status_t bench_child_program(bench_t *b, const char *what, const char *const *argv, const char *result,
                                const char *peer, char message[256]);
/* bench_rounds.c: rounds of all variants in random order, control pairs between them, validation after them.
 * On failure the complete rounds (rounds_done) are left in `measured`, and method.repetitions says so. */
ls_status_t bench_measure(bench_t *b);
json_t *bench_variant_json(const bench_variant_t *variant);
/* A measurement's repetitions go to the variant's; the first one brings everything else. */
void bench_collect(json_t *variant, json_t *measurement);
/* The variant's own failure: it keeps what was measured, and the reason why there is no more. */
void bench_give_up(bench_t *b, int at, const char *message);
/* bench_search.c: instead of rounds: of each network of the sweep the smallest batch from which several ranks pay,
 * within the budget. The batches of the sweep are the ends of the search. */
ls_status_t bench_search(bench_t *b);
/* bench_publish.c: before measuring: checks that outputs can be written, reads plans. After it: writes the
 * document to files and stdout, the JSON file first. */
ls_status_t bench_prepare(bench_t *b);
ls_status_t bench_publish(bench_t *b, json_t *document);
/* Writes the complete rounds so far, marked incomplete, to the JSON file, if one was requested, so that a
 * crash of the machine costs at most a round. At most every ten seconds; a failure is a warning. */
void bench_save_so_far(bench_t *b, int64_t rounds);
/* bench_place.c: notes when and how busy it is before anything is measured. */
void bench_run_begin(bench_t *b);
/* Adds "machine" (comparing runs of different machines deserves a warning) and "run": when, by which program
 * and command, with which seed, how busy the machine was. */
void bench_add_run(bench_t *b, json_t *document);
ls_status_t bench_write_json(ls_ctx_t *ctx, const char *path, const json_t *document);
/* bench_table.c */
void bench_print_table(const json_t *document);

#endif
