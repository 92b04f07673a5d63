/* Opening and reading: the newest good checkpoint is found, altered ones are refused by name and reason, and
 * numbers go only to a model that fits. */
#include "image.h"
#include "support.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const files[] = {LS_MANIFEST_NAME, LS_MODEL_NAME, LS_OPTIM_NAME};

static char *step_path(int64_t step) {
  char name[LS_STEP_NAME_BYTES];
  ls_ckpt_step_name(step, name);
  return joined(f->dir, name);
}

static ls_status_t open_and_close(const char *path) {
  ls_ckpt_t *ckpt = NULL;
  fixture_forget();
  ls_status_t status = ls_ckpt_open(f->ctx, path, &ckpt);
  if (status) assert_null(ckpt);
  if (status) assert_int_equal(ls_ctx_error_count(f->ctx), 1);
  ls_ckpt_close(ckpt);
  return status;
}

static void reads_back_what_was_saved(void **state) {
  save_good(7, 0.5, 1);
  assert_int_equal(newest_good(), 7);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, step_path(7), &ckpt), LS_OK); /* itself */
  assert_string_equal(ls_ckpt_path(ckpt), step_path(7));
  ls_ckpt_close(ckpt);
}

static void says_when_there_is_nothing(void **state) {
  ls_ckpt_t *ckpt;
  assert_refused(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_ERR_NOT_FOUND, "there is no checkpoint");
  fixture_forget();
  assert_refused(ls_ckpt_open_newest(f->ctx, joined(f->dir, "none"), &ckpt), LS_ERR_NOT_FOUND,
                 "/none: there is no checkpoint: no such file or directory");
  assert_int_equal(open_and_close(joined(f->dir, "none")), LS_ERR_NOT_FOUND);
  assert_refused(open_and_close(f->dir), LS_ERR_CORRUPT, "not a whole checkpoint");
  put_file(joined(f->dir, "file"), "x", 1);
  fixture_forget();
  assert_int_not_equal(ls_ckpt_open_newest(f->ctx, joined(f->dir, "file"), &ckpt), LS_OK);
  assert_int_equal(ls_ctx_error_count(f->ctx), 1);
}

static void ignores_names_that_are_not_steps(void **state) {
  static const char *const names[] = {"step-",
                                      "step-1",
                                      "step-00000000000x",
                                      "step-0000000000001",
                                      "step-9999999999999999999",
                                      "step-000000000009.old",
                                      ".tmp-step-000000000009-1",
                                      "best"};
  save_good(1, NAN, 1);
  for (int i = 0; i < LS_COUNT(names); i++)
    assert_int_equal(mkdir(joined(f->dir, names[i]), 0777), 0);
  fixture_forget();
  assert_int_equal(newest_good(), 1);
  assert_string_equal(f->log, "");
}

/* ---- damage ---- */

