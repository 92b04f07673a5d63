/* The ranks of one host: children of this process that run this program and share memory (comm/shm). They have its standard
 * streams, its process group and its terminal, unless the caller gives them others. */
#ifndef LS_SUPERVISE_RANKS_H
#define LS_SUPERVISE_RANKS_H

#include "base/child.h"
#include "comm/shm/shm.h"
#include "supervise/supervise.h"

typedef struct {
  int count, running; /* 0: none is started yet */
  int failed;         /* the first that did; -1: none */
  struct {
    pid_t pid;   /* 0: it has ended, and `end` says how */
    int process; /* readable when it ends; -1: not known */
    ls_child_end_t end;
  } * rank;
  ls_shm_world_t world;
} ls_ranks_t;

/* LS_ERR_ARGUMENT if a machine of this size does not start so many: a mistake (a mistyped --ranks) must not fill it. */
ls_status_t ls_ranks_check(ls_ctx_t *ctx, int count);
/* Starts `count` processes by the same specification (argv, environment, streams, group); a single one is no rank, but this
 * program started by hand. Release it, also after an error. */
ls_status_t ls_ranks_start(ls_ctx_t *ctx, const ls_child_spec_t *spec, int count, ls_ranks_t *ranks);
void ls_ranks_release(ls_ranks_t *ranks);
void ls_ranks_wait(ls_ranks_t *ranks); /* until all have ended */
/* Waits for those that have ended. True: they are the first of which one failed. A rank that has not left the others has
 * failed, whatever its exit code. */
bool ls_ranks_look(ls_ranks_t *ranks);
/* Signals each that runs; `below`: and the processes that it has started. */
void ls_ranks_signal(const ls_ranks_t *ranks, int signal_number, bool below);
/* Asks them to save and end. A rank that is not ready for the signal yet does not get it: ask again. */
void ls_ranks_ask(const ls_ranks_t *ranks, int cause); /* the signal that this process got */
/* The run's exit code: that of the first abort, else of the first failure. */
int ls_ranks_code(const ls_ranks_t *ranks);

/* Starts the ranks, passes on what signals ask until all have ended, and ends the others as soon as one has failed. Those that
 * were asked to end are ended by force after `patience_s` (at least 5 s), or when `forced` says so. *code: the exit code;
 * reported where no rank has done so. */
ls_status_t ls_ranks_run(ls_ctx_t *ctx, const ls_child_spec_t *spec, int count, const ls_requests_t *requests,
                         double patience_s, int *code);

#endif
