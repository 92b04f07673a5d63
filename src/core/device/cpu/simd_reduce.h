/* Sums in double precision, softmax and layer norm. */

#if LS_VECTOR_BYTES == 16
typedef float half_t __attribute__((vector_size(8), aligned(4), may_alias));
#endif
typedef double vecd_t __attribute__((vector_size(LS_VECTOR_BYTES)));
enum { DOUBLES = LANES / 2, SUMS = 4 };

/* gcc 12 makes four instructions of __builtin_convertvector here, where the CPU has one. */
INLINE vecd_t load_double(const float *p) {
#if LS_VECTOR_BYTES == 64
  return (vecd_t)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif LS_VECTOR_BYTES == 32
  return (vecd_t)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
  return __builtin_convertvector(*(const half_t *)p, vecd_t);
#endif
}

INLINE double doubles_sum(vecd_t v) {
  double sum = 0;
  for (int i = 0; i < DOUBLES; i++)
    sum += v[i];
  return sum;
}

/* Sum over e of f(e): `vector` handles DOUBLES elements from e on, `scalar` one. Four sums hide
 * the latency. */
#define SUM_DOUBLE(result, count, vector, scalar)                                                            \
  do {                                                                                                       \
    vecd_t part[SUMS] = {0};                                                                                 \
    int64_t e_ = 0;                                                                                          \
    for (; e_ + SUMS * DOUBLES <= (count); e_ += SUMS * DOUBLES) {                                           \
      UNROLL for (int s_ = 0; s_ < SUMS; s_++) {                                                             \
        int64_t e = e_ + s_ * DOUBLES;                                                                       \
        part[s_] += (vector);                                                                                \
      }                                                                                                      \
    }                                                                                                        \
    (result) = doubles_sum((part[0] + part[1]) + (part[2] + part[3]));                                       \
    for (int64_t e = e_; e < (count); e++)                                                                   \
      (result) += (scalar);                                                                                  \
  } while (0)

static double sumsq(int64_t count, const float *x) {
  double sum;
  SUM_DOUBLE(sum, count, load_double(x + e) * load_double(x + e), (double)x[e] * x[e]);
  return sum;
}

static double sum_of(int64_t count, const float *x) {
  double sum;
  SUM_DOUBLE(sum, count, load_double(x + e), (double)x[e]);
  return sum;
}

static double squared_distance(int64_t count, const float *a, const float *b) {
  double sum;
  SUM_DOUBLE(sum, count,
             (load_double(a + e) - load_double(b + e)) * (load_double(a + e) - load_double(b + e)),
             ((double)a[e] - b[e]) * ((double)a[e] - b[e]));
  return sum;
}

/* Adds up block by block: each element's loss in f32, their sum in f64. */
enum { LOSS_BLOCK = 256 };
#define LOSS_SUM(result, count, expression)                                                                  \
  do {                                                                                                       \
    float some_[LOSS_BLOCK];                                                                                 \
    (result) = 0;                                                                                            \
    for (int64_t at_ = 0; at_ < (count); at_ += LOSS_BLOCK) {                                                \
      int64_t size_ = (count)-at_ < LOSS_BLOCK ? (count)-at_ : LOSS_BLOCK;                                   \
      for (int64_t k_ = 0; k_ < size_; k_++) {                                                               \
        int64_t e = at_ + k_;                                                                                \
        some_[k_] = (expression);                                                                            \
      }                                                                                                      \
      (result) += sum_of(size_, some_);                                                                      \
    }                                                                                                        \
  } while (0)

static double absolute_distance(int64_t count, const float *a, const float *b) {
  double sum;
  LOSS_SUM(sum, count, fabsf(a[e] - b[e]));
  return sum;
}

INLINE float huber_of(float d, float delta) {
  float size = fabsf(d);
  return size > delta ? delta * (size - 0.5f * delta) : 0.5f * d * d;
}

static double huber_distance(int64_t count, float delta, const float *a, const float *b) {
  double sum;
  LOSS_SUM(sum, count, huber_of(a[e] - b[e], delta));
  return sum;
}

/* Nothing overflows: log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)). */
static double bce_distance(int64_t count, const float *x, const float *target, float *restrict p) {
  double sum;
  LOSS_SUM(sum, count, (x[e] > 0 ? x[e] : 0) - x[e] * target[e] + log1p_of(exp_of(-fabsf(x[e]))));
  for (int64_t e = 0; e < count; e++)
    p[e] = sigmoid_of(x[e]);
  return sum;
}

