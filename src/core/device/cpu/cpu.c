/* cpu: host memory, a pool of threads, and tuned versions of the expensive ops. */
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const ls_cpu_row_t *const families[] = {
    ls_cpu_linear_rows, ls_cpu_elementwise_rows, ls_cpu_dropout_rows,    ls_cpu_norm_rows,
    ls_cpu_loss_rows,   ls_cpu_update_rows,      ls_cpu_batch_norm_rows, ls_cpu_conv_rows,
    ls_cpu_pool_rows,   ls_cpu_attention_rows,   ls_cpu_embedding_rows,  ls_cpu_recurrent_rows,
    ls_cpu_int8_rows,   ls_cpu_words_rows};

static const ls_cpu_row_t *find(const char *op) {
  static const ls_cpu_row_t none = {0};
  for (int i = 0; i < LS_COUNT(families); i++)
    for (const ls_cpu_row_t *row = families[i]; row->op; row++)
      if (strcmp(row->op, op) == 0) return row;
  return &none;
}

static bool cpu_low(const ls_device_t *device, const char *op, ls_dtype_t dtype) {
  (void)device;
  return find(op)->low && dtype == LS_BF16 && ls_cpu_multiplies_bf16();
}

static ls_status_t cpu_open(ls_ctx_t *ctx, const ls_device_options_t *options, ls_device_t **device) {
  ls_device_t *opened;
  ls_status_t status = ls_host_device_open(ctx, &ls_backend_cpu, options, sizeof(ls_cpu_device_t), &opened);
  if (status) return status;
  ls_cpu_device_t *cpu = (ls_cpu_device_t *)opened;
  cpu->host.flushes = true;
  cpu->simd = ls_simd_pick();
  cpu->int8 = ls_simd_pick_int8();
  cpu->few_rows = ls_cpu_gemm_few_rows(cpu->simd);
  ls_cpu_gemm_prepare();
  if (ls_math_low(options->math) != LS_F32 && !(options->math == LS_MATH_BF16 && ls_cpu_multiplies_bf16())) {
    size_t at = strlen(opened->name);
    snprintf(opened->name + at, sizeof opened->name - at, ", %s through f32", ls_math_names[options->math]);
  }
  *device = opened;
  return LS_OK;
}

static void release_room(ls_cpu_device_t *cpu) {
  if (cpu->room) munmap(cpu->room, cpu->room_bytes);
  cpu->room = NULL;
  cpu->room_bytes = 0;
}

static void cpu_close(ls_device_t *device) {
  if (device) {
    ls_cpu_onednn_close((ls_cpu_device_t *)device);
    ls_cpu_int8_close((ls_cpu_device_t *)device);
    release_room((ls_cpu_device_t *)device);
  }
  ls_host_device_close(device);
}

/* The room has pages of its own, not malloc's: when it grows, the old pages go back to the system, so a process
 * keeps only the largest room. */
void *ls_cpu_room(ls_stream_t *stream, size_t size_bytes) {
  ls_cpu_device_t *cpu = (ls_cpu_device_t *)stream->device;
  if (size_bytes <= cpu->room_bytes) return cpu->room;
  release_room(cpu);
  void *room = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) {
    ls_fail(stream->device->ctx, LS_ERR_MEMORY, "out of memory: %zu bytes for a kernel", size_bytes);
    return NULL;
  }
  cpu->room = room;
  cpu->room_bytes = size_bytes;
  return room;
}

static void *cpu_room(ls_stream_t *stream, int k, size_t *size_bytes) {
  const ls_cpu_device_t *cpu = (const ls_cpu_device_t *)stream->device;
  *size_bytes = cpu->room_bytes;
  return k == 0 ? cpu->room : NULL;
}

static ls_kernel_fn cpu_kernel(const ls_device_t *device, const char *op) {
  (void)device;
  return find(op)->fn;
}

static const ls_device_ops_t device_ops = {.open = cpu_open,
                                           .close = cpu_close,
                                           .kernel = cpu_kernel,
                                           .low = cpu_low,
                                           .count = ls_host_device_count,
                                           .room = cpu_room};

const ls_backend_t ls_backend_cpu = {.name = "cpu",
                                     .host_memory = true,
                                     .plain_c = true,
                                     .synchronous = true,
                                     .host_processors = true,
                                     .threaded = true,
                                     .device = &device_ops,
                                     .buffer = &ls_host_buffer_ops,
                                     .stream = &ls_host_stream_ops};

#if defined(__x86_64__)
extern const ls_simd_t ls_simd_avx2, ls_simd_avx512;
extern const ls_simd_int8_t ls_simd_avx512_vnni;
#endif
extern const ls_simd_t ls_simd_base;

void ls_simd_list(const ls_simd_t *list[LS_SIMD_MAX]) {
  int count = 0;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    list[count++] = &ls_simd_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list[count++] = &ls_simd_avx2;
#endif
  list[count++] = &ls_simd_base;
  list[count] = NULL;
}

const ls_simd_t *ls_simd_pick(void) {
  const ls_simd_t *list[LS_SIMD_MAX];
  ls_simd_list(list);
  return list[0];
}

const ls_simd_int8_t *ls_simd_pick_int8(void) {
  const ls_simd_t *simd = ls_simd_pick();
#if defined(__x86_64__)
  if (simd == &ls_simd_avx512 && __builtin_cpu_supports("avx512vnni")) return &ls_simd_avx512_vnni;
#endif
  return simd->int8;
}
