/* Makes oneDNN's primitives: convolutions, and products of bf16. A device makes a primitive when its shape is first used,
 * and keeps it. If oneDNN has no kernel of its own for this processor, there is none. */
#include "device/cpu/onednn.h"

#if defined(LS_CPU_ONEDNN)
#include <omp.h>
#include <string.h>

bool ls_cpu_multiplies_bf16(void) {
  return ls_cpu_onednn_has(dnnl_cpu_isa_avx512_core_bf16);
}

bool ls_cpu_convolves(void) {
  return ls_cpu_onednn_has(dnnl_cpu_isa_avx2);
}

static ls_cpu_onednn_t *library_of(ls_cpu_device_t *cpu) {
  if (cpu->onednn) return cpu->onednn;
  ls_cpu_onednn_t *o = ls_alloc(cpu->host.base.ctx, sizeof *o);
  if (!o) return NULL;
  cpu->onednn = o;
  if (dnnl_engine_create(&o->engine, dnnl_cpu, 0) || dnnl_primitive_attr_create(&o->attr) ||
      dnnl_primitive_attr_set_scratchpad_mode(o->attr, dnnl_scratchpad_mode_user) ||
      dnnl_stream_create(&o->stream, o->engine, 0)) {
    ls_cpu_onednn_close(cpu);
    return NULL;
  }
  return o;
}

void ls_cpu_onednn_close(ls_cpu_device_t *cpu) {
  ls_cpu_onednn_t *o = cpu->onednn;
  if (!o) return;
  for (int b = 0; b < LS_ONEDNN_BUCKETS; b++)
    for (ls_onednn_primitive_t *p = o->bucket[b], *next; p; p = next) {
      next = p->next;
      if (p->run) dnnl_primitive_destroy(p->run);
      if (p->pack) dnnl_primitive_destroy(p->pack);
      ls_free(p);
    }
  if (o->attr) dnnl_primitive_attr_destroy(o->attr);
  if (o->stream) dnnl_stream_destroy(o->stream);
  if (o->engine) dnnl_engine_destroy(o->engine);
  ls_free(o);
  cpu->onednn = NULL;
}

/* ---- making ---- */

static bool add_arg(ls_onednn_primitive_t *p, int arg, const_dnnl_primitive_desc_t from, dnnl_query_t what) {
  const dnnl_memory_desc_t *desc = dnnl_primitive_desc_query_md(from, what, 0);
  if (!desc) return false;
  p->arg[p->count] = arg;
  p->desc[p->count++] = *desc;
  return true;
}

/* Makes the primitive; its scratchpad is the last argument. */
static bool finish(ls_onednn_primitive_t *p, const_dnnl_primitive_desc_t from) {
  if (!add_arg(p, DNNL_ARG_SCRATCHPAD, from, dnnl_query_scratchpad_md)) return false;
  p->scratch_bytes = dnnl_memory_desc_get_size(&p->desc[p->count - 1]);
  return dnnl_primitive_create(&p->run, from) == dnnl_success;
}

static void plane(dnnl_memory_desc_t *desc, int64_t rows, int64_t columns, int64_t ld, bool transposed,
                  dnnl_data_type_t type) {
  const dnnl_dims_t dims = {rows, columns}, strides = {transposed ? 1 : ld, transposed ? ld : 1};
  dnnl_memory_desc_init_by_strides(desc, 2, dims, type, strides);
}

