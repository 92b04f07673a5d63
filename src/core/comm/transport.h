/* Transports as rows: how tensors travel between ranks. Ranks start with a communicator on host memory (the
 * control communicator). A row says whose memory it moves, and makes, on top of that communicator, the one
 * that carries tensors. A measured curve of a profile has the row's name in its key. */
#ifndef LS_COMM_TRANSPORT_H
#define LS_COMM_TRANSPORT_H

#include "comm/comm.h"

typedef struct {
  const char *name;
  const char *help;
  const char *backend; /* the backend whose device memory it moves; NULL: host memory */
  /* The suffix of its name in keys if the environment makes it behave differently: "" or "-..". NULL:
   * nothing. */
  const char *(*variant)(void);
  bool (*present)(void); /* whether this installation has it; NULL: always */
  /* A communicator over the ranks of `control` (borrowed, outlives it), for buffers of `device`. Collective.
   * NULL: the control communicator itself carries tensors. */
  ls_status_t (*create)(ls_ctx_t *ctx, ls_device_t *device, ls_comm_t *control, int64_t deadline_ns,
                        ls_comm_t **comm);
} ls_transport_t;

enum { LS_TRANSPORT_MAX = 16, LS_TRANSPORT_KEY_BYTES = 64 };
/* NULL-terminated. "auto" means the first of those that move the same memory. */
extern const ls_transport_t *ls_transports[LS_TRANSPORT_MAX + 1];
const ls_transport_t *ls_transport_find(const char *name);
bool ls_transport_fits(const ls_transport_t *transport, const ls_backend_t *backend);
/* The first that fits; never NULL for backends on host memory. */
const ls_transport_t *ls_transport_default(const ls_backend_t *backend);
/* Whether it is the first of those that move the same memory. */
bool ls_transport_is_usual(const ls_transport_t *transport);
/* Its name with its variant, as in keys. */
const char *ls_transport_key(const ls_transport_t *transport, char buf[LS_TRANSPORT_KEY_BYTES]);
/* The variant of this backend's default transport; "" = none. */
const char *ls_transport_variant(const char *backend);
/* Appends a row, which is not copied. Call it before a configuration is read, from one thread. False: the
 * list is full, or has a row of that name. */
bool ls_transport_register(const ls_transport_t *transport);

/* The communicator that carries the tensors of `device` between the ranks of `control`. *comm is `control`
 * itself if the transport makes none of its own, or if there is one rank. name: "auto" or a row's.
 * Collective. LS_ERR_CONFIG if it does not move this device's memory. */
ls_status_t ls_transport_connect(ls_ctx_t *ctx, const char *name, ls_device_t *device, ls_comm_t *control,
                                 ls_comm_t **comm);

#endif
