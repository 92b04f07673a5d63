/* Samples that an embedding program passes in memory instead of files, and data files that fail under a run. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/status.h>
#include <stdbool.h>
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

/* For the program's own handler of SIGBUS. The library maps data files that may be larger than memory: text, token
 * files, and npy with data.mapped. If such a file becomes shorter during a run, or its storage fails, the system raises
 * SIGBUS in the thread that reads it, and a process without a handler ends.
 *   address  si_addr of a signal whose si_code is BUS_ADRERR
 * Returns true if the address lies in a data file that is open. From then on the whole file reads as zeros. The handler
 * returns, the samples that were being read are dropped, and the call that needs them returns LS_ERR_IO with the file's
 * name. Returns false for every other address: the fault is not lockstep's, and nothing has changed.
 * May be called from a handler in any thread; needs no alternate stack. */
LS_API bool ls_data_fault(const void *address);

#ifdef __cplusplus
}
#endif
#endif
