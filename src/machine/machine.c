/* A machine as a whole: reading it from its sources, and its identity: the rows that must agree for times
 * measured on one machine to be worth anything on another. */
#include "machine/parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

void ls_gpu_clear(ls_gpu_t *gpu) {
  *gpu = (ls_gpu_t){.memory_bytes = -1,
                    .sm_count = -1,
                    .compute_major = -1,
                    .compute_minor = -1,
                    .clock_sm_mhz = -1,
                    .clock_sm_max_mhz = -1,
                    .clock_memory_mhz = -1,
                    .power_w = -1,
                    .power_limit_w = -1,
                    .temperature_c = -1,
                    .pcie_generation = -1,
                    .pcie_generation_max = -1,
                    .pcie_width = -1,
                    .pcie_width_max = -1,
                    .nvlink_count = -1,
                    .throttle_reasons = -1,
                    .numa_node = -1};
}

void ls_machine_clear(ls_machine_t *machine) {
  *machine = (ls_machine_t){.packages = -1,
                            .cores = -1,
                            .threads = -1,
                            .usable_cpus = -1,
                            .numa_nodes = -1,
                            .l1_bytes = -1,
                            .l2_bytes = -1,
                            .l3_bytes = -1,
                            .memory_bytes = -1};
  for (int i = 0; i < LS_GPU_MAX; i++) {
    ls_gpu_clear(&machine->gpu[i]);
    for (int j = 0; j < LS_GPU_MAX; j++) {
      machine->link[i][j] = i == j ? LS_LINK_SELF : LS_LINK_UNKNOWN;
      machine->peer_access[i][j] = machine->nvlinks[i][j] = -1;
    }
  }
}

ls_status_t ls_machine_read(ls_ctx_t *ctx, ls_machine_t *out) {
  ls_machine_t *machine = ls_alloc(ctx, sizeof *machine); /* large: not for the stack */
  if (!machine) return LS_ERR_MEMORY;
  ls_machine_clear(machine);
  ls_machine_read_host(machine);
  ls_machine_read_libraries(machine);
  ls_machine_read_gpus(machine);
  *out = *machine;
  ls_free(machine);
  return LS_OK;
}

const char *ls_link_name(ls_link_t link) {
  static const char *const names[] = {"self", "nvlink", "pcie-switch", "host-bridge",
                                      "node", "system", "unknown"};
  static_assert(LS_COUNT(names) == LS_LINK_UNKNOWN + 1, "one name per link");
  return names[link];
}

/* The rows of the machine itself; GPUs and pairs of GPUs follow. */
typedef struct {
  const char *name;
  size_t offset;
  enum { ROW_TEXT, ROW_INT, ROW_INT64 } type;
} identity_row_t;
#define ROW(name_, field, type_)                                                                             \
  { name_, offsetof(ls_machine_t, field), type_ }
static const identity_row_t rows[] = {
    ROW("cpu model", cpu_model, ROW_TEXT),
    ROW("cpu instructions", cpu_flags, ROW_TEXT),
    ROW("cores", cores, ROW_INT),
    ROW("hardware threads", threads, ROW_INT),
    ROW("usable cpus", usable_cpus, ROW_INT),
    ROW("packages", packages, ROW_INT),
    ROW("numa nodes", numa_nodes, ROW_INT),
    ROW("l1 bytes", l1_bytes, ROW_INT64),
    ROW("l2 bytes", l2_bytes, ROW_INT64),
    ROW("l3 bytes", l3_bytes, ROW_INT64),
    ROW("mpi", mpi, ROW_TEXT),
    ROW("nccl", nccl, ROW_TEXT),
    ROW("driver", driver, ROW_TEXT),
    ROW("cuda", cuda, ROW_TEXT),
    ROW("blas", blas, ROW_TEXT),
    ROW("gpus", gpu_count, ROW_INT),
};

static void machine_row(const ls_machine_t *m, const identity_row_t *row, ls_identity_t *identity) {
  const char *field = (const char *)m + row->offset;
  snprintf(identity->name, sizeof identity->name, "%s", row->name);
  switch (row->type) {
  case ROW_TEXT:
    snprintf(identity->value, sizeof identity->value, "%s", field);
    return;
  case ROW_INT:
    snprintf(identity->value, sizeof identity->value, "%d", *(const int *)field);
    return;
  case ROW_INT64:
    snprintf(identity->value, sizeof identity->value, "%" PRId64, *(const int64_t *)field);
    return;
  }
}

/* What is fixed while it runs: not clocks, temperature or the generation that an idle link falls back to. */
static void gpu_row(const ls_machine_t *m, int i, ls_identity_t *identity) {
  const ls_gpu_t *g = &m->gpu[i];
  snprintf(identity->name, sizeof identity->name, "gpu %d", i);
  snprintf(identity->value, sizeof identity->value,
           "%s, %" PRId64 " bytes, %d SMs, %.0f W, PCIe width %d, %d NVLinks", g->name, g->memory_bytes,
           g->sm_count, g->power_limit_w, g->pcie_width, g->nvlink_count);
}

static void pair_row(const ls_machine_t *m, int i, int j, ls_identity_t *identity) {
  snprintf(identity->name, sizeof identity->name, "gpus %d-%d", i, j);
  snprintf(identity->value, sizeof identity->value, "%s, peer access %d, %d NVLinks",
           ls_link_name(m->link[i][j]), m->peer_access[i][j], m->nvlinks[i][j]);
}

bool ls_machine_identity(const ls_machine_t *m, int row, ls_identity_t *identity) {
  if (row < LS_COUNT(rows)) {
    machine_row(m, &rows[row], identity);
    return true;
  }
  row -= LS_COUNT(rows);
  if (row < m->gpu_count) {
    gpu_row(m, row, identity);
    return true;
  }
  row -= m->gpu_count;
  for (int i = 0; i < m->gpu_count; i++) {
    int pairs = m->gpu_count - 1 - i;
    if (row < pairs) {
      pair_row(m, i, i + 1 + row, identity);
      return true;
    }
    row -= pairs;
  }
  return false;
}

/* The same as XXH3-64 over "name\0value\0" of every row; each row's hash is folded into the next one's seed,
 * so that nothing is allocated. */
void ls_machine_fingerprint(const ls_machine_t *machine, char hex[17]) {
  ls_identity_t identity;
  XXH64_hash_t hash = 0;
  for (int row = 0; ls_machine_identity(machine, row, &identity); row++) {
    hash = XXH3_64bits_withSeed(identity.name, strlen(identity.name) + 1, hash);
    hash = XXH3_64bits_withSeed(identity.value, strlen(identity.value) + 1, hash);
  }
  snprintf(hex, 17, "%016" PRIx64, (uint64_t)hash);
}
