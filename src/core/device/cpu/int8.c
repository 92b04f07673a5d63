/* Products of 8-bit integers. Values are rounded into padded images, so that a window is a few runs of bytes, which
 * simd_int8.h multiplies in place. Rounded weights are kept until the weights change. Sums of integers are exact,
 * so nothing depends on the cuts. */
#include "device/int8.h"
#include "device/cpu/cpu.h"
#include "device/window.h"

#include <string.h>

enum { BLOCK_ROWS = 48, ALIGN = 64, GROUP_BYTES = 4 };

/* Weights of one product. */
struct ls_cpu_rounded {
  ls_cpu_rounded_t *next;
  const float *from; /* (o, depth) */
  int64_t outputs, runs, run_values;
  uint64_t epoch;
  char *w;      /* ls_simd_int8_product_t.w */
  float *scale; /* (o) */
  int32_t *sum; /* (o) of integers */
};

typedef struct {
  const ls_simd_int8_t *simd;
  const ls_kernel_args_t *args;
  ls_window_t v;
  ls_simd_int8_product_t of;
  int64_t height, row_bytes; /* of an image with its padding */
  int64_t value_bytes;       /* of all channels of a position */
  int64_t run_values, values_bytes;
  ls_cpu_rounded_t *weights;
  int8_t *q; /* (o, depth) */
  char *x;
  float inverse, zero;
  bool by_outputs;
} product_t;

