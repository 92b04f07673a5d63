/* A machine as rows, which write, read and clear it. Unknown values are null. Reading checks every value, because
 * recorded and hand-written machines come from outside. */
#include "machine/parts.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20 };

/* Numbers that could not be read are negative. */
#define MACHINE(field) LS_FIELD_AS(ls_machine_t, field, #field, .known = LS_KNOWN_FROM_0)
#define GPU(field)     LS_FIELD_AS(ls_gpu_t, field, #field, .known = LS_KNOWN_FROM_0)
#define TEXT(field)    LS_FIELD(ls_machine_t, field)

static const char *const others[] = {"source", "note", NULL}; /* for people */

static const ls_field_t gpu_rows[] = {
    LS_FIELD(ls_gpu_t, name), LS_FIELD(ls_gpu_t, uuid),
    GPU(memory_bytes),        GPU(sm_count),
    GPU(compute_major),       GPU(compute_minor),
    GPU(clock_sm_mhz),        GPU(clock_sm_max_mhz),
    GPU(clock_memory_mhz),    GPU(power_w),
    GPU(power_limit_w),       GPU(temperature_c),
    GPU(pcie_generation),     GPU(pcie_generation_max),
    GPU(pcie_width),          GPU(pcie_width_max),
    GPU(nvlink_count),        GPU(throttle_reasons),
    GPU(numa_node),
};
static const ls_record_t gpu_record = LS_RECORD(gpu_rows, others);
static const ls_field_t gpu_each = LS_FIELD_EACH(ls_gpu_t, gpu_record);

/* Facts about every two GPUs: a row per GPU, with a value per GPU. */
static const char *const link_names[] = {"self", "nvlink", "pcie-switch", "host-bridge",
                                         "node", "system", "unknown",     NULL};
_Static_assert(LS_COUNT(link_names) == LS_LINK_UNKNOWN + 2, "one name per link");
static const ls_field_t link_cell = {.type = LS_FIELD_CHOICE,
                                     .size_bytes = sizeof(ls_link_t),
                                     .choices = link_names},
                        peer_cell = {.type = LS_FIELD_MAYBE, .size_bytes = sizeof(int)},
                        nvlinks_cell = {
                            .type = LS_FIELD_INT, .size_bytes = sizeof(int), .known = LS_KNOWN_FROM_0};
#define PER_GPU .count_offset = offsetof(ls_machine_t, gpu_count), .counted = true
#define LINE(cell)                                                                                           \
  {                                                                                                          \
    .type = LS_FIELD_LIST, .size_bytes = LS_GPU_MAX * sizeof(int), .each = (cell), PER_GPU,                  \
    .expected = "one value per GPU"                                                                          \
  }
static const ls_field_t link_line = LINE(&link_cell), peer_line = LINE(&peer_cell),
                        nvlinks_line = LINE(&nvlinks_cell);
_Static_assert(sizeof(ls_link_t) == sizeof(int), "cells of one size");
#define MATRIX(field, line)                                                                                  \
  LS_FIELD_OF(ls_machine_t, field, LS_FIELD_LIST, #field, .each = (line), PER_GPU,                           \
              .expected = "one row per GPU")

static const ls_field_t machine_rows[] = {
    TEXT(cpu_model),
    TEXT(cpu_flags),
    MACHINE(packages),
    MACHINE(cores),
    MACHINE(threads),
    MACHINE(usable_cpus),
    MACHINE(numa_nodes),
    MACHINE(l1_bytes),
    MACHINE(l2_bytes),
    MACHINE(l3_bytes),
    MACHINE(memory_bytes),
    TEXT(mpi),
    TEXT(nccl),
    TEXT(driver),
    TEXT(cuda),
    TEXT(blas),
    TEXT(openblas),
    TEXT(kernel),
    TEXT(virtualization),
    TEXT(gpu_refused),
    LS_FIELD_OF(ls_machine_t, gpu, LS_FIELD_LIST, "gpu", .each = &gpu_each,
                .count_offset = offsetof(ls_machine_t, gpu_count)),
    MATRIX(link, &link_line),
    MATRIX(peer_access, &peer_line),
    MATRIX(nvlinks, &nvlinks_line),
};
static const ls_record_t machine_record = LS_RECORD(machine_rows, others);

const char *ls_link_name(ls_link_t link) {
  return link_names[link];
}

void ls_machine_clear(ls_machine_t *machine) {
  memset(machine, 0, sizeof *machine);
  ls_record_clear(&machine_record, machine);
  for (int i = 0; i < LS_GPU_MAX; i++)
    for (int j = 0; j < LS_GPU_MAX; j++)
      machine->link[i][j] = i == j ? LS_LINK_SELF : LS_LINK_UNKNOWN;
}

json_t *ls_machine_json(const ls_machine_t *machine) {
  return ls_record_json(&machine_record, machine);
}

/* A GPU is linked to itself alone by "self", and two of them the same from both sides. */
static ls_status_t links_check(ls_ctx_t *ctx, const char *name, const ls_machine_t *m) {
  for (int i = 0; i < m->gpu_count; i++)
    for (int j = 0; j < m->gpu_count; j++)
      if ((i == j) != (m->link[i][j] == LS_LINK_SELF) || m->link[i][j] != m->link[j][i])
        return ls_fail(ctx, LS_ERR_CONFIG, "%s: machine: link[%d][%d]: %s expected", name, i, j,
                       i == j                          ? "\"self\" on the diagonal"
                       : m->link[i][j] == LS_LINK_SELF ? "another link than \"self\" beside the diagonal"
                                                       : "the same link from both sides");
  return LS_OK;
}

ls_status_t ls_machine_from_json(ls_ctx_t *ctx, const char *name, const json_t *json, ls_machine_t *out) {
  char place[256];
  snprintf(place, sizeof place, "%.200s: machine", name);
  const ls_field_source_t source = {ctx, place, LS_ERR_CONFIG, NULL};
  ls_machine_t *m = ls_alloc(ctx, sizeof *m); /* large: not for the stack */
  if (!m) return LS_ERR_MEMORY;
  ls_machine_clear(m);
  ls_status_t status = ls_record_read(&source, &machine_record, json, m);
  if (status == LS_OK) status = links_check(ctx, name, m);
  if (status == LS_OK) *out = *m;
  ls_free(m);
  return status;
}

ls_status_t ls_machine_load(ls_ctx_t *ctx, const char *path, ls_machine_t *machine) {
  json_t *json;
  ls_status_t status = ls_json_read(ctx, path, FILE_BYTES_MAX, LS_ERR_CONFIG, "", &json);
  if (status != LS_OK) return status;
  const json_t *inner = json_object_get(json, "machine");
  status = ls_machine_from_json(ctx, path, inner ? inner : json, machine);
  json_decref(json);
  return status;
}
