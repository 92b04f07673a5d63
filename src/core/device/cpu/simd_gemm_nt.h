/* y = x w^T + b for few rows. Both operands run along the depth, so there are two ways:
 *   dots   up to half a vector of rows: lanes are partial sums along the depth, added up at the end;
 *   lanes  more rows: lanes are rows. x is small, so it is transposed block by block; the weights, which are
 *          not transposed, are broadcast in place. */

enum { DOTS_FLOATS = 8192, LANES_FLOATS = 8192, LANES_OUTS = 256 };

INLINE void dots_tile(const int rows, const int outs, bool first, int64_t depth, const float *x, int64_t ldx,
                      const float *w, int64_t ldw, const float *bias, float *y, int64_t ldy) {
  vec_t sum[TILE_SUMS] = {0};
  int64_t k = 0;
  for (; k + LANES <= depth; k += LANES) {
    vec_t wv[TILE_VECS];
    UNROLL for (int c = 0; c < outs; c++) wv[c] = load(w + c * ldw + k);
    UNROLL for (int r = 0; r < rows; r++) {
      vec_t xv = load(x + r * ldx + k);
      UNROLL for (int c = 0; c < outs; c++) sum[r * outs + c] = fused(xv, wv[c], sum[r * outs + c]);
    }
  }
  if (k < depth && depth >= LANES) {
    veci_t keep = mask_from((int)(LANES - (depth - k)));
    vec_t wv[TILE_VECS];
    UNROLL for (int c = 0; c < outs; c++) wv[c] = mask_keep(load(w + c * ldw + depth - LANES), keep);
    UNROLL for (int r = 0; r < rows; r++) {
      vec_t xv = mask_keep(load(x + r * ldx + depth - LANES), keep);
      UNROLL for (int c = 0; c < outs; c++) sum[r * outs + c] = fused(xv, wv[c], sum[r * outs + c]);
    }
    k = depth;
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int c = 0; c < outs; c++) {
      float total = lanes_sum(sum[r * outs + c]);
      for (int64_t i = k; i < depth; i++)
        total += x[r * ldx + i] * w[c * ldw + i];
      float *out = y + r * ldy + c;
      *out = total + (!first ? *out : bias ? bias[c] : 0);
    }
  }
}

INLINE void dots_rows(const int outs, int64_t rows, bool first, int64_t depth, const float *x, int64_t ldx,
                      const float *w, int64_t ldw, const float *bias, float *y, int64_t ldy) {
  int64_t r = 0;
  IN_TILES(TILE_ROWS, r, rows,
           dots_tile(TILE, outs, first, depth, x + r * ldx, ldx, w, ldw, bias, y + r * ldy, ldy));
}

/* The depth is cut so that the rows of x in use stay in the level-1 cache. */
static void nt_dots(int64_t rows, int64_t begin, int64_t end, int64_t depth, const float *x, int64_t ldx,
                    const float *w, int64_t ldw, const float *bias, float *y, int64_t ldy) {
  int64_t block = DOTS_FLOATS / rows / LANES * LANES;
  for (int64_t k = 0; k < depth; k += block) {
    int64_t part = depth - k < block ? depth - k : block, c = begin;
    for (; c + TILE_VECS <= end; c += TILE_VECS)
      dots_rows(TILE_VECS, rows, k == 0, part, x + k, ldx, w + c * ldw + k, ldw, bias ? bias + c : NULL,
                y + c, ldy);
    for (; c < end; c++)
      dots_rows(1, rows, k == 0, part, x + k, ldx, w + c * ldw + k, ldw, bias ? bias + c : NULL, y + c, ldy);
  }
}

