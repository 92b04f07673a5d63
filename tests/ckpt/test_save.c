/* Saving: what is kept, what is removed, what happens when the directory or the disk will not have it. */
#include "support.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#define S(n) "step-00000000000" #n

static void writes_three_files(void **state) {
  save_good(5, 0.5, 1);
  assert_string_equal(listing(f->dir), "best " S(5));
  assert_string_equal(listing(joined(f->dir, S(5))), "manifest.json model.safetensors optim.safetensors");
  assert_string_equal(f->log, "");
  size_t size;
  char *text = get_file(joined(f->dir, S(5) "/manifest.json"), &size);
  assert_contains(text, "\"format\": \"lockstep-checkpoint\"");
  assert_contains(text, "\"version\": 1");
  assert_contains(text, "\"step\": 5");
  assert_contains(text, "\"metric\": 0.5");
  assert_contains(text, "\"position\": 15");
  ls_free(text);
}

static void returns_the_path_and_creates_parents(void **state) {
  ls_ckpt_save_t save = {.step = 1, .metric = NAN};
  char *path = NULL, *dir = joined(f->dir, "a/b//c/");
  assert_int_equal(ls_ckpt_save(f->ctx, dir, &save, 1, &path), LS_OK);
  assert_string_equal(path, joined(f->dir, "a/b//c/" S(1)));
  ls_ckpt_t *ckpt;
  assert_int_equal(ls_ckpt_open(f->ctx, path, &ckpt), LS_OK); /* without tensors, too */
  assert_int_equal(json_object_size(ls_ckpt_meta(ckpt)), 0);
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, NULL, 0, NULL, 0), LS_OK);
  ls_ckpt_close(ckpt);
  ls_free(path);
}

static void refuses_arguments_out_of_range(void **state) {
  static const struct {
    int64_t step;
    int keep;
  } cases[] = {{-1, 1}, {1, 0}, {1, -3}, {INT64_MAX, 1}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_ckpt_save_t save = {.step = cases[i].step, .metric = NAN};
    char *path = NULL;
    assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &save, cases[i].keep, &path), LS_ERR_ARGUMENT);
    assert_null(path);
  }
  assert_string_equal(listing(f->dir), "");
}

/* ---- retention ---- */

static void keeps_the_newest_and_the_best(void **state) {
  static const struct {
    int64_t step;
    double metric;
    int keep;
    const char *left;
  } saves[] = {
      {1, NAN, 2, S(1)},
      {2, 0.5, 2, "best " S(1) " " S(2)},
      {3, 0.9, 2, "best " S(2) " " S(3)},
      {4, NAN, 2, "best " S(2) " " S(3) " " S(4)},
      {5, -INFINITY, 2, "best " S(2) " " S(4) " " S(5)}, /* not finite: unknown */
      {6, 0.5, 2, "best " S(2) " " S(5) " " S(6)},       /* a tie goes to the older */
      {7, 0.7, 1, "best " S(2) " " S(7)},
      {8, 0.1, 1, "best " S(8)},
  };
  for (int i = 0; i < LS_COUNT(saves); i++) {
    save_good(saves[i].step, saves[i].metric, saves[i].keep);
    assert_string_equal(listing(f->dir), saves[i].left);
    assert_int_equal(newest_good(), saves[i].step);
  }
  assert_string_equal(f->log, "");
}

static bool never_comparable(const json_t *a, const json_t *b) {
  return a == b;
}

static void no_best_leaves_no_link(void **state) {
  save_good(1, 0.5, 1);
  ls_ckpt_save_t other = {.step = 2, .metric = NAN, .comparable = never_comparable};
  char *path = NULL;
  assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &other, 1, &path), LS_OK);
  ls_free(path);
  assert_string_equal(listing(f->dir), S(2));
  put_file(joined(f->dir, "best"), "mine", 4); /* no link: somebody's file */
  assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &other, 1, &path), LS_OK);
  ls_free(path);
  assert_string_equal(listing(f->dir), "best " S(2));
  assert_string_equal(f->log, "");
}