static bool make_product(ls_cpu_onednn_t *o, const ls_onednn_key_t *key, ls_onednn_primitive_t *p) {
  const int64_t m = key->product.m, n = key->product.n, k = key->product.k;
  const dnnl_data_type_t to = key->low ? dnnl_bf16 : dnnl_f32;
  dnnl_memory_desc_t a, b, c, bias;
  dnnl_matmul_desc_t desc;
  dnnl_primitive_desc_t made = NULL;
  plane(&a, m, k, key->product.lda, key->product.transpose_a, dnnl_bf16);
  plane(&b, k, n, key->product.ldb, key->product.transpose_b, dnnl_bf16);
  plane(&bias, 1, n, n, false, to);
  plane(&c, m, n, key->product.ldc, false, to);
  if (dnnl_matmul_desc_init(&desc, &a, &b, key->product.bias ? &bias : NULL, &c) ||
      dnnl_primitive_desc_create(&made, &desc, o->attr, o->engine, NULL))
    return false;
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

/* The name of its implementation, such as "brgemm:avx512_core_bf16"; "" is not known. */
static const char *name_of(const_dnnl_primitive_desc_t made) {
  const char *name = "";
  dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&name);
  return name;
}

/* The packed filters that it reads, or as their gradient writes. NULL: not known. */
static const dnnl_memory_desc_t *filters_of(const_dnnl_primitive_desc_t made, ls_cpu_conv_kind_t kind) {
  return dnnl_primitive_desc_query_md(
      made, kind == LS_CPU_CONV_DW ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
}

static bool starts_with(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

/* True for kernels that are made for this processor; a depthwise convolution needs one of its kind. */
static bool is_good(const_dnnl_primitive_desc_t made, bool depthwise) {
  const char *name = name_of(made);
  return (starts_with(name, "brg") || starts_with(name, "jit") || starts_with(name, "brd")) &&
         (!depthwise || strstr(name, "_dw"));
}

/* True for implementations with wrong results. oneDNN 2 and 3 copy every other pixel for a strided convolution of 1
 * x 1, and write rows of fewer channels than a vector past that copy's end (github.com/uxlfoundation/oneDNN, issue
 * 6035). In bf16 oneDNN 2.6 is wrong with AMX for filters of dilated windows. Without AMX it is wrong for windows
 * of one pixel if the number of filters is no multiple of 16 or pixels are left out. */
static bool is_wrong(const_dnnl_primitive_desc_t made, const ls_onednn_key_t *key) {
  const ls_window_t *v = &key->window;
  const dnnl_memory_desc_t *filters = filters_of(made, (ls_cpu_conv_kind_t)key->kind);
  const bool dw = key->kind == LS_CPU_CONV_DW, strided = v->sh > 1 || v->sw > 1, pixel = v->kh * v->kw == 1;
  if (key->low && (dw ? v->dh > 1 || v->dw > 1 || (pixel && strided) : pixel && v->o % 16 != 0)) return true;
  return dw && strided && strstr(name_of(made), "1x1") &&
         (!filters || v->c < filters->format_desc.blocking.inner_blks[0]);
}

/* The first implementation of a gradient that is not wrong; NULL: there is none. */
static dnnl_primitive_desc_t gradient(const ls_cpu_onednn_t *o, const ls_onednn_key_t *key,
                                      const dnnl_convolution_desc_t *desc,
                                      const_dnnl_primitive_desc_t forward) {
  dnnl_primitive_desc_iterator_t at = NULL;
  dnnl_primitive_desc_t made = NULL;
  if (dnnl_primitive_desc_iterator_create(&at, desc, o->attr, o->engine, forward)) return NULL;
  while ((made = dnnl_primitive_desc_iterator_fetch(at)) && is_wrong(made, key)) {
    dnnl_primitive_desc_destroy(made);
    made = NULL;
    if (dnnl_primitive_desc_iterator_next(at)) break;
  }
  dnnl_primitive_desc_iterator_destroy(at);
  return made;
}

static bool make_pack(ls_cpu_onednn_t *o, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                      ls_onednn_primitive_t *p) {
  dnnl_primitive_desc_t made = NULL;
  if (dnnl_memory_desc_equal(from, to)) return true;
  if (dnnl_reorder_primitive_desc_create(&made, from, o->engine, to, o->engine, NULL)) return false;
  bool done = dnnl_primitive_create(&p->pack, made) == dnnl_success;
  dnnl_primitive_desc_destroy(made);
  return done;
}

/* The convolution of this key, and its filters in our order. NULL: oneDNN has none that is made for this processor. The
 * caller destroys it. Gradients of filters are f32. oneDNN makes gradients from the description of the forward pass. */
static dnnl_primitive_desc_t describe_convolution(const ls_cpu_onednn_t *o, const ls_onednn_key_t *key,
                                                  dnnl_memory_desc_t *plain) {
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
  dnnl_memory_desc_init_by_strides(plain, 5 - skip, dims + skip, filters, order + skip);
  if (dnnl_dilated_convolution_forward_desc_init(&forward, dnnl_forward_training, dnnl_convolution_direct, &x,
                                                 &any, NULL, &y, strides, dilates, before, after) ||
      dnnl_primitive_desc_create(&first, &forward, o->attr, o->engine, NULL))
    return NULL;
  if (kind == LS_CPU_CONV_Y) {
    made = first;
  } else {
    dnnl_status_t status =
        kind == LS_CPU_CONV_DX
            ? dnnl_dilated_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, &x, &w, &y,
                                                               strides, dilates, before, after)
            : dnnl_dilated_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, &x, &w,
                                                                  NULL, &y, strides, dilates, before, after);
    made = status ? NULL : gradient(o, key, &desc, first);
    dnnl_primitive_desc_destroy(first);
  }
  if (made && !is_good(made, v->groups > 1)) {
    dnnl_primitive_desc_destroy(made);
    made = NULL;
  }
  return made;
}

