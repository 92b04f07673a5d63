/* The cause of a life's end, and the decision about it. No function here waits or asks the system for anything: everything is
 * decided from what the watcher has seen. */
#ifndef LS_SUPERVISE_FAULT_H
#define LS_SUPERVISE_FAULT_H

#include "monitor/page.h"
#include "supervise/supervise.h"

typedef enum {
  LS_FAULT_NONE,      /* the life reached its end */
  LS_FAULT_ASKED,     /* a signal asked it to save and end */
  LS_FAULT_SIGNAL,    /* a rank was ended by a signal */
  LS_FAULT_MEMORY,    /* a rank ran out of memory, or the system ended it to get memory back */
  LS_FAULT_DISK,      /* no space left */
  LS_FAULT_NONFINITE, /* loss or gradients were not finite for train.max_skipped steps */
  LS_FAULT_DEADLINE,  /* a rank's own wait passed its deadline */
  LS_FAULT_HANG,      /* a rank showed nothing for longer than its phase may take */
  LS_FAULT_LAUNCHER,  /* mpirun or the process that started it was ended, is stopped, or does not end */
  LS_FAULT_HOST,      /* one of several hosts is lost */
  LS_FAULT_RETURN,    /* none: it was asked to save and end, because a host or device is there again */
  LS_FAULT_GPU,  /* a rank's GPU has reported an error after which it has to be reset; then a rank failed */
  LS_FAULT_EXIT, /* a rank ended with an error, or without having finished */
  LS_FAULT_REFUSED, /* starting again cannot help: configuration, data, checkpoints */
  LS_FAULT_KINDS
} ls_fault_kind_t;
const char *ls_fault_name(ls_fault_kind_t kind);

enum { LS_FAULT_MISSING_MAX = 8, LS_FAULT_WORDS_BYTES = 256 };
typedef struct {
  ls_fault_kind_t kind;
  int rank;           /* -1: not one rank's */
  const char *host;   /* that is lost */
  ls_page_look_t at;  /* its line then */
  bool stopped;       /* its process, or the launcher's, was stopped (SIGSTOP, a debugger) */
  int signal, code;   /* of the child: as a shell has them */
  int64_t noticed_ns; /* by ls_clock_ns */
  int64_t budget_ns;  /* of a hang: what its phase may take; 0: it is none */
  int missing[LS_FAULT_MISSING_MAX], missing_count; /* of a hang: ranks that others wait for */
  uint64_t collective;                              /* and the collective in which they wait; 0: none */
  char words[LS_FAULT_WORDS_BYTES]; /* the first error that the life printed, why a host is lost; "" = none */
  char differ[2 * LS_FAULT_WORDS_BYTES]; /* of a hang: where the ranks' collectives differ; "" = not known */
} ls_fault_t;

/* A life's steps, for the decision. */
typedef struct {
  int64_t first_step, last_step; /* steps done when it began and when it ended; -1: it trained nothing */
  double trained_s;              /* from its first step to its end; 0: it did none */
} ls_life_t;

/* ---- budgets ---- */

/* The usual time of a step, learned from looks at one rank. Leans to the long ones. */
typedef struct {
  int64_t step,
      since_ns;    /* the look from which the next steps are counted; step -1: unknown, since 0: none */
  double usual_ns; /* 0: not known yet */
} ls_usual_t;
void ls_usual_learn(ls_usual_t *usual, const ls_page_look_t *look);
/* How long a rank may show no change in this phase. */
int64_t ls_fault_budget_ns(const ls_supervise_config_t *config, const ls_usual_t *usual,
                           ls_page_phase_t phase);

/* Which rank hangs, or with all of them done the launcher, of `count` looks at one moment; `stopped`: whose process is stopped. -1: none is overdue. A rank
 * that begins or has begun at `begin_ns` at the earliest (when its process was started, or this process woke). Fills
 * kind, rank, at, stopped, budget, missing and collective. */
bool ls_fault_hang(const ls_supervise_config_t *config, const ls_usual_t *usual, const ls_page_look_t *look,
                   const bool *stopped, int count, int64_t begin_ns, int64_t now_ns, ls_fault_t *fault);

/* The launcher's process has been stopped since then, for too long. Fills the same. */
void ls_fault_launcher_stopped(const ls_supervise_config_t *config, int pid, int64_t since_ns,
                               ls_fault_t *fault);

/* ---- causes ---- */

/* How the child of a life ended, and who was seen to end before that. */
typedef struct {
  int signal, code; /* of the child */
  int dead_rank;    /* whose process ended first without having left its trainer; -1: nobody */
  bool
      signal_apart; /* the child's signal says nothing of a launcher: it was the supervisor's, or the rank's */
  bool asked;       /* a signal had asked the life to end */
  int64_t kills_of_system; /* of processes for want of memory meanwhile */
} ls_end_t;
/* Which of the ranks that were found dead at one moment died first: the one that the others wait for. mpirun ends them
 * within milliseconds. */
int ls_fault_first_dead(const ls_page_look_t *look, const bool *dead, int count);
/* The first cause. fault->words: what the run said first. `look`: the ranks' lines at the end. Fills kind, rank, at, signal and code. */
void ls_fault_classify(const ls_end_t *end, const ls_page_look_t *look, int count, ls_fault_t *fault);

/* The GPU of `rank`, whose line this is, is broken: what failed thereafter follows from it. */
void ls_fault_of_gpu(int rank, const ls_page_look_t *look, ls_fault_t *fault);

/* "rank 1 of 3 (process 4711) was ended by signal 9 (Killed) in step 812". */
void ls_fault_text(const ls_fault_t *fault, int ranks, char *text, size_t size_bytes);

/* ---- decisions ---- */

typedef struct {
  int64_t restarts; /* in a row, without healthy steps in between, which no life had done before */
  int64_t furthest; /* the newest step that any life has done */
  ls_fault_t last;
  bool any;
  ls_places_t places; /* of the next life */
  int64_t past_step;  /* the next life leaves out the samples before this step; 0: none */
} ls_restarts_t;
typedef struct {
  bool again;
  bool fewer, more; /* a place was left out, or all that were are tried again */
  int64_t wait_ns;  /* before the next life */
  const char *why;  /* it ends: "" = because it is finished or was asked to */
} ls_decision_t;
ls_decision_t ls_restarts_decide(const ls_restarts_config_t *config, int64_t skip_steps, ls_restarts_t *state,
                                 const ls_life_t *life, const ls_fault_t *fault);

#endif
