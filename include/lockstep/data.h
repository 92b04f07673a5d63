/* Samples that an embedding program passes in memory instead of files. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Row-major, finite numbers; borrowed for the call that takes it (the values are copied). Exactly one of
 * targets and classes is given, and one of features and bytes. */
typedef struct {
  int64_t rows, inputs, outputs; /* outputs: width of real targets, 0 when classes are used */
  const float *features;         /* (rows, inputs), or NULL with bytes */
  const float *targets;          /* (rows, outputs) or NULL */
  const int32_t *classes;        /* (rows) or NULL */
  /* (rows, inputs) or NULL: images, kept as bytes up to the device. All values share one mean and scale. */
  const uint8_t *bytes;
} ls_data_memory_t;

#ifdef __cplusplus
}
#endif
#endif
