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
