/* The sim transport, and with it the shared segment: exact results, identical bits, and every way to fail. */

#include "ranks.h"

#include "unit.h"
#include <stdlib.h>
#include <string.h>

static const int worlds[] = {1, 2, 3, 5, 8, 11};
enum {
  WORLD_MOST = 5
}; /* ranks wait by looking: more than there are processors take seconds, which make test-all has */
static const int64_t short_ns = 200000000;

static void expect_fine(const ranks_t *ranks, int size) {
  for (int r = 0; r < size; r++)
    assert_string_equal(ranks->rank[r].text, "");
  assert_string_equal(ranks->log, "");
}

static void in_world(int size, rank_fn fn) {
  ranks_t ranks;
  ranks_run(&ranks, size, 0, fn);
  expect_fine(&ranks, size);
  ranks_release(&ranks);
}

static void in_all_worlds(rank_fn fn) {
  for (int w = 0; w < LS_COUNT(worlds) && (worlds[w] <= WORLD_MOST || getenv("LOCKSTEP_TEST_ALL")); w++)
    in_world(worlds[w], fn);
}

static void blocking(rank_t *rank) {
  cases_run(rank->comm, NULL, rank->text);
}
static void bits(rank_t *rank) {
  cases_bits(rank->comm, rank->text);
}

/* Every rank has a device of its own, as a process would. */
static void with_stream(rank_t *rank, ls_stream_kind_t kind,
                        const char *(*fn)(ls_comm_t *comm, ls_stream_t *stream, char *text)) {
  const ls_backend_t *backend = &ls_backend_ref;
  ls_device_t *device;
  ls_stream_t *stream;
  strcpy(rank->text, "no stream");
  if (backend->device->open(rank->ranks->ctx, &(ls_device_options_t){.threads = 1}, &device) != LS_OK) return;
  if (backend->stream->create(device, kind, &stream) == LS_OK) {
    rank->text[0] = '\0';
    fn(rank->comm, stream, rank->text);
    backend->stream->destroy(stream);
  }
  backend->device->close(device);
}

static void on_inline(rank_t *rank) {
  with_stream(rank, LS_STREAM_INLINE, cases_run);
}
static void on_async(rank_t *rank) {
  with_stream(rank, LS_STREAM_ASYNC, cases_run);
}
static void overlap(rank_t *rank) {
  with_stream(rank, LS_STREAM_ASYNC, cases_overlap);
}

static void test_exact_blocking(void **state) {
  in_all_worlds(blocking);
}
static void test_exact_inline_stream(void **state) {
  in_world(1, on_inline);
  in_world(3, on_inline);
}
static void test_exact_async_stream(void **state) {
  in_all_worlds(on_async);
}
static void test_same_bits_everywhere(void **state) {
  in_all_worlds(bits);
}
static void groups(rank_t *rank) {
  with_stream(rank, LS_STREAM_ASYNC, cases_groups);
}

static void test_groups(void **state) {
  in_all_worlds(groups);
}

static void test_control_while_the_lane_is_busy(void **state) {
  in_all_worlds(overlap);
}

static ls_status_t gradients(ls_comm_t *comm, int64_t count) {
  float x[8] = {0};
  const ls_collective_t c = {
      .kind = LS_ALL_REDUCE, .name = "gradients 3", .send = x, .recv = x, .count = count};
  return comm->ops->run(comm, &c);
}

/* The absent rank keeps its communicator, so nothing but the deadline ends the wait. */
static void last_stays_away(rank_t *rank) {
  ls_comm_set_step(rank->comm, 7);
  if (rank->comm->rank == rank->comm->size - 1) return;
  rank->status = gradients(rank->comm, 8);
  if (gradients(rank->comm, 8) != LS_ERR_COMM || rank->comm->ops->poll(rank->comm) != LS_ERR_COMM)
    strcpy(rank->text, "a broken communicator still works");
}

static void test_late_rank_is_named(void **state) {
  ranks_t ranks;
  for (int size = 2; size <= 3; size++) {
    ranks_run(&ranks, size, short_ns, last_stays_away);
    for (int r = 0; r < size - 1; r++) {
      assert_int_equal(ranks.rank[r].status, LS_ERR_TIMEOUT);
      assert_string_equal(ranks.rank[r].text, "");
    }
    assert_int_equal(ls_ctx_error_count(ranks.ctx), size - 1); /* each speaks once */
    const char *message = ls_ctx_error(ranks.ctx);
    assert_non_null(
        strstr(message, size == 2 ? "rank 0 of 2, step 7, all-reduce \"gradients 3\"" : "of 3, step 7"));
    /* of two ranks that wait, one may be late itself on a busy machine: then the other gave up for both */
    assert_non_null(strstr(ranks.log, size == 2 ? "rank 1 did not arrive" : "rank 2 did not arrive") ||
                    strstr(ranks.log, "while rank 2 was missing"));
    ranks_release(&ranks);
  }
}

