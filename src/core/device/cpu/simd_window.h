/* Loops over the channels of one position, for windows that move over images. */

/* y += a * b. */
static void add_product(int64_t count, const float *a, const float *b, float *y) {
  int64_t e = 0;
  for (; e + LANES <= count; e += LANES)
    store(y + e, fused(load(a + e), load(b + e), load(y + e)));
  for (; e < count; e++)
    y[e] += a[e] * b[e];
}

/* Where x is larger, y = x and place = k; of a NaN as well. */
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

/* sum = of x - shift, square = of its square, over rows. */
static void channel_moments(int64_t rows, int64_t count, const float *x, int64_t ldx, const float *shift,
                            float *sum, float *square) {
  for (int64_t e = 0; e < count; e++)
    sum[e] = square[e] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t e = 0; e < count; e++) {
      float d = x[r * ldx + e] - shift[e];
      sum[e] += d;
      square[e] += d * d;
    }
}

/* sum = of dy, product = of dy (x - mean) rstd, over rows. */
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
