/* Finding backends, opening devices, memory; a missing or foreign CUDA module is explained. */
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

static int ctx_make(void **state) {
  return !(*state = ls_ctx_create(NULL, NULL));
}

static int ctx_drop(void **state) {
  ls_ctx_destroy(*state);
  return 0;
}

static void names(void **state) {
  const char *const found[] = {"cpu", "ref", "null"};
  const ls_backend_t *backend;
  for (int i = 0; i < LS_COUNT(found); i++) {
    assert_int_equal(ls_backend_find(*state, found[i], &backend), LS_OK);
    assert_string_equal(backend->name, found[i]);
    assert_true(backend->host_memory);
    assert_null(backend->capture);
  }
  assert_int_equal(ls_backend_find(*state, "gpu", &backend), LS_ERR_ARGUMENT);
  assert_non_null(strstr(ls_ctx_error(*state), "\"gpu\""));
}

static void auto_without_a_module_is_cpu(void **state) {
  const ls_backend_t *backend;
  setenv("LOCKSTEP_CUDA_MODULE", "/nonexistent/module.so", 1);
  assert_int_equal(ls_backend_find(*state, "auto", &backend), LS_OK);
  assert_ptr_equal(backend, &ls_backend_cpu);
  assert_int_equal(ls_ctx_error_count(*state), 0);
}

static void missing_module_is_named(void **state) {
  const ls_backend_t *backend = NULL;
  setenv("LOCKSTEP_CUDA_MODULE", "/nonexistent/module.so", 1);
  assert_int_equal(ls_backend_find(*state, "cuda", &backend), LS_ERR_UNSUPPORTED);
  assert_non_null(strstr(ls_ctx_error(*state), "/nonexistent/module.so"));
  assert_null(backend);
}

static void a_file_that_is_no_module(void **state) {
  const ls_backend_t *backend;
  setenv("LOCKSTEP_CUDA_MODULE", "/etc/passwd", 1);
  assert_int_equal(ls_backend_find(*state, "cuda", &backend), LS_ERR_UNSUPPORTED);
  assert_non_null(strstr(ls_ctx_error(*state), "/etc/passwd cannot be loaded"));
}

static void a_library_that_is_no_module(void **state) {
  const ls_backend_t *backend;
  setenv("LOCKSTEP_CUDA_MODULE", "libm.so.6", 1);
  assert_int_equal(ls_backend_find(*state, "cuda", &backend), LS_ERR_UNSUPPORTED);
  assert_non_null(strstr(ls_ctx_error(*state), LS_CUDA_MODULE_SYMBOL));
}

/* A module of another version, built beside this test. */
static void another_version_is_refused(void **state) {
  const ls_backend_t *backend;
  setenv("LOCKSTEP_CUDA_MODULE", OLD_MODULE, 1);
  assert_int_equal(ls_backend_find(*state, "cuda", &backend), LS_ERR_UNSUPPORTED);
  assert_non_null(strstr(ls_ctx_error(*state), "version 999"));
}

/* A module that loads, on a machine without a device. */
static void no_device_answers(void **state) {
  const ls_backend_t *backend;
  setenv("LOCKSTEP_CUDA_MODULE", EMPTY_MODULE, 1);
  assert_int_equal(ls_backend_find(*state, "cuda", &backend), LS_ERR_UNSUPPORTED);
  assert_non_null(strstr(ls_ctx_error(*state), "no CUDA device"));
  assert_int_equal(ls_backend_find(*state, "auto", &backend), LS_OK);
  assert_ptr_equal(backend, &ls_backend_cpu);
}

static void search_lists_where_it_looked(void **state) {
  const ls_backend_t *backend;
  unsetenv("LOCKSTEP_CUDA_MODULE");
  ls_status_t status = ls_backend_find(*state, "cuda", &backend);
  if (status == LS_OK) skip(); /* a real module lies beside this test */
  assert_int_equal(status, LS_ERR_UNSUPPORTED);
}

static const ls_backend_t *const host_backends[] = {&ls_backend_cpu, &ls_backend_ref, &ls_backend_null};

static void devices_and_memory(void **state) {
  for (int i = 0; i < LS_COUNT(host_backends); i++) {
    const ls_backend_t *b = host_backends[i];
    ls_device_t *device;
    assert_int_equal(b->device->count(*state), 1);
    assert_int_equal(b->device->open(*state, &(ls_device_options_t){.threads = 2}, &device), LS_OK);
    assert_ptr_equal(device->backend, b);
    assert_ptr_equal(strstr(device->name, b->name), device->name);
    void *memory = NULL;
    for (size_t size = 0; size < 5000; size += 777) {
      assert_int_equal(b->buffer->alloc(device, LS_MEM_DEVICE, size, &memory), LS_OK);
      assert_int_equal((uintptr_t)memory % 256, 0);
      for (size_t k = 0; k < size; k++)
        assert_int_equal(((char *)memory)[k], 0);
      b->buffer->free(device, LS_MEM_DEVICE, memory);
    }
    b->device->close(device);
  }
}

