/* Versions of the libraries that times depend on. */
#include "machine/parts.h"
void ls_machine_read_libraries(ls_machine_t *machine) {
  (void)machine;
}
