/* One op on tensors from raw files, so that other programs can compare it (bench/torch_ops.py):
 *   bench_run_op BACKEND PRECISION OP I F IN.. : OUT..
 * I, F: the op's attributes with commas between, or -. IN: dtype:dims:file. OUT: a file. Prints the median time of one
 * launch in microseconds. */
#include "graph/low.h"
#include "op_time.h"

#include <string.h>

static ls_dtype_t dtype_of(const char *name) {
  for (int d = 0; d < LS_DTYPE_COUNT; d++)
    if (strcmp(name, ls_dtype_name((ls_dtype_t)d)) == 0) return (ls_dtype_t)d;
  must(LS_ERR_ARGUMENT, name);
  return LS_F32;
}

/* The text behind the next ':', which is cut off before it. */
static char *cut(char *text) {
  char *colon = strchr(text, ':');
  must(colon ? LS_OK : LS_ERR_ARGUMENT, text);
  *colon = 0;
  return colon + 1;
}

static ls_tensor_t read_tensor(bench_t *b, char *text) {
  ls_tensor_t t = {.shape = {.rank = 0}};
  char *dims = cut(text), *path = cut(dims);
  t.shape.dtype = dtype_of(text);
  for (char *p = strtok(dims, ","); p && t.shape.rank < LS_DIMS_MAX; p = strtok(NULL, ","))
    t.shape.dim[t.shape.rank++] = atoll(p);
  size_t size = ls_shape_bytes(&t.shape);
  void *data = malloc(size);
  FILE *file = fopen(path, "rb");
  must(data && file && fread(data, 1, size, file) == size ? LS_OK : LS_ERR_IO, path);
  fclose(file);
  t.data = take(b, size, data);
  free(data);
  return t;
}

static void write_tensor(bench_t *b, const ls_tensor_t *t, const char *path) {
  size_t size = ls_shape_bytes(&t->shape);
  void *data = malloc(size);
  must(data ? b->backend->stream->copy(b->stream, data, t->data, size) : LS_ERR_MEMORY, "copy");
  must(b->backend->stream->sync(b->stream, 0), "copy");
  FILE *file = fopen(path, "wb");
  must(file && fwrite(data, 1, size, file) == size && fclose(file) == 0 ? LS_OK : LS_ERR_IO, path);
  free(data);
}

int main(int argc, char **argv) {
  int colon = 6;
  while (colon < argc && strcmp(argv[colon], ":") != 0)
    colon++;
  const ls_op_t *op = argc > 3 ? ls_op_find(argv[3]) : NULL;
  if (!op || colon >= argc || colon - 6 != op->in_count || argc - colon - 1 != op->out_count) {
    fprintf(stderr, "usage: %s BACKEND PRECISION OP I F dtype:dims:file.. : file..\n", argv[0]);
    return 2;
  }
  bool tf32 = strcmp(argv[2], ls_math_names[LS_MATH_TF32]) == 0;
  bench_t b =
      bench_open(argv[1], &(ls_device_options_t){.threads = 1, .math = tf32 ? LS_MATH_TF32 : LS_MATH_FP32});
  ls_attrs_t attrs = {{0}};
  int count = 0;
  for (char *p = strcmp(argv[4], "-") == 0 ? NULL : strtok(argv[4], ","); p; p = strtok(NULL, ","))
    attrs.i[count++ % LS_COUNT(attrs.i)] = atoll(p);
  count = 0;
  for (char *p = strcmp(argv[5], "-") == 0 ? NULL : strtok(argv[5], ","); p; p = strtok(NULL, ","))
    attrs.f[count++ % LS_COUNT(attrs.f)] = atof(p);
  ls_tensor_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
  ls_shape_t in_shape[LS_NODE_IN_MAX], out_shape[LS_NODE_OUT_MAX];
  for (int i = 0; i < op->in_count; i++) {
    in[i] = read_tensor(&b, argv[6 + i]);
    in_shape[i] = in[i].shape;
  }
  must(ls_op_shape(b.ctx, op, &attrs, in_shape, out_shape), op->name);
  for (int i = 0; i < op->out_count; i++)
    out[i] = (ls_tensor_t){take(&b, ls_shape_bytes(&out_shape[i]), NULL), out_shape[i]};
  size_t scratch_bytes = ls_op_scratch(op, &attrs, in_shape, out_shape, b.backend->plain_c);
  ls_kernel_args_t args = {.attrs = &attrs,
                           .in = in,
                           .in_count = op->in_count,
                           .out = out,
                           .out_count = op->out_count,
                           .scratch = scratch_bytes ? take(&b, scratch_bytes, NULL) : NULL,
                           .scratch_bytes = scratch_bytes};
  char lacks[LS_KERNEL_TEXT_BYTES];
  ls_kernel_fn kernel = ls_op_kernel(b.device, op, &args, lacks);
  must(kernel ? LS_OK : LS_ERR_UNSUPPORTED, lacks);
  double us = median_us(&b, kernel, &args);
  must(us < 0 ? LS_ERR_DEVICE : LS_OK, op->name);
  for (int i = 0; i < op->out_count; i++)
    write_tensor(&b, &out[i], argv[colon + 1 + i]);
  printf("%.2f\n", us);
  bench_close(&b);
  return 0;
}
