/* One run, one directory: who is refused, whom a dead holder does not block, what is left behind. */
#include "support.h"
#include "syscalls.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_second_run_is_refused_and_told_by_whom(void **state) {
  ls_ckpt_lock_t *first, *second = NULL;
  char host[128] = "", pid[32];
  gethostname(host, sizeof host - 1);
  snprintf(pid, sizeof pid, "process %ld", (long)getpid());
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &first), LS_OK);
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &second), LS_ERR_BUSY);
  assert_null(second);
  assert_int_equal(ls_status_exit_code(LS_ERR_BUSY), 5);
  assert_contains(f->log, pid);
  assert_contains(f->log, host);
  assert_contains(f->log, "started 2");
  ls_ckpt_unlock(first);
  assert_string_equal(listing(f->dir), "");
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &second), LS_OK);
  ls_ckpt_unlock(second);
}

static void a_killed_holder_does_not_block(void **state) {
  int ready[2];
  char byte;
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    ls_ckpt_lock_t *lock;
    if (ls_ckpt_lock(f->ctx, f->dir, &lock) != LS_OK || write(ready[1], "x", 1) != 1) _exit(1);
    for (;;)
      pause();
  }
  assert_int_equal(read(ready[0], &byte, 1), 1);
  ls_ckpt_lock_t *lock;
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_ERR_BUSY);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  assert_string_equal(listing(f->dir), ".lock"); /* stale, and in nobody's way */
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  ls_ckpt_unlock(lock);
  close(ready[0]);
  close(ready[1]);
}

static void directories_that_nothing_came_into_go_again(void **state) {
  ls_ckpt_lock_t *lock;
  assert_int_equal(ls_ckpt_lock(f->ctx, joined(f->dir, "a/b"), &lock), LS_OK);
  assert_true(ls_ckpt_lock_made_dir(lock));
  ls_ckpt_unlock(lock);
  assert_string_equal(listing(f->dir), "");
  assert_int_equal(ls_ckpt_lock(f->ctx, joined(f->dir, "a/b"), &lock), LS_OK);
  put_file(joined(f->dir, "a/kept"), "x", 1);
  ls_ckpt_unlock(lock);
  assert_string_equal(listing(f->dir), "a");
  assert_string_equal(listing(joined(f->dir, "a")), "kept");
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  assert_false(ls_ckpt_lock_made_dir(lock));
  ls_ckpt_unlock(lock);
}

static void a_link_in_its_place_is_not_followed(void **state) {
  ls_ckpt_lock_t *lock;
  put_file(joined(f->dir, "mine"), "precious", 8);
  assert_int_equal(symlink("mine", joined(f->dir, ".lock")), 0);
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_ERR_IO);
  assert_contains(f->log, "/.lock: is a symbolic link");
  size_t size;
  char *text = get_file(joined(f->dir, "mine"), &size);
  assert_string_equal(text, "precious");
  ls_free(text);
}

/* Which of the calls that take a lock is the flock. */
static int flock_call(void) {
  ls_ckpt_lock_t *lock;
  int n = 0;
  sys_reset();
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  while (sys_call(n)->kind != SYS_FLOCK)
    n++;
  ls_ckpt_unlock(lock);
  sys_reset();
  return n;
}

static void a_file_system_without_locks_gives_a_warning(void **state) {
  ls_ckpt_lock_t *lock;
  int n = flock_call();
  sys_fail_at(n + 1, ENOLCK);
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  assert_true(sys_call(n)->failed);
  sys_reset();
  assert_contains(f->log, "W ");
  assert_contains(f->log, "nothing keeps a second run out");
  ls_ckpt_unlock(lock);
}

static void a_moved_directory_or_removed_lock_is_noticed_and_the_next_run_kept(void **state) {
  ls_ckpt_lock_t *first, *second;
  char dir[512], moved[512];
  snprintf(dir, sizeof dir, "%s", joined(f->dir, "run"));
  snprintf(moved, sizeof moved, "%s", joined(f->dir, "moved"));
  assert_int_equal(ls_ckpt_lock(f->ctx, dir, &first), LS_OK);
  assert_int_equal(ls_ckpt_lock_check(f->ctx, first), LS_OK);
  assert_int_equal(rename(dir, moved), 0);
  assert_int_equal(ls_ckpt_lock_check(f->ctx, first), LS_ERR_MOVED);
  assert_contains(f->log, "the directory was moved or its lock was removed; nothing was saved there");
  assert_int_equal(ls_ckpt_lock(f->ctx, dir, &second), LS_OK);
  ls_ckpt_unlock(first); /* the name is the second's lock */
  assert_int_equal(ls_ckpt_lock_check(f->ctx, second), LS_OK);
  assert_string_equal(listing(dir), ".lock");
  ls_ckpt_unlock(second);
  assert_int_equal(ls_ckpt_lock(f->ctx, moved, &first), LS_OK);
  assert_int_equal(unlink(joined(moved, ".lock")), 0);
  assert_int_equal(ls_ckpt_lock_check(f->ctx, first), LS_ERR_MOVED);
  ls_ckpt_unlock(first);
}

static void a_lock_that_may_only_be_read_neither_blocks_nor_names_an_earlier_holder(void **state) {
  ls_ckpt_lock_t *lock, *second;
  int n = 0;
  put_file(joined(f->dir, ".lock"), "process 1 on elsewhere", 22);
  sys_reset();
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  while (sys_call(n)->kind != SYS_OPEN || !strstr(sys_call(n)->path, ".lock"))
    n++;
  ls_ckpt_unlock(lock);
  put_file(joined(f->dir, ".lock"), "process 1 on elsewhere", 22);
  sys_reset();
  sys_fail_at(n + 1, EACCES);
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  assert_true(sys_call(n)->failed);
  sys_reset();
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &second), LS_ERR_BUSY);
  assert_null(strstr(f->log, "elsewhere"));
  assert_contains(f->log, ", started 2");
  ls_ckpt_unlock(lock);
  assert_string_equal(listing(f->dir), "");
}

static void a_lock_that_is_only_looked_at_does_not_refuse_a_run(void **state) {
  ls_ckpt_lock_t *lock;
  int n = flock_call();
  sys_fail_at(n + 1, EWOULDBLOCK); /* once, as `check` holds it for an instant */
  assert_int_equal(ls_ckpt_lock(f->ctx, f->dir, &lock), LS_OK);
  assert_true(sys_call(n)->failed);
  sys_reset();
  ls_ckpt_unlock(lock);
}

TESTS(fixture_setup, fixture_teardown, a_second_run_is_refused_and_told_by_whom,
      a_killed_holder_does_not_block, directories_that_nothing_came_into_go_again,
      a_link_in_its_place_is_not_followed, a_file_system_without_locks_gives_a_warning,
      a_moved_directory_or_removed_lock_is_noticed_and_the_next_run_kept,
      a_lock_that_may_only_be_read_neither_blocks_nor_names_an_earlier_holder,
      a_lock_that_is_only_looked_at_does_not_refuse_a_run)
