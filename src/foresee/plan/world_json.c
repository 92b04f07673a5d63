/* The document of lockstep inspect: layers, bytes of every rank, the tasks of rank 0's schedules. */
#include "plan/world.h"

#include "graph/pass/pass.h"

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

json_t *ls_plan_world_json(const ls_plan_world_t *lowered, const ls_config_t *config,
                           const ls_model_summary_t *rows) {
  const ls_graph_t *g = lowered->graph[0];
  json_t *layers = json_array(), *ranks = json_array(), *tasks = json_array();
  for (int i = 0; i < rows->count; i++) {
    const ls_layer_summary_t *row = &rows->layer[i];
    json_array_append_new(layers, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I}", "name", row->name, "kind",
                                            row->kind, "output", row->output, "shapes", row->shapes, "params",
                                            (json_int_t)row->params, "forward_flops",
                                            (json_int_t)row->forward_flops));
  }
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
  json_t *kinds = json_array();
  for (int i = 0; i < rows->kind_count; i++)
    json_array_append_new(kinds, json_pack("{s:s, s:i, s:I, s:I}", "kind", rows->kind[i].kind, "layers",
                                           rows->kind[i].layers, "params", (json_int_t)rows->kind[i].params,
                                           "forward_flops", (json_int_t)rows->kind[i].forward_flops));
  json_object_set_new(j, "kinds", kinds);
  int64_t micro = lowered->share.micro_batches;
  json_object_set_new(j, "step_flops_per_rank",
                      json_pack("{s:I, s:I}", "forward",
                                (json_int_t)(micro * ls_graph_flops(g, LS_PHASE_FORWARD)), "backward",
                                (json_int_t)(micro * ls_graph_flops(g, LS_PHASE_BACKWARD))));
  return j;
}
