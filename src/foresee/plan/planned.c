/* Finds or measures the profile, plans, and keeps what was timed. */
#include "plan/planned.h"

#include "plan/world.h"

#include <unistd.h>

/* Runs the quick probe in a child, into `output`, because the probe starts ranks that this process must not disturb. The probe
 * may take a while to end its own children. */
static ls_status_t run_probe(ls_ctx_t *ctx, const ls_plan_stop_t *stop, const char *output) {
  enum { GRACE_S = 15 };
  const char *const argv[] = {"lockstep", "probe", "--quick", "--output", output, NULL};
  ls_child_spec_t spec = {
      .argv = argv, .self = true, .grace_s = GRACE_S, .stream = {[STDOUT_FILENO] = {.file = "/dev/null"}}};
  ls_child_end_t end;
  char words[LS_CHILD_WORDS_BYTES];
  ls_log(ctx, LS_LOG_INFO, "no profile of this machine yet: measuring it (lockstep probe --quick)");
  const bool measured = stop->run(&spec, &end);
  const int stopped = stop->requested();
  if (stopped)
    return ls_fail(ctx, LS_ERR_INTERRUPTED, "interrupted by %s while measuring this machine",
                   stop->name(stopped));
  if (measured) return LS_OK;
  if (!end.error && end.code == ls_status_exit_code(LS_ERR_INTERRUPTED)) return LS_ERR_INTERRUPTED;
  ls_child_words(&end, words);
  return ls_fail(ctx, LS_ERR_NOT_FOUND, "lockstep probe failed (%s): there is no profile to plan with",
                 words);
}

/* A failure to save is no failure of the plan: it only costs the next plan time. Reported once. */
static void warn_unsaved(ls_ctx_t *ctx, const ls_ctx_t *own, ls_planned_t *p) {
  if (!p->unsaved)
    ls_log(ctx, LS_LOG_WARN, "what was measured for this plan is not remembered: %s", ls_ctx_error(own));
  p->unsaved = true;
}

/* Keeps the probe's profile; if another one appeared meanwhile, that one's values win. */
static ls_status_t keep_probe(ls_ctx_t *ctx, ls_planned_t *p) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* keeps the reason, prints nothing */
  ls_profile_t *other;
  ls_status_t status = LS_OK;
  if (!own) return LS_ERR_MEMORY;
  if (ls_path_exists(p->path) && ls_profile_load(own, p->path, &p->machine, &other) == LS_OK) {
    status = ls_profile_merge(p->profile, other);
    ls_profile_destroy(other);
  } else {
    ls_ctx_clear(own);
    if (ls_profile_save(own, p->profile, p->path) != LS_OK) warn_unsaved(ctx, own, p);
  }
  p->kept = !p->unsaved;
  ls_ctx_destroy(own);
  return status;
}

/* Measures into a file of its own, because the folder of profiles may not be writable. */
static ls_status_t probe_profile(ls_ctx_t *ctx, const ls_plan_stop_t *stop, ls_planned_t *p) {
  char *dir;
  ls_status_t status = ls_dir_temporary(ctx, "lockstep-plan", &dir);
  if (status != LS_OK) return status;
  char *path = ls_path_join(ctx, dir, "profile.json");
  status = path ? run_probe(ctx, stop, path) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_profile_load(ctx, path, &p->machine, &p->profile);
  ls_dir_remove(NULL, dir);
  ls_free(path);
  ls_free(dir);
  p->probed = true;
  return status == LS_OK ? keep_probe(ctx, p) : status;
}

static ls_status_t open_profile(ls_ctx_t *ctx, const char *recorded, const ls_plan_stop_t *stop,
                                ls_planned_t *p) {
  p->kept = true;
  if (recorded) {
    p->path = ls_strdup(ctx, recorded);
    return p->path ? ls_profile_load(ctx, recorded, NULL, &p->profile) : LS_ERR_MEMORY;
  }
  ls_status_t status = ls_machine_read(ctx, &p->machine);
  if (status != LS_OK) return status;
  if (!(p->path = ls_profile_default_path(ctx, &p->machine))) return LS_ERR_MEMORY;
  if (!ls_path_exists(p->path)) return probe_profile(ctx, stop, p);
  return ls_profile_load(ctx, p->path, &p->machine, &p->profile);
}

/* Saves the timings made since the profile was `before`; those of other plans since then stay. */
static void keep_timed(ls_ctx_t *ctx, const ls_profile_t *before, ls_planned_t *p) {
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  if (own && ls_profile_update(own, before, p->profile, p->path) != LS_OK) warn_unsaved(ctx, own, p);
  ls_ctx_destroy(own);
}

ls_status_t ls_planned_make(ls_ctx_t *ctx, const ls_config_t *config, const char *recorded,
                            const ls_plan_stop_t *stop, ls_plan_options_t *options, ls_planned_t *planned) {
  ls_planned_t p = {.env = config->doc.env};
  ls_config_t read = *config;  /* with the dtype of the data */
  ls_profile_t *before = NULL; /* timings are added to it */
  ls_status_t status = open_profile(ctx, recorded, stop, &p);
  options->replay = recorded != NULL;
  if (status == LS_OK && !recorded) status = ls_profile_copy(ctx, p.profile, &before);
  if (status == LS_OK) status = ls_plan_count_samples(ctx, &read, options);
  if (status == LS_OK) status = ls_train_batch_check(ctx, config, "data", options->samples);
  if (status == LS_OK) status = ls_plan_make(ctx, &read, p.profile, options, &p.plan);
  if (status == LS_OK && before && p.plan.profile_changed) keep_timed(ctx, before, &p);
  ls_profile_destroy(before);
  if (status != LS_OK) {
    ls_profile_destroy(p.profile);
    ls_free(p.path);
    return status;
  }
  *planned = p;
  return LS_OK;
}

void ls_planned_release(ls_planned_t *planned) {
  ls_plan_release(&planned->plan);
  ls_profile_destroy(planned->profile);
  ls_free(planned->path);
}
