/* lockstep chaos: faults on purpose in supervised runs (src/live/chaos). */
#include "chaos/chaos.h"
#include "cli/cli.h"
#include "cli/stop.h"

#include <math.h>

enum { SEEDS_MAX = 10000 };
enum { KINDS, SEEDS, FIRST_SEED, KEEP };
static const cli_extra_t extra[] = {
    {"--kinds", "NAMES", "Kinds of faults, separated by commas (default: all that fit; docs/chaos.md)."},
    {"--seeds", "N", "Runs of each kind (default: 10).", CLI_NUMBER(1, SEEDS_MAX, 10)},
    {"--first-seed", "N", "The first seed (default: 1): a run is repeated by its kind and seed.",
     CLI_NUMBER(0, INT32_MAX, 1)},
    {"--keep", "DIR", "Keep what the runs wrote in this folder: DIR/KIND-SEED."},
    {NULL, NULL, NULL}};

static void begin(void *user, int64_t steps) {
  const ls_chaos_t *chaos = user;
  const int64_t ranks = chaos->config->parallel.ranks;
  printf("%lld steps on %lld rank%s; times in seconds after the fault: median and longest\n\n%-13s %5s %6s "
         "%6s   %17s   %17s\n",
         (long long)steps, (long long)ranks, LS_PLURAL(ranks), "fault", "runs", "bits", "named", "noticed",
         "first new step");
}

static void row(void *user, const ls_chaos_row_t *r) {
  const double times[] = {r->noticed_s[0], r->noticed_s[1], r->again_s[0], r->again_s[1]};
  (void)user;
  printf("%-13s %5d %6d %6d", r->kind->name, r->runs, r->same, r->named);
  for (int i = 0; i < LS_COUNT(times); i++) {
    printf("%*s", i % 2 ? 1 : 3, "");
    isnan(times[i]) ? printf("%8s", "-") : printf("%8.3f", times[i]);
  }
  printf("   %s\n", r->kind->help);
  fflush(stdout);
}

static ls_status_t publish(ls_ctx_t *ctx, const cli_args_t *args, json_t *document) {
  const int runs = (int)json_integer_value(json_object_get(document, "runs")),
            right = (int)json_integer_value(json_object_get(document, "right"));
  if (args->json) {
    cli_print_json(document);
  } else {
    printf("\n%d of %d runs came out right\n", right, runs);
    json_decref(document);
  }
  return right == runs
             ? LS_OK
             : ls_fail(ctx, LS_ERR_BELOW, "%d of %d runs did not come out as they must", runs - right, runs);
}

static ls_status_t run_in(ls_ctx_t *ctx, const cli_args_t *args, ls_chaos_t *chaos) {
  const char *keep = args->extra[KEEP];
  json_t *document = NULL;
  char *dir = NULL;
  ls_status_t status = keep ? LS_OK : ls_dir_temporary(ctx, "lockstep-chaos", &dir);
  if (keep) status = (dir = ls_path_absolute(ctx, keep)) ? ls_dir_make(ctx, dir) : LS_ERR_MEMORY;
  chaos->dir = dir;
  if (status == LS_OK) {
    cli_stop_t mode = cli_stop_mode(CLI_STOP_ASK);
    status = ls_chaos_run(ctx, chaos, &document);
    cli_stop_mode(mode);
  }
  if (dir && !keep) ls_dir_remove(NULL, dir);
  ls_free(dir);
  if (status == LS_ERR_INTERRUPTED)
    return ls_fail(ctx, status, "interrupted by %s", cli_stop_name(cli_stop_requested()));
  return status == LS_OK ? publish(ctx, args, document) : status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  ls_chaos_t chaos = {.config = config,
                      .name = args->config,
                      .kinds = args->extra[KINDS],
                      .seeds = args->whole[SEEDS],
                      .first_seed = args->whole[FIRST_SEED],
                      .keep = args->extra[KEEP] != NULL,
                      .stop = cli_stop_requested,
                      .begin = args->json ? NULL : begin,
                      .row = args->json ? NULL : row};
  chaos.user = &chaos;
  status = ls_chaos_check(ctx, &chaos);
  if (status == LS_OK) status = run_in(ctx, args, &chaos);
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
