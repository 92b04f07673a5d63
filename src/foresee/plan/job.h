/* A job that runs a plan's choice elsewhere: a template (share/templates, or the user's) filled with its values. With
 * checkpoints the job is supervised, saves when it has to go, and goes on when it comes back (docs/supervise.md); without, it
 * starts from the beginning. */
#ifndef LS_PLAN_JOB_H
#define LS_PLAN_JOB_H

#include "plan/plan.h"

typedef struct {
  const ls_candidate_t *c;
  const char *const *words; /* of the command */
  const char *line;         /* the same for a shell */
  const char *left_out;     /* of the plan */
  bool gpus, saves, more;   /* ranks than the plan's devices */
  int nodes, each;          /* how many, and the most ranks on one of them */
  bool even;                /* each has as many */
  const char *list, *agent; /* of mpirun; the list is "" without hosts */
} ls_plan_job_t;

/* LS_ERR_ARGUMENT, LS_ERR_NOT_FOUND: there is no template `form`, a name or a path. */
ls_status_t ls_plan_job_check(ls_ctx_t *ctx, const char *form);
/* Sets nodes, each and even: where the ranks of job->c run. A node without a name has as many as the devices here. */
void ls_plan_job_place(ls_plan_job_t *job, const ls_hosts_config_t *hosts, int here);
/* The filled template; *text is released with free. */
ls_status_t ls_plan_job_text(ls_ctx_t *ctx, ls_arena_t *arena, const char *form, ls_plan_job_t *job,
                             char **text);

#endif
