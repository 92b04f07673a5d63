/* Recurrent chains: all positions of some samples (ls_simd_chain_t), one after the other. A tile is some samples
 * times some units. It multiplies the samples' rows of the previous position by packed weights, and then computes
 * the cells of these units while the sums are in the first-level cache. The cells' inputs are fetched during the
 * product. A sample's bits depend on no other sample. The formulas are those of the ops' plain versions
 * (graph/ops/lstm.c, gru.c). Gates of a sample are h elements apart. Outputs overlap no inputs. */

enum { LSTM_GATES = 4, GRU_GATES = 3 };
_Static_assert(LS_SIMD_GRAIN % (TILE_VECS * LANES) == 0, "who packs a part of the units packs whole panels");
_Static_assert(TILE_VECS <= 3, "panels of three, two and one vectors are computed");

/* The compiler knows that the arguments of these loops do not alias, but only if they are not inlined; then it
 * makes vectors of them. */
#define NOINLINE static __attribute__((noinline))

/* Computes gates and c of `count` units. a: sums of the product, whose gates are `lda` apart. y = o tanh(c) has to
 * wait for c, so a tile computes c of all rows first, then y of all rows: no row's tanh waits. */
NOINLINE void lstm_gates(int64_t count, int64_t h, const float *x, const float *a, int64_t lda,
                         const float *c0, float *restrict gates, float *restrict c) {
  for (int64_t e = 0; e < count; e++) {
    float i = sigmoid_of(x[e] + a[e]), f = sigmoid_of(x[h + e] + a[lda + e]);
    float g = tanh_of(x[2 * h + e] + a[2 * lda + e]), o = sigmoid_of(x[3 * h + e] + a[3 * lda + e]);
    gates[e] = i;
    gates[h + e] = f;
    gates[2 * h + e] = g;
    gates[3 * h + e] = o;
    c[e] = f * c0[e] + i * g;
  }
}

NOINLINE void lstm_output(int64_t count, const float *o, const float *c, float *restrict y) {
  for (int64_t e = 0; e < count; e++)
    y[e] = o[e] * tanh_of(c[e]);
}

NOINLINE void lstm_cell_dx(int64_t count, int64_t h, const float *dy, const float *dh, const float *c,
                           const float *c0, const float *gates, float *restrict dc, float *restrict d) {
  for (int64_t e = 0; e < count; e++) {
    float i = gates[e], f = gates[h + e], g = gates[2 * h + e], o = gates[3 * h + e], q = tanh_of(c[e]);
    float up = dy[e] + dh[e], state = dc[e] + up * o * (1 - q * q);
    d[e] = state * g * i * (1 - i);
    d[h + e] = state * c0[e] * f * (1 - f);
    d[2 * h + e] = state * i * (1 - g * g);
    d[3 * h + e] = up * q * o * (1 - o);
    dc[e] = state * f;
  }
}

NOINLINE void gru_gates(int64_t count, int64_t h, const float *x, const float *a, int64_t lda,
                        const float *b_hn, float *restrict gates, float *restrict m) {
  for (int64_t e = 0; e < count; e++) {
    gates[e] = sigmoid_of(x[e] + a[e]);
    gates[h + e] = sigmoid_of(x[h + e] + a[lda + e]);
    m[e] = a[2 * lda + e] + b_hn[e];
  }
}

/* gates: begins with those of r. */
NOINLINE void gru_output(int64_t count, int64_t h, const float *x, const float *m, const float *h0,
                         const float *gates, float *restrict fresh, float *restrict y) {
  for (int64_t e = 0; e < count; e++) {
    float r = gates[e], z = gates[h + e], n = tanh_of(x[2 * h + e] + r * m[e]);
    fresh[e] = n;
    y[e] = (1 - z) * n + z * h0[e];
  }
}

