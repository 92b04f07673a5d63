/* lockstep chaos: makes every fault of supervise/inject.h happen to a supervised run of this configuration, at ranks and
 * steps that a seed chooses, and compares what comes out with an undisturbed run. */
#include "cli/cli.h"
#include "cli/stop.h"
#include "stat/stat.h"
#include "supervise/inject.h"
#include "supervise/supervise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS, SEEDS, FIRST_SEED, KEEP };
enum { SEEDS_MAX = 10000 };
static const cli_extra_t extra[] = {
    {"--kinds", "NAMES", "Kinds of faults, separated by commas (default: all that fit; docs/chaos.md)."},
    {"--seeds", "N", "Runs of each kind (default: 10).", CLI_NUMBER(1, SEEDS_MAX, 10)},
    {"--first-seed", "N", "The first seed (default: 1): a run is repeated by its kind and seed.",
     CLI_NUMBER(0, INT32_MAX, 1)},
    {"--keep", "DIR", "Keep what the runs wrote in this folder: DIR/KIND-SEED."},
    {NULL, NULL, NULL}};

enum { SAVES = 10, KEPT = 2, HASH_BYTES = 64, TEXT_BYTES = 256 };

/* One run, as it came out. */
typedef struct {
  int rank;
  int64_t step;
  bool struck, same,
      cause; /* the fault came; the bits are the undisturbed run's; the supervisor named it and its rank */
  double noticed_s, again_s; /* after the fault; NAN = does not apply */
  int exit_code;
  char text[TEXT_BYTES]; /* what the supervisor said */
} outcome_t;

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  const ls_config_t *config;
  char *dir; /* of all runs */
  char hash[HASH_BYTES];
  int64_t steps, seed;
  json_t *rows;
  int runs, right;
} chaos_t;

static char *printed(const char *fmt, ...) LS_PRINTF(1, 2);
static char *printed(const char *fmt, ...) {
  char text[8192];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return ls_strdup(NULL, text);
}

/* ---- one training ---- */

/* train CONFIG in DIR; its exit code. fault NULL: none. */
static int train(chaos_t *c, const char *dir, bool supervised, bool resume, const char *fault,
                 const char *out) {
  char saves[96], where[4200], shows[4200], replicas[96], ranks[24];
  char *said = ls_alloc(c->ctx, 65536);
  const char *argv[64 + 2 * CLI_SETS_MAX], *environment[] = {fault ? fault : LS_INJECT_ENVIRONMENT, NULL};
  const int64_t every = c->steps / SAVES > 0 ? c->steps / SAVES : 1;
  int n = 0;
  ls_child_end_t end = {.code = 1};
  snprintf(where, sizeof where, "train.checkpoint.dir=%s", dir);
  snprintf(shows, sizeof shows, "monitor.dir=%s/monitor", dir);
  snprintf(saves, sizeof saves, "train.checkpoint.every_steps=%lld", (long long)every);
  snprintf(replicas, sizeof replicas, "train.replica_steps=%lld", (long long)(every + 1) / 2);
  snprintf(ranks, sizeof ranks, "%d", (int)c->config->parallel.ranks);
  const char *const fixed[] = {"lockstep", "train", c->args->config, "--quiet", "--json", "--ranks", ranks};
  for (int i = 0; i < LS_COUNT(fixed); i++)
    argv[n++] = fixed[i];
  for (int i = 0; i < c->args->set_count; i++) {
    argv[n++] = "--set";
    argv[n++] = c->args->sets[i];
  }
  const char *keep = c->config->checkpoint.keep < KEPT ? "train.checkpoint.keep=2" : NULL;
  const char *const sets[] = {where, shows, keep, c->steps ? saves : NULL, c->steps ? replicas : NULL};
  for (int i = 0; i < LS_COUNT(sets); i++)
    if (sets[i]) {
      argv[n++] = "--set";
      argv[n++] = sets[i];
    }
  if (c->args->data_root) {
    argv[n++] = "--data-root";
    argv[n++] = c->args->data_root;
  }
  if (c->args->env) {
    argv[n++] = "--env";
    argv[n++] = c->args->env;
  }
  if (supervised) argv[n++] = "--supervise";
  if (resume) argv[n++] = "--resume";
  argv[n] = NULL;
  ls_child_spec_t spec = {.argv = argv,
                          .self = true,
                          .environment = environment,
                          .grace_s = 10,
                          .said = said,
                          .said_bytes = said ? 65536 : 0};
  spec.stream[STDOUT_FILENO].file = out;
  cli_stop_run(&spec, &end);
  if (!supervised && (end.code || end.signal) && said) {
    char reason[LS_CHILD_WORDS_BYTES];
    ls_child_reason(&end, said, reason);
    ls_fail(c->ctx, LS_ERR_CONFIG, "the undisturbed run failed: %s", reason);
  }
  ls_free(said);
  return end.signal ? 128 + end.signal : end.code;
}

