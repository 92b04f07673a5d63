/* Convolutions, and products of bf16, by oneDNN's primitives. The device makes a primitive once for each shape and
 * keeps it; it runs in the calling thread, with memory of the caller's. Tensors stay in the layouts that all ops have;
 * only a convolution's filters are packed, before or, as gradients, behind it. Without oneDNN 2, and where it has no
 * kernel of its own for this processor, everything here declines. */
#include "device/cpu/cpu.h"

#if defined(LS_HAVE_DNNL)
#include <dnnl.h>
#endif
#if defined(LS_HAVE_DNNL) && DNNL_VERSION_MAJOR == 2
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

enum { PRODUCT = LS_CPU_CONV_COUNT }; /* a kind beside those of convolutions */
enum { BUCKETS = 256, ARGS = 5 };

/* What a primitive is made for; all in words of 64 bits, so that keys are compared and hashed as bytes without gaps. */
typedef struct {
  int64_t kind, low; /* PRODUCT or an ls_cpu_conv_kind_t; what is behind the other is 0 */
  struct {
    int64_t transpose_a, transpose_b, m, n, k, lda, ldb, ldc, bias;
  } product;
  ls_window_t window;
} shape_key_t;
_Static_assert(sizeof(shape_key_t) == 11 * sizeof(int64_t) + sizeof(ls_window_t), "a key has no gaps");

typedef struct primitive {
  struct primitive *next;
  shape_key_t key;
  bool usable;
  dnnl_primitive_t run,
      pack;  /* pack: filters into oneDNN's order, or gradients out of it; NULL: it is ours */
  int count; /* the last is the scratchpad */
  int arg[ARGS];
  dnnl_memory_desc_t desc[ARGS], plain; /* plain: filters in our order */
  size_t scratch_bytes, filter_bytes;
} primitive_t;

struct ls_cpu_onednn {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_attr_t attr;
  primitive_t *bucket[BUCKETS];
};

bool ls_cpu_multiplies_bf16(void) {
  return ls_cpu_onednn_has(dnnl_cpu_isa_avx512_core_bf16);
}

bool ls_cpu_convolves(void) {
  return ls_cpu_onednn_has(dnnl_cpu_isa_avx2);
}

/* What descriptions of primitives need. */
static bool open_library(ls_cpu_onednn_t *o) {
  return !dnnl_engine_create(&o->engine, dnnl_cpu, 0) && !dnnl_primitive_attr_create(&o->attr) &&
         !dnnl_primitive_attr_set_scratchpad_mode(o->attr, dnnl_scratchpad_mode_user);
}

static void close_library(ls_cpu_onednn_t *o) {
  if (o->attr) dnnl_primitive_attr_destroy(o->attr);
  if (o->stream) dnnl_stream_destroy(o->stream);
  if (o->engine) dnnl_engine_destroy(o->engine);
}

static ls_cpu_onednn_t *library_of(ls_cpu_device_t *cpu) {
  if (cpu->onednn) return cpu->onednn;
  ls_cpu_onednn_t *o = ls_alloc(cpu->host.base.ctx, sizeof *o);
  if (!o) return NULL;
  cpu->onednn = o;
  if (!open_library(o) || dnnl_stream_create(&o->stream, o->engine, 0)) {
    ls_cpu_onednn_close(cpu);
    return NULL;
  }
  return o;
}

void ls_cpu_onednn_close(ls_cpu_device_t *cpu) {
  ls_cpu_onednn_t *o = cpu->onednn;
  if (!o) return;
  for (int b = 0; b < BUCKETS; b++)
    for (primitive_t *p = o->bucket[b], *next; p; p = next) {
      next = p->next;
      if (p->run) dnnl_primitive_destroy(p->run);
      if (p->pack) dnnl_primitive_destroy(p->pack);
      ls_free(p);
    }
  close_library(o);
  ls_free(o);
  cpu->onednn = NULL;
}

/* ---- making ---- */

