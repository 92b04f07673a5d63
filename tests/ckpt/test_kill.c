/* A process saves in a loop and is killed (SIGKILL) at 30 moments. Whatever it had reported as saved can be
 * opened afterwards, whole and exact. The moments follow what the process has done (reports on a pipe,
 * entries seen in the directory), plus a random number of looks; nothing depends on the clock. */
#include "support.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 30, WIDTH = 20000 };

static void save_in_a_loop(const char *dir, int64_t step, int channel) {
  state_t s;
  state_create(&s, WIDTH);
  for (;; step++) {
    state_fill(&s, step);
    if (save_state(NULL, dir, &s, step, NAN, 2)) _exit(1);
    if (write(channel, &step, sizeof step) != (ssize_t)sizeof step) _exit(2);
  }
}

static bool has_temporary(const char *dir) {
  return strstr(listing(dir), ".tmp-step-") != NULL;
}

static int files_in_temporary(const char *dir) {
  char **names;
  int count, files = 0;
  if (ls_dir_list(NULL, dir, &names, &count)) return 0;
  for (int i = 0; i < count; i++) {
    char **inside;
    int n;
    if (strncmp(names[i], ".tmp-step-", 10) != 0 || ls_dir_list(NULL, joined(dir, names[i]), &inside, &n))
      continue;
    files = n;
    ls_free(inside);
  }
  ls_free(names);
  return files;
}

/* Waits for the moment of this round: after some reports, at some stage of the next save. */
static void wait_for_the_moment(const char *dir, int round, int channel, int64_t *reported) {
  for (int i = 0; i < 1 + round % 2; i++)
    assert_int_equal(read(channel, reported, sizeof *reported), sizeof *reported);
  int stage = round % 6, looks = 20000; /* a stage that is missed ends by its looks */
  if (stage < 4)
    while (files_in_temporary(dir) < stage && looks-- > 0)
      continue;
  else if (stage == 4)
    while (has_temporary(dir) && looks-- > 0)
      continue;
  for (int i = rand() % 40; i > 0; i--)
    has_temporary(dir);
}

static void assert_good(int64_t reported) {
  ls_ckpt_t *ckpt = NULL;
  fixture_forget();
  assert_int_equal(ls_ckpt_open_newest(f->ctx, f->dir, &ckpt), LS_OK);
  assert_string_equal(f->log, ""); /* and none was bad */
  assert_true(ls_ckpt_step(ckpt) >= reported);
  assert_true(ls_ckpt_step(ckpt) <= reported + 1);
  state_t s;
  state_create(&s, WIDTH);
  assert_int_equal(ls_ckpt_read(f->ctx, ckpt, s.param, PARAM_COUNT, s.optim, OPTIM_COUNT), LS_OK);
  assert_true(state_is(&s, ls_ckpt_step(ckpt)));
  state_destroy(&s);
  ls_ckpt_close(ckpt);
}

static int64_t one_round(int round, int64_t step) {
  int channel[2];
  assert_int_equal(pipe(channel), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) save_in_a_loop(f->dir, step, channel[1]);
  close(channel[1]);
  int64_t reported = 0, more;
  wait_for_the_moment(f->dir, round, channel[0], &reported);
  assert_int_equal(kill(child, SIGKILL), 0);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  while (read(channel[0], &more, sizeof more) == (ssize_t)sizeof more)
    reported = more;
  close(channel[0]);
  assert_good(reported);
  return reported;
}

static void loses_nothing_that_was_reported(void **state) {
  srand(20240607);
  int64_t step = 0;
  for (int round = 0; round < ROUNDS; round++)
    step = one_round(round, step + 1);
  state_t s;
  state_create(&s, WIDTH);
  state_fill(&s, step + 5);
  assert_int_equal(save_state(f->ctx, f->dir, &s, step + 5, NAN, 1), LS_OK);
  char expected[LS_STEP_NAME_BYTES];
  ls_ckpt_step_name(step + 5, expected);
  assert_string_equal(listing(f->dir), expected); /* all that the killed ones left is gone */
  state_destroy(&s);
}

TESTS(fixture_setup, fixture_teardown, loses_nothing_that_was_reported)
