/* test_device_cpu_onednn [COUNT [SEED]]: each of oneDNN's primitives by itself, at listed and drawn shapes, on whole numbers,
 * where every order of adding gives the same bits. Scratchpads, outputs, packed filters and the memory around every argument
 * hold NaN before the call, and the memory around them holds it afterwards.
 * DNNL_MAX_CPU_ISA takes another instruction set; one that this processor lacks is skipped. */
#include "base/half.h"
#include "device/cpu/onednn.h"
#include "kernel_test.h"

#include <stdio.h>

#if defined(LS_CPU_ONEDNN)

enum { AROUND_BYTES = 4096, TRIES = 300 };
static const unsigned char unset = 0xFF; /* a NaN of every float */
static int count = TRIES;
static uint64_t seed = 20261;

/* An argument: exactly as long as its description says, aligned as the program's are, NaN around it and in it. */
typedef struct {
  int64_t bytes;
  unsigned char *block, *data;
} argument_t;

static argument_t argument_make(size_t bytes) {
  argument_t a = {.bytes = (int64_t)bytes};
  size_t total = (bytes + 2 * AROUND_BYTES + 63) / 64 * 64;
  a.block = aligned_alloc(64, total);
  assert_non_null(a.block);
  memset(a.block, unset, total);
  a.data = a.block + AROUND_BYTES;
  return a;
}

static bool around_is_whole(const argument_t *a) {
  for (int64_t k = 0; k < AROUND_BYTES; k++)
    if (a->block[k] != unset || a->data[a->bytes + k] != unset) return false;
  return true;
}

/* Whole numbers from -3 to 3. */
static void draw(argument_t *a, bool low, uint64_t purpose) {
  for (int64_t k = 0; k < a->bytes / (low ? 2 : 4); k++) {
    float value = (float)(ls_rng(seed, purpose, (uint64_t)k / 4).v[k % 4] % 7) - 3;
    if (low)
      ((uint16_t *)(void *)a->data)[k] = ls_bf16_of_f32(value);
    else
      ((float *)(void *)a->data)[k] = value;
  }
}

static double at(const argument_t *a, bool low, int64_t k) {
  return low ? ls_f32_of_bf16(((uint16_t *)(void *)a->data)[k]) : ((float *)(void *)a->data)[k];
}

/* Sums of the products of x, w and y under each other, into the one that the kind writes. */
static double *want_convolution(ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low,
                                const argument_t a[3], int64_t size) {
  const int64_t in = v->c / v->groups, of = v->o / v->groups;
  double *want = calloc((size_t)size, sizeof *want);
  assert_non_null(want);
  for (int64_t r = 0; r < v->n * v->oh * v->ow; r++)
    for (int64_t k = 0; k < v->kh * v->kw; k++) {
      int64_t y = r / v->ow % v->oh * v->sh - v->top + k / v->kw * v->dh;
      int64_t x = r % v->ow * v->sw - v->left + k % v->kw * v->dw;
      if (y < 0 || y >= v->h || x < 0 || x >= v->w) continue;
      int64_t under = ((r / (v->oh * v->ow) * v->h + y) * v->w + x) * v->c;
      for (int64_t f = 0; f < v->o; f++)
        for (int64_t c = 0; c < in; c++) {
          int64_t ix = under + f / of * in + c, iw = (f * v->kh * v->kw + k) * in + c, iy = r * v->o + f;
          if (kind == LS_CPU_CONV_Y) want[iy] += at(&a[0], low, ix) * at(&a[1], low, iw);
          if (kind == LS_CPU_CONV_DX) want[ix] += at(&a[1], low, iw) * at(&a[2], low, iy);
          if (kind == LS_CPU_CONV_DW) want[iw] += at(&a[0], low, ix) * at(&a[2], low, iy);
        }
    }
  return want;
}

