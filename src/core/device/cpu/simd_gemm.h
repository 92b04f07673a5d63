/* Matrix products for few rows. A tile of sums stays in registers; the long operand (the weights, or the
 * weight gradient) goes through the core once. Row counts that are not a multiple of the tile are cut into 8,
 * 4, 2, 1. The last partial vector is read again from inside the row, with the lanes that were already
 * counted masked. */

/* y tile (rows, vecs * LANES) (+)= a (rows, depth) b (depth, ..): lanes run along y's rows. Element (r, k) of
 * a is at r * a_row + k * a_depth, so the same tile serves a and its transpose. With `add` the tile is added
 * to y, but not in the first `skip` lanes, which belong to a neighbour. */
INLINE void nn_tile(const int rows, const int vecs, const bool add, int skip, int64_t depth, const float *a,
                    int64_t a_row, int64_t a_depth, const float *b, int64_t ldb, float *y, int64_t ldy) {
  vec_t sum[TILE_SUMS] = {0};
  for (int64_t k = 0; k < depth; k++) {
    vec_t bv[4];
    UNROLL for (int c = 0; c < vecs; c++) bv[c] = load(b + k * ldb + c * LANES);
    UNROLL for (int r = 0; r < rows; r++) {
      vec_t av = all_lanes(a[r * a_row + k * a_depth]);
      UNROLL for (int c = 0; c < vecs; c++) sum[r * vecs + c] = fused(bv[c], av, sum[r * vecs + c]);
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int c = 0; c < vecs; c++) {
      float *out = y + r * ldy + c * LANES;
      if (add)
        sum[r * vecs + c] =
            load(out) + (skip ? mask_keep(sum[r * vecs + c], mask_from(skip)) : sum[r * vecs + c]);
      store(out, sum[r * vecs + c]);
    }
  }
}

/* The same for rows that do not fill a vector. */
INLINE void nn_narrow(int64_t rows, int64_t cols, bool add, int64_t depth, const float *a, int64_t a_row,
                      int64_t a_depth, const float *b, int64_t ldb, float *y, int64_t ldy) {
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t c = 0; c < cols; c++) {
      float sum = 0;
      for (int64_t k = 0; k < depth; k++)
        sum += a[r * a_row + k * a_depth] * b[k * ldb + c];
      y[r * ldy + c] = add ? y[r * ldy + c] + sum : sum;
    }
  }
}

/* `rows` (constant) rows, all columns. */
INLINE void nn_band(const int rows, const bool add, int64_t cols, int64_t depth, const float *a,
                    int64_t a_row, int64_t a_depth, const float *b, int64_t ldb, float *y, int64_t ldy) {
  int64_t c = 0;
  for (; c + TILE_VECS * LANES <= cols; c += TILE_VECS * LANES)
    nn_tile(rows, TILE_VECS, add, 0, depth, a, a_row, a_depth, b + c, ldb, y + c, ldy);
  if (TILE_VECS > 2 && c + 2 * LANES <= cols) {
    nn_tile(rows, 2, add, 0, depth, a, a_row, a_depth, b + c, ldb, y + c, ldy);
    c += 2 * LANES;
  }
  for (; c + LANES <= cols; c += LANES)
    nn_tile(rows, 1, add, 0, depth, a, a_row, a_depth, b + c, ldb, y + c, ldy);
  if (c == cols) return;
  if (cols < LANES) {
    nn_narrow(rows, cols, add, depth, a, a_row, a_depth, b, ldb, y, ldy);
  } else {
    int64_t last = cols - LANES;
    nn_tile(rows, 1, add, (int)(c - last), depth, a, a_row, a_depth, b + last, ldb, y + last, ldy);
  }
}

INLINE void nn_rows(const bool add, int64_t rows, int64_t cols, int64_t depth, const float *a, int64_t a_row,
                    int64_t a_depth, const float *b, int64_t ldb, float *y, int64_t ldy) {
  int64_t r = 0;
  IN_TILES(TILE_ROWS, r, rows,
           nn_band(TILE, add, cols, depth, a + r * a_row, a_row, a_depth, b, ldb, y + r * ldy, ldy));
}

/* Depth and columns are cut so that the part of b in use stays in the level-2 cache and few pages are open at
 * a time. The last block takes up to twice its share, so that none is too narrow for a vector. */
enum { DEPTH_BLOCK = 64, COLUMNS_BLOCK = 960 };

static void nn_block(int64_t rows, int64_t cols, int64_t depth, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float *y, int64_t ldy) {
  int64_t first = depth < DEPTH_BLOCK ? depth : DEPTH_BLOCK;
  nn_rows(false, rows, cols, first, a, lda, 1, b, ldb, y, ldy);
  for (int64_t k = first; k < depth; k += DEPTH_BLOCK) {
    int64_t part = depth - k < DEPTH_BLOCK ? depth - k : DEPTH_BLOCK;
    nn_rows(true, rows, cols, part, a + k, lda, 1, b + k * ldb, ldb, y, ldy);
  }
}

static void product_nn(int64_t rows, int64_t begin, int64_t end, int64_t depth, const float *a, int64_t lda,
                       const float *b, int64_t ldb, float *y, int64_t ldy) {
  while (begin < end) {
    int64_t cols = end - begin < 2 * COLUMNS_BLOCK ? end - begin : COLUMNS_BLOCK;
    nn_block(rows, cols, depth, a, lda, b + begin, ldb, y + begin, ldy);
    begin += cols;
  }
}

static void product_tn(int64_t begin, int64_t end, int64_t cols, int64_t depth, const float *a, int64_t lda,
                       const float *b, int64_t ldb, float *y, int64_t ldy) {
  nn_rows(false, end - begin, cols, depth, a + begin, 1, lda, b, ldb, y + begin * ldy, ldy);
}

static void column_sums(int64_t rows, int64_t begin, int64_t end, const float *a, int64_t lda, bool add,
                        float *sums) {
  for (int64_t c = begin; !add && c < end; c++)
    sums[c] = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = begin; c < end; c++)
      sums[c] += a[r * lda + c];
}
