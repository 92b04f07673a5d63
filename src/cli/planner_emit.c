/* plan --emit: what starts the choice elsewhere. With checkpoints the job is supervised, saves when it has to go, and
 * goes on when it comes back (docs/supervise.md); without, it starts from the beginning. */
#include "cli/planner.h"

#include "base/shell.h"

#include <lockstep/version.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const ls_candidate_t *c;
  const char *const *words; /* of the command */
  const char *line;         /* the same for a shell */
  const char *left_out;     /* of the plan */
  bool gpus, saves, more;   /* ranks than the plan's devices */
  int nodes, each;          /* how many, and the most ranks on one of them */
  bool even;                /* each has as many */
  const ls_hosts_config_t *hosts;
  const char *list, *agent; /* of mpirun */
} job_t;

static void print_prediction(const job_t *job) {
  if (job->more)
    cli_print("# not predicted: a plan is of the devices of one host, and these ranks are %d on %d\n",
              job->c->devices, job->nodes);
  else
    cli_print("# predicted: %.1f us a step, 90 %% within %.1f to %.1f\n", job->c->step.ns * 1e-3,
              job->c->step.low_ns * 1e-3, job->c->step.high_ns * 1e-3);
  if (job->left_out) cli_print("# left out, and off here: %s, which only timing can price\n", job->left_out);
  if (!job->saves)
    cli_print("# train.checkpoint.dir is not set: nothing is saved, and a job that is ended begins again\n");
}

static void emit_mpirun(const job_t *job) {
  if (job->hosts->count > 0) {
    static const char *const names[] = {"OMPI_MCA_plm_rsh_agent=", " PRTE_MCA_plm_ssh_agent="};
    for (int i = 0; i < LS_COUNT(names); i++) {
      cli_print("%s", names[i]);
      ls_shell_put(stdout, job->agent);
    }
    cli_print(" mpirun --bind-to none --host %s -np %d ", job->list, job->c->devices);
  } else if (job->nodes > 1) {
    cli_print("# hosts: a file of %d lines \"NAME slots=%d\"\nmpirun --bind-to none --hostfile hosts -np %d ",
              job->nodes, job->each, job->c->devices);
  } else if (job->c->devices > 1)
    cli_print("mpirun --bind-to none -np %d ", job->c->devices);
  cli_print("%s\n", job->line);
}

/* The supervisor starts the ranks by itself, within what the job was given. Needs bash: `wait` for a process that has
 * ended gives its code again. */
static void emit_sbatch(const job_t *job) {
  cli_print("#!/bin/bash\n#SBATCH --job-name=lockstep\n#SBATCH --nodes=%d\n#SBATCH --ntasks=%d\n#SBATCH "
            "--cpus-per-task=%d\n",
            job->nodes, job->c->devices, job->c->threads);
  if (job->nodes > 1 && job->even) cli_print("#SBATCH --ntasks-per-node=%d\n", job->each);
  if (job->gpus) cli_print("#SBATCH --gres=gpu:%d\n", job->each);
  if (job->saves) cli_print("#SBATCH --requeue --signal=B:USR1@120\n#SBATCH --open-mode=append\n");
  print_prediction(job);
  if (!job->saves) {
    cli_print("%s%s\n", job->c->devices > 1 ? "srun --mpi=pmix " : "", job->line);
    return;
  }
  cli_print("%s --supervise --resume &\nrun=$!\ntrap 'kill -USR1 $run' USR1 TERM\n"
            "while kill -0 $run 2>/dev/null; do wait $run; done # a signal ends wait\nwait $run; code=$?\n"
            "case $code in\n0|%d|%d|%d|%d|%d) ;; # the end, a refusal, Ctrl-C\n"
            "%d) scontrol requeue \"$SLURM_JOB_ID\" ;;\n"
            "*) [ \"${SLURM_RESTART_COUNT:-0}\" -ge 3 ] || scontrol requeue \"$SLURM_JOB_ID\" ;; # the node, "
            "perhaps\n"
            "esac\nexit $code\n",
            job->line, ls_status_exit_code(LS_ERR_ARGUMENT), ls_status_exit_code(LS_ERR_CONFIG),
            ls_status_exit_code(LS_ERR_DATA), ls_status_exit_code(LS_ERR_MISMATCH),
            ls_status_exit_code(LS_ERR_INTERRUPTED), LS_SUPERVISE_AGAIN);
}

static void print_word(const char *word, const char *before) {
  json_t *text = json_string(word);
  char *dumped = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
  cli_print("%s%s", before, dumped ? dumped : "\"\"");
  free(dumped);
  json_decref(text);
}

/* A pod that was moved, or has saved and left, does not count as a failure; a refusal would come again. */
static void print_policy(void) {
  cli_print(
      "  backoffLimit: 3\n  podFailurePolicy:\n    rules:\n"
      "      - action: Ignore\n        onPodConditions: [{type: DisruptionTarget}]\n"
      "      - action: Ignore\n        onExitCodes: {containerName: lockstep, operator: In, values: [%d]}\n"
      "      - action: FailJob\n        onExitCodes: {containerName: lockstep, operator: In, values: [%d, "
      "%d, %d, %d]}\n",
      LS_SUPERVISE_AGAIN, ls_status_exit_code(LS_ERR_ARGUMENT), ls_status_exit_code(LS_ERR_CONFIG),
      ls_status_exit_code(LS_ERR_DATA), ls_status_exit_code(LS_ERR_MISMATCH));
}

