/* The order of samples as a keyed bijection of [0, n): a Feistel network over the smallest power of two that
 * holds n (Luby and Rackoff, 1988), made exact for any n by cycle walking (Black and Rogaway, "Ciphers with
 * arbitrary finite domains", CT-RSA 2002). Nothing is stored, so an order takes no memory, and resuming takes
 * no time. This is shuffling, not cryptography: the round function is a cheap mixer with keys from Philox. */
#include "data/order.h"

/* 64 places at least: with fewer, the halves are so narrow that few permutations can be reached. */
enum { DOMAIN_BITS_MIN = 6 };

void ls_order_key_make(uint64_t seed, ls_order_use_t use, uint64_t epoch, uint64_t n, ls_order_key_t *key) {
  int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 0;
  if (bits < DOMAIN_BITS_MIN) bits = DOMAIN_BITS_MIN;
  int right = bits / 2, left = bits - right;
  key->n = n;
  key->right_bits = right;
  key->left_mask = (uint32_t)((UINT64_C(1) << left) - 1);
  key->right_mask = (uint32_t)((UINT64_C(1) << right) - 1);
  for (int half = 0; half < 2; half++) {
    ls_rng4_t w = ls_rng(seed, LS_RNG_ORDER + (uint32_t)use + (uint32_t)half, epoch);
    for (int i = 0; i < 4; i++)
      key->key[half * 4 + i] = w.v[i];
  }
}

/* Finaliser of MurmurHash3 (Appleby, public domain), second half left out: 32 good bits from
 * the high word. */
static uint32_t mix(uint32_t half, uint64_t key) {
  uint64_t h = (half | key << 32) * UINT64_C(0xff51afd7ed558ccd);
  h ^= h >> 33;
  h *= UINT64_C(0xc4ceb9fe1a85ec53);
  return (uint32_t)(h >> 32);
}

/* One pass through the network: each round changes one half by a function of the other, so each is
 * invertible. */
static uint64_t permute(const ls_order_key_t *key, uint64_t x) {
  uint32_t right = (uint32_t)x & key->right_mask, left = (uint32_t)(x >> key->right_bits);
  for (int round = 0; round < LS_ORDER_ROUNDS; round += 2) {
    left ^= mix(right, key->key[round]) & key->left_mask;
    right ^= mix(left, key->key[round + 1]) & key->right_mask;
  }
  return (uint64_t)left << key->right_bits | right;
}

/* Walking a cycle of the permutation until it returns to [0, n) gives a permutation of [0, n). The walk ends
 * because the cycle contains `index` itself. Fewer than two passes are expected for n > 64. */
uint64_t ls_order_at(const ls_order_key_t *key, uint64_t index) {
  if (key->n <= 1) return 0;
  uint64_t x = index;
  do
    x = permute(key, x);
  while (x >= key->n);
  return x;
}

/* Passes over all indices that are not inside yet. They are independent of each other and no branch depends
 * on a value, so a processor works on several at once. */
void ls_order_each(const ls_order_key_t *key, uint64_t *index, int count) {
  int outside[LS_ORDER_EACH_MAX], left = count;
  for (int i = 0; i < count; i++)
    outside[i] = i;
  while (left > 0) {
    int still = 0;
    for (int k = 0; k < left; k++) {
      int i = outside[k];
      uint64_t x = key->n > 1 ? permute(key, index[i]) : 0;
      index[i] = x;
      outside[still] = i;
      still += x >= key->n;
    }
    left = still;
  }
}
