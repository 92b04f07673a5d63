/* The driver of a benchmark: the variants of a configuration, the order in which processes measure them, and the document
 * of all of them. The caller (lockstep bench) fills the first part of ls_bench_sweep_t from its flags. Each measuring
 * process is this program again, with --once and the variant's resolved configuration as a file.
 *
 *   sweep.c   the variants, each checked as a configuration
 *   child.c   one process
 *   rounds.c  rounds of all variants in random order, control pairs, validation
 *   search.c  instead of rounds: from which batch on do several ranks pay?
 *   run.c     when, where and by which command; the document, also of the rounds so far */
#ifndef LS_BENCH_DRIVER_H
#define LS_BENCH_DRIVER_H

#include "base/child.h"
#include "base/list.h"
#include "bench/bench.h"

#include <time.h>

enum { LS_BENCH_VARIANT_MAX = 256, LS_BENCH_REASON_BYTES = 512, LS_BENCH_MESSAGE_BYTES = 256 };

typedef enum {
  LS_BENCH_MODELS,
  LS_BENCH_BATCHES,
  LS_BENCH_RANKS,
  LS_BENCH_STRATEGIES,
  LS_BENCH_PRECISIONS,
  LS_BENCH_PEER,
  LS_BENCH_LISTS
} ls_bench_list_t;

typedef struct {
  int64_t batch, key; /* global batch; what is compared: the same, or the batch per rank */
  int ranks;
  int64_t samples, bucket_bytes;  /* 0 = the configuration's */
  const char *peer;               /* NCCL access to other GPUs' memory: "on", "off"; NULL: unchanged */
  char model[LS_LIST_WORD_BYTES]; /* a preset; "" = the configuration's */
  char strategy[LS_LIST_WORD_BYTES], precision[LS_LIST_WORD_BYTES];
  char name[160], series[96];
  char refused[LS_BENCH_MESSAGE_BYTES]; /* why it is not measured; "" = it is */
  int file;                             /* number of its configuration's file, for its processes */
} ls_bench_variant_t;

typedef struct {
  /* The request: borrowed, unchanged but for `method`. */
  ls_ctx_t *ctx;
  ls_config_source_t source; /* the configuration, under `sets` */
  const char *const *sets;
  int set_count;
  struct {
    const char *flag, *text; /* "a,b,.."; text NULL: the study's list, else the configuration's value */
  } list[LS_BENCH_LISTS];
  const json_t *study; /* member "sweep" of a study's definition; NULL: no study */
  bool own_config;     /* the configuration is the study's, not the user's */
  bool search;         /* search batches in place of rounds */
  bool validate, steps_given;
  ls_bench_method_t method;          /* fewer repetitions if measuring ends early */
  int64_t limit_s, budget_s;         /* of a process; of all rounds */
  const char *dir;                   /* an empty folder for the files of processes */
  const char *output;                /* complete rounds are saved there meanwhile; NULL: nowhere */
  const char *command_line, *commit; /* for the document */
  int (*stop)(void);                 /* a signal that asked to stop; 0: none */
  const char *(*stop_name)(int signal_number);
  void (*say)(const char *line); /* progress for people; NULL: nobody reads it */

  /* The driver's findings. The caller releases them with ls_bench_sweep_release. */
  bool host;   /* the backend computes on this machine's cores; known with --peer or a study */
  int devices; /* of the backend here; 0 = not asked */
  ls_bench_variant_t *variant;
  int variant_count, files;
  struct {
    bool model, precision;
  } shown;                    /* properties that differ between variants and so belong to their names */
  json_t *measured, *control; /* one per variant; p values of pairs */
  json_t *crossovers;         /* of a search */
  int64_t rounds_done;        /* complete rounds, even if measuring failed */
  int lost_count;             /* variants that failed while they were measured; refused ones do not count */
  char lost[LS_BENCH_REASON_BYTES]; /* the first of them, and why */
  char network[64];                 /* the configuration's preset, or "" */
  int64_t seed;                     /* train.seed */
  time_t begun;
  double load_before; /* load average of a minute; NAN: unknown */
  int64_t saved_ns;   /* when the rounds so far were last saved, 0 = never */
  bool unsaved;       /* saving them failed: not tried again */
} ls_bench_sweep_t;

