/* Parameter updates: one pass, every array read and written once. Arrays never overlap. Per element the
 * operations and their order are those of the optimizer's plain version, all exactly rounded, so the bits are
 * the same on every CPU (an approximate root would save 0.2 ns an element and this). */

static void sgd(int64_t count, float lr, float grad_scale, float decay, const float *restrict g,
                float *restrict p) {
  for (int64_t e = 0; e < count; e++)
    p[e] = p[e] - lr * (g[e] * grad_scale + decay * p[e]);
}

/* m = momentum m + g; p -= lr m, or with Nesterov lr (g + momentum m). */
static void sgd_momentum(int64_t count, float lr, float grad_scale, float decay, float momentum,
                         bool nesterov, const float *restrict g, float *restrict p, float *restrict m) {
  float of_grad = nesterov ? 1 : 0, of_momentum = nesterov ? momentum : 1;
  for (int64_t e = 0; e < count; e++) {
    float grad = g[e] * grad_scale + decay * p[e];
    float velocity = momentum * m[e] + grad;
    m[e] = velocity;
    p[e] -= lr * (of_grad * grad + of_momentum * velocity);
  }
}

/* Kingma and Ba, "Adam", algorithm 1; decoupled decay as in Loshchilov and Hutter, "Decoupled weight decay
 * regularization". */
static void adam(int64_t count, const ls_simd_adam_t *a, const float *restrict g, float *restrict p,
                 float *restrict m, float *restrict v) {
  const ls_simd_adam_t c = *a;
  for (int64_t e = 0; e < count; e++) {
    float grad = g[e] * c.grad_scale + c.decay_grad * p[e];
    float m1 = c.beta1 * m[e] + c.rest1 * grad;
    float v1 = c.beta2 * v[e] + c.rest2 * grad * grad;
    m[e] = m1;
    v[e] = v1;
    p[e] = (p[e] - c.shrink * p[e]) - c.step_size * m1 / (sqrtf(v1) * c.inv_sqrt_bias2 + c.eps);
  }
}
