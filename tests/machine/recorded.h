/* The recorded machines of this folder. Tests run in the root of the source tree. */
#ifndef TESTS_MACHINE_RECORDED_H
#define TESTS_MACHINE_RECORDED_H

#include "machine/machine.h"

typedef enum { RECORDED_BRIDGE, RECORDED_NVLINK, RECORDED_CPU, RECORDED_HALF, RECORDED_COUNT } recorded_t;

const char *recorded_path(recorded_t which);
/* Fails the test when it does not load. */
void recorded_load(recorded_t which, ls_machine_t *machine);

#endif
