/* Normal numbers from Philox words. */
#include "base/rng.h"

#include <math.h>

static void box_muller(uint32_t a, uint32_t b, float *x, float *y) {
  double u = ((double)a + 1.0) * 0x1p-32; /* in (0, 1]: the logarithm is finite */
  double r = sqrt(-2.0 * log(u)), angle = 6.283185307179586 * ((double)b * 0x1p-32);
  *x = (float)(r * cos(angle));
  *y = (float)(r * sin(angle));
}

void ls_rng_normal4(uint64_t seed, uint32_t stream, uint64_t counter, float out[4]) {
  ls_rng4_t w = ls_rng(seed, stream, counter);
  box_muller(w.v[0], w.v[1], &out[0], &out[1]);
  box_muller(w.v[2], w.v[3], &out[2], &out[3]);
}