static void emit_k8s(const job_t *job) {
  const ls_candidate_t *c = job->c;
  print_prediction(job);
  cli_print("apiVersion: batch/v1\nkind: Job\nmetadata: {name: lockstep}\nspec:\n");
  print_policy();
  cli_print("  template:\n    spec:\n      restartPolicy: Never\n      terminationGracePeriodSeconds: 120\n"
            "      shareProcessNamespace: true # what processes leave behind is reaped\n      containers:\n"
            "        - name: lockstep\n          image: lockstep:%s # deploy/Containerfile\n          "
            "workingDir: /work\n"
            "          command: [\"lockstep\"",
            ls_version());
  for (int i = 1; job->words[i]; i++)
    print_word(job->words[i], ", ");
  cli_print("%s]\n", job->saves ? ", \"--supervise\", \"--resume\"" : "");
  cli_print("          resources:\n            requests: {cpu: %d}\n", c->devices * c->threads);
  if (job->gpus) cli_print("            limits: {nvidia.com/gpu: %d}\n", c->devices);
  cli_print("          volumeMounts: [{name: work, mountPath: /work}, {name: shm, mountPath: /dev/shm}]\n"
            "      volumes:\n        - {name: work, persistentVolumeClaim: {claimName: lockstep}}\n"
            "        - {name: shm, emptyDir: {medium: Memory}} # through which ranks exchange\n");
}

static const struct {
  const char *name;
  void (*emit)(const job_t *job);
} forms[] = {{"mpirun", emit_mpirun}, {"sbatch", emit_sbatch}, {"k8s", emit_k8s}};

ls_status_t cli_planner_emit_check(ls_ctx_t *ctx, const char *form) {
  const char *names[LS_COUNT(forms) + 1] = {NULL};
  char list[LS_NAMES_TEXT_BYTES];
  for (int i = 0; i < LS_COUNT(forms); i++) {
    names[i] = forms[i].name;
    if (strcmp(names[i], form) == 0) return LS_OK;
  }
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--emit takes one of %s, not \"%s\"", ls_names_text(names, list),
                 form);
}

/* The fastest on as many devices as a plan has. */
static const ls_candidate_t *widest(const ls_plan_t *plan) {
  const ls_candidate_t *found = &plan->candidate[plan->choice];
  for (int i = 0; i < plan->count; i++) {
    const ls_candidate_t *c = &plan->candidate[i];
    if (c->priced && c->fits && c->devices > found->devices) found = c;
  }
  return found;
}

/* Why nothing but a single device was priced. */
static const char *why_single(const ls_plan_t *plan) {
  for (int i = 0; i < plan->count; i++)
    if (plan->candidate[i].devices > 1 && plan->candidate[i].why) return plan->candidate[i].why;
  return "plan on a machine with two";
}

/* On which nodes so many ranks run; those of a node without a name are as many as the devices here. */
static void place(job_t *job, int here) {
  int left = job->c->devices, first = 0;
  job->even = true;
  for (job->nodes = 0; left > 0; job->nodes++) {
    int most = job->nodes < job->hosts->count ? (int)job->hosts->host[job->nodes].slots : here;
    if (most > left) most = left;
    if (job->nodes == 0) first = most;
    if (most > job->each) job->each = most;
    job->even &= most == first;
    left -= most;
  }
}

/* A plan is of the devices of this host. Of a configuration with more ranks, or with hosts, it gives the options, and the
 * configuration the number. */
ls_status_t cli_planner_emit(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                             cli_planned_t *planned, const char *form, bool devices_given) {
  ls_plan_t *plan = &planned->plan;
  const ls_parallel_config_t *parallel = &config->parallel;
  cli_args_t own = *args;
  ls_candidate_t c = plan->candidate[plan->choice];
  const int here = widest(plan)->devices, ranks = (int)parallel->ranks;
  const bool more = !devices_given && ranks != c.devices && (parallel->hosts.count > 0 || ranks > here);
  if (more && ranks > 1 && here == 1)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "--emit: the configuration has %d ranks, and a plan of a single device has no options for "
                   "them: %s",
                   ranks, why_single(plan));
  if (more && ranks > 1) c = *widest(plan);
  if (more) c.devices = ranks;
  job_t job = {.c = &c,
               .left_out = plan->left_out,
               .gpus = strcmp(plan->backend, "cuda") == 0,
               .saves = config->checkpoint.dir != NULL,
               .more = more,
               .hosts = &parallel->hosts};
  place(&job, here);
  if (job.nodes > 1 && !strcmp(form, "k8s"))
    return ls_fail(ctx, LS_ERR_ARGUMENT,
                   "--emit k8s: a Job is a pod on one node, and these ranks need %d: give --devices what one "
                   "node has, or start mpirun (--emit mpirun) in an MPIJob of the MPI operator",
                   job.nodes);
  if (parallel->hosts.count > 0 && own.set_count < CLI_SETS_MAX)
    own.sets[own.set_count++] = "parallel.hosts="; /* its own are those of the job, or mpirun's */
  job.words = cli_planner_words(&plan->arena, &own, planned, &c);
  job.line = cli_planner_command(&plan->arena, &own, planned, &c);
  job.list = cli_hosts_list(&plan->arena, &parallel->hosts, c.devices);
  if (!job.words || !job.line || !job.list) return LS_ERR_MEMORY;
  ls_status_t status = cli_hosts_agent(ctx, &plan->arena, parallel, &job.agent);
  if (status != LS_OK) return status;
  for (int i = 0; i < LS_COUNT(forms); i++)
    if (strcmp(forms[i].name, form) == 0) forms[i].emit(&job);
  return LS_OK;
}
