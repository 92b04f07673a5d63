/* Shared by onednn.c, which runs oneDNN's primitives, and onednn_make.c, which makes them. Defines LS_CPU_ONEDNN if this is a
 * build with oneDNN 2. */
#ifndef LS_DEVICE_CPU_ONEDNN_H
#define LS_DEVICE_CPU_ONEDNN_H

#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#endif
#if defined(LS_HAVE_DNNL) && DNNL_VERSION_MAJOR == 2
#define LS_CPU_ONEDNN

enum { LS_ONEDNN_PRODUCT = LS_CPU_CONV_COUNT }; /* one more kind, after those of convolutions */
enum { LS_ONEDNN_BUCKETS = 256, LS_ONEDNN_ARGS = 5 };

/* The shape of a primitive. All members are words of 64 bits, so that keys are compared and hashed as bytes without gaps. */
typedef struct {
  int64_t kind, low; /* LS_ONEDNN_PRODUCT or an ls_cpu_conv_kind_t; members of the other kind are 0 */
  struct {
    int64_t transpose_a, transpose_b, m, n, k, lda, ldb, ldc, bias;
  } product;
  ls_window_t window;
} ls_onednn_key_t;
_Static_assert(sizeof(ls_onednn_key_t) == 11 * sizeof(int64_t) + sizeof(ls_window_t), "a key has no gaps");

typedef struct ls_onednn_primitive {
  struct ls_onednn_primitive *next;
  ls_onednn_key_t key;
  bool usable, clean; /* clean: its scratchpad has to begin with zeros */
  dnnl_primitive_t run,
      pack;  /* pack: packs filters, or unpacks their gradient; NULL: oneDNN's order is ours */
  int count; /* the last is the scratchpad */
  int arg[LS_ONEDNN_ARGS];
  dnnl_memory_desc_t desc[LS_ONEDNN_ARGS], plain; /* plain: filters in our order */
  size_t scratch_bytes, filter_bytes;
} ls_onednn_primitive_t;

struct ls_cpu_onednn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_attr_t attr;
  ls_onednn_primitive_t *bucket[LS_ONEDNN_BUCKETS];
};

/* The primitive of this shape, made when it is asked for first. NULL: oneDNN has none, or memory is short. */
const ls_onednn_primitive_t *ls_onednn_find(ls_stream_t *stream, const ls_onednn_key_t *key);
/* Runs it in the calling thread, with a pointer for each of its arguments. False: memory is short. */
bool ls_onednn_run(const ls_cpu_onednn_t *library, const ls_onednn_primitive_t *primitive, void *const *data);
/* Copies filters from our order to oneDNN's, or their gradient back. False: memory is short. */
bool ls_onednn_pack(const ls_cpu_onednn_t *library, const ls_onednn_primitive_t *primitive, void *from,
                    void *to);

#endif
#endif
