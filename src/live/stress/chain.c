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

enum { IN = 3, LENGTH_MAX = 1024, BURSTS = 3 };
static const double burst_ns = 20e6; /* as long as probe lets a device compute at a time */

static const ls_dtype_t as_words = LS_I32;

/* A chain that is under way. */
typedef struct {
  ls_event_t *begin, *from, *to, *end; /* the products are between from and to */
  int64_t *differs; /* of the device: words of its result that differ from the first one's */
  int64_t told;
  ls_kernel_args_t compare;
  ls_tensor_t count;
} set_t;

struct ls_chain {
  ls_ctx_t *ctx;
  const ls_backend_t *backend;
  ls_device_t *device;
  ls_stream_t *stream, *other; /* products and comparisons; what tells the host */
  ls_math_t math;
  ls_dtype_t dtype;
  int threads;
  int64_t rows, width, length;
  size_t bytes; /* of y */
  ls_kernel_fn kernel, differ;
  ls_attrs_t attrs;
  void *x0, *w, *b, *y[2], *first; /* first: the first chain's result */
  void *scratch;                   /* a host's, for 16-bit floats */
  size_t scratch_bytes;
  ls_tensor_t in[2][IN], out[2];
  ls_kernel_args_t args[2]; /* [i]: into y[i]; products go from one to the other */
  ls_tensor_t results[2];   /* y, first: as words */
  set_t set[LS_CHAIN_SETS];
  int64_t issued, chains, wrong;
  double own_burst_ns, busy_ns;
  ls_samples_t samples; /* of a product */
  uint64_t hash;
};

static size_t element_bytes(const ls_chain_t *c) {
  return ls_dtype_bytes(c->dtype);
}

/* Random numbers in [-scale, scale], in the chain's precision. */
static ls_status_t upload(ls_chain_t *c, void *to, int64_t count, float scale, uint32_t stream) {
  const ls_dtype_t dtype = c->dtype;
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
  ls_event_t **const events[] = {&set->begin, &set->from, &set->to, &set->end};
  ls_status_t status = device_memory(c, sizeof *set->differs, (void **)&set->differs);
  for (int i = 0; i < LS_COUNT(events) && status == LS_OK; i++)
    status = c->backend->stream->event_create(c->device, true, events[i]);
  set->count = (ls_tensor_t){set->differs, LS_SHAPE(LS_I64, 1)};
  set->compare = (ls_kernel_args_t){
      .attrs = &c->attrs, .in = c->results, .in_count = 2, .out = &set->count, .out_count = 1};
  return status;
}

static void describe(ls_chain_t *c) {
  const ls_shape_t x = LS_SHAPE(c->dtype, c->rows, c->width), w = LS_SHAPE(c->dtype, c->width, c->width),
                   b = LS_SHAPE(c->dtype, c->width), words = LS_SHAPE(as_words, (int64_t)c->bytes / 4);
  for (int i = 0; i < 2; i++) {
    const ls_tensor_t in[IN] = {{c->y[1 - i], x}, {c->w, w}, {c->b, b}};
    memcpy(c->in[i], in, sizeof in);
    c->out[i] = (ls_tensor_t){c->y[i], x};
    c->args[i] = (ls_kernel_args_t){.attrs = &c->attrs,
                                    .in = c->in[i],
                                    .in_count = IN,
                                    .out = &c->out[i],
                                    .out_count = 1,
                                    .scratch = c->scratch,
                                    .scratch_bytes = c->scratch_bytes};
  }
  c->results[0].shape = c->results[1].shape = words;
  c->results[1].data = c->first;
}

static ls_status_t find_kernel(ls_chain_t *c, const ls_op_t *op, ls_kernel_args_t *args, ls_kernel_fn *out) {
  char lacks[LS_KERNEL_TEXT_BYTES];
  *out = ls_op_kernel(c->device, op, args, lacks);
  return *out ? LS_OK : ls_fail(c->ctx, LS_ERR_UNSUPPORTED, "backend %s has no %s", c->backend->name, lacks);
}