static void bad_thread_count(void **state) {
  ls_device_t *device = NULL;
  assert_int_equal(ls_backend_cpu.device->open(*state, &(ls_device_options_t){.threads = 0}, &device),
                   LS_ERR_ARGUMENT);
  assert_null(device);
}

/* TF32 is refused by who would compute something else under that name; keys of times say it only when it is
 * not fp32. */
static void arithmetic(void **state) {
  char key[LS_BACKEND_KEY_BYTES];
  for (int i = 0; i < LS_COUNT(host_backends); i++) {
    const ls_backend_t *b = host_backends[i];
    ls_ctx_clear(*state);
    ls_device_options_t options = {.threads = 1, .math = LS_MATH_TF32};
    ls_device_t *device = NULL;
    assert_int_equal(ls_backend_check_math(*state, b, LS_MATH_FP32), LS_OK);
    assert_int_equal(ls_backend_check_math(*state, b, LS_MATH_TF32), LS_ERR_CONFIG);
    assert_non_null(strstr(ls_ctx_error(*state), "train.precision"));
    assert_non_null(strstr(ls_ctx_error(*state), b->name));
    assert_non_null(strstr(ls_ctx_error(*state), "parallel.backend: cuda"));
    assert_int_equal(b->device->open(*state, &options, &device), LS_ERR_CONFIG);
    assert_null(device);
    assert_string_equal(ls_backend_key(b, LS_MATH_FP32, key), b->name);
  }
  assert_string_equal(ls_backend_key(&ls_backend_cpu, LS_MATH_TF32, key), "cpu tf32");
  assert_string_equal(ls_math_names[LS_MATH_TF32], "tf32");
  assert_null(ls_math_names[LS_MATH_COUNT]);
}

/* Everything that is made for one device, stream and event, with the n-th allocation failing. */
static ls_status_t make_all(ls_ctx_t *ctx, const ls_backend_t *b) {
  ls_device_t *device;
  ls_status_t status = b->device->open(ctx, &(ls_device_options_t){.threads = 2}, &device);
  if (status) return status;
  ls_stream_t *compute = NULL, *side = NULL;
  ls_event_t *event = NULL;
  void *memory = NULL;
  if (!(status = b->stream->create(device, LS_STREAM_INLINE, &compute)) &&
      !(status = b->stream->create(device, LS_STREAM_ASYNC, &side)) &&
      !(status = b->stream->event_create(device, true, &event)))
    status = b->buffer->alloc(device, LS_MEM_HOST, 100, &memory);
  b->buffer->free(device, LS_MEM_HOST, memory);
  b->stream->event_destroy(event);
  b->stream->destroy(side);
  b->stream->destroy(compute);
  b->device->close(device);
  return status;
}

static void every_allocation_may_fail(void **state) {
  for (int i = 0; i < LS_COUNT(host_backends); i++) {
    ls_ctx_fail_alloc(*state, 0);
    assert_int_equal(make_all(*state, host_backends[i]), LS_OK);
    int64_t count = ls_ctx_fail_alloc(*state, 0);
    assert_true(count >= 5);
    for (int64_t n = 1; n <= count; n++) {
      ls_ctx_fail_alloc(*state, n);
      assert_int_equal(make_all(*state, host_backends[i]), LS_ERR_MEMORY);
    }
    ls_ctx_fail_alloc(*state, 0);
  }
}

static void ref_has_no_kernels_null_has_all(void **state) {
  assert_null(ls_backend_ref.device->kernel(NULL, "linear"));
  assert_non_null(ls_backend_null.device->kernel(NULL, "whatever"));
  assert_null(ls_backend_cpu.device->kernel(NULL, "whatever"));
  assert_non_null(ls_backend_cpu.device->kernel(NULL, "linear"));
}

/* 16 bits are no faster there, and no smaller. */
static void a_cpu_that_computes_16_bits_in_f32_says_so(void **state) {
  const ls_math_t maths[] = {LS_MATH_FP32, LS_MATH_BF16, LS_MATH_FP16};
  const ls_device_ops_t *ops = ls_backend_cpu.device;
  for (int i = 0; i < LS_COUNT(maths); i++) {
    const ls_device_options_t options = {.threads = 1, .math = maths[i]};
    const bool own = i == 0 || ops->low(NULL, "linear", ls_math_low(maths[i]));
    ls_device_t *device;
    assert_int_equal(ops->open(*state, &options, &device), LS_OK);
    assert_int_equal(strstr(device->name, "through f32") == NULL, own);
    ops->close(device);
  }
  assert_false(ops->low(NULL, "linear", LS_F16));
  assert_false(ops->low(NULL, "no such op", LS_BF16));
}

TESTS(ctx_make, ctx_drop, a_cpu_that_computes_16_bits_in_f32_says_so, names, auto_without_a_module_is_cpu,
      missing_module_is_named, a_file_that_is_no_module, a_library_that_is_no_module,
      another_version_is_refused, no_device_answers, search_lists_where_it_looked, devices_and_memory,
      bad_thread_count, arithmetic, every_allocation_may_fail, ref_has_no_kernels_null_has_all)