static size_t aligned(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int64_t positions(const product_t *p) {
  return p->v.n * p->v.oh * p->v.ow;
}

static int64_t depth(const product_t *p) {
  return p->of.runs * p->run_values;
}

static int64_t padded_outputs(const product_t *p) {
  return (p->v.o + p->simd->lanes - 1) / p->simd->lanes * p->simd->lanes;
}

/* ---- weights ---- */

static void round_weights(const void *arg, int64_t begin, int64_t end) {
  const product_t *p = arg;
  const int lanes = p->simd->lanes, each = GROUP_BYTES / p->simd->value_bytes;
  for (int64_t o = begin; o < end; o++) {
    int8_t *q = p->q + o * depth(p);
    p->weights->scale[o] = ls_int8_row(p->weights->from + o * depth(p), depth(p), q, &p->weights->sum[o]);
    for (int64_t g = 0; g < p->of.runs * p->of.groups; g++) {
      char *to =
          p->weights->w + ((o / lanes * p->of.runs * p->of.groups + g) * lanes + o % lanes) * GROUP_BYTES;
      const int64_t first = g % p->of.groups * each, run = g / p->of.groups;
      for (int k = 0; k < each; k++) {
        const int16_t one = first + k < p->run_values ? q[run * p->run_values + first + k] : 0;
        if (p->simd->value_bytes == 1)
          to[k] = (char)one;
        else
          memcpy(to + 2 * k, &one, sizeof one);
      }
    }
  }
}

static size_t weight_bytes(const product_t *p) {
  return (size_t)(padded_outputs(p) * p->of.runs * p->of.groups * GROUP_BYTES);
}

/* Places w, scale and sum one after the other; scale and sum take vector_bytes each. */
static void place_weights(ls_cpu_rounded_t *r, const product_t *p, char *room) {
  const size_t vector = aligned((size_t)padded_outputs(p) * sizeof(float));
  r->w = room;
  r->scale = (float *)(room += aligned(weight_bytes(p)));
  r->sum = (int32_t *)(room + vector);
}

/* Finds the rounded weights of this product, or makes room for them; their epoch says when they were rounded. NULL:
 * memory is short. */
static ls_cpu_rounded_t *find_kept(ls_cpu_device_t *cpu, const product_t *p, const float *from,
                                   size_t bytes) {
  ls_cpu_rounded_t *r = cpu->rounded;
  while (r && !(r->from == from && r->outputs == p->v.o && r->runs == p->of.runs &&
                r->run_values == p->run_values))
    r = r->next;
  if (r) return r;
  char *block = ls_alloc(cpu->host.base.ctx, aligned(sizeof *r) + bytes);
  if (!block) return NULL;
  r = (ls_cpu_rounded_t *)block;
  *r = (ls_cpu_rounded_t){
      cpu->rounded, from, p->v.o, p->of.runs, p->run_values, cpu->host.base.epoch - 1, 0, 0, 0};
  place_weights(r, p, block + aligned(sizeof *r));
  return cpu->rounded = r;
}

void ls_cpu_int8_close(ls_cpu_device_t *cpu) {
  for (ls_cpu_rounded_t *r = cpu->rounded, *next; r; r = next) {
    next = r->next;
    ls_free(r);
  }
}

/* ---- values ---- */

static void fill(char *to, int64_t count, int64_t value_bytes, uint8_t with) {
  const int16_t wide = with;
  if (value_bytes == 1)
    memset(to, with, (size_t)count);
  else
    for (int64_t i = 0; i < count; i++)
      memcpy(to + 2 * i, &wide, sizeof wide);
}

static void round_rows(const void *arg, int64_t begin, int64_t end) {
  const product_t *p = arg;
  const ls_window_t *v = &p->v;
  const int64_t each = p->simd->value_bytes, width = v->w * v->c;
  for (int64_t i = begin; i < end; i++) {
    char *to = p->x + i * p->row_bytes;
    const int64_t y = i % p->height - v->top;
    if (y < 0 || y >= v->h) {
      fill(to, p->row_bytes / each, each, (uint8_t)p->zero);
      continue;
    }
    fill(to, v->left * v->c, each, (uint8_t)p->zero);
    to += v->left * v->c * each;
    p->simd->round(width, (const float *)p->args->in[0].data + (i / p->height * v->h + y) * width, p->inverse,
                   p->zero, to);
    fill(to + width * each, v->right * v->c, each, (uint8_t)p->zero);
  }
}

/* ---- products ---- */

static void block(const product_t *p, int64_t row, int64_t rows, int64_t begin, int64_t end) {
  const ls_window_t *v = &p->v;
  const char *x[BLOCK_ROWS];
  int64_t column = row % v->ow, line = row / v->ow % v->oh, image = row / (v->ow * v->oh);
  for (int64_t r = 0; r < rows; r++) {
    x[r] = p->x + (image * p->height + line * v->sh) * p->row_bytes + column * v->sw * p->value_bytes;
    if (++column < v->ow) continue;
    column = 0;
    if (++line < v->oh) continue;
    line = 0;
    image++;
  }
  p->simd->product(&p->of, rows, x, begin, end, (float *)p->args->out[0].data + row * v->o);
}

static void products(const void *arg, int64_t begin, int64_t end) {
  const product_t *p = arg;
  const int64_t first = p->by_outputs ? 0 : begin, last = p->by_outputs ? positions(p) : end;
  for (int64_t row = first; row < last; row += BLOCK_ROWS)
    block(p, row, last - row < BLOCK_ROWS ? last - row : BLOCK_ROWS, p->by_outputs ? begin : 0,
          p->by_outputs ? end : p->v.o);
}

/* Computes the vectors of all outputs from the scales of their weights and the values that the op adds. */
static void take_vectors(const product_t *p, float scale, int32_t *start, float *factor, float *shift) {
  const ls_tensor_t *in = p->args->in;
  const bool norm = p->args->in_count > 3;
  for (int64_t o = 0; o < p->v.o; o++) {
    float gain = norm ? ((const float *)in[3].data)[o] * ((const float *)in[4].data)[o] : 1;
    start[o] = -(int32_t)p->zero * p->weights->sum[o];
    factor[o] = scale * p->weights->scale[o] * gain;
    shift[o] = norm ? ((const float *)in[5].data)[o] - ((const float *)in[2].data)[o] * gain
                    : ((const float *)in[2].data)[o];
  }
}

/* A window's runs: rows of it, or with dilation its elements. */
static void take_runs(product_t *p, int64_t *run) {
  const ls_window_t *v = &p->v;
  const int64_t across = p->of.runs / v->kh;
  for (int64_t i = 0; i < p->of.runs; i++)
    run[i] = i / across * v->dh * p->row_bytes + i % across * v->dw * p->value_bytes;
}

static product_t product_of(const ls_simd_int8_t *simd, const ls_kernel_args_t *args, const ls_window_t *v) {
  product_t p = {.simd = simd,
                 .args = args,
                 .v = *v,
                 .inverse =
                     (float)(1 / args->attrs->f[0]), /* like the op's row: else values round otherwise */
                 .zero = (float)args->attrs->f[1]};
  const int each = simd->value_bytes;
  p.height = v->h + v->top + v->bottom;
  p.value_bytes = v->c * each;
  p.row_bytes = (v->w + v->left + v->right) * p.value_bytes;
  p.run_values = v->dw == 1 ? v->kw * v->c : v->c;
  p.of.runs = v->dw == 1 ? v->kh : v->kh * v->kw;
  p.of.groups = (p.run_values * each + GROUP_BYTES - 1) / GROUP_BYTES;
  p.of.outputs = v->o;
  p.by_outputs = positions(&p) < v->o;
  return p;
}

/* Rounds values and weights, and multiplies. `kept`: the weights, if they are kept; NULL: they are rounded into the room. */
static ls_status_t run_in_room(ls_stream_t *stream, product_t *p, ls_cpu_rounded_t *kept, size_t weights) {
  const ls_window_t *v = &p->v;
  const uint64_t epoch = stream->device->epoch;
  const size_t vector = aligned((size_t)padded_outputs(p) * sizeof(float)),
               runs = aligned((size_t)p->of.runs * sizeof *p->of.run), q = aligned((size_t)(v->o * depth(p)));
  const size_t values = (size_t)(v->n * p->height * p->row_bytes) + GROUP_BYTES;
  char *room = ls_cpu_room(stream, 3 * vector + runs + q + (kept ? 0 : weights) + values);
  if (!room) return LS_ERR_MEMORY;
  ls_cpu_rounded_t now = {.from = p->args->in[1].data};
  int32_t *start = (int32_t *)room;
  float *factor = (float *)(room += vector), *shift = (float *)(room += vector);
  int64_t *offsets = (int64_t *)(room += vector);
  p->q = (int8_t *)(room += runs);
  room += q;
  if (!kept) place_weights(&now, p, room);
  p->x = room + (kept ? 0 : weights);
  p->weights = kept ? kept : &now;
  if (!kept || kept->epoch != epoch)
    ls_cpu_loop(stream, v->o, 1, LS_CPU_BYTES(v->o * depth(p) * 12), round_weights, p);
  if (kept) kept->epoch = epoch;
  take_vectors(p, (float)p->args->attrs->f[0], start, factor, shift);
  take_runs(p, offsets);
  p->of.w = p->weights->w;
  p->of.run = offsets;
  p->of.start = start;
  p->of.factor = factor;
  p->of.shift = shift;
  ls_cpu_loop(stream, v->n * p->height, 1, LS_CPU_BYTES(v->n * v->h * v->w * v->c * 8), round_rows, p);
  const ls_cpu_work_t work = LS_CPU_FLOPS(positions(p) * v->o * depth(p) / 2); /* four times as fast as f32 */
  ls_cpu_loop(stream, p->by_outputs ? v->o : positions(p), p->by_outputs ? 2 * p->simd->lanes : BLOCK_ROWS,
              work, products, p);
  return LS_OK;
}

static ls_status_t run(ls_stream_t *stream, const ls_kernel_args_t *args, const ls_window_t *v) {
  ls_cpu_device_t *cpu = (ls_cpu_device_t *)stream->device;
  product_t p = product_of(cpu->int8, args, v);
  const size_t vector = aligned((size_t)padded_outputs(&p) * sizeof(float)),
               weights = aligned(weight_bytes(&p)) + 2 * vector;
  ls_cpu_rounded_t *kept = NULL;
  if (args->stable & 1 << 1 && !(kept = find_kept(cpu, &p, args->in[1].data, weights))) return LS_ERR_MEMORY;
  return run_in_room(stream, &p, kept, weights);
}

static ls_status_t linear_int8(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v = ls_window_rows(&args->in[0].shape, &args->in[1].shape);
  return run(stream, args, &v);
}
static ls_status_t conv2d_int8(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const ls_window_t v =
      ls_window_conv(args->attrs, &args->in[0].shape, &args->in[1].shape, &args->out[0].shape);
  return run(stream, args, &v);
}

const ls_cpu_row_t ls_cpu_int8_rows[] = {
    {"linear_int8", linear_int8}, {"conv2d_int8", conv2d_int8}, {"conv2d_int8_norm", conv2d_int8}, {0}};
