/* Ranks that save together, and one of them fails: in every system call, in every allocation, by dying, or by
 * never coming. All ranks learn of it, the previous checkpoint stays the newest, and nothing half done is
 * left. */
#include "rows_world.h"
#include "syscalls.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define S(n) "step-00000000000" #n
enum { SIZE = 3 };

/* A fault that one rank meets while step 2 is saved. */
typedef struct {
  int rank;     /* whose */
  int call;     /* number of the system call, 0 = none */
  int error;    /* with which it fails; 0: the process dies before it */
  int64_t heap; /* number of the allocation that fails, 0 = none */
  int64_t step;
  bool hit; /* it came to that */
} fault_t;

static void save_with_fault(rank_t *rank) {
  fault_t *fault = rank->arg;
  bool own = rank->rank == fault->rank;
  sys_reset();
  if (own && fault->call && fault->error) sys_fail_at(fault->call, fault->error);
  if (own && fault->call && !fault->error) sys_kill_at(fault->call);
  rows_fill(rank, fault->step);
  ls_ckpt_rows_t rows;
  NEED(ls_ckpt_rows(rank->ctx, rank->table, rank->host, &rows) == LS_OK);
  const ls_ckpt_save_t save = rows_request(rank, &rows, fault->step, NAN);
  char *path = NULL;
  if (own) ls_ctx_fail_alloc(rank->ctx, fault->heap);
  rank->status = ls_ckpt_save(rank->ctx, rank->f->dir, &save, 1, &path);
  if (own && fault->heap) fault->hit = ls_ctx_fail_alloc(rank->ctx, 0) >= fault->heap;
  if (own && fault->call) fault->hit = sys_count() >= fault->call;
  sys_reset();
  ls_free(path);
  ls_arena_release(&rows.arena);
}

static void save_step(int64_t step) {
  rank_t rank[RANKS_MAX];
  fault_t none = {.rank = -1, .step = step};
  world_run(SIZE, CUT_TWICE, save_with_fault, &none, rank);
  for (int r = 0; r < SIZE; r++)
    assert_int_equal(rank[r].status, LS_OK);
}

static void prepare(void) {
  assert_int_equal(ls_dir_remove(f->ctx, f->dir), LS_OK);
  save_step(1);
  fixture_forget();
}

/* All ranks have the same status: step 2 is whole, or there is nothing of it. */
static void check_outcome(const rank_t rank[SIZE], ls_status_t failure) {
  for (int r = 1; r < SIZE; r++)
    assert_int_equal(rank[r].status, rank[0].status);
  if (rank[0].status) {
    assert_int_equal(rank[0].status, failure);
    assert_string_equal(listing(f->dir), S(1));
  }
  fixture_forget();
  assert_int_equal(world_newest(2), rank[0].status ? 1 : 2);
  assert_string_equal(f->log, "");
  save_step(3);
  assert_string_equal(listing(f->dir), S(3));
}

static bool one_fault(fault_t fault, ls_status_t failure) {
  rank_t rank[RANKS_MAX];
  prepare();
  fault.step = 2;
  world_run(SIZE, CUT_TWICE, save_with_fault, &fault, rank);
  check_outcome(rank, failure);
  return fault.hit;
}

static void survives_the_failure_of_every_call_of_every_rank(void **state) {
  for (int r = 0; r < SIZE; r++) {
    int n = 1;
    while (n < 1000 && one_fault((fault_t){.rank = r, .call = n, .error = r ? ENOSPC : EIO},
                                 r ? LS_ERR_NO_SPACE : LS_ERR_IO))
      n++;
    assert_true(n > 10 && n < 1000);
  }
}

static void survives_the_failure_of_every_allocation_of_every_rank(void **state) {
  for (int r = 0; r < SIZE; r++) {
    int64_t n = 1;
    while (n < 1000 && one_fault((fault_t){.rank = r, .heap = n}, LS_ERR_MEMORY))
      n++;
    assert_true(n > 10 && n < 1000);
  }
}

