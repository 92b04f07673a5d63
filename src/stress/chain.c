/* Chains of products through the backend's `linear` row: x0 W^T, times W^T, .. The entries of W are random with variance
 * 1 / width, so that numbers keep their size from product to product, and a wrong one does not fade. */
#include "base/half.h"
#include "graph/low.h"
#include "graph/ops/ops.h"
#include "probe/probe.h"
#include "stress/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { IN = 3, LENGTH_MAX = 64 };

static const struct {
  const char *name;
  ls_math_t math;
  ls_dtype_t dtype;
} precision[] = {{"fp32", LS_MATH_FP32, LS_F32},
                 {"tf32", LS_MATH_TF32, LS_F32},
                 {"bf16", LS_MATH_FP32, LS_BF16},
                 {"fp16", LS_MATH_FP32, LS_F16}};
static_assert(LS_COUNT(precision) == LS_STRESS_PRECISIONS, "a chain for each");

typedef struct {
  void *y[2]; /* (rows, width): products go from one to the other */
  ls_tensor_t in[2][IN], out[2];
  ls_kernel_args_t args[2]; /* [i]: into y[i] */
  ls_event_t *from, *to;
  bool planted;
} set_t;

struct ls_chain {
  ls_ctx_t *ctx;
  const ls_backend_t *backend;
  ls_device_t *device;
  ls_stream_t *stream, *other; /* products; what compares them */
  int precision, threads;
  int64_t rows, width, length;
  size_t bytes; /* of y */
  ls_kernel_fn kernel;
  ls_attrs_t attrs;
  void *x0, *w, *b;
  set_t set[LS_CHAIN_SETS];
  void *first, *got; /* of the host: the first chain's result, and a later one's */
  int64_t chains, wrong;
  ls_samples_t samples; /* of a product */
  uint64_t hash;
};

static size_t element_bytes(const ls_chain_t *c) {
  return ls_dtype_bytes(precision[c->precision].dtype);
}

/* Random numbers in [-scale, scale], in the chain's precision. */
static ls_status_t upload(ls_chain_t *c, void *to, int64_t count, float scale, uint32_t stream) {
  const ls_dtype_t dtype = precision[c->precision].dtype;
  float *values = ls_alloc_array(c->ctx, (size_t)count + 3, sizeof *values);
  if (!values) return LS_ERR_MEMORY;
  uint16_t *low = (uint16_t *)values;
  for (int64_t i = 0; i < count; i += 4) {
    ls_rng4_t words = ls_rng(1, LS_RNG_SYNTHETIC + stream, (uint64_t)i);
    for (int k = 0; k < 4; k++) {
      float value = scale * (2 * ls_rng_unit(words.v[k]) - 1);
      if (dtype == LS_F32)
        values[i + k] = value;
      else
        low[i + k] = dtype == LS_BF16 ? ls_bf16_of_f32(value) : ls_f16_of_f32(value);
    }
  }
  ls_status_t status = c->backend->stream->copy(c->stream, to, values, (size_t)count * element_bytes(c));
  if (status == LS_OK) status = c->backend->stream->sync(c->stream, 0);
  ls_free(values);
  return status;
}

static ls_status_t device_memory(ls_chain_t *c, size_t bytes, void **out) {
  return c->backend->buffer->alloc(c->device, LS_MEM_DEVICE, bytes, out);
}

static ls_status_t open_set(ls_chain_t *c, set_t *set) {
  const ls_dtype_t dtype = precision[c->precision].dtype;
  const ls_shape_t x = LS_SHAPE(dtype, c->rows, c->width), w = LS_SHAPE(dtype, c->width, c->width),
                   b = LS_SHAPE(dtype, c->width);
  ls_status_t status = LS_OK;
  for (int i = 0; i < 2 && status == LS_OK; i++)
    status = device_memory(c, c->bytes, &set->y[i]);
  for (int i = 0; i < 2; i++) {
    const ls_tensor_t in[IN] = {{set->y[1 - i], x}, {c->w, w}, {c->b, b}};
    memcpy(set->in[i], in, sizeof in);
    set->out[i] = (ls_tensor_t){set->y[i], x};
    set->args[i] = (ls_kernel_args_t){
        .attrs = &c->attrs, .in = set->in[i], .in_count = IN, .out = &set->out[i], .out_count = 1};
  }
  if (status == LS_OK) status = c->backend->stream->event_create(c->device, true, &set->from);
  if (status == LS_OK) status = c->backend->stream->event_create(c->device, true, &set->to);
  return status;
}