/* to (cols, rows) = from (rows, cols)^T. */
static void transpose(int64_t rows, int64_t cols, const float *from, int64_t from_ld, float *to,
                      int64_t to_ld) {
  typedef float v4_t __attribute__((vector_size(16), aligned(4), may_alias));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float *f = from + r * from_ld;
    float *t = to + r;
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      v4_t a = *(const v4_t *)(f + c), b = *(const v4_t *)(f + from_ld + c);
      v4_t d = *(const v4_t *)(f + 2 * from_ld + c), e = *(const v4_t *)(f + 3 * from_ld + c);
      v4_t ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      v4_t de0 = __builtin_shufflevector(d, e, 0, 4, 1, 5), de1 = __builtin_shufflevector(d, e, 2, 6, 3, 7);
      *(v4_t *)(t + c * to_ld) = __builtin_shufflevector(ab0, de0, 0, 1, 4, 5);
      *(v4_t *)(t + (c + 1) * to_ld) = __builtin_shufflevector(ab0, de0, 2, 3, 6, 7);
      *(v4_t *)(t + (c + 2) * to_ld) = __builtin_shufflevector(ab1, de1, 0, 1, 4, 5);
      *(v4_t *)(t + (c + 3) * to_ld) = __builtin_shufflevector(ab1, de1, 2, 3, 6, 7);
    }
    for (; c < cols; c++)
      for (int64_t i = 0; i < 4; i++)
        t[c * to_ld + i] = f[i * from_ld + c];
  }
  for (; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      to[c * to_ld + r] = from[r * from_ld + c];
}

/* yt (outs, vecs * LANES) += w (outs, depth) xt (depth, vecs * LANES), in tiles as tall as the registers
 * allow. */
INLINE void lanes_tiles(const int tall, const int vecs, int64_t outs, int64_t depth, const float *w,
                        int64_t ldw, const float *xt, float *yt) {
  const int64_t width = vecs * LANES;
  int64_t c = 0;
  for (; c + tall <= outs; c += tall)
    nn_tile(tall, vecs, true, 0, depth, w + c * ldw, ldw, 1, xt, width, yt + c * width, width);
  for (; c + 4 <= outs; c += 4)
    nn_tile(4, vecs, true, 0, depth, w + c * ldw, ldw, 1, xt, width, yt + c * width, width);
  for (; c < outs; c++)
    nn_tile(1, vecs, true, 0, depth, w + c * ldw, ldw, 1, xt, width, yt + c * width, width);
}

/* Takes at most TILE_VECS vectors of rows. */
static void nt_lanes(int64_t rows, int64_t begin, int64_t end, int64_t depth, const float *x, int64_t ldx,
                     const float *w, int64_t ldw, const float *bias, float *y, int64_t ldy) {
  _Alignas(64) float xt[LANES_FLOATS], yt[LANES_OUTS * TILE_VECS * LANES];
  const int64_t vecs = (rows + LANES - 1) / LANES, width = vecs * LANES, block = LANES_FLOATS / width;
  if (rows < width) memset(xt, 0, sizeof xt);
  for (int64_t c = begin; c < end; c += LANES_OUTS) {
    int64_t outs = end - c < LANES_OUTS ? end - c : LANES_OUTS;
    for (int64_t o = 0; o < outs; o++)
      for (int64_t r = 0; r < width; r++)
        yt[o * width + r] = bias ? bias[c + o] : 0;
    for (int64_t k = 0; k < depth; k += block) {
      int64_t part = depth - k < block ? depth - k : block;
      transpose(rows, part, x + k, ldx, xt, width);
      const float *wk = w + c * ldw + k;
      if (vecs == 1)
        lanes_tiles(TALL_ROWS, 1, outs, part, wk, ldw, xt, yt);
      else if (vecs == 2)
        lanes_tiles(TILE_SUMS / 2, 2, outs, part, wk, ldw, xt, yt);
      else
        lanes_tiles(TILE_ROWS, TILE_VECS, outs, part, wk, ldw, xt, yt);
    }
    transpose(outs, rows, yt, width, y + c, ldy);
  }
}

static void product_nt(int64_t rows, int64_t begin, int64_t end, int64_t depth, const float *x, int64_t ldx,
                       const float *w, int64_t ldw, const float *bias, float *y, int64_t ldy) {
  /* Equal passes: 64 rows of 16 lanes are 32 and 32, not 48 and 16. */
  int64_t passes = (rows + TILE_VECS * LANES - 1) / (TILE_VECS * LANES);
  while (rows > LANES / 2) {
    int64_t even = (rows + passes - 1) / passes, whole = (even + LANES - 1) / LANES * LANES;
    int64_t part = rows < whole ? rows : whole;
    nt_lanes(part, begin, end, depth, x, ldx, w, ldw, bias, y, ldy);
    rows -= part;
    passes -= passes > 1;
    x += part * ldx;
    y += part * ldy;
  }
  if (rows > 0) nt_dots(rows, begin, end, depth, x, ldx, w, ldw, bias, y, ldy);
}
