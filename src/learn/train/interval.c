/* How often to save. */
#include "train/trainer.h"

#include <math.h>

int64_t ls_save_interval_ns(int64_t cost_ns, int64_t failure_ns) {
  double cost = (double)cost_ns, failure = (double)failure_ns;
  if (cost >= 2 * failure) return failure_ns;
  double ratio = cost / (2 * failure);
  return (int64_t)(sqrt(2 * cost * failure) * (1 + sqrt(ratio) / 3 + ratio / 9) - cost);
}
