/* The last collectives of ranks, and where they differ. */
#include "base/file.h"
#include "monitor/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "unit.h"

enum { RANKS = 3 };
static char folder[64];
static ls_rings_t *rings;

static int setup(void **state) {
  snprintf(folder, sizeof folder, "/tmp/lockstep-ring-XXXXXX");
  return mkdtemp(folder) && ls_rings_create(NULL, folder, RANKS, &rings) == LS_OK ? 0 : 1;
}

static int teardown(void **state) {
  ls_rings_close(rings);
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

/* Collective `number` of a line, which took from 10 to 20 ns of its number; under way if it has no end. */
static void run(int rank, ls_ring_line_t line, uint64_t number, const char *group, bool ends) {
  ls_ring_t *ring = ls_rings_at(rings, rank);
  uint64_t mark = ls_ring_enter(ring, line, number, "all-reduce", "gradients 0", group, 4000000,
                                100 * (int64_t)number + 10);
  if (ends) ls_ring_leave(ring, mark, 100 * (int64_t)number + 20);
}

static void the_newest_of_many_collectives_are_there(void **state) {
  for (uint64_t n = 1; n <= 1000; n++)
    run(1, LS_RING_DATA, n, "", true);
  ls_rings_t *other = ls_rings_find(folder, RANKS); /* as another process has them */
  assert_non_null(other);
  assert_null(ls_rings_find(folder, RANKS + 1));
  assert_null(ls_rings_find("/tmp/there/is/none", RANKS));
  const ls_ring_t *ring = ls_rings_at(other, 1);
  assert_int_equal(ring->count, 1000);
  bool seen[LS_RING_ENTRIES] = {false};
  for (int i = 0; i < LS_RING_ENTRIES; i++) {
    const ls_ring_entry_t *e = &ring->entry[i];
    assert_in_range(e->number, 1001 - LS_RING_ENTRIES, 1000);
    assert_int_equal(e->end_ns - e->begin_ns, 10);
    seen[e->number % LS_RING_ENTRIES] = true;
  }
  for (int i = 0; i < LS_RING_ENTRIES; i++)
    assert_true(seen[i]);
  char text[128];
  ls_ring_text(&ring->entry[999 % LS_RING_ENTRIES], text, sizeof text);
  assert_string_equal(text, "all-reduce \"gradients 0\" #1000 (4 MB)");
  ls_rings_close(other);
}

/* The file was sparse: on a full disk a rank's first collective ended it by SIGBUS. */
static void its_room_is_taken_when_it_is_made(void **state) {
  char path[128];
  struct stat info;
  snprintf(path, sizeof path, "%s/%s", folder, LS_RING_NAME);
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_size, RANKS * sizeof(ls_ring_t));
  assert_true(info.st_blocks * 512 >= info.st_size);
}

static void the_rank_that_has_not_come_is_found(void **state) {
  ls_ring_differ_t d;
  assert_false(ls_rings_differ(rings, &d)); /* nobody has done anything */
  for (int r = 0; r < RANKS; r++) {
    run(r, LS_RING_CONTROL, 7, "", true);
    run(r, LS_RING_DATA, 5812, "", true);
  }
  assert_false(ls_rings_differ(rings, &d)); /* nobody waits */
  run(0, LS_RING_CONTROL, 8, "", true);     /* another line: rank 0 may be ahead, and nobody waits in it */
  run(0, LS_RING_DATA, 5813, "", false);
  run(2, LS_RING_DATA, 5813, "", false);
  assert_true(ls_rings_differ(rings, &d));
  assert_int_equal(d.waits, 0);
  assert_int_equal(d.behind, 1);
  assert_int_equal(d.in.number, 5813);
  assert_int_equal(d.at.number, 5812);
  assert_true(ls_rings_behind(rings, 1, &d.in));
  assert_false(ls_rings_behind(rings, 2, &d.in));
  run(1, LS_RING_DATA, 5813, "", false); /* all have come: they are slow together, none is missing */
  assert_false(ls_rings_differ(rings, &d));
}

/* Groups have numbers of their own, and those who are not in them are not missing. */
static void a_group_is_waited_for_by_its_members_alone(void **state) {
  ls_ring_differ_t d;
  run(0, LS_RING_DATA, 4, "stage 1", true);
  run(2, LS_RING_DATA, 4, "stage 1", true);
  run(0, LS_RING_DATA, 5, "stage 1", false);
  run(1, LS_RING_DATA, 90, "", false); /* which waits for the two others, but longer */
  assert_true(ls_rings_differ(rings, &d));
  assert_int_equal(d.waits, 0);
  assert_int_equal(d.behind, 2);
  assert_string_equal(d.in.group, "stage 1");
  assert_false(ls_rings_behind(rings, 1, &d.in));
}

/* A file that a rank has spoiled leads nobody astray. */
static void what_is_no_entry_is_passed_over(void **state) {
  ls_ring_differ_t d;
  memset(ls_rings_at(rings, 0), 0xff, sizeof(ls_ring_t));
  assert_false(ls_rings_differ(rings, &d));
  char text[256];
  ls_ring_text(&ls_rings_at(rings, 0)->entry[3], text, sizeof text);
}

TESTS(setup, teardown, its_room_is_taken_when_it_is_made, the_newest_of_many_collectives_are_there,
      the_rank_that_has_not_come_is_found, a_group_is_waited_for_by_its_members_alone,
      what_is_no_entry_is_passed_over)
