/* Runs convolutions, and products of bf16, by oneDNN's primitives (onednn_make.c), in the calling thread and with
 * the caller's memory. Tensors stay in the layouts that all ops have. Only filters are packed before a convolution,
 * and gradients of filters unpacked after it. Everything here returns LS_ERR_UNSUPPORTED without oneDNN 2, and if
 * oneDNN has no kernel of its own for this processor. */
#include "device/cpu/onednn.h"

#if defined(LS_CPU_ONEDNN)
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

static bool execute(const ls_cpu_onednn_t *o, dnnl_primitive_t run, int count, const int *arg,
                    const dnnl_memory_desc_t *desc, void *const *data) {
  dnnl_exec_arg_t args[LS_ONEDNN_ARGS];
  int made = 0;
  for (; made < count; made++) {
    args[made].arg = arg[made];
    if (dnnl_memory_create(&args[made].memory, &desc[made], o->engine, data[made])) break;
  }
  int threads = omp_get_max_threads();
  if (threads != 1) omp_set_num_threads(1);
  bool done = made == count && !dnnl_primitive_execute(run, o->stream, count, args);
  if (threads != 1) omp_set_num_threads(threads);
  while (made > 0)
    dnnl_memory_destroy(args[--made].memory);
  return done;
}

bool ls_onednn_run(const ls_cpu_onednn_t *o, const ls_onednn_primitive_t *p, void *const *data) {
  if (p->clean) memset(data[p->count - 1], 0, p->scratch_bytes);
  return execute(o, p->run, p->count, p->arg, p->desc, data);
}