/* kept: the part of the gradient that reaches the previous position without the product. */
NOINLINE void gru_cell_dx(int64_t count, int64_t h, const float *dy, const float *dh, const float *gates,
                          const float *m, const float *h0, float *restrict kept, float *restrict dx,
                          float *restrict dhidden) {
  for (int64_t e = 0; e < count; e++) {
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

static const float no_state[TILE_SUMS * LANES];

INLINE int64_t row_at(const ls_simd_chain_t *k, int64_t r, int64_t s) {
  return r * k->t + (k->back ? k->t - 1 - s : s);
}

/* The cache lines of `count` units of `parts` gates. */
INLINE void fetch(const float *p, int parts, int64_t h, int64_t count) {
  for (int g = 0; g < parts; g++)
    for (int64_t e = 0; e < count; e += 16)
      __builtin_prefetch(p + g * h + e);
}

/* ---- Forwards: a vector of units, all gates of them ---- */

static void pack(int64_t h, int gates, int64_t begin, int64_t end, const float *w, float *packed) {
  for (int64_t u = begin; u < end; u += LANES) {
    float *panel = packed + u * gates * h;
    int64_t count = h - u < LANES ? h - u : LANES;
    if (count < LANES) memset(panel, 0, (size_t)(gates * h * LANES) * sizeof *panel);
    for (int g = 0; g < gates; g++)
      transpose(count, h, w + (g * h + u) * h, h, panel + g * LANES, gates * LANES);
  }
}

INLINE void forward_tile(const ls_simd_chain_t *k, const int gates, const int rows, int64_t s, int64_t r,
                         int64_t u) {
  const int64_t h = k->h, width = gates * h, count = h - u < LANES ? h - u : LANES;
  float a[TILE_SUMS * LANES] __attribute__((aligned(LS_VECTOR_BYTES)));
  const float *state = gates == LSTM_GATES ? k->c_or_m : k->y;
  for (int i = 0; i < rows; i++) {
    int64_t row = row_at(k, r + i, s);
    fetch(k->x + row * width + u, gates, h, count);
    fetch(k->gate_values + row * width + u, gates, h, count);
    fetch(k->c_or_m + row * h + u, 1, h, count);
    fetch(k->y + row * h + u, 1, h, count);
  }
  if (s > 0)
    nn_tile(rows, gates, false, 0, h, k->y + row_at(k, r, s - 1) * h, k->t * h, 1, k->packed + u * width,
            gates * LANES, a, gates * LANES);
  else
    memset(a, 0, sizeof a);
  for (int half = 0; half < 2; half++)
    for (int i = 0; i < rows; i++) {
      const int64_t row = row_at(k, r + i, s), at = row * h + u;
      const float *before = s == 0 ? no_state : state + row_at(k, r + i, s - 1) * h + u,
                  *x = k->x + row * width + u, *sums = a + i * gates * LANES;
      float *values = k->gate_values + row * width + u;
      if (gates == LSTM_GATES && half == 0)
        lstm_gates(count, h, x, sums, LANES, before, values, k->c_or_m + at);
      else if (gates == LSTM_GATES)
        lstm_output(count, values + 3 * h, k->c_or_m + at, k->y + at);
      else if (half == 0)
        gru_gates(count, h, x, sums, LANES, k->bias + u, values, k->c_or_m + at);
      else
        gru_output(count, h, x, k->c_or_m + at, before, values, values + 2 * h, k->y + at);
    }
}

INLINE void forward(const ls_simd_chain_t *k, const int gates, int64_t begin, int64_t end) {
  for (int64_t s = 0; s < k->t; s++)
    for (int64_t u = 0; u < k->h; u += LANES) {
      int64_t r = begin;
      IN_TILES(TILE_SUMS / gates, r, end, forward_tile(k, gates, TILE, s, r, u));
    }
}

static void chain(const ls_simd_chain_t *k, int64_t begin, int64_t end) {
  if (k->gates == LSTM_GATES)
    forward(k, LSTM_GATES, begin, end);
  else
    forward(k, GRU_GATES, begin, end);
}

/* ---- Backwards: TILE_VECS vectors of units, or fewer at the end ---- */

/* The vectors of the panel at unit u. If one vector more is left than a panel takes, two panels share them. */
INLINE int vecs_at(int64_t h, int64_t u) {
  int64_t left = (h - u + LANES - 1) / LANES;
  return left == TILE_VECS + 1 ? (TILE_VECS + 1) / 2 : left < TILE_VECS ? (int)left : TILE_VECS;
}

/* Packs the panels that begin in [begin, end). */
static void pack_dx(int64_t h, int gates, int64_t begin, int64_t end, const float *w, float *packed) {
  for (int64_t u = 0; u < end; u += vecs_at(h, u) * LANES) {
    int64_t width = vecs_at(h, u) * LANES, count = h - u < width ? h - u : width;
    if (u < begin) continue;
    for (int64_t k = 0; k < gates * h; k++) {
      float *to = packed + u * gates * h + k * width;
      memcpy(to, w + k * h + u, (size_t)count * sizeof *to);
      memset(to + count, 0, (size_t)(width - count) * sizeof *to);
    }
  }
}

INLINE void cells_dx(const ls_simd_chain_t *k, const int gates, int64_t count, int64_t s, int64_t r,
                     int64_t u, const float *dh) {
  const int64_t h = k->h, row = row_at(k, r, s), at = row * h + u, gates_at = row * gates * h + u;
  const float *before = s == 0 ? no_state : k->c_or_y + row_at(k, r, s - 1) * h + u;
  float *carried = k->carried + r * h + u;
  if (gates == LSTM_GATES)
    lstm_cell_dx(count, h, k->dy + at, dh, k->c_or_m + at, before, k->gate_values + gates_at, carried,
                 k->dgates_x + gates_at);
  else
    gru_cell_dx(count, h, k->dy + at, dh, k->gate_values + gates_at, k->c_or_m + at, before, carried,
                k->dgates_x + gates_at, k->dgates_h + gates_at);
}

INLINE void dx_tile(const ls_simd_chain_t *k, const int gates, const int rows, const int vecs, int64_t s,
                    int64_t r, int64_t u) {
  const int64_t h = k->h, width = gates * h, count = h - u < vecs * LANES ? h - u : vecs * LANES;
  float dh[TILE_SUMS * LANES] __attribute__((aligned(LS_VECTOR_BYTES)));
  for (int i = 0; i < rows; i++) {
    int64_t row = row_at(k, r + i, s);
    fetch(k->gate_values + row * width + u, gates, h, count);
    fetch(k->dgates_x + row * width + u, gates, h, count);
    if (gates == GRU_GATES) fetch(k->dgates_h + row * width + u, gates, h, count);
    fetch(k->dy + row * h + u, 1, h, count);
    fetch(k->c_or_m + row * h + u, 1, h, count);
    if (s > 0) fetch(k->c_or_y + row_at(k, r + i, s - 1) * h + u, 1, h, count);
  }
  if (s + 1 < k->t)
    nn_tile(rows, vecs, false, 0, width, k->dgates_h + row_at(k, r, s + 1) * width, k->t * width, 1,
            k->packed + u * width, vecs * LANES, dh, vecs * LANES);
  else
    memset(dh, 0, sizeof dh);
  for (int i = 0; i < rows; i++)
    cells_dx(k, gates, count, s, r + i, u, dh + i * vecs * LANES);
}

INLINE void dx_panel(const ls_simd_chain_t *k, const int gates, const int vecs, int64_t s, int64_t begin,
                     int64_t end, int64_t u) {
  int64_t r = begin;
  IN_TILES(TILE_ROWS, r, end, dx_tile(k, gates, TILE, vecs, s, r, u));
}

INLINE void backward(const ls_simd_chain_t *k, const int gates, int64_t begin, int64_t end) {
  memset(k->carried + begin * k->h, 0, (size_t)((end - begin) * k->h) * sizeof(float));
  for (int64_t s = k->t - 1; s >= 0; s--)
    for (int64_t u = 0; u < k->h;) {
      int vecs = vecs_at(k->h, u);
      if (vecs == TILE_VECS)
        dx_panel(k, gates, TILE_VECS, s, begin, end, u);
      else if (vecs == 2)
        dx_panel(k, gates, 2, s, begin, end, u);
      else
        dx_panel(k, gates, 1, s, begin, end, u);
      u += vecs * LANES;
    }
}

static void chain_dx(const ls_simd_chain_t *k, int64_t begin, int64_t end) {
  if (k->gates == LSTM_GATES)
    backward(k, LSTM_GATES, begin, end);
  else
    backward(k, GRU_GATES, begin, end);
}