static void directory_in_the_place_of_the_best_is_one_warning(void **state) {
  ls_ckpt_lock_t *lock;
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  assert_int_equal(mkdir(joined(f->dir, "best"), 0777), 0);
  for (int64_t step = 1; step <= 3; step++) {
    ls_ckpt_save_t save = {.step = step, .metric = 0.5, .lock = lock};
    char *path = NULL;
    assert_int_equal(ls_ckpt_save(f->ctx, f->dir, &save, 1, &path), LS_OK);
    ls_free(path);
  }
  ls_ckpt_unlock(lock);
  assert_string_equal(listing(f->dir), "best " S(1) " " S(3));
  const char *warning = strstr(f->log, "best: cannot be linked to " S(1));
  assert_non_null(warning);
  assert_null(strstr(warning + 1, "best: cannot be linked"));
}

static void never_removes_what_it_just_saved(void **state) {
  save_good(8, 0.1, 1);
  save_good(9, 0.2, 2);
  save_good(4, NAN, 1); /* resumed from further back, neither newest nor best */
  assert_string_equal(listing(f->dir), "best " S(4) " " S(8) " " S(9));
}

static void does_not_count_broken_ones(void **state) {
  for (int64_t step = 1; step <= 3; step++)
    save_good(step, NAN, 3);
  put_file(joined(f->dir, S(3) "/manifest.json"), "{", 1);
  put_file(joined(f->dir, S(1) "/manifest.json"), "{", 1);
  save_good(4, NAN, 2);
  assert_string_equal(listing(f->dir), S(2) " " S(3) " " S(4));
}

static void replaces_a_checkpoint_of_the_same_step(void **state) {
  save_good(5, 0.5, 2);
  put_file(joined(f->dir, S(5) "/model.safetensors"), "torn", 4);
  save_good(5, 0.25, 2);
  assert_string_equal(listing(f->dir), "best " S(5));
  assert_int_equal(newest_good(), 5);
  assert_int_equal(mkdir(joined(f->dir, S(6)), 0777), 0); /* an empty directory in the way */
  save_good(6, 0.25, 2);
  assert_int_equal(newest_good(), 6);
  assert_string_equal(f->log, "");
}

/* ---- leftovers ---- */

/* A process id that existed and does not any more. */
static long dead_process(void) {
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  return (long)pid;
}

