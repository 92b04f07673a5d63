/* Naming the pending collective from the last mark, and noticing that nothing moves. No GPU is needed: the
 * word is written by hand. */
#include "comm/nccl/nccl.h"

#include "unit.h"
#include <stdio.h>
#include <string.h>

/* progress.c's other half, which talks to CUDA, is not used here. */
ls_status_t ls_cuda_check(ls_ctx_t *ctx, cudaError_t error, const char *what) {
  (void)ctx;
  (void)what;
  return error == cudaSuccess ? LS_OK : LS_ERR_DEVICE;
}
cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags) {
  (void)memory;
  (void)size;
  (void)flags;
  return cudaErrorMemoryAllocation;
}
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
  (void)device;
  (void)host;
  (void)flags;
  return cudaErrorInvalidValue;
}
cudaError_t cudaFreeHost(void *memory) {
  (void)memory;
  return cudaSuccess;
}
cudaError_t cudaGetLastError(void) {
  return cudaSuccess;
}

static void the_one_after_the_mark_is_pending(void **state) {
  (void)state;
  static ls_nccl_progress_t progress;
  ls_collective_t c[3] = {{.kind = LS_ALL_REDUCE, .name = "gradients 0"},
                          {.kind = LS_ALL_REDUCE, .name = "gradients 1"},
                          {.kind = LS_BROADCAST, .name = "parameters"}};
  assert_null(ls_nccl_progress_pending(&progress, 0));
  for (uint32_t repeat = 0; repeat < 2; repeat++)
    for (uint32_t i = 0; i < 3; i++)
      assert_int_equal(ls_nccl_progress_number(&progress, &c[i]), i + 1);
  assert_string_equal(ls_nccl_progress_pending(&progress, 0)->name, "gradients 0");
  assert_string_equal(ls_nccl_progress_pending(&progress, 1)->name, "gradients 1");
  assert_int_equal(ls_nccl_progress_pending(&progress, 2)->kind, LS_BROADCAST);
  assert_string_equal(ls_nccl_progress_pending(&progress, UINT64_C(7) << 32 | 1)->name,
                      "gradients 1"); /* 7 have run */
  assert_string_equal(ls_nccl_progress_pending(&progress, 3)->name,
                      "gradients 0"); /* the next step's first */
  /* another run's collectives of the same names share their numbers */
  ls_collective_t again = {.kind = LS_ALL_REDUCE, .name = "gradients 1"};
  assert_int_equal(ls_nccl_progress_number(&progress, &again), 2);
  again.kind = LS_ALL_GATHER;
  assert_int_equal(ls_nccl_progress_number(&progress, &again), 4);
}

static void a_full_table_gives_no_number(void **state) {
  (void)state;
  static ls_nccl_progress_t progress;
  char name[LS_NCCL_NAME_BYTES];
  ls_collective_t c = {.kind = LS_ALL_REDUCE, .name = name};
  for (uint32_t i = 0; i <= LS_NCCL_PROGRESS_MAX; i++) {
    snprintf(name, sizeof name, "gradients %u", i);
    assert_int_equal(ls_nccl_progress_number(&progress, &c), i < LS_NCCL_PROGRESS_MAX ? i + 1 : 0);
  }
}

static void stillness_counts_from_the_last_move(void **state) {
  (void)state;
  static ls_nccl_progress_t progress;
  uint64_t word = 0;
  progress.word = &word;
  progress.last_step = -1;
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 0, 1000, 500), 0);
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 0, 1400, 500), 400);
  word = 1;
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 0, 1500, 500), 0);
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 0, 1900, 500), 400);
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 1, 2000, 500), 0); /* another step */
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 1, 2300, 500), 300);
  assert_int_equal(ls_nccl_progress_still_ns(&progress, 1, 9000, 500), 0); /* nobody was waiting in between */
}

/* ---- what a watcher is told ---- */

typedef struct {
  char text[512];
  uint64_t next;
} told_t;

static uint64_t on_enter(void *user, const ls_comm_t *comm, const ls_collective_t *c, ls_comm_line_t line,
                         uint64_t number) {
  told_t *told = user;
  size_t used = strlen(told->text);
  (void)comm;
  assert_int_equal(line, LS_LINE_DEVICE);
  assert_int_equal(c->dtype, LS_F32);
  snprintf(told->text + used, sizeof told->text - used, "+%llu %s %lld;", (unsigned long long)number, c->name,
           (long long)c->count);
  return ++told->next;
}
static void on_leave(void *user, ls_comm_line_t line, uint64_t mark) {
  told_t *told = user;
  size_t used = strlen(told->text);
  (void)line;
  snprintf(told->text + used, sizeof told->text - used, "-%llu;", (unsigned long long)mark);
}

static void a_watcher_is_told_of_what_has_run_and_of_what_is_waited_for(void **state) {
  (void)state;
  static const struct {
    uint32_t run, last;
    const char *says;
  } rows[] = {{0, 0, "+1 a 10;"},
              {0, 0, ""},
              {1, 1, "-1;+2 b 20;"},            /* the one that was waited for */
              {8, 3, "-2;+8 c 30;-3;+9 a 10;"}, /* many others meanwhile: the last of them */
              {8, 3, ""},
              {9, 1, "-4;+10 b 20;"}};
  static ls_nccl_progress_t progress;
  told_t told = {.text = ""};
  const ls_comm_watch_t watch = {.enter = on_enter, .leave = on_leave, .user = &told};
  ls_comm_t comm = {.size = 2};
  ls_nccl_progress_tell(&progress, &comm, 0); /* nobody watches */
  comm.watch = &watch;
  ls_nccl_progress_tell(&progress, &comm, 0); /* nothing is bound */
  assert_string_equal(told.text, "");
  for (int i = 0; i < 3; i++) {
    const char name[] = {(char)('a' + i), '\0'};
    const ls_collective_t c = {.kind = LS_ALL_REDUCE, .name = name, .count = 10 * (i + 1), .dtype = LS_F32};
    assert_int_equal(ls_nccl_progress_number(&progress, &c), i + 1);
  }
  for (int i = 0; i < LS_COUNT(rows); i++) {
    told.text[0] = '\0';
    ls_nccl_progress_tell(&progress, &comm, (uint64_t)rows[i].run << 32 | rows[i].last);
    assert_string_equal(told.text, rows[i].says);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_one_after_the_mark_is_pending),
      cmocka_unit_test(a_watcher_is_told_of_what_has_run_and_of_what_is_waited_for),
      cmocka_unit_test(a_full_table_gives_no_number),
      cmocka_unit_test(stillness_counts_from_the_last_move),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