static void refuses_a_changed_byte_anywhere_by_the_name_of_the_file(void **state) {
  save_good(3, 0.25, 1);
  for (int i = 0; i < LS_COUNT(files); i++) {
    size_t size;
    char *path = strdup(joined(step_path(3), files[i])), *bytes = get_file(path, &size);
    int fd = open(path, O_WRONLY | O_CLOEXEC); /* in place: writing the file anew each time takes long */
    assert_true(fd >= 0);
    for (size_t at = 0; at < size; at++) {
      char changed = (char)(bytes[at] ^ (1 << at % 8));
      assert_int_equal(pwrite(fd, &changed, 1, (off_t)at), 1);
      assert_refused(open_and_close(step_path(3)), LS_ERR_CORRUPT, files[i]);
      assert_int_equal(pwrite(fd, &bytes[at], 1, (off_t)at), 1);
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(open_and_close(step_path(3)), LS_OK);
    ls_free(bytes);
    free(path);
  }
}

/* Weights of 8-bit integers were used after any bit of their file had been turned over. A file whose hash lost its name
 * opens, and counts as one without a hash. */
static void a_file_of_weights_with_a_changed_bit_is_refused_or_has_no_hash(void **state) {
  state_t s;
  size_t size, unsealed = 0;
  char *path = strdup(joined(f->dir, "int8.safetensors"));
  ls_ckpt_t *ckpt;
  state_create(&s, 3);
  state_fill(&s, 5);
  assert_int_equal(ls_ckpt_write_file(f->ctx, path, s.param, PARAM_COUNT), LS_OK);
  char *bytes = get_file(path, &size);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  for (size_t i = 0; i < 8 * size; i++) {
    const char changed = (char)(bytes[i / 8] ^ (1 << i % 8));
    const off_t at = (off_t)(i / 8);
    if (bytes[at] == ' ' && i % 97) continue; /* the header's padding: some of it */
    assert_int_equal(pwrite(fd, &changed, 1, at), 1);
    fixture_forget();
    if (ls_ckpt_open_weights(f->ctx, path, &ckpt) == LS_OK) {
      assert_false(ls_ckpt_sealed(ckpt));
      ls_ckpt_close(ckpt);
      unsealed++;
    }
    assert_int_equal(pwrite(fd, &bytes[at], 1, at), 1);
  }
  assert_in_range(unsealed, 1, 8 * strlen("lockstep_xxh3_128"));
  assert_int_equal(close(fd), 0);
  assert_int_equal(ls_ckpt_open_weights(f->ctx, path, &ckpt), LS_OK);
  assert_true(ls_ckpt_sealed(ckpt));
  ls_ckpt_close(ckpt);
  ls_free(bytes);
  state_destroy(&s);
  free(path);
}

static void refuses_files_of_another_length_or_kind(void **state) {
  save_good(3, 0.25, 1);
  for (int i = 0; i < LS_COUNT(files); i++) {
    size_t size;
    char *path = strdup(joined(step_path(3), files[i])), *bytes = get_file(path, &size);
    static const double parts[] = {0, 0.1, 0.5, 0.999};
    for (int p = 0; p < LS_COUNT(parts); p++) {
      put_file(path, bytes, (size_t)((double)size * parts[p]));
      assert_refused(open_and_close(step_path(3)), LS_ERR_CORRUPT, files[i]);
    }
    put_file(path, bytes, size + 1); /* the terminating NUL that get_file adds */
    assert_refused(open_and_close(step_path(3)), LS_ERR_CORRUPT, files[i]);
    assert_int_equal(unlink(path), 0);
    assert_refused(open_and_close(step_path(3)), LS_ERR_CORRUPT, files[i]);
    assert_contains(ls_ctx_error(f->ctx), "missing");
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_not_equal(open_and_close(step_path(3)), LS_OK);
    assert_contains(ls_ctx_error(f->ctx), files[i]);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0); /* must not block */
    assert_int_not_equal(open_and_close(step_path(3)), LS_OK);
    assert_contains(ls_ctx_error(f->ctx), files[i]);
    assert_int_equal(unlink(path), 0);
    put_file(path, bytes, size);
    ls_free(bytes);
    free(path);
  }
}

/* A manifest with a right hash over a list that is not what a checkpoint needs. */
static void refuses_a_well_formed_manifest_of_something_else(void **state) {
  save_good(3, 0.25, 1);
  char *path = strdup(joined(step_path(3), LS_MANIFEST_NAME));
  size_t size;
  char *text = get_file(path, &size);
  ls_manifest_t m;
  assert_int_equal(ls_manifest_read(f->ctx, path, text, size, &m), LS_OK);
  ls_free(text);
  m.file_count = 1; /* the optimizer's file is not listed */
  assert_int_equal(ls_manifest_write(f->ctx, &m, m.meta, &text, &size), LS_OK);
  put_file(path, text, size);
  assert_refused(open_and_close(step_path(3)), LS_ERR_CORRUPT, "does not list optim.safetensors");
  ls_free(text);
  ls_manifest_release(&m);
  free(path);
}

