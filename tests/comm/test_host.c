/* What the host transports share, through self: refused arguments, streams, records of calls; and the small
 * facts: names, bus bytes, launchers, fixed-order sums. */

#include "base/half.h"
#include "cases.h"
#include "comm/host.h"
#include "comm/transport.h"

#include "unit.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *comm;
} fixture_t;

static int set_up(void **state) {
  static fixture_t f;
  f.ctx = ls_ctx_create(NULL, NULL);
  *state = &f;
  return f.ctx ? (int)ls_comm_self_create(f.ctx, &f.comm) : -1;
}

static int tear_down(void **state) {
  fixture_t *f = *state;
  ls_comm_destroy(f->comm);
  ls_ctx_destroy(f->ctx);
  return 0;
}

static void test_self_is_exact(void **state) {
  fixture_t *f = *state;
  char text[CASES_TEXT_BYTES];
  assert_null(cases_run(f->comm, NULL, text));
  assert_null(cases_bits(f->comm, text));
  assert_int_equal(f->comm->local_size, 1);
  assert_int_equal(f->comm->deadline_ns, LS_COMM_DEADLINE_S * 1000000000LL);
  ls_comm_destroy(NULL);
}

static void test_bad_arguments_are_refused(void **state) {
  fixture_t *f = *state;
  float x[4];
  const ls_collective_t good = {.kind = LS_ALL_REDUCE, .name = "g", .send = x, .recv = x, .count = 4};
  ls_collective_t bad[9];
  for (int i = 0; i < LS_COUNT(bad); i++)
    bad[i] = good;
  bad[0].count = -1;
  bad[1].dtype = LS_U8;
  bad[2].dtype = LS_DTYPE_COUNT;
  bad[3].kind = LS_COLLECTIVE_COUNT;
  bad[4].send = NULL;
  bad[5].recv = NULL;
  bad[6].count = INT64_MAX / 2;
  bad[7].kind = LS_BROADCAST;
  bad[7].root = 1;
  bad[8].dtype = LS_U16;
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_ctx_clear(f->ctx);
    assert_int_equal(f->comm->ops->run(f->comm, &bad[i]), LS_ERR_ARGUMENT);
    assert_non_null(strstr(ls_ctx_error(f->ctx), "\"g\""));
  }
  assert_non_null(strstr(ls_ctx_error(f->ctx), "u16 cannot be summed"));
  assert_int_equal(f->comm->ops->poll(f->comm), LS_OK); /* a refused call changes nothing */
  assert_int_equal(f->comm->ops->run(f->comm, &good), LS_OK);
}

/* Rounded after each addition, the sum would stay 1. */
static void sums_of_16_bits_are_rounded_once(void **state) {
  const uint16_t one[] = {ls_bf16_of_f32(1), ls_f16_of_f32(1)};
  const uint16_t small[] = {ls_bf16_of_f32(0x1p-9f), ls_f16_of_f32(0x1p-12f)};
  const ls_dtype_t dtypes[] = {LS_BF16, LS_F16};
  for (int i = 0; i < 2; i++) {
    const void *in[] = {&one[i], &small[i], &small[i], &small[i]};
    uint16_t out;
    ls_comm_sum(dtypes[i], &out, NULL, in, LS_COUNT(in), 1);
    assert_int_equal(out, one[i] + 1);
  }
}

/* What is not bound does not run; neither binding nor any step allocates. */
static void test_bound_collectives_allocate_nothing(void **state) {
  fixture_t *f = *state;
  const ls_backend_t *backend = &ls_backend_ref;
  ls_device_t *device;
  ls_stream_t *stream;
  int64_t x[100] = {1, 2, 3}, y[100];
  ls_collective_t c = {
      .kind = LS_ALL_GATHER, .name = "x", .send = x, .recv = y, .count = 100, .dtype = LS_I64};
  assert_int_equal(backend->device->open(f->ctx, &(ls_device_options_t){.threads = 1}, &device), LS_OK);
  assert_int_equal(backend->stream->create(device, LS_STREAM_ASYNC, &stream), LS_OK);
  assert_int_equal(ls_comm_enqueue(stream, &c), LS_ERR_ARGUMENT);
  ls_ctx_fail_alloc(f->ctx, 0);
  for (int step = 0; step < 100; step++) {
    memset(y, 0, sizeof y);
    assert_int_equal(cases_do(f->comm, stream, &c), LS_OK);
    assert_memory_equal(x, y, sizeof x);
  }
  assert_int_equal(ls_ctx_fail_alloc(f->ctx, 0), 0);
  c.count = -1;
  assert_int_equal(ls_comm_bind(f->comm, &c), LS_ERR_ARGUMENT);
  backend->stream->destroy(stream);
  backend->device->close(device);
}

