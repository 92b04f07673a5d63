/* A machine as JSON: the rows, which serve both ways, and the writer. Unknown values are null. */
#include "machine/json_fields.h"
#include "machine/parts.h"

#include <stddef.h>

#define MACHINE_TEXT(f)                                                                                      \
  { #f, LS_FIELD_TEXT, offsetof(ls_machine_t, f), sizeof((ls_machine_t *)0)->f }
#define MACHINE(f, type)                                                                                     \
  { #f, type, offsetof(ls_machine_t, f), 0 }
const ls_machine_field_t ls_machine_fields[] = {
    MACHINE_TEXT(cpu_model),
    MACHINE_TEXT(cpu_flags),
    MACHINE(packages, LS_FIELD_INT),
    MACHINE(cores, LS_FIELD_INT),
    MACHINE(threads, LS_FIELD_INT),
    MACHINE(usable_cpus, LS_FIELD_INT),
    MACHINE(numa_nodes, LS_FIELD_INT),
    MACHINE(l1_bytes, LS_FIELD_INT64),
    MACHINE(l2_bytes, LS_FIELD_INT64),
    MACHINE(l3_bytes, LS_FIELD_INT64),
    MACHINE(memory_bytes, LS_FIELD_INT64),
    MACHINE_TEXT(mpi),
    MACHINE_TEXT(nccl),
    MACHINE_TEXT(driver),
    MACHINE_TEXT(cuda),
    MACHINE_TEXT(blas),
    MACHINE_TEXT(openblas),
    MACHINE_TEXT(kernel),
    MACHINE_TEXT(virtualization),
    MACHINE_TEXT(gpu_refused),
};

#define GPU_TEXT(f)                                                                                          \
  { #f, LS_FIELD_TEXT, offsetof(ls_gpu_t, f), sizeof((ls_gpu_t *)0)->f }
#define GPU(f, type)                                                                                         \
  { #f, type, offsetof(ls_gpu_t, f), 0 }
const ls_machine_field_t ls_gpu_fields[] = {
    GPU_TEXT(name),
    GPU_TEXT(uuid),
    GPU(memory_bytes, LS_FIELD_INT64),
    GPU(sm_count, LS_FIELD_INT),
    GPU(compute_major, LS_FIELD_INT),
    GPU(compute_minor, LS_FIELD_INT),
    GPU(clock_sm_mhz, LS_FIELD_INT),
    GPU(clock_sm_max_mhz, LS_FIELD_INT),
    GPU(clock_memory_mhz, LS_FIELD_INT),
    GPU(power_w, LS_FIELD_REAL),
    GPU(power_limit_w, LS_FIELD_REAL),
    GPU(temperature_c, LS_FIELD_INT),
    GPU(pcie_generation, LS_FIELD_INT),
    GPU(pcie_generation_max, LS_FIELD_INT),
    GPU(pcie_width, LS_FIELD_INT),
    GPU(pcie_width_max, LS_FIELD_INT),
    GPU(nvlink_count, LS_FIELD_INT),
    GPU(throttle_reasons, LS_FIELD_INT64),
    GPU(numa_node, LS_FIELD_INT),
};

static json_t *number_json(double value) {
  return value < 0 ? json_null() : json_real(value);
}
static json_t *integer_json(int64_t value) {
  return value < 0 ? json_null() : json_integer((json_int_t)value);
}

static json_t *field_json(const void *from, const ls_machine_field_t *field) {
  const char *at = (const char *)from + field->offset;
  switch (field->type) {
  case LS_FIELD_TEXT:
    return json_string(at);
  case LS_FIELD_INT:
    return integer_json(*(const int *)at);
  case LS_FIELD_INT64:
    return integer_json(*(const int64_t *)at);
  case LS_FIELD_REAL:
    return number_json(*(const double *)at);
  }
  return NULL;
}

/* json_*_set_new takes the reference whether it works or not, and fails on NULL. */
static int fields_json(json_t *to, const void *from, const ls_machine_field_t *fields, int count) {
  int failed = 0;
  for (int i = 0; i < count; i++)
    failed |= json_object_set_new(to, fields[i].name, field_json(from, &fields[i]));
  return failed;
}

const char *const ls_gpu_matrix_names[] = {"link", "peer_access", "nvlinks"};

static json_t *cell_json(const ls_machine_t *m, ls_gpu_matrix_t matrix, int i, int j) {
  switch (matrix) {
  case LS_MATRIX_LINK:
    return json_string(ls_link_name(m->link[i][j]));
  case LS_MATRIX_PEER:
    return m->peer_access[i][j] < 0 ? json_null() : json_boolean(m->peer_access[i][j]);
  default:
    return integer_json(m->nvlinks[i][j]);
  }
}

static json_t *matrix_json(const ls_machine_t *m, ls_gpu_matrix_t matrix) {
  json_t *rows = json_array();
  for (int i = 0; i < m->gpu_count; i++) {
    json_t *row = json_array();
    int failed = 0;
    for (int j = 0; j < m->gpu_count; j++)
      failed |= json_array_append_new(row, cell_json(m, matrix, i, j));
    if (json_array_append_new(rows, row) || failed) {
      json_decref(rows);
      return NULL;
    }
  }
  return rows;
}

json_t *ls_machine_json(const ls_machine_t *m) {
  json_t *j = json_object(), *gpus = json_array();
  int failed = fields_json(j, m, ls_machine_fields, LS_MACHINE_FIELDS);
  for (int i = 0; i < m->gpu_count; i++) {
    json_t *gpu = json_object();
    failed |= fields_json(gpu, &m->gpu[i], ls_gpu_fields, LS_GPU_FIELDS);
    failed |= json_array_append_new(gpus, gpu);
  }
  failed |= json_object_set_new(j, "gpu", gpus);
  for (int k = 0; k < LS_MATRIX_COUNT; k++)
    failed |= json_object_set_new(j, ls_gpu_matrix_names[k], matrix_json(m, (ls_gpu_matrix_t)k));
  if (!failed) return j;
  json_decref(j);
  return NULL;
}
