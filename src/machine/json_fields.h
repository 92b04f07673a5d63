/* Inside the machine module: the rows that a machine is written to JSON and read from it by. */
#ifndef LS_MACHINE_JSON_FIELDS_H
#define LS_MACHINE_JSON_FIELDS_H

#include "machine/machine.h"

enum { LS_MACHINE_FIELDS = 20, LS_GPU_FIELDS = 19 };

typedef struct {
  const char *name;
  enum { LS_FIELD_TEXT, LS_FIELD_INT, LS_FIELD_INT64, LS_FIELD_REAL } type;
  size_t offset;
  size_t size; /* of a text */
} ls_machine_field_t;

/* json.c */
extern const ls_machine_field_t ls_machine_fields[LS_MACHINE_FIELDS], ls_gpu_fields[LS_GPU_FIELDS];

/* What is known between every two GPUs. */
typedef enum { LS_MATRIX_LINK, LS_MATRIX_PEER, LS_MATRIX_NVLINKS, LS_MATRIX_COUNT } ls_gpu_matrix_t;
extern const char *const ls_gpu_matrix_names[LS_MATRIX_COUNT];

#endif
