/* Collectives against values computed by hand from the formulas of docs/simulate.md. */
#include "support.h"

typedef struct {
  ls_collective_kind_t kind;
  double bytes;
  int ranks;
  double ns;
  const char *algorithm;
} row_t;

static void expect(capture_t *c, const char *machine, const row_t *rows, int count) {
  ls_sim_machine_t m;
  machine_make(c, machine, &m);
  for (int i = 0; i < count; i++) {
    const char *algorithm = "untouched";
    double ns = ls_sim_collective_ns(&m, rows[i].kind, rows[i].bytes, rows[i].ranks, &algorithm);
    assert_close(ns, rows[i].ns);
    if (rows[i].algorithm)
      assert_string_equal(algorithm, rows[i].algorithm);
    else
      assert_null(algorithm);
    assert_close(ls_sim_collective_ns(&m, rows[i].kind, rows[i].bytes, rows[i].ranks, NULL), rows[i].ns);
  }
  ls_sim_machine_release(&m);
}

static void within_a_node(void **state) {
  static const row_t rows[] = {
      {LS_ALL_REDUCE, 8000, 1, 0, NULL},
      {LS_ALL_REDUCE, 8000, 2, 2 * 1 * (1000 + 4000), "ring"},
      {LS_ALL_REDUCE, 8000, 4, 2 * 3 * (1000 + 2000), "ring"},
      {LS_ALL_REDUCE, 4, 4, 2 * (2 * 1000 + 4), "tree"}, /* two levels instead of three steps */
      {LS_REDUCE_SCATTER, 8000, 4, 3 * (1000 + 2000), "ring"},
      {LS_ALL_GATHER, 8000, 4, 3 * (1000 + 2000), "ring"},
      {LS_BROADCAST, 8000, 4, 2 * 1000 + 8000, "tree"},
      {LS_BARRIER, 0, 4, 2 * 2 * 1000, "tree"},
  };
  expect(*state, FOUR, rows, LS_COUNT(rows));
}

/* 4 devices a node. Ring over all: 14 steps of (5000 + 10000 * 2) = 350,000; tree: 2 (3 * 1000 + 5000 +
 * 160,000) = 336,000; hierarchical: twice 3 (1000 + 20,000) inside, twice (5000 + 80,000) outside. */
static void between_nodes(void **state) {
  static const row_t rows[] = {
      {LS_ALL_REDUCE, 80000, 4, 2 * 3 * (1000 + 20000), "ring"},
      {LS_ALL_REDUCE, 80000, 8, 126000 + 170000, "hierarchical ring"},
      {LS_REDUCE_SCATTER, 80000, 8, 63000 + 85000, "hierarchical ring"},
      {LS_ALL_GATHER, 80000, 6, 63000 + 85000, "hierarchical ring"}, /* a part of a node counts as a node */
      {LS_ALL_REDUCE, 4, 8, 2 * 3 * (1000 + 1) + 2 * (5000 + 2 * 2), "hierarchical ring"},
      /* 64 nodes: six levels of the tree against 63 steps of the ring between nodes. */
      {LS_ALL_REDUCE, 400, 256, 2 * (3 * 1000 + 6 * 5000 + 400 * 2), "tree"},
  };
  expect(*state, FOUR NETWORK("64"), rows, LS_COUNT(rows));
}

static void a_host_bridge_is_shared(void **state) {
  static const row_t rows[] = {
      {LS_ALL_REDUCE, 8000, 2, 2 * 1 * (1000 + 4000), "ring"}, /* 2 / 2e9 is no more than the link's own */
      {LS_ALL_REDUCE, 8000, 4, 2 * 3 * (1000 + 2 * 2000), "ring"}, /* 4 / 2e9: twice the link's own */
  };
  expect(*state,
         "name: x\ndevices:\n" DEVICE("d", "4")
             LINKS("host-bridge") "  bridge_bytes_per_s: {value: 2e9, source: test}\n",
         rows, LS_COUNT(rows));
}

static void small_messages_take_the_quick_protocol(void **state) {
  static const row_t rows[] = {
      {LS_ALL_REDUCE, 100, 2, 500 + 2 * (1000 + 50 * 2), "ring"}, /* against 20,000 and more */
      {LS_ALL_REDUCE, 1e6, 2, 20000 + 2 * (1000 + 5e5), "ring"},  /* against 500 + 2 (1000 + 1e6) */
  };
  expect(*state,
         FOUR "  collective_overhead_ns: {value: 20000, source: test}\n"
              "  quick_overhead_ns: {value: 500, source: test}\n"
              "  quick_bytes_per_s: {value: 0.5e9, source: test}\n",
         rows, LS_COUNT(rows));
}

static void more_bytes_never_take_less_time(void **state) {
  static const char *const files[] = {"machines/h200.yaml", "machines/h200-host-bridge.yaml",
                                      "machines/rtx4070tis-host-bridge.yaml", "machines/v100-hdr.yaml"};
  capture_t *c = *state;
  for (int f = 0; f < LS_COUNT(files); f++) {
    ls_sim_machine_t m;
    assert_int_equal(ls_sim_machine_read(c->ctx, files[f], NULL, 0, &m), LS_OK);
    int devices = ls_sim_machine_devices(&m);
    for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++)
      for (int ranks = 2; ranks <= devices; ranks *= 2)
        for (double bytes = 4, before = 0; bytes < 1e11; bytes *= 4) {
          double ns = ls_sim_collective_ns(&m, (ls_collective_kind_t)kind, bytes, ranks, NULL);
          assert_true(ns > 0 && ns >= before);
          before = ns;
        }
    ls_sim_machine_release(&m);
  }
}

/* NCCL as measured on H200s (docs/results.md): the figures of the machine files were fitted to some of
 * these. */
static void the_h200_files_give_back_what_was_measured(void **state) {
  static const struct {
    const char *file;
    int ranks;
    double bytes, us, tolerance;
  } rows[] = {
      {"machines/h200.yaml", 2, 8192, 6.4, 0.05},
      {"machines/h200.yaml", 2, 1048576, 12.8, 0.1},
      {"machines/h200.yaml", 2, 4194304, 32.1, 0.1},
      {"machines/h200.yaml", 2, 27.5e6, 118, 0.1},
      {"machines/h200.yaml", 2, 480e6, 1541, 0.1},
      {"machines/h200.yaml", 4, 8192, 9.4, 0.1},
      {"machines/h200.yaml", 4, 27.5e6, 144, 0.1},
      {"machines/h200.yaml", 4, 480e6, 2078, 0.1},
      {"machines/h200-host-bridge.yaml", 2, 8192, 10.0, 0.1},
      {"machines/h200-host-bridge.yaml", 2, 4194304, 168, 0.05},
      {"machines/h200-host-bridge.yaml", 2, 27.5e6, 1010, 0.05},
  };
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_sim_machine_t m;
    assert_int_equal(ls_sim_machine_read(c->ctx, rows[i].file, NULL, 0, &m), LS_OK);
    double us = ls_sim_collective_ns(&m, LS_ALL_REDUCE, rows[i].bytes, rows[i].ranks, NULL) * 1e-3;
    if (us < rows[i].us * (1 - rows[i].tolerance) || us > rows[i].us * (1 + rows[i].tolerance))
      fail_msg("row %d: %.1f us, measured %.1f", i, us, rows[i].us);
    ls_sim_machine_release(&m);
  }
}

TESTS(capture_setup, capture_teardown, within_a_node, between_nodes, a_host_bridge_is_shared,
      small_messages_take_the_quick_protocol, more_bytes_never_take_less_time,
      the_h200_files_give_back_what_was_measured)
