/* One position of one sample of a recurrent chain; the formulas are those of the ops' plain versions
 * (graph/ops/lstm.c, gru.c). Outputs overlap no inputs. */

static void lstm_cell(int64_t h, const float *x, const float *a, const float *c0, float *restrict gates,
                      float *restrict c, float *restrict y) {
  for (int64_t e = 0; e < h; e++) {
    float i = sigmoid_of(x[e] + a[e]), f = sigmoid_of(x[h + e] + a[h + e]);
    float g = tanh_of(x[2 * h + e] + a[2 * h + e]), o = sigmoid_of(x[3 * h + e] + a[3 * h + e]);
    float state = f * c0[e] + i * g;
    gates[e] = i;
    gates[h + e] = f;
    gates[2 * h + e] = g;
    gates[3 * h + e] = o;
    c[e] = state;
    y[e] = o * tanh_of(state);
  }
}

static void lstm_cell_dx(int64_t h, const float *dy, const float *dh, const float *c, const float *c0,
                         const float *gates, float *restrict dc, float *restrict d) {
  for (int64_t e = 0; e < h; e++) {
    float i = gates[e], f = gates[h + e], g = gates[2 * h + e], o = gates[3 * h + e], q = tanh_of(c[e]);
    float up = dy[e] + dh[e], state = dc[e] + up * o * (1 - q * q);
    d[e] = state * g * i * (1 - i);
    d[h + e] = state * c0[e] * f * (1 - f);
    d[2 * h + e] = state * i * (1 - g * g);
    d[3 * h + e] = up * q * o * (1 - o);
    dc[e] = state * f;
  }
}

static void gru_cell(int64_t h, const float *x, const float *a, const float *b_hn, const float *h0,
                     float *restrict gates, float *restrict m, float *restrict y) {
  for (int64_t e = 0; e < h; e++) {
    float r = sigmoid_of(x[e] + a[e]), z = sigmoid_of(x[h + e] + a[h + e]), inner = a[2 * h + e] + b_hn[e];
    float n = tanh_of(x[2 * h + e] + r * inner);
    gates[e] = r;
    gates[h + e] = z;
    gates[2 * h + e] = n;
    m[e] = inner;
    y[e] = (1 - z) * n + z * h0[e];
  }
}

/* kept: the gradient that reaches the position before past the product. */
static void gru_cell_dx(int64_t h, const float *dy, const float *dh, const float *gates, const float *m,
                        const float *h0, float *restrict kept, float *restrict dx, float *restrict dhidden) {
  for (int64_t e = 0; e < h; e++) {
    float r = gates[e], z = gates[h + e], n = gates[2 * h + e], up = dy[e] + dh[e] + kept[e];
    float inner = up * (1 - z) * (1 - n * n), reset = inner * m[e] * r * (1 - r);
    float update = up * (h0[e] - n) * z * (1 - z);
    dx[e] = dhidden[e] = reset;
    dx[h + e] = dhidden[h + e] = update;
    dx[2 * h + e] = inner;
    dhidden[2 * h + e] = inner * r;
    kept[e] = up * z;
  }
}
