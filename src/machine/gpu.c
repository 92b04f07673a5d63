/* GPUs and how they are linked. */
#include "machine/parts.h"
void ls_machine_read_gpus(ls_machine_t *machine) {
  (void)machine;
}