/* The member of a report; false without one. */
static bool hash_of(const char *path, char hash[HASH_BYTES], int64_t *steps) {
  json_t *json = json_load_file(path, 0, NULL);
  const char *text = json_string_value(json_object_get(json, "params_xxh3"));
  snprintf(hash, HASH_BYTES, "%s", text ? text : "");
  if (steps) *steps = json_integer_value(json_object_get(json, "total_steps"));
  json_decref(json);
  return hash[0] != '\0';
}

/* ---- one fault ---- */

static double number_in(const char *path) {
  double value = NAN;
  FILE *file = fopen(path, "re");
  if (file && fscanf(file, "%lf", &value) != 1) value = NAN;
  if (file) fclose(file);
  return value;
}

/* Whether the supervisor named the cause. A supervisor that was killed says nothing; a request to end that the ranks heard
 * when they would agree on it only behind the last step comes to nothing. */
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
  char *path = printed("%s/monitor/supervise.json", dir);
  json_t *json = path ? json_load_file(path, 0, NULL) : NULL, *lives = json_object_get(json, "lives");
  json_t *fault = json_object_get(json_array_get(lives, 0), "fault"), *next = json_array_get(lives, 1);
  const char *cause = json_string_value(json_object_get(fault, "cause")),
             *text = json_string_value(json_object_get(fault, "text"));
  json_t *rank = json_object_get(fault, "rank");
  bool named = !json_is_integer(rank) || json_integer_value(rank) == o->rank || kind->whose != LS_INJECT_OWN;
  snprintf(o->text, sizeof o->text, "%s", text ? text : "");
  o->noticed_s = fault ? json_number_value(json_object_get(fault, "noticed_unix_s")) - struck_s : NAN;
  json_t *first = json_object_get(next, "first_step_unix_s");
  o->again_s = json_is_number(first) ? json_number_value(first) - struck_s : NAN;
  o->cause = named && is_cause(c, kind, once, cause, o);
  json_decref(json);
  ls_free(path);
}

static void choose(const chaos_t *c, const ls_inject_kind_t *kind, int64_t seed, outcome_t *o) {
  const int64_t every = c->steps / SAVES > 0 ? c->steps / SAVES : 1;
  ls_rng4_t words = ls_rng((uint64_t)seed, (uint32_t)(kind - ls_inject_kinds), 0);
  const bool here = kind->whose != LS_INJECT_OWN && c->config->parallel.hosts.count > 0;
  o->rank = kind->first_rank || here ? 0 : (int)(words.v[0] % (uint32_t)c->config->parallel.ranks);
  /* behind the first save, which may still be on its way to the disk, and before the last step */
  int64_t first = 2 * every + 1, count = c->steps - 2 * every - first;
  o->step = first + (count > 0 ? (int64_t)(words.v[1] % (uint32_t)count) : 0);
}

static ls_status_t one_run(chaos_t *c, const ls_inject_kind_t *kind, int64_t seed, outcome_t *o) {
  char *dir = printed("%s/%s-%lld", c->dir, kind->name, (long long)seed), *once = printed("%s.once", dir),
       *out = printed("%s.json", dir), hash[HASH_BYTES];
  *o = (outcome_t){.noticed_s = NAN, .again_s = NAN};
  choose(c, kind, seed, o);
  char *fault =
      printed("%s=%s %d %lld %s", LS_INJECT_ENVIRONMENT, kind->name, o->rank, (long long)o->step, once);
  ls_status_t status = dir && once && out && fault ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK) {
    unlink(once); /* of an earlier run in a folder that was kept */
    ls_dir_remove(NULL, dir);
    o->exit_code = train(c, dir, true, false, fault, out);
    o->struck = ls_path_exists(once);
    read_report(c, kind, dir, once, o);
    if (kind->ends && o->struck && !cli_stop_requested())
      o->exit_code = train(c, dir, true, true, fault, out);
    o->same = o->exit_code == 0 && hash_of(out, hash, NULL) && !strcmp(hash, c->hash);
    if (!c->args->extra[KEEP]) ls_dir_remove(NULL, dir);
  }
  ls_free(fault);
  ls_free(out);
  ls_free(once);
  ls_free(dir);
  return status;
}

/* ---- all runs ---- */

static void median_and_most(double *values, int count, double *median, double *most) {
  *median = *most = NAN;
  if (count == 0) return;
  ls_stat_sort(values, count);
  *median = ls_stat_quantile(values, count, 0.5);
  *most = values[count - 1];
}

