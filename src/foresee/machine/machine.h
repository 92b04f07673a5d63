/* Describes a machine: processors, memory, GPUs and their links, library versions. A machine can be recorded
 * as JSON and replayed, so tests cover machines that are not present. Fields that could not be read are
 * negative (numbers) or "" (texts): every source may refuse. */
#ifndef LS_MACHINE_MACHINE_H
#define LS_MACHINE_MACHINE_H

#include "base/base.h"
#include <jansson.h>

enum { LS_GPU_MAX = 16, LS_NAME_BYTES = 96 };

typedef enum {
  LS_LINK_SELF,
  LS_LINK_NVLINK,
  LS_LINK_PCIE_SWITCH,
  LS_LINK_HOST_BRIDGE,
  LS_LINK_NODE,
  LS_LINK_SYSTEM,
  LS_LINK_UNKNOWN
} ls_link_t; /* nearest common ancestor of two GPUs */

typedef struct {
  char name[LS_NAME_BYTES], uuid[LS_NAME_BYTES];
  int64_t memory_bytes;
  int sm_count, compute_major, compute_minor;
  int clock_sm_mhz, clock_sm_max_mhz, clock_memory_mhz;
  double power_w, power_limit_w;
  int temperature_c;
  int pcie_generation, pcie_generation_max, pcie_width, pcie_width_max;
  int nvlink_count;
  int64_t throttle_reasons; /* NVML's bits; -1 = refused */
  int numa_node;
} ls_gpu_t;

typedef struct {
  char cpu_model[LS_NAME_BYTES], cpu_flags[LS_NAME_BYTES]; /* flags: the relevant SIMD level, "avx512" */
  int packages, cores, threads, usable_cpus, numa_nodes;
  int64_t l1_bytes, l2_bytes, l3_bytes, memory_bytes;
  int gpu_count;
  ls_gpu_t gpu[LS_GPU_MAX];
  ls_link_t link[LS_GPU_MAX][LS_GPU_MAX];
  int peer_access[LS_GPU_MAX][LS_GPU_MAX]; /* 1, 0, -1 = unknown */
  int nvlinks[LS_GPU_MAX][LS_GPU_MAX];     /* between the pair; -1 = unknown */
  char mpi[LS_NAME_BYTES], nccl[LS_NAME_BYTES], driver[LS_NAME_BYTES], cuda[LS_NAME_BYTES];
  char blas[LS_NAME_BYTES]; /* "oneDNN 2.6.3", "OpenBLAS 0.3.21 Prescott" */
  char openblas
      [LS_NAME_BYTES]; /* the OpenBLAS that other programs use here, "OpenBLAS 0.3.21 Prescott"; "" = not
                        * asked */
  char kernel[LS_NAME_BYTES], virtualization[LS_NAME_BYTES];
  char gpu_refused[256]; /* why GPUs could not be read; "" = they could */
} ls_machine_t;

/* Everything unknown: numbers negative, texts empty, no GPU. */
void ls_machine_clear(ls_machine_t *machine);
/* Reads this machine. Missing facts are no failure. */
ls_status_t ls_machine_read(ls_ctx_t *ctx, ls_machine_t *machine);

/* Fills machine->openblas if the system has that library. Loading it starts its threads, so call this after
 * measuring. */
void ls_machine_read_openblas(ls_machine_t *machine);

/* The facts on which times depend (CPU, cores, caches, GPUs, links, library versions), as rows: the row's
 * name and its value here. False after the last row. */
typedef struct {
  char name[32], value[LS_NAME_BYTES * 2];
} ls_identity_t;
bool ls_machine_identity(const ls_machine_t *machine, int row, ls_identity_t *identity);
/* Fingerprint: hex of XXH3-64 over the rows of ls_machine_identity. */
void ls_machine_fingerprint(const ls_machine_t *machine, char hex[17]);

/* limit.c: MemTotal of /proc/meminfo, or the smallest limit of this process's control groups if that is less; -1 = not
 * known. NUMA nodes and hwloc's sum of them are not used, because they miss memory that a virtual machine got after it
 * was started. `root` is put before /proc and /sys: "" or, in tests, a folder. */
int64_t ls_machine_memory(const char *root);
/* The bytes that this process may still take: MemAvailable, or the rest that the control groups allow if that is
 * less; -1 = not known. */
int64_t ls_machine_memory_free(const char *root);

/* The machine as JSON; unknown fields are null or absent. New reference; NULL when memory is short. */
json_t *ls_machine_json(const ls_machine_t *machine);
/* Reads that JSON. Messages use `name` as the name of the file. Every value is checked; LS_ERR_CONFIG names the
 * key. Keys "source" and "note" are for people and skipped; other unknown keys are errors. */
ls_status_t ls_machine_from_json(ls_ctx_t *ctx, const char *name, const json_t *json, ls_machine_t *machine);
/* A recorded machine: a JSON file with the machine at its root or under "machine" (a profile, probe --json).
 */
ls_status_t ls_machine_load(ls_ctx_t *ctx, const char *path, ls_machine_t *machine);
const char *ls_link_name(ls_link_t link); /* "nvlink", "host-bridge" */
/* Draws the node as a tree and the GPUs as a matrix, for people. The caller owns the text (ls_free). */
char *ls_machine_draw(const ls_machine_t *machine);

#endif
