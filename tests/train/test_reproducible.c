/* parallel.reproducible: 1, 2, 4 and 8 ranks with one or two threads each train to the same bits, through
 * kills and other numbers of ranks in between; the same runs without it do not. */
#include "sim_world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/lockstep-reproducible-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
  (void)state;
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : 1;
}

enum { TEXT_BYTES = 1024 };

/* Layers so wide that products, losses and updates are shared between threads; 300 samples are shards of 38
 * rows, the last one of 34. */
static const char wide[] =
    "model: {input: [192], loss: cross-entropy, layers: [{dense: {units: 320, activation: gelu, "
    "dropout: 0.2}}, {layer_norm: {}}, {dense: {units: 256, activation: relu}}, {dense: {units: 10}}]}\n";
static const char narrow[] =
    "model: {input: [20], loss: mse, layers: [{dense: {units: 33, activation: tanh, dropout: 0.3}}, "
    "{dense: {units: 3}}]}\n";

typedef struct {
  const char *model, *optimizer;
  int batch, steps, ranks, threads;
  bool reproducible, resident;
  const char *backend, *more; /* more of the section train */
  int64_t bucket_bytes;
} setting_t;

static void text_of(const setting_t *s, char text[TEXT_BYTES]) {
  snprintf(text, TEXT_BYTES,
           "%sdata: {kind: synthetic, samples: 1000, validation: 0.3, resident: %s}\n"
           "train: {batch: %d, steps: %d, clip_norm: 0.5, evaluate_every: 0, optimizer: {name: %s}%s}\n"
           "parallel: {strategy: ddp, backend: %s, threads: %d, bucket_bytes: %lld, reproducible: %s}\n",
           s->model, s->resident ? "true" : "false", s->batch, s->steps, s->optimizer, s->more ? s->more : "",
           s->backend, s->threads, (long long)s->bucket_bytes, s->reproducible ? "true" : "false");
}

static void train(const setting_t *s, sim_result_t *result) {
  char text[TEXT_BYTES];
  text_of(s, text);
  sim_train(&(sim_run_t){.text = text, .ranks = s->ranks}, result);
  assert_string_equal(result->error, "");
  assert_int_equal(result->status, LS_OK);
  for (int r = 1; r < s->ranks; r++)
    assert_string_equal(result->hash[r], result->hash[0]);
}

static bool same(const sim_result_t *a, const sim_result_t *b) {
  assert_int_equal(a->steps, b->steps);
  return !strcmp(a->hash[0], b->hash[0]) && a->report.val_loss == b->report.val_loss &&
         !memcmp(a->loss, b->loss, (size_t)a->steps * sizeof *a->loss);
}

