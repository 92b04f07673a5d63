/* Lines between the supervisor and its agents, over a pair of sockets. */
#include "supervise/wire.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

static const char token[] = "0123456789abcdef0123456789abcdef";
static ls_wire_t near_end, far_end;

static int open_pair(void **state) {
  int fd[2];
  (void)state;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0) return -1;
  near_end = (ls_wire_t){.fd = fd[0]};
  far_end = (ls_wire_t){.fd = fd[1]};
  return 0;
}

static int close_pair(void **state) {
  (void)state;
  ls_wire_close(&near_end);
  ls_wire_close(&far_end);
  return 0;
}

static void put(const char *text) {
  assert_int_equal(write(far_end.fd, text, strlen(text)), strlen(text));
}

static void expect(ls_wire_got_t got, const char *words) {
  const char *taken = "";
  assert_int_equal(ls_wire_take(&near_end, token, &taken), got);
  if (words) assert_string_equal(taken, words);
}

static void lines_arrive_however_they_are_cut(void **state) {
  (void)state;
  assert_true(ls_wire_send(&far_end, token, "hello %d %d", 1, 2));
  assert_true(ls_wire_send(&far_end, token, "beat"));
  put("0123456789abcdef");
  expect(LS_WIRE_LINE, "hello 1 2");
  expect(LS_WIRE_LINE, "beat");
  expect(LS_WIRE_NOTHING, NULL);
  put("0123456789abcdef bye");
  expect(LS_WIRE_NOTHING, NULL);
  put("\n");
  expect(LS_WIRE_LINE, "bye");
  ls_wire_close(&far_end);
  expect(LS_WIRE_CLOSED, NULL);
  assert_false(ls_wire_send(&far_end, token, "beat"));
}

static void what_does_not_begin_with_the_token_is_refused(void **state) {
  static const char *const wrong[] = {"\n",
                                      "bye\n",
                                      "0123456789abcdef0123456789abcdee bye\n",
                                      "0123456789abcdef0123456789abcdef\n",
                                      "0123456789abcdef0123456789abcdefbye\n",
                                      "GET / HTTP/1.1\r\n"};
  (void)state;
  for (int i = 0; i < LS_COUNT(wrong); i++) {
    put(wrong[i]);
    put("0123456789abcdef0123456789abcdef beat\n");
    expect(LS_WIRE_REFUSED, NULL);
    expect(LS_WIRE_LINE, "beat");
  }
}

static void a_line_that_is_too_long_is_refused_once_and_skipped(void **state) {
  (void)state;
  char words[3 * LS_WIRE_BYTES];
  memset(words, 'y', sizeof words - 1);
  words[sizeof words - 1] = '\0';
  put(token);
  put(words);
  expect(LS_WIRE_REFUSED, NULL);
  expect(LS_WIRE_NOTHING, NULL);
  put("end\n");
  expect(LS_WIRE_NOTHING, NULL);
  assert_true(ls_wire_send(&far_end, token, "beat"));
  expect(LS_WIRE_LINE, "beat");
  assert_true(ls_wire_send(&far_end, token, "refuse %s", words)); /* what is sent is never too long */
  expect(LS_WIRE_LINE, NULL);
}

static void a_rank_arrives_with_its_moments_on_the_other_clock(void **state) {
  (void)state;
  const ls_wire_rank_t sent = {.rank = 3,
                               .stopped = true,
                               .look = {.step = 812,
                                        .since_ns = 5000,
                                        .entered = 7,
                                        .left = 6,
                                        .error_ns = 4000,
                                        .error = LS_ERR_COMM,
                                        .phase = LS_PAGE_SAVE,
                                        .pid = 4711,
                                        .parent = 4700}};
  ls_wire_rank_t got;
  const char *words;
  assert_true(ls_wire_send_rank(&far_end, token, &sent, 6000));
  assert_int_equal(ls_wire_take(&near_end, token, &words), LS_WIRE_LINE);
  assert_true(ls_wire_read_rank(words, 90000, &got));
  assert_int_equal(got.rank, 3);
  assert_true(got.stopped && !got.gone);
  assert_int_equal(got.look.since_ns, 89000);
  assert_int_equal(got.look.error_ns, 88000);
  ls_page_look_t look = got.look;
  look.since_ns = sent.look.since_ns;
  look.error_ns = sent.look.error_ns;
  assert_memory_equal(&look, &sent.look, sizeof look);
}

static void words_that_are_no_ranks_are_refused(void **state) {
  static const char *const wrong[] = {"beat",
                                      "rank",
                                      "rank 1 r 3 5 100 1 1 0 0 10",
                                      "rank 1 r 3 5 100 1 1 0 0 10 9 8",
                                      "rank 1 r 99 5 100 1 1 0 0 10 9",
                                      "rank 1 r -1 5 100 1 1 0 0 10 9",
                                      "rank 1 r 3 5 -7 1 1 0 0 10 9",
                                      "rank 1 r 3 5 91000 1 1 0 0 10 9",
                                      "rank 1 r 3 5 1 1 1 0 -9223372036854775808 10 9"};
  ls_wire_rank_t got;
  (void)state;
  assert_true(ls_wire_read_rank("rank 1 e 3 5 100 1 1 0 0 10 9", 90000, &got));
  assert_true(got.gone);
  for (int i = 0; i < LS_COUNT(wrong); i++)
    assert_false(ls_wire_read_rank(wrong[i], 90000, &got));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(lines_arrive_however_they_are_cut, open_pair, close_pair),
      cmocka_unit_test_setup_teardown(what_does_not_begin_with_the_token_is_refused, open_pair, close_pair),
      cmocka_unit_test_setup_teardown(a_line_that_is_too_long_is_refused_once_and_skipped, open_pair,
                                      close_pair),
      cmocka_unit_test_setup_teardown(a_rank_arrives_with_its_moments_on_the_other_clock, open_pair,
                                      close_pair),
      cmocka_unit_test(words_that_are_no_ranks_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
