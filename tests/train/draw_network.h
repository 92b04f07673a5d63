/* Draws a network and how it is trained, as a configuration, from a seed. */
#ifndef LS_TESTS_DRAW_NETWORK_H
#define LS_TESTS_DRAW_NETWORK_H

#include "support/draw.h"

#include <lockstep/data.h>

enum { NETWORK_TEXT_BYTES = 1 << 14 };

typedef struct {
  char text[NETWORK_TEXT_BYTES]; /* without section parallel */
  int ranks, threads;
  ls_data_memory_t memory; /* rows 0: the configuration says where samples come from */
} network_t;

void network_draw(uint64_t seed, network_t *network);
void network_release(network_t *network);

#endif