/* What it wrote against what it had to; every argument and `plain` around it. Frees them. */
static void check(const char *what, const argument_t *out, bool low, double *want, argument_t *all,
                  int args) {
  const int64_t size = out->bytes / (low ? 2 : 4);
  int bad = 0;
  bool whole = true;
  for (int64_t k = 0; k < size; k++) {
    if (isnan(want[k])) continue;
    float expected = low ? ls_f32_of_bf16(ls_bf16_of_f32((float)want[k])) : (float)want[k];
    bad += !(at(out, low, k) == expected);
  }
  for (int k = 0; k < args; k++)
    whole = around_is_whole(&all[k]) && whole;
  if (bad) fail_msg("%s: %d of %lld elements are wrong", what, bad, (long long)size);
  if (!whole) fail_msg("%s: memory around an argument was written", what);
  free(want);
  for (int k = 0; k < args; k++)
    free(all[k].block);
}

/* True: oneDNN has it. */
static bool try_convolution(bed_t *bed, ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low) {
  static const char *const kinds[] = {"y", "dx", "dw"};
  enum { X, W, Y, SCRATCH, PLAIN, ARGS };
  const ls_onednn_key_t key = {.kind = kind, .low = low, .window = *v};
  const ls_onednn_primitive_t *p = ls_onednn_find(bed->stream, &key);
  if (!p) return false;
  const ls_cpu_onednn_t *o = ((ls_cpu_device_t *)bed->device)->onednn;
  const bool dw = kind == LS_CPU_CONV_DW;
  argument_t a[ARGS];
  for (int k = 0; k < ARGS; k++)
    a[k] = argument_make(dnnl_memory_desc_get_size(k == PLAIN ? &p->plain : &p->desc[k]));
  void *data[] = {a[X].data, a[W].data, a[Y].data, a[SCRATCH].data};
  if (kind != LS_CPU_CONV_Y) draw(&a[Y], low, Y);
  if (kind != LS_CPU_CONV_DX) draw(&a[X], low, X);
  if (!dw) {
    draw(&a[PLAIN], low, W);
    assert_true(ls_onednn_pack(o, p, a[PLAIN].data, a[W].data));
  }
  assert_true(ls_onednn_run(o, p, data));
  if (dw) assert_true(ls_onednn_pack(o, p, a[W].data, a[PLAIN].data));
  const argument_t *out = kind == LS_CPU_CONV_Y ? &a[Y] : dw ? &a[PLAIN] : &a[X];
  double *want =
      want_convolution(kind, v, low, (argument_t[]){a[X], a[PLAIN], a[Y]}, out->bytes / (low && !dw ? 2 : 4));
  char what[256];
  snprintf(
      what, sizeof what,
      "%s %s, x (%d, %d, %d, %d), %d filters of %d x %d in %d groups, stride %d %d, padding %d %d %d %d, "
      "dilation %d %d",
      kinds[kind], low ? "bf16" : "f32", (int)v->n, (int)v->h, (int)v->w, (int)v->c, (int)v->o, (int)v->kh,
      (int)v->kw, (int)v->groups, (int)v->sh, (int)v->sw, (int)v->top, (int)v->left, (int)v->bottom,
      (int)v->right, (int)v->dh, (int)v->dw);
  check(what, out, low && !dw, want, a, ARGS);
  return true;
}

static int try_window(bed_t *bed, ls_window_t v) {
  int tried = 0;
  v.oh = ls_window_count(v.h, v.kh, v.sh, v.top + v.bottom, v.dh);
  v.ow = ls_window_count(v.w, v.kw, v.sw, v.left + v.right, v.dw);
  if (v.n * v.oh * v.ow * v.kh * v.kw * v.o * (v.c / v.groups) > 4 << 20) return 0;
  for (int low = 0; low <= ls_cpu_multiplies_bf16() && v.oh && v.ow; low++)
    for (int kind = 0; kind < LS_CPU_CONV_COUNT; kind++)
      tried += try_convolution(bed, (ls_cpu_conv_kind_t)kind, &v, low);
  return tried;
}

/* oneDNN copies every other pixel for such a convolution, and places rows of fewer channels than a vector past that copy's
 * end. */
