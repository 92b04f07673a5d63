/* Growing bytes. */
#include "model/proto.h"

#include <string.h>

enum { VARINT = 0, LENGTH = 2, FIXED32 = 5, FIRST_BYTES = 256 };

static void append(ls_proto_t *p, const void *bytes, size_t size) {
  if (p->status != LS_OK || size == 0) return;
  if (size > p->capacity - p->used) {
    size_t capacity = p->capacity ? p->capacity : FIRST_BYTES;
    while (capacity - p->used < size)
      capacity *= 2;
    char *grown = ls_realloc_array(p->ctx, p->bytes, capacity, 1);
    if (!grown) {
      p->status = LS_ERR_MEMORY;
      return;
    }
    p->bytes = grown;
    p->capacity = capacity;
  }
  memcpy(p->bytes + p->used, bytes, size);
  p->used += size;
}

static void varint(ls_proto_t *p, uint64_t value) {
  unsigned char bytes[10];
  size_t count = 0;
  do {
    bytes[count++] = (unsigned char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    value >>= 7;
  } while (value);
  append(p, bytes, count);
}

static void tag(ls_proto_t *p, int field, int type) {
  varint(p, (uint64_t)field << 3 | (uint64_t)type);
}

void ls_proto_int(ls_proto_t *p, int field, int64_t value) {
  tag(p, field, VARINT);
  varint(p, (uint64_t)value);
}

void ls_proto_float(ls_proto_t *p, int field, float value) {
  tag(p, field, FIXED32);
  append(p, &value, sizeof value); /* little-endian, as the machines of this program */
}

void ls_proto_bytes(ls_proto_t *p, int field, const void *bytes, size_t size) {
  tag(p, field, LENGTH);
  varint(p, size);
  append(p, bytes, size);
}

void ls_proto_text(ls_proto_t *p, int field, const char *text) {
  ls_proto_bytes(p, field, text, strlen(text));
}

void ls_proto_put(ls_proto_t *p, int field, ls_proto_t *message) {
  if (p->status == LS_OK) p->status = message->status;
  ls_proto_bytes(p, field, message->bytes, message->used);
  message->used = 0;
}

void ls_proto_join(ls_proto_t *p, ls_proto_t *fields) {
  if (p->status == LS_OK) p->status = fields->status;
  append(p, fields->bytes, fields->used);
  fields->used = 0;
}

void ls_proto_release(ls_proto_t *p) {
  ls_free(p->bytes);
  p->bytes = NULL;
  p->used = p->capacity = 0;
}
