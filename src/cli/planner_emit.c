/* plan --emit: the job that runs the choice (plan/job.h). */
#include "cli/planner.h"
#include "plan/job.h"
#include "supervise/mpirun.h"

#include <stdlib.h>
#include <string.h>

/* The fastest on as many devices as a plan has. */
static const ls_candidate_t *widest(const ls_plan_t *plan) {
  const ls_candidate_t *found = &plan->candidate[plan->choice];
  for (int i = 0; i < plan->count; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    if (c->priced && c->fits && ls_candidate_devices(c) > ls_candidate_devices(found)) found = c;
  }
  return found;
}

/* Why nothing but a single device was priced. */
static const char *why_single(const ls_plan_t *plan) {
  for (int i = 0; i < plan->count; i++)
    if (ls_candidate_devices(&plan->candidate[i]) > 1 && plan->candidate[i].why)
      return plan->candidate[i].why;
  return "plan on a machine with two";
}

/* A plan is for the devices of this host. If the configuration has hosts or more ranks, the plan gives the options, and the
 * configuration the number of ranks. */
ls_status_t cli_planner_emit(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                             ls_planned_t *planned, const char *form, bool devices_given) {
  ls_plan_t *plan = &planned->plan;
  const ls_parallel_config_t *parallel = &config->parallel;
  cli_args_t own = *args;
  ls_candidate_t c = plan->candidate[plan->choice];
  const int here = ls_candidate_devices(widest(plan)), ranks = (int)parallel->ranks;
  const bool more =
      !devices_given && ranks != ls_candidate_devices(&c) && (parallel->hosts.count > 0 || ranks > here);
  if (more && ranks > 1 && here == 1)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "--emit: the configuration has %d ranks, and a plan of a single device has no options for "
                   "them: %s",
                   ranks, why_single(plan));
  if (more && ranks > 1) c = *widest(plan);
  if (more) c.config.parallel.ranks = ranks;
  ls_plan_job_t job = {.c = &c,
                       .left_out = plan->left_out,
                       .gpus = strcmp(plan->backend, "cuda") == 0,
                       .saves = config->checkpoint.dir != NULL,
                       .more = more,
                       .list = ""};
  ls_plan_job_place(&job, &parallel->hosts, here);
  if (job.nodes > 1 && !strcmp(form, "k8s"))
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--emit k8s: a Job is a pod on one node, and these ranks need %d: give --devices what one "
                   "node has, or start mpirun (--emit mpirun) in an MPIJob of the MPI operator",
                   job.nodes);
  if (parallel->hosts.count > 0 && own.set_count < CLI_SETS_MAX)
    own.sets[own.set_count++] = "parallel.hosts="; /* its own are those of the job, or mpirun's */
  job.words = cli_planner_words(&plan->arena, &own, planned, &c);
  job.line = cli_planner_command(&plan->arena, &own, planned, &c);
  if (parallel->hosts.count > 0)
    job.list = ls_mpirun_hosts(&plan->arena, &parallel->hosts, ls_candidate_devices(&c));
  if (!job.words || !job.line || !job.list) return LS_ERR_MEMORY;
  ls_status_t status = ls_mpirun_agent(ctx, &plan->arena, &parallel->hosts,
                                       ls_hosts_shell(parallel->remote_shell), &job.agent);
  if (status != LS_OK) return status;
  char *text = NULL;
  status = ls_plan_job_text(ctx, &plan->arena, form, &job, &text);
  if (status == LS_OK) cli_print("%s", text);
  free(text);
  return status;
}
