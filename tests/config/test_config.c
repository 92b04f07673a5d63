/* The whole configuration: rules between sections, all errors at once, the saved text loads again unchanged,
 * and the presets have exactly the published numbers of parameters. */
#include "train/trainer.h"

#include "base/hints.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static ls_status_t parse(ls_ctx_t *ctx, const char *text, const char *const *sets, int count,
                         ls_config_t **config) {
  return ls_config_parse(ctx, "test.yaml", text, strlen(text), sets, count, config);
}

typedef struct {
  char text[8192];
} messages_t;

static void collect(void *user, ls_log_level_t level, const char *message) {
  messages_t *messages = user;
  (void)level;
  strncat(messages->text, message, sizeof messages->text - strlen(messages->text) - 2);
  strcat(messages->text, "\n");
}

static const struct {
  const char *text;
  const char *expected[3];
} bad[] = {
    {"modle: {}\n", {"test.yaml:1:1: ", "modle", "model"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {batch: 0, epochs: -1}\n",
     {"test.yaml:3:16: ", "batch", "epochs"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {steps: 1000000000000, batch: 10000000}\n",
     {"more than can be counted", "train", NULL}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {epochs: 1, steps: 2}\n",
     {"test.yaml:3:27: ", "not both", "train.epochs is at test.yaml:3:17"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\nparallel: {strategy: dpp}\n",
     {"test.yaml:3:22: ", "did you mean", "ddp"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\nparallel: {ranks: 2, strategy: single}\n",
     {"test.yaml:3:32: ", "single, which uses one rank, but 2 are asked for", "write ddp"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {batch: 2}\nparallel: {ranks: 3, "
     "strategy: ddp}\n",
     {"global batch (2)", "ranks (3)", NULL}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {precision: fp8}\n",
     {"test.yaml:3:20: ", "precision", NULL}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {precision: tf32}\nparallel: {backend: "
     "cpu}\n",
     {"test.yaml:3:20: train.precision is tf32", "backend cpu", "parallel.backend: cuda"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {optimizer: {nesterov: true}}\n",
     {"test.yaml:3:9: ", "nesterov", "momentum"}},
    {"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\ntrain: {optimizer: {name: adm}}\n",
     {"test.yaml:3:27: ", "adam", NULL}},
};

static void test_errors_name_place_and_remedy(void **state) {
  for (int i = 0; i < LS_COUNT(bad); i++) {
    messages_t messages = {""};
    ls_ctx_t *ctx = ls_ctx_create(collect, &messages);
    ls_config_t *config;
    assert_int_equal(parse(ctx, bad[i].text, NULL, 0, &config), LS_ERR_CONFIG);
    for (int k = 0; k < 3 && bad[i].expected[k]; k++)
      if (!strstr(messages.text, bad[i].expected[k]))
        fail_msg("case %d: \"%s\" is missing in:\n%s", i, bad[i].expected[k], messages.text);
    ls_ctx_destroy(ctx);
  }
}

static void test_saved_text_loads_again(void **state) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_config_t *config, *again;
  const char *sets[] = {"train.batch=77", "train.optimizer.lr=0.25"};
  assert_int_equal(
      parse(
          ctx,
          "model: {input: [2, 3], loss: mse, layers: [{dense: {units: 4, activation: relu, dropout: 0.1}}]}\n"
          "data: {kind: csv, path: x.csv, target: [a, b, c, d]}\n",
          sets, 2, &config),
      LS_OK);
  assert_int_equal(config->train.batch, 77);
  char *text = ls_config_text(ctx, config);
  assert_non_null(text);
  if (parse(ctx, text, NULL, 0, &again) != LS_OK) fail_msg("%s\n%s", ls_ctx_error(ctx), text);
  char *second = ls_config_text(ctx, again);
  assert_string_equal(text, second);
  ls_free(text);
  ls_free(second);
  ls_config_destroy(config);
  ls_config_destroy(again);
  ls_ctx_destroy(ctx);
}

/* One rule for every path: in the file from its folder (or data_root), in an assignment from the current one.
 * The saved text means the same files from anywhere. */
static void test_paths_of_a_file_start_at_its_folder(void **state) {
  static const char text[] = "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n"
                             "data: {kind: npy, features: ../x.npy, targets: /data/y.npy}\n"
                             "train: {checkpoint: {dir: ../run}}\n";
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  char root[] = "/tmp/lockstep-test-XXXXXX", file[64], expected[128];
  assert_non_null(mkdtemp(root));
  snprintf(file, sizeof file, "%s/deep", root);
  assert_int_equal(ls_dir_make(ctx, file), LS_OK);
  snprintf(file, sizeof file, "%s/deep/c.yaml", root);
  assert_int_equal(ls_file_write(ctx, file, text, strlen(text)), LS_OK);
  const char *sets[] = {"train.checkpoint.dir=here", "data.features=here.npy"};
  ls_config_t *config, *again;
  assert_int_equal(ls_config_load(ctx, file, NULL, 0, &config), LS_OK);
  snprintf(expected, sizeof expected, "%s/x.npy", root);
  assert_string_equal(config->data.features, expected);
  assert_string_equal(config->data.targets, "/data/y.npy");
  snprintf(expected, sizeof expected, "%s/run", root);
  assert_string_equal(config->checkpoint.dir, expected);
  ls_config_destroy(config);

  const ls_config_source_t source = {.name = file, .data_root = "other"};
  assert_int_equal(ls_config_read(ctx, &source, NULL, 0, &config), LS_OK);
  assert_string_equal(config->data.features, "x.npy");
  assert_string_equal(config->data.targets, "/data/y.npy");
  assert_string_equal(config->checkpoint.dir, expected);
  ls_config_destroy(config);

  assert_int_equal(ls_config_read(ctx, &source, sets, 2, &config), LS_OK);
  assert_string_equal(config->data.features, "here.npy");
  assert_string_equal(config->checkpoint.dir, "here");
  char *saved = ls_config_text(ctx, config), *here = ls_path_absolute(ctx, "here");
  assert_int_equal(ls_file_write(ctx, file, saved, strlen(saved)), LS_OK);
  assert_int_equal(ls_config_load(ctx, file, NULL, 0, &again), LS_OK);
  assert_string_equal(again->checkpoint.dir, here);
  ls_free(saved);
  ls_free(here);
  ls_config_destroy(again);
  ls_config_destroy(config);
  assert_int_equal(ls_dir_remove(ctx, root), LS_OK);
  ls_ctx_destroy(ctx);
}

static void test_presets_have_the_published_parameters(void **state) {
  static const struct {
    const char *text;
    int64_t params;
  } presets[] = {{"data: {kind: synthetic}\nmodel: {preset: mlp-medium}\n", 258432},
                 {"data: {kind: synthetic}\nmodel: {preset: mlp-large}\n", 6885376},
                 {"data: {kind: synthetic}\nmodel: {preset: mlp-extreme}\n",
                  4096 * 8192 + 8192 + 8192 * 6144 + 6144 + 6144 * 4096 + 4096 + 4096 * 2048 + 2048 +
                      2048 * 1024 + 1024 + 1024 * 512 + 512}};
  for (int i = 0; i < LS_COUNT(presets); i++) {
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    ls_config_t *config;
    ls_graph_t *graph;
    assert_int_equal(parse(ctx, presets[i].text, NULL, 0, &config), LS_OK);
    assert_int_equal(ls_model_build(ctx, &config->model, 4, true, &graph), LS_OK);
    assert_int_equal(ls_graph_param_count(graph), presets[i].params);
    ls_graph_destroy(graph);
    ls_config_destroy(config);
    ls_ctx_destroy(ctx);
  }
}

static void test_every_failing_allocation_is_reported(void **state) {
  for (int64_t n = 1; n < 10000; n++) {
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    ls_config_t *config;
    ls_ctx_fail_alloc(ctx, n);
    ls_status_t status =
        parse(ctx, "model: {input: [4], loss: mse, layers: [{dense: {units: 2}}]}\ndata: {kind: synthetic}\n",
              NULL, 0, &config);
    ls_ctx_destroy(ctx);
    if (status == LS_OK) {
      ls_config_destroy(config);
      assert_true(n > 3);
      return;
    }
    assert_int_equal(status, LS_ERR_MEMORY);
  }
  fail();
}

/* Of a new run, and of one that goes on with another batch size than before. */
static void the_end_of_a_run(void **state) {
  const int64_t most = INT64_MAX;
  const struct {
    ls_train_config_t train;
    int64_t samples;
    ls_train_place_t from, end;
  } rows[] = {
      {{.batch = 10, .steps = 7}, 25, {0, 0}, {7, 70}},
      {{.batch = 10, .steps = 7}, 25, {3, 60}, {7, 100}},
      {{.batch = 10, .steps = 7}, 25, {7, 60}, {7, 60}},
      {{.batch = 10, .steps = 7}, 25, {9, 60}, {7, 60}},
      {{.batch = 10, .epochs = 2}, 25, {0, 0}, {5, 50}},
      {{.batch = 10, .epochs = 3}, 25, {0, 0}, {8, 75}},
      {{.batch = 10, .epochs = 3}, 25, {4, 20}, {10, 75}},
      {{.batch = 10, .epochs = 3}, 25, {4, 80}, {4, 75}},
      {{.batch = 10, .epochs = 1}, most - 10, {0, 0}, {most / 10, most - 10}},
      {{.batch = 10, .epochs = 1}, most - 9, {0, 0}, {-1, -1}},
      {{.batch = 10, .epochs = 3}, most / 2, {0, 0}, {-1, -1}},
      {{.batch = 10, .steps = 7}, 25, {0, most - 70}, {7, most}},
      {{.batch = 10, .steps = 7}, 25, {0, most - 69}, {-1, -1}},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    messages_t messages = {""};
    ls_ctx_t *ctx = ls_ctx_create(collect, &messages);
    ls_train_place_t end = {-1, -1};
    ls_status_t status = ls_train_end(ctx, &rows[i].train, rows[i].samples, rows[i].from, &end);
    if (end.steps != rows[i].end.steps || end.samples != rows[i].end.samples)
      fail_msg("row %d: %lld, %lld", i, (long long)end.steps, (long long)end.samples);
    assert_int_equal(status, end.steps < 0 ? LS_ERR_CONFIG : LS_OK);
    assert_int_equal(strstr(messages.text, " are more samples than can be counted") != NULL, end.steps < 0);
    ls_ctx_destroy(ctx);
  }
}

/* An assignment that writes `name` where a row of the hints expects it. */
static void assignment_of(const char *where, const char *name, char text[256]) {
  const bool any = strcmp(where, "in *") == 0, option = strncmp(where, "in ", 3) == 0;
  const char *layer = strncmp(where, "in model.layers.", 16) == 0 ? where + 16 : NULL;
  if (layer && strcmp(layer, "*") == 0)
    layer = strcmp(name, "kernel") && strcmp(name, "kernelsize") ? "lstm" : "conv2d";
  if (strcmp(where, "model.layers") == 0)
    snprintf(text, 256, "model.layers=[{%s: {}}]", name);
  else if (strcmp(where, "*.activation") == 0)
    snprintf(text, 256, "model.layers=[{dense: {units: 1, activation: %s}}]", name);
  else if (layer)
    snprintf(text, 256, "model.layers=[{%s: {%s: 1}}]", layer, name);
  else if (option)
    snprintf(text, 256, "%.*s.%s=1", any ? 5 : (int)strcspn(where + 3, "*"), any ? "train" : where + 3, name);
  else
    snprintf(text, 256, strcmp(where, "model.preset") ? "%s=%s" : "model={%.0spreset: %s}", where, name);
}

static void say_of(const char *set, messages_t *said) {
  static const char text[] = "data: {kind: synthetic}\n"
                             "model: {input: [2], loss: cross-entropy, layers: [{dense: {units: 3}}]}\n";
  ls_config_t *config;
  said->text[0] = '\0';
  ls_ctx_t *ctx = ls_ctx_create(collect, said);
  if (parse(ctx, text, &set, 1, &config) == LS_OK) ls_config_destroy(config);
  ls_ctx_destroy(ctx);
}

/* Whether the first path in the text, such as train.batch, is that of an option or a section. */
static bool names_an_option(const char *text) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz_.";
  for (size_t len; *text; text += len ? len : 1) {
    char path[128];
    len = strspn(text, letters);
    snprintf(path, sizeof path, "%.*s", (int)len, text);
    const char *dot = strrchr(path, '.');
    if (!dot || !dot[1]) continue;
    if (!strcmp(path, "model.layers") || !strcmp(path, "train.schedule") || !strcmp(path, "train.checkpoint"))
      return true;
    const ls_section_t *section;
    for (int i = 0; (section = ls_config_section(i)); i++)
      for (int k = 0; k < section->count; k++)
        if (strlen(section->name) == (size_t)(dot - path) &&
            !strncmp(section->name, path, (size_t)(dot - path)) && !strcmp(section->rows[k].name, dot + 1))
          return true;
    return false;
  }
  return true;
}

/* hints_by_meaning: mae was told to be mse. Every word of the table is refused where its row says, with the remedy, and what the
 * remedy names exists. */
static void hints_by_meaning(void **state) {
  const char *words, *where, *remedy;
  messages_t said;
  char set[256], word[64], name[64];
  for (int i = 0; ls_hint_row(i, &words, &where, &remedy); i++) {
    for (const char *at = words; *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' ')) {
      snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
      assignment_of(where, word, set);
      say_of(set, &said);
      if (!strstr(said.text, remedy)) fail_msg("%s: '%s' is not in: %s", set, remedy, said.text);
    }
    const char *tick = strchr(remedy, '`');
    if (strcmp(where, "in *") == 0 && !names_an_option(remedy)) fail_msg("no such option: %s", remedy);
    if (!tick) continue;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(tick + 1, "`"), tick + 1);
    assignment_of(where, name, set);
    say_of(set, &said);
    char not_one[96], none_of[96];
    snprintf(not_one, sizeof not_one, "`%s` is not one of", name);
    snprintf(none_of, sizeof none_of, "`%s` is none of", name);
    if (strstr(said.text, "unknown ") || strstr(said.text, not_one) || strstr(said.text, none_of))
      fail_msg("%s: %s", set, said.text);
  }
}

/* train.optimizer=adamw, as other programs have it, is told how it is written here. */
static void a_name_for_a_section(void **state) {
  messages_t said;
  say_of("train.optimizer=adamw", &said);
  assert_non_null(
      strstr(said.text, "train.optimizer: a value is given, a map of options was expected: {name: adamw}"));
  say_of("data=csv", &said);
  assert_non_null(strstr(said.text, "data: a value is given, a map of options was expected\n"));
}

TESTS(NULL, NULL, test_errors_name_place_and_remedy, test_paths_of_a_file_start_at_its_folder,
      test_saved_text_loads_again, test_presets_have_the_published_parameters,
      test_every_failing_allocation_is_reported, hints_by_meaning, a_name_for_a_section, the_end_of_a_run)