static void removes_leftovers_of_dead_processes_only(void **state) {
  char name[8][80];
  snprintf(name[0], sizeof name[0], ".tmp-step-000000000001-%ld", dead_process());
  snprintf(name[1], sizeof name[1], ".tmp-old-step-000000000001-%ld", dead_process());
  snprintf(name[2], sizeof name[2], ".tmp-step-000000000002-%ld", (long)getpid()); /* an earlier life's */
  snprintf(name[3], sizeof name[3], ".tmp-step-000000000003-%ld", (long)getppid());
  snprintf(name[4], sizeof name[4], ".tmp-step-000000000004-%ld",
           dead_process()); /* locked: another node's */
  snprintf(name[5], sizeof name[5], ".tmp-");
  snprintf(name[6], sizeof name[6], ".tmp-notes-0");
  snprintf(name[7], sizeof name[7], ".tmp-notes-99999999999999999999");
  for (int i = 0; i < 8; i++) {
    assert_int_equal(mkdir(joined(f->dir, name[i]), 0777), 0);
    put_file(joined(joined(f->dir, name[i]), "x"), "x", 1);
  }
  int fd = open(joined(f->dir, name[4]), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_int_equal(flock(fd, LOCK_EX), 0);
  save_good(9, NAN, 1);
  close(fd);
  for (int i = 0; i < 8; i++)
    assert_int_equal(ls_path_exists(joined(f->dir, name[i])), i >= 3);
  assert_int_equal(newest_good(), 9);
}

/* Without a parent that waits for it (process 1 of a container), a killed rank stays a zombie for as long as the
 * run lasts. */
static void removes_leftovers_of_zombies(void **state) {
  siginfo_t info;
  char name[80];
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
  snprintf(name, sizeof name, ".tmp-step-000000000001-%ld", (long)pid);
  assert_int_equal(mkdir(joined(f->dir, name), 0777), 0);
  save_good(9, NAN, 1);
  bool left = ls_path_exists(joined(f->dir, name));
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  assert_false(left);
}

/* ---- failures ---- */

/* After a failed save of step 2: the directory is as before, and step 1 is still good. */
static void assert_untouched(void) {
  assert_string_equal(listing(f->dir), S(1));
  assert_int_equal(newest_good(), 1);
}

static void fails_cleanly_where_no_directory_can_be(void **state) {
  state_t s;
  state_create(&s, 3);
  put_file(joined(f->dir, "file"), "mine", 4);
  const char *const dirs[] = {joined(f->dir, "file"), joined(f->dir, "file/below"), "/proc/lockstep-none",
                              "/dev/null/x"};
  for (int i = 0; i < LS_COUNT(dirs); i++) {
    fixture_forget();
    assert_int_not_equal(save_state(f->ctx, dirs[i], &s, 2, NAN, 1), LS_OK);
    assert_int_equal(ls_ctx_error_count(f->ctx), 1);
    assert_contains(ls_ctx_error(f->ctx), i < 2 ? "/file" : i == 2 ? "/proc/lockstep-none" : "/dev/null");
  }
  assert_string_equal(listing(f->dir), "file");
  assert_int_equal(save_state(f->ctx, "", &s, 2, NAN, 1), LS_ERR_ARGUMENT);
  state_destroy(&s);
}

static void fails_cleanly_when_a_file_stands_in_its_place(void **state) {
  state_t s;
  state_create(&s, 3);
  save_good(1, NAN, 1);
  put_file(joined(f->dir, S(2)), "mine", 4);
  assert_refused(save_state(f->ctx, f->dir, &s, 2, NAN, 1), LS_ERR_IO, S(2));
  size_t size;
  char *bytes = get_file(joined(f->dir, S(2)), &size);
  assert_string_equal(bytes, "mine");
  ls_free(bytes);
  assert_int_equal(unlink(joined(f->dir, S(2))), 0);
  assert_untouched();
  state_destroy(&s);
}

static void removes_the_directories_that_it_made_when_it_fails(void **state) {
  float x = 0;
  const ls_ckpt_tensor_t twice[] = {{"w", LS_SHAPE(LS_F32, 1), &x}, {"w", LS_SHAPE(LS_F32, 1), &x}};
  ls_ckpt_save_t save = {.step = 1, .metric = NAN, .params = twice, .param_count = 2};
  char *path = NULL;
  assert_int_equal(mkdir(joined(f->dir, "there"), 0777), 0);
  assert_int_equal(ls_ckpt_save(f->ctx, joined(f->dir, "there/a/b"), &save, 1, &path), LS_ERR_ARGUMENT);
  assert_null(path);
  assert_string_equal(listing(f->dir), "there");
  assert_string_equal(listing(joined(f->dir, "there")), "");
}

static void fails_cleanly_at_a_limit_of_file_size(void **state) {
  save_good(1, NAN, 1);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    state_t s;
    state_create(&s, 100000);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {300000, 300000};
    setrlimit(RLIMIT_FSIZE, &limit);
    ls_status_t status = save_state(f->ctx, f->dir, &s, 2, NAN, 1);
    bool named = strstr(ls_ctx_error(f->ctx), LS_MODEL_NAME) != NULL;
    _exit(status == LS_ERR_IO && named ? 0 : 1);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  assert_untouched();
}

/* Runs in a child with mounts of its own: 0 as expected, 77 when this machine does not let us mount. */
static int save_on_a_full_disk(void) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", f->dir, "tmpfs", 0, "size=200k") != 0)
    return 77;
  state_t s;
  state_create(&s, 100000);
  save_good(1, NAN, 1);
  fixture_forget();
  if (save_state(f->ctx, f->dir, &s, 2, NAN, 1) != LS_ERR_NO_SPACE) return 1;
  long long needed = 0, left = 0;
  const char *words = strstr(ls_ctx_error(f->ctx), "it needs ");
  if (!words || sscanf(words, "it needs %lld bytes and more, and %lld are free", &needed, &left) != 2)
    return 2;
  if (needed < 1600000 || left <= 0 || left > 200 << 10) return 5;
  if (strcmp(listing(f->dir), S(1)) != 0) return 3;
  if (newest_good() != 1) return 4;
  save_good(3, NAN, 1); /* a smaller one still fits: the space was given back */
  return 0;
}