/* Whether all of the worlds end in the same bits. */
static bool all_same(setting_t s) {
  static const int worlds[][2] = {{1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {8, 1}};
  sim_result_t first, other;
  bool agree = true;
  for (int w = 0; w < LS_COUNT(worlds); w++) {
    s.ranks = worlds[w][0];
    s.threads = worlds[w][1];
    s.bucket_bytes = w % 2 ? 4096 : 1 << 20;
    train(&s, w ? &other : &first);
    if (w) {
      agree = agree && same(&first, &other);
      ls_free(other.param);
    }
  }
  assert_true(first.loss[s.steps - 1] < first.loss[0]);
  assert_true(isfinite(first.report.val_loss));
  ls_free(first.param);
  return agree;
}

static void test_any_world_gives_the_same_bits(void **state) {
  (void)state;
  assert_true(all_same((setting_t){.model = wide,
                                   .optimizer = "adam, lr: 0.002",
                                   .batch = 300,
                                   .steps = 6,
                                   .reproducible = true,
                                   .backend = "cpu"}));
  assert_true(all_same((setting_t){.model = narrow,
                                   .optimizer = "sgd, lr: 0.05, momentum: 0.9",
                                   .batch = 50,
                                   .steps = 60,
                                   .reproducible = true,
                                   .backend = "cpu"}));
}

static void test_any_world_gives_the_same_bits_in_16_bits(void **state) {
  (void)state;
  assert_true(all_same((setting_t){.model = wide,
                                   .optimizer = "adam, lr: 0.002",
                                   .more = ", precision: bf16",
                                   .batch = 300,
                                   .steps = 3,
                                   .reproducible = true,
                                   .backend = "cpu"}));
  assert_true(all_same((setting_t){.model = narrow,
                                   .optimizer = "sgd, lr: 0.05, momentum: 0.9",
                                   .more = ", precision: fp16",
                                   .batch = 50,
                                   .steps = 30,
                                   .reproducible = true,
                                   .backend = "cpu"}));
}

static void test_the_last_batch_may_be_short(void **state) {
  (void)state; /* 700 samples in batches of 96: the last has 28, half of the shards are empty */
  assert_true(all_same((setting_t){.model = narrow,
                                   .optimizer = "adam",
                                   .batch = 96,
                                   .steps = 16,
                                   .reproducible = true,
                                   .backend = "cpu"}));
}

/* That they differ without the option shows that the tests above can fail. */
static void test_otherwise_they_differ(void **state) {
  (void)state;
  assert_false(all_same(
      (setting_t){.model = narrow, .optimizer = "adam", .batch = 96, .steps = 40, .backend = "cpu"}));
}

static void test_plain_c_and_resident_samples(void **state) {
  (void)state;
  assert_true(all_same((setting_t){.model = narrow,
                                   .optimizer = "adamw",
                                   .batch = 40,
                                   .steps = 12,
                                   .reproducible = true,
                                   .backend = "ref"}));
  setting_t resident = {.model = narrow, .optimizer = "adamw", .batch = 50, .steps = 12, .backend = "cpu"};
  resident.reproducible = resident.resident = true;
  assert_true(all_same(resident));
}

/* Stopped early, gone on with on one, two and eight. */
static void test_resume_on_any_world(void **state) {
  (void)state;
  char more[256], text[TEXT_BYTES];
  setting_t s = {.model = narrow,
                 .optimizer = "adam, lr: 0.01",
                 .batch = 50,
                 .steps = 40,
                 .ranks = 4,
                 .threads = 1,
                 .reproducible = true,
                 .backend = "cpu",
                 .bucket_bytes = 4096};
  static const int rest[] = {1, 2, 8};
  sim_result_t whole, part, end;
  train(&s, &whole);
  for (int i = 0; i < LS_COUNT(rest); i++) {
    snprintf(more, sizeof more, ", checkpoint: {dir: %s/%d, every_steps: 10}", folder, rest[i]);
    s.more = more;
    text_of(&s, text);
    sim_train(&(sim_run_t){.text = text, .ranks = 1, .stop_after = 13}, &part);
    assert_int_equal(part.status, LS_ERR_INTERRUPTED);
    sim_train(&(sim_run_t){.text = text, .ranks = rest[i], .resume = true}, &end);
    assert_string_equal(end.error, "");
    assert_int_equal(end.report.resumed_from, 13);
    assert_string_equal(end.hash[0], whole.hash[0]);
    assert_true(end.report.val_loss == whole.report.val_loss);
    ls_free(part.param);
    ls_free(end.param);
  }
  ls_free(whole.param);
}

/* The configuration knows one rank, the launcher started three. */
static void test_three_ranks_are_refused(void **state) {
  (void)state;
  setting_t s = {.model = narrow,
                 .optimizer = "adam",
                 .batch = 50,
                 .steps = 2,
                 .threads = 1,
                 .reproducible = true,
                 .backend = "cpu",
                 .bucket_bytes = 4096};
  char text[TEXT_BYTES];
  sim_result_t result;
  text_of(&s, text);
  sim_train(&(sim_run_t){.text = text, .ranks = 3}, &result);
  assert_int_equal(result.status, LS_ERR_CONFIG);
  assert_non_null(strstr(result.error, "8 shards cannot be spread evenly over 3 ranks"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_world_gives_the_same_bits),
                                     cmocka_unit_test(test_any_world_gives_the_same_bits_in_16_bits),
                                     cmocka_unit_test(test_the_last_batch_may_be_short),
                                     cmocka_unit_test(test_otherwise_they_differ),
                                     cmocka_unit_test(test_plain_c_and_resident_samples),
                                     cmocka_unit_test(test_resume_on_any_world),
                                     cmocka_unit_test(test_three_ranks_are_refused)};
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
