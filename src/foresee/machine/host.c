/* This node: processors, caches and NUMA nodes from hwloc; the CPU's name, memory, kernel and virtualization
 * from Linux and the processor. */
#include "machine/parts.h"

#include <hwloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define LS_X86 1
#endif

static int count_of(hwloc_topology_t topology, hwloc_obj_type_t type) {
  int count = hwloc_get_nbobjs_by_type(topology, type);
  return count > 0 ? count : -1;
}

/* Size of one instance. */
static int64_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type) {
  hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);
  return cache && cache->attr->cache.size ? (int64_t)cache->attr->cache.size : -1;
}

static void read_topology(ls_machine_t *m) {
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return;
  if (hwloc_topology_load(topology) != 0) goto topology;
  m->packages = count_of(topology, HWLOC_OBJ_PACKAGE);
  m->cores = count_of(topology, HWLOC_OBJ_CORE);
  m->threads = count_of(topology, HWLOC_OBJ_PU);
  m->numa_nodes = count_of(topology, HWLOC_OBJ_NUMANODE);
  m->l1_bytes = cache_bytes(topology, HWLOC_OBJ_L1CACHE);
  m->l2_bytes = cache_bytes(topology, HWLOC_OBJ_L2CACHE);
  m->l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE);
  hwloc_obj_t root = hwloc_get_root_obj(topology),
              package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
  const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
  if (!model) model = hwloc_obj_get_info_by_name(root, "CPUModel");
  snprintf(m->cpu_model, sizeof m->cpu_model, "%.*s", LS_NAME_BYTES - 1, model ? model : "");
topology:
  hwloc_topology_destroy(topology);
}

/* The instruction set that the CPU backend would use. */
static const char *simd(void) {
#ifdef LS_X86
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")) return "avx512";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "avx2";
  return "sse2";
#elif defined(__aarch64__)
  return "neon";
#else
  return "";
#endif
}

/* Bit 31 of leaf 1's ECX says that a hypervisor is present; leaf 0x40000000 has its name (Linux, cpuid(4); the
 * hypervisors document these names). */
static const char *hypervisor(void) {
#ifdef LS_X86
  static const struct {
    const char *signature, *name;
  } known[] = {{"KVMKVMKVM", "kvm"},    {"Microsoft Hv", "hyper-v"}, {"VMwareVMware", "vmware"},
               {"XenVMMXenVMM", "xen"}, {"TCGTCGTCGTCG", "qemu"},    {"bhyve bhyve ", "bhyve"}};
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 31 & 1)) return "";
  __cpuid(0x40000000, a, b, c, d);
  char signature[13] = "";
  memcpy(signature, &b, 4);
  memcpy(signature + 4, &c, 4);
  memcpy(signature + 8, &d, 4);
  for (int i = 0; i < LS_COUNT(known); i++)
    if (!strcmp(signature, known[i].signature)) return known[i].name;
  return "virtual machine";
#else
  return "";
#endif
}

/* Files that container engines leave. */
static const char *container(void) {
  if (access("/.dockerenv", F_OK) == 0) return "docker";
  if (access("/run/.containerenv", F_OK) == 0) return "podman";
  if (access("/.singularity.d", F_OK) == 0) return "apptainer";
  return "";
}

static void read_kernel(ls_machine_t *m) {
  struct utsname name;
  if (uname(&name) == 0) snprintf(m->kernel, sizeof m->kernel, "%.15s %.70s", name.sysname, name.release);
  const char *vm = hypervisor(), *box = container();
  snprintf(m->virtualization, sizeof m->virtualization, "%s%s%s", vm, *vm && *box ? ", " : "", box);
}

void ls_machine_read_host(ls_machine_t *machine) {
  read_topology(machine);
  machine->memory_bytes = ls_machine_memory("");
  machine->usable_cpus = ls_cpu_count();
  snprintf(machine->cpu_flags, sizeof machine->cpu_flags, "%s", simd());
  read_kernel(machine);
}
