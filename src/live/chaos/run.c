/* One run: trains in a supervised child with a fault planted in its environment, then reads the reports. */
#include "chaos/parts.h"

#include "base/child.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAVES = 10, KEPT = 2, SAID_BYTES = 65536 };

static int64_t save_steps(const chaos_t *c) {
  return c->steps / SAVES > 0 ? c->steps / SAVES : 1;
}

/* Writes the configuration of a run in `dir` to DIR.config.json. Saves and comparisons of replicas come often enough for every
 * fault to fall between them. */
static ls_status_t write_config(const chaos_t *c, const char *dir, char **path) {
  ls_arena_t arena;
  ls_config_t own = *c->config;
  ls_arena_init(&arena, c->ctx);
  own.checkpoint.dir = dir;
  own.monitor.dir = ls_arena_printf(&arena, "%s/monitor", dir);
  if (own.checkpoint.keep < KEPT) own.checkpoint.keep = KEPT;
  if (c->steps > 0) own.checkpoint.every_steps = save_steps(c);
  if (c->steps > 0) own.train.replica_steps = (save_steps(c) + 1) / 2;
  const char *name = ls_arena_printf(&arena, "%s.config.json", dir);
  char *text = own.monitor.dir && name ? ls_config_text(c->ctx, &own) : NULL;
  ls_status_t status = text ? ls_file_write(c->ctx, name, text, strlen(text)) : LS_ERR_MEMORY;
  if (status == LS_OK) status = (*path = ls_strdup(c->ctx, name)) ? LS_OK : LS_ERR_MEMORY;
  ls_free(text);
  ls_arena_release(&arena);
  return status;
}

/* train in `dir`, its document to the file `out`. `fault` NULL: none. Returns its exit code. */
static int train(const chaos_t *c, const char *config, bool supervised, bool resume, const char *fault,
                 const char *out) {
  static const char *const flags[] = {"--supervise", "--resume"};
  const char *argv[8] = {"lockstep", "train", config, "--quiet", "--json"};
  const char *const environment[] = {fault ? fault : LS_INJECT_ENVIRONMENT, NULL};
  int count = 5;
  if (supervised) argv[count++] = flags[0];
  if (resume) argv[count++] = flags[1];
  ls_child_end_t end = {.code = 1};
  char *said = ls_alloc(c->ctx, SAID_BYTES);
  const ls_child_spec_t spec = {.argv = argv,
                                .self = true,
                                .environment = environment,
                                .stream = {[STDOUT_FILENO] = {.file = out}},
                                .grace_s = 10,
                                .stop = c->stop,
                                .said = said,
                                .said_bytes = said ? SAID_BYTES : 0};
  ls_child_run(&spec, &end);
  if (!supervised && (end.code || end.signal) && said) {
    char reason[LS_CHILD_WORDS_BYTES];
    ls_child_reason(&end, said, reason);
    ls_fail(c->ctx, LS_ERR_CONFIG, "the undisturbed run failed: %s", reason);
  }
  ls_free(said);
  return end.signal ? 128 + end.signal : end.code;
}

/* From train's document; false without one. */
static bool hash_of(const char *path, char hash[CHAOS_HASH_BYTES], int64_t *steps) {
  json_t *json = json_load_file(path, 0, NULL);
  const char *text = json_string_value(json_object_get(json, "params_xxh3"));
  snprintf(hash, CHAOS_HASH_BYTES, "%s", text ? text : "");
  if (steps) *steps = json_integer_value(json_object_get(json, "total_steps"));
  json_decref(json);
  return hash[0] != '\0';
}

/* ---- what the supervisor said ---- */

static double number_in(const char *path) {
  double value = NAN;
  FILE *file = fopen(path, "re");
  if (file && fscanf(file, "%lf", &value) != 1) value = NAN;
  if (file) fclose(file);
  return value;
}

/* Whether the supervisor named the cause. A supervisor that was killed says nothing. A request to end comes to nothing if
 * the ranks would agree on it only after the last step. */
static bool is_cause(const chaos_t *c, const ls_inject_kind_t *kind, const char *once, const char *named,
                     const outcome_t *o) {
  if (kind->cause == LS_FAULT_NONE) return kind->ends ? o->exit_code == 128 + kind->number : !named;
  if (!named) return kind->ends && o->exit_code == 0 && ls_inject_agree_step(once) >= c->steps;
  return !strcmp(named, ls_fault_name(kind->cause)) ||
         (kind->also && !strcmp(named, ls_fault_name(kind->also)));
}