static void a_strided_convolution_of_one_pixel_and_few_channels_is_right(void **state) {
  static const int64_t sizes[][3] = {{6, 6, 2}, {6, 8, 2},   {8, 6, 2}, {9, 6, 3},
                                     {7, 7, 2}, {32, 32, 2}, {48, 2, 2}};
  bed_t bed = bed_open(1);
  for (int k = 0; k < LS_COUNT(sizes); k++)
    for (int64_t c = 1; c < 20; c += c < 9 ? 1 : 3)
      for (int64_t o = 3; o < 20; o += 13) {
        const ls_window_t v = {.n = 2,
                               .h = sizes[k][0],
                               .w = sizes[k][1],
                               .c = c,
                               .o = o,
                               .kh = 1,
                               .kw = 1,
                               .sh = sizes[k][2],
                               .sw = sizes[k][2],
                               .dh = 1,
                               .dw = 1,
                               .groups = 1};
        assert_int_not_equal(try_window(&bed, v), 0);
      }
  bed_close(&bed);
}

/* oneDNN 2.6 multiplies parts of its scratchpad that it has not written by 0, here where x is one position wide. */
static void a_gradient_of_filters_in_bf16_is_right_whatever_the_scratchpad_held(void **state) {
  bed_t bed = bed_open(1);
  try_window(&bed, (ls_window_t){.n = 2,
                                 .h = 4,
                                 .w = 1,
                                 .c = 16,
                                 .o = 33,
                                 .kh = 5,
                                 .kw = 5,
                                 .sh = 2,
                                 .sw = 2,
                                 .top = 1,
                                 .left = 2,
                                 .bottom = 2,
                                 .right = 2,
                                 .dh = 1,
                                 .dw = 1,
                                 .groups = 1});
  bed_close(&bed);
}

/* From least to most; number `which` of trial `trial`. */
static int64_t drawn(int trial, int which, int64_t least, int64_t most) {
  return least +
         (int64_t)(ls_rng(seed, 10 + (uint32_t)which, (uint64_t)trial).v[0] % (uint64_t)(most - least + 1));
}

static void drawn_convolutions_are_right(void **state) {
  int tried = 0;
  bed_t bed = bed_open(1);
  for (int t = 0; t < count; t++) {
    const int64_t kind = drawn(t, 0, 0, 3),
                  most = drawn(t, 1, 0, 5) ? 40 : 200; /* windows, 2 of one pixel, of groups */
    const int64_t groups = kind == 3 ? drawn(t, 2, 2, 33) : 1, side = drawn(t, 3, 0, 5) ? 14 : 60;
    const int64_t window = kind == 1 || kind == 2 ? 1 : drawn(t, 4, 1, 7), edge = window > 1 ? window / 2 : 0;
    const int64_t wide = kind == 3 ? drawn(t, 5, 1, 2) : 1;
    tried += try_window(&bed, (ls_window_t){.n = drawn(t, 6, 1, 3),
                                            .h = drawn(t, 7, 1, side),
                                            .w = drawn(t, 8, 1, side),
                                            .c = kind == 3 ? groups * wide : drawn(t, 9, 1, most),
                                            .o = kind == 3 ? groups * wide : drawn(t, 10, 1, most),
                                            .kh = window,
                                            .kw = kind == 1 ? 1 : drawn(t, 11, 1, window),
                                            .sh = drawn(t, 12, 1, 3),
                                            .sw = drawn(t, 13, 1, 3),
                                            .top = drawn(t, 14, 0, edge),
                                            .left = drawn(t, 15, 0, edge),
                                            .bottom = drawn(t, 16, 0, edge),
                                            .right = drawn(t, 17, 0, edge),
                                            .dh = drawn(t, 18, 0, 3) ? 1 : 2,
                                            .dw = drawn(t, 19, 0, 3) ? 1 : 2,
                                            .groups = groups});
  }
  bed_close(&bed);
  assert_true(tried > count);
}

