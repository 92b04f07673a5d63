/* Every system call of a save is made to fail once, and the process is made to die before every one of them.
 * What was reported as saved is never lost, what failed leaves nothing behind, and the order of the calls is
 * the one that survives a power cut. */
#include "power.h"
#include "support.h"
#include "syscalls.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define S(n) "step-00000000000" #n

/* The situations a save can meet; each is tried with every fault. */
typedef struct {
  const char *name;
  bool same_step;       /* step 2 exists already */
  bool refuse_exchange; /* and the file system cannot exchange names */
} scene_t;

static const scene_t scenes[] = {
    {"new step", false, false}, {"same step", true, false}, {"same step, slowly", true, true}};

/* Step 1, and step 2 when the scene has it. */
static void prepare(const scene_t *scene) {
  sys_reset();
  assert_int_equal(ls_dir_remove(f->ctx, f->dir), LS_OK);
  save_good(1, NAN, 2);
  if (scene->same_step) save_good(2, NAN, 2);
  fixture_forget();
  sys_reset();
  sys_refuse_exchange(scene->refuse_exchange);
}

/* Nothing but whole checkpoints, and no leftovers once a later save has swept. */
static void assert_a_later_save_clears_up(void) {
  sys_reset();
  save_good(3, NAN, 1);
  assert_string_equal(listing(f->dir), S(3));
  assert_int_equal(newest_good(), 3);
}

static void one_fault(const scene_t *scene, int n, int error, bool *hit) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 2);
  prepare(scene);
  sys_fail_at(n, error);
  ls_status_t status = save_state(f->ctx, f->dir, &s, 2, NAN, 1);
  *hit = sys_count() >= n;
  const sys_call_t *call = sys_call(n - 1);
  if (*hit && call->kind == SYS_FSYNC) { /* never again on the same file, and never a success */
    assert_int_not_equal(status, LS_OK);
    for (int i = n; sys_call(i); i++)
      assert_false(sys_call(i)->kind == SYS_FSYNC && strcmp(sys_call(i)->path, call->path) == 0);
  }
  sys_fail_at(0, 0);
  if (status) {
    assert_int_equal(status, error == ENOSPC ? LS_ERR_NO_SPACE : LS_ERR_IO);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
    assert_string_equal(listing(f->dir), scene->same_step ? S(1) " " S(2) : S(1));
    assert_int_equal(newest_good(), scene->same_step ? 2 : 1);
  } else {
    assert_int_equal(ls_ctx_error_count(f->ctx), 0);
    assert_int_equal(newest_good(), 2);
  }
  assert_a_later_save_clears_up();
  state_destroy(&s);
}

static void survives_the_failure_of_every_call(void **state) {
  static const int errors[] = {EIO, ENOSPC};
  for (int i = 0; i < LS_COUNT(scenes); i++)
    for (int e = 0; e < LS_COUNT(errors); e++) {
      bool hit = true;
      int n = 1;
      for (; hit && n < 1000; n++)
        one_fault(&scenes[i], n, errors[e], &hit);
      assert_true(n > 20);
      assert_false(hit);
    }
}

/* ---- a directory that changes under the save ---- */

static void replace_run(void *arg) {
  assert_int_equal(rename(joined(f->dir, "run"), joined(f->dir, "moved")), 0);
  assert_int_equal(rename(joined(f->dir, "other"), joined(f->dir, "run")), 0);
}