/* Cause, rank and times of the first life that failed. */
static void read_report(const chaos_t *c, const ls_inject_kind_t *kind, const char *dir, const char *once,
                        outcome_t *o) {
  const double struck_s = number_in(once);
  char *path = ls_path_join(NULL, dir, "monitor/supervise.json");
  json_t *json = path ? json_load_file(path, 0, NULL) : NULL, *lives = json_object_get(json, "lives");
  json_t *fault = json_object_get(json_array_get(lives, 0), "fault"), *rank = json_object_get(fault, "rank");
  json_t *first = json_object_get(json_array_get(lives, 1), "first_step_unix_s");
  const char *cause = json_string_value(json_object_get(fault, "cause")),
             *text = json_string_value(json_object_get(fault, "text"));
  const bool named =
      !json_is_integer(rank) || json_integer_value(rank) == o->rank || kind->whose != LS_INJECT_OWN;
  snprintf(o->text, sizeof o->text, "%s", text ? text : "");
  o->noticed_s = fault ? json_number_value(json_object_get(fault, "noticed_unix_s")) - struck_s : NAN;
  o->again_s = json_is_number(first) ? json_number_value(first) - struck_s : NAN;
  o->cause = named && is_cause(c, kind, once, cause, o);
  json_decref(json);
  ls_free(path);
}

/* ---- one run ---- */

/* After the first save, which may still be on its way to the disk, and before the last step. */
static void choose(const chaos_t *c, const ls_inject_kind_t *kind, int64_t seed, outcome_t *o) {
  const int64_t every = save_steps(c), first = 2 * every + 1, count = c->steps - 2 * every - first;
  const ls_rng4_t words = ls_rng((uint64_t)seed, (uint32_t)(kind - ls_inject_kinds), 0);
  const bool here = kind->whose != LS_INJECT_OWN && c->config->parallel.hosts.count > 0;
  o->seed = seed;
  o->rank = kind->first_rank || here ? 0 : (int)(words.v[0] % (uint32_t)c->config->parallel.ranks);
  o->step = first + (count > 0 ? (int64_t)(words.v[1] % (uint32_t)count) : 0);
}

static void strike(const chaos_t *c, const ls_inject_kind_t *kind, const char *dir, const char *config,
                   ls_arena_t *arena, outcome_t *o) {
  char hash[CHAOS_HASH_BYTES];
  const char *once = ls_arena_printf(arena, "%s.once", dir), *out = ls_arena_printf(arena, "%s.json", dir);
  const char *fault = ls_arena_printf(arena, "%s=%s %d %lld %s", LS_INJECT_ENVIRONMENT, kind->name, o->rank,
                                      (long long)o->step, once ? once : "");
  if (!once || !out || !fault) return;
  unlink(once); /* of an earlier run in a folder that was kept */
  ls_dir_remove(NULL, dir);
  o->exit_code = train(c, config, true, false, fault, out);
  o->struck = ls_path_exists(once);
  read_report(c, kind, dir, once, o);
  if (kind->ends && o->struck && !(c->stop && c->stop()))
    o->exit_code = train(c, config, true, true, fault, out);
  o->same = o->exit_code == 0 && hash_of(out, hash, NULL) && !strcmp(hash, c->hash);
}

ls_status_t chaos_one(const chaos_t *c, const ls_inject_kind_t *kind, int64_t seed, outcome_t *o) {
  ls_arena_t arena;
  char *config = NULL;
  ls_arena_init(&arena, c->ctx);
  *o = (outcome_t){.noticed_s = NAN, .again_s = NAN};
  choose(c, kind, seed, o);
  const char *dir = ls_arena_printf(&arena, "%s/%s-%lld", c->dir, kind->name, (long long)seed);
  ls_status_t status = dir ? write_config(c, dir, &config) : LS_ERR_MEMORY;
  if (status == LS_OK) {
    strike(c, kind, dir, config, &arena, o);
    if (!c->keep) ls_dir_remove(NULL, dir);
  }
  ls_free(config);
  ls_arena_release(&arena);
  return status;
}

ls_status_t chaos_reference(chaos_t *c) {
  char *dir = ls_path_join(c->ctx, c->dir, "undisturbed"),
       *out = ls_path_join(c->ctx, c->dir, "undisturbed.json"), *config = NULL;
  ls_status_t status = dir && out ? write_config(c, dir, &config) : LS_ERR_MEMORY;
  if (status == LS_OK && train(c, config, false, false, NULL, out) != 0) status = LS_ERR_CONFIG;
  if (status == LS_OK && !hash_of(out, c->hash, &c->steps)) status = LS_ERR_CONFIG;
  if (status == LS_OK && c->steps < 3 * SAVES)
    status = ls_fail(c->ctx, LS_ERR_CONFIG, "%lld steps are too few: chaos needs %d or more",
                     (long long)c->steps, 3 * SAVES);
  if (!c->keep && dir) ls_dir_remove(NULL, dir);
  ls_free(config);
  ls_free(out);
  ls_free(dir);
  return status;
}