/* Rows may be apart: what lies between those of c stays as it is. */
static void drawn_products_of_bf16_are_right(void **state) {
  enum { A, B, C, BIAS };
  bed_t bed = bed_open(1);
  if (!ls_cpu_multiplies_bf16()) skip();
  for (int t = 0; t < count; t++) {
    const int64_t most = drawn(t, 1, 0, 5) ? 40 : 300, m = drawn(t, 2, 1, most), n = drawn(t, 3, 1, most),
                  k = drawn(t, 4, 1, most);
    const bool ta = drawn(t, 5, 0, 1), tb = drawn(t, 6, 0, 1), bias = drawn(t, 7, 0, 1),
               low = drawn(t, 8, 0, 1);
    const int64_t lda = (ta ? m : k) + drawn(t, 9, 0, 3), ldb = (tb ? k : n) + drawn(t, 10, 0, 3),
                  ldc = n + drawn(t, 11, 0, 3);
    const ls_onednn_key_t key = {
        .kind = LS_ONEDNN_PRODUCT, .low = low, .product = {ta, tb, m, n, k, lda, ldb, ldc, bias}};
    const ls_onednn_primitive_t *p = ls_onednn_find(bed.stream, &key);
    assert_non_null(p);
    argument_t a[LS_ONEDNN_ARGS];
    void *data[LS_ONEDNN_ARGS];
    for (int i = 0; i < p->count; i++) {
      a[i] = argument_make(dnnl_memory_desc_get_size(&p->desc[i]));
      data[i] = a[i].data;
    }
    draw(&a[A], true, A);
    draw(&a[B], true, B);
    if (bias) draw(&a[BIAS], low, BIAS);
    assert_true(ls_onednn_run(((ls_cpu_device_t *)bed.device)->onednn, p, data));
    double *want = malloc((size_t)(m * ldc) * sizeof *want);
    assert_non_null(want);
    for (int64_t e = 0; e < m * ldc; e++)
      want[e] = NAN;
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = bias ? at(&a[BIAS], low, j) : 0;
        for (int64_t e = 0; e < k; e++)
          sum += at(&a[A], true, ta ? e * lda + i : i * lda + e) *
                 at(&a[B], true, tb ? j * ldb + e : e * ldb + j);
        want[i * ldc + j] = sum;
      }
    for (int64_t i = 0; i + 1 < m; i++)
      for (int64_t j = n; j < ldc; j++)
        if (!isnan(at(&a[C], low, i * ldc + j))) fail_msg("between rows of c");
    char what[128];
    snprintf(what, sizeof what, "product %d%d of %d x %d x %d, %d %d %d, bias %d, low %d", ta, tb, (int)m,
             (int)n, (int)k, (int)lda, (int)ldb, (int)ldc, bias, low);
    check(what, &a[C], low, want, a, p->count);
  }
  bed_close(&bed);
}

/* An instruction set that was asked for and is not there would be the same test once more. */
static bool is_there(void) {
  static const struct {
    const char *name;
    unsigned isa;
  } sets[] = {{"AVX2", dnnl_cpu_isa_avx2},
              {"AVX512_CORE", dnnl_cpu_isa_avx512_core},
              {"AVX512_CORE_BF16", dnnl_cpu_isa_avx512_core_bf16},
              {"AVX512_CORE_AMX", dnnl_cpu_isa_avx512_core_amx}};
  const char *asked = getenv("DNNL_MAX_CPU_ISA");
  for (int k = 0; k < LS_COUNT(sets); k++)
    if (asked && strcmp(asked, sets[k].name) == 0) return ls_cpu_onednn_has(sets[k].isa);
  return ls_cpu_convolves();
}

int main(int argc, char **argv) {
  if (argc > 1) count = atoi(argv[1]);
  if (argc > 2) seed = strtoull(argv[2], NULL, 10);
  if (!is_there()) {
    printf("oneDNN has not these instructions here\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_strided_convolution_of_one_pixel_and_few_channels_is_right),
      cmocka_unit_test(a_gradient_of_filters_in_bf16_is_right_whatever_the_scratchpad_held),
      cmocka_unit_test(drawn_convolutions_are_right), cmocka_unit_test(drawn_products_of_bf16_are_right)};
  return cmocka_run_group_tests_name("oneDNN's primitives", tests, NULL, NULL);
}

#else

int main(void) {
  printf("this build has no primitives of oneDNN 2\n");
  return 77;
}

#endif
