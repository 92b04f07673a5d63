/* A double of libnvidia-ml.so.1. FAKE_NVML says which machine it plays:
 *   switch  two GPUs on NVLink switches        bridge  two GPUs behind a host bridge, no peer access
 *   direct  two GPUs, two links between them   half    every second question is refused
 *   broken  it does not start                  lost    the first of two GPUs does not answer
 *   slow    one answer takes 20 ms
 *   pulse   heat limits its clocks in a few answers, the 2000th and those after it */
#include "machine/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, REFUSED = 3, NO_DRIVER = 9, TIMED_OUT = 10 };

static int playing(const char *name) {
  const char *scene = getenv("FAKE_NVML");
  return scene && strcmp(scene, name) == 0;
}

/* Questions with an odd number are refused in "half". */
static int refused(int question) {
  return playing("half") && question % 2 == 1;
}

static int index_of(ls_nvml_device_t device) {
  return *(const int *)device;
}

#pragma GCC visibility push(default) /* the build hides what is not marked */
#define DECLARE(field, symbol, arguments) ls_nvml_return_t symbol arguments;
LS_NVML_TABLE(DECLARE)
const char *nvmlErrorString(ls_nvml_return_t error);
#pragma GCC visibility pop

const char *nvmlErrorString(ls_nvml_return_t error) {
  return error == NO_DRIVER ? "Driver Not Loaded" : "Not Supported";
}
int nvmlInit_v2(void) {
  return playing("broken") ? NO_DRIVER : OK;
}
int nvmlShutdown(void) {
  return OK;
}

int nvmlSystemGetDriverVersion(char *text, unsigned size) {
  snprintf(text, size, "550.54.14");
  return OK;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  *version = 12040;
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 2;
  return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, ls_nvml_device_t *device) {
  static int indices[2] = {0, 1};
  if (index > 1 || (index == 0 && playing("lost"))) return REFUSED;
  *device = &indices[index];
  return OK;
}

int nvmlDeviceGetName(ls_nvml_device_t device, char *text, unsigned size) {
  snprintf(text, size, "Fake GPU %d", index_of(device));
  return OK;
}

int nvmlDeviceGetUUID(ls_nvml_device_t device, char *text, unsigned size) {
  snprintf(text, size, "GPU-%d", index_of(device));
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetMemoryInfo(ls_nvml_device_t device, ls_nvml_memory_t *memory) {
  (void)device;
  memory->total = 16ull << 30;
  memory->used = 3000000000;
  return OK;
}

int nvmlDeviceGetCudaComputeCapability(ls_nvml_device_t device, int *major, int *minor) {
  (void)device;
  *major = 8;
  *minor = 9;
  return OK;
}

/* One number each. */
#define NUMBER(symbol, question, number)                                                                     \
  int symbol(ls_nvml_device_t device, unsigned *value) {                                                     \
    (void)device;                                                                                            \
    *value = number;                                                                                         \
    return refused(question) ? REFUSED : OK;                                                                 \
  }
NUMBER(nvmlDeviceGetNumGpuCores, 0, 66 * 128)
NUMBER(nvmlDeviceGetPowerUsage, 1, 200500)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, 0, 285000)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, 1, 1)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 0, 4)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, 1, 8)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 0, 16)

