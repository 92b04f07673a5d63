/* Lines between the supervisor and its agents, over a pair of sockets. */
#include "supervise/wire.h"

#include "base/base.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit.h"

static const char token[] = "0123456789abcdef0123456789abcdef";
static ls_wire_t near_end, far_end;

static int open_pair(void **state) {
  int fd[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) != 0) return -1;
  near_end = (ls_wire_t){.fd = fd[0]};
  far_end = (ls_wire_t){.fd = fd[1]};
  return 0;
}

static int close_pair(void **state) {
  ls_wire_close(&near_end);
  ls_wire_close(&far_end);
  return 0;
}

static void put(const char *text) {
  assert_int_equal(write(far_end.fd, text, strlen(text)), strlen(text));
}

static void expect(ls_wire_received_t got, const char *words) {
  const char *taken = "";
  assert_int_equal(ls_wire_receive(&near_end, token, &taken), got);
  if (words) assert_string_equal(taken, words);
}

static void lines_arrive_however_they_are_cut(void **state) {
  assert_true(ls_wire_send(&far_end, token, "hello %d %d", 1, 2));
  assert_true(ls_wire_send(&far_end, token, "beat"));
  put("0123456789abcdef");
  expect(LS_WIRE_MESSAGE, "hello 1 2");
  expect(LS_WIRE_MESSAGE, "beat");
  expect(LS_WIRE_NOTHING, NULL);
  put("0123456789abcdef bye");
  expect(LS_WIRE_NOTHING, NULL);
  put("\n");
  expect(LS_WIRE_MESSAGE, "bye");
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
  for (int i = 0; i < LS_COUNT(wrong); i++) {
    put(wrong[i]);
    put("0123456789abcdef0123456789abcdef beat\n");
    expect(LS_WIRE_REFUSED, NULL);
    expect(LS_WIRE_MESSAGE, "beat");
  }
}

static void a_line_that_is_too_long_is_refused_once_and_skipped(void **state) {
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
  expect(LS_WIRE_MESSAGE, "beat");
  assert_true(ls_wire_send(&far_end, token, "refuse %s", words)); /* what is sent is never too long */
  expect(LS_WIRE_MESSAGE, NULL);
}

