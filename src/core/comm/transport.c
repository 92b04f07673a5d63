/* The list of transports, and the choice of one for a device. */
#include "comm/transport.h"

#include <stdio.h>
#include <string.h>

extern const ls_transport_t ls_transport_mpi, ls_transport_nccl;
const ls_transport_t *ls_transports[LS_TRANSPORT_MAX + 1] = {&ls_transport_mpi, &ls_transport_nccl};

const ls_transport_t *ls_transport_find(const char *name) {
  for (int i = 0; ls_transports[i]; i++)
    if (!strcmp(ls_transports[i]->name, name)) return ls_transports[i];
  return NULL;
}

bool ls_transport_register(const ls_transport_t *transport) {
  int count = 0;
  while (ls_transports[count])
    count++;
  if (count == LS_TRANSPORT_MAX || ls_transport_find(transport->name)) return false;
  ls_transports[count] = transport;
  return true;
}

bool ls_transport_fits(const ls_transport_t *transport, const ls_backend_t *backend) {
  return transport->backend ? !strcmp(transport->backend, backend->name) : backend->host_memory;
}

/* The first row for this memory. */
static const ls_transport_t *usual(const char *backend) {
  for (int i = 0; ls_transports[i]; i++) {
    const char *other = ls_transports[i]->backend;
    if (backend && other ? !strcmp(backend, other) : backend == other) return ls_transports[i];
  }
  return NULL;
}

const ls_transport_t *ls_transport_default(const ls_backend_t *backend) {
  return usual(backend->host_memory ? NULL : backend->name);
}

bool ls_transport_is_usual(const ls_transport_t *transport) {
  return usual(transport->backend) == transport;
}

static const char *variant_of(const ls_transport_t *transport) {
  return transport->variant ? transport->variant() : "";
}

const char *ls_transport_variant(const char *backend) {
  const ls_transport_t *transport = usual(backend);
  return transport ? variant_of(transport) : "";
}

const char *ls_transport_key(const ls_transport_t *transport, char buf[LS_TRANSPORT_KEY_BYTES]) {
  snprintf(buf, LS_TRANSPORT_KEY_BYTES, "%s%s", transport->name, variant_of(transport));
  return buf;
}

ls_status_t ls_transport_connect(ls_ctx_t *ctx, const char *name, ls_device_t *device, ls_comm_t *control,
                                 ls_comm_t **comm) {
  const ls_backend_t *backend = device->backend;
  bool open = !strcmp(name, "auto");
  const ls_transport_t *transport = open ? ls_transport_default(backend) : ls_transport_find(name);
  if (control->size == 1) {
    *comm = control;
    return LS_OK;
  }
  if (!transport || !ls_transport_fits(transport, backend))
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "parallel.transport is %s, which does not move the memory of backend %s: leave it out, or "
                   "use one rank",
                   name, backend->name);
  if (transport->create) return transport->create(ctx, device, control, control->deadline_ns, comm);
  *comm = control;
  return LS_OK;
}
