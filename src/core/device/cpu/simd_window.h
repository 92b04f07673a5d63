/* Loops over the channels of one position, for windows that move over images. */

/* y += a * b. */
static void add_product(int64_t count, const float *a, const float *b, float *y) {
  int64_t e = 0;
  for (; e + LANES <= count; e += LANES)
    store(y + e, fused(load(a + e), load(b + e), load(y + e)));
  for (; e < count; e++)
    y[e] += a[e] * b[e];
}

/* y = x and place = k if x is larger, or a NaN. */
static void take_larger(int64_t count, int k, const float *x, float *y, uint8_t *place) {
  for (int64_t e = 0; e < count; e++) {
    bool larger = (x[e] > y[e]) | ((x[e] != x[e]) & (y[e] == y[e]));
    y[e] = larger ? x[e] : y[e];
    place[e] = larger ? (uint8_t)k : place[e];
  }
}

/* y += x where place = k. */
static void add_where(int64_t count, int k, const uint8_t *place, const float *x, float *y) {
  for (int64_t e = 0; e < count; e++)
    y[e] += place[e] == k ? x[e] : 0;
}

INLINE float median(float a, float b, float c) {
  const float low = a < b ? a : b, high = a < b ? b : a, rest = high < c ? high : c;
  return low < rest ? rest : low;
}

/* Adds x - shift over the rows to sum, and its square to square. The rows are added up in f32 around a centre, one
 * of their own values, so that nothing cancels however far away the shift is. The centre is the median of three
 * values, because a single one may be an outlier. */
static void channel_moments(int64_t rows, int64_t count, const float *x, int64_t ldx, const float *shift,
                            double *restrict sum, double *restrict square) {
  enum { MOST = LS_SIMD_CHANNELS };
  const float *middle = x + rows / 2 * ldx, *last = x + (rows - 1) * ldx;
  float centre[MOST], s[MOST], q[MOST];
  for (int64_t e = 0; e < count; e++) {
    centre[e] = median(x[e], middle[e], last[e]);
    s[e] = q[e] = 0;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t e = 0; e < count; e++) {
      float d = x[r * ldx + e] - centre[e];
      s[e] += d;
      q[e] += d * d;
    }
  for (int64_t e = 0; e < count; e++) {
    double d = (double)centre[e] - shift[e], all = (double)rows * d;
    sum[e] += s[e] + all;
    square[e] += q[e] + d * (2 * (double)s[e] + all);
  }
}

/* sum: dy over the rows; product: dy (x - mean) rstd over the rows. */
static void channel_slopes(int64_t rows, int64_t count, const float *dy, const float *x, int64_t ldx,
                           const float *mean, const float *rstd, float *sum, float *product) {
  for (int64_t e = 0; e < count; e++)
    sum[e] = product[e] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t e = 0; e < count; e++) {
      float d = dy[r * ldx + e];
      sum[e] += d;
      product[e] += d * ((x[r * ldx + e] - mean[e]) * rstd[e]);
    }
}

/* y = (x - mean) a + b. */
static void channel_scale(int64_t count, const float *x, const float *mean, const float *a, const float *b,
                          float *y) {
  for (int64_t e = 0; e < count; e++)
    y[e] = (x[e] - mean[e]) * a[e] + b[e];
}

/* y = a dy + (x - mean) b + c. */
static void channel_dx(int64_t count, const float *dy, const float *x, const float *mean, const float *a,
                       const float *b, const float *c, float *y) {
  for (int64_t e = 0; e < count; e++)
    y[e] = a[e] * dy[e] + ((x[e] - mean[e]) * b[e] + c[e]);
}
