/* Transports as rows: by what tensors travel between ranks. Ranks are started with a communicator on host memory
 * (the control communicator); a row says whose memory it moves and makes, over that, the communicator that
 * carries tensors. A measured curve of a profile carries the row's key. */
#ifndef LS_COMM_TRANSPORT_H
#define LS_COMM_TRANSPORT_H

#include "comm/comm.h"

typedef struct {
  const char *name;
  const char *help;
  const char *backend; /* whose device memory it moves; NULL: memory of the host */
  /* What its environment makes another way of it, and so stands behind its name in keys: "" or "-..". NULL:
   * nothing. */
  const char *(*variant)(void);
  bool (*present)(void); /* whether this installation has it; NULL: always */
  /* A communicator over the ranks of `control` (borrowed, outlives it), for buffers of `device`. Collective.
   * NULL: the control communicator itself carries tensors. */
  ls_status_t (*create)(ls_ctx_t *ctx, ls_device_t *device, ls_comm_t *control, int64_t deadline_ns,
                        ls_comm_t **comm);
} ls_transport_t;

enum { LS_TRANSPORT_MAX = 16, LS_TRANSPORT_KEY_BYTES = 64 };
/* NULL-terminated; of several that move the same memory the first is what "auto" means. */
extern const ls_transport_t *ls_transports[LS_TRANSPORT_MAX + 1];
const ls_transport_t *ls_transport_find(const char *name);
bool ls_transport_fits(const ls_transport_t *transport, const ls_backend_t *backend);
/* The first that fits; never NULL for backends on host memory. */
const ls_transport_t *ls_transport_default(const ls_backend_t *backend);
/* Whether it is the first of those that move the same memory. */
bool ls_transport_is_usual(const ls_transport_t *transport);
/* Its name with its variant, as it stands in keys. */
const char *ls_transport_key(const ls_transport_t *transport, char buf[LS_TRANSPORT_KEY_BYTES]);
/* The variant of what this backend takes by default; "" = none. */
const char *ls_transport_variant(const char *backend);
/* Appends a row, which is not copied: before a configuration is read, and from one thread. False: the list is
 * full, or has one of that name. */
bool ls_transport_register(const ls_transport_t *transport);

/* What carries the tensors of `device` between the ranks of `control`: *comm, which is `control` itself where
 * the transport makes none of its own, or where there is one rank. name: "auto" or a row's. Collective.
 * LS_ERR_CONFIG when it does not move this device's memory. */
ls_status_t ls_transport_connect(ls_ctx_t *ctx, const char *name, ls_device_t *device, ls_comm_t *control,
                                 ls_comm_t **comm);

#endif
