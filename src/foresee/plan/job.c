/* Values of a template's placeholders (docs/plan.md). */
#include "plan/job.h"

#include "base/expand.h"
#include "base/shell.h"

#include <lockstep/version.h>
#include <stdlib.h>
#include <string.h>

extern const ls_embedded_t ls_plan_templates[];
extern const char *const ls_plan_template_names[];

static void put_word(FILE *to, const char *word) {
  json_t *text = json_string(word);
  char *dumped = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
  fprintf(to, ", %s", dumped ? dumped : "\"\"");
  free(dumped);
  json_decref(text);
}

static bool put_text(const ls_plan_job_t *job, const char *name, FILE *to) {
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
  const ls_plan_job_t *job = data;
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
  ls_status_t status = ls_template_read(ctx, arena, ls_plan_templates, NULL, form, file, text);
  if (status != LS_ERR_NOT_FOUND || strpbrk(form, "/.")) return status;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "--emit takes one of %s, or the path of a template, not \"%s\"",
                 ls_names_text(ls_plan_template_names, list), form);
}

ls_status_t ls_plan_job_check(ls_ctx_t *ctx, const char *form) {
  const char *file, *text;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_status_t status = find_template(ctx, &arena, form, &file, &text);
  ls_arena_release(&arena);
  return status;
}

ls_status_t ls_plan_job_text(ls_ctx_t *ctx, ls_arena_t *arena, const char *form, ls_plan_job_t *job,
                             char **made) {
  const char *file, *template;
  char *text = NULL;
  size_t size;
  ls_status_t status = find_template(ctx, arena, form, &file, &template);
  if (status != LS_OK) return status;
  FILE *to = open_memstream(&text, &size);
  if (!to) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for a job");
  status = ls_expand(ctx, file, 1, template, put_value, job, to);
  if (fclose(to) != 0 && status == LS_OK) status = ls_fail(ctx, LS_ERR_MEMORY, "out of memory for a job");
  if (status == LS_OK)
    *made = text;
  else
    free(text);
  return status;
}

void ls_plan_job_place(ls_plan_job_t *job, const ls_hosts_config_t *hosts, int here) {
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