/* Largest element; NaN never wins. */
static float largest(int64_t count, const float *x) {
  float best = x[0];
  int64_t e = 0;
  if (count >= LANES) {
    vec_t v = load(x);
    for (e = LANES; e + LANES <= count; e += LANES) {
      vec_t a = load(x + e);
      veci_t more = a > v;
      v = (vec_t)(((veci_t)a & more) | ((veci_t)v & ~more));
    }
    best = v[0];
    for (int i = 1; i < LANES; i++)
      best = v[i] > best ? v[i] : best;
  }
  for (; e < count; e++)
    best = x[e] > best ? x[e] : best;
  return best;
}

static float softmax_row(int64_t count, float scale, const float *x, float *p) {
  float max = scale * largest(count, x);
  for (int64_t e = 0; e < count; e++)
    p[e] = exp_of(scale * x[e] - max);
  double sum;
  SUM_DOUBLE(sum, count, load_double(p + e), (double)p[e]);
  float share = (float)(1 / sum);
  for (int64_t e = 0; e < count; e++)
    p[e] *= share;
  return max + (float)log(sum);
}

static void attention_slopes(int64_t count, float scale, float lse, float given, const float *m,
                             float *restrict s, float *restrict dp) {
  if (m)
    for (int64_t e = 0; e < count; e++) {
      float p = exp_of(scale * s[e] - lse);
      s[e] = m[e] * p;
      dp[e] = scale * p * (m[e] * dp[e] - given);
    }
  else
    for (int64_t e = 0; e < count; e++) {
      float p = exp_of(scale * s[e] - lse);
      s[e] = p;
      dp[e] = scale * p * (dp[e] - given);
    }
}

static float dot(int64_t count, const float *a, const float *b) {
  double sum;
  SUM_DOUBLE(sum, count, load_double(a + e) * load_double(b + e), (double)a[e] * b[e]);
  return (float)sum;
}

static void moments(int64_t count, const float *x, double eps, double *mean, double *rstd) {
  double sum, squares;
  SUM_DOUBLE(sum, count, load_double(x + e), (double)x[e]);
  double centre = sum / (double)count;
  SUM_DOUBLE(squares, count, (load_double(x + e) - centre) * (load_double(x + e) - centre),
             ((double)x[e] - centre) * ((double)x[e] - centre));
  *mean = centre;
  *rstd = 1 / sqrt(squares / (double)count + eps);
}

/* Subtracts the mean in two parts, because a large one loses digits as one float. */
static void normalize(int64_t count, const float *x, double mean, float rstd, const float *gamma,
                      const float *beta, float *y) {
  float upper = (float)mean, lower = (float)(mean - upper);
  for (int64_t e = 0; e < count; e++)
    y[e] = ((x[e] - upper) - lower) * rstd * gamma[e] + beta[e];
}

/* dx = rstd (g - mean(g) - h mean(g h)), with g = dy gamma and h = (x - mean) rstd. */
static void normalize_dx(int64_t count, const float *dy, const float *x, const float *gamma, float mean,
                         float rstd, float *dx) {
  double g_sum, gh_sum;
  SUM_DOUBLE(g_sum, count, load_double(dy + e) * load_double(gamma + e), (double)dy[e] * gamma[e]);
  SUM_DOUBLE(gh_sum, count,
             load_double(dy + e) * load_double(gamma + e) * (load_double(x + e) - (double)mean),
             (double)dy[e] * gamma[e] * ((double)x[e] - mean));
  float g_mean = (float)(g_sum / (double)count), gh_mean = (float)(gh_sum * rstd / (double)count);
  for (int64_t e = 0; e < count; e++)
    dx[e] = rstd * (dy[e] * gamma[e] - g_mean - (x[e] - mean) * rstd * gh_mean);
}

static void normalize_dgb(int64_t begin, int64_t end, const float *dy, const float *x, float mean, float rstd,
                          float *restrict dgamma, float *restrict dbeta) {
  for (int64_t e = begin; e < end; e++) {
    dgamma[e] += dy[e] * (x[e] - mean) * rstd;
    dbeta[e] += dy[e];
  }
}