static void a_rank_arrives_with_its_moments_on_the_other_clock(void **state) {
  const ls_wire_rank_t sent = {.rank = 3,
                               .stopped = true,
                               .look = {.step = 812,
                                        .first = 800,
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
  assert_int_equal(ls_wire_receive(&near_end, token, &words), LS_WIRE_MESSAGE);
  assert_true(ls_wire_parse_rank(words, 90000, &got));
  assert_int_equal(got.rank, 3);
  assert_true(got.stopped && !got.ended);
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
                                      "rank 1 r 3 5 4 100 1 1 0 0 10",
                                      "rank 1 r 3 5 4 100 1 1 0 0 10 9 8",
                                      "rank 1 r 99 5 4 100 1 1 0 0 10 9",
                                      "rank 1 r -1 5 4 100 1 1 0 0 10 9",
                                      "rank 1 r 3 5 4 -7 1 1 0 0 10 9",
                                      "rank 1 r 3 5 4 91000 1 1 0 0 10 9",
                                      "rank 1 r 3 5 4 1 1 1 0 -9223372036854775808 10 9"};
  ls_wire_rank_t got;
  assert_true(ls_wire_parse_rank("rank 1 e 3 5 4 100 1 1 0 0 10 9", 90000, &got));
  assert_true(got.ended);
  for (int i = 0; i < LS_COUNT(wrong); i++)
    assert_false(ls_wire_parse_rank(wrong[i], 90000, &got));
}

static const char *line(void) {
  const char *words;
  assert_int_equal(ls_wire_receive(&near_end, token, &words), LS_WIRE_MESSAGE);
  return words;
}

static bool show_speed(const char *message, ls_page_t *page) {
  ls_page_speed_look_t speed;
  int rank;
  const bool is_speed = ls_wire_parse_speed(message, ls_page_ranks(page), &rank, &speed);
  if (is_speed) ls_page_speed_put(page, rank, LS_WIRE_SPEEDS, &speed);
  return is_speed;
}

static void speeds_and_collectives_of_another_host_are_seen_here(void **state) {
  char folder[] = "/tmp/lockstep-wire-XXXXXX", there[64], here[64];
  ls_page_t *from, *to;
  ls_rings_t *its, *copy;
  ls_page_speed_look_t speed;
  assert_non_null(mkdtemp(folder));
  snprintf(there, sizeof there, "%s/there", folder);
  snprintf(here, sizeof here, "%s/here", folder);
  assert_int_equal(ls_page_open(NULL, there, 2, &from), LS_OK);
  assert_int_equal(ls_page_open(NULL, here, 2, &to), LS_OK);
  assert_int_equal(ls_rings_create(NULL, there, 2, &its), LS_OK);
  assert_int_equal(ls_rings_create(NULL, here, 2, &copy), LS_OK);
  for (int i = 1; i <= 100; i++)
    ls_page_timed(from, 1, 1000 * i, i);
  ls_page_speed(from, 1)->clock_ppm = 750000;
  ls_page_speed(from, 1)->loop_ns = 3200;
  ls_wire_speed_t sent = {0};
  assert_true(ls_wire_send_speed(&far_end, token, from, 1, &sent));
  assert_true(show_speed(line(), to));
  ls_page_speed_look(to, 1, LS_WIRE_SPEEDS, &speed);
  assert_int_equal(speed.timed, 100);
  assert_int_equal(speed.own_ns[0], 100000);
  assert_int_equal(speed.own_ns[19], 81000);
  assert_int_equal(speed.input_ns[19], 81);
  assert_true(speed.clock_ratio > 0.7499 && speed.clock_ratio < 0.7501);
  assert_int_equal(speed.loop_ns, 3200);
  static const char *const wrong[] = {"speed",
                                      "speed 1 20 0 1 1 0 5 5",
                                      "speed 2 20 0 1 1 0",
                                      "speed 1 -1 0 1 1 0",
                                      "speed 1 20 0 nan 1 0",
                                      "speed 1 20 0 1 1e9 0",
                                      "speed 1 20 0 1 1 -5"};
  for (int i = 0; i < LS_COUNT(wrong); i++)
    assert_false(show_speed(wrong[i], to));

  ls_ring_t *ring = ls_rings_at(its, 1);
  const uint64_t mark = ls_ring_enter(ring, LS_RING_DATA, 7, "all-reduce", "gradients 0", "", 4000, 5000);
  ls_ring_leave(ring, mark, 5500);
  ls_ring_enter(ring, LS_RING_DATA, 8, "all-reduce", "gradients 1", "", 4000, 6000);
  assert_true(ls_wire_send_ring(&far_end, token, its, 1, 7000));
  for (int i = 0; i < 3; i++)
    assert_true(ls_wire_parse_ring(line(), 97000, copy));
  const ls_ring_t *got = ls_rings_at(copy, 1);
  assert_int_equal(got->count, 2);
  assert_int_equal(got->entry[0].end_ns, 95500);
  assert_int_equal(got->entry[1].begin_ns, 96000);
  assert_int_equal(got->entry[1].end_ns, 0); /* under way */
  assert_string_equal(got->entry[1].name, "gradients 1");
  static const char *const broken[] = {"ring 2 1 0", "ring 1 x", "entry 1 64 00", "entry 1 0 00",
                                       "entry 1 0 zz"};
  for (int i = 0; i < LS_COUNT(broken); i++)
    assert_false(ls_wire_parse_ring(broken[i], 97000, copy));
  ls_page_close(from);
  ls_page_close(to);
  ls_rings_close(its);
  ls_rings_close(copy);
  assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
}

static void a_gpu_that_breaks_on_another_host_is_seen_though_no_step_is_timed_any_more(void **state) {
  static const int64_t timed[] = {3, 20}; /* before there are times to send, and after they were sent */
  char folder[] = "/tmp/lockstep-wire-XXXXXX", there[64], here[64];
  assert_non_null(mkdtemp(folder));
  snprintf(there, sizeof there, "%s/there", folder);
  snprintf(here, sizeof here, "%s/here", folder);
  for (int i = 0; i < LS_COUNT(timed); i++) {
    ls_page_t *from, *to;
    ls_page_speed_look_t speed;
    ls_wire_speed_t sent = {0};
    assert_int_equal(ls_page_open(NULL, there, i + 1, &from), LS_OK);
    assert_int_equal(ls_page_open(NULL, here, i + 1, &to), LS_OK);
    for (int n = 0; n < timed[i]; n++)
      ls_page_timed(from, i, 1000, 1);
    assert_true(ls_wire_send_speed(&far_end, token, from, i, &sent));
    if (timed[i] >= LS_WIRE_SPEEDS) assert_true(show_speed(line(), to));
    assert_true(ls_wire_send_speed(&far_end, token, from, i, &sent));
    expect(LS_WIRE_NOTHING, NULL); /* what is known is not sent again */
    ls_page_speed(from, i)->limits = LS_LIMIT_BROKEN;
    assert_true(ls_wire_send_speed(&far_end, token, from, i, &sent));
    assert_true(show_speed(line(), to));
    ls_page_speed_look(to, i, 0, &speed);
    assert_int_equal(speed.limits, LS_LIMIT_BROKEN);
    assert_int_equal(speed.timed, timed[i]);
    ls_page_close(from);
    ls_page_close(to);
  }
  assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
}

static void a_long_text_arrives_in_parts(void **state) {
  char text[3000], part[LS_WIRE_BYTES], all[4000];
  size_t used = 0;
  int question = 0;
  for (size_t i = 0; i < sizeof text; i++)
    text[i] = (char)(i % 255 + 1); /* line ends, too */
  text[sizeof text - 1] = '\0';
  assert_true(ls_wire_send_text(&far_end, token, 7, text));
  assert_true(ls_wire_send(&far_end, token, "answered"));
  for (const char *words; strcmp(words = line(), "answered") != 0;) {
    const int bytes = ls_wire_parse_part(words, &question, part);
    assert_int_equal(question, 7);
    assert_true(bytes > 0 && used + (size_t)bytes < sizeof all);
    memcpy(all + used, part, (size_t)bytes);
    used += (size_t)bytes;
  }
  assert_int_equal(used, strlen(text));
  assert_memory_equal(all, text, used);
  assert_int_equal(ls_wire_parse_part("part 7 0", &question, part), -1);
  assert_int_equal(ls_wire_parse_part("part 7 0g", &question, part), -1);
  assert_int_equal(ls_wire_parse_part("part x 00", &question, part), -1);
}

/* Until the other end is closed. */
static void *read_all(void *unused) {
  char bytes[512];
  struct pollfd ready = {.fd = near_end.fd, .events = POLLIN};
  while (poll(&ready, 1, -1) == 1 && read(near_end.fd, bytes, sizeof bytes) > 0) {
  }
  return unused;
}

static void sending_waits_for_the_other_side_as_long_as_it_may(void **state) {
  char words[900];
  memset(words, 'y', sizeof words - 1);
  words[sizeof words - 1] = '\0';
  int sent = 0;
  while (ls_wire_send(&far_end, token, "%s", words))
    sent++;
  assert_true(sent > 0);
  far_end.wait_ms = 100;
  const int64_t begin_ns = ls_clock_ns();
  assert_false(ls_wire_send(&far_end, token, "%s", words));
  assert_true(ls_clock_ns() - begin_ns >= 90 * INT64_C(1000000));
  pthread_t reader;
  assert_int_equal(pthread_create(&reader, NULL, read_all, NULL), 0);
  far_end.wait_ms = 60000;
  for (int i = 0; i < 10 * sent; i++)
    assert_true(ls_wire_send(&far_end, token, "%s", words));
  ls_wire_close(&far_end);
  assert_int_equal(pthread_join(reader, NULL), 0);
}

TESTS(open_pair, close_pair, lines_arrive_however_they_are_cut, what_does_not_begin_with_the_token_is_refused,
      a_line_that_is_too_long_is_refused_once_and_skipped, a_rank_arrives_with_its_moments_on_the_other_clock,
      speeds_and_collectives_of_another_host_are_seen_here,
      a_gpu_that_breaks_on_another_host_is_seen_though_no_step_is_timed_any_more,
      a_long_text_arrives_in_parts, sending_waits_for_the_other_side_as_long_as_it_may,
      words_that_are_no_ranks_are_refused)
