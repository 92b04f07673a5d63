/* A strategy whose steps differ: each rank trains alone, and in every fourth step the parameters become the mean of all
 * ranks'. Steps between exchange nothing: their loss is that of the rank's own samples. */
#include "toy.h"

enum { EVERY = 4 };

static ls_status_t mean_shape(ls_ctx_t *ctx, const ls_attrs_t *attrs, const ls_shape_t *in, ls_shape_t *out) {
  (void)ctx, (void)attrs;
  out[0] = in[0];
  return LS_OK;
}

static ls_status_t mean(ls_stream_t *stream, const ls_kernel_args_t *args) {
  (void)stream;
  const float *sum = args->in[0].data;
  float *y = args->out[0].data;
  for (int64_t k = 0; k < ls_shape_count(&args->out[0].shape); k++)
    y[k] = sum[k] / (float)args->attrs->i[0];
  return LS_OK;
}

/* Sums over i[0] ranks. */
static const ls_op_t op_mean = {.name = "toy mean",
                                .class = LS_OP_ELEMENTWISE,
                                .in_count = 1,
                                .out_count = 1,
                                .shape = mean_shape,
                                .forward = mean,
                                .flops_each = 1,
                                .inplace = 1};

static ls_status_t average(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  ls_attrs_t attrs = {.i = {in->world_size}};
  ls_schedule_collective(s, "toy average", LS_GROUP_WORLD, LS_ALL_REDUCE, bucket->parameters,
                         bucket->parameters);
  ls_schedule_op(s, LS_LANE_COMPUTE, LS_PHASE_STEP_OPTIMIZER, "toy average", &op_mean, &attrs, 1,
                 &bucket->parameters, 1, &bucket->parameters);
  return s->status;
}

static int rule(const ls_program_t *p, int step, int m) {
  return ls_program_chain(p, step, m) + (m + 1 == p->micro_batches && step + 1 == p->period);
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  (void)placement;
  if (!in->optim || (!in->options.reproducible && in->options.wire == LS_F32)) return LS_OK;
  return ls_fail(ctx, LS_ERR_UNSUPPORTED, "strategy local: ranks have parameters of their own, of f32");
}

static ls_status_t lower(ls_ctx_t *ctx, const ls_lower_t *in, ls_program_t *program) {
  static const ls_placement_t averaging = {.bucket_bytes = INT64_MAX, .updated = average};
  ls_program_t p, other = {0};
  ls_status_t status = ls_lower_step(ctx, in, NULL, &p);
  if (status || !in->optim || in->world_size == 1) {
    if (!status) *program = p;
    return status;
  }
  status = ls_lower_step(ctx, in, &averaging, &other);
  if (!status) {
    p.member[p.count - 1]->name = "apart";
    p.member[p.count++] = other.member[--other.count];
    p.member[p.count - 1]->name = "average";
    p.period = EVERY;
    p.rule = rule;
    status = ls_program_finish(&p);
  }
  ls_program_release(&other);
  if (status)
    ls_program_release(&p);
  else
    *program = p;
  return status;
}

static const ls_strategy_t strategy = {.name = TOY_LOCAL,
                                       .help = "ranks train apart, with an average now and then",
                                       .distributed = true,
                                       .place = place,
                                       .lower = lower};

__attribute__((constructor)) static void add(void) {
  ls_strategy_register(&strategy);
}