/* Before call n of saving step 2, the run's directory is moved and another run's takes its name. */
static bool one_replacement(int n) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 2);
  sys_reset();
  assert_int_equal(ls_dir_remove(f->ctx, f->dir), LS_OK);
  assert_int_equal(save_state(f->ctx, joined(f->dir, "run"), &s, 1, NAN, 1), LS_OK);
  for (int64_t step = 3; step <= 4; step++)
    assert_int_equal(save_state(f->ctx, joined(f->dir, "other"), &s, step, NAN, 2), LS_OK);
  ls_ckpt_lock_t *lock;
  char run[512], *path = NULL;
  snprintf(run, sizeof run, "%s", joined(f->dir, "run"));
  assert_int_equal(ls_ckpt_lock(f->ctx, run, &lock), LS_OK);
  fixture_forget();
  ls_ckpt_save_t save = {.step = 2,
                         .metric = NAN,
                         .params = s.param,
                         .param_count = PARAM_COUNT,
                         .optim = s.optim,
                         .optim_count = OPTIM_COUNT,
                         .lock = lock};
  sys_reset();
  sys_act_at(n, replace_run, f);
  ls_status_t status = ls_ckpt_save(f->ctx, run, &save, 1, &path);
  bool hit = sys_count() >= n;
  sys_reset();
  ls_free(path);
  if (hit) {
    assert_int_equal(ls_ctx_error_count(f->ctx), status ? 1 : 0);
    if (status) assert_contains(f->log, "the directory was moved");
    if (strcmp(listing(run), S(3) " " S(4)) != 0) fail_msg("call %d: the other run has %s", n, listing(run));
    ls_ckpt_t *ckpt;
    assert_int_equal(ls_ckpt_open_newest(f->ctx, joined(f->dir, "moved"), &ckpt), LS_OK);
    assert_true(ls_ckpt_step(ckpt) <= 2);
    ls_ckpt_close(ckpt);
  }
  ls_ckpt_unlock(lock);
  state_destroy(&s);
  return hit;
}

static void a_directory_replaced_during_the_save_loses_nothing(void **state) {
  int n = 1;
  while (n < 1000 && one_replacement(n))
    n++;
  assert_true(n > 20 && n < 1000);
}

