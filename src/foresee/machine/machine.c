/* A machine as a whole: reads it from its sources, and computes its identity, the rows that must agree before
 * times of one machine are valid on another. */
#include "machine/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

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

/* The rows of the machine itself; GPUs and pairs of GPUs follow. */
#define ROW(field, name) LS_FIELD_AS(ls_machine_t, field, name)
static const ls_field_t rows[] = {
    ROW(cpu_model, "cpu model"),
    ROW(cpu_flags, "cpu instructions"),
    ROW(cores, "cores"),
    ROW(threads, "hardware threads"),
    ROW(usable_cpus, "usable cpus"),
    ROW(packages, "packages"),
    ROW(numa_nodes, "numa nodes"),
    ROW(l1_bytes, "l1 bytes"),
    ROW(l2_bytes, "l2 bytes"),
    ROW(l3_bytes, "l3 bytes"),
    ROW(mpi, "mpi"),
    ROW(nccl, "nccl"),
    ROW(driver, "driver"),
    ROW(cuda, "cuda"),
    ROW(blas, "blas"),
    ROW(gpu_count, "gpus"),
};

/* Facts that stay fixed while the machine runs: not clocks, temperature, or the generation to which an idle
 * link falls back. */
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
    snprintf(identity->name, sizeof identity->name, "%s", rows[row].name);
    ls_field_text(&rows[row], m, identity->value, sizeof identity->value);
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

/* Equals XXH3-64 over "name\0value\0" of every row. Each row's hash seeds the next one, so nothing is
 * allocated. */
void ls_machine_fingerprint(const ls_machine_t *machine, char hex[17]) {
  ls_identity_t identity;
  XXH64_hash_t hash = 0;
  for (int row = 0; ls_machine_identity(machine, row, &identity); row++) {
    hash = XXH3_64bits_withSeed(identity.name, strlen(identity.name) + 1, hash);
    hash = XXH3_64bits_withSeed(identity.value, strlen(identity.value) + 1, hash);
  }
  snprintf(hex, 17, "%016" PRIx64, (uint64_t)hash);
}