static const char *seconds(double value, char text[16]) {
  snprintf(text, 16, isnan(value) ? "-" : "%.3f", value);
  return text;
}

static ls_status_t one_kind(chaos_t *c, const ls_inject_kind_t *kind, int64_t seeds) {
  double *noticed = ls_alloc_array(c->ctx, (size_t)seeds, sizeof *noticed),
         *again = ls_alloc_array(c->ctx, (size_t)seeds, sizeof *again);
  ls_status_t status = noticed && again ? LS_OK : LS_ERR_MEMORY;
  int noticed_count = 0, again_count = 0, same = 0, named = 0, runs = 0;
  json_t *list = json_array();
  for (int64_t i = 0; i < seeds && status == LS_OK && !cli_stop_requested(); i++) {
    outcome_t o;
    status = one_run(c, kind, c->seed + i, &o);
    if (status != LS_OK || cli_stop_requested()) break;
    bool right = o.struck && o.same && o.cause;
    runs++;
    same += o.same;
    named += o.cause && o.struck;
    c->right += right;
    if (!isnan(o.noticed_s)) noticed[noticed_count++] = o.noticed_s;
    if (!isnan(o.again_s)) again[again_count++] = o.again_s;
    if (!right)
      ls_log(c->ctx, LS_LOG_WARN, "%s, seed %lld (rank %d, after step %lld): %s: exit code %d: %s",
             kind->name, (long long)(c->seed + i), o.rank, (long long)o.step,
             !o.struck                  ? "the fault did not come"
             : !o.same                  ? "other bits than the undisturbed run's"
             : o.text[0] || !kind->ends ? "another cause was named"
                                        : "the request to end changed nothing",
             o.exit_code, o.text);
    json_array_append_new(list,
                          json_pack("{s:I, s:i, s:I, s:b, s:b, s:b, s:i, s:o, s:o, s:o}", "seed",
                                    (json_int_t)(c->seed + i), "rank", o.rank, "step", (json_int_t)o.step,
                                    "struck", o.struck, "same_bits", o.same, "cause_named", o.cause,
                                    "exit_code", o.exit_code, "noticed_s", ls_json_number(o.noticed_s),
                                    "first_step_s", ls_json_number(o.again_s), "text", ls_json_text(o.text)));
  }
  c->runs += runs;
  double median, most, again_median, again_most;
  median_and_most(noticed, noticed_count, &median, &most);
  median_and_most(again, again_count, &again_median, &again_most);
  if (runs > 0 && !c->args->json) {
    char a[16], b[16], d[16], e[16];
    printf("%-13s %5d %6d %6d   %8s %8s   %8s %8s   %s\n", kind->name, runs, same, named, seconds(median, a),
           seconds(most, b), seconds(again_median, d), seconds(again_most, e), kind->help);
    fflush(stdout);
  }
  json_array_append_new(c->rows, json_pack("{s:s, s:i, s:i, s:i, s:o}", "kind", kind->name, "runs", runs,
                                           "same_bits", same, "cause_named", named, "outcomes", list));
  ls_free(noticed);
  ls_free(again);
  return status;
}

/* ---- the command ---- */

/* What the run lacks for this fault to happen to it; NULL: nothing. */
static const char *lacks(const ls_inject_kind_t *kind, const ls_parallel_config_t *parallel) {
  const ls_hosts_config_t *hosts = &parallel->hosts;
  if (parallel->ranks == 1 && (kind->whose == LS_INJECT_MPIRUN || kind->whose == LS_INJECT_LAUNCHER ||
                               kind->how == LS_INJECT_FLIP || kind->how == LS_INJECT_SLOW))
    return "several ranks (--ranks)";
  if (kind->how == LS_INJECT_HOST && hosts->count < 2) return "several hosts (parallel.hosts)";
  if (hosts->count > 0 && kind->whose != LS_INJECT_OWN && !ls_hosts_is_here(hosts->host[0].name))
    return "this host as the first of parallel.hosts";
  return NULL;
}

