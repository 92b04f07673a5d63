/* GPUs and their links, from NVML; the version of NCCL, from the library itself. NVML may refuse any question
 * (old driver, container, consumer card): then only that field stays unknown. */
#include "machine/nvml.h"
#include "machine/parts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ISO C has no cast from object to function pointer. */
static void symbol(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  memcpy(function, &found, sizeof found);
}

bool ls_nvml_open(ls_nvml_t *nvml, char *why, size_t why_bytes) {
  *nvml = (ls_nvml_t){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  if (!nvml->library) {
    const char *text = dlerror();
    snprintf(why, why_bytes, "%s", text ? text : "libnvidia-ml.so.1 cannot be opened");
    return false;
  }
  symbol(nvml->library, "nvmlErrorString", &nvml->error_text);
#define LOAD(field, name, arguments) symbol(nvml->library, #name, &nvml->field);
  LS_NVML_TABLE(LOAD)
#undef LOAD
  int error = nvml->init ? nvml->init() : -1;
  if (error == 0 && nvml->count && nvml->handle) return true;
  snprintf(why, why_bytes, "NVML does not start: %s",
           error && nvml->init && nvml->error_text ? nvml->error_text(error) : "the library is too old");
  if (error == 0 && nvml->shutdown) nvml->shutdown();
  dlclose(nvml->library);
  return false;
}

void ls_nvml_close(ls_nvml_t *nvml) {
  if (nvml->shutdown) nvml->shutdown();
  dlclose(nvml->library);
}

typedef ls_nvml_return_t (*ask_t)(ls_nvml_device_t, unsigned *);
typedef ls_nvml_return_t (*ask_kind_t)(ls_nvml_device_t, int, unsigned *);

/* -1 when the driver lacks the function, refuses, or answers nonsense. */
static int ask(ask_t function, ls_nvml_device_t device) {
  unsigned value;
  return function && function(device, &value) == 0 && value <= INT32_MAX ? (int)value : -1;
}

static int ask_kind(ask_kind_t function, ls_nvml_device_t device, int kind) {
  unsigned value;
  return function && function(device, kind, &value) == 0 && value <= INT32_MAX ? (int)value : -1;
}

static double watts(int milliwatts) {
  return milliwatts < 0 ? -1 : milliwatts / 1000.0;
}

/* CUDA cores per multiprocessor (CUDA C++ Programming Guide, "Compute Capabilities"). */
static int cores_per_sm(int major, int minor) {
  if (major == 6) return minor == 0 ? 64 : 128;
  if (major == 7) return 64;
  if (major == 8) return minor == 0 ? 64 : 128;
  return major == 5 || major >= 9 ? 128 : -1;
}

/* Bus addresses as the kernel names them: "0000:17:00.0". */
static int numa_node(const ls_nvml_pci_t *pci) {
  char path[96];
  int node = -1;
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", pci->domain, pci->bus,
           pci->device);
  FILE *file = fopen(path, "re");
  if (!file) return -1;
  if (fscanf(file, "%9d", &node) != 1) node = -1;
  fclose(file);
  return node;
}

static int active_links(const ls_nvml_t *nvml, ls_nvml_device_t device) {
  if (!nvml->nvlink_state) return -1;
  int count = 0, refused = 0, active;
  for (unsigned link = 0; link < LS_NVML_LINKS_MAX; link++) {
    if (nvml->nvlink_state(device, link, &active) != 0)
      refused++;
    else if (active == 1)
      count++;
  }
  return refused == LS_NVML_LINKS_MAX ? 0 : count; /* cards without NVLink refuse every link */
}

static void read_gpu(const ls_nvml_t *nvml, ls_nvml_device_t device, ls_gpu_t *g) {
  ls_nvml_memory_t memory;
  ls_nvml_pci_t pci;
  unsigned long long throttle;
  int major, minor;
  if (!nvml->name || nvml->name(device, g->name, sizeof g->name) != 0) g->name[0] = '\0';
  if (!nvml->uuid || nvml->uuid(device, g->uuid, sizeof g->uuid) != 0) g->uuid[0] = '\0';
  if (nvml->memory && nvml->memory(device, &memory) == 0 && memory.total <= INT64_MAX)
    g->memory_bytes = (int64_t)memory.total;
  if (nvml->compute && nvml->compute(device, &major, &minor) == 0) {
    g->compute_major = major;
    g->compute_minor = minor;
  }
  int cores = ask(nvml->cores, device), per_sm = cores_per_sm(g->compute_major, g->compute_minor);
  if (cores > 0 && per_sm > 0) g->sm_count = cores / per_sm;
  g->clock_sm_mhz = ask_kind(nvml->clock, device, LS_NVML_CLOCK_SM);
  g->clock_sm_max_mhz = ask_kind(nvml->clock_max, device, LS_NVML_CLOCK_SM);
  g->clock_memory_mhz = ask_kind(nvml->clock, device, LS_NVML_CLOCK_MEMORY);
  g->power_w = watts(ask(nvml->power, device));
  g->power_limit_w = watts(ask(nvml->power_limit, device));
  g->temperature_c = ask_kind(nvml->temperature, device, LS_NVML_TEMPERATURE_GPU);
  g->pcie_generation = ask(nvml->generation, device);
  g->pcie_generation_max = ask(nvml->generation_max, device);
  g->pcie_width = ask(nvml->width, device);
  g->pcie_width_max = ask(nvml->width_max, device);
  g->nvlink_count = active_links(nvml, device);
  if (nvml->throttle && nvml->throttle(device, &throttle) == 0 && throttle <= INT64_MAX)
    g->throttle_reasons = (int64_t)throttle;
  if (nvml->pci && nvml->pci(device, &pci) == 0) g->numa_node = numa_node(&pci);
}

