/* The present state of one GPU, read from NVML or from a recording in its place. */
#include "machine/gpu_live.h"

#include "machine/gpu_sampler.h"
#include "machine/nvml.h"

#include <math.h>
#include <stdlib.h>

/* nvmlClocksEventReasons */
enum {
  LIMITED_POWER = 0x4,
  LIMITED_BY_HARDWARE = 0x8,
  LIMITED_HEAT = 0x20,
  LIMITED_HEAT_BY_HARDWARE = 0x40,
  LIMITED_BRAKE = 0x80
};

struct ls_gpu_live {
  ls_gpu_replay_t *replay; /* NULL: the rest is used */
  int64_t begin_ns;
  ls_nvml_t nvml;
  ls_nvml_device_t device;
  ls_nvml_events_t events; /* NULL: the driver tells none */
  double xid, xid_errors;
  ls_gpu_now_t read; /* the newest reading, valid until then */
  int64_t until_ns;
};

/* A reading stays valid for so many times the time that it took, at most a second. Before this rule, records due
 * every 10 ms on an H200 asked NVML each time, and a sixth of them were left out. */
enum { HOLDS = 20, HOLDS_MOST_NS = 1000000000 };

/* Asked together: nvmlDeviceGetFieldValues. */
static const struct {
  unsigned id, scope;
  size_t offset;
  double scale;
} fields[] = {
#define FIELD(id_, scope_, field_, scale_)                                                                   \
  { .id = (id_), .scope = (scope_), .offset = offsetof(ls_gpu_now_t, field_), .scale = (scale_) }
    FIELD(LS_NVML_FIELD_MEMORY_TEMPERATURE, 0, memory_temperature_c, 1),
    FIELD(LS_NVML_FIELD_NVLINK_SENT, LS_NVML_ALL_LINKS, nvlink_sent_bytes, 1024),
    FIELD(LS_NVML_FIELD_NVLINK_RECEIVED, LS_NVML_ALL_LINKS, nvlink_received_bytes, 1024),
    FIELD(LS_NVML_FIELD_PCIE_SENT, 0, pcie_sent_bytes, 1),
    FIELD(LS_NVML_FIELD_PCIE_RECEIVED, 0, pcie_received_bytes, 1),
    FIELD(LS_NVML_FIELD_PCIE_REPLAYS, 0, pcie_replays, 1),
    FIELD(LS_NVML_FIELD_RECOVERY_ACTION, 0, recovery_action, 1),
#undef FIELD
};

/* Makes NVML report errors of the GPU's kernel driver from now on. */
static void listen_for_errors(ls_gpu_live_t *live) {
  const ls_nvml_t *n = &live->nvml;
  live->xid = NAN;
  live->xid_errors = NAN;
  if (!n->events_create || !n->events_register || !n->events_wait || n->events_create(&live->events) != 0)
    live->events = NULL;
  if (!live->events) return;
  if (n->events_register(live->device, LS_NVML_EVENT_XID, live->events) == 0) {
    live->xid_errors = 0;
    return;
  }
  if (n->events_free) n->events_free(live->events);
  live->events = NULL;
}

ls_status_t ls_gpu_live_open(ls_ctx_t *ctx, int gpu, int local_rank, ls_gpu_live_t **live) {
  const char *recorded = getenv(LS_GPU_REPLAY_ENVIRONMENT);
  char why[256];
  int gpus[LS_GPU_MAX];
  *live = NULL;
  if (!recorded && (gpu < 0 || gpu >= LS_GPU_MAX ||
                    ls_gpu_sampler_visible(getenv("CUDA_VISIBLE_DEVICES"), gpu + 1, gpus) <= gpu))
    return LS_OK;
  ls_gpu_live_t *l = ls_alloc(ctx, sizeof *l);
  if (!l) return LS_ERR_MEMORY;
  l->begin_ns = ls_clock_ns();
  if (recorded) {
    ls_status_t status = ls_gpu_replay_open(ctx, recorded, local_rank, &l->replay);
    if (status == LS_OK)
      *live = l;
    else
      ls_free(l);
    return status;
  }
  if (!ls_nvml_open(&l->nvml, why, sizeof why)) {
    ls_free(l);
    return LS_OK;
  }
  if (l->nvml.handle((unsigned)gpus[gpu], &l->device) != 0) {
    ls_gpu_live_close(l);
    return LS_OK;
  }
  listen_for_errors(l);
  *live = l;
  return LS_OK;
}

void ls_gpu_live_close(ls_gpu_live_t *live) {
  if (!live) return;
  if (live->events && live->nvml.events_free) live->nvml.events_free(live->events);
  if (live->replay)
    ls_gpu_replay_close(live->replay);
  else
    ls_nvml_close(&live->nvml);
  ls_free(live);
}

static double field_value(const ls_nvml_field_t *f) {
  switch (f->type) {
  case LS_NVML_REAL:
    return f->value.real;
  case LS_NVML_UNSIGNED:
    return f->value.u;
  case LS_NVML_UNSIGNED_LONG: /* of this system */
    return (double)f->value.ul;
  case LS_NVML_UNSIGNED_LONG_LONG:
    return (double)f->value.ull;
  case LS_NVML_LONG_LONG:
    return (double)f->value.ll;
  case LS_NVML_INT:
    return f->value.i;
  default:
    return NAN;
  }
}

