/* The update ops, driven as a step drives them (sumsq, step_control, update): against PyTorch for a few
 * steps, against the papers' formulas in f64 for many, and through steps that must be skipped. */
#include "graph/run_op.h"
#include "optim/optim.h"

#include <math.h>

#include "unit.h"

enum { COUNT_MAX = 37 };

typedef struct {
  ls_optim_rule_t plan;
  int count;
  float param[COUNT_MAX], slot[LS_OPTIM_SLOT_MAX][COUNT_MAX], counter[16], stats[16];
} trainer_t;

static trainer_t trainer_make(const ls_optim_config_t *config, double clip_norm, int count,
                              const float *param) {
  trainer_t t = {.count = count};
  ls_optim_rule(config, clip_norm, &t.plan);
  memcpy(t.param, param, (size_t)count * sizeof *param);
  return t;
}

static void trainer_step(trainer_t *t, float *grad, float loss, double lr) {
  float partial, ctrl[16], head[16] = {loss};
  ls_step_params_t step = {.lr = (float)lr};
  ls_tensor_t sumsq_in = F32(grad, t->count), sumsq_out = OUT(&partial);
  assert_int_equal(run_op(&ls_op_sumsq, NULL, &sumsq_in, &sumsq_out), LS_OK);
  ls_tensor_t control_in[] = {F32(head, 16), F32(&partial, 1), {&step, LS_SHAPE(LS_U8, 64)}};
  ls_tensor_t control_out[] = {OUT(ctrl), OUT(t->stats), OUT(t->counter)};
  assert_int_equal(run_op(&ls_op_step_control, &t->plan.control_attrs, control_in, control_out), LS_OK);
  ls_tensor_t in[] = {F32(grad, t->count), F32(ctrl, 16)};
  ls_tensor_t out[] = {OUT(t->param), OUT(t->slot[0]), OUT(t->slot[1])};
  assert_int_equal(t->plan.update->out_count, 1 + t->plan.slot_count);
  assert_int_equal(run_op(t->plan.update, &t->plan.group[0].attrs, in, out), LS_OK);
}

typedef struct {
  const char *name;
  ls_optim_config_t config;
  double clip_norm, tolerance;
  double want[3][4];
} row_t;

/* torch.optim.SGD, Adam, AdamW and torch.nn.utils.clip_grad_norm_ of PyTorch 1.13, f32, from these parameters
 * with these gradients. PyTorch's clip divides by norm + 1e-6, hence that row's tolerance. */
static const float start[4] = {1, -0.5f, 0.25f, 2};
static const float gradients[3][4] = {
    {0.1f, -0.2f, 0.3f, 1}, {0.05f, 0.4f, -0.3f, -2}, {-0.1f, 0.1f, 0.2f, 0.5f}};
