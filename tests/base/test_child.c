/* Children: how they are started and how they end, also when this process does not live to see it. The
 * program itself plays the child: `test_base_child ROLE`. */
#include "base/child.h"

#include "capture.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static ls_child_spec_t self(const char *const *argv, char said[512]) {
  return (ls_child_spec_t){.argv = argv, .self = true, .limit_s = 60, .said = said, .said_bytes = 512};
}

static void the_exit_is_told_in_words(void **state) {
  static const struct {
    const char *role, *words, *reason;
  } rows[] = {{"five", "exit code 5", "no disk"},
              {"silent", "exit code 7", "exit code 7"},
              {"chatty", "exit code 3", "first line"},
              {"abort", "ended by signal 9 (Killed)", "ended by signal 9 (Killed)"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const char *const argv[] = {"child", rows[i].role, NULL};
    char said[512], words[LS_CHILD_WORDS_BYTES];
    ls_child_spec_t spec = self(argv, said);
    ls_child_end_t end;
    assert_false(ls_child_run(&spec, &end));
    ls_child_words(&end, words);
    assert_string_equal(words, rows[i].words);
    ls_child_reason(&end, said, words);
    assert_string_equal(words, rows[i].reason);
  }
}

static void a_program_that_is_not_there(void **state) {
  static const char *const argv[] = {"/no/such/program", NULL};
  const ls_child_spec_t spec = {.argv = argv};
  char words[LS_CHILD_WORDS_BYTES];
  ls_child_end_t end;
  assert_false(ls_child_run(&spec, &end));
  assert_int_equal(end.error, ENOENT);
  ls_child_words(&end, words);
  assert_string_equal(words, "cannot be started: No such file or directory");
  assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left to wait for */
}

static void environment_and_streams(void **state) {
  static const char *const argv[] = {"child", "environment", NULL}, *const change[] = {"LS_SET=new=1",
                                                                                       "LS_GONE", NULL};
  char said[512];
  ls_child_spec_t spec = self(argv, said);
  ls_child_end_t end;
  setenv("LS_SET", "old", 1);
  setenv("LS_SETTER", "kept", 1);
  setenv("LS_GONE", "here", 1);
  spec.environment = change;
  spec.stream[STDIN_FILENO].file = "/dev/null";
  spec.stream[STDOUT_FILENO].fd = STDERR_FILENO; /* the child's own */
  assert_true(ls_child_run(&spec, &end));
  assert_string_equal(said, "new=1 kept - EOF");
  assert_string_equal(getenv("LS_GONE"), "here");
}

/* The end of long output is kept. */
static void the_end_of_much_is_kept(void **state) {
  static const char *const argv[] = {"child", "much", NULL};
  char said[512];
  ls_child_spec_t spec = self(argv, said);
  ls_child_end_t end;
  assert_true(ls_child_run(&spec, &end));
  assert_true(strlen(said) >= 255 && strlen(said) < sizeof said);
  assert_string_equal(said + strlen(said) - 9, "\nthe end\n");
}

static void signals_are_as_by_default(void **state) {
  static const char *const argv[] = {"child", "signals", NULL};
  char said[512];
  ls_child_spec_t spec = self(argv, said);
  ls_child_end_t end;
  sigset_t mask;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  assert_true(ls_child_run(&spec, &end));
  signal(SIGPIPE, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  assert_string_equal(said, "pipe default, hup ignored, term open");
  sigprocmask(SIG_BLOCK, NULL, &mask);
  assert_false(sigismember(&mask, SIGTERM));
}

static void past_its_limit_it_is_ended(void **state) {
  static const char *const argv[] = {"child", "wait", NULL};
  for (int stubborn = 0; stubborn < 2; stubborn++) {
    char said[512], words[LS_CHILD_WORDS_BYTES];
    ls_child_spec_t spec = self(argv, said);
    ls_child_end_t end;
    spec.limit_s = 1;
    spec.grace_s = 1;
    signal(SIGTERM, stubborn ? SIG_IGN : SIG_DFL); /* as the child inherits it */
    assert_false(ls_child_run(&spec, &end));
    signal(SIGTERM, SIG_DFL);
    assert_int_equal(end.signal, stubborn ? SIGKILL : SIGTERM);
    ls_child_reason(&end, said, words);
    assert_string_equal(words, "not done within 1 s");
  }
}

static int stop_at_once(void) {
  return SIGINT;
}

static void a_stop_is_passed_on(void **state) {
  static const char *const argv[] = {"child", "wait", NULL};
  char said[512];
  ls_child_spec_t spec = self(argv, said);
  ls_child_end_t end;
  spec.stop = stop_at_once;
  spec.grace_s = 60;
  assert_false(ls_child_run(&spec, &end));
  assert_true(end.asked && end.late_s == 0);
  assert_int_equal(end.signal, SIGTERM);
}

/* The pipe that all of them hold ends when the last one has. */
static void nobody_outlives_a_parent_that_is_killed(void **state) {
  static const char *const argv[] = {"child", "parent", NULL};
  int from;
  char byte;
  pid_t parent;
  const ls_child_spec_t spec = {.argv = argv, .self = true, .stream = {[STDOUT_FILENO] = {.pipe = &from}}};
  ls_child_end_t end;
  struct pollfd ready = {.events = POLLIN};
  assert_int_equal(ls_child_start(&spec, &parent), 0);
  assert_int_equal(read(from, &byte, 1), 1); /* from the grandchild */
  assert_int_equal(kill(parent, SIGKILL), 0);
  ls_child_wait(parent, &end);
  assert_int_equal(end.signal, SIGKILL);
  ready.fd = from;
  assert_int_equal(poll(&ready, 1, 30000), 1);
  assert_int_equal(read(from, &byte, 1), 0);
  close(from);
}

/* ---- the children ---- */

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value ? value : "-";
}

static const char *action_of(int number) {
  struct sigaction action;
  sigaction(number, NULL, &action);
  return action.sa_handler == SIG_IGN ? "ignored" : action.sa_handler == SIG_DFL ? "default" : "handled";
}

_Noreturn static void wait_for_ever(void) {
  for (;;)
    pause();
}

static int be(const char *role) {
  static const char *const much = "a line that is one of many\n";
  if (!strcmp(role, "five")) {
    fputs("some words\nlockstep: error: no disk\nerror: another\n", stderr);
    return 5;
  }
  if (!strcmp(role, "silent")) return 7;
  if (!strcmp(role, "chatty")) return fputs("first line\nsecond\n", stderr), 3;
  if (!strcmp(role, "abort")) return raise(SIGKILL);
  if (!strcmp(role, "environment")) {
    printf("%s %s %s %s", variable("LS_SET"), variable("LS_SETTER"), variable("LS_GONE"),
           getchar() == EOF ? "EOF" : "input");
    return 0;
  }
  if (!strcmp(role, "much")) {
    for (int i = 0; i < 10000; i++)
      fputs(much, stderr);
    return fputs("the end\n", stderr) < 0;
  }
  if (!strcmp(role, "signals")) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    fprintf(stderr, "pipe %s, hup %s, term %s", action_of(SIGPIPE), action_of(SIGHUP),
            sigismember(&mask, SIGTERM) ? "blocked" : "open");
    return 0;
  }
  if (!strcmp(role, "grandchild")) {
    signal(SIGTERM, SIG_IGN);
    putchar('x');
    fflush(stdout);
  }
  if (!strcmp(role, "parent")) {
    static const char *const argv[] = {"child", "grandchild", NULL};
    const ls_child_spec_t spec = {.argv = argv, .self = true};
    ls_child_end_t end;
    return ls_child_run(&spec, &end);
  }
  wait_for_ever();
}

int main(int argc, char **argv) {
  if (argc > 1) return be(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_exit_is_told_in_words), cmocka_unit_test(a_program_that_is_not_there),
      cmocka_unit_test(environment_and_streams),   cmocka_unit_test(the_end_of_much_is_kept),
      cmocka_unit_test(signals_are_as_by_default), cmocka_unit_test(past_its_limit_it_is_ended),
      cmocka_unit_test(a_stop_is_passed_on),       cmocka_unit_test(nobody_outlives_a_parent_that_is_killed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