static ls_status_t prepare(ls_chain_t *c) {
  const size_t b_bytes = (size_t)c->width * element_bytes(c), w_bytes = (size_t)c->width * b_bytes;
  const ls_backend_t *backend = c->backend;
  const ls_shape_t x = LS_SHAPE(c->dtype, c->rows, c->width),
                   in[] = {x, LS_SHAPE(c->dtype, c->width, c->width), LS_SHAPE(c->dtype, c->width)};
  c->scratch_bytes = ls_op_scratch(&ls_op_linear, &c->attrs, in, &x, backend->plain_c);
  const struct {
    void **to;
    size_t bytes;
  } memory[] = {{&c->scratch, c->scratch_bytes},
                {&c->x0, c->bytes},
                {&c->w, w_bytes},
                {&c->b, b_bytes} /* zeros */,
                {&c->y[0], c->bytes},
                {&c->y[1], c->bytes},
                {&c->first, c->bytes}};
  ls_status_t status = backend->stream->create(c->device, LS_STREAM_INLINE, &c->stream);
  if (status == LS_OK) status = backend->stream->create(c->device, LS_STREAM_ASYNC, &c->other);
  for (int i = 0; i < LS_COUNT(memory) && status == LS_OK; i++)
    if (memory[i].bytes > 0) status = device_memory(c, memory[i].bytes, memory[i].to);
  for (int i = 0; i < LS_CHAIN_SETS && status == LS_OK; i++)
    status = open_set(c, &c->set[i]);
  describe(c);
  for (int i = 0; i < 2 && status == LS_OK; i++)
    status = find_kernel(c, &ls_op_linear, &c->args[i], &c->kernel);
  if (status == LS_OK) status = find_kernel(c, &ls_op_differing_words, &c->set[0].compare, &c->differ);
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
static bool has(const ls_backend_t *backend, ls_math_t math) {
  if (math == LS_MATH_TF32) return backend->tf32;
  return math == LS_MATH_FP32 ||
         (backend->device->low && backend->device->low(NULL, ls_op_linear.name, ls_math_low(math)));
}

ls_status_t ls_chain_open(ls_ctx_t *ctx, const ls_stress_options_t *o, int math, ls_chain_t **out) {
  const ls_device_options_t device = {.index = o->index, .threads = o->threads, .math = (ls_math_t)math};
  if (!has(o->backend, device.math)) return LS_OK;
  ls_chain_t *c = ls_alloc(ctx, sizeof *c);
  if (!c) return LS_ERR_MEMORY;
  *c = (ls_chain_t){.ctx = ctx,
                    .backend = o->backend,
                    .math = device.math,
                    .dtype = ls_math_low(device.math),
                    .threads = o->threads,
                    .length = 1};
  ls_status_t status = o->backend->device->open(ctx, &device, &c->device);
  if (status == LS_OK) status = choose_size(c);
  if (status == LS_OK) status = prepare(c);
  if (status == LS_OK)
    *out = c;
  else
    ls_chain_close(c);
  return status;
}

void ls_chain_close(ls_chain_t *c) {
  if (!c) return;
  const ls_backend_t *b = c->backend;
  for (int i = 0; i < LS_CHAIN_SETS && c->device; i++) {
    ls_event_t *const events[] = {c->set[i].begin, c->set[i].from, c->set[i].to, c->set[i].end};
    for (int k = 0; k < LS_COUNT(events); k++)
      if (events[k]) b->stream->event_destroy(events[k]);
    b->buffer->free(c->device, LS_MEM_DEVICE, c->set[i].differs);
  }
  if (c->other) b->stream->destroy(c->other);
  if (c->stream) b->stream->destroy(c->stream);
  void *const memory[] = {c->x0, c->w, c->b, c->y[0], c->y[1], c->first, c->scratch};
  for (int i = 0; i < LS_COUNT(memory) && c->device; i++)
    b->buffer->free(c->device, LS_MEM_DEVICE, memory[i]);
  if (c->device) b->device->close(c->device);
  ls_free(c);
}

/* Puts its products on the stream, then the comparison with the first result, or that result itself. */
ls_status_t ls_chain_issue(ls_chain_t *c, bool plant, ls_event_t **last) {
  static const float strange = 1e3F;
  static const int64_t none;
  const ls_stream_ops_t *stream = c->backend->stream;
  set_t *set = &c->set[c->issued % LS_CHAIN_SETS];
  void *result = c->y[c->length % 2];
  ls_status_t status = *last ? stream->wait(c->stream, *last) : LS_OK;
  if (status == LS_OK) status = stream->record(c->stream, set->begin);
  if (status == LS_OK) status = stream->copy(c->stream, c->y[0], c->x0, c->bytes);
  if (status == LS_OK) status = stream->copy(c->stream, set->differs, &none, sizeof none);
  if (status == LS_OK) status = stream->record(c->stream, set->from);
  for (int64_t i = 1; i <= c->length && status == LS_OK; i++) {
    if (plant && i == (c->length + 1) / 2)
      status = stream->copy(c->stream, c->y[(i - 1) % 2], &strange, sizeof strange);
    if (status == LS_OK) status = stream->launch(c->stream, c->kernel, &c->args[i % 2]);
  }
  if (status == LS_OK) status = stream->record(c->stream, set->to);
  c->results[0].data = result;
  if (status == LS_OK)
    status = c->issued == 0 ? stream->copy(c->stream, c->first, result, c->bytes)
                            : stream->launch(c->stream, c->differ, &set->compare);
  if (status == LS_OK) status = stream->record(c->stream, set->end);
  c->issued++;
  *last = set->end;
  return status;
}

static ls_status_t wait_for(ls_chain_t *c) {
  ls_status_t status = c->backend->stream->sync(c->other, LS_STRESS_DEADLINE_S * INT64_C(1000000000));
  if (status != LS_ERR_TIMEOUT) return status;
  return ls_fail(c->ctx, LS_ERR_DEVICE, "%s: products have not ended after %d s", c->device->name,
                 LS_STRESS_DEADLINE_S);
}

ls_status_t ls_chain_hash(ls_chain_t *c) {
  if (c->chains == 0) return LS_OK;
  void *host = ls_alloc(c->ctx, c->bytes);
  ls_status_t status = host ? c->backend->stream->copy(c->other, host, c->first, c->bytes) : LS_ERR_MEMORY;
  if (status == LS_OK) status = wait_for(c);
  if (status == LS_OK) c->hash = XXH3_64bits(host, c->bytes);
  ls_free(host);
  return status;
}

ls_status_t ls_chain_collect(ls_chain_t *c) {
  const ls_stream_ops_t *stream = c->backend->stream;
  set_t *set = &c->set[c->chains % LS_CHAIN_SETS];
  int64_t ns = 0, whole_ns = 0;
  ls_status_t status = stream->wait(c->other, set->end);
  if (status == LS_OK) status = stream->copy(c->other, &set->told, set->differs, sizeof set->told);
  if (status == LS_OK) status = wait_for(c);
  if (status == LS_OK) status = stream->elapsed(set->from, set->to, &ns);
  if (status == LS_OK) status = stream->elapsed(set->begin, set->end, &whole_ns);
  if (status != LS_OK) return status;
  c->wrong += set->told > 0;
  c->chains++;
  c->busy_ns += (double)whole_ns;
  ls_samples_add(&c->samples, (double)ns / (double)c->length);
  return LS_OK;
}

int64_t ls_chain_under_way(const ls_chain_t *c) {
  return c->issued - c->chains;
}

double ls_chain_busy_ns(const ls_chain_t *c) {
  return c->busy_ns;
}

static ls_status_t run_some(ls_chain_t *c, int64_t length, int chains) {
  ls_event_t *last = NULL;
  ls_status_t status = LS_OK;
  ls_chain_set_length(c, length);
  for (int i = 0; i < chains && status == LS_OK; i++) {
    status = ls_chain_issue(c, false, &last);
    if (status == LS_OK) status = ls_chain_collect(c);
  }
  return status;
}

static int64_t length_of(double product_ns, double ns) {
  double wanted = ns / fmax(product_ns, 1);
  return wanted < 1 ? 1 : wanted > LENGTH_MAX ? LENGTH_MAX : (int64_t)wanted;
}

/* The first runs make code and wakes clocks up. */
ls_status_t ls_chain_calibrate(ls_chain_t *c, double chain_ns, int64_t *length) {
  ls_time_t time;
  ls_status_t status = run_some(c, 1, 2);
  if (status == LS_OK) status = run_some(c, length_of(ls_chain_ns(c), burst_ns), BURSTS);
  if (status == LS_OK && ls_samples_time(&c->samples, &time)) c->own_burst_ns = time.ns;
  *length = length_of(c->own_burst_ns, chain_ns); /* undisturbed */
  return status;
}

void ls_chain_set_length(ls_chain_t *c, int64_t length) {
  c->length = length;
  c->issued = c->chains = c->wrong = 0;
  c->busy_ns = 0;
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
static double contention(const ls_chain_t *c, const ls_profile_t *profile, int ranks) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t factor;
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_CONTENTION, c->backend->name, "compute", ranks, c->threads});
  return c->backend->host_processors && ranks > 1 && ls_profile_get(profile, key, &factor) ? factor.ns : 1;
}

void ls_chain_report(const ls_chain_t *c, const ls_stress_options_t *o, int ranks, ls_stress_product_t *p) {
  ls_shape_t in[IN];
  char key[LS_PROFILE_KEY_BYTES];
  ls_time_t time;
  for (int i = 0; i < IN; i++)
    in[i] = c->in[0][i].shape;
  snprintf(p->name, sizeof p->name, "%s", ls_math_names[c->math]);
  p->rows = c->rows;
  p->width = c->width;
  p->count = c->chains * c->length;
  p->wrong = c->wrong;
  p->flops = (double)ls_op_flops(&ls_op_linear, &c->attrs, in, &c->out[0].shape);
  p->hash = c->hash;
  p->length = c->length;
  p->ns = ls_samples_time(&c->samples, &time) ? time.ns : (double)NAN;
  ls_probe_op_key(c->backend, c->math, c->threads, &ls_op_linear, &c->attrs, in, &c->out[0].shape, key);
  p->from_profile = o->profile && ls_profile_get(o->profile, key, &time);
  p->burst_ns = p->from_profile ? time.ns * contention(c, o->profile, ranks) : c->own_burst_ns;
}
