/* TensorBoard's event file: records of length, checksum, Event, checksum. The messages are few and small, so they are
 * encoded here: tensorflow/core/util/event.proto and framework/summary.proto have the field numbers. */
#include "monitor/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Wire types and field numbers. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_METADATA = 9 };
enum { METADATA_PLUGIN = 1, METADATA_CLASS = 4, PLUGIN_NAME = 1, CLASS_SCALAR = 1 };
enum { MESSAGE_BYTES = 256, EVENT_BYTES = 16384 };

uint32_t ls_crc32c_masked(const void *bytes, size_t size_bytes) {
  const uint8_t *at = bytes;
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < size_bytes; i++) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (UINT32_C(0x82f63b78) & -(crc & 1));
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

typedef struct {
  size_t used, size;
  uint8_t *bytes;
} message_t;

static void put_bytes(message_t *m, const void *bytes, size_t size) {
  if (size > m->size - m->used) return; /* sizes are known below */
  memcpy(m->bytes + m->used, bytes, size);
  m->used += size;
}

static void put_varint(message_t *m, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    put_bytes(m, &byte, 1);
    value >>= 7;
  } while (value);
}

static void put_key(message_t *m, int field, int type) {
  put_varint(m, (uint64_t)field << 3 | (uint64_t)type);
}

/* Little-endian, whatever the host is. */
static void put_fixed(message_t *m, uint64_t value, int size) {
  for (int i = 0; i < size; i++) {
    uint8_t byte = (uint8_t)(value >> 8 * i);
    put_bytes(m, &byte, 1);
  }
}

static void put_string(message_t *m, int field, const void *bytes, size_t size) {
  put_key(m, field, BYTES);
  put_varint(m, size);
  put_bytes(m, bytes, size);
}

static void put_scalar(message_t *summary, const char *tag, double value) {
  uint8_t memory[3][MESSAGE_BYTES];
  message_t one = {0, MESSAGE_BYTES, memory[0]}, metadata = {0, MESSAGE_BYTES, memory[1]},
            plugin = {0, MESSAGE_BYTES, memory[2]};
  float real = (float)value;
  uint32_t bits;
  memcpy(&bits, &real, sizeof bits);
  put_string(&plugin, PLUGIN_NAME, "scalars", strlen("scalars"));
  put_string(&metadata, METADATA_PLUGIN, plugin.bytes, plugin.used);
  put_key(&metadata, METADATA_CLASS, VARINT);
  put_varint(&metadata, CLASS_SCALAR);
  put_string(&one, VALUE_TAG, tag, strlen(tag));
  put_key(&one, VALUE_SIMPLE, FIXED32);
  put_fixed(&one, bits, 4);
  put_string(&one, VALUE_METADATA, metadata.bytes, metadata.used);
  put_string(summary, SUMMARY_VALUE, one.bytes, one.used);
}

typedef struct {
  int fd;
  int64_t step;    /* of the newest record */
  double val_step; /* of the newest evaluation that was drawn; NaN: none */
} tensorboard_t;

static void put_time(message_t *event, double t) {
  uint64_t bits;
  memcpy(&bits, &t, sizeof bits);
  put_key(event, EVENT_TIME, FIXED64);
  put_fixed(event, bits, 8);
}

static bool write_record(int fd, const message_t *event) {
  uint8_t memory[EVENT_BYTES + 16];
  message_t record = {0, sizeof memory, memory};
  put_fixed(&record, event->used, 8);
  put_fixed(&record, ls_crc32c_masked(memory, 8), 4);
  put_bytes(&record, event->bytes, event->used);
  put_fixed(&record, ls_crc32c_masked(event->bytes, event->used), 4);
  return ls_write_all(fd, memory, record.used);
}

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Each process has a file of its own; TensorBoard joins the files of a folder. */
static ls_status_t open_file(ls_ctx_t *ctx, const ls_monitor_config_t *config, const ls_monitor_run_t *run,
                             void **state) {
  static const char version[] = "brain.Event:2";
  char path[PATH_MAX], host[128] = "";
  uint8_t memory[MESSAGE_BYTES];
  message_t event = {0, sizeof memory, memory};
  (void)run;
  tensorboard_t *t = ls_alloc(ctx, sizeof *t);
  if (!t) return LS_ERR_MEMORY;
  gethostname(host, sizeof host - 1);
  double now = now_s();
  snprintf(path, sizeof path, "%s/events.out.tfevents.%.0f.%s.%ld.lockstep", config->dir, now, host,
           (long)getpid());
  t->val_step = NAN;
  t->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  put_time(&event, now);
  put_string(&event, EVENT_VERSION, version, strlen(version));
  if (t->fd >= 0 && write_record(t->fd, &event)) {
    *state = t;
    return LS_OK;
  }
  ls_status_t status = ls_fail_errno(ctx, "%s: cannot be written", path);
  if (t->fd >= 0) close(t->fd);
  ls_free(t);
  return status;
}

/* The curves of validation, or all others, at their step. */
static bool put_curves(const tensorboard_t *t, const ls_monitor_sample_t *s, bool validation, double step) {
  static const char prefix[] = "validation/";
  uint8_t memory[2][EVENT_BYTES / 2];
  message_t event = {0, sizeof memory[0], memory[0]}, summary = {0, sizeof memory[1], memory[1]};
  for (int i = 0; i < LS_METRIC_COUNT; i++) {
    const char *tag = ls_metrics[i].tag;
    double value = ls_metric_value(&ls_metrics[i], s);
    if (!tag || !isfinite(value) || (strncmp(tag, prefix, sizeof prefix - 1) == 0) != validation) continue;
    put_scalar(&summary, tag, value);
  }
  put_time(&event, s->t);
  put_key(&event, EVENT_STEP, VARINT);
  put_varint(&event, (uint64_t)step);
  put_string(&event, EVENT_SUMMARY, summary.bytes, summary.used);
  return write_record(t->fd, &event);
}

/* A record without a new step would draw a point over the last one; an evaluation is a point at its own step, once. */
static bool put_sample(void *state, const ls_monitor_sample_t *s) {
  tensorboard_t *t = state;
  bool put = true;
  if (isfinite(s->val_step) && s->val_step != t->val_step) {
    t->val_step = s->val_step;
    put = put_curves(t, s, true, s->val_step);
  }
  if (!put || !(s->step > (double)t->step)) return put;
  t->step = (int64_t)s->step;
  return put_curves(t, s, false, s->step);
}

static void close_file(void *state) {
  tensorboard_t *t = state;
  close(t->fd);
  ls_free(t);
}

const ls_sink_t ls_sink_tensorboard = {"tensorboard", true, open_file, put_sample, close_file};
