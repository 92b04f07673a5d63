/* A batch in test memory, poisoned and fenced. Feature j of row r is r + 1000 j (counting_dataset). */
#ifndef LS_TESTS_DATA_BATCHES_H
#define LS_TESTS_DATA_BATCHES_H

#include "common.h"

enum { BATCH_ROWS = 64, BATCH_INPUTS = 3, FENCE = 4 };

typedef struct {
  float x[(BATCH_ROWS + FENCE) * BATCH_INPUTS];
  union {
    float real[BATCH_ROWS + FENCE];
    int32_t label[BATCH_ROWS + FENCE];
  } target;
  float weight[BATCH_ROWS + FENCE];
  ls_step_params_t step[2]; /* the second one is a fence */
} memory_t;

static inline ls_batch_t batch_of(memory_t *m) {
  memset(m, 0x7b, sizeof *m);
  return (ls_batch_t){m->x, &m->target, m->weight, m->step};
}

#endif
