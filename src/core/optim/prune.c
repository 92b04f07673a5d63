/* Pruning by magnitude (Han et al. 2015), a little at a time (Zhu and Gupta 2017): at step t of [begin, end] the part
 * sparsity (1 - (1 - (t - begin) / (end - begin))^3) of each matrix's weights, the smallest ones, is 0 and stays so. */
#include "optim/optim.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define PRUNE(field) .offset = offsetof(ls_prune_config_t, field)
static const ls_option_t rows[] = {
    {.name = "sparsity",
     .type = LS_FIELD_REAL,
     PRUNE(sparsity),
     .max = 0.999,
     .initial = "0",
     .help =
         "Part of the weights of every matrix and convolution that is 0 in the end, the smallest ones; 0: no "
         "pruning. Vectors, such as biases and norms, are not pruned."},
    {.name = "begin",
     .type = LS_FIELD_INT64,
     PRUNE(begin),
     .unit = "steps",
     .max = 1e12,
     .initial = "0",
     .help = "Step after which the first weights are pruned."},
    {.name = "end",
     .type = LS_FIELD_INT64,
     PRUNE(end),
     .unit = "steps",
     .max = 1e12,
     .initial = "0",
     .help = "Step after which sparsity is reached. From begin to here it grows, quickly at first."},
    {.name = "every",
     .type = LS_FIELD_INT64,
     PRUNE(every),
     .unit = "steps",
     .min = 1,
     .max = 1e12,
     .initial = "100",
     .help = "Steps between two prunings."},
};

const ls_section_t ls_prune_section = {
    .name = "train.prune",
    .rows = rows,
    .count = LS_COUNT(rows),
    .help = "Weights that become 0 during the run and stay 0.",
};

ls_status_t ls_prune_check(ls_ctx_t *ctx, const ls_place_t *place, const ls_prune_config_t *config) {
  if (config->sparsity == 0 || config->end > config->begin) return LS_OK;
  return ls_fail_at(ctx, LS_ERR_CONFIG, place,
                    "train.prune: end (%lld) must be a later step than begin (%lld)", (long long)config->end,
                    (long long)config->begin);
}

bool ls_prune_due(const ls_prune_config_t *config, int64_t step) {
  if (config->sparsity == 0 || step < config->begin || step > config->end) return false;
  return (step - config->begin) % config->every == 0 || step == config->end;
}

double ls_prune_at(const ls_prune_config_t *config, int64_t step) {
  double left = 1 - (double)(step - config->begin) / (double)(config->end - config->begin);
  return config->sparsity * (1 - left * left * left);
}

/* Magnitudes of floats are ordered like their bits. Two counts of 16 bits each find the last one that goes; of equals,
 * the first ones go. */
int64_t ls_prune_mask(int64_t count, double sparsity, const float *w, float *mask, int64_t *counts) {
  const int64_t wanted = (int64_t)floor(sparsity * (double)count);
  uint32_t last = 0, bits;
  int64_t before = 0, pruned = 0;
  for (int half = 0; half < 2; half++) {
    const int shift = half == 0 ? 16 : 0;
    memset(counts, 0, LS_PRUNE_COUNTS * sizeof *counts);
    for (int64_t i = 0; i < count; i++) {
      memcpy(&bits, &w[i], sizeof bits);
      bits &= INT32_MAX;
      if (half == 0 || bits >> 16 == last >> 16) counts[bits >> shift & 0xffff]++;
    }
    uint32_t k = 0;
    while (k + 1 < LS_PRUNE_COUNTS && before + counts[k] < wanted)
      before += counts[k++];
    last |= k << shift;
  }
  int64_t equals = wanted - before; /* of those like the last one */
  for (int64_t i = 0; i < count; i++) {
    memcpy(&bits, &w[i], sizeof bits);
    bits &= INT32_MAX;
    bool goes = bits < last || (bits == last && equals-- > 0);
    mask[i] = goes && wanted > 0 ? 0 : 1;
    pruned += mask[i] == 0;
  }
  return pruned;
}

void ls_prune_fill(const ls_state_row_t *row, const ls_layout_t *layout, uint64_t seed, void *whole) {
  (void)row, (void)seed;
  for (int e = 0; e < layout->trained_count; e++)
    for (int64_t i = 0; i < layout->entry[e].count; i++)
      ((float *)whole)[layout->entry[e].offset + i] = 1;
}