static bool add_arg(primitive_t *p, int arg, const_dnnl_primitive_desc_t from, dnnl_query_t what) {
  const dnnl_memory_desc_t *desc = dnnl_primitive_desc_query_md(from, what, 0);
  if (!desc) return false;
  p->arg[p->count] = arg;
  p->desc[p->count++] = *desc;
  return true;
}

/* What runs, and its scratchpad behind the arguments that were added. */
static bool finish(primitive_t *p, const_dnnl_primitive_desc_t from) {
  if (!add_arg(p, DNNL_ARG_SCRATCHPAD, from, dnnl_query_scratchpad_md)) return false;
  p->scratch_bytes = dnnl_memory_desc_get_size(&p->desc[p->count - 1]);
  return dnnl_primitive_create(&p->run, from) == dnnl_success;
}

static void plane(dnnl_memory_desc_t *desc, int64_t rows, int64_t columns, int64_t ld, bool transposed,
                  dnnl_data_type_t type) {
  const dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
  dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides);
}

/* The caller destroys it. */
static dnnl_primitive_desc_t describe_product(const ls_cpu_onednn_t *o, const shape_key_t *key,
                                              dnnl_memory_desc_t *bias) {
  const int64_t m = key->product.m, n = key->product.n, k = key->product.k;
  dnnl_memory_desc_t a, b, c;
  dnnl_matmul_desc_t desc;
  dnnl_primitive_desc_t made = NULL;
  dnnl_data_type_t to = key->low ? dnnl_bf16 : dnnl_f32;
  plane(&a, m, k, key->product.lda, key->product.transpose_a, dnnl_bf16);
  plane(&b, k, n, key->product.ldb, key->product.transpose_b, dnnl_bf16);
  plane(bias, 1, n, n, false, to);
  plane(&c, m, n, key->product.ldc, false, to);
  bool done = !dnnl_matmul_desc_init(&desc, &a, &b, key->product.bias ? bias : NULL, &c) &&
              !dnnl_primitive_desc_create(&made, &desc, o->attr, o->engine, NULL);
  return done ? made : NULL;
}

static bool make_product(ls_cpu_onednn_t *o, const shape_key_t *key, primitive_t *p) {
  dnnl_memory_desc_t bias;
  dnnl_primitive_desc_t made = describe_product(o, key, &bias);
  if (!made) return false;
  bool done = add_arg(p, DNNL_ARG_SRC, made, dnnl_query_src_md) &&
              add_arg(p, DNNL_ARG_WEIGHTS, made, dnnl_query_weights_md) &&
              add_arg(p, DNNL_ARG_DST, made, dnnl_query_dst_md);
  if (done && key->product.bias) {
    p->arg[p->count] = DNNL_ARG_BIAS;
    p->desc[p->count++] = bias;
  }
  done = done && finish(p, made);
  dnnl_primitive_desc_destroy(made);
  return done;
}

/* Channels first in the dimensions, last in memory. */
static void images(dnnl_memory_desc_t *desc, int64_t n, int64_t c, int64_t h, int64_t w,
                   dnnl_data_type_t type) {
  const dnnl_dims_t dims = {n, c, h, w};
  dnnl_memory_desc_init_by_tag(desc, 4, dims, type, dnnl_nhwc);
}

static bool starts_with(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* Kernels made for this processor, and for channels of their own where the convolution is of that kind. */
static bool is_good(const_dnnl_primitive_desc_t made, bool depthwise) {
  const char *name = "";
  dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&name);
  return (starts_with(name, "brg") || starts_with(name, "jit") || starts_with(name, "brd")) &&
         (!depthwise || strstr(name, "_dw"));
}

static bool make_pack(ls_cpu_onednn_t *o, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                      primitive_t *p) {
  dnnl_primitive_desc_t made = NULL;
  if (dnnl_memory_desc_equal(from, to)) return true;
  if (dnnl_reorder_primitive_desc_create(&made, from, o->engine, to, o->engine, NULL)) return false;
  bool done = dnnl_primitive_create(&p->pack, made) == dnnl_success;
  dnnl_primitive_desc_destroy(made);
  return done;
}

