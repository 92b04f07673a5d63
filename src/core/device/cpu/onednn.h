/* Between onednn.c, which runs oneDNN's primitives, and onednn_make.c, which makes them. Defines LS_CPU_ONEDNN where oneDNN 2
 * is there. */
#ifndef LS_DEVICE_CPU_ONEDNN_H
#define LS_DEVICE_CPU_ONEDNN_H

#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#endif
#if defined(LS_HAVE_DNNL) && DNNL_VERSION_MAJOR == 2
#define LS_CPU_ONEDNN

enum { LS_ONEDNN_PRODUCT = LS_CPU_CONV_COUNT }; /* a kind beside those of convolutions */
enum { LS_ONEDNN_BUCKETS = 256, LS_ONEDNN_ARGS = 5 };

/* What a primitive is made for; all in words of 64 bits, so that keys are compared and hashed as bytes without gaps. */
typedef struct {
  int64_t kind, low; /* LS_ONEDNN_PRODUCT or an ls_cpu_conv_kind_t; what is behind the other is 0 */
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
      pack;  /* pack: filters into oneDNN's order, or gradients out of it; NULL: it is ours */
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

/* What descriptions of primitives need. False: memory is short; close what is there. */
bool ls_onednn_library_open(ls_cpu_onednn_t *library);
void ls_onednn_library_close(ls_cpu_onednn_t *library);
/* The product of this key, and its bias. NULL: oneDNN has none. The caller destroys it. */
dnnl_primitive_desc_t ls_onednn_describe_product(const ls_cpu_onednn_t *library, const ls_onednn_key_t *key,
                                                 dnnl_memory_desc_t *bias);
/* The convolution of this key, and its filters in our order. NULL: oneDNN has none that is made for this processor. The
 * caller destroys it. */
dnnl_primitive_desc_t ls_onednn_describe_convolution(const ls_cpu_onednn_t *library,
                                                     const ls_onednn_key_t *key, dnnl_memory_desc_t *plain);
/* What it writes, of a gradient of filters, or else reads: packed filters. NULL: not known. */
const dnnl_memory_desc_t *ls_onednn_filters(const_dnnl_primitive_desc_t made, ls_cpu_conv_kind_t kind);
/* The name of its implementation, such as "brgemm:avx512_core_bf16"; "" is not known. */
const char *ls_onednn_name(const_dnnl_primitive_desc_t made);
/* The primitive of this shape, made when it is asked for first. NULL: oneDNN has none, or memory is short. */
const ls_onednn_primitive_t *ls_onednn_find(ls_stream_t *stream, const ls_onednn_key_t *key);
/* Runs it in the calling thread, with a pointer for each of its arguments. False: memory is short. */
bool ls_onednn_run(const ls_cpu_onednn_t *library, const ls_onednn_primitive_t *primitive, void *const *data);
/* A convolution's filters from our order into its own; a gradient of filters from its order into ours. */
bool ls_onednn_pack(const ls_cpu_onednn_t *library, const ls_onednn_primitive_t *primitive, void *from,
                    void *to);

#endif
#endif