int nvmlDeviceGetClockInfo(ls_nvml_device_t device, int clock, unsigned *mhz) {
  (void)device;
  *mhz = clock == LS_NVML_CLOCK_SM ? 2610 : clock == LS_NVML_CLOCK_MEMORY ? 10501 : 1;
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetMaxClockInfo(ls_nvml_device_t device, int clock, unsigned *mhz) {
  (void)device;
  *mhz = clock == LS_NVML_CLOCK_SM ? 3105 : 1;
  return OK;
}

int nvmlDeviceGetTemperature(ls_nvml_device_t device, int sensor, unsigned *celsius) {
  *celsius = 60 + (unsigned)index_of(device);
  return sensor == LS_NVML_TEMPERATURE_GPU ? OK : REFUSED;
}

int nvmlDeviceGetPciInfo_v3(ls_nvml_device_t device, ls_nvml_pci_t *pci) {
  *pci = (ls_nvml_pci_t){.domain = 0xffff, .bus = (unsigned)index_of(device) + 1};
  return OK;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(ls_nvml_device_t device, unsigned long long *reasons) {
  static int questions;
  (void)device;
  *reasons = 4;
  if (playing("pulse")) *reasons = ++questions >= 2000 && questions < 2004 ? 0x20 : 0;
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetUtilizationRates(ls_nvml_device_t device, ls_nvml_utilization_t *used) {
  (void)device;
  if (playing("slow")) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  *used = (ls_nvml_utilization_t){.gpu = 40, .memory = 10};
  return refused(0) ? REFUSED : OK;
}

/* 10 mJ more at every question. */
int nvmlDeviceGetTotalEnergyConsumption(ls_nvml_device_t device, unsigned long long *energy_mj) {
  static unsigned long long counter[2];
  *energy_mj = counter[index_of(device)] += 10;
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetMarginTemperature(ls_nvml_device_t device, ls_nvml_margin_t *margin) {
  margin->celsius = -3 - index_of(device);
  return margin->version == 0x1000008 && !refused(1) ? OK : REFUSED;
}

/* Every field is its id, in each of the types in turn; an unknown one is refused alone. */
int nvmlDeviceGetFieldValues(ls_nvml_device_t device, int count, ls_nvml_field_t *fields) {
  (void)device;
  for (int i = 0; i < count; i++) {
    ls_nvml_field_t *f = &fields[i];
    const bool link = f->id == LS_NVML_FIELD_NVLINK_SENT || f->id == LS_NVML_FIELD_NVLINK_RECEIVED;
    f->result =
        f->id == LS_NVML_FIELD_RECOVERY_ACTION || f->scope != (link ? LS_NVML_ALL_LINKS : 0) ? REFUSED : OK;
    f->type = i % (LS_NVML_INT + 1);
    memset(&f->value, 0xff, sizeof f->value);
    switch (f->type) {
    case LS_NVML_REAL:
      f->value.real = f->id;
      break;
    case LS_NVML_UNSIGNED:
      f->value.u = f->id;
      break;
    case LS_NVML_INT:
      f->value.i = (int)f->id;
      break;
    default: /* 64 bits here */
      f->value.ull = f->id;
    }
  }
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetTotalEccErrors(ls_nvml_device_t device, int type, int counter, unsigned long long *count) {
  (void)device;
  *count = type == LS_NVML_ECC_CORRECTED ? 5 : 1;
  return counter == LS_NVML_ECC_AGGREGATE && !refused(1) ? OK : REFUSED;
}

/* Two XIDs at the second question, and no other ever. */
static int events_asked;
int nvmlEventSetCreate(ls_nvml_events_t *events) {
  events_asked = 0;
  *events = &events_asked;
  return OK;
}

int nvmlDeviceRegisterEvents(ls_nvml_device_t device, unsigned long long types, ls_nvml_events_t events) {
  (void)device;
  return types == LS_NVML_EVENT_XID && events == &events_asked && !refused(1) ? OK : REFUSED;
}

int nvmlEventSetWait_v2(ls_nvml_events_t events, ls_nvml_event_t *event, unsigned limit_ms) {
  const int asked = ++*(int *)events;
  *event = (ls_nvml_event_t){.type = LS_NVML_EVENT_XID, .data = asked == 2 ? 79 : 45};
  return limit_ms == 0 && (asked == 2 || asked == 3) ? OK : TIMED_OUT;
}

int nvmlEventSetFree(ls_nvml_events_t events) {
  return events == &events_asked ? OK : REFUSED;
}

int nvmlDeviceGetNvLinkState(ls_nvml_device_t device, unsigned link, int *active) {
  (void)device;
  *active = playing("switch") ? 1 : link < 2; /* direct: two of four */
  if (playing("direct") && link >= 4) return REFUSED;
  return playing("switch") || playing("direct") ? OK : REFUSED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(ls_nvml_device_t device, unsigned link, int *type) {
  (void)device;
  (void)link;
  *type = playing("switch") ? LS_NVML_REMOTE_SWITCH : LS_NVML_REMOTE_GPU;
  return OK;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(ls_nvml_device_t device, unsigned link, ls_nvml_pci_t *pci) {
  (void)link;
  *pci = (ls_nvml_pci_t){.domain = 0xffff, .bus = index_of(device) == 0 ? 2 : 1};
  return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(ls_nvml_device_t a, ls_nvml_device_t b, int *level) {
  (void)a;
  (void)b;
  *level = LS_NVML_LEVEL_HOSTBRIDGE;
  return refused(1) ? REFUSED : OK;
}

int nvmlDeviceGetP2PStatus(ls_nvml_device_t a, ls_nvml_device_t b, int index, int *status) {
  (void)a;
  (void)b;
  (void)index;
  *status = playing("bridge") ? 1 : LS_NVML_P2P_OK; /* 1: chipset not supported */
  return refused(1) ? REFUSED : OK;
}
