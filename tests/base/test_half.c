/* 16-bit floats: each is itself there and back, has the value of its bits, and what lies between two neighbours becomes
 * the nearer one, or in the middle the even one. */
#include "base/half.h"

#include "unit.h"
#include <math.h>

typedef struct {
  float (*widen)(uint16_t half);
  uint16_t (*round)(float x);
  int fraction_bits, bias;
} kind_t;

static float widen_bf16(uint16_t half) {
  return ls_f32_of_bf16(half);
}
static float widen_f16(uint16_t half) {
  return ls_f32_of_f16(half);
}
static uint16_t round_bf16(float x) {
  return ls_bf16_of_f32(x);
}
static uint16_t round_f16(float x) {
  return ls_f16_of_f32(x);
}

static const kind_t kinds[] = {{widen_bf16, round_bf16, 7, 127}, {widen_f16, round_f16, 10, 15}};

/* The definition of IEEE 754. */
static double value_of(const kind_t *k, int size) {
  int exponent = size >> k->fraction_bits, fraction = size & ((1 << k->fraction_bits) - 1);
  int normal = exponent > 0;
  return ldexp(fraction + (normal << k->fraction_bits), (normal ? exponent : 1) - k->bias - k->fraction_bits);
}

static void every_number_is_rounded_to_the_nearest(void **state) {
  for (int i = 0; i < (int)(sizeof kinds / sizeof kinds[0]); i++) {
    const kind_t *k = &kinds[i];
    int infinite = ((1 << (15 - k->fraction_bits)) - 1) << k->fraction_bits;
    for (int size = 0; size < infinite; size++) {
      float x = k->widen((uint16_t)size);
      assert_true(x == (float)value_of(k, size));
      assert_true(k->widen((uint16_t)(size | 0x8000)) == -x);
      assert_int_equal(k->round(x), size);
      assert_int_equal(k->round(-x), size | 0x8000);
      float middle = (float)((value_of(k, size) + value_of(k, size + 1)) / 2);
      assert_int_equal(k->round(middle), size + size % 2);
      assert_int_equal(k->round(nextafterf(middle, 0)), size);
      assert_int_equal(k->round(nextafterf(middle, INFINITY)), size + 1);
    }
    assert_int_equal(k->round(INFINITY), infinite);
    assert_int_equal(k->round(-INFINITY), infinite | 0x8000);
    assert_true(isinf(k->widen((uint16_t)infinite)));
    assert_true(isnan(k->widen((uint16_t)(infinite + 1))));
    assert_true(k->round(NAN) > infinite && (k->round(NAN) & 0x8000) == 0);
    assert_true((k->round(ls_f32_of_bits(0x7f800001)) & 0x7fff) >
                infinite); /* its upper half alone is infinite */
  }
}

TESTS(NULL, NULL, every_number_is_rounded_to_the_nearest)