static void test_creation_without_memory(void **state) {
  fixture_t *f = *state;
  ls_comm_t *comm = NULL;
  ls_ctx_fail_alloc(f->ctx, 1);
  assert_int_equal(ls_comm_self_create(f->ctx, &comm), LS_ERR_MEMORY);
  assert_null(comm);
}

static void test_conveniences(void **state) {
  fixture_t *f = *state;
  double v[2] = {1.5, -2};
  assert_int_equal(ls_comm_sum_f64(f->comm, "v", v, 2), LS_OK);
  assert_true(v[0] == 1.5 && v[1] == -2);
  assert_int_equal(ls_comm_broadcast(f->comm, "v", v, sizeof v, 0), LS_OK);
  assert_int_equal(ls_comm_barrier(f->comm, "b"), LS_OK);
  assert_int_equal(ls_comm_agree(f->comm, "a", LS_OK), LS_OK);
  assert_int_equal(ls_comm_agree(f->comm, "a", LS_ERR_IO), LS_ERR_IO);
}

static void test_names_and_bus_bytes(void **state) {
  assert_string_equal(ls_collective_name(LS_ALL_REDUCE), "all-reduce");
  assert_string_equal(ls_collective_name(LS_BARRIER), "barrier");
  assert_string_equal(ls_collective_name((ls_collective_kind_t)99), "unknown collective");
  assert_int_equal(ls_collective_bus_bytes(LS_ALL_REDUCE, 1000, LS_F32, 1), 0);
  assert_int_equal(ls_collective_bus_bytes(LS_ALL_REDUCE, 1000, LS_F32, 2), 4000);
  assert_int_equal(ls_collective_bus_bytes(LS_ALL_REDUCE, 1000, LS_F32, 4), 6000);
  assert_int_equal(ls_collective_bus_bytes(LS_REDUCE_SCATTER, 1000, LS_F64, 4), 24000);
  assert_int_equal(ls_collective_bus_bytes(LS_ALL_GATHER, 1000, LS_U8, 3), 2000);
  assert_int_equal(ls_collective_bus_bytes(LS_BROADCAST, 1000, LS_I64, 3), 8000);
  assert_int_equal(ls_collective_bus_bytes(LS_BARRIER, 1000, LS_F32, 3), 0);
}

/* (a + b) + c, which here differs from a + (b + c); in place; with a copy; across the inner block's size. */
static void test_sums_are_in_order(void **state) {
  enum { COUNT = 3000 };
  static float a[COUNT], b[COUNT], c[COUNT], copy[COUNT];
  for (int i = 0; i < COUNT; i++) {
    a[i] = 1.0f;
    b[i] = 0x1p24f;
    c[i] = -0x1p24f + (float)(i % 2);
  }
  const void *in[] = {a, b, c};
  ls_comm_sum(LS_F32, c, copy, in, 3, COUNT);
  for (int i = 0; i < COUNT; i++) {
    float want = (1.0f + 0x1p24f) + (-0x1p24f + (float)(i % 2));
    assert_true(c[i] == want && copy[i] == want && want != 1.0f + (0x1p24f + (-0x1p24f + (float)(i % 2))));
  }
}

static void test_integers_wrap_around(void **state) {
  int32_t a = INT32_MAX, b = 1, out = 0;
  const void *in[] = {&a, &b};
  ls_comm_sum(LS_I32, &out, NULL, in, 2, 1);
  assert_int_equal(out, INT32_MIN);
}

static const char *const variables[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMIX_RANK",
                                        "PMIX_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_ID",
                                        "SLURM_STEP_NUM_TASKS"};

/* `text` is "NAME=value NAME=value". */
static bool launched(const char *text, int *rank, int *size) {
  char copy[256], *save = NULL;
  for (int i = 0; i < LS_COUNT(variables); i++)
    unsetenv(variables[i]);
  strcpy(copy, text);
  for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *value = strchr(word, '=');
    *value++ = '\0';
    setenv(word, value, 1);
  }
  *rank = *size = -1;
  return ls_comm_launched(rank, size);
}

