/* A keyed bijection with its round keys computed once, for loops that need many places of one epoch. */
#ifndef LS_DATA_ORDER_H
#define LS_DATA_ORDER_H

#include "data/data.h"

enum { LS_ORDER_ROUNDS = 8 };

typedef struct {
  uint64_t n; /* size of the domain, >= 1 */
  uint64_t key[LS_ORDER_ROUNDS];
  uint32_t left_mask, right_mask; /* the two halves of the smallest power of two >= n (at least 64) */
  int right_bits;
} ls_order_key_t;

/* Streams of LS_RNG_ORDER: the purposes of a bijection. Each takes two (a call gives four of the eight
 * keys). */
typedef enum { LS_ORDER_EPOCH = 0, LS_ORDER_SPLIT = 2 } ls_order_use_t;

void ls_order_key_make(uint64_t seed, ls_order_use_t use, uint64_t epoch, uint64_t n, ls_order_key_t *key);
uint64_t ls_order_at(const ls_order_key_t *key, uint64_t index); /* index < n */

/* The same for up to LS_ORDER_EACH_MAX indices in place, in less time. */
enum { LS_ORDER_EACH_MAX = 64 };
void ls_order_each(const ls_order_key_t *key, uint64_t *index, int count);

#endif
