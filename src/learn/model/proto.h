/* Messages in the protobuf wire format, written field by field. Source: "Encoding", protobuf.dev. */
#ifndef LS_MODEL_PROTO_H
#define LS_MODEL_PROTO_H

#include "base/base.h"

typedef struct {
  ls_ctx_t *ctx;
  char *bytes; /* ls_free */
  size_t used, capacity;
  ls_status_t status; /* the first failure; later calls do nothing */
} ls_proto_t;

void ls_proto_int(ls_proto_t *p, int field, int64_t value);
void ls_proto_float(ls_proto_t *p, int field, float value);
void ls_proto_bytes(ls_proto_t *p, int field, const void *bytes, size_t size);
void ls_proto_text(ls_proto_t *p, int field, const char *text);
/* A message within, which is emptied: it can be filled again. */
void ls_proto_put(ls_proto_t *p, int field, ls_proto_t *message);
/* Fields of the same message, which are emptied. */
void ls_proto_join(ls_proto_t *p, ls_proto_t *fields);
void ls_proto_release(ls_proto_t *p);

#endif