static void test_launchers(void **state) {
  static const struct {
    const char *environment;
    int rank, size; /* size 0: started by hand */
  } rows[] = {
      {"", 0, 0},
      {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", 1, 4},
      {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", 0, 1},
      {"OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4", 0, 0},
      {"OMPI_COMM_WORLD_RANK=-1 OMPI_COMM_WORLD_SIZE=4", 0, 0},
      {"OMPI_COMM_WORLD_RANK=1", 0, 0},
      {"OMPI_COMM_WORLD_RANK=1x OMPI_COMM_WORLD_SIZE=4", 0, 0},
      {"OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=99999999999999999999", 0, 0},
      {"PMI_RANK=2 PMI_SIZE=3", 2, 3},
      {"PMIX_RANK=2 SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=3", 2, 3},
      {"SLURM_PROCID=0 SLURM_NTASKS=4", 0, 0},                                        /* a batch script */
      {"SLURM_STEP_ID=3 SLURM_PROCID=1 SLURM_NTASKS=4", 1, 4},                        /* srun */
      {"SLURM_STEP_ID=3 SLURM_PROCID=1 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=4", 1, 4}, /* part of the job */
      {"SLURM_STEP_ID=3 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1", 0, 0},                /* a shell in a step */
      {"SLURM_STEP_ID=batch SLURM_PROCID=0 SLURM_NTASKS=4", 0, 0},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    int rank, size;
    assert_int_equal(launched(rows[i].environment, &rank, &size), rows[i].size > 0);
    assert_int_equal(rank, rows[i].size > 0 ? rows[i].rank : -1);
    assert_int_equal(size, rows[i].size > 0 ? rows[i].size : -1);
  }
}

/* What a row says of itself is all that anybody knows of it. */
static void test_transports_say_what_they_move(void **state) {
  fixture_t *f = *state;
  static const ls_transport_t own = {.name = "own"}, again = {.name = "own"};
  static const ls_backend_t gpu = {.name = "cuda"}, unknown = {.name = "abacus"};
  char key[LS_TRANSPORT_KEY_BYTES];
  const ls_transport_t *nccl = ls_transport_find("nccl"), *mpi = ls_transport_find("mpi");
  assert_ptr_equal(ls_transport_default(&ls_backend_ref), mpi);
  assert_ptr_equal(ls_transport_default(&gpu), nccl);
  assert_null(ls_transport_default(&unknown));
  assert_true(ls_transport_register(&own) && !ls_transport_register(&again));
  assert_ptr_equal(ls_transport_find("own"), &own);
  assert_true(ls_transport_fits(&own, &ls_backend_ref) && !ls_transport_fits(&own, &gpu));
  assert_true(ls_transport_is_usual(mpi) && !ls_transport_is_usual(&own));
  assert_string_equal(ls_transport_key(mpi, key), "mpi");
  setenv("NCCL_P2P_DISABLE", "1", 1);
  assert_string_equal(ls_transport_key(nccl, key), "nccl-without-peer");
  assert_string_equal(ls_transport_variant("cuda"), "-without-peer");
  assert_string_equal(ls_transport_variant("cpu"), "");
  unsetenv("NCCL_P2P_DISABLE");
  assert_string_equal(ls_transport_key(nccl, key), "nccl");
  ls_device_t device = {.backend = &ls_backend_ref, .ctx = f->ctx};
  ls_comm_t *comm = NULL, two = *f->comm;
  two.size = 2;
  assert_int_equal(ls_transport_connect(f->ctx, "nccl", &device, f->comm, &comm), LS_OK); /* one rank */
  assert_ptr_equal(comm, f->comm);
  assert_int_equal(ls_transport_connect(f->ctx, "auto", &device, &two, &comm), LS_OK);
  assert_ptr_equal(comm, &two);
  assert_int_equal(ls_transport_connect(f->ctx, "nccl", &device, &two, &comm), LS_ERR_CONFIG);
  assert_non_null(strstr(ls_ctx_error(f->ctx), "does not move the memory of backend ref"));
}

TESTS(set_up, tear_down, test_self_is_exact, test_bad_arguments_are_refused,
      test_bound_collectives_allocate_nothing, test_creation_without_memory, test_conveniences,
      test_names_and_bus_bytes, test_sums_are_in_order, test_integers_wrap_around,
      sums_of_16_bits_are_rounded_once, test_launchers, test_transports_say_what_they_move)
