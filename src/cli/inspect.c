/* lockstep inspect: shows the meaning of a configuration before anything runs: parameters, work, exact bytes,
 * schedule. */
#include "cli/lowered.h"
#include "graph/pass/pass.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DRAW_WIDTH_MIN = 60, DRAW_WIDTH_DEFAULT = 100, DRAW_WIDTH_MAX = 1000 };

static int draw_width(void) {
  const char *columns = getenv("COLUMNS");
  long width = columns ? strtol(columns, NULL, 10) : DRAW_WIDTH_DEFAULT;
  return width < DRAW_WIDTH_MIN ? DRAW_WIDTH_MIN : width > DRAW_WIDTH_MAX ? DRAW_WIDTH_MAX : (int)width;
}

/* The layer of a parameter: its name up to the last dot. */
static size_t layer_len(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? (size_t)(dot - name) : strlen(name);
}

typedef struct {
  const char *name; /* not terminated: `len` bytes */
  size_t len;
  int64_t params, forward_flops;
  char shapes[128];
} layer_row_t;

static bool is_layer(const layer_row_t *row, const char *name, size_t len) {
  return row->len == len && strncmp(row->name, name, len) == 0;
}

/* A parameter as read by a node: in its own layer, or in one that shares it. */
static void add_param(layer_row_t *row, const ls_graph_tensor_t *t) {
  char text[LS_SHAPE_TEXT_BYTES];
  size_t used = strlen(row->shapes), left = sizeof row->shapes - used, len = layer_len(t->name);
  if (is_layer(row, t->name, len)) {
    snprintf(row->shapes + used, left, "%s%s%s", used ? " " : "", ls_shape_text(&t->shape, text) + 4,
             t->trainable ? "" : " frozen");
    row->params += ls_shape_count(&t->shape);
  } else if (!used) {
    snprintf(row->shapes, left, "those of %.*s", (int)len, t->name);
  }
}

/* Layers with parameters, and their forward work, in the order of the graph: a layer's nodes follow each
 * other and are called "LAYER op". */
static int collect_layers(const ls_graph_t *g, layer_row_t *rows, int capacity) {
  int count = 0;
  for (int i = 0; i < g->node_count; i++) {
    const ls_graph_node_t *node = &g->nodes[i];
    const char *space = strrchr(node->name, ' ');
    size_t len = space ? (size_t)(space - node->name) : 0;
    bool same = count > 0 && is_layer(&rows[count - 1], node->name, len);
    ls_shape_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
    if (node->phase != LS_PHASE_FORWARD) continue;
    for (int k = 0; k < node->in_count; k++) {
      const ls_graph_tensor_t *t = &g->tensors[node->in[k]];
      in[k] = t->shape;
      if (t->role != LS_ROLE_PARAM) continue;
      if (!same && count == capacity) return count;
      if (!same) rows[count++] = (layer_row_t){.name = node->name, .len = len};
      same = true;
      add_param(&rows[count - 1], t);
    }
    for (int k = 0; k < node->out_count; k++)
      out[k] = g->tensors[node->out[k]].shape;
    if (same) rows[count - 1].forward_flops += ls_op_flops(node->op, &node->attrs, in, out);
  }
  return count;
}

static json_t *fit_json(const ls_fit_t *fit) {
  json_t *j = json_object();
  for (int i = 0; i < fit->part_count; i++)
    json_object_set_new(j, fit->part[i].name, json_integer(fit->part[i].bytes));
  json_object_set_new(j, "total", json_integer(fit->device_total_bytes));
  json_object_set_new(j, "host_pinned", json_integer(fit->host_pinned_bytes));
  json_object_set_new(j, "activations_without_reuse", json_integer(fit->transient_unshared_bytes));
  return j;
}

/* Waits are places in the list of all members' tasks. */
static json_t *task_json(const ls_program_t *p, int member, int t) {
  const ls_schedule_t *s = p->member[member];
  const ls_task_t *task = &s->tasks[t];
  static const char *const kinds[] = {"op", "collective", "copy"};
  json_t *waits = json_array();
  for (int i = 0; i < task->wait_count; i++)
    json_array_append_new(waits, json_integer(ls_program_task(p, member, task->wait[i])));
  return json_pack("{s:s, s:s, s:i, s:s, s:s, s:I, s:I, s:o}", "name", task->name, "member",
                   s->name ? s->name : "whole", "times", p->times[member], "kind", kinds[task->kind], "lane",
                   ls_lane_name(task->lane), "flops", (json_int_t)task->flops, "bytes",
                   (json_int_t)task->bytes, "waits", waits);
}