/* Of the group of even ranks the last stays away: the deadline names the group, and only the group is broken.
 */
static void last_even_stays_away(rank_t *rank) {
  ls_comm_t *group = NULL, *comm = rank->comm;
  bool even = comm->rank % 2 == 0;
  ls_comm_set_step(comm, 7);
  if (ls_comm_group(comm, "even", (int[]){0, 2}, 2, &group) != LS_OK) strcpy(rank->text, "not split");
  if (even && group->rank < group->size - 1) {
    group->deadline_ns = short_ns;
    rank->status = gradients(group, 8);
    if (gradients(group, 8) != LS_ERR_COMM) strcpy(rank->text, "a broken group still works");
  }
  if (gradients(comm, 8) != LS_OK) strcpy(rank->text, "the others suffer");
  ls_comm_destroy(group);
}

static void test_late_member_of_a_group_is_named(void **state) {
  ranks_t ranks;
  ranks_run(&ranks, 3, 0, last_even_stays_away);
  for (int r = 0; r < 3; r++)
    assert_string_equal(ranks.rank[r].text, "");
  assert_int_equal(ranks.rank[0].status, LS_ERR_TIMEOUT);
  assert_string_equal(ls_ctx_error(ranks.ctx),
                      "rank 0 of 2 of group \"even\", step 7, all-reduce \"gradients "
                      "3\": rank 1 did not arrive within 0.200 s");
  ranks_release(&ranks);
}

static void last_does_not_split(rank_t *rank) {
  ls_comm_t *group = NULL;
  if (rank->comm->rank < rank->comm->size - 1)
    rank->status = ls_comm_group(rank->comm, "stage 1", (int[]){0, 1, 2}, 3, &group);
  if (group) strcpy(rank->text, "a group in spite of the failure");
}

static void test_late_split_names_the_group(void **state) {
  ranks_t ranks;
  ranks_run(&ranks, 3, short_ns, last_does_not_split);
  for (int r = 0; r < 2; r++) {
    assert_int_equal(ranks.rank[r].status, LS_ERR_TIMEOUT);
    assert_string_equal(ranks.rank[r].text, "");
  }
  assert_non_null(strstr(ranks.log, "\"group stage 1\": rank 2 did not arrive") ||
                  strstr(ranks.log, "while rank 2 was missing"));
  ranks_release(&ranks);
}

static void last_leaves(rank_t *rank) {
  if (rank->comm->rank < rank->comm->size - 1) {
    rank->status = gradients(rank->comm, 8);
    return;
  }
  ls_comm_destroy(rank->comm);
  rank->comm = NULL;
}

static void test_rank_that_leaves_is_not_waited_for(void **state) {
  ranks_t ranks;
  ranks_run(&ranks, 3, 0, last_leaves);
  for (int r = 0; r < 2; r++)
    assert_int_equal(ranks.rank[r].status, LS_ERR_COMM);
  assert_non_null(strstr(ranks.log, "rank 2 has left"));
  ranks_release(&ranks);
}

/* A rank may leave at once after its last collective, while others are still inside it. */
static void leave_after_one(rank_t *rank) {
  rank->status = gradients(rank->comm, 8);
  ls_comm_destroy(rank->comm);
  rank->comm = NULL;
}

static void test_leaving_after_the_last_collective(void **state) {
  ranks_t ranks;
  for (int repeat = 0; repeat < 50; repeat++) {
    ranks_run(&ranks, 3, 0, leave_after_one);
    for (int r = 0; r < 3; r++)
      assert_int_equal(ranks.rank[r].status, LS_OK);
    ranks_release(&ranks);
  }
}

static void counts_differ(rank_t *rank) {
  rank->status = gradients(rank->comm, rank->comm->rank == 1 ? 7 : 8);
}

static void test_ranks_that_disagree_are_told(void **state) {
  ranks_t ranks;
  ranks_run(&ranks, 3, 0, counts_differ);
  for (int r = 0; r < 3; r++)
    assert_int_equal(ranks.rank[r].status, LS_ERR_COMM);
  assert_non_null(strstr(ranks.log, "ranks do not issue the same collectives"));
  assert_non_null(strstr(ranks.log, "\"gradients 3\" with count 7 of f32 on rank 1"));
  ranks_release(&ranks);
}