/* The process dies before call n of a rank; whether it got that far. */
static bool one_death(int r, int n) {
  prepare();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    rank_t rank[RANKS_MAX];
    fault_t fault = {.rank = r, .call = n, .step = 2};
    world_run(SIZE, CUT_TWICE, save_with_fault, &fault, rank);
    _exit(rank[0].status ? 1 : 0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  assert_true(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  int64_t step = world_newest(2);
  assert_true(step == 2 || (killed && step == 1));
  assert_string_equal(f->log, ""); /* nothing half done was even looked at */
  save_step(3);
  assert_string_equal(listing(f->dir), S(3));
  return killed;
}

static void survives_death_before_every_call_of_every_rank(void **state) {
  for (int r = 0; r < SIZE; r++) {
    int n = 1;
    while (n < 1000 && one_death(r, n))
      n++;
    assert_true(n > 10 && n < 1000);
  }
}

/* ---- the order that a power cut needs ---- */

static int find(sys_kind_t kind, const char *part, int from) {
  for (int i = from; sys_call(i); i++)
    if (sys_call(i)->kind == kind && strstr(sys_call(i)->path, part)) return i;
  return -1;
}

/* The number of the call that makes the temporary directory durable. */
static int find_directory(int from) {
  int i = from;
  while (sys_call(i) && !(sys_call(i)->kind == SYS_FSYNC && strstr(sys_call(i)->path, ".tmp-step-") &&
                          !strchr(strstr(sys_call(i)->path, ".tmp-step-"), '/')))
    i++;
  return sys_call(i) ? i : -1;
}

/* A rank's files before its directory; on rank 0 they, then the manifest, the directory and the new name. */
static void save_in_order(rank_t *rank) {
  sys_reset();
  rank->status = rows_save(rank, rank->f->dir, 1, NAN, 1);
  int last = -1;
  for (int p = 0; p < LS_PART_COUNT; p++) {
    char name[64];
    snprintf(name, sizeof name, "%s-%05d-of-%05d", ls_ckpt_parts[p].name, rank->rank, rank->size);
    int written = find(SYS_WRITE, name, 0), synced = find(SYS_FSYNC, name, 0);
    NEED(written > last && synced > written && find(SYS_WRITE, name, synced) < 0);
    last = synced;
  }
  int manifest = find(SYS_WRITE, LS_MANIFEST_NAME, 0), placed = find(SYS_RENAME, ".tmp-step-", 0);
  if (rank->rank == 0) {
    NEED(manifest > last);
    last = find(SYS_FSYNC, LS_MANIFEST_NAME, manifest);
    NEED(last > manifest);
  } else {
    NEED(manifest < 0 && placed < 0);
  }
  int directory = find_directory(last);
  NEED(directory > last);
  if (rank->rank == 0) NEED(placed > directory);
  sys_reset();
}

static void every_rank_makes_its_files_durable_before_the_manifest(void **state) {
  rank_t rank[RANKS_MAX];
  world_run(SIZE, CUT_TWICE, save_in_order, NULL, rank);
  for (int r = 0; r < SIZE; r++)
    assert_int_equal(rank[r].status, LS_OK);
}

/* Rank 1 stays away; the others' waits have a short deadline. */
static void save_without_rank_1(rank_t *rank) {
  if (rank->rank == 1) return;
  rank->comm->deadline_ns = 50 * 1000000;
  save_with_fault(rank);
}

static void a_rank_that_never_comes_costs_a_deadline_and_no_checkpoint(void **state) {
  rank_t rank[RANKS_MAX];
  fault_t none = {.rank = -1, .step = 2};
  prepare();
  world_run(SIZE, CUT_TWICE, save_without_rank_1, &none, rank);
  assert_int_not_equal(rank[0].status, LS_OK);
  assert_int_not_equal(rank[2].status, LS_OK);
  assert_contains(f->log, "saving a checkpoint");
  assert_string_equal(listing(f->dir), S(1));
  fixture_forget();
  assert_int_equal(world_newest(2), 1);
}

/* ---- loading, and the fingerprint ---- */

static void load_with_fault(rank_t *rank) {
  fault_t *fault = rank->arg;
  ls_ckpt_t *ckpt = NULL;
  if (rank->rank == 0) NEED(ls_ckpt_open_newest(rank->ctx, rank->f->dir, &ckpt) == LS_OK);
  if (rank->rank == fault->rank) ls_ctx_fail_alloc(rank->ctx, fault->heap);
  rows_poison(rank);
  rank->status = ls_ckpt_load(rank->ctx, rank->comm, ckpt, rank->table, rank->host, false);
  if (rank->rank == fault->rank) fault->hit = ls_ctx_fail_alloc(rank->ctx, 0) >= fault->heap;
  if (!rank->status) rows_check(rank, 1);
  ls_ckpt_close(ckpt);
}

static void hash_with_fault(rank_t *rank) {
  fault_t *fault = rank->arg;
  char hex[33];
  rows_fill(rank, 1);
  if (rank->rank == fault->rank) ls_ctx_fail_alloc(rank->ctx, fault->heap);
  rank->status = ls_ckpt_hash(rank->ctx, rank->comm, rank->table, rank->host, hex);
  if (rank->rank == fault->rank) fault->hit = ls_ctx_fail_alloc(rank->ctx, 0) >= fault->heap;
}

static void all_ranks_learn_that_one_lacks_memory(void **state) {
  static const work_fn works[] = {load_with_fault, hash_with_fault};
  rank_t rank[RANKS_MAX];
  prepare();
  for (int i = 0; i < 2 * LS_COUNT(works); i++) {
    fault_t fault = {.rank = i % 2, .hit = true};
    for (fault.heap = 1; fault.hit && fault.heap < 1000; fault.heap++) {
      world_run(2, CUT_TWICE, works[i / 2], &fault, rank);
      for (int r = 0; r < 2; r++)
        assert_int_equal(rank[r].status, fault.hit ? LS_ERR_MEMORY : LS_OK);
    }
    assert_true(fault.heap > 3 && fault.heap < 1000);
  }
}

TESTS(fixture_setup, fixture_teardown, survives_the_failure_of_every_call_of_every_rank,
      survives_the_failure_of_every_allocation_of_every_rank, survives_death_before_every_call_of_every_rank,
      every_rank_makes_its_files_durable_before_the_manifest,
      a_rank_that_never_comes_costs_a_deadline_and_no_checkpoint, all_ranks_learn_that_one_lacks_memory)