/* Makes the variants. LS_ERR_ARGUMENT or LS_ERR_CONFIG if a list is wrong or no variant can run. */
ls_status_t ls_bench_sweep(ls_bench_sweep_t *b);
/* Measures them. On failure the complete rounds (rounds_done) stay in `measured`, and method.repetitions counts them. */
ls_status_t ls_bench_measure(ls_bench_sweep_t *b);
/* The document of what was measured; `incomplete`: why measuring ended early, NULL = it did not. *document: new
 * reference. */
ls_status_t ls_bench_sweep_document(ls_bench_sweep_t *b, ls_ctx_t *ctx, const char *incomplete,
                                    json_t **document);
void ls_bench_sweep_release(ls_bench_sweep_t *b);
/* Cuts a reason to its first line, without table separators. */
void ls_bench_one_line(char *text);
/* Writes a document as text, with as many digits as documents have. */
char *ls_bench_text(const json_t *document); /* free */
ls_status_t ls_bench_write(ls_ctx_t *ctx, const char *path, const json_t *document);

/* ---- inside the driver ---- */

/* A line of progress. */
void ls_bench_say(const ls_bench_sweep_t *b, const char *fmt, ...) LS_PRINTF(2, 3);
/* Adds a variant that has all but its name, series and batch; checks it as a configuration and writes its file. */
ls_status_t ls_bench_variant_add(ls_bench_sweep_t *b, const ls_bench_variant_t *wanted);
/* Reads the configuration as the variant has it. */
ls_status_t ls_bench_variant_load(const ls_bench_sweep_t *b, ls_ctx_t *ctx, const ls_bench_variant_t *v,
                                  ls_config_t **config);
json_t *ls_bench_variant_json(const ls_bench_variant_t *variant);
/* Sets *count to what the study says; unchanged if it says nothing. */
void ls_bench_study_count(const ls_bench_sweep_t *b, const char *key, int64_t *count);

/* A process that measures `repetitions` of a variant; returns its report. LS_ERR_INTERRUPTED if this program was asked to
 * stop. If *message is not empty the failure is the variant's own, and not reported: LS_ERR_DEVICE with the child's words,
 * LS_ERR_TIMEOUT (limit_s). */
typedef struct {
  int64_t repetitions;
  int64_t steps, warmup_steps; /* 0 steps: the method's */
  const char *params_path;     /* not NULL: with curves, parameters are written there */
  bool traced;                 /* once more after them, traced, where steps are captured */
} ls_bench_child_t;
ls_status_t ls_bench_child(ls_bench_sweep_t *b, const ls_bench_variant_t *variant,
                           const ls_bench_child_t *child, json_t **measurement,
                           char message[LS_BENCH_MESSAGE_BYTES]);
/* Runs this program: its stdout goes to the file `result`, or, where that is NULL, nowhere. Status and *message as above;
 * `what` names it where the user stops it. */
ls_status_t ls_bench_program(ls_bench_sweep_t *b, const char *what, const char *const *argv,
                             const char *result, const char *peer, char message[LS_BENCH_MESSAGE_BYTES]);
/* A configuration as the file `name` in b->dir, for processes. The caller frees *path. */
ls_status_t ls_bench_config_write(const ls_bench_sweep_t *b, const ls_config_t *config, const char *name,
                                  char **path);
/* Adds a measurement's repetitions to the variant's; the first one brings everything else. */
void ls_bench_collect(json_t *variant, json_t *measurement);
/* The variant's own failure: it keeps what was measured, and the reason why there is no more. */
void ls_bench_give_up(ls_bench_sweep_t *b, int at, const char *message);
ls_status_t ls_bench_search(ls_bench_sweep_t *b);
/* Notes when it begins and how busy the machine is before anything is measured. */
void ls_bench_run_begin(ls_bench_sweep_t *b);
/* Writes the complete rounds so far, marked incomplete, to `output`, so that a crash of the machine costs at most a round.
 * At most every ten seconds; a failure is a warning. */
void ls_bench_save_so_far(ls_bench_sweep_t *b, int64_t rounds);

#endif