static void fails_cleanly_on_a_full_disk(void **state) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) _exit(save_on_a_full_disk());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    print_message("skipped: a small file system cannot be mounted here\n");
    skip();
  }
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void reports_every_failed_allocation(void **state) {
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 2);
  save_good(1, NAN, 1);
  ls_status_t status = LS_ERR_MEMORY;
  int64_t n = 1;
  for (; status == LS_ERR_MEMORY; n++) {
    fixture_forget();
    ls_ctx_fail_alloc(f->ctx, n);
    status = save_state(f->ctx, f->dir, &s, 2, NAN, 1);
    if (status == LS_ERR_MEMORY) assert_untouched();
  }
  assert_int_equal(status, LS_OK);
  assert_true(n > 8);
  assert_true(ls_ctx_fail_alloc(f->ctx, 0) < n); /* ended because none was left to fail */
  assert_int_equal(newest_good(), 2);
  state_destroy(&s);
}

/* The bytes of whole tensors are for ever: XXH3-128 of the files as the first version wrote them. */
static void writes_the_very_bytes_of_the_first_version(void **state) {
  static const struct {
    const char *name, *xxh3_128;
  } files[] = {{LS_MODEL_NAME, "db94da9acfbcd1c89e6486e6a7a31e75"},
               {LS_OPTIM_NAME, "025052ba65db9fee61402b854bda813b"},
               {LS_MANIFEST_NAME, "02cae7a968477f263592d8d5af833c45"}};
  state_t s;
  state_create(&s, 3);
  state_fill(&s, 7);
  assert_int_equal(save_state(f->ctx, f->dir, &s, 7, 0.5, 1), LS_OK);
  state_destroy(&s);
  for (int i = 0; i < LS_COUNT(files); i++) {
    char hash[LS_HASH_TEXT_BYTES];
    size_t size;
    char *bytes = get_file(joined(joined(f->dir, "step-000000000007"), files[i].name), &size);
    ls_hash_text(XXH3_128bits(bytes, size), hash);
    ls_free(bytes);
    assert_string_equal(hash, files[i].xxh3_128);
  }
}

TESTS(fixture_setup, fixture_teardown, writes_three_files, returns_the_path_and_creates_parents,
      refuses_arguments_out_of_range, keeps_the_newest_and_the_best, no_best_leaves_no_link,
      directory_in_the_place_of_the_best_is_one_warning, never_removes_what_it_just_saved,
      does_not_count_broken_ones, replaces_a_checkpoint_of_the_same_step,
      removes_leftovers_of_dead_processes_only, removes_leftovers_of_zombies,
      fails_cleanly_where_no_directory_can_be, fails_cleanly_when_a_file_stands_in_its_place,
      removes_the_directories_that_it_made_when_it_fails, fails_cleanly_at_a_limit_of_file_size,
      fails_cleanly_on_a_full_disk, reports_every_failed_allocation,
      writes_the_very_bytes_of_the_first_version)
