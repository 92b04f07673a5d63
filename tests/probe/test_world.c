/* Several ranks, as threads: all get the same curves and factors, and a rank that stays away ends the others'
 * wait. */
#include "base/capture.h"
#include "probe/probe.h"
#include "support/threads.h"

#include <stdlib.h>

enum { RANKS_MAX = 3 };

typedef struct {
  ls_comm_t *comm;
  ls_ctx_t *ctx;
  ls_device_t *device;
  ls_profile_t *profile;
  bool away;
  ls_status_t collectives, contention;
} rank_t;

static void *work(void *arg) {
  rank_t *r = arg;
  if (r->away) return NULL;
  r->collectives = ls_probe_collectives(r->ctx, r->comm, r->comm, "sim", r->device, 1, r->profile);
  if (r->collectives == LS_OK)
    r->contention = ls_probe_contention(r->ctx, r->comm, r->device, 1, 1, r->profile);
  return NULL;
}

static void run(capture_t *c, rank_t *ranks, int size, int64_t deadline_ns, bool last_is_away) {
  static ls_machine_t machine;
  ls_comm_t *comm[RANKS_MAX];
  const ls_device_options_t options = {.threads = 1};
  ls_machine_clear(&machine);
  assert_int_equal(ls_comm_sim_create(c->ctx, size, deadline_ns, comm), LS_OK);
  for (int i = 0; i < size; i++) {
    ranks[i] = (rank_t){
        .comm = comm[i], .ctx = c->ctx, .away = last_is_away && i == size - 1, .contention = LS_ERR_INTERNAL};
    assert_int_equal(ls_backend_cpu.device->open(c->ctx, &options, &ranks[i].device), LS_OK);
    assert_int_equal(ls_profile_create(c->ctx, &machine, &ranks[i].profile), LS_OK);
  }
  threads_run(size, work, ranks, sizeof *ranks);
}

static void release(rank_t *ranks, int size) {
  for (int i = 0; i < size; i++) {
    ls_profile_destroy(ranks[i].profile);
    ls_backend_cpu.device->close(ranks[i].device);
    ls_comm_destroy(ranks[i].comm);
  }
}

static void all_ranks_agree(void **state) {
  static const char *const kinds[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
  capture_t *c = *state;
  for (int size = 2; size <= RANKS_MAX; size++) {
    rank_t ranks[RANKS_MAX];
    run(c, ranks, size, 0, false);
    for (int i = 0; i < size; i++) {
      assert_int_equal(ranks[i].collectives, LS_OK);
      assert_int_equal(ranks[i].contention, LS_OK);
      json_t *mine = ls_profile_json(ranks[i].profile), *first = ls_profile_json(ranks[0].profile);
      assert_true(mine && json_equal(mine, first));
      json_decref(mine);
      json_decref(first);
    }
    for (int k = 0; k < LS_COUNT(kinds); k++) {
      char key[LS_PROFILE_KEY_BYTES];
      const ls_curve_point_t *points;
      ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, "sim", kinds[k], size});
      assert_int_equal(ls_profile_curve(ranks[0].profile, key, &points), 11);
      assert_true(points[0].bytes <= 64 && points[0].bytes > 0);
      assert_true(points[10].bytes > 63 << 20 && points[10].bytes <= 64 << 20);
      for (int i = 0; i < 11; i++)
        assert_true(points[i].time.ns > 0);
    }
    char key[LS_PROFILE_KEY_BYTES];
    ls_time_t factor;
    assert_true(ls_profile_get(
        ranks[0].profile,
        ls_profile_key(key, (ls_profile_key_t){LS_KEY_CONTENTION, "cpu", "memory", size, 1}), &factor));
    assert_true(factor.low_ns >= 1 && factor.ns >= 1);
    assert_true(ls_profile_get(
        ranks[0].profile,
        ls_profile_key(key, (ls_profile_key_t){LS_KEY_CONTENTION, "cpu", "compute", size, 1}), &factor));
    assert_int_equal(ls_profile_time_count(ranks[0].profile), 2);
    release(ranks, size);
  }
}

static void one_stays_away(void **state) {
  capture_t *c = *state;
  rank_t ranks[RANKS_MAX];
  run(c, ranks, 2, 100000000, true);
  assert_true(ranks[0].collectives == LS_ERR_TIMEOUT || ranks[0].collectives == LS_ERR_COMM);
  assert_int_equal(ls_profile_curve_count(ranks[0].profile), 0);
  assert_true(c->count > 0);
  release(ranks, 2);
}

/* A single rank has no contention: nothing is measured and nothing is wrong. */
static void alone(void **state) {
  capture_t *c = *state;
  rank_t rank;
  run(c, &rank, 1, 0, false);
  assert_int_equal(rank.contention, LS_OK);
  assert_int_equal(ls_profile_time_count(rank.profile), 0);
  release(&rank, 1);
}

TESTS(capture_setup, capture_teardown, all_ranks_agree, one_stays_away, alone)
