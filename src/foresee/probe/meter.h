/* A set of items to time on one device. Each is put on the stream through the backend's table, several times per
 * sample if it is short, as one captured launch if the backend captures. Inside the probe module. */
#ifndef LS_PROBE_METER_H
#define LS_PROBE_METER_H

#include "device/device.h"
#include "graph/op.h"
#include "probe/samples.h"

enum { LS_METER_ITEMS_MAX = 64 };

typedef struct ls_meter ls_meter_t;
typedef struct {
  char key[LS_PROFILE_KEY_BYTES];
  double bytes; /* a point of the curve `key`; negative: a time */
  double flops; /* of one issue; 0: not counted */
  bool eager;   /* never captured, because the cost of launching is measured */
  ls_status_t (*issue)(ls_meter_t *meter, void *arg);
  void *arg;
  int repeats; /* issues per sample; 0 = not calibrated yet */
  bool warm;   /* runs once untimed before each sample */
  ls_exec_t *exec;
  ls_samples_t samples;
} ls_meter_item_t;

struct ls_meter {
  ls_ctx_t *ctx;
  ls_arena_t arena;
  ls_device_t *device; /* borrowed */
  const ls_backend_t *backend;
  int threads;
  ls_stream_t *stream, *other;
  ls_event_t *from, *to, *there, *back; /* first two timed */
  ls_meter_item_t *items;
  int count;
  void *memory[4 * LS_METER_ITEMS_MAX]; /* of the device */
  void *pinned[2 * LS_METER_ITEMS_MAX]; /* of the host */
  int memory_count, pinned_count;
  double flops_per_ns; /* the most that any item has reached */
};

ls_status_t ls_meter_create(ls_ctx_t *ctx, ls_device_t *device, int threads, ls_meter_t **meter);
void ls_meter_destroy(ls_meter_t *meter);
/* One sample of one item: nanoseconds per issue. Calibrates at first. */
ls_status_t ls_meter_sample(ls_meter_t *meter, ls_meter_item_t *item, double *ns);
/* Samples all items in turn until the budget is spent. An item is left out if one issue would take more than
 * LS_METER_ISSUE_MAX_S by the fastest rate of the others: no budget would suffice for it. */
enum { LS_METER_ISSUE_MAX_S = 1 };
ls_status_t ls_meter_run(ls_meter_t *meter, int64_t budget_ns);
int ls_meter_left_out(const ls_meter_t *meter); /* how many */
/* The times and curves of the items that have samples. */
ls_status_t ls_meter_report(const ls_meter_t *meter, ls_profile_t *profile);

/* meter_items.c. Each appends an item; *item may be NULL. */
/* Inputs are filled with numbers in [-1, 1], outputs are made by the op's shape rule. key NULL: the key of
 * the op's time, as ls_task_key makes it. */
ls_status_t ls_meter_add_op(ls_meter_t *meter, const char *op, const ls_shape_t *in, const char *key,
                            double bytes, ls_meter_item_t **item);
ls_status_t ls_meter_add_hand_over(ls_meter_t *meter);
ls_status_t ls_meter_add_copy(ls_meter_t *meter, bool in, size_t size_bytes);
/* Device memory that lives as long as the meter, holding numbers in [-1, 1]. */
ls_status_t ls_meter_memory(ls_meter_t *meter, size_t size_bytes, void **memory);

#endif
