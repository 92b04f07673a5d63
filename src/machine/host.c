/* This node: processors, caches, memory, kernel. */
#include "machine/parts.h"
void ls_machine_read_host(ls_machine_t *machine) {
  (void)machine;
}
