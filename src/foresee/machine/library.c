/* Versions of the libraries that times depend on: MPI and the BLAS that computes. */
#include "machine/parts.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#elif defined(LS_HAVE_OPENBLAS)
#include <cblas.h>
#endif

/* "Open MPI v4.1.4, package: ..., ..." -> "Open MPI v4.1.4". May be asked before MPI_Init (MPI 3.0,
 * section 8.1). */
static void read_mpi(ls_machine_t *machine) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int len = 0;
  if (MPI_Get_library_version(text, &len) != MPI_SUCCESS) return;
  text[strcspn(text, ",\r\n")] = '\0';
  snprintf(machine->mpi, sizeof machine->mpi, "%.*s", LS_NAME_BYTES - 1, text);
}

/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..." and "Prescott" -> "OpenBLAS 0.3.21 Prescott": version and
 * chosen kernels. */
static void name_openblas(const char *config, const char *core, char name[LS_NAME_BYTES]) {
  char version[32] = "";
  if (sscanf(config, "%*s %31s", version) != 1) version[0] = '\0';
  snprintf(name, LS_NAME_BYTES, "OpenBLAS %s %.32s", version, core);
}

void ls_machine_read_openblas(ls_machine_t *machine) {
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL); /* never closed: its threads run its
                                                                      * code */
  if (!library) return;
  char *(*config)(void), *(*core)(void);
  *(void **)&config = dlsym(library, "openblas_get_config");
  *(void **)&core = dlsym(library, "openblas_get_corename");
  if (config && core) name_openblas(config(), core(), machine->openblas);
}

#if defined(LS_HAVE_DNNL)
static void read_blas(ls_machine_t *machine) {
  const dnnl_version_t *v = dnnl_version();
  snprintf(machine->blas, sizeof machine->blas, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}
#elif defined(LS_HAVE_OPENBLAS)
static void read_blas(ls_machine_t *machine) {
  name_openblas(openblas_get_config(), openblas_get_corename(), machine->blas);
}
#else
static void read_blas(ls_machine_t *machine) {
  (void)machine;
}
#endif

void ls_machine_read_libraries(ls_machine_t *machine) {
  read_mpi(machine);
  read_blas(machine);
}