static ls_status_t prepare(ls_chain_t *c) {
  const size_t b_bytes = (size_t)c->width * element_bytes(c), w_bytes = (size_t)c->width * b_bytes;
  const ls_backend_t *backend = c->backend;
  char lacks[LS_KERNEL_TEXT_BYTES];
  ls_status_t status = backend->stream->create(c->device, LS_STREAM_INLINE, &c->stream);
  if (status == LS_OK) status = backend->stream->create(c->device, LS_STREAM_ASYNC, &c->other);
  if (status == LS_OK) status = device_memory(c, c->bytes, &c->x0);
  if (status == LS_OK) status = device_memory(c, w_bytes, &c->w);
  if (status == LS_OK) status = device_memory(c, b_bytes, &c->b); /* zeros */
  for (int i = 0; i < LS_CHAIN_SETS && status == LS_OK; i++)
    status = open_set(c, &c->set[i]);
  if (status == LS_OK && !(c->kernel = ls_op_kernel(c->device, &ls_op_linear, &c->set[0].args[0], lacks)))
    status = ls_fail(c->ctx, LS_ERR_UNSUPPORTED, "backend %s has no %s", backend->name, lacks);
  if (status == LS_OK) status = backend->buffer->alloc(c->device, LS_MEM_HOST, c->bytes, &c->first);
  if (status == LS_OK) status = backend->buffer->alloc(c->device, LS_MEM_HOST, c->bytes, &c->got);
  if (status == LS_OK) status = upload(c, c->x0, c->rows * c->width, 1, 0);
  if (status == LS_OK) status = upload(c, c->w, c->width * c->width, sqrtf(3 / (float)c->width), 1);
  return status;
}

/* The largest of probe's products whose buffers fit into a quarter of the device's memory. */
static ls_status_t choose_size(ls_chain_t *c) {
  int64_t used = 0, total = ls_machine_memory("");
  ls_probe_largest_product(c->backend, &c->rows, &c->width);
  if (c->backend->device->memory) {
    ls_status_t status = c->backend->device->memory(c->device, &used, &total);
    if (status != LS_OK) return status;
  }
  while (c->rows > 16 && total > 0 && 5 * c->rows * c->width * (int64_t)element_bytes(c) > total / 4)
    c->rows /= 2;
  c->bytes = (size_t)(c->rows * c->width) * element_bytes(c);
  return LS_OK;
}

/* A host widens 16-bit floats around its f32 kernel: that is no precision of its own. */
static bool has(const ls_chain_t *c) {
  const ls_device_ops_t *device = c->backend->device;
  if (precision[c->precision].math == LS_MATH_TF32) return c->backend->tf32;
  return precision[c->precision].dtype == LS_F32 ||
         (device->low && device->low(c->device, ls_op_linear.name));
}

ls_status_t ls_chain_open(ls_ctx_t *ctx, const ls_stress_options_t *o, int which, ls_chain_t **out) {
  const ls_device_options_t device = {
      .index = o->index, .threads = o->threads, .math = precision[which].math};
  ls_chain_t *c = ls_alloc(ctx, sizeof *c);
  if (!c) return LS_ERR_MEMORY;
  *c =
      (ls_chain_t){.ctx = ctx, .backend = o->backend, .precision = which, .threads = o->threads, .length = 1};
  ls_status_t status = device.math == LS_MATH_FP32 || o->backend->tf32
                           ? o->backend->device->open(ctx, &device, &c->device)
                           : LS_OK;
  bool lacks = status == LS_OK && !has(c);
  if (status == LS_OK && !lacks) status = choose_size(c);
  if (status == LS_OK && !lacks) status = prepare(c);
  if (status == LS_OK && !lacks)
    *out = c;
  else
    ls_chain_close(c);
  return status;
}

void ls_chain_close(ls_chain_t *c) {
  if (!c) return;
  const ls_backend_t *b = c->backend;
  for (int i = 0; i < LS_CHAIN_SETS && c->device; i++) {
    if (c->set[i].from) b->stream->event_destroy(c->set[i].from);
    if (c->set[i].to) b->stream->event_destroy(c->set[i].to);
  }
  if (c->other) b->stream->destroy(c->other);
  if (c->stream) b->stream->destroy(c->stream);
  void *const memory[] = {c->x0, c->w, c->b, c->set[0].y[0], c->set[0].y[1], c->set[1].y[0], c->set[1].y[1]};
  for (int i = 0; i < LS_COUNT(memory) && c->device; i++)
    b->buffer->free(c->device, LS_MEM_DEVICE, memory[i]);
  if (c->device) {
    b->buffer->free(c->device, LS_MEM_HOST, c->first);
    b->buffer->free(c->device, LS_MEM_HOST, c->got);
    b->device->close(c->device);
  }
  ls_free(c);
}

