/* One device: which products, passes, launches and copies are timed on it. */
#include "graph/ops/ops.h"
#include "probe/meter.h"
#include "probe/probe.h"

/* A grid of linear layers: rows of a batch times a layer's width. Wide enough to show where a device becomes
 * fast, small enough for the budget. */
typedef struct {
  int64_t rows[4], width[3];
} grid_t;
static const grid_t host_grid = {{16, 128, 1024}, {128, 512, 1024}};
static const grid_t gpu_grid = {{16, 128, 1024, 8192}, {256, 1024, 4096}};

void ls_probe_largest_product(const ls_backend_t *backend, int64_t *rows, int64_t *width) {
  const grid_t *grid = backend->host_processors ? &host_grid : &gpu_grid;
  for (int i = 0; i < LS_COUNT(grid->rows) && grid->rows[i]; i++)
    *rows = grid->rows[i];
  *width = grid->width[LS_COUNT(grid->width) - 1];
}

static ls_status_t add_products(ls_meter_t *b, const grid_t *grid, ls_math_t math) {
  const ls_dtype_t dtype = ls_math_low(math);
  ls_status_t status = LS_OK;
  for (int w = 0; w < LS_COUNT(grid->width); w++)
    for (int r = 0; r < LS_COUNT(grid->rows) && grid->rows[r] && status == LS_OK; r++) {
      int64_t rows = grid->rows[r], width = grid->width[w];
      const ls_shape_t in[] = {LS_SHAPE(dtype, rows, width), LS_SHAPE(dtype, width, width),
                               LS_SHAPE(dtype, width)};
      status = ls_meter_add_op(b, ls_op_linear.name, in, NULL, -1, NULL);
      if (status != LS_OK || r != 1) continue;
      status = ls_meter_add_op(b, ls_op_linear_dx.name, in, NULL, -1, NULL); /* dy has x's shape here */
      const ls_shape_t both[] = {in[0], in[0]};
      if (status == LS_OK) status = ls_meter_add_op(b, ls_op_linear_dwb.name, both, NULL, -1, NULL);
    }
  return status;
}

/* Three streams of numbers: two read, one written. Sizes range from a cache's to many times that. */
static ls_status_t add_memory(ls_meter_t *b) {
  static const int64_t floats[] = {1 << 12, 1 << 16, 1 << 20, 1 << 24};
  char key[LS_PROFILE_KEY_BYTES];
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_DEVICE, b->backend->name, "memory", 0, b->threads});
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_COUNT(floats) && status == LS_OK; i++)
    status = ls_meter_add_op(b, ls_op_accumulate.name, &LS_SHAPE(LS_F32, floats[i]), key,
                             12.0 * (double)floats[i], NULL);
  return status;
}

static ls_status_t add_launch(ls_meter_t *b) {
  char key[LS_PROFILE_KEY_BYTES];
  ls_meter_item_t *item;
  ls_profile_key(key, (ls_profile_key_t){LS_KEY_DEVICE, b->backend->name, "launch", 0, b->threads});
  ls_status_t status = ls_meter_add_op(b, "copy", &LS_SHAPE(LS_F32, 1), key, -1, &item);
  if (status == LS_OK) item->eager = true;
  return status;
}

static ls_status_t add_copies(ls_meter_t *b) {
  ls_status_t status = LS_OK;
  for (int in = 0; in < 2; in++)
    for (size_t bytes = 4096; bytes <= (size_t)64 << 20 && status == LS_OK; bytes *= 8)
      status = ls_meter_add_copy(b, in, bytes);
  return status;
}

/* Measurements that do not depend on the precision of products. */
static ls_status_t add_others(ls_meter_t *b) {
  ls_status_t status = add_memory(b);
  if (status == LS_OK) status = add_launch(b);
  if (status == LS_OK) status = ls_meter_add_hand_over(b);
  if (status == LS_OK && !b->backend->host_memory) status = add_copies(b);
  return status;
}

static ls_status_t measure(ls_ctx_t *ctx, const ls_backend_t *backend, const ls_device_options_t *options,
                           int64_t budget_ns, ls_profile_t *profile, int *left_out) {
  ls_device_t *device;
  ls_meter_t *meter;
  ls_status_t status = backend->device->open(ctx, options, &device);
  if (status != LS_OK) return status;
  status = ls_meter_create(ctx, device, options->threads, &meter);
  if (status != LS_OK) goto device;
  status = add_products(meter, backend->host_processors ? &host_grid : &gpu_grid, options->math);
  if (status == LS_OK && options->math == LS_MATH_FP32) status = add_others(meter);
  if (status == LS_OK) status = ls_meter_run(meter, budget_ns);
  if (status == LS_OK) status = ls_meter_report(meter, profile);
  *left_out += ls_meter_left_out(meter);
  ls_meter_destroy(meter);
device:
  backend->device->close(device);
  return status;
}

/* True if its products run at a rate of their own. */
static bool differs(const ls_backend_t *backend, ls_math_t math) {
  if (math == LS_MATH_TF32) return backend->tf32;
  const ls_dtype_t low = ls_math_low(math);
  return low != LS_F32 && backend->device->low && backend->device->low(NULL, ls_op_linear.name, low);
}

ls_status_t ls_probe_device(ls_ctx_t *ctx, const ls_backend_t *backend, int index, int threads,
                            int64_t budget_ns, ls_profile_t *profile, int *left_out) {
  enum { PARTS = 6 }; /* each further precision gets one, fp32 the rest */
  ls_device_options_t options = {.index = index, .threads = threads};
  ls_status_t status = LS_OK;
  int64_t left_ns = budget_ns;
  *left_out = 0;
  for (int math = LS_MATH_COUNT - 1; math >= 0 && status == LS_OK; math--) {
    options.math = (ls_math_t)math;
    if (math != LS_MATH_FP32 && !differs(backend, options.math)) continue;
    int64_t own_ns = math == LS_MATH_FP32 ? left_ns : budget_ns / PARTS;
    status = measure(ctx, backend, &options, own_ns, profile, left_out);
    left_ns -= own_ns;
  }
  return status;
}
