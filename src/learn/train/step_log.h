/* Statistics over the steps of one run. */
#ifndef LS_TRAIN_STEP_LOG_H
#define LS_TRAIN_STEP_LOG_H

#include "schedule/schedule.h"
#include <lockstep/train.h>

enum { LS_LOSS_RING = 100 };
typedef struct {
  double *step_ns; /* (capacity): one for each of the first steps */
  int64_t count, capacity;
  double
      loss[LS_LOSS_RING]; /* of the newest applied steps; the next one is put at loss_count % LS_LOSS_RING */
  int64_t loss_count;
  /* Partial sums, so that a step's mean needs one addition: of the places before the next one, and of those from each
   * place on as they were when the ring began again. */
  double newer, older[LS_LOSS_RING + 1];
  double parts_ns[2][LS_PHASE_STEP_COUNT]; /* sums: of the warm-up steps, of the later ones up to capacity */
  bool parts;                              /* they were measured */
} ls_step_log_t;
ls_status_t ls_step_log_create(ls_ctx_t *ctx, int64_t capacity, ls_step_log_t *log);
void ls_step_log_release(ls_step_log_t *log);
/* parts_ns: of this step, NULL = not measured. The remainder of step_ns is added to the rest, so that the
 * parts add up to the step; *parts gets them. */
void ls_step_log_add(ls_step_log_t *log, int64_t step_ns, const int64_t parts_ns[LS_PHASE_STEP_COUNT],
                     double loss, bool applied, ls_step_parts_t *parts);
/* Mean loss of the last applied steps; NAN: there was none. */
double ls_step_log_loss(const ls_step_log_t *log);
/* Fills in the times, parts and losses. Times and parts cover the same steps: those after the warm-up. */
void ls_step_log_report(ls_step_log_t *log, ls_train_report_t *report);

#endif