bool ls_onednn_pack(const ls_cpu_onednn_t *o, const ls_onednn_primitive_t *p, void *from, void *to) {
  const bool out = p->key.kind == LS_CPU_CONV_DW;
  const dnnl_memory_desc_t desc[] = {out ? p->desc[1] : p->plain, out ? p->plain : p->desc[1]};
  const int names[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  void *data[] = {from, to};
  if (p->pack) return execute(o, p->pack, 2, names, desc, data);
  memcpy(to, from, dnnl_memory_desc_get_size(&p->plain));
  return true;
}

/* Work in parts, each with a primitive of its size and room for its scratchpad. */
typedef struct {
  ls_cpu_onednn_t *library;
  int64_t count, grain, parts;
  const ls_onednn_primitive_t **primitive;
  char *scratch;
  size_t stride;
  atomic_bool *failed;
  const ls_cpu_product_t *product;
  ls_cpu_conv_kind_t kind;
  char *x, *y; /* images of a convolution; x or y is written by some */
  int64_t x_bytes, y_bytes;
  char *filters; /* packed; gradients: of each part */
  size_t filter_bytes;
  const ls_simd_t *simd;
} parts_t;

static size_t padded(size_t size_bytes) {
  return (size_bytes + 63) / 64 * 64;
}

static int64_t part_size(const parts_t *p, int64_t part, int64_t *begin) {
  int64_t end;
  ls_pool_share(p->count, p->grain, (int)part, (int)p->parts, begin, &end);
  return end - *begin;
}

/* Finds the primitives, and makes room for them and for `filters` packed filters. *size is the member of key that
 * differs between the parts. LS_ERR_UNSUPPORTED: oneDNN has none. */
static ls_status_t prepare(ls_stream_t *stream, parts_t *p, ls_onednn_key_t *key, int64_t *size,
                           int64_t filters) {
  size_t most = 0, bytes = padded((size_t)p->parts * sizeof *p->primitive);
  for (int64_t i = 0, begin; i < p->parts; i++) {
    if (!(*size = part_size(p, i, &begin))) continue;
    const ls_onednn_primitive_t *found = ls_onednn_find(stream, key);
    if (!found) return LS_ERR_UNSUPPORTED;
    if (found->scratch_bytes > most) most = found->scratch_bytes;
    p->filter_bytes = padded(found->filter_bytes);
  }
  p->stride = padded(most);
  char *room = ls_cpu_room(stream, bytes + (size_t)p->parts * p->stride + (size_t)filters * p->filter_bytes);
  if (!room) return LS_ERR_MEMORY;
  p->primitive = (const ls_onednn_primitive_t **)(void *)room;
  p->scratch = room + bytes;
  p->filters = p->scratch + (size_t)p->parts * p->stride;
  for (int64_t i = 0, begin; i < p->parts; i++)
    p->primitive[i] = (*size = part_size(p, i, &begin)) ? ls_onednn_find(stream, key) : NULL;
  p->library = ((ls_cpu_device_t *)stream->device)->onednn;
  p->simd = ls_cpu_simd(stream);
  return LS_OK;
}

static void run_products(const void *arg, int64_t part, int64_t end) {
  const parts_t *p = arg;
  const ls_cpu_product_t *of = p->product;
  for (int64_t begin; part < end; part++) {
    const ls_onednn_primitive_t *one = p->primitive[part];
    if (!part_size(p, part, &begin)) continue;
    int64_t row = of->by_columns ? 0 : begin, column = of->by_columns ? begin : 0;
    uint16_t *a = of->a + (of->transpose_a ? row : row * of->lda);
    uint16_t *b = of->b + (of->transpose_b ? column * of->ldb : column);
    char *c = (char *)of->c + (size_t)(row * of->ldc + column) * (of->low ? 2 : 4);
    void *data[LS_ONEDNN_ARGS] = {a, b, c};
    if (of->bias) data[3] = of->bias + column;
    data[one->count - 1] = p->scratch + (size_t)part * p->stride;
    if (!ls_onednn_run(p->library, one, data)) *p->failed = true;
  }
}

ls_status_t ls_cpu_product_bf16(ls_stream_t *stream, const ls_cpu_product_t *of) {
  enum { GRAIN = 16 };
  atomic_bool failed = false;
  const ls_cpu_work_t work = LS_CPU_FLOPS(of->m * of->n * of->k); /* half the time of f32 */
  parts_t p = {.count = of->by_columns ? of->n : of->m,
               .grain = GRAIN,
               .parts = ls_cpu_parts(stream, work),
               .product = of,
               .failed = &failed};
  ls_onednn_key_t key = {.kind = LS_ONEDNN_PRODUCT,
                         .low = of->low,
                         .product = {of->transpose_a, of->transpose_b, of->m, of->n, of->k, of->lda, of->ldb,
                                     of->ldc, of->bias != NULL}};
  ls_status_t status = prepare(stream, &p, &key, of->by_columns ? &key.product.n : &key.product.m, 0);
  if (status) return status;
  ls_cpu_library_loop(stream, p.parts, 1, work, run_products, &p);
  return failed ? LS_ERR_MEMORY : LS_OK;
}

static void run_images(const void *arg, int64_t part, int64_t end) {
  const parts_t *p = arg;
  for (int64_t begin; part < end; part++) {
    const ls_onednn_primitive_t *one = p->primitive[part];
    if (!part_size(p, part, &begin)) continue;
    void *data[] = {p->x + begin * p->x_bytes,
                    p->filters + (p->kind == LS_CPU_CONV_DW ? (size_t)part * p->filter_bytes : 0),
                    p->y + begin * p->y_bytes, p->scratch + (size_t)part * p->stride};
    if (!ls_onednn_run(p->library, one, data)) *p->failed = true;
  }
}

static void add_filters(const void *arg, int64_t begin, int64_t end) {
  const parts_t *p = arg;
  float *sum = (float *)(void *)p->filters;
  for (int64_t i = 1; i < p->parts; i++)
    p->simd->add(end - begin, sum + begin, sum + (size_t)i * (p->filter_bytes / sizeof *sum) + begin,
                 sum + begin);
}

/* Filters between our order and oneDNN's. */
typedef struct {
  const parts_t *parts;
  void *ours;
} pack_t;

static void pack(const void *arg, int64_t begin, int64_t end) {
  const pack_t *k = arg;
  const parts_t *p = k->parts;
  const bool out = p->kind == LS_CPU_CONV_DW;
  (void)begin, (void)end;
  if (!ls_onednn_pack(p->library, p->primitive[0], out ? p->filters : k->ours, out ? k->ours : p->filters))
    *p->failed = true;
}

ls_status_t ls_cpu_convolution(ls_stream_t *stream, ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low,
                               void *x, void *w, void *y) {
  const int64_t each = low ? 2 : 4;
  const bool gradient = kind == LS_CPU_CONV_DW;
  const int64_t flops = 2 * v->n * v->oh * v->ow * v->o * (v->c / v->groups) * v->kh * v->kw;
  const ls_cpu_work_t work = LS_CPU_FLOPS(low ? flops / 2 : flops), little = {0};
  atomic_bool failed = false;
  parts_t p = {.count = v->n,
               .grain = 1,
               .parts = ls_cpu_parts(stream, work),
               .kind = kind,
               .x = x,
               .y = y,
               .x_bytes = v->h * v->w * v->c * each,
               .y_bytes = v->oh * v->ow * v->o * each,
               .failed = &failed};
  if (p.parts > v->n) p.parts = v->n;
  ls_onednn_key_t key = {.kind = kind, .low = low, .window = *v};
  ls_status_t status = prepare(stream, &p, &key, &key.window.n, gradient ? p.parts : 1);
  if (status) return status;
  const pack_t k = {&p, w};
  const int64_t count = (int64_t)(p.filter_bytes / sizeof(float));
  if (!gradient) ls_cpu_library_loop(stream, 1, 1, little, pack, &k);
  ls_cpu_library_loop(stream, p.parts, 1, work, run_images, &p);
  if (gradient && p.parts > 1)
    ls_cpu_loop(stream, count, 16, LS_CPU_BYTES(count * 4 * (p.parts + 1)), add_filters, &p);
  if (gradient) ls_cpu_library_loop(stream, 1, 1, little, pack, &k);
  return failed ? LS_ERR_MEMORY : LS_OK;
}

#else

ls_status_t ls_cpu_product_bf16(ls_stream_t *stream, const ls_cpu_product_t *of) {
  (void)stream, (void)of;
  return LS_ERR_UNSUPPORTED;
}

ls_status_t ls_cpu_convolution(ls_stream_t *stream, ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low,
                               void *x, void *w, void *y) {
  (void)stream, (void)kind, (void)v, (void)low, (void)x, (void)w, (void)y;
  return LS_ERR_UNSUPPORTED;
}

#endif