#define BETAS .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
static const row_t rows[] = {
    {"sgd",
     {.name = LS_OPTIM_SGD, .lr = 0.1},
     0,
     2e-7,
     {{0.99000001, -0.479999989, 0.219999999, 1.89999998},
      {0.985000014, -0.519999981, 0.25, 2.0999999},
      {0.995000005, -0.529999971, 0.230000004, 2.04999995}}},
    {"sgd, decay",
     {.name = LS_OPTIM_SGD, .lr = 0.1, .weight_decay = 0.01},
     0,
     2e-7,
     {{0.989000022, -0.479499996, 0.219750002, 1.898},
      {0.983011007, -0.519020498, 0.249530256, 2.096102},
      {0.992027998, -0.528501451, 0.229280725, 2.04400587}}},
    {"momentum, decay",
     {.name = LS_OPTIM_SGD, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
     0,
     2e-7,
     {{0.989000022, -0.479499996, 0.219750002, 1.898},
      {0.973111033, -0.500570476, 0.222305253, 2.00430202},
      {0.967837811, -0.529033363, 0.204382673, 2.04796958}}},
    {"nesterov",
     {.name = LS_OPTIM_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true},
     0,
     2e-7,
     {{0.981000006, -0.462000012, 0.193000004, 1.80999994},
      {0.963400006, -0.521800041, 0.225700006, 2.10899997},
      {0.971059978, -0.558620036, 0.19013001, 2.10310006}}},
    {"adam, decay",
     {.name = LS_OPTIM_ADAM, .lr = 0.01, .weight_decay = 0.01, BETAS},
     0,
     2e-7,
     {{0.99000001, -0.49000001, 0.239999995, 1.99000001},
      {0.980555892, -0.493521154, 0.240444645, 1.99354875},
      {0.9783687, -0.497517914, 0.238002971, 1.99476707}}},
    {"adamw",
     {.name = LS_OPTIM_ADAMW, .lr = 0.01, .weight_decay = 0.1, BETAS},
     0,
     2e-7,
     {{0.989000022, -0.489500016, 0.239749998, 1.98800004},
      {0.978689253, -0.492671549, 0.240036562, 1.98967314},
      {0.976602793, -0.496335387, 0.237438902, 1.98905039}}},
    {"clipped sgd",
     {.name = LS_OPTIM_SGD, .lr = 0.1},
     0.5,
     1e-6,
     {{0.995317101, -0.490634143, 0.23595123, 1.95317078},
      {0.994104803, -0.500332713, 0.243225157, 2.00166368},
      {1.00308502, -0.509312987, 0.225264654, 1.95676243}}},
};

static void test_as_pytorch(void **state) {
  for (int r = 0; r < LS_COUNT(rows); r++) {
    const row_t *row = &rows[r];
    trainer_t t = trainer_make(&row->config, row->clip_norm, 4, start);
    for (int step = 0; step < 3; step++) {
      float grad[4];
      memcpy(grad, gradients[step], sizeof grad);
      trainer_step(&t, grad, 1, row->config.lr);
      for (int k = 0; k < 4; k++)
        if (!(fabs(t.param[k] - row->want[step][k]) <= row->tolerance * (1 + fabs(row->want[step][k]))))
          fail_msg("%s, step %d, element %d: %.9g, PyTorch has %.9g", row->name, step, k, (double)t.param[k],
                   row->want[step][k]);
    }
  }
}

/* The same in f64, written from the papers: one element. */
typedef struct {
  double p, a, b; /* parameter, momentum or m, v */
} exact_t;

static void exact_step(const ls_optim_config_t *c, exact_t *e, double g, double lr, int t) {
  if (c->name == LS_OPTIM_ADAMW)
    e->p *= 1 - lr * c->weight_decay;
  else
    g += c->weight_decay * e->p;
  if (c->name == LS_OPTIM_SGD) {
    e->a = c->momentum * e->a + g;
    e->p -= lr * (c->nesterov ? g + c->momentum * e->a : e->a);
    return;
  }
  e->a = c->beta1 * e->a + (1 - c->beta1) * g;
  e->b = c->beta2 * e->b + (1 - c->beta2) * g * g;
  double mean = e->a / (1 - pow(c->beta1, t)), square = e->b / (1 - pow(c->beta2, t));
  e->p -= lr * mean / (sqrt(square) + c->eps);
}

static void test_fifty_steps(void **state) {
  for (int r = 0; r < LS_COUNT(rows); r++) {
    const row_t *row = &rows[r];
    float param[COUNT_MAX], grad[COUNT_MAX];
    exact_t exact[COUNT_MAX];
    for (int k = 0; k < COUNT_MAX; k++) {
      param[k] = 2 * ls_rng_unit(ls_rng(11, 0, (uint64_t)k).v[0]) - 1;
      exact[k] = (exact_t){.p = param[k]};
    }
    trainer_t t = trainer_make(&row->config, row->clip_norm, COUNT_MAX, param);
    ls_rate_config_t rate = {.name = LS_RATE_COSINE, .warmup_steps = 5};
    for (int step = 0; step < 50; step++) {
      double square = 0, lr = ls_rate_at(&rate, row->config.lr, step, 50);
      for (int k = 0; k < COUNT_MAX; k++) {
        grad[k] = 2 * ls_rng_unit(ls_rng(12, (uint32_t)step, (uint64_t)k).v[0]) - 1;
        square += (double)grad[k] * grad[k];
      }
      double norm = sqrt(square);
      double scale = row->clip_norm > 0 && norm > row->clip_norm ? row->clip_norm / norm : 1;
      for (int k = 0; k < COUNT_MAX; k++)
        exact_step(&row->config, &exact[k], scale * grad[k], lr, step + 1);
      trainer_step(&t, grad, 1, lr);
    }
    for (int k = 0; k < COUNT_MAX; k++)
      if (!(fabs(t.param[k] - exact[k].p) <= 3e-6 * (1 + fabs(exact[k].p))))
        fail_msg("%s, element %d: %.9g, must be %.9g", row->name, k, (double)t.param[k], exact[k].p);
  }
}

/* Bad steps between good ones leave no trace at all: not in parameters, not in state, not in
 * bias correction. */
static void test_skipped_steps_leave_no_trace(void **state) {
  float bad_values[] = {NAN, INFINITY, -INFINITY};
  for (int r = 0; r < LS_COUNT(rows); r++) {
    const row_t *row = &rows[r];
    trainer_t clean = trainer_make(&row->config, row->clip_norm, 4, start), other = clean;
    for (int step = 0; step < 3; step++) {
      float grad[4], bad[4];
      memcpy(grad, gradients[step], sizeof grad);
      memcpy(bad, gradients[step], sizeof bad);
      trainer_step(&other, bad, bad_values[step], row->config.lr); /* the loss */
      assert_true(other.stats[LS_STAT_APPLIED] == 0);
      bad[step] = bad_values[step]; /* one element of the gradient */
      trainer_step(&other, bad, 1, row->config.lr);
      assert_true(other.stats[LS_STAT_APPLIED] == 0 && other.stats[LS_STAT_SKIPPED_ROW] == 2);
      trainer_step(&clean, grad, 1, row->config.lr);
      trainer_step(&other, grad, 1, row->config.lr);
    }
    assert_memory_equal(clean.param, other.param, sizeof clean.param);
    assert_memory_equal(clean.slot, other.slot, sizeof clean.slot);
    assert_true(other.stats[LS_STAT_SKIPPED] == 6);
  }
}

static void test_shapes(void **state) {
  for (int i = 0; ls_optim_ops[i]; i++) {
    assert_non_null(ls_optim_ops[i]->forward);
    assert_int_not_equal(ls_optim_ops[i]->class, LS_OP_OTHER);
  }
  ls_attrs_t none = {{0}, {0}};
  ls_shape_t in[] = {LS_SHAPE(LS_F32, 7), LS_SHAPE(LS_F32, 15)}, out[3];
  assert_int_equal(ls_op_adam.shape(NULL, &none, in, out), LS_ERR_SHAPE);
  in[1] = LS_SHAPE(LS_F32, 16);
  assert_int_equal(ls_op_adam.shape(NULL, &none, in, out), LS_OK);
  for (int i = 0; i < 3; i++)
    assert_true(ls_shape_equal(&out[i], &in[0]));
  /* grad and ctrl once; param, m and v read and written */
  assert_int_equal(ls_op_bytes(&ls_op_adam, &none, in, out), 7 * 4 + 16 * 4 + 2 * 3 * 7 * 4);
}

TESTS(NULL, NULL, test_as_pytorch, test_fifty_steps, test_skipped_steps_leave_no_trace, test_shapes)
