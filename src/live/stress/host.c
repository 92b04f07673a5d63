/* Loads of the host while the devices work: a thread sweeps its memory, another writes a file. */
#include "base/signals.h"
#include "stress/parts.h"

enum { THREADS_MOST = 8, SWEEP_NS = 50000000 };

struct ls_stress_host {
  ls_device_t *device; /* processors, for the memory */
  ls_stress_fill_t *fill;
  ls_stress_file_t *file;
  bool plant_memory, plant_file;
  pthread_t sweeping, writing;
  bool sweeps, writes; /* these threads run */
  atomic_bool stop;
  ls_status_t swept;
};

/* Some processors stay for those that drive the devices. */
static ls_status_t open_memory(ls_ctx_t *ctx, ls_comm_t *control, const ls_stress_options_t *o,
                               ls_stress_host_t *h) {
  int threads = ls_cpu_count() / control->local_size / 2;
  const ls_device_options_t options = {.threads = threads < 1              ? 1
                                                  : threads < THREADS_MOST ? threads
                                                                           : THREADS_MOST};
  ls_status_t status = ls_backend_cpu.device->open(ctx, &options, &h->device);
  return status == LS_OK ? ls_fill_open(ctx, h->device, o->host_share, control->local_size, o->stop, &h->fill)
                         : status;
}

ls_status_t ls_host_open(ls_ctx_t *ctx, ls_comm_t *control, const ls_stress_options_t *o,
                         ls_stress_host_t **out) {
  const bool file = o->disk && control->local_rank == 0;
  if (o->host_share <= 0 && !file) return LS_OK;
  ls_stress_host_t *h = ls_alloc(ctx, sizeof *h);
  if (!h) return LS_ERR_MEMORY;
  h->plant_memory = o->plant.kind == LS_PLANT_HOST && o->plant.a == control->rank;
  h->plant_file = o->plant.kind == LS_PLANT_DISK && o->plant.a == control->rank;
  ls_status_t status = file ? ls_stress_file_open(ctx, o->disk, o->disk_bytes, &h->file) : LS_OK;
  if (status == LS_OK && o->host_share > 0) status = open_memory(ctx, control, o, h);
  if (status == LS_OK)
    *out = h;
  else
    ls_host_close(h);
  return status;
}

void ls_host_close(ls_stress_host_t *h) {
  if (!h) return;
  (void)ls_host_stop(h);
  ls_fill_close(h->fill);
  if (h->device) h->device->backend->device->close(h->device);
  ls_stress_file_close(h->file);
  ls_free(h);
}

static void *sweep(void *arg) {
  ls_stress_host_t *h = arg;
  while (!atomic_load(&h->stop) && h->swept == LS_OK)
    h->swept = ls_fill_sweep(h->fill, SWEEP_NS, &h->plant_memory);
  return NULL;
}

static void *write_on(void *arg) {
  ls_stress_host_t *h = arg;
  while (!atomic_load(&h->stop) && ls_stress_file_pass(h->file, &h->stop, &h->plant_file))
    continue;
  return NULL;
}

ls_status_t ls_host_start(ls_stress_host_t *h) {
  if (!h) return LS_OK;
  h->sweeps = h->fill && ls_signals_thread(&h->sweeping, "ls host memory", sweep, h) == 0;
  h->writes = h->file && ls_signals_thread(&h->writing, "ls disk", write_on, h) == 0;
  return (h->fill && !h->sweeps) || (h->file && !h->writes) ? LS_ERR_MEMORY : LS_OK;
}

ls_status_t ls_host_stop(ls_stress_host_t *h) {
  if (!h) return LS_OK;
  atomic_store(&h->stop, true);
  if (h->sweeps) pthread_join(h->sweeping, NULL);
  if (h->writes) pthread_join(h->writing, NULL);
  h->sweeps = h->writes = false;
  return h->swept;
}

void ls_host_report(const ls_stress_host_t *h, ls_stress_device_t *d) {
  if (h && h->fill) ls_fill_report(h->fill, &d->host_memory);
  if (h && h->file) ls_stress_file_report(h->file, &d->disk);
}
