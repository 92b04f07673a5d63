/* Names and layouts of other programs: patterns, parts, prefixes' business apart, both directions. */
#include "unit.h"

#include "model/names.h"

#include <string.h>

static const ls_names_t *map(const char *name) {
  for (int i = 0; ls_names_choices[i]; i++)
    if (!strcmp(ls_names_choices[i], name)) return ls_names_list[i];
  fail();
  return NULL;
}

/* The first row's name (or part) of ours; "" = none. */
static const char *theirs(const char *of, const char *ours, int part) {
  static ls_foreign_names_t found;
  int row = 0;
  if (!ls_names_find(map(of), ours, &row, &found) || part >= found.count) return "";
  return found.name[part];
}

static void test_rows(void **state) {
  static const struct {
    const char *map, *ours, *theirs;
    int part;
  } rows[] = {
      {"names", "layers.0.weight", "layers.0.weight", 0},
      {"names", "layers.0.weight", "", 1},
      {"torchvision", "layer1.0.bn1.running_mean", "layer1.0.bn1.running_mean", 0},
      {"hf-gpt2", "wte.weight", "wte.weight", 0},
      {"hf-gpt2", "h.11.attn.qkv.weight", "h.11.attn.c_attn.weight", 0},
      {"hf-gpt2", "h.11.attn.proj.bias", "h.11.attn.c_proj.bias", 0},
      {"hf-gpt2", "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.weight", 0},
      {"hf-bert", "encoder.layer.3.attention.qkv.weight", "encoder.layer.3.attention.self.query.weight", 0},
      {"hf-bert", "encoder.layer.3.attention.qkv.bias", "encoder.layer.3.attention.self.value.bias", 2},
      {"hf-bert", "encoder.layer.3.attention.proj.bias", "encoder.layer.3.attention.output.dense.bias", 0},
  };
  for (int i = 0; i < LS_COUNT(rows); i++)
    assert_string_equal(theirs(rows[i].map, rows[i].ours, rows[i].part), rows[i].theirs);
}

/* They were said to have another shape, and began anew. */
static void test_squeeze_and_excitation_of_torchvision(void **state) {
  const ls_shape_t matrix = LS_SHAPE(LS_F32, 8, 32), theirs_shape = LS_SHAPE(LS_F32, 8, 32, 1, 1);
  float ours[8 * 32], theirs_[8 * 32], back[8 * 32];
  ls_foreign_names_t found;
  int row = 0;
  for (int i = 0; i < LS_COUNT(ours); i++)
    ours[i] = (float)i;
  assert_true(ls_names_find(map("torchvision"), "features.1.0.block.1.fc1.weight", &row, &found));
  ls_shape_t shape = ls_weight_shape(found.layout, &matrix);
  assert_true(ls_shape_equal(&shape, &theirs_shape));
  ls_weight_copy(found.layout, &matrix, false, ours, theirs_);
  assert_memory_equal(theirs_, ours, sizeof ours);
  ls_weight_copy(found.layout, &matrix, true, theirs_, back);
  assert_memory_equal(back, ours, sizeof ours);
}

static void test_alternatives_are_tried_in_turn(void **state) {
  ls_foreign_names_t found;
  int row = 0;
  assert_true(ls_names_find(map("hf-bert"), "embeddings.LayerNorm.weight", &row, &found));
  assert_string_equal(found.name[0], "embeddings.LayerNorm.weight");
  assert_true(ls_names_find(map("hf-bert"), "embeddings.LayerNorm.weight", &row, &found));
  assert_string_equal(found.name[0], "embeddings.LayerNorm.gamma");
  assert_false(ls_names_find(map("hf-bert"), "embeddings.LayerNorm.weight", &row, &found));
}

static void test_a_head_has_no_prefix(void **state) {
  ls_foreign_names_t found;
  int row = 0;
  assert_true(ls_names_find(map("hf-bert"), "classifier.weight", &row, &found) && found.bare);
  row = 0;
  assert_true(ls_names_find(map("hf-bert"), "embeddings.word_embeddings.weight", &row, &found) &&
              !found.bare);
  row = 0;
  assert_true(ls_names_find(map("hf-bert"), "cls.predictions.decoder.bias", &row, &found) && found.bare);
  assert_string_equal(found.name[0], "cls.predictions.bias");
}

static void test_a_star_spans_no_dot(void **state) {
  assert_string_equal(theirs("hf-gpt2", "h.1.2.attn.qkv.weight", 0), "h.1.2.attn.qkv.weight");
  char name[2 * LS_NAME_BYTES];
  memset(name, 'x', sizeof name - 1);
  name[sizeof name - 1] = '\0';
  assert_string_equal(theirs("names", name, 0), "");
}

static void test_ignored(void **state) {
  assert_true(ls_names_ignored(map("torchvision"), "layer1.0.bn1.num_batches_tracked"));
  assert_true(ls_names_ignored(map("hf-gpt2"), "h.0.attn.bias"));
  assert_false(ls_names_ignored(map("hf-gpt2"), "h.0.attn.c_attn.bias"));
  assert_false(ls_names_ignored(map("names"), "num_batches_tracked"));
}

static void test_layouts_there_and_back(void **state) {
  enum { COUNT = 2 * 3 * 5 * 4 };
  const ls_shape_t conv = LS_SHAPE(LS_F32, 2, 3, 5, 4), matrix = LS_SHAPE(LS_F32, 30, 4),
                   flat = LS_SHAPE(LS_F32, COUNT);
  float ours[COUNT], theirs_[COUNT], back[COUNT];
  for (int i = 0; i < COUNT; i++)
    ours[i] = (float)i;
  ls_shape_t shape = ls_weight_shape(LS_WEIGHT_CHANNELS_FIRST, &conv);
  assert_true(ls_shape_equal(&shape, &LS_SHAPE(LS_F32, 2, 4, 3, 5)));
  ls_weight_copy(LS_WEIGHT_CHANNELS_FIRST, &conv, false, ours, theirs_);
  /* theirs (1, 2, 1, 3) is ours (1, 1, 3, 2) */
  assert_true(theirs_[((1 * 4 + 2) * 3 + 1) * 5 + 3] == ours[((1 * 3 + 1) * 5 + 3) * 4 + 2]);
  ls_weight_copy(LS_WEIGHT_CHANNELS_FIRST, &conv, true, theirs_, back);
  assert_memory_equal(back, ours, sizeof ours);
  shape = ls_weight_shape(LS_WEIGHT_SWAPPED, &matrix);
  assert_true(ls_shape_equal(&shape, &LS_SHAPE(LS_F32, 4, 30)));
  ls_weight_copy(LS_WEIGHT_SWAPPED, &matrix, false, ours, theirs_);
  assert_true(theirs_[3 * 30 + 7] == ours[7 * 4 + 3]);
  ls_weight_copy(LS_WEIGHT_SWAPPED, &matrix, true, theirs_, back);
  assert_memory_equal(back, ours, sizeof ours);
  shape = ls_weight_shape(LS_WEIGHT_CHANNELS_FIRST, &flat);
  assert_true(ls_shape_equal(&shape, &flat));
  ls_weight_copy(LS_WEIGHT_CHANNELS_FIRST, &flat, false, ours, theirs_);
  assert_memory_equal(theirs_, ours, sizeof ours);
}

TESTS(NULL, NULL, test_rows, test_squeeze_and_excitation_of_torchvision, test_alternatives_are_tried_in_turn,
      test_ignored, test_a_star_spans_no_dot, test_layouts_there_and_back, test_a_head_has_no_prefix)
