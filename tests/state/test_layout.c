/* The flat layout: places and initial values. */

#include "state/layout.h"

#include "unit.h"
#include <string.h>

static ls_graph_t *make_graph(ls_ctx_t *ctx) {
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  ls_graph_param(g, "b.first", LS_SHAPE(LS_F32, 3, 5), (ls_init_t){LS_INIT_NORMAL, 1});
  ls_graph_input(g, "x", LS_SHAPE(LS_F32, 4));
  ls_graph_param(g, "c.second", LS_SHAPE(LS_F32, 16), (ls_init_t){LS_INIT_ONES, 0});
  ls_graph_param(g, "a.third", LS_SHAPE(LS_F32, 17), (ls_init_t){LS_INIT_ONES, 0});
  assert_int_equal(g->status, LS_OK);
  return g;
}

static void test_places(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g = make_graph(ctx);
  ls_layout_t *l;
  assert_int_equal(ls_layout_create(ctx, g, 1, &l), LS_OK);
  assert_int_equal(l->count, 3);
  static const struct {
    const char *name;
    int64_t offset, count;
    uint32_t ordinal;
  } want[] = {{"a.third", 16, 17, 2}, {"c.second", 48, 16, 1}, {"b.first", 64, 15, 0}};
  for (int i = 0; i < 3; i++) {
    const ls_layout_entry_t *e = &l->entry[i];
    assert_string_equal(e->name, want[i].name);
    assert_int_equal(e->offset, want[i].offset);
    assert_int_equal(e->count, want[i].count);
    assert_int_equal(e->ordinal, want[i].ordinal);
    assert_string_equal(g->tensors[e->id].name, want[i].name);
    assert_ptr_equal(ls_layout_find(l, want[i].name), e);
  }
  assert_int_equal(l->total, 80);
  assert_int_equal(l->trained, 80); /* nothing is frozen */
  assert_null(ls_layout_find(l, "a"));
  assert_null(ls_layout_find(l, ""));
  assert_null(ls_layout_find(l, "z"));
  ls_layout_destroy(l);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

/* Several threads give the values of one; a part has those of the whole. */
static void test_initial_values_of_large_parameters(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  ls_graph_param(g, "normal", LS_SHAPE(LS_F32, 701, 703), (ls_init_t){LS_INIT_KAIMING, 0});
  ls_graph_param(g, "uniform", LS_SHAPE(LS_F32, 33, 35), (ls_init_t){LS_INIT_XAVIER, 0});
  ls_layout_t *l;
  assert_int_equal(ls_layout_create(ctx, g, 1, &l), LS_OK);
  float *flat = ls_alloc_array(ctx, (size_t)l->total, sizeof *flat);
  float *one = ls_alloc_array(ctx, (size_t)l->total, sizeof *one);
  assert_true(flat && one);
  ls_layout_init(l, 7, flat);
  for (int i = 0; i < l->count; i++) {
    const ls_layout_entry_t *e = &l->entry[i];
    int64_t middle = e->count / 2 + 1;
    ls_init_fill(&e->init, &e->shape, 7, e->ordinal, 0, middle, one);
    ls_init_fill(&e->init, &e->shape, 7, e->ordinal, middle, e->count, one);
    assert_memory_equal(flat + e->offset, one, (size_t)e->count * sizeof *one);
    assert_true(one[middle] != one[middle - 1] && one[middle] != one[0]);
  }
  ls_free(flat);
  ls_free(one);
  ls_layout_destroy(l);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

/* Gradients, moments and buckets cover the front alone, and what is frozen begins as it would otherwise. */
static void test_frozen_parameters_and_states_stand_behind(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g = make_graph(ctx);
  g->tensors[ls_graph_find(g, "c.second")].trainable = false;
  ls_graph_state(g, "d.mean", LS_SHAPE(LS_F32, 3), (ls_init_t){LS_INIT_NORMAL, 1});
  ls_graph_param(g, "e.last", LS_SHAPE(LS_F32, 2), (ls_init_t){LS_INIT_ONES, 0});
  ls_layout_t *l;
  assert_int_equal(ls_layout_create(ctx, g, 1, &l), LS_OK);
  static const struct {
    const char *name;
    int64_t offset;
    uint32_t ordinal;
  } want[] = {
      {"e.last", 16, 3}, {"a.third", 32, 2}, {"b.first", 64, 0}, {"c.second", 80, 1}, {"d.mean", 96, 4}};
  assert_int_equal(l->count, 5);
  for (int i = 0; i < 5; i++) {
    assert_string_equal(l->entry[i].name, want[i].name);
    assert_int_equal(l->entry[i].offset, want[i].offset);
    assert_int_equal(l->entry[i].ordinal, want[i].ordinal);
  }
  for (int i = 0; i < 5; i++) { /* what lies between two, no element of them */
    int64_t end = l->entry[i].offset + l->entry[i].count, next = i < 4 ? l->entry[i + 1].offset : l->total;
    assert_true(ls_layout_is_padding(l, end, next));
    assert_false(ls_layout_is_padding(l, end - 1, next));
    assert_false(ls_layout_is_padding(l, end, next + 1));
  }
  assert_true(ls_layout_is_padding(l, 2, 16));
  assert_false(ls_layout_is_padding(l, 1, 16)); /* the correct count */
  assert_int_equal(l->trained_count, 3);
  assert_int_equal(l->trained, 80);
  assert_int_equal(l->total, 112);
  ls_layout_destroy(l);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

static void test_initial_values_and_hash(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g = make_graph(ctx);
  ls_layout_t *l;
  assert_int_equal(ls_layout_create(ctx, g, 1, &l), LS_OK);
  float flat[80], again[80], other[80], first[15];
  memset(flat, 0xff, sizeof flat);
  ls_layout_init(l, 42, flat);
  ls_layout_init(l, 42, again);
  ls_layout_init(l, 43, other);
  assert_memory_equal(flat, again, sizeof flat);
  ls_init_fill(&l->entry[2].init, &l->entry[2].shape, 42, 0, 0, 15, first);
  assert_memory_equal(flat + 64, first, sizeof first);
  assert_memory_not_equal(other + 64, first, sizeof first);
  static const float zeros[16];
  assert_memory_equal(flat, zeros, sizeof zeros);                 /* head */
  assert_memory_equal(flat + 16 + 17, zeros, 15 * sizeof(float)); /* padding */
  assert_memory_equal(flat + 64 + 15, zeros, 1 * sizeof(float));
  ls_layout_destroy(l);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

static void test_no_parameters(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g;
  ls_layout_t *l;
  assert_int_equal(ls_graph_create(ctx, &g), LS_OK);
  assert_int_equal(ls_layout_create(ctx, g, 1, &l), LS_OK);
  assert_int_equal(l->count, 0);
  assert_int_equal(l->total, LS_LAYOUT_HEAD);
  assert_null(ls_layout_find(l, "x"));
  ls_layout_destroy(l);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

static void test_every_allocation_fails_once(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_graph_t *g = make_graph(ctx);
  ls_status_t status = LS_ERR_MEMORY;
  int failures = 0;
  for (int n = 1; status; n++) {
    ls_layout_t *l = NULL;
    ls_ctx_fail_alloc(ctx, n);
    status = ls_layout_create(ctx, g, 1, &l);
    ls_ctx_fail_alloc(ctx, 0);
    assert_true(status == LS_OK || status == LS_ERR_MEMORY);
    assert_true((status == LS_OK) == (l != NULL));
    failures += status != LS_OK;
    ls_layout_destroy(l);
  }
  assert_true(failures >= 2);
  ls_graph_destroy(g);
  ls_ctx_destroy(ctx);
}

TESTS(NULL, NULL, test_places, test_frozen_parameters_and_states_stand_behind, test_initial_values_and_hash,
      test_initial_values_of_large_parameters, test_no_parameters, test_every_allocation_fails_once)