/* Gradients of filters are f32. The forward pass is what oneDNN asks for to make the others. */
static bool make_convolution(ls_cpu_onednn_t *o, const shape_key_t *key, primitive_t *p) {
  const ls_cpu_conv_kind_t kind = (ls_cpu_conv_kind_t)key->kind;
  const ls_window_t *v = &key->window;
  const dnnl_data_type_t type = key->low ? dnnl_bf16 : dnnl_f32,
                         filters = kind == LS_CPU_CONV_DW ? dnnl_f32 : type;
  const int64_t in = v->c / v->groups, taps = v->kh * v->kw;
  const dnnl_dims_t strides = {v->sh, v->sw}, dilates = {v->dh - 1, v->dw - 1}, before = {v->top, v->left};
  const dnnl_dims_t after = {v->bottom, v->right};
  dnnl_dims_t dims = {v->groups, v->o / v->groups, in, v->kh, v->kw};
  dnnl_dims_t order = {v->o / v->groups * taps * in, taps * in, 1, v->kw * in, in};
  const int skip = v->groups == 1;
  dnnl_memory_desc_t x, w, any, y;
  dnnl_convolution_desc_t forward, desc;
  dnnl_primitive_desc_t first = NULL, made = NULL;
  images(&x, v->n, v->c, v->h, v->w, type);
  images(&y, v->n, v->o, v->oh, v->ow, type);
  dnnl_memory_desc_init_by_tag(&any, 5 - skip, dims + skip, type, dnnl_format_tag_any);
  dnnl_memory_desc_init_by_tag(&w, 5 - skip, dims + skip, filters, dnnl_format_tag_any);
  dnnl_memory_desc_init_by_strides(&p->plain, 5 - skip, dims + skip, filters, order + skip);
  bool done =
      !dnnl_dilated_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_direct,
                                                  &x, &any, NULL, &y, strides, dilates, before, after) &&
      !dnnl_primitive_desc_create(&first, &forward, o->attr, o->engine, NULL);
  if (!done) return false;
  if (kind == LS_CPU_CONV_DX)
    done = !dnnl_dilated_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &x, &w, &y,
                                                             strides, dilates, before, after);
  else if (kind == LS_CPU_CONV_DW)
    done = !dnnl_dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x, &w, NULL,
                                                                &y, strides, dilates, before, after);
  if (kind == LS_CPU_CONV_Y)
    made = first;
  else
    done = done && !dnnl_primitive_desc_create(&made, &desc, o->attr, o->engine, first);
  if (done) {
    bool dx = kind == LS_CPU_CONV_DX, dw = kind == LS_CPU_CONV_DW;
    done = is_good(made, v->groups > 1) &&
           add_arg(p, dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, made,
                   dx ? dnnl_query_diff_src_md : dnnl_query_src_md) &&
           add_arg(p, dw ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, made,
                   dw ? dnnl_query_diff_weights_md : dnnl_query_weights_md) &&
           add_arg(p, dx || dw ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, made,
                   dx || dw ? dnnl_query_diff_dst_md : dnnl_query_dst_md) &&
           make_pack(o, dw ? &p->desc[1] : &p->plain, dw ? &p->plain : &p->desc[1], p) && finish(p, made);
    p->filter_bytes = done ? dnnl_memory_desc_get_size(&p->desc[1]) : 0;
  }
  if (made && made != first) dnnl_primitive_desc_destroy(made);
  dnnl_primitive_desc_destroy(first);
  return done;
}