/* A process saves step 2 and dies before call n; returns whether it got that far. */
static bool dies(int n, bool *reported) {
  int channel[2];
  assert_int_equal(pipe(channel), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    state_t s;
    state_create(&s, 3);
    state_fill(&s, 2);
    sys_kill_at(n);
    ls_status_t status = save_state(NULL, f->dir, &s, 2, NAN, 1);
    sys_kill_at(0);
    ssize_t told = status ? 0 : write(channel[1], "2", 1);
    _exit(told == 1 ? 0 : 1);
  }
  close(channel[1]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  char report;
  *reported = read(channel[0], &report, 1) == 1;
  close(channel[0]);
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  assert_true(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  assert_true(killed != *reported);
  return killed;
}

static bool one_death(const scene_t *scene, int n) {
  prepare(scene);
  bool reported, killed = dies(n, &reported);
  fixture_forget();
  int64_t step = newest_good();
  assert_true(step == 2 || (!reported && step == 1));
  /* If names can be exchanged, the older version of the same step is there until the newer one is. */
  if (scene->same_step && !scene->refuse_exchange) assert_int_equal(step, 2);
  assert_string_equal(f->log, ""); /* nothing half done was even looked at */
  assert_a_later_save_clears_up();
  return killed;
}

static void survives_death_before_every_call(void **state) {
  for (int i = 0; i < LS_COUNT(scenes); i++) {
    int n = 1;
    while (n < 1000 && one_death(&scenes[i], n))
      n++;
    assert_true(n > 20 && n < 1000);
  }
}

/* ---- a power cut ---- */

/* The power goes before call n of saving step 2. Whatever the system had written by itself, a whole checkpoint is left,
 * and the new one if it was reported as saved. */
static bool one_cut(const scene_t *scene, int n) {
  prepare(scene);
  power_on(f->dir);
  bool reported, killed = dies(n, &reported);
  char dir[sizeof f->dir];
  snprintf(dir, sizeof dir, "%s", f->dir);
  for (unsigned i = 0; i < 4; i++) {
    const power_luck_t luck = {.names = i & 1, .names_within = i & 2, .half = (i + (unsigned)n) & 1};
    snprintf(f->dir, sizeof f->dir, "%.200s.cut", dir);
    assert_int_equal(ls_dir_remove(f->ctx, f->dir), LS_OK);
    power_cut(&luck, f->dir);
    fixture_forget();
    int64_t step = newest_good();
    if (step != 2 && (reported || step != 1))
      fail_msg("%s, call %d, luck %u: step %lld is left of %s", scene->name, n, i, (long long)step,
               listing(f->dir));
    assert_int_equal(ls_dir_remove(f->ctx, f->dir), LS_OK);
  }
  snprintf(f->dir, sizeof f->dir, "%s", dir);
  power_off();
  return killed;
}

static void survives_a_power_cut_before_every_call(void **state) {
  for (int i = 0; i < LS_COUNT(scenes); i++) {
    int n = 1;
    while (n < 1000 && one_cut(&scenes[i], n))
      n++;
    assert_true(n > 20 && n < 1000);
  }
}

/* ---- the order that a power cut needs ---- */

static int find(sys_kind_t kind, const char *part, int from) {
  for (int i = from; sys_call(i); i++)
    if (sys_call(i)->kind == kind && strstr(sys_call(i)->path, part)) return i;
  return -1;
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static void syncs_everything_before_and_after_the_rename(void **state) {
  prepare(&scenes[0]);
  save_good(2, NAN, 1);
  int placed = find(SYS_RENAME, ".tmp-" S(2), 0);
  assert_true(placed > 0);
  assert_true(ends_with(sys_call(placed)->to, "/" S(2)));
  static const char *const files[] = {LS_MODEL_NAME, LS_OPTIM_NAME, LS_MANIFEST_NAME};
  int last = -1;
  for (int i = 0; i < LS_COUNT(files); i++) {
    int written = find(SYS_WRITE, files[i], 0), synced = find(SYS_FSYNC, files[i], 0);
    assert_true(written > last && synced > written); /* one after the other, the manifest last */
    assert_int_equal(find(SYS_WRITE, files[i], synced), -1);
    last = synced;
  }
  int directory = -1;
  for (int i = last; i < placed; i++)
    if (sys_call(i)->kind == SYS_FSYNC && strstr(sys_call(i)->path, ".tmp-") &&
        !strstr(sys_call(i)->path, ".safetensors") && !strstr(sys_call(i)->path, LS_MANIFEST_NAME))
      directory = i;
  assert_true(directory > last);
  int parent = placed;
  while (sys_call(parent) &&
         !(sys_call(parent)->kind == SYS_FSYNC && strcmp(sys_call(parent)->path, f->dir) == 0))
    parent++;
  assert_non_null(sys_call(parent));
  assert_true(find(SYS_RENAME, S(1), 0) >
              parent); /* the older one goes only now, renamed before it is emptied */
  assert_true(find(SYS_UNLINK, "", 0) > find(SYS_RENAME, S(1), 0));
}

static void makes_new_parents_durable(void **state) {
  sys_reset();
  ls_ckpt_save_t save = {.step = 1, .metric = NAN};
  char *path, *dir = joined(f->dir, "a/b");
  assert_int_equal(ls_ckpt_save(f->ctx, dir, &save, 1, &path), LS_OK);
  ls_free(path);
  int first_file = find(SYS_OPEN, LS_MODEL_NAME, 0);
  int a = -1, base = -1;
  for (int i = 0; i < first_file; i++) {
    if (sys_call(i)->kind != SYS_FSYNC) continue;
    if (ends_with(sys_call(i)->path, "/a")) a = i;
    if (strcmp(sys_call(i)->path, f->dir) == 0) base = i;
  }
  assert_true(a >= 0 && base >= 0);
}

static void writes_the_same_files_piece_by_piece(void **state) {
  static const char *const files[] = {LS_MODEL_NAME, LS_OPTIM_NAME, LS_MANIFEST_NAME};
  char *whole[3];
  size_t size[3], again;
  sys_reset();
  save_good(1, 0.5, 1);
  for (int i = 0; i < 3; i++)
    whole[i] = get_file(joined(joined(f->dir, S(1)), files[i]), &size[i]);
  sys_dribble(true);
  save_good(1, 0.5, 1);
  sys_dribble(false);
  for (int i = 0; i < 3; i++) {
    char *bytes = get_file(joined(joined(f->dir, S(1)), files[i]), &again);
    assert_int_equal(again, size[i]);
    assert_memory_equal(bytes, whole[i], again);
    ls_free(bytes);
    ls_free(whole[i]);
  }
}

TESTS(fixture_setup, fixture_teardown, survives_the_failure_of_every_call, survives_death_before_every_call,
      survives_a_power_cut_before_every_call, syncs_everything_before_and_after_the_rename,
      makes_new_parents_durable, writes_the_same_files_piece_by_piece,
      a_directory_replaced_during_the_save_loses_nothing)