static void falls_back_to_the_next_older_and_says_why(void **state) {
  for (int64_t step = 1; step <= 3; step++)
    save_good(step * 10, NAN, 3);
  put_file(joined(step_path(30), LS_MODEL_NAME), "torn", 4);
  assert_int_equal(unlink(joined(step_path(20), LS_MANIFEST_NAME)), 0);
  fixture_forget();
  assert_int_equal(newest_good(), 10);
  assert_int_equal(ls_ctx_error_count(f->ctx), 0);
  assert_contains(f->log, "W ");
  assert_contains(f->log, "step-000000000030: not used");
  assert_contains(f->log, "model.safetensors: has 4 bytes");
  assert_contains(f->log, "step-000000000020: not used");
  assert_contains(f->log, "manifest.json: missing");
  put_file(joined(step_path(10), LS_OPTIM_NAME), "", 0);
  ls_ckpt_t *ckpt;
  fixture_forget();
  assert_refused(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_ERR_CORRUPT,
                 "none of the 3 checkpoints is good");
  assert_int_equal(ls_ctx_error_count(f->ctx), 1);
}

static void refuses_a_checkpoint_under_the_name_of_another_step(void **state) {
  save_good(3, NAN, 1);
  assert_int_equal(rename(step_path(3), step_path(4)), 0);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_ERR_CORRUPT);
  assert_contains(f->log, "the manifest says step 3");
}

static void reads_a_checkpoint_that_was_removed_after_opening(void **state) {
  save_good(3, NAN, 1);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  assert_int_equal(ls_dir_remove(f->ctx, step_path(3)), LS_OK);
  state_t s;
  state_create(&s, 3);
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, s.optim, OPTIM_COUNT), LS_OK);
  assert_true(state_is(&s, 3));
  state_destroy(&s);
  ls_ckpt_close(ckpt);
}

static void notices_a_file_that_changes_after_opening(void **state) {
  save_good(3, NAN, 1);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  size_t size;
  char *path = joined(step_path(3), LS_MODEL_NAME), *bytes = get_file(path, &size);
  bytes[size - 1] ^= 1;
  put_file(path, bytes, size);
  state_t s;
  state_create(&s, 3);
  assert_refused(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, s.optim, OPTIM_COUNT), LS_ERR_CORRUPT,
                 "altered");
  put_file(path, bytes, size - 1);
  fixture_forget();
  assert_refused(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, s.optim, OPTIM_COUNT), LS_ERR_CORRUPT,
                 "became shorter");
  ls_free(bytes);
  state_destroy(&s);
  ls_ckpt_close(ckpt);
}

/* ---- other models ---- */

static void names_the_differences_of_another_model_and_writes_nothing(void **state) {
  save_good(3, NAN, 1);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  state_t s;
  state_create(&s, 3);
  ls_ckpt_tensor_t p[PARAM_COUNT + 1], o[OPTIM_COUNT];
  struct {
    const char *expected;
    int param_count, optim_count;
  } row;
  for (int i = 0; i < 7; i++) {
    memcpy(p, s.param, sizeof s.param);
    memcpy(o, s.optim, sizeof o);
    row.param_count = PARAM_COUNT, row.optim_count = OPTIM_COUNT;
    switch (i) {
    case 0:
      row.expected = "'layers.0.weight' is f32 (4, 3) in the checkpoint and f32 (3, 4) in the model";
      p[0].shape = LS_SHAPE(LS_F32, 3, 4);
      break;
    case 1:
      row.expected = "'layers.0.bias' is f32 (4) in the checkpoint and i32 (4) in the model";
      p[1].shape.dtype = LS_I32;
      break;
    case 2:
      row.expected = "'flags' is in the checkpoint only";
      row.param_count--;
      break;
    case 3:
      row.expected = "'more' is in the model only";
      p[row.param_count++] = (ls_ckpt_tensor_t){"more", LS_SHAPE(LS_F32, 1), s.param[0].data};
      break;
    case 4:
      row.expected = "optim.safetensors: belongs to another model or optimizer: 'counter' is i64 () in the "
                     "checkpoint and i64 (1) in the model";
      o[0].shape = LS_SHAPE(LS_I64, 1);
      break;
    case 5:
      row.expected = "'empty' is in the checkpoint only";
      row.optim_count = 0;
      break;
    default:
      row.expected = "; and 3 more";
      for (int k = 0; k < PARAM_COUNT; k++)
        p[k].name = "other";
    }
    fixture_forget();
    assert_refused(ls_ckpt_read(f->ctx, ckpt, p, row.param_count, o, row.optim_count), LS_ERR_MISMATCH,
                   row.expected);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
    assert_true(state_is_poison(&s));
  }
  for (int i = 0; i < PARAM_COUNT; i++)
    s.param[i].data = NULL; /* only compared */
  for (int i = 0; i < OPTIM_COUNT; i++)
    s.optim[i].data = NULL;
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, s.optim, OPTIM_COUNT), LS_OK);
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, NULL, 0), LS_OK);
  assert_true(state_is_poison(&s));
  state_destroy(&s);
  ls_ckpt_close(ckpt);
}

