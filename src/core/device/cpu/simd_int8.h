/* Products of 8-bit integers (int8.c): exact sums of 32 bits. A lane multiplies a group of 4 bytes: two values of
 * 16 bits, or with VNNI four of 8 bits. Included once for each kind, with
 *   INT8(name)   the names of its functions      INT8_TARGET   their attribute
 *   int8_value_t, INT8_DOT(sum, x, w)            INT8_NAME     the table */

enum {
#if LS_VECTOR_BYTES == 64
  INT8(MANY) = 12, /* rows of a tile of two panels: 24 of 32 registers hold sums */
#else
  INT8(MANY) = 4,
#endif
  INT8(FEW) = 4,  /* rows that are left */
  INT8(WIDE) = 8, /* panels of a tile of one row: a sum waits for the one before it */
};

INT8_TARGET static void INT8(round)(int64_t count, const float *x, float inverse, float zero, void *to_) {
  INT8(value_t) *to = to_;
  for (int64_t i = 0; i < count; i++)
    to[i] = ls_int8_value(x[i], inverse, zero);
}

/* Outputs of `panels` panels from o on, for some rows. */
INT8_TARGET INLINE void INT8(tile)(const ls_simd_int8_product_t *p, int rows, int panels,
                                   const char *const *x, int64_t o, float *y) {
  const int64_t panel_bytes = p->runs * p->groups * LS_VECTOR_BYTES;
  const char *w = (const char *)p->w + o / LANES * panel_bytes;
  veci_t sum[INT8(MANY) * 2];
  UNROLL
  for (int j = 0; j < panels; j++)
    UNROLL
  for (int r = 0; r < rows; r++)
    sum[r * panels + j] = *(const veci_mem_t *)(p->start + o + j * LANES);
  for (int64_t run = 0; run < p->runs; run++) {
    const int64_t end = p->run[run] + 4 * p->groups;
    for (int64_t at = p->run[run]; at < end; at += 4, w += LS_VECTOR_BYTES) {
      veci_t of[INT8(WIDE)];
      UNROLL
      for (int j = 0; j < panels; j++)
        of[j] = *(const veci_mem_t *)(const void *)(w + j * panel_bytes);
      UNROLL
      for (int r = 0; r < rows; r++) {
        int32_t group;
        memcpy(&group, x[r] + at, sizeof group);
        const veci_t all = group - (veci_t){0};
        UNROLL
        for (int j = 0; j < panels; j++)
          sum[r * panels + j] = INT8_DOT(sum[r * panels + j], all, of[j]);
      }
    }
  }
  UNROLL
  for (int j = 0; j < panels; j++) {
    const int64_t from = o + j * LANES, left = p->outputs - from;
    const vec_t factor = load(p->factor + from), shift = load(p->shift + from);
    UNROLL
    for (int r = 0; r < rows; r++) {
      const vec_t v = __builtin_convertvector(sum[r * panels + j], vec_t) * factor + shift;
      if (left >= LANES)
        store(y + r * p->outputs + from, v);
      else
        memcpy(y + r * p->outputs + from, &v, (size_t)left * sizeof(float));
    }
  }
}

INT8_TARGET static void INT8(product)(const ls_simd_int8_product_t *p, int64_t rows, const char *const *x,
                                      int64_t begin, int64_t end, float *y) {
  int64_t o = begin;
  for (; rows >= INT8(FEW) && o < end; o += 2 * LANES) {
    const bool two = o + LANES < end;
    for (int64_t r = 0, step; r < rows; r += step) {
      const bool many = rows - r >= INT8(MANY);
      const int64_t at = many || r + INT8(FEW) <= rows ? r : rows - INT8(FEW); /* some twice */
      const char *const *of = x + at;
      float *to = y + at * p->outputs;
      step = many ? INT8(MANY) : INT8(FEW);
      if (many && two)
        INT8(tile)(p, INT8(MANY), 2, of, o, to);
      else if (many)
        INT8(tile)(p, INT8(MANY), 1, of, o, to);
      else if (two)
        INT8(tile)(p, INT8(FEW), 2, of, o, to);
      else
        INT8(tile)(p, INT8(FEW), 1, of, o, to);
    }
  }
  for (int64_t r = 0; rows < INT8(FEW) && r < rows; r++) {
    for (o = begin; o + (INT8(WIDE) - 1) * LANES < end; o += INT8(WIDE) * LANES)
      INT8(tile)(p, 1, INT8(WIDE), x + r, o, y + r * p->outputs);
    for (; o < end; o += LANES)
      INT8(tile)(p, 1, 1, x + r, o, y + r * p->outputs);
  }
}

#undef INT8
#undef INT8_TARGET
#undef INT8_DOT
