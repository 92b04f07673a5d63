/* See support.h. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void keep_message(void *user, ls_log_level_t level, const char *message) {
  size_t used = strlen(f->log);
  snprintf(f->log + used, sizeof f->log - used, "%c %s\n", "EWID"[level], message);
}

fixture_t *f;

int fixture_setup(void **state) {
  f = calloc(1, sizeof *f);
  if (!f) return -1;
  const char *base = getenv("TMPDIR");
  snprintf(f->dir, sizeof f->dir, "%s/lockstep-ckpt-XXXXXX", base && base[0] ? base : "/tmp");
  f->ctx = ls_ctx_create(keep_message, f);
  if (!f->ctx || !mkdtemp(f->dir)) return -1;
  return 0;
}

int fixture_teardown(void **state) {
  ls_dir_remove(f->ctx, f->dir);
  ls_ctx_destroy(f->ctx);
  free(f);
  return 0;
}

void fixture_forget(void) {
  f->log[0] = '\0';
  ls_ctx_clear(f->ctx);
}

/* ---- the state ---- */

static ls_ckpt_tensor_t *tensor_at(state_t *s, int i) {
  return i < PARAM_COUNT ? &s->param[i] : &s->optim[i - PARAM_COUNT];
}
static const ls_ckpt_tensor_t *tensor_of(const state_t *s, int i) {
  return i < PARAM_COUNT ? &s->param[i] : &s->optim[i - PARAM_COUNT];
}

void state_create(state_t *s, int64_t width) {
  *s = (state_t){.param = {{"layers.0.weight", LS_SHAPE(LS_F32, 4, width), NULL},
                           {"layers.0.bias", LS_SHAPE(LS_F32, 4), NULL},
                           {"flags", LS_SHAPE(LS_U8, 5), NULL}},
                 .optim = {{"counter", {.dtype = LS_I64}, NULL},
                           {"layers.0.weight.m", LS_SHAPE(LS_F64, 4, width), NULL},
                           {"empty", LS_SHAPE(LS_I32, 0, 7), NULL}}};
  size_t size = GUARD_BYTES;
  for (int i = 0; i < PARAM_COUNT + OPTIM_COUNT; i++)
    size += (ls_shape_bytes(&tensor_at(s, i)->shape) + 15) / 16 * 16 + GUARD_BYTES;
  s->block = malloc(size);
  assert_non_null(s->block);
  s->block_bytes = size;
  unsigned char *next = s->block + GUARD_BYTES;
  for (int i = 0; i < PARAM_COUNT + OPTIM_COUNT; i++) {
    tensor_at(s, i)->data = next;
    next += (ls_shape_bytes(&tensor_at(s, i)->shape) + 15) / 16 * 16 + GUARD_BYTES;
  }
  state_poison(s);
}

void state_destroy(state_t *s) {
  free(s->block);
}

void state_poison(state_t *s) {
  memset(s->block, 0xA5, s->block_bytes);
}

static unsigned char byte_of(int tensor, size_t at, int64_t step) {
  uint64_t x = ((uint64_t)step * 8 + (uint64_t)tensor) * 0x9E3779B97F4A7C15u + at * 0xBF58476D1CE4E5B9u;
  return (unsigned char)(x >> 56 & 0xbf); /* as part of any float: finite */
}

void state_fill(state_t *s, int64_t step) {
  for (int i = 0; i < PARAM_COUNT + OPTIM_COUNT; i++) {
    unsigned char *bytes = tensor_at(s, i)->data;
    size_t size = ls_shape_bytes(&tensor_at(s, i)->shape);
    for (size_t at = 0; at < size; at++)
      bytes[at] = byte_of(i, at, step);
  }
}

bool state_is(const state_t *s, int64_t step) {
  const unsigned char *gap = s->block;
  for (int i = 0; i < PARAM_COUNT + OPTIM_COUNT; i++) {
    const unsigned char *bytes = tensor_of(s, i)->data;
    size_t size = ls_shape_bytes(&tensor_of(s, i)->shape);
    for (; gap < bytes; gap++)
      if (*gap != 0xA5) return false;
    for (size_t at = 0; at < size; at++)
      if (bytes[at] != byte_of(i, at, step)) return false;
    gap = bytes + size;
  }
  for (; gap < s->block + s->block_bytes; gap++)
    if (*gap != 0xA5) return false;
  return true;
}

bool state_is_poison(const state_t *s) {
  for (size_t i = 0; i < s->block_bytes; i++)
    if (s->block[i] != 0xA5) return false;
  return true;
}

ls_status_t save_state(ls_ctx_t *ctx, const char *dir, const state_t *s, int64_t step, double metric,
                       int keep) {
  json_t *meta = json_pack("{s:I, s:s}", "position", (json_int_t)step * 3, "model", "test");
  ls_ckpt_save_t save = {step, metric, s->param, PARAM_COUNT, s->optim, OPTIM_COUNT, meta};
  char *path = NULL;
  ls_status_t status = ls_ckpt_save(ctx, dir, &save, keep, &path);
  ls_free(path);
  json_decref(meta);
  return status;
}

void save_good(int64_t step, double metric, int keep) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, step);
  assert_int_equal(save_state(f->ctx, f->dir, &s, step, metric, keep), LS_OK);
  assert_true(state_is(&s, step));
  state_destroy(&s);
}

int64_t newest_good(void) {
  ls_ckpt_t *ckpt = NULL;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  int64_t step = ls_ckpt_step(ckpt);
  state_t s;
  state_create(&s, 3);
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, s.optim, OPTIM_COUNT), LS_OK);
  assert_true(state_is(&s, step));
  assert_int_equal(json_integer_value(json_object_get(ls_ckpt_meta(ckpt), "position")), step * 3);
  state_destroy(&s);
  ls_ckpt_close(ckpt);
  return step;
}

/* ---- files ---- */

const char *listing(const char *dir) {
  static char text[4096];
  char **names;
  int count;
  text[0] = '\0';
  if (ls_dir_list(NULL, dir, &names, &count)) return "(cannot be listed)";
  for (int i = 0; i < count; i++) {
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", names[i]);
  }
  ls_free(names);
  return text;
}

char *joined(const char *dir, const char *name) {
  static char text[4][1024];
  static int turn;
  char *to = text[turn++ % 4];
  snprintf(to, sizeof text[0], "%s/%s", dir, name);
  return to;
}

void put_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

char *get_file(const char *path, size_t *size) {
  char *bytes = NULL;
  assert_int_equal(ls_file_read(NULL, path, 1 << 28, &bytes, size), LS_OK);
  return bytes;
}

void assert_contains_at(const char *text, const char *part, const char *file, int line) {
  if (strstr(text, part)) return;
  print_error("\"%s\" was expected in:\n%s\n", part, text);
  _fail(file, line);
}