static void reads_parameters_alone(void **state) {
  save_good(3, NAN, 1);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  state_t s, whole;
  state_create(&s, 3);
  state_create(&whole, 3);
  state_fill(&whole, 3);
  for (int i = 0; i < OPTIM_COUNT; i++) /* what must be left alone */
    memset(whole.optim[i].data, 0xA5, ls_shape_bytes(&whole.optim[i].shape));
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, NULL, 0), LS_OK);
  assert_memory_equal(s.block, whole.block, s.block_bytes);
  state_destroy(&whole);
  state_destroy(&s);
  ls_ckpt_close(ckpt);
}

/* ---- memory, and a saver at work ---- */

static ls_status_t open_and_read(state_t *s) {
  ls_ckpt_t *ckpt = NULL;
  ls_status_t status = ls_ckpt_open_newest(f->ctx, f->dir, &ckpt);
  if (!status) status = ls_ckpt_read(f->ctx, ckpt, s->param, PARAM_COUNT, s->optim, OPTIM_COUNT);
  ls_ckpt_close(ckpt);
  return status;
}

static void reports_every_failed_allocation(void **state) {
  state_t s;
  state_create(&s, 3);
  save_good(3, NAN, 1);
  ls_ctx_fail_alloc(f->ctx, 0);
  assert_int_equal(open_and_read(&s), LS_OK);
  int64_t made = ls_ctx_fail_alloc(f->ctx, 0);
  for (int64_t n = 1; n <= made; n++) {
    fixture_forget();
    ls_ctx_fail_alloc(f->ctx, n);
    assert_int_equal(open_and_read(&s), LS_ERR_MEMORY);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
  }
  made = 1;
  for (int64_t n = 1; n <= made;
       n++) { /* the same without open_newest, which opens in a context of its own */
    ls_ctx_fail_alloc(f->ctx, 0);
    assert_int_equal(open_and_close(step_path(3)), LS_OK);
    made = ls_ctx_fail_alloc(f->ctx, n);
    assert_int_equal(open_and_close(step_path(3)), LS_ERR_MEMORY);
  }
  assert_true(made > 5);
  ls_ctx_fail_alloc(f->ctx, 0);
  state_destroy(&s);
}

/* keep = 1, so that nearly every look at the directory races with a removal. */
static void always_finds_a_good_one_while_another_process_saves(void **state) {
  save_good(1, NAN, 1);
  pid_t saver = fork();
  assert_true(saver >= 0);
  if (saver == 0) {
    state_t s;
    state_create(&s, 3);
    for (int64_t step = 2; step <= 60; step++) {
      state_fill(&s, step);
      if (save_state(NULL, f->dir, &s, step, NAN, 1)) _exit(1);
    }
    _exit(0);
  }
  fixture_forget();
  int64_t seen = 0;
  int status = 0;
  while (waitpid(saver, &status, WNOHANG) == 0) {
    int64_t step = newest_good();
    assert_true(step >= seen);
    seen = step;
  }
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_int_equal(newest_good(), 60);
  assert_string_equal(f->log, "");
}