ls_status_t ls_chain_issue(ls_chain_t *c, int which, bool plant) {
  static const float strange = 1e3F;
  const ls_stream_ops_t *stream = c->backend->stream;
  set_t *set = &c->set[which];
  ls_status_t status = stream->copy(c->stream, set->y[0], c->x0, c->bytes);
  if (status == LS_OK) status = stream->record(c->stream, set->from);
  for (int64_t i = 1; i <= c->length && status == LS_OK; i++) {
    if (plant && i == (c->length + 1) / 2)
      status = stream->copy(c->stream, set->y[(i - 1) % 2], &strange, sizeof strange);
    if (status == LS_OK) status = stream->launch(c->stream, c->kernel, &set->args[i % 2]);
  }
  return status == LS_OK ? stream->record(c->stream, set->to) : status;
}

static void compare(ls_chain_t *c) {
  if (c->chains == 0) {
    memcpy(c->first, c->got, c->bytes);
    c->hash = XXH3_64bits(c->first, c->bytes);
  } else if (memcmp(c->first, c->got, c->bytes) != 0) {
    c->wrong++;
  }
  c->chains++;
}

static ls_status_t wait_for(ls_chain_t *c, ls_stream_t *stream) {
  ls_status_t status = c->backend->stream->sync(stream, LS_STRESS_DEADLINE_S * INT64_C(1000000000));
  if (status != LS_ERR_TIMEOUT) return status;
  return ls_fail(c->ctx, LS_ERR_DEVICE, "%s: products have not ended after %d s", c->device->name,
                 LS_STRESS_DEADLINE_S);
}

ls_status_t ls_chain_collect(ls_chain_t *c, int which) {
  const ls_stream_ops_t *stream = c->backend->stream;
  set_t *set = &c->set[which];
  int64_t ns = 0;
  ls_status_t status = stream->wait(c->other, set->to);
  if (status == LS_OK) status = stream->copy(c->other, c->got, set->y[c->length % 2], c->bytes);
  if (status == LS_OK) status = wait_for(c, c->other);
  if (status == LS_OK) status = stream->elapsed(set->from, set->to, &ns);
  if (status != LS_OK) return status;
  compare(c);
  ls_samples_add(&c->samples, (double)ns / (double)c->length);
  return LS_OK;
}

/* The first run makes code and wakes clocks up; the second one counts. */
ls_status_t ls_chain_calibrate(ls_chain_t *c, double chain_ns, int64_t *length) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < 2 && status == LS_OK; i++) {
    status = ls_chain_issue(c, 0, false);
    if (status == LS_OK) status = ls_chain_collect(c, 0);
  }
  double wanted = chain_ns / fmax(ls_chain_ns(c), 1);
  *length = wanted < 1 ? 1 : wanted > LENGTH_MAX ? LENGTH_MAX : (int64_t)wanted;
  return status;
}

void ls_chain_set_length(ls_chain_t *c, int64_t length) {
  c->length = length;
  c->chains = c->wrong = 0;
  c->samples.count = 0;
}

ls_device_t *ls_chain_device(ls_chain_t *c) {
  return c->device;
}

double ls_chain_ns(const ls_chain_t *c) {
  int64_t n = c->samples.count;
  return n > 0 ? c->samples.ns[(n - 1) % LS_SAMPLES_MAX] * (double)c->length : 0;
}

/* Ranks that share the processors slow each other: probe has measured by how much. */
static double crowd(const ls_chain_t *c, const ls_profile_t *profile, int ranks) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t factor;
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_CROWD, c->backend->name, "compute", ranks, c->threads});
  return c->backend->host_processors && ranks > 1 && ls_profile_get(profile, key, &factor) ? factor.ns : 1;
}

void ls_chain_report(const ls_chain_t *c, const ls_stress_options_t *o, int ranks, ls_stress_product_t *p) {
  const set_t *set = &c->set[0];
  ls_shape_t in[IN];
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t time;
  for (int i = 0; i < IN; i++)
    in[i] = set->in[0][i].shape;
  *p = (ls_stress_product_t){.rows = c->rows,
                             .width = c->width,
                             .count = c->chains * c->length,
                             .wrong = c->wrong,
                             .flops = (double)ls_op_flops(&ls_op_linear, &c->attrs, in, &set->out[0].shape),
                             .ns = NAN,
                             .profile_ns = NAN,
                             .hash = c->hash,
                             .length = c->length};
  snprintf(p->name, sizeof p->name, "%s", precision[c->precision].name);
  if (ls_samples_time(&c->samples, &time)) p->ns = time.ns;
  ls_probe_op_key(c->backend, precision[c->precision].math, c->threads, &ls_op_linear, &c->attrs, in,
                  &set->out[0].shape, key);
  if (o->profile && ls_profile_get(o->profile, key, &time))
    p->profile_ns = time.ns * crowd(c, o->profile, ranks);
}