/* The primitive of this shape, made when it is asked for first. NULL: oneDNN has none, or memory is short. */
static const primitive_t *find(ls_stream_t *stream, const shape_key_t *key) {
  ls_cpu_onednn_t *o = library_of((ls_cpu_device_t *)stream->device);
  const int64_t *word = &key->kind;
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof *key / sizeof *word; i++)
    hash = (hash ^ (uint64_t)word[i]) * 0x9E3779B97F4A7C15u;
  primitive_t **at = o ? &o->bucket[hash >> 56] : NULL;
  while (at && *at && memcmp(&(*at)->key, key, sizeof *key) != 0)
    at = &(*at)->next;
  if (!at) return NULL;
  if (!*at) {
    primitive_t *p = *at = ls_alloc(stream->device->ctx, sizeof *p);
    if (!p) return NULL;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    p->key = *key;
    p->usable = key->kind == PRODUCT ? make_product(o, key, p) : make_convolution(o, key, p);
    omp_set_num_threads(threads);
    ls_cpu_library_fresh();
  }
  return (*at)->usable ? *at : NULL;
}
_Static_assert(BUCKETS == 1 << 8, "a bucket is named by the hash's upper byte");

/* ---- running ---- */

static bool execute(const ls_cpu_onednn_t *o, dnnl_primitive_t run, int count, const int *arg,
                    const dnnl_memory_desc_t *desc, void *const *data) {
  dnnl_exec_arg_t args[ARGS];
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

/* Work in parts, each with a primitive of its size and room for its scratchpad. */
typedef struct {
  ls_cpu_onednn_t *library;
  int64_t count, grain, parts;
  const primitive_t **primitive;
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

/* Finds the primitives, of key with a part's size in its member *size, and room for them and for `filters` packed filters.
 * LS_ERR_UNSUPPORTED: oneDNN has none. */
static ls_status_t prepare(ls_stream_t *stream, parts_t *p, shape_key_t *key, int64_t *size,
                           int64_t filters) {
  size_t most = 0, bytes = padded((size_t)p->parts * sizeof *p->primitive);
  for (int64_t i = 0, begin; i < p->parts; i++) {
    if (!(*size = part_size(p, i, &begin))) continue;
    const primitive_t *found = find(stream, key);
    if (!found) return LS_ERR_UNSUPPORTED;
    if (found->scratch_bytes > most) most = found->scratch_bytes;
    p->filter_bytes = padded(found->filter_bytes);
  }
  p->stride = padded(most);
  char *room = ls_cpu_room(stream, bytes + (size_t)p->parts * p->stride + (size_t)filters * p->filter_bytes);
  if (!room) return LS_ERR_MEMORY;
  p->primitive = (const primitive_t **)(void *)room;
  p->scratch = room + bytes;
  p->filters = p->scratch + (size_t)p->parts * p->stride;
  for (int64_t i = 0, begin; i < p->parts; i++)
    p->primitive[i] = (*size = part_size(p, i, &begin)) ? find(stream, key) : NULL;
  p->library = ((ls_cpu_device_t *)stream->device)->onednn;
  p->simd = ls_cpu_simd(stream);
  return LS_OK;
}

static void run_products(const void *arg, int64_t part, int64_t end) {
  const parts_t *p = arg;
  const ls_cpu_product_t *of = p->product;
  for (int64_t begin; part < end; part++) {
    const primitive_t *one = p->primitive[part];
    if (!part_size(p, part, &begin)) continue;
    int64_t row = of->by_columns ? 0 : begin, column = of->by_columns ? begin : 0;
    uint16_t *a = of->a + (of->transpose_a ? row : row * of->lda);
    uint16_t *b = of->b + (of->transpose_b ? column * of->ldb : column);
    char *c = (char *)of->c + (size_t)(row * of->ldc + column) * (of->low ? 2 : 4);
    void *data[ARGS] = {a, b, c};
    if (of->bias) data[3] = of->bias + column;
    data[one->count - 1] = p->scratch + (size_t)part * p->stride;
    if (!execute(p->library, one->run, one->count, one->arg, one->desc, data)) *p->failed = true;
    ls_cpu_library_called();
  }
}

static shape_key_t product_key(const ls_cpu_product_t *of) {
  return (shape_key_t){.kind = PRODUCT,
                       .low = of->low,
                       .product = {of->transpose_a, of->transpose_b, of->m, of->n, of->k, of->lda, of->ldb,
                                   of->ldc, of->bias != NULL}};
}

static ls_cpu_work_t product_work(const ls_cpu_product_t *of) {
  return LS_CPU_FLOPS(of->m * of->n * of->k); /* half the time of f32 */
}

enum { PRODUCT_GRAIN = 16 };

ls_status_t ls_cpu_product_bf16(ls_stream_t *stream, const ls_cpu_product_t *of) {
  atomic_bool failed = false;
  ls_cpu_work_t work = product_work(of);
  parts_t p = {.count = of->by_columns ? of->n : of->m,
               .grain = PRODUCT_GRAIN,
               .parts = ls_cpu_parts(stream, work),
               .product = of,
               .failed = &failed};
  shape_key_t key = product_key(of);
  ls_status_t status = prepare(stream, &p, &key, of->by_columns ? &key.product.n : &key.product.m, 0);
  if (status) return status;
  ls_cpu_library_loop(stream, p.parts, 1, work, run_products, &p);
  return failed ? LS_ERR_MEMORY : LS_OK;
}

/* Of one part: its scratchpad, and the block of a product that packs, which the library multiplies as one of f32. */
static size_t part_scratch(const ls_cpu_onednn_t *o, const shape_key_t *key, bool shared,
                           ls_device_scratch_t *scratch) {
  dnnl_memory_desc_t bias;
  dnnl_primitive_desc_t made = describe_product(o, key, &bias);
  if (!made) return 0;
  const char *name = "";
  dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&name);
  const dnnl_memory_desc_t *room = dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
  const size_t bytes = room ? dnnl_memory_desc_get_size(room) : 0;
  scratch->code[LS_CODE_LOW] = 1;
  scratch->code[LS_CODE_LOW_EACH]++;
  if (key->product.n % 2 || key->product.k % 2) scratch->code[LS_CODE_LOW_ODD]++;
  if (starts_with(name, "gemm")) {
    scratch->code[LS_CODE_LOW_PACKED] = 1;
    const ls_cpu_block_t block = ls_cpu_gemm_block(true, key->product.transpose_a, key->product.transpose_b,
                                                   key->product.m, key->product.n, key->product.k,
                                                   key->product.lda, key->product.ldb, key->product.ldc);
    ls_cpu_block_mark(&scratch->blocks, shared, &block);
  }
  dnnl_primitive_desc_destroy(made);
  return bytes;
}

void ls_cpu_product_scratch(const ls_device_options_t *options, const ls_cpu_product_t *of,
                            ls_device_scratch_t *scratch) {
  parts_t p = {.count = of->by_columns ? of->n : of->m,
               .grain = PRODUCT_GRAIN,
               .parts = ls_cpu_option_parts(options, product_work(of))};
  shape_key_t key = product_key(of);
  int64_t *size = of->by_columns ? &key.product.n : &key.product.m, begin, last = 0;
  size_t most = 0;
  ls_cpu_onednn_t o = {0};
  const bool shared = p.parts > 1 && part_size(&p, 1, &begin) > 0;
  const bool open = open_library(&o);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1); /* as the calling thread does that makes it */
  for (int64_t i = 0; open && i < p.parts; i++) {
    *size = part_size(&p, i, &begin);
    if (*size == 0 || *size == last) continue;
    last = *size;
    size_t bytes = part_scratch(&o, &key, shared, scratch);
    if (bytes > most) most = bytes;
  }
  omp_set_num_threads(threads);
  scratch->room_bytes = p.parts * (int64_t)padded(most);
  close_library(&o);
}