/* A checkpoint whose hashes are right and whose last weight is not a number. */
static void forge_nan(const char *path) {
  static const unsigned char nan_bytes[] = {0, 0, 0xc0, 0x7f};
  char old_hash[LS_HASH_TEXT_BYTES], new_hash[LS_HASH_TEXT_BYTES], seal[LS_MANIFEST_SEAL_BYTES + 1],
      name[512];
  size_t size, text_size;
  snprintf(name, sizeof name, "%s/%s", path, LS_MODEL_NAME);
  char *bytes = get_file(name, &size);
  ls_hash_text(XXH3_128bits(bytes, size), old_hash);
  memcpy(bytes + size - sizeof nan_bytes, nan_bytes, sizeof nan_bytes);
  ls_hash_text(XXH3_128bits(bytes, size), new_hash);
  put_file(name, bytes, size);
  ls_free(bytes);
  snprintf(name, sizeof name, "%s/%s", path, LS_MANIFEST_NAME);
  char *text = get_file(name, &text_size), *at = strstr(text, old_hash);
  assert_non_null(at);
  memcpy(at, new_hash, LS_HASH_TEXT_BYTES - 1);
  ls_manifest_seal(text, text_size - LS_MANIFEST_SEAL_BYTES, seal);
  memcpy(text + text_size - LS_MANIFEST_SEAL_BYTES, seal, LS_MANIFEST_SEAL_BYTES);
  put_file(name, text, text_size);
  ls_free(text);
}

static void weights_that_are_not_finite_are_neither_saved_nor_opened(void **state) {
  float w[] = {1, 2, 3, 4};
  const ls_ckpt_tensor_t param = {"layers.0.weight", LS_SHAPE(LS_F32, 4), w};
  ls_ckpt_save_t save = {.step = 1, .metric = NAN, .params = &param, .param_count = 1};
  char *older, *newer, *none = NULL;
  assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &save, 3, &older), LS_OK);
  save.step = 2;
  assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &save, 3, &newer), LS_OK);
  forge_nan(newer);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open(f->ctx, newer, &ckpt), LS_ERR_CORRUPT);
  assert_contains(f->log, "'layers.0.weight' has values that are not finite");
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  assert_int_equal(ls_ckpt_step(ckpt), 1);
  ls_ckpt_close(ckpt);
  w[2] = INFINITY;
  save.step = 3;
  assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &save, 3, &none), LS_ERR_NONFINITE);
  assert_contains(f->log, "step 3 is not saved: value 2 of layers.0.weight is not finite");
  assert_null(none);
  ls_free(older);
  ls_free(newer);
}

static void weights_can_come_from_a_file_alone(void **state) {
  float w[] = {1, 2, 3, 4}, got[4] = {0};
  ls_ckpt_tensor_t param = {"layers.0.weight", LS_SHAPE(LS_F32, 4), w};
  char *bytes, *path = joined(f->dir, "w.safetensors");
  size_t size;
  assert_int_equal(image_write(f->ctx, &param, 1, &bytes, &size), LS_OK);
  put_file(path, bytes, size);
  ls_free(bytes);
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open_weights(f->ctx, path, &ckpt), LS_OK);
  param.data = got;
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, &param, 1, NULL, 0), LS_OK);
  assert_memory_equal(got, w, sizeof w);
  param.shape = LS_SHAPE(LS_F32, 2, 2);
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, &param, 1, NULL, 0), LS_ERR_MISMATCH);
  ls_ckpt_close(ckpt);
}

TESTS(fixture_setup, fixture_teardown, reads_back_what_was_saved, says_when_there_is_nothing,
      ignores_names_that_are_not_steps, refuses_a_changed_byte_anywhere_by_the_name_of_the_file,
      a_file_of_weights_with_a_changed_bit_is_refused_or_has_no_hash, refuses_files_of_another_length_or_kind,
      refuses_a_well_formed_manifest_of_something_else, falls_back_to_the_next_older_and_says_why,
      refuses_a_checkpoint_under_the_name_of_another_step, reads_a_checkpoint_that_was_removed_after_opening,
      notices_a_file_that_changes_after_opening, names_the_differences_of_another_model_and_writes_nothing,
      reads_parameters_alone, weights_that_are_not_finite_are_neither_saved_nor_opened,
      weights_can_come_from_a_file_alone, reports_every_failed_allocation,
      always_finds_a_good_one_while_another_process_saves)
