/* plan --emit: fills a job's template (share/templates, or the user's) with the choice. With checkpoints the job is
 * supervised, saves when it has to go, and goes on when it comes back (docs/supervise.md); without, it starts from the
 * beginning. */
#include "cli/planner.h"
#include "supervise/mpirun.h"

#include "base/expand.h"
#include "base/shell.h"

#include <lockstep/version.h>
#include <stdlib.h>
#include <string.h>

extern const ls_embedded_t cli_templates[];
extern const char *const cli_template_names[];

typedef struct {
  const ls_candidate_t *c;
  const char *const *words; /* of the command */
  const char *line;         /* the same for a shell */
  const char *left_out;     /* of the plan */
  bool gpus, saves, more;   /* ranks than the plan's devices */
  int nodes, each;          /* how many, and the most ranks on one of them */
  bool even;                /* each has as many */
  const char *list, *agent; /* of mpirun; the list is "" without hosts */
} job_t;

static void put_word(FILE *to, const char *word) {
  json_t *text = json_string(word);
  char *dumped = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
  fprintf(to, ", %s", dumped ? dumped : "\"\"");
  free(dumped);
  json_decref(text);
}

static bool put_text(const job_t *job, const char *name, FILE *to) {
  const struct {
    const char *name, *text;
  } rows[] = {{"command", job->line},
              {"hosts", job->list},
              {"left_out", job->left_out ? job->left_out : ""},
              {"version", ls_version()}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (strcmp(rows[i].name, name) == 0) {
      fputs(rows[i].text, to);
      return true;
    }
  if (strcmp(name, "agent") == 0)
    ls_shell_put(to, job->agent);
  else if (strcmp(name, "arguments") == 0)
    for (int i = 1; job->words[i]; i++)
      put_word(to, job->words[i]);
  else
    return false;
  return true;
}

/* Every placeholder of a template (docs/plan.md). */
static bool put_value(void *data, const char *name, FILE *to) {
  const job_t *job = data;
  const ls_candidate_t *c = job->c;
  const struct {
    const char *name;
    double value;
    int digits;
  } rows[] = {{"ranks", ls_candidate_devices(c), 0},
              {"threads", ls_candidate_threads(c), 0},
              {"processors", ls_candidate_devices(c) * ls_candidate_threads(c), 0},
              {"nodes", job->nodes, 0},
              {"ranks_each", job->each, 0},
              {"even", job->even, 0},
              {"several_ranks", ls_candidate_devices(c) > 1, 0},
              {"several_nodes", job->nodes > 1, 0},
              {"gpus", job->gpus, 0},
              {"saves", job->saves, 0},
              {"predicted", !job->more, 0},
              {"step_us", c->step.ns * 1e-3, 1},
              {"step_low_us", c->step.low_ns * 1e-3, 1},
              {"step_high_us", c->step.high_ns * 1e-3, 1},
              {"exit_argument", ls_status_exit_code(LS_ERR_ARGUMENT), 0},
              {"exit_config", ls_status_exit_code(LS_ERR_CONFIG), 0},
              {"exit_data", ls_status_exit_code(LS_ERR_DATA), 0},
              {"exit_mismatch", ls_status_exit_code(LS_ERR_MISMATCH), 0},
              {"exit_interrupted", ls_status_exit_code(LS_ERR_INTERRUPTED), 0},
              {"exit_again", LS_SUPERVISE_AGAIN, 0}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (strcmp(rows[i].name, name) == 0) return fprintf(to, "%.*f", rows[i].digits, rows[i].value) > 0;
  return put_text(job, name, to);
}

/* A form is a template's name or path. */
static ls_status_t find_template(ls_ctx_t *ctx, ls_arena_t *arena, const char *form, const char **file,
                                 const char **text) {
  char list[LS_NAMES_TEXT_BYTES];
  ls_status_t status = ls_template_read(ctx, arena, cli_templates, NULL, form, file, text);
  if (status != LS_ERR_NOT_FOUND || strpbrk(form, "/.")) return status;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--emit takes one of %s, or the path of a template, not \"%s\"",
                 ls_names_text(cli_template_names, list), form);
}

ls_status_t cli_planner_emit_check(ls_ctx_t *ctx, const char *form) {
  const char *file, *text;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_status_t status = find_template(ctx, &arena, form, &file, &text);
  ls_arena_release(&arena);
  return status;
}

static ls_status_t print_job(ls_ctx_t *ctx, ls_arena_t *arena, const char *form, job_t *job) {
  const char *file, *template;
  char *text = NULL;
  size_t size;
  ls_status_t status = find_template(ctx, arena, form, &file, &template);
  if (status != LS_OK) return status;
  FILE *to = open_memstream(&text, &size);
  if (!to) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for a job");
  status = ls_expand(ctx, file, 1, template, put_value, job, to);
  if (fclose(to) != 0 && status == LS_OK) status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for a job");
  if (status == LS_OK) cli_print("%s", text);
  free(text);
  return status;
}

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

/* On which nodes so many ranks run; those of a node without a name are as many as the devices here. */
static void place(job_t *job, const ls_hosts_config_t *hosts, int here) {
  int left = ls_candidate_devices(job->c), first = 0;
  job->even = true;
  for (job->nodes = 0; left > 0; job->nodes++) {
    int most = job->nodes < hosts->count ? (int)hosts->host[job->nodes].slots : here;
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
  job_t job = {.c = &c,
               .left_out = plan->left_out,
               .gpus = strcmp(plan->backend, "cuda") == 0,
               .saves = config->checkpoint.dir != NULL,
               .more = more,
               .list = ""};
  place(&job, &parallel->hosts, here);
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
  return print_job(ctx, &plan->arena, form, &job);
}
