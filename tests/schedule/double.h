/* A device double: behaves like a GPU backend, on host threads. Its memory is not the host's by contract
 * (kernels are looked up, input is copied), every stream is asynchronous, work can be captured and replayed.
 * It counts and can refuse allocations. */
#ifndef LS_TESTS_SCHEDULE_DOUBLE_H
#define LS_TESTS_SCHEDULE_DOUBLE_H

#include "device/device.h"
#include "graph/op.h"

typedef struct {
  int64_t device_bytes, host_bytes; /* allocated and not freed */
  int64_t allocations;
  int64_t refuse; /* the n-th allocation from now fails, 0 = none */
  int64_t captures, launches;
} double_count_t;

/* Both run the plain C versions of the ops in the lists given to double_ops. */
extern const ls_backend_t double_eager; /* cannot capture */
extern const ls_backend_t double_capture;

/* NULL-terminated lists of rows the double has kernels for; at most 4 lists. */
void double_ops(int count, const ls_op_t *const *const *lists);
/* Counts of one device. */
double_count_t *double_counts(ls_device_t *device);

#endif