static void second_fails(rank_t *rank) {
  rank->status = ls_comm_agree(rank->comm, "start", rank->comm->rank == 1 ? LS_ERR_DATA : LS_OK);
  static const ls_status_t same[] = {LS_OK, LS_ERR_NO_SPACE, LS_ERR_NO_SPACE},
                           differ[] = {LS_OK, LS_ERR_IO, LS_ERR_COMM};
  int r = rank->comm->rank;
  if (ls_comm_agree(rank->comm, "same", same[r]) != LS_ERR_NO_SPACE)
    strcpy(rank->text, "two failures of one kind");
  if (ls_comm_agree(rank->comm, "differ", differ[r]) != (r == 0 ? LS_ERR_COMM : differ[r]))
    strcpy(rank->text, "two failures of two kinds");
  if (ls_comm_agree(rank->comm, "go on", LS_OK) != LS_OK)
    strcpy(rank->text, "agreeing does not break anything");
}

static void test_agree(void **state) {
  ranks_t ranks;
  ranks_run(&ranks, 3, 0, second_fails);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(ranks.rank[r].status, LS_ERR_DATA); /* the cause, at every rank */
    assert_string_equal(ranks.rank[r].text, "");
  }
  assert_non_null(strstr(ranks.log, "start: rank 1 has failed"));
  assert_int_equal(ls_ctx_error_count(ranks.ctx), 4);
  ranks_release(&ranks);
}

static void test_every_allocation_fails_once(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_comm_t *comm[3] = {NULL};
  ls_status_t status = LS_ERR_MEMORY;
  for (int n = 1; status != LS_OK; n++) {
    assert_in_range(n, 1, 100);
    ls_ctx_fail_alloc(ctx, n);
    status = ls_comm_sim_create(ctx, 3, 0, comm);
    if (status == LS_OK) break;
    assert_int_equal(status, LS_ERR_MEMORY);
    assert_null(comm[0]);
  }
  ls_ctx_fail_alloc(ctx, 0);
  for (int r = 0; r < 3; r++)
    ls_comm_destroy(comm[r]);
  ls_ctx_destroy(ctx);
}

/* Only the first allocates beyond the context in common, so that it alone fails; whoever it is, all are told.
 */
static int fail_at;
static void split_with_failure(rank_t *rank) {
  ls_comm_t *group = NULL;
  if (rank->comm->rank == 0) ls_ctx_fail_alloc(rank->ranks->ctx, fail_at);
  ls_comm_barrier(rank->comm, "ready");
  rank->status = ls_comm_group(rank->comm, "all", (int[]){0, 1, 2}, 3, &group);
  if (!rank->status != !!group) strcpy(rank->text, "half a group");
  if (group && gradients(group, 8) != LS_OK) strcpy(rank->text, "the group does not work");
  if (gradients(rank->comm, 8) != LS_OK) strcpy(rank->text, "the failure has broken the others");
  ls_comm_destroy(group);
}

static void test_every_allocation_of_a_split_fails_once(void **state) {
  ls_status_t status = LS_ERR_MEMORY;
  for (fail_at = 1; status != LS_OK; fail_at++) {
    ranks_t ranks;
    assert_in_range(fail_at, 1, 100);
    ranks_run(&ranks, 3, 0, split_with_failure);
    status = ranks.rank[0].status;
    for (int r = 0; r < 3; r++) {
      assert_string_equal(ranks.rank[r].text, "");
      assert_int_equal(ranks.rank[r].status, status);
      assert_true(status == LS_OK || status == LS_ERR_MEMORY);
    }
    ls_ctx_fail_alloc(ranks.ctx, 0);
    ranks_release(&ranks);
  }
  assert_true(fail_at > 12);
}

static void test_bad_world_is_refused(void **state) {
  ls_comm_t *comm = NULL;
  assert_int_equal(ls_comm_sim_create(NULL, 0, 0, &comm), LS_ERR_ARGUMENT);
  assert_int_equal(ls_comm_sim_create(NULL, 1 << 20, 0, &comm), LS_ERR_ARGUMENT);
  assert_null(comm);
}

TESTS(NULL, NULL, test_exact_blocking, test_exact_inline_stream, test_exact_async_stream,
      test_same_bits_everywhere, test_control_while_the_lane_is_busy, test_groups,
      test_late_member_of_a_group_is_named, test_late_split_names_the_group, test_late_rank_is_named,
      test_rank_that_leaves_is_not_waited_for, test_leaving_after_the_last_collective,
      test_ranks_that_disagree_are_told, test_agree, test_every_allocation_fails_once,
      test_every_allocation_of_a_split_fails_once, test_bad_world_is_refused)
