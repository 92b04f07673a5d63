/* lockstep inspect: shows the meaning of a configuration before anything runs: parameters, work, exact bytes,
 * schedule. */
#include "cli/cli.h"
#include "graph/pass/pass.h"
#include "model/summary.h"
#include "plan/world.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRAW_WIDTH_MIN = 60, DRAW_WIDTH_DEFAULT = 100, DRAW_WIDTH_MAX = 1000 };

static int draw_width(void) {
  const char *columns = getenv("COLUMNS");
  long width = columns ? strtol(columns, NULL, 10) : DRAW_WIDTH_DEFAULT;
  return width < DRAW_WIDTH_MIN ? DRAW_WIDTH_MIN : width > DRAW_WIDTH_MAX ? DRAW_WIDTH_MAX : (int)width;
}

static void print_fit(const ls_plan_world_t *lowered) {
  ls_fit_t fit;
  ls_program_fit(&lowered->program[0], &fit);
  cli_print("\nbytes on rank 0 (%s; rank 0 has the largest share)\n",
            lowered->exact ? "exact" : "the data cannot be read: with samples of f32");
  for (int i = 0; i < fit.part_count; i++)
    cli_print("  %-14s %16s  %10s\n", fit.part[i].name, cli_count(fit.part[i].bytes),
              cli_bytes(fit.part[i].bytes));
  cli_print("  %-14s %16s  %10s\n", "total", cli_count(fit.device_total_bytes),
            cli_bytes(fit.device_total_bytes));
  if (fit.host_pinned_bytes > 0)
    cli_print("  %-14s %16s  %10s on the host\n", "pinned", cli_count(fit.host_pinned_bytes),
              cli_bytes(fit.host_pinned_bytes));
  cli_print("  activations share bytes: %s without reuse\n", cli_bytes(fit.transient_unshared_bytes));
}

static void print_passes(const ls_graph_t *g) {
  const char *before = "\npasses and the places that they changed: ";
  for (int i = 0; ls_graph_passes[i]; i++) {
    if (g->pass_changes[i] == 0) continue;
    cli_print("%s%s %d", before, ls_graph_passes[i]->name, g->pass_changes[i]);
    before = ", ";
  }
  if (*before == ',') cli_print("\n");
}

static double percent(int64_t part, int64_t whole) {
  return whole > 0 ? 100 * (double)part / (double)whole : 0;
}

/* Shares of what the layers have: the loss belongs to none. */
static void print_kinds(const ls_model_summary_t *rows) {
  int64_t params = 0, flops = 0;
  for (int i = 0; i < rows->kind_count; i++) {
    params += rows->kind[i].params;
    flops += rows->kind[i].forward_flops;
  }
  cli_print("\nkinds of layers\n  %-14s %6s %15s %7s %19s %7s\n", "kind", "layers", "parameters", "",
            "forward FLOPs", "");
  for (int i = 0; i < rows->kind_count; i++) {
    const ls_kind_summary_t *k = &rows->kind[i];
    cli_print("  %-14s %6d %15s %5.1f %% %19s %5.1f %%\n", k->kind, k->layers, cli_count(k->params),
              percent(k->params, params), cli_count(k->forward_flops), percent(k->forward_flops, flops));
  }
}

static void print_people(const ls_config_t *config, const ls_plan_world_t *lowered,
                         const ls_model_summary_t *rows) {
  const ls_graph_t *g = lowered->graph[0];
  int width = 12;
  for (int i = 0; i < rows->count; i++)
    if ((int)strlen(rows->layer[i].name) > width) width = (int)strlen(rows->layer[i].name);
  cli_print("layers\n  %-*s %-12s %-14s %13s %17s  %s\n", width, "name", "kind", "output", "parameters",
            "forward FLOPs", "parameters' shapes");
  for (int i = 0; i < rows->count; i++) {
    const ls_layer_summary_t *row = &rows->layer[i];
    cli_print("  %-*s %-12s %-14s %13s %17s%s%s\n", width, row->name, row->kind, row->output,
              cli_count(row->params), cli_count(row->forward_flops), row->shapes[0] ? "  " : "", row->shapes);
  }
  int64_t micro = lowered->share.micro_batches;
  cli_print("  %-*s %-12s %-14s %13s %17s\n", width, "total", "", "", cli_count(ls_graph_param_count(g)),
            cli_count(ls_graph_flops(g, LS_PHASE_FORWARD)));
  print_kinds(rows);
  cli_print("\nwork of one step on rank 0 (%lld of %lld samples, %lld micro-batch%s)\n  forward %s FLOPs, "
            "backward %s FLOPs\n",
            (long long)lowered->share.count, (long long)config->train.batch, (long long)micro,
            micro == 1 ? "" : "es", cli_count(micro * ls_graph_flops(g, LS_PHASE_FORWARD)),
            cli_count(micro * ls_graph_flops(g, LS_PHASE_BACKWARD)));
  print_passes(g);
  print_fit(lowered);
  cli_print("\nschedule: %s on %d rank%s, %s\n", config->parallel.strategy, lowered->world_size,
            LS_PLURAL(lowered->world_size), lowered->backend);
  char *drawing = ls_program_draw(&lowered->program[0], draw_width());
  if (drawing) cli_print("%s", drawing);
  ls_free(drawing);
}

static void print_options(const json_t *list) {
  json_t *row;
  size_t i, width = 0;
  json_array_foreach(list, i, row) {
    size_t len = json_string_length(json_object_get(row, "option"));
    width = len > width && len <= 40 ? len : width;
  }
  json_array_foreach(list, i, row) {
    char *text = json_dumps(json_object_get(row, "value"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
    cli_print("%-*s  %-24s  %s\n", (int)width, json_string_value(json_object_get(row, "option")),
              text ? text : "", json_string_value(json_object_get(row, "from")));
    free(text);
  }
}

static ls_status_t show_resolved(ls_ctx_t *ctx, const ls_config_t *config, bool as_json) {
  json_t *list = ls_config_resolved(config);
  if (!list) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the configuration's values");
  if (as_json) {
    cli_print_json(
        json_pack("{s:s, s:s?, s:o}", "command", "inspect", "env", config->doc.env, "resolved", list));
    return LS_OK;
  }
  print_options(list);
  json_decref(list);
  return LS_OK;
}

enum { EXTRA_RESOLVED };
static const cli_extra_t extras[] = {
    [EXTRA_RESOLVED] = {"--resolved", NULL,
                        "Show every option's value and where it comes from, and nothing else."},
    {NULL, NULL, NULL}};

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  ls_plan_world_t lowered;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  if (args->extra[EXTRA_RESOLVED]) {
    status = show_resolved(ctx, config, args->json);
    goto config;
  }
  status = ls_plan_world_create(ctx, config, NULL, &lowered);
  if (status != LS_OK) goto config;
  ls_model_summary_t layers;
  status = ls_model_summarise(ctx, &config->model, lowered.graph[0], &layers);
  if (status == LS_OK && args->json)
    cli_print_json(ls_plan_world_json(&lowered, config, &layers));
  else if (status == LS_OK)
    print_people(config, &lowered, &layers);
  ls_model_summary_release(&layers);
  ls_plan_world_release(&lowered);
config:
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {
    .name = "inspect",
    .place = 40,
    .summary = "Shows parameters, FLOPs, exact bytes per rank and the schedule, without running anything.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_VERBOSE,
    .extra = extras,
    .run = run};
CLI_COMMAND(command)
