/* Elementwise loops; the compiler turns them into vectors. An output may be an input: each element is read
 * before it is written. */

#define MAP1(name, expression)                                                                               \
  static void name(int64_t count, const float *in, float *out) {                                             \
    for (int64_t e = 0; e < count; e++) {                                                                    \
      float x = in[e];                                                                                       \
      out[e] = (expression);                                                                                 \
    }                                                                                                        \
  }
#define MAP2(name, expression)                                                                               \
  static void name(int64_t count, const float *in_a, const float *in_b, float *out) {                        \
    for (int64_t e = 0; e < count; e++) {                                                                    \
      float a = in_a[e], b = in_b[e];                                                                        \
      out[e] = (expression);                                                                                 \
    }                                                                                                        \
  }

MAP1(relu, x < 0 ? 0 : x) /* keeps NaN, so that a diverged step is noticed */
MAP1(map_tanh, tanh_of(x))
MAP1(map_sigmoid, sigmoid_of(x))
MAP1(map_gelu, gelu_of(x))
MAP1(map_gelu_tanh, 0.5f * x * (1 + gelu_bend(x)))
MAP1(map_silu, x *sigmoid_of(x))
MAP2(relu_dy, b > 0 ? a : 0)
MAP2(tanh_dy, a *(1 - b * b))
MAP2(sigmoid_dy, a *b *(1 - b))
MAP2(gelu_dx, a *gelu_slope(b))
MAP2(gelu_tanh_dx, a *gelu_tanh_slope(b))
MAP2(silu_dx, a *silu_slope(b))
MAP2(add, a + b)
MAP2(mul, a *b)
#undef MAP1
#undef MAP2

#define FROM(name, type)                                                                                     \
  static void name(int64_t count, const type *x, double mean, double scale, float *y) {                      \
    for (int64_t e = 0; e < count; e++)                                                                      \
      y[e] = (float)(((double)x[e] - mean) * scale);                                                         \
  }
FROM(from_u8, uint8_t)
FROM(from_u16, uint16_t)
FROM(from_i32, int32_t)
#undef FROM

#define CAST(name, from, to, convert)                                                                        \
  static void name(int64_t count, const from *x, to *y) {                                                    \
    for (int64_t e = 0; e < count; e++)                                                                      \
      y[e] = convert(x[e]);                                                                                  \
  }
CAST(from_bf16, uint16_t, float, ls_f32_of_bf16)
CAST(from_f16, uint16_t, float, ls_f32_of_f16)
CAST(to_bf16, float, uint16_t, ls_bf16_of_f32)
CAST(to_f16, float, uint16_t, ls_f16_of_f32)
#undef CAST

static void l1_slope(int64_t count, float scale, const float *a, const float *b, float *y) {
  for (int64_t e = 0; e < count; e++) {
    float d = a[e] - b[e];
    y[e] = scale * (d > 0 ? 1 : d < 0 ? -1 : d);
  }
}

static void huber_slope(int64_t count, float scale, float delta, const float *a, const float *b, float *y) {
  for (int64_t e = 0; e < count; e++) {
    float d = a[e] - b[e];
    y[e] = scale * (d > delta ? delta : d < -delta ? -delta : d);
  }
}

static void scaled_difference(int64_t count, float scale, const float *a, const float *b, float *y) {
  for (int64_t e = 0; e < count; e++)
    y[e] = scale * (a[e] - b[e]);
}
