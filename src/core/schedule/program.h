/* A program: its members are the schedules that take turns, and a rule says which member runs each micro-batch of
 * each step. Steps may differ, as where parameters are averaged in every tenth step alone: the rule repeats itself after
 * a period of steps. Members share one state, one set of input slots, one region of stats and, for each region
 * of the run, one block as large as the largest member needs. A slot holds one micro-batch. So a step of
 * 1,024 micro-batches has the members, and the memory, of a step of three.
 *
 * Members pass results on in rows of the state, or among the stats; each begins with new transient memory. A
 * member begins when the one before it has ended on all lanes. */
#ifndef LS_SCHEDULE_PROGRAM_H
#define LS_SCHEDULE_PROGRAM_H

#include "schedule/schedule.h"

/* A tree over the most shards that a step may have (LS_TREE_PARTS_MAX, 1,024) takes 11 members; lower.c asserts
 * that it fits. */
enum { LS_PROGRAM_MEMBERS_MAX = 12 };

typedef struct ls_program ls_program_t;
/* The member that runs micro-batch m of a step, 0 <= m < micro_batches, 0 <= step < period. */
typedef int (*ls_program_rule_t)(const ls_program_t *p, int step, int m);
/* "first", then "middle" repeatedly, then "last"; of two micro-batches "first" and "last"; of one "only". */
int ls_program_chain(const ls_program_t *p, int step, int m);
/* A power of two, added like a binary counter: member k ends the sum of 2^k micro-batches. */
int ls_program_tree(const ls_program_t *p, int step, int m);

struct ls_program {
  int micro_batches; /* of a step, >= 1 */
  int period;        /* steps after which the rule begins again, >= 1 */
  ls_program_rule_t rule;
  int count;
  ls_schedule_t *member[LS_PROGRAM_MEMBERS_MAX]; /* owned; finished */
  int times[LS_PROGRAM_MEMBERS_MAX];             /* that a period runs it; after finish */
  size_t graph_bytes; /* of the graph that it was lowered from, which stays; 0 = none */
};

/* Counts how often a period runs each member. LS_ERR_INTERNAL if members do not match: different slots, inputs
 * or groups of ranks. */
ls_status_t ls_program_finish(ls_program_t *p);
/* A schedule that is a whole step. */
ls_program_t ls_program_of(ls_schedule_t *s);
void ls_program_release(ls_program_t *p); /* also of one that is zero */

/* The number of the member that runs micro-batch m of a run's step. */
int ls_program_at(const ls_program_t *p, int64_t step, int m);
/* The number of times that a step runs a member; as a mean. */
int ls_program_runs(const ls_program_t *p, int64_t step, int member);
double ls_program_times(const ls_program_t *p, int member);
/* The member with the most groups of ranks; every other member has the first ones of these. */
const ls_schedule_t *ls_program_groups(const ls_program_t *p);
/* Size of a region of the run: the largest that a member needs. */
size_t ls_program_bytes(const ls_program_t *p, ls_region_t region);
/* A number for each task of each member: first those of the first member, then of the second. (count, 0)
 * gives the number of all tasks. */
int ls_program_task(const ls_program_t *p, int member, int task);
int64_t ls_program_step_tasks(const ls_program_t *p); /* that a step runs, as a mean */

/* Proves every member (ls_schedule_check), and for each step of a period that gradients and other rows that a member
 * reads were written earlier in the same step, by itself or by a member that runs before. */
ls_status_t ls_program_check(const ls_program_t *p);
/* Also proves that the ranks have the same members, and that each fits those of the other ranks. */
ls_status_t ls_program_check_world(const ls_program_t *ranks, int count);

/* A number for what a program does, whatever its tasks are called: micro-batches, rule, tasks, lanes, waits, groups,
 * collectives, shapes and places of tensors. Programs with equal numbers take the same time. After finish. */
uint64_t ls_program_hash(const ls_program_t *p);

/* Exact bytes on this rank; what members share counts once. */
void ls_program_fit(const ls_program_t *p, ls_fit_t *fit);
/* Each member as ls_schedule_draw shows it without times, under a line with its name where there are several.
 */
char *ls_program_draw(const ls_program_t *p, int width);

#endif