static bool is_named(const char *names, const ls_inject_kind_t *kind) {
  const size_t len = strlen(kind->name);
  for (const char *at = names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    if (!strncmp(at, kind->name, len) && (at[len] == ',' || at[len] == '\0')) return true;
  return false;
}

static bool wanted(const char *names, const ls_inject_kind_t *kind, const ls_parallel_config_t *parallel) {
  return names ? is_named(names, kind) : !lacks(kind, parallel);
}

static ls_status_t check_kinds(ls_ctx_t *ctx, const char *names, const ls_parallel_config_t *parallel) {
  for (int i = 0; i < LS_INJECT_KINDS; i++) {
    const ls_inject_kind_t *kind = &ls_inject_kinds[i];
    if (is_named(names, kind) && lacks(kind, parallel))
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--kinds: %s needs %s", kind->name, lacks(kind, parallel));
  }
  return LS_OK;
}

static ls_status_t check_names(ls_ctx_t *ctx, const char *names) {
  char copy[512];
  snprintf(copy, sizeof copy, "%s", names ? names : "kill");
  for (char *rest = copy, *name; (name = strsep(&rest, ","));)
    if (!ls_inject_find(name)) {
      char all[512] = "";
      for (int i = 0; i < LS_INJECT_KINDS; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", ls_inject_kinds[i].name);
      return ls_fail(ctx, LS_ERR_ARGUMENT, "--kinds: there is no fault \"%s\"; there are %s", name, all);
    }
  return LS_OK;
}

/* The undisturbed run, which says how many steps there are and which bits are right. */
static ls_status_t reference(chaos_t *c) {
  char *dir = printed("%s/undisturbed", c->dir), *out = printed("%s/undisturbed.json", c->dir);
  ls_status_t status = dir && out ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK && train(c, dir, false, false, NULL, out) != 0) status = LS_ERR_CONFIG;
  if (status == LS_OK && !hash_of(out, c->hash, &c->steps)) status = LS_ERR_CONFIG;
  if (status == LS_OK && c->steps < 3 * SAVES)
    status = ls_fail(c->ctx, LS_ERR_CONFIG, "%lld steps are too few: chaos needs %d or more",
                     (long long)c->steps, 3 * SAVES);
  if (!c->args->extra[KEEP] && dir) ls_dir_remove(NULL, dir);
  ls_free(out);
  ls_free(dir);
  return status;
}

static ls_status_t all_kinds(chaos_t *c, int64_t seeds) {
  ls_status_t status = reference(c);
  if (status == LS_OK && !c->args->json)
    printf("%lld steps on %lld rank%s; times in seconds after the fault: median and longest\n\n%-13s %5s %6s "
           "%6s   %17s   %17s\n",
           (long long)c->steps, (long long)c->config->parallel.ranks, LS_PLURAL(c->config->parallel.ranks),
           "fault", "runs", "bits", "named", "noticed", "first new step");
  for (int i = 0; i < LS_INJECT_KINDS && status == LS_OK && !cli_stop_requested(); i++)
    if (wanted(c->args->extra[KINDS], &ls_inject_kinds[i], &c->config->parallel))
      status = one_kind(c, &ls_inject_kinds[i], seeds);
  if (cli_stop_requested())
    return ls_fail(c->ctx, LS_ERR_INTERRUPTED, "interrupted by %s", cli_stop_name(cli_stop_requested()));
  if (status != LS_OK) return status;
  if (c->args->json)
    cli_print_json(json_pack("{s:s, s:s, s:I, s:I, s:i, s:i, s:O}", "command", "chaos", "config",
                             c->args->config, "ranks", (json_int_t)c->config->parallel.ranks, "steps",
                             (json_int_t)c->steps, "runs", c->runs, "right", c->right, "kinds", c->rows));
  else
    printf("\n%d of %d runs came out right\n", c->right, c->runs);
  return c->right == c->runs ? LS_OK
                             : ls_fail(c->ctx, LS_ERR_BELOW, "%d of %d runs did not come out as they must",
                                       c->runs - c->right, c->runs);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  chaos_t c = {.ctx = ctx, .args = args, .seed = args->whole[FIRST_SEED]};
  ls_config_t *config;
  ls_status_t status = check_names(ctx, args->extra[KINDS]);
  if (status == LS_OK) status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  c.config = config;
  c.rows = json_array();
  cli_stop_t mode = cli_stop_mode(CLI_STOP_ASK);
  if (config->parallel.automatic)
    status = ls_fail(ctx, LS_ERR_CONFIG,
                     "chaos needs a strategy that stays the same: run lockstep plan, and write its choice");
  else
    status = check_kinds(ctx, args->extra[KINDS], &config->parallel);
  if (status == LS_OK && args->extra[KEEP])
    status = (c.dir = ls_path_absolute(ctx, args->extra[KEEP])) ? ls_dir_make(ctx, c.dir) : LS_ERR_MEMORY;
  else if (status == LS_OK)
    status = ls_dir_temporary(ctx, "lockstep-chaos", &c.dir);
  if (status == LS_OK) status = all_kinds(&c, args->whole[SEEDS]);
  if (c.dir && !args->extra[KEEP]) ls_dir_remove(NULL, c.dir);
  cli_stop_mode(mode);
  json_decref(c.rows);
  ls_free(c.dir);
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {
    .name = "chaos",
    .place = 75,
    .summary =
        "Makes faults happen to supervised runs of a configuration, and says whether each came out right.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
