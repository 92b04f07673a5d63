/* A run begins with the weights of a file of another program: names, layouts, dtypes; on any number of ranks. */
#include "sim_world.h"

#include "base/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

enum { IN = 5, WIDE = 7, OUT = 3 };
static char path[64];

static float value(int i) {
  return (float)(i % 37 - 18) / 16; /* exact in 16 bits */
}

/* Two matrices as GPT-2 has them, (in, out), one of them in 16 bits, and what a run has no use for. */
static void plant(void) {
  static float fc[IN * WIDE], bias[WIDE], head[9 * 9];
  static uint16_t proj[WIDE * WIDE];
  static uint8_t mask[4];
  for (int i = 0; i < IN * WIDE; i++)
    fc[i] = value(i);
  for (int i = 0; i < WIDE; i++)
    bias[i] = value(7 * i);
  for (int i = 0; i < WIDE * WIDE; i++)
    proj[i] = ls_f16_of_f32(value(5 * i));
  const ls_ckpt_tensor_t tensors[] = {
      {.name = "transformer.h.0.mlp.c_fc.weight", .shape = LS_SHAPE(LS_F32, IN, WIDE), .data = fc},
      {.name = "transformer.h.0.mlp.c_fc.bias", .shape = LS_SHAPE(LS_F32, WIDE), .data = bias},
      {.name = "transformer.h.0.mlp.c_proj.weight", .shape = LS_SHAPE(LS_F16, WIDE, WIDE), .data = proj},
      {.name = "transformer.h.0.attn.bias", .shape = LS_SHAPE(LS_U8, 4), .data = mask},
      {.name = "transformer.head.weight", .shape = LS_SHAPE(LS_F32, 9, 9), .data = head},
  };
  snprintf(path, sizeof path, "/tmp/ls_weights_%d.safetensors", (int)getpid());
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_ckpt_write_file(ctx, path, tensors, LS_COUNT(tensors)), LS_OK);
  ls_ctx_destroy(ctx);
}

static void config_text(char *text, size_t size, const char *map) {
  snprintf(text, size,
           "model: {input: [%d], loss: mse, weights: %s, map: %s, layers: ["
           "{dense: {name: h.0.mlp.c_fc, units: %d, activation: tanh, freeze: true}},"
           "{dense: {name: h.0.mlp.c_proj, units: %d, bias: false, freeze: true}},"
           "{dense: {name: head, units: %d}}]}\n"
           "data: {kind: synthetic, samples: 60}\n"
           "train: {batch: 12, epochs: 2}\n"
           "parallel: {strategy: ddp, backend: cpu, threads: 1}\n",
           IN, path, map, WIDE, WIDE, OUT);
}

/* Whether the row `out` of the (out, in) matrix is somewhere among the parameters. */
static bool has_row(const sim_result_t *r, int out, int inputs, int step) {
  float row[WIDE];
  for (int i = 0; i < inputs; i++)
    row[i] = value(step * (i * WIDE + out));
  return memmem(r->param, (size_t)r->param_count * sizeof(float), row, (size_t)inputs * sizeof(float)) !=
         NULL;
}

static void a_run_begins_with_foreign_weights_and_frozen_ones_stay(void **state) {
  (void)state;
  char text[1024];
  plant();
  config_text(text, sizeof text, "hf-gpt2");
  for (int ranks = 1; ranks <= 3; ranks++) {
    sim_result_t result;
    sim_train(&(sim_run_t){.text = text, .ranks = ranks}, &result);
    assert_int_equal(result.status, LS_OK);
    for (int o = 0; o < WIDE; o++) {
      assert_true(has_row(&result, o, IN, 1));
      assert_true(has_row(&result, o, WIDE, 5));
    }
    for (int r = 1; r < ranks; r++)
      assert_string_equal(result.hash[r], result.hash[0]);
    ls_free(result.param);
  }
  unlink(path);
}

static void names_of_another_program_are_refused_and_the_right_ones_said(void **state) {
  (void)state;
  char text[1024];
  plant();
  config_text(text, sizeof text, "names");
  for (int ranks = 1; ranks <= 2; ranks++) {
    sim_result_t result;
    sim_train(&(sim_run_t){.text = text, .ranks = ranks}, &result);
    assert_int_equal(result.status, LS_ERR_MISMATCH);
    assert_non_null(
        strstr(result.error,
               "model.map: names fits 0 of the model's 5 tensors, hf-gpt2 fits 3: set model.map: hf-gpt2"));
    ls_free(result.param);
  }
  unlink(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_begins_with_foreign_weights_and_frozen_ones_stay),
      cmocka_unit_test(names_of_another_program_are_refused_and_the_right_ones_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