static void read_fields(const ls_gpu_live_t *live, ls_gpu_now_t *now) {
  ls_nvml_field_t asked[LS_COUNT(fields)] = {{0}};
  for (int i = 0; i < LS_COUNT(fields); i++) {
    asked[i].id = fields[i].id;
    asked[i].scope = fields[i].scope;
  }
  if (!live->nvml.fields || live->nvml.fields(live->device, LS_COUNT(fields), asked) != 0) return;
  for (int i = 0; i < LS_COUNT(fields); i++)
    if (asked[i].result == 0)
      *(double *)(void *)((char *)now + fields[i].offset) = fields[i].scale * field_value(&asked[i]);
}

bool ls_gpu_xid_breaks(double xid) {
  static const int breaking[] = {48, 64, 74, 79, 95, 119, 120};
  bool breaks = false;
  for (int i = 0; i < LS_COUNT(breaking); i++)
    breaks |= xid == breaking[i];
  return breaks;
}

/* An error that breaks the GPU is followed by those of the programs that it ends. */
static void read_errors(ls_gpu_live_t *live, ls_gpu_now_t *now) {
  const ls_nvml_t *n = &live->nvml;
  ls_nvml_event_t event;
  unsigned long long count;
  while (live->events && n->events_wait(live->events, &event, 0) == 0)
    if (event.type == LS_NVML_EVENT_XID) {
      if (!ls_gpu_xid_breaks(live->xid)) live->xid = (double)event.data;
      live->xid_errors++;
    }
  now->xid = live->xid;
  now->xid_errors = live->xid_errors;
  if (n->ecc && n->ecc(live->device, LS_NVML_ECC_CORRECTED, LS_NVML_ECC_AGGREGATE, &count) == 0)
    now->ecc_corrected = (double)count;
  if (n->ecc && n->ecc(live->device, LS_NVML_ECC_UNCORRECTED, LS_NVML_ECC_AGGREGATE, &count) == 0)
    now->ecc_uncorrected = (double)count;
}

static void read_heat_and_power(const ls_gpu_live_t *live, ls_gpu_now_t *now) {
  const ls_nvml_t *n = &live->nvml;
  ls_nvml_device_t d = live->device;
  ls_nvml_margin_t margin = {.version = LS_NVML_MARGIN_VERSION};
  unsigned value;
  unsigned long long wide;
  if (n->temperature && n->temperature(d, LS_NVML_TEMPERATURE_GPU, &value) == 0) now->temperature_c = value;
  if (n->margin && n->margin(d, &margin) == 0) now->margin_c = margin.celsius;
  if (n->power && n->power(d, &value) == 0) now->power_w = 1e-3 * value;
  if (n->power_limit && n->power_limit(d, &value) == 0) now->power_limit_w = 1e-3 * value;
  if (n->energy && n->energy(d, &wide) == 0) now->energy_j = 1e-3 * (double)wide;
  if (n->clock && n->clock(d, LS_NVML_CLOCK_SM, &value) == 0) now->clock_mhz = value;
  if (n->clock && n->clock(d, LS_NVML_CLOCK_MEMORY, &value) == 0) now->memory_clock_mhz = value;
  if (n->clock_max && n->clock_max(d, LS_NVML_CLOCK_SM, &value) == 0) now->clock_most_mhz = value;
  if (n->throttle && n->throttle(d, &wide) == 0) {
    now->power_limited = (wide & LIMITED_POWER) != 0;
    now->heat_limited = (wide & (LIMITED_HEAT | LIMITED_HEAT_BY_HARDWARE)) != 0;
    now->brake_limited = (wide & (LIMITED_BY_HARDWARE | LIMITED_BRAKE)) != 0;
  }
}

static void read_now(ls_gpu_live_t *live, ls_gpu_now_t *now) {
  const ls_nvml_t *n = &live->nvml;
  ls_nvml_utilization_t used;
  ls_nvml_memory_t memory;
  ls_record_clear(&ls_gpu_now_record, now);
  if (n->utilization && n->utilization(live->device, &used) == 0) now->ratio = 1e-2 * used.gpu;
  if (n->memory && n->memory(live->device, &memory) == 0) {
    now->memory_bytes = (double)memory.used;
    now->memory_size_bytes = (double)memory.total;
  }
  read_heat_and_power(live, now);
  read_fields(live, now);
  read_errors(live, now);
}

void ls_gpu_live_read(ls_gpu_live_t *live, bool again, ls_gpu_now_t *now) {
  const int64_t begin_ns = ls_clock_ns();
  ls_record_clear(&ls_gpu_now_record, now);
  if (!live) return;
  if (live->replay) {
    ls_gpu_replay_at(live->replay, 1e-9 * (double)(begin_ns - live->begin_ns), now);
    return;
  }
  if (!again || begin_ns >= live->until_ns) {
    read_now(live, &live->read);
    const int64_t end_ns = ls_clock_ns(), holds_ns = HOLDS * (end_ns - begin_ns);
    live->until_ns = end_ns + (holds_ns < HOLDS_MOST_NS ? holds_ns : HOLDS_MOST_NS);
  }
  *now = live->read;
}