static bool make_convolution(ls_cpu_onednn_t *o, const ls_onednn_key_t *key, ls_onednn_primitive_t *p) {
  const bool dx = key->kind == LS_CPU_CONV_DX, dw = key->kind == LS_CPU_CONV_DW;
  dnnl_primitive_desc_t made = describe_convolution(o, key, &p->plain);
  if (!made) return false;
  bool done = add_arg(p, dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, made,
                      dx ? dnnl_query_diff_src_md : dnnl_query_src_md) &&
              add_arg(p, dw ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, made,
                      dw ? dnnl_query_diff_weights_md : dnnl_query_weights_md) &&
              add_arg(p, dx || dw ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, made,
                      dx || dw ? dnnl_query_diff_dst_md : dnnl_query_dst_md) &&
              make_pack(o, dw ? &p->desc[1] : &p->plain, dw ? &p->plain : &p->desc[1], p) && finish(p, made);
  p->clean = key->low && dw; /* oneDNN 2.6 multiplies unwritten parts of it by 0 */
  p->filter_bytes = done ? dnnl_memory_desc_get_size(&p->desc[1]) : 0;
  dnnl_primitive_desc_destroy(made);
  return done;
}

const ls_onednn_primitive_t *ls_onednn_find(ls_stream_t *stream, const ls_onednn_key_t *key) {
  ls_cpu_onednn_t *o = library_of((ls_cpu_device_t *)stream->device);
  const int64_t *word = &key->kind;
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof *key / sizeof *word; i++)
    hash = (hash ^ (uint64_t)word[i]) * 0x9E3779B97F4A7C15u;
  ls_onednn_primitive_t **at = o ? &o->bucket[hash >> 56] : NULL;
  while (at && *at && memcmp(&(*at)->key, key, sizeof *key) != 0)
    at = &(*at)->next;
  if (!at) return NULL;
  if (!*at) {
    ls_onednn_primitive_t *p = *at = ls_alloc(stream->device->ctx, sizeof *p);
    if (!p) return NULL;
    int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    p->key = *key;
    p->usable = key->kind == LS_ONEDNN_PRODUCT ? make_product(o, key, p) : make_convolution(o, key, p);
    omp_set_num_threads(threads);
  }
  return (*at)->usable ? *at : NULL;
}
_Static_assert(LS_ONEDNN_BUCKETS == 1 << 8, "a bucket is named by the hash's upper byte");

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

#endif