static void print_json(const ls_config_t *config, const cli_lowered_t *lowered, const layer_row_t *rows,
                       int count) {
  const ls_graph_t *g = lowered->graph[0];
  json_t *layers = json_array(), *ranks = json_array(), *tasks = json_array();
  for (int i = 0; i < count; i++)
    json_array_append_new(layers, json_pack("{s:s%, s:s, s:I, s:I}", "name", rows[i].name, rows[i].len,
                                            "shapes", rows[i].shapes, "params", (json_int_t)rows[i].params,
                                            "forward_flops", (json_int_t)rows[i].forward_flops));
  for (int r = 0; r < lowered->world_size; r++) {
    ls_fit_t fit;
    ls_program_fit(&lowered->program[r], &fit);
    json_array_append_new(ranks, json_pack("{s:i, s:o}", "rank", r, "bytes", fit_json(&fit)));
  }
  for (int i = 0; i < lowered->program[0].count; i++)
    for (int t = 0; t < lowered->program[0].member[i]->task_count; t++)
      json_array_append_new(tasks, task_json(&lowered->program[0], i, t));
  json_t *j = json_pack("{s:s, s:I, s:i, s:s, s:s, s:I, s:o, s:o, s:o}", "command", "inspect", "params",
                        (json_int_t)ls_graph_param_count(g), "world_size", lowered->world_size, "strategy",
                        config->parallel.strategy, "backend", lowered->backend, "global_batch",
                        (json_int_t)config->train.batch, "layers", layers, "ranks", ranks, "schedule", tasks);
  json_t *passes = json_object();
  for (int i = 0; ls_graph_passes[i]; i++)
    if (g->pass_changes[i] > 0)
      json_object_set_new(passes, ls_graph_passes[i]->name, json_integer(g->pass_changes[i]));
  json_object_set_new(j, "passes", passes);
  int64_t micro = lowered->share.accumulate;
  json_object_set_new(j, "step_flops_per_rank",
                      json_pack("{s:I, s:I}", "forward",
                                (json_int_t)(micro * ls_graph_flops(g, LS_PHASE_FORWARD)), "backward",
                                (json_int_t)(micro * ls_graph_flops(g, LS_PHASE_BACKWARD))));
  cli_print_json(j);
}

static void print_fit(const cli_lowered_t *lowered) {
  ls_fit_t fit;
  ls_program_fit(&lowered->program[0], &fit);
  cli_print("\nbytes on rank 0 (exact; rank 0 has the largest share)\n");
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

static void print_people(const ls_config_t *config, const cli_lowered_t *lowered, const layer_row_t *rows,
                         int count) {
  const ls_graph_t *g = lowered->graph[0];
  cli_print("layers\n  %-16s %-32s %14s %18s\n", "name", "parameters' shapes", "parameters", "forward FLOPs");
  for (int i = 0; i < count; i++)
    cli_print("  %-16.*s %-32s %14s %18s\n", (int)rows[i].len, rows[i].name, rows[i].shapes,
              cli_count(rows[i].params), cli_count(rows[i].forward_flops));
  int64_t micro = lowered->share.accumulate;
  cli_print("  %-16s %-32s %14s\n", "total", "", cli_count(ls_graph_param_count(g)));
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

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  ls_config_t *config;
  cli_lowered_t lowered;
  ls_status_t status = cli_config_load_ranks(ctx, args, &config);
  if (status != LS_OK) return status;
  status = cli_lowered_create(ctx, config, 0, &lowered);
  if (status != LS_OK) goto config;
  layer_row_t *rows = ls_alloc_array(ctx, LS_LAYER_MAX, sizeof *rows);
  status = rows ? LS_OK : LS_ERR_MEMORY;
  if (rows) {
    int count = collect_layers(lowered.graph[0], rows, LS_LAYER_MAX);
    if (args->json)
      print_json(config, &lowered, rows, count);
    else
      print_people(config, &lowered, rows, count);
  }
  ls_free(rows);
  cli_lowered_release(&lowered);
config:
  ls_config_destroy(config);
  return status;
}

const cli_command_t cli_inspect = {
    .name = "inspect",
    .summary = "Shows parameters, FLOPs, exact bytes per rank and the schedule, without running anything.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_SET | CLI_FLAG_JSON | CLI_FLAG_RANKS | CLI_FLAG_VERBOSE,
    .run = run};
