/* price: predicts how long a step takes. Task times come from a cost model. Lanes are simulated with their
 * waits, and a task runs slower while other lanes are busy. Nothing is executed. */
#ifndef LS_PLAN_PRICE_H
#define LS_PLAN_PRICE_H

#include "machine/profile.h"
#include "schedule/program.h"

typedef struct {
  /* Time of one task when it runs alone. LS_ERR_NOT_FOUND (unreported): not known. */
  ls_status_t (*task_time)(void *user, const ls_schedule_t *s, int task, ls_time_t *time);
  void *user;
  /* Factor >= 1 by which a task of lane [a] is slowed while lane [b] is busy; several busy lanes add up their
   * excess: 1 + sum (factor - 1). The diagonal is not read. Values below 1 count as 1. */
  double slowdown[LS_LANE_COUNT][LS_LANE_COUNT];
  double step_overhead_ns; /* launch and bookkeeping per step */
  double model_error;      /* half-width of the model's own 90 % interval, as a part of the step; 0 = none */
} ls_cost_model_t;

/* Sets the slowdown of lanes that communicate and compute at once: tasks of either lane that computes take `compute` times as long while
 * collectives run, collectives `comm` times as long while the compute lane is busy. Lanes that compute do not slow each
 * other down, because tasks of two lanes are timed while both are busy. */
void ls_cost_model_overlap(ls_cost_model_t *model, double compute, double comm);

/* step.ns is the time at which the last task ends, plus the overhead. Its interval follows the critical path,
 * the chain of tasks that ends last and in which each task starts when the one before it ends: with medians
 * m_i, bounds l_i and h_i and stretch s_i (time in the simulation over time alone), low = step - sqrt(sum
 * (s_i (m_i - l_i))^2 + (model_error step)^2), high alike with h_i - m_i: deviations of tasks are taken as
 * independent, those of the model as common to all. low is at least 0. */
typedef struct {
  ls_time_t step;    /* of the whole step */
  double exposed_ns; /* exposed communication: the time in which the compute lane waits for it */
  double
      parts_ns[LS_PHASE_STEP_COUNT]; /* ls_schedule_parts; the overhead is in REST; they add up to step.ns */
  ls_task_time_t *times; /* one per task (ls_free by ls_price_release); start and end relative to the step */
} ls_price_t;

/* LS_ERR_NOT_FOUND, unreported: the model does not know a task. LS_ERR_ARGUMENT: the schedule is not
 * finished, waits in a circle, or a time is negative or not finite. */
ls_status_t ls_schedule_price(ls_ctx_t *ctx, const ls_schedule_t *s, const ls_cost_model_t *model,
                              ls_price_t *price);
/* A whole step of a program, as a mean over its period: its members one after the other, each as often as it runs, and
 * the overhead once. Deviations of the repetitions of a member count as independent, too. times is NULL. */
ls_status_t ls_program_price(ls_ctx_t *ctx, const ls_program_t *p, const ls_cost_model_t *model,
                             ls_price_t *price);
void ls_price_release(ls_price_t *price);

#endif
