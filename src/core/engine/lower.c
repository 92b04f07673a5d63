/* A kind of step becomes a program, without a device: a pipeline of stages. */
#include "engine/engine.h"

#include "graph/pass/pass.h"

#include <string.h>

static const struct {
  bool training;
  bool data; /* samples are taken from the device where they are there */
  int input_slots;
} kinds[LS_STEP_KINDS] = {[LS_STEP_TRAIN] = {true, true, LS_ENGINE_SLOTS},
                          [LS_STEP_EVALUATE] = {false, true, 1},
                          [LS_STEP_PREDICT] = {false, false, 1}};

static bool has_kernel(const void *of, const char *op, ls_dtype_t low) {
  const ls_backend_t *backend = of;
  const ls_device_ops_t *device = backend->device;
  bool serves = device && (low == LS_F32 || backend->plain_c || (device->low && device->low(NULL, op, low)));
  return serves && device->kernel && device->kernel(NULL, op);
}

/* A step on its way to a program. Every stage reads what the stages before it have made. */
typedef struct {
  ls_ctx_t *ctx;
  const ls_step_spec_t *spec;
  bool training;
  int micro_batches;
  ls_step_t step;        /* model: rows and graph; strategy: the program */
  ls_optim_rule_t optim; /* optimizer; precision: scales of the loss */
  ls_dtype_t low;        /* precision: of products */
  ls_state_table_t *own; /* placement: if the caller gave no table */
  ls_lower_t in;         /* placement */
} lowering_t;

static ls_status_t make_model(lowering_t *l) {
  return l->spec->step.build(l->ctx, l->spec->step.of, l->spec->kind, l->step.rows, &l->step.graph);
}

static ls_status_t make_rule(lowering_t *l) {
  ls_optim_rule(l->spec->step.optimizer, l->spec->step.clip_norm, &l->optim);
  l->optim.masks = l->spec->step.masks;
  return LS_OK;
}

static ls_status_t set_precision(lowering_t *l) {
  l->low = ls_math_low(l->spec->step.math);
  if (l->low == LS_F16) l->optim.control_attrs.i[0] = LS_SCALE_STEPS;
  return LS_OK;
}

static ls_status_t run_passes(lowering_t *l) {
  const ls_pass_context_t passes = {
      .has = has_kernel, .backend = l->spec->backend, .low = l->low, .fuse = l->spec->step.fuse};
  return ls_graph_run_passes(l->step.graph, &passes);
}

/* Declares the rows of the state. */
static ls_status_t place(lowering_t *l) {
  const ls_step_spec_t *spec = l->spec;
  ls_status_t status =
      spec->table ? LS_OK
                  : ls_state_table_create(l->ctx, l->step.graph,
                                          spec->step.strategy->shards ? spec->world_size : 1, &l->own);
  if (status != LS_OK) return status;
  l->in = (ls_lower_t){.graph = l->step.graph,
                       .state = spec->table ? spec->table : l->own,
                       .optim = l->training ? &l->optim : NULL,
                       .mean = true,
                       .rank = spec->rank,
                       .world_size = spec->world_size,
                       .micro_batches = l->training ? l->micro_batches : 1,
                       .input_slots = kinds[spec->kind].input_slots,
                       .copies = !spec->backend->host_memory,
                       .widens = spec->backend->host_memory,
                       .data_rows = kinds[spec->kind].data ? spec->data_rows : 0,
                       .options = l->spec->step.options};
  ls_strategy_settle(&l->in.options, spec->backend);
  return ls_strategy_declare(l->ctx, l->spec->step.strategy, &l->in);
}

static ls_status_t lower(lowering_t *l) {
  ls_status_t status = ls_strategy_lower(l->ctx, l->spec->step.strategy, &l->in, &l->step.program);
  l->step.program.graph_bytes = ls_arena_bytes(&l->step.graph->arena);
  return status;
}

typedef ls_status_t (*stage_t)(lowering_t *l);
static const stage_t stages[] = {make_model, make_rule, set_precision, run_passes, place, lower, NULL};

/* Runs the stages before `end`; *l is to be released. */
static ls_status_t run_stages(ls_ctx_t *ctx, const ls_step_spec_t *spec, stage_t end, lowering_t *l) {
  ls_engine_share_t share;
  ls_engine_share(spec->step.batching, spec->rank, spec->world_size, &share);
  *l = (lowering_t){.ctx = ctx,
                    .spec = spec,
                    .training = kinds[spec->kind].training,
                    .micro_batches = share.micro_batches,
                    .step.rows = spec->rows > 0 ? spec->rows : share.rows};
  ls_status_t status = LS_OK;
  for (const stage_t *stage = stages; *stage != end && status == LS_OK; stage++)
    status = (*stage)(l);
  return status;
}

ls_status_t ls_step_declare(ls_ctx_t *ctx, const ls_step_spec_t *spec, ls_state_table_t **table) {
  lowering_t l;
  ls_status_t status = run_stages(ctx, spec, lower, &l);
  ls_graph_destroy(l.step.graph);
  if (status == LS_OK)
    *table = l.own;
  else
    ls_state_table_release(l.own);
  return status;
}

ls_status_t ls_step_lower(ls_ctx_t *ctx, const ls_step_spec_t *spec, ls_step_t *step) {
  lowering_t l;
  ls_status_t status = run_stages(ctx, spec, NULL, &l);
  ls_state_table_release(l.own);
  if (status == LS_OK)
    *step = l.step;
  else
    ls_graph_destroy(l.step.graph);
  return status;
}

void ls_step_release(ls_step_t *step) {
  ls_run_destroy(step->run);
  ls_program_release(&step->program);
  ls_graph_destroy(step->graph);
  memset(step, 0, sizeof *step);
}
