/* The part of NVML that lockstep uses, declared by its public binary interface: names, signatures and values
 * of NVIDIA's "NVML API Reference Guide". The driver brings the library, which is opened at run time; its
 * header is not needed. */
#ifndef LS_MACHINE_NVML_H
#define LS_MACHINE_NVML_H

#include <stdbool.h>
#include <stddef.h>

typedef void *ls_nvml_device_t; /* nvmlDevice_t */
typedef int ls_nvml_return_t;   /* nvmlReturn_t, 0 = NVML_SUCCESS */

enum { LS_NVML_TEXT_BYTES = 96, LS_NVML_LINKS_MAX = 18 };   /* NVML_NVLINK_MAX_LINKS */
enum { LS_NVML_CLOCK_SM = 1, LS_NVML_CLOCK_MEMORY = 2 };    /* nvmlClockType_t */
enum { LS_NVML_TEMPERATURE_GPU = 0 };                       /* nvmlTemperatureSensors_t */
enum { LS_NVML_P2P_READ = 0, LS_NVML_P2P_NVLINK = 2 };      /* nvmlGpuP2PCapsIndex_t */
enum { LS_NVML_P2P_OK = 0 };                                /* nvmlGpuP2PStatus_t */
enum { LS_NVML_REMOTE_GPU = 0, LS_NVML_REMOTE_SWITCH = 2 }; /* nvmlIntNvLinkDeviceType_t */
enum {
  LS_NVML_LEVEL_INTERNAL = 0,
  LS_NVML_LEVEL_SINGLE = 10,
  LS_NVML_LEVEL_MULTIPLE = 20,
  LS_NVML_LEVEL_HOSTBRIDGE = 30,
  LS_NVML_LEVEL_NODE = 40,
  LS_NVML_LEVEL_SYSTEM = 50
}; /* nvmlGpuTopologyLevel_t */

enum {
  LS_NVML_FIELD_MEMORY_TEMPERATURE = 82,
  LS_NVML_FIELD_PCIE_REPLAYS = 94,
  LS_NVML_FIELD_NVLINK_SENT = 138, /* KiB */
  LS_NVML_FIELD_NVLINK_RECEIVED = 139,
  LS_NVML_FIELD_PCIE_SENT = 197,
  LS_NVML_FIELD_PCIE_RECEIVED = 198,
  LS_NVML_FIELD_RECOVERY_ACTION = 230
};                                    /* NVML_FI_DEV_.. */
#define LS_NVML_ALL_LINKS 0xffffffffU /* scope of fields of NVLink */
enum {
  LS_NVML_REAL,
  LS_NVML_UNSIGNED,
  LS_NVML_UNSIGNED_LONG,
  LS_NVML_UNSIGNED_LONG_LONG,
  LS_NVML_LONG_LONG,
  LS_NVML_INT
};                                                       /* nvmlValueType_t */
enum { LS_NVML_ECC_CORRECTED, LS_NVML_ECC_UNCORRECTED }; /* nvmlMemoryErrorType_t */
enum { LS_NVML_ECC_AGGREGATE = 1 };                      /* nvmlEccCounterType_t */
enum { LS_NVML_EVENT_XID = 8 };                          /* nvmlEventTypeXidCriticalError */

typedef void *ls_nvml_events_t; /* nvmlEventSet_t */

typedef struct {
  ls_nvml_device_t device;
  unsigned long long type, data; /* data: the number of the XID */
  unsigned gpu_instance, compute_instance;
} ls_nvml_event_t; /* nvmlEventData_t */

typedef struct {
  unsigned id, scope;
  long long timestamp_us, latency_us;
  int type;
  ls_nvml_return_t result;
  union {
    double real;
    unsigned u;
    unsigned long ul;
    unsigned long long ull;
    long long ll;
    int i;
  } value;
} ls_nvml_field_t; /* nvmlFieldValue_t */

typedef struct {
  unsigned version;
  int celsius;
} ls_nvml_margin_t; /* nvmlMarginTemperature_v1_t */
#define LS_NVML_MARGIN_VERSION (sizeof(ls_nvml_margin_t) | 1U << 24)

typedef struct {
  unsigned long long total, free, used;
} ls_nvml_memory_t; /* nvmlMemory_t */

typedef struct {
  unsigned gpu, memory;  /* percent of the last sample period in which kernels ran, memory was accessed */
} ls_nvml_utilization_t; /* nvmlUtilization_t */

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} ls_nvml_pci_t; /* nvmlPciInfo_t */

