/* exp, tanh, sigmoid and GELU without branches, so that loops over them become vectors. Polynomials for exp
 * and tanh: S. Moshier, Cephes, expf and tanhf (about 2 ulp). Normal distribution: Abramowitz and Stegun,
 * Handbook of Mathematical Functions, 7.1.26 (absolute error below 1.5e-7). NaN goes in and comes out. */

INLINE uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

INLINE float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* Clamped to [-87.3, 88]: results stay normal numbers. */
INLINE float exp_of(float x) {
  const float round_magic = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
  x = x < -87.3f ? -87.3f : x;
  x = x > 88.0f ? 88.0f : x;
  float shifted = x * 1.44269504088896341f + round_magic;
  float n = shifted - round_magic;
  float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  return p * float_of((bits_of(shifted) - bits_of(round_magic) + 127u) << 23);
}

/* log(1 + x) for 0 <= x <= 1: 2 artanh(x / (2 + x)), as a series with as many terms as f32 can show. */
INLINE float log1p_of(float x) {
  float z = x / (2 + x), q = z * z;
  float p = 1.0f / 15;
  p = p * q + 1.0f / 13;
  p = p * q + 1.0f / 11;
  p = p * q + 1.0f / 9;
  p = p * q + 1.0f / 7;
  p = p * q + 1.0f / 5;
  p = p * q + 1.0f / 3;
  return 2 * (z + z * q * p);
}

INLINE float sigmoid_of(float x) {
  return 1 / (1 + exp_of(-x));
}

INLINE float tanh_of(float x) {
  float a = fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  float small = p * z * x + x;
  float large = copysignf(1 - 2 / (exp_of(2 * a) + 1), x);
  return a < 0.625f ? small : large;
}

/* P(X <= x) of a standard normal; *bell is exp(-x^2 / 2). */
INLINE float normal_cdf(float x, float *bell) {
  float z = fabsf(x) * 0.70710678118654752f;
  float t = 1 / (1 + 0.3275911f * z);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  float e = exp_of(-z * z);
  float tail = 0.5f * p * t * e;
  *bell = e;
  return x < 0 ? tail : 1 - tail;
}

INLINE float gelu_of(float x) {
  float bell;
  return x * normal_cdf(x, &bell);
}

INLINE float gelu_slope(float x) {
  float bell;
  float cdf = normal_cdf(x, &bell);
  return cdf + x * bell * 0.39894228040143268f;
}

/* The tanh form of GELU: x (1 + bend(x)) / 2. */
INLINE float gelu_bend(float x) {
  return tanh_of(0.79788456080286536f * (x + 0.044715f * x * x * x));
}

INLINE float gelu_tanh_slope(float x) {
  float t = gelu_bend(x);
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456080286536f * (1 + 0.134145f * x * x);
}

INLINE float silu_slope(float x) {
  float s = sigmoid_of(x);
  return s * (1 + x * (1 - s));
}
