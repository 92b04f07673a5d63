/* Faults on purpose: what can happen to a run, as rows, and how one of them is made to happen to a rank at a step. The
 * command chaos and the tests share this table; the rules by which faults are judged (fault.h) do not know it.
 *
 * LOCKSTEP_FAULT="KIND RANK STEP ONCE" in a rank's environment plants a fault: before this rank launches the step that
 * follows so many, and never again once the file ONCE exists, which then holds the time (Unix, seconds). A second line,
 * "asked N", says that this rank has heard a request to end, and that the ranks agree on it behind step N at the latest. */
#ifndef LS_SUPERVISE_INJECT_H
#define LS_SUPERVISE_INJECT_H

#include "supervise/fault.h"

#define LS_INJECT_ENVIRONMENT "LOCKSTEP_FAULT"
#define LS_INJECT_ALWAYS      "always" /* instead of a file: at every life */

typedef enum {
  LS_INJECT_SIGNAL, /* `number` to a process */
  LS_INJECT_EXIT,   /* ends with exit code 0 */
  LS_INJECT_LOOP,   /* computes for ever */
  LS_INJECT_SLOW, /* each later step takes `number` % longer; "slow10": 10 %; "slow10@4000": and all ranks' have a pace */
  LS_INJECT_HOST, /* all that the run has on the rank's host is killed */
  /* Faults that only a trainer can plant: */
  LS_INJECT_NAN,    /* a parameter is no number */
  LS_INJECT_FLIP,   /* a bit of a parameter */
  LS_INJECT_SPOIL,  /* a bit of the newest checkpoint; then the rank is killed */
  LS_INJECT_MEMORY, /* an allocation fails */
  LS_INJECT_WRITE,  /* the next write of a save fails with errno `number`; 0: writes half */
  LS_INJECT_SYNC    /* the next fsync of a save fails with errno `number` */
} ls_inject_how_t;

/* Whose process a signal goes to. */
typedef enum { LS_INJECT_OWN, LS_INJECT_MPIRUN, LS_INJECT_LAUNCHER, LS_INJECT_SUPERVISOR } ls_inject_whose_t;

typedef struct {
  const char *name, *help;
  ls_inject_how_t how;
  int number;
  ls_inject_whose_t whose;
  bool first_rank;       /* it happens to rank 0 alone, which saves */
  ls_fault_kind_t cause; /* what the supervisor is to call it; LS_FAULT_NONE: the run goes on undisturbed */
  ls_fault_kind_t also;  /* or this, where a comparison of the replicas comes first */
  bool ends;             /* the supervisor ends, too: the same command with --resume goes on */
} ls_inject_kind_t;
enum { LS_INJECT_KINDS = 24 };
extern const ls_inject_kind_t ls_inject_kinds[LS_INJECT_KINDS];
const ls_inject_kind_t *ls_inject_find(const char *name); /* NULL: none */

typedef struct {
  const ls_inject_kind_t *kind; /* NULL: nothing is planted */
  int64_t step;
  int percent;     /* of LS_INJECT_SLOW */
  int64_t pace_ns; /* from the first step on a step takes a rank no less; 0: as it likes. Of every rank */
  char once[4096];
} ls_inject_t;
/* Reads the environment for this rank. LS_ERR_ARGUMENT if it cannot be read. */
ls_status_t ls_inject_read(ls_ctx_t *ctx, int rank, ls_inject_t *inject);
/* Whether it happens now; writes ONCE and forgets the fault. */
static inline bool ls_inject_due(const ls_inject_t *inject, int64_t step) {
  return inject->kind && step >= inject->step;
}
/* Claims ONCE. False: another process was first. */
bool ls_inject_claim(const ls_inject_t *inject);
/* Adds the second line to ONCE, and how chaos reads it; -1: there is none. */
void ls_inject_asked(const ls_inject_t *inject, int64_t agree_step);
int64_t ls_inject_agree_step(const char *once);
/* A fault of the process, which may not return. False: it is not one of these. */
bool ls_inject_process(const ls_inject_kind_t *kind);

#endif