/* X(field, symbol, arguments) */
#define LS_NVML_TABLE(X)                                                                                     \
  X(init, nvmlInit_v2, (void))                                                                               \
  X(shutdown, nvmlShutdown, (void))                                                                          \
  X(driver, nvmlSystemGetDriverVersion, (char *, unsigned))                                                  \
  X(cuda, nvmlSystemGetCudaDriverVersion_v2, (int *))                                                        \
  X(count, nvmlDeviceGetCount_v2, (unsigned *))                                                              \
  X(handle, nvmlDeviceGetHandleByIndex_v2, (unsigned, ls_nvml_device_t *))                                   \
  X(name, nvmlDeviceGetName, (ls_nvml_device_t, char *, unsigned))                                           \
  X(uuid, nvmlDeviceGetUUID, (ls_nvml_device_t, char *, unsigned))                                           \
  X(memory, nvmlDeviceGetMemoryInfo, (ls_nvml_device_t, ls_nvml_memory_t *))                                 \
  X(compute, nvmlDeviceGetCudaComputeCapability, (ls_nvml_device_t, int *, int *))                           \
  X(cores, nvmlDeviceGetNumGpuCores, (ls_nvml_device_t, unsigned *))                                         \
  X(clock, nvmlDeviceGetClockInfo, (ls_nvml_device_t, int, unsigned *))                                      \
  X(clock_max, nvmlDeviceGetMaxClockInfo, (ls_nvml_device_t, int, unsigned *))                               \
  X(power, nvmlDeviceGetPowerUsage, (ls_nvml_device_t, unsigned *))                                          \
  X(power_limit, nvmlDeviceGetEnforcedPowerLimit, (ls_nvml_device_t, unsigned *))                            \
  X(temperature, nvmlDeviceGetTemperature, (ls_nvml_device_t, int, unsigned *))                              \
  X(generation, nvmlDeviceGetCurrPcieLinkGeneration, (ls_nvml_device_t, unsigned *))                         \
  X(generation_max, nvmlDeviceGetMaxPcieLinkGeneration, (ls_nvml_device_t, unsigned *))                      \
  X(width, nvmlDeviceGetCurrPcieLinkWidth, (ls_nvml_device_t, unsigned *))                                   \
  X(width_max, nvmlDeviceGetMaxPcieLinkWidth, (ls_nvml_device_t, unsigned *))                                \
  X(pci, nvmlDeviceGetPciInfo_v3, (ls_nvml_device_t, ls_nvml_pci_t *))                                       \
  X(throttle, nvmlDeviceGetCurrentClocksThrottleReasons, (ls_nvml_device_t, unsigned long long *))           \
  X(utilization, nvmlDeviceGetUtilizationRates, (ls_nvml_device_t, ls_nvml_utilization_t *))                 \
  X(energy, nvmlDeviceGetTotalEnergyConsumption, (ls_nvml_device_t, unsigned long long *))                   \
  X(margin, nvmlDeviceGetMarginTemperature, (ls_nvml_device_t, ls_nvml_margin_t *))                          \
  X(fields, nvmlDeviceGetFieldValues, (ls_nvml_device_t, int, ls_nvml_field_t *))                            \
  X(ecc, nvmlDeviceGetTotalEccErrors, (ls_nvml_device_t, int, int, unsigned long long *))                    \
  X(events_create, nvmlEventSetCreate, (ls_nvml_events_t *))                                                 \
  X(events_register, nvmlDeviceRegisterEvents, (ls_nvml_device_t, unsigned long long, ls_nvml_events_t))     \
  X(events_wait, nvmlEventSetWait_v2, (ls_nvml_events_t, ls_nvml_event_t *, unsigned))                       \
  X(events_free, nvmlEventSetFree, (ls_nvml_events_t))                                                       \
  X(nvlink_state, nvmlDeviceGetNvLinkState, (ls_nvml_device_t, unsigned, int *))                             \
  X(nvlink_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType, (ls_nvml_device_t, unsigned, int *))            \
  X(nvlink_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2, (ls_nvml_device_t, unsigned, ls_nvml_pci_t *))   \
  X(ancestor, nvmlDeviceGetTopologyCommonAncestor, (ls_nvml_device_t, ls_nvml_device_t, int *))              \
  X(p2p, nvmlDeviceGetP2PStatus, (ls_nvml_device_t, ls_nvml_device_t, int, int *))

/* Functions that an older driver lacks are NULL. */
typedef struct {
  void *library;
  const char *(*error_text)(ls_nvml_return_t);
#define LS_NVML_FIELD(field, symbol, arguments) ls_nvml_return_t(*field) arguments;
  LS_NVML_TABLE(LS_NVML_FIELD)
#undef LS_NVML_FIELD
} ls_nvml_t;

/* gpu.c: opens and starts the library; false with a reason. A started one is closed by its user. */
bool ls_nvml_open(ls_nvml_t *nvml, char *why, size_t why_bytes);
void ls_nvml_close(ls_nvml_t *nvml);

#endif