/* Links of `from` that end at `to`, or at a switch to which both are connected; -1 = not known. */
static int links_between(const ls_nvml_t *nvml, ls_nvml_device_t from, ls_nvml_device_t to) {
  ls_nvml_pci_t there, remote;
  if (!nvml->nvlink_state || !nvml->nvlink_remote_pci || !nvml->pci || nvml->pci(to, &there) != 0) return -1;
  int count = 0, active, type;
  for (unsigned link = 0; link < LS_NVML_LINKS_MAX; link++) {
    if (nvml->nvlink_state(from, link, &active) != 0 || active != 1) continue;
    bool known = nvml->nvlink_remote_type && nvml->nvlink_remote_type(from, link, &type) == 0;
    if (known && type == LS_NVML_REMOTE_SWITCH)
      count++;
    else if (nvml->nvlink_remote_pci(from, link, &remote) == 0)
      count += remote.domain == there.domain && remote.bus == there.bus && remote.device == there.device;
  }
  return count;
}

static ls_link_t link_of_level(int level) {
  switch (level) {
  case LS_NVML_LEVEL_INTERNAL:
  case LS_NVML_LEVEL_SINGLE:
  case LS_NVML_LEVEL_MULTIPLE:
    return LS_LINK_PCIE_SWITCH;
  case LS_NVML_LEVEL_HOSTBRIDGE:
    return LS_LINK_HOST_BRIDGE;
  case LS_NVML_LEVEL_NODE:
    return LS_LINK_NODE;
  case LS_NVML_LEVEL_SYSTEM:
    return LS_LINK_SYSTEM;
  default:
    return LS_LINK_UNKNOWN;
  }
}

static void read_pair(const ls_nvml_t *nvml, const ls_nvml_device_t *device, int i, int j, ls_machine_t *m) {
  int status, level;
  if (nvml->p2p && nvml->p2p(device[i], device[j], LS_NVML_P2P_READ, &status) == 0)
    m->peer_access[i][j] = status == LS_NVML_P2P_OK;
  m->nvlinks[i][j] = links_between(nvml, device[i], device[j]);
  bool nvlink = m->nvlinks[i][j] > 0;
  if (m->nvlinks[i][j] < 0 && nvml->p2p && nvml->p2p(device[i], device[j], LS_NVML_P2P_NVLINK, &status) == 0)
    nvlink = status == LS_NVML_P2P_OK;
  if (nvlink)
    m->link[i][j] = LS_LINK_NVLINK;
  else if (nvml->ancestor && nvml->ancestor(device[i], device[j], &level) == 0)
    m->link[i][j] = link_of_level(level);
}

static void read_devices(const ls_nvml_t *nvml, ls_machine_t *m) {
  ls_nvml_device_t device[LS_GPU_MAX];
  unsigned count = 0;
  int error = nvml->count(&count);
  if (error) {
    snprintf(m->gpu_refused, sizeof m->gpu_refused, "NVML counts no devices: %s",
             nvml->error_text ? nvml->error_text(error) : "no reason given");
    return;
  }
  for (unsigned i = 0; i < count && m->gpu_count < LS_GPU_MAX; i++) {
    if (nvml->handle(i, &device[m->gpu_count]) != 0) continue; /* no permission, or fallen off the bus */
    read_gpu(nvml, device[m->gpu_count], &m->gpu[m->gpu_count]);
    m->gpu_count++;
  }
  if (m->gpu_count < (int)count)
    snprintf(m->gpu_refused, sizeof m->gpu_refused, "%d of %u GPUs could be read", m->gpu_count, count);
  for (int i = 0; i < m->gpu_count; i++)
    for (int j = 0; j < m->gpu_count; j++)
      if (i != j) read_pair(nvml, device, i, j, m);
}

static void read_versions(const ls_nvml_t *nvml, ls_machine_t *m) {
  int cuda;
  if (!nvml->driver || nvml->driver(m->driver, sizeof m->driver) != 0) m->driver[0] = '\0';
  if (nvml->cuda && nvml->cuda(&cuda) == 0)
    snprintf(m->cuda, sizeof m->cuda, "%d.%d", cuda / 1000, cuda % 1000 / 10);
}

/* ncclGetVersion: major * 10000 + minor * 100 + patch (NCCL documentation, "ncclGetVersion"). */
static void read_nccl(ls_machine_t *m) {
  int (*get_version)(int *), v;
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  symbol(library, "ncclGetVersion", &get_version);
  if (get_version && get_version(&v) == 0 && v > 0)
    snprintf(m->nccl, sizeof m->nccl, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
  dlclose(library);
}

void ls_machine_read_gpus(ls_machine_t *m) {
  ls_nvml_t nvml;
  if (!ls_nvml_open(&nvml, m->gpu_refused, sizeof m->gpu_refused)) return;
  read_versions(&nvml, m);
  read_devices(&nvml, m);
  ls_nvml_close(&nvml);
  if (m->gpu_count > 0) read_nccl(m);
}