static void run_images(const void *arg, int64_t part, int64_t end) {
  const parts_t *p = arg;
  for (int64_t begin; part < end; part++) {
    const primitive_t *one = p->primitive[part];
    if (!part_size(p, part, &begin)) continue;
    void *data[] = {p->x + begin * p->x_bytes,
                    p->filters + (p->kind == LS_CPU_CONV_DW ? (size_t)part * p->filter_bytes : 0),
                    p->y + begin * p->y_bytes, p->scratch + (size_t)part * p->stride};
    if (!execute(p->library, one->run, one->count, one->arg, one->desc, data)) *p->failed = true;
  }
}

static void add_filters(const void *arg, int64_t begin, int64_t end) {
  const parts_t *p = arg;
  float *sum = (float *)(void *)p->filters;
  for (int64_t i = 1; i < p->parts; i++)
    p->simd->add(end - begin, sum + begin, sum + (size_t)i * (p->filter_bytes / sizeof *sum) + begin,
                 sum + begin);
}

typedef struct {
  const parts_t *parts;
  void *from, *to;
} pack_t;

static void pack(const void *arg, int64_t begin, int64_t end) {
  const pack_t *k = arg;
  const primitive_t *one = k->parts->primitive[0];
  const bool out = k->parts->kind == LS_CPU_CONV_DW;
  const dnnl_memory_desc_t desc[] = {out ? one->desc[1] : one->plain, out ? one->plain : one->desc[1]};
  const int names[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
  void *data[] = {k->from, k->to};
  (void)begin;
  (void)end;
  if (one->pack) {
    if (!execute(k->parts->library, one->pack, 2, names, desc, data)) *k->parts->failed = true;
  } else
    memcpy(k->to, k->from, dnnl_memory_desc_get_size(&one->plain));
}

ls_status_t ls_cpu_convolution(ls_stream_t *stream, ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low,
                               void *x, void *w, void *y) {
  const int64_t each = low ? 2 : 4,
                flops = 2 * v->n * v->oh * v->ow * v->o * (v->c / v->groups) * v->kh * v->kw;
  atomic_bool failed = false;
  ls_cpu_work_t work = LS_CPU_FLOPS(low ? flops / 2 : flops);
  parts_t p = {.count = v->n,
               .grain = 1,
               .parts = ls_cpu_parts(stream, work),
               .kind = kind,
               .x = x,
               .y = y,
               .failed = &failed};
  p.x_bytes = v->h * v->w * v->c * each;
  p.y_bytes = v->oh * v->ow * v->o * each;
  if (p.parts > v->n) p.parts = v->n;
  shape_key_t key = {.kind = kind, .low = low, .window = *v};
  ls_status_t status = prepare(stream, &p, &key, &key.window.n, kind == LS_CPU_CONV_DW ? p.parts : 1);
  if (status) return status;
  pack_t k = {&p, kind == LS_CPU_CONV_DW ? p.filters : w, kind == LS_CPU_CONV_DW ? w : p.filters};
  if (kind != LS_CPU_CONV_DW) ls_cpu_library_loop(stream, 1, 1, (ls_cpu_work_t){0}, pack, &k);
  ls_cpu_library_loop(stream, p.parts, 1, work, run_images, &p);
  if (kind == LS_CPU_CONV_DW) {
    int64_t count = (int64_t)(p.filter_bytes / sizeof(float));
    if (p.parts > 1) ls_cpu_loop(stream, count, 16, LS_CPU_BYTES(count * 4 * (p.parts + 1)), add_filters, &p);
    ls_cpu_library_loop(stream, 1, 1, (ls_cpu_work_t){0}, pack, &k);
  }
  return failed ? LS_ERR_MEMORY : LS_OK;
}

#else

bool ls_cpu_multiplies_bf16(void) {
  return false;
}

bool ls_cpu_convolves(void) {
  return false;
}

void ls_cpu_onednn_close(ls_cpu_device_t *cpu) {
  (void)cpu;
}

void ls_cpu_product_scratch(const ls_device_options_t *options, const ls_cpu_product_t *of,
                            ls_device_scratch_t *scratch) {
  (void)options;
  (void)of;
  (void)scratch;
}

ls_status_t ls_cpu_product_bf16(ls_stream_t *stream, const ls_cpu_product_t *of) {
  (void)stream;
  (void)of;
  return LS_ERR_UNSUPPORTED;
}

ls_status_t ls_cpu_convolution(ls_stream_t *stream, ls_cpu_conv_kind_t kind, const ls_window_t *v, bool low,
                               void *x, void *w, void *y) {
  (void)stream;
  (void)kind;
  (void)v;
  (void)low;
  (void)x;
  (void)w;
  (void)y;
  return LS_ERR_UNSUPPORTED;
}

#endif
