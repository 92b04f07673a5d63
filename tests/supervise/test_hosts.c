/* Agents of many hosts, played by this test: what a remote shell would start is `cat`, which ends with its stdin. */
#include "supervise/hosts.h"

#include "base/base.h"
#include "base/tcp.h"
#include "supervise/wire.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { HOSTS = 20, STRANGERS = HOSTS + 16, SECOND = 1000000000 };
static char folder[32], token[LS_WEB_TOKEN_BYTES];
static ls_host_t name[HOSTS];
static const ls_hosts_config_t list = {.count = HOSTS, .host = name};
static ls_supervise_config_t config;
static ls_supervise_t spec = {.config = &config, .remote_shell = "sh -c cat", .shared = folder};
static ls_hosts_t *hosts;
static ls_page_t *page;
static ls_wire_t agent[HOSTS];
static double host_s = 60;
static ls_ctx_t *ctx;
static char said[1024]; /* the newest message */

static void hear(void *user, ls_log_level_t level, const char *message) {
  (void)user;
  (void)level;
  snprintf(said, sizeof said, "%s", message);
}

static int starts; /* of the hosts */

static int begin(void **state) {
  char *text = NULL, path[64];
  size_t size;
  config = (ls_supervise_config_t){.start_s = 60, .host_s = host_s};
  said[0] = '\0';
  starts = 1;
  if (!(ctx = ls_ctx_create(hear, NULL))) return -1;
  snprintf(folder, sizeof folder, "/tmp/lockstep-hosts-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  for (int i = 0; i < HOSTS; i++) {
    name[i] = (ls_host_t){.name = "host", .slots = 1};
    agent[i] = (ls_wire_t){.fd = -1};
  }
  spec.places = (ls_places_t){.all = HOSTS, .least = HOSTS, .hosts = &list};
  int port = 0, fd = ls_tcp_listen(0, 1, &port); /* one that is free */
  if (fd >= 0) close(fd);
  config.port = port;
  snprintf(path, sizeof path, "%s/%s", folder, LS_HOSTS_TOKEN_NAME);
  if (ls_page_open(NULL, folder, HOSTS, &page) != LS_OK || ls_hosts_open(ctx, &spec, &hosts) != LS_OK ||
      ls_hosts_begin(hosts, &spec.places, page, NULL) != LS_OK ||
      ls_file_read(NULL, path, LS_WEB_TOKEN_BYTES, &text, &size) != LS_OK)
    return -1;
  snprintf(token, sizeof token, "%s", text);
  ls_free(text);
  return 0;
}

static int end(void **state) {
  for (int i = 0; i < HOSTS; i++)
    ls_wire_close(&agent[i]); /* their hosts are lost, so nothing is waited for */
  ls_hosts_end(hosts);
  ls_hosts_close(hosts);
  ls_page_close(page);
  ls_ctx_destroy(ctx);
  return ls_dir_remove(NULL, folder) == LS_OK ? 0 : -1;
}

static int come(void) {
  char port[16];
  snprintf(port, sizeof port, "%d", (int)config.port);
  const int fd = ls_tcp_connect("127.0.0.1", port, ls_clock_ns() + 10 * (int64_t)SECOND, NULL);
  assert_true(fd >= 0);
  return fd;
}

static void introduce(int host) {
  agent[host].fd = come();
  assert_true(ls_wire_send(&agent[host], token, "hello %d %d %d", LS_WIRE_VERSION, host, starts));
  assert_true(ls_wire_send(&agent[host], token, "ready"));
}

static void all_hosts_that_come_at_once_are_taken(void **state) {
  ls_fault_t fault;
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_false(ls_hosts_lost(hosts, &fault));
  assert_true(ls_hosts_ready(hosts));
}

/* It was taken for the next life's, and lost when it ended, as if a second host had failed. */
static void an_agent_that_comes_after_its_life_is_not_the_next_one_s(void **state) {
  ls_fault_t fault;
  introduce(0); /* is not served before the life ends: the other host is lost */
  ls_wire_close(&agent[0]);
  ls_hosts_end(hosts);
  assert_int_equal(ls_hosts_begin(hosts, &spec.places, page, NULL), LS_OK);
  starts++;
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_false(ls_hosts_lost(hosts, &fault));
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_true(ls_hosts_ready(hosts));
  assert_false(ls_hosts_lost(hosts, &fault));
}

static void strangers_that_say_nothing_keep_hosts_out_for_a_second_at_most(void **state) {
  int stranger[STRANGERS];
  const int64_t now_ns = ls_clock_ns();
  for (int i = 0; i < STRANGERS; i++)
    stranger[i] = come();
  ls_hosts_serve(hosts, now_ns);
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, now_ns);
  assert_false(ls_hosts_ready(hosts)); /* all places are taken: they wait */
  ls_hosts_serve(hosts, now_ns + SECOND + 1);
  assert_true(ls_hosts_ready(hosts));
  for (int i = 0; i < STRANGERS; i++)
    close(stranger[i]);
}

static int begin_ended(void **state) {
  spec.remote_shell = "true";
  const int failed = begin(state);
  spec.remote_shell = "sh -c cat";
  return failed;
}

static void a_host_whose_shell_ends_before_its_last_lines_come_is_not_lost(void **state) {
  ls_fault_t fault;
  while (wait(NULL) > 0) {
  }
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_false(ls_hosts_lost(hosts, &fault));
  ls_wire_close(&agent[0]);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_true(ls_hosts_lost(hosts, &fault));
}

static int begin_complaining(void **state) {
  spec.remote_shell = "sh -c printf${IFS}earlier\\\\nssh:the_cause%0700d\\\\n>&2";
  const int failed = begin(state);
  spec.remote_shell = "sh -c cat";
  return failed;
}

/* Such a line comes in several parts, of which the last one was reported. */
static void the_last_line_of_a_shell_is_reported_from_its_beginning(void **state) {
  ls_fault_t fault;
  while (wait(NULL) > 0) {
  }
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_true(ls_hosts_lost(hosts, &fault));
  assert_non_null(strstr(fault.words, "its agent has ended: ssh:the_cause0000"));
}

/* The next one that has come; "": none. */
static const char *question_to(int host) {
  const char *message = "beat";
  while (!strcmp(message, "beat"))
    if (ls_wire_receive(&agent[host], token, &message) != LS_WIRE_MESSAGE) return "";
  return message;
}

/* Their answers lie in the sockets before the questions are asked. */
static void a_host_that_answers_too_late_or_never_spoils_no_later_question(void **state) {
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  ls_hosts_fetch_rings(hosts); /* the first question: nobody answers */
  for (int i = 1; i < 3; i++)  /* the second is asked of host 1 alone; what comes for the first one is late */
    for (int question = 1; question < 3; question++) {
      assert_true(ls_wire_send_text(&agent[i], token, question, question == 1 ? "[3]" : "{\"threads\": 7}"));
      assert_true(ls_wire_send(&agent[i], token, "answered %d", question));
    }
  json_t *process = ls_hosts_fetch_process(hosts, 1);
  assert_int_equal(json_integer_value(json_object_get(process, "threads")), 7);
  json_decref(process);
  for (int i = 1; i < 3; i++)
    assert_string_equal(question_to(i), "ask 1 rings");
  assert_string_equal(question_to(1), "ask 2 process 1");
  assert_string_equal(question_to(2), "");
}

static void the_connection_of_an_agent_that_has_ended_wakes_nobody(void **state) {
  const char *message;
  introduce(0);
  assert_true(ls_wire_send(&agent[0], token, "bye"));
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_int_equal(ls_wire_receive(&agent[0], token, &message), LS_WIRE_CLOSED);
}

static int begin_brief(void **state) {
  host_s = 0.3;
  const int failed = begin(state);
  host_s = 60;
  return failed;
}

/* It sends heartbeats and nothing else, until its connection is closed. */
static void *beat(void *unused) {
  while (ls_wire_send(&agent[0], token, "beat"))
    poll(NULL, 0, 5);
  return unused;
}

static void an_agent_that_never_confirms_the_end_is_waited_for_no_longer_than_host_s(void **state) {
  ls_fault_t fault;
  pthread_t thread;
  introduce(0);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_false(ls_hosts_lost(hosts, &fault));
  assert_int_equal(pthread_create(&thread, NULL, beat, NULL), 0);
  ls_hosts_end(hosts); /* without a limit it would never return */
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(ls_hosts_lost(hosts, &fault));
  assert_string_equal(said, "host host: it did not confirm within 0.3 s that its ranks have ended");
}

/* Host 0 is told to end; before it says that it has, host 1 comes. */
static void *come_late(void *told) {
  const char *message;
  for (int i = 0; i < 2; i++) {
    if (i == 1) introduce(1);
    struct pollfd from = {.fd = agent[i].fd, .events = POLLIN};
    ls_wire_received_t got;
    while ((got = ls_wire_receive(&agent[i], token, &message)) == LS_WIRE_NOTHING ||
           (got == LS_WIRE_MESSAGE && strcmp(message, "end") != 0))
      if (got == LS_WIRE_NOTHING) poll(&from, 1, -1);
    ((bool *)told)[i] = got == LS_WIRE_MESSAGE;
  }
  for (int i = 1; i >= 0; i--)
    ls_wire_send(&agent[i], token, "bye");
  return told;
}

static void a_host_that_comes_when_the_others_were_told_to_end_is_told_too(void **state) {
  bool told[2] = {false, false};
  pthread_t thread;
  introduce(0);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_int_equal(pthread_create(&thread, NULL, come_late, told), 0);
  ls_hosts_end(hosts);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(told[0] && told[1]);
}

/* One that took part and now refuses, as its folders are not mounted yet, is lost: the run is tried again. */
static void a_host_that_refuses_counts_as_lost_once_all_were_ready(void **state) {
  ls_fault_t fault;
  for (int life = 0; life < 2; life++) {
    for (int i = 0; i < HOSTS; i++)
      introduce(i);
    if (life == 1) assert_true(ls_wire_send(&agent[0], token, "refuse no folder"));
    ls_hosts_serve(hosts, ls_clock_ns());
    if (life == 1) break;
    assert_true(ls_hosts_ready(hosts));
    for (int i = 0; i < HOSTS; i++)
      ls_wire_close(&agent[i]);
    ls_hosts_end(hosts);
    assert_int_equal(ls_hosts_begin(hosts, &spec.places, page, NULL), LS_OK);
    starts++;
  }
  assert_true(ls_hosts_lost(hosts, &fault));
  assert_int_equal(fault.kind, LS_FAULT_HOST);
}

static void lower_open_files(rlim_t soft, rlim_t hard) {
  const struct rlimit files = {.rlim_cur = soft, .rlim_max = hard};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static struct rlimit files_before;

static int begin_with_few_files(void **state) {
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &files_before), 0);
  lower_open_files(HOSTS, files_before.rlim_max);
  return begin(state);
}

static int end_with_few_files(void **state) {
  const int failed = end(state);
  lower_open_files(files_before.rlim_cur, files_before.rlim_max);
  return failed;
}

static void many_hosts_are_not_limited_by_the_number_of_open_files(void **state) {
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_true(ls_hosts_ready(hosts));
}

/* In a child, because the hard limit cannot be raised again. */
static void more_hosts_than_open_files_are_refused_with_the_limit_and_a_remedy(void **state) {
  int ended;
  spec.places = (ls_places_t){.all = HOSTS, .least = HOSTS, .hosts = &list};
  const pid_t child = fork();
  if (child == 0) {
    ctx = ls_ctx_create(NULL, NULL);
    lower_open_files(HOSTS, HOSTS);
    const bool refused = ls_hosts_open(ctx, &spec, &hosts) == LS_ERR_UNSUPPORTED;
    const char *error = ls_ctx_error(ctx);
    _exit(refused && strstr(error, "20 hosts") && strstr(error, "have 20 at most") &&
                  strstr(error, "ulimit -Hn")
              ? 0
              : 1);
  }
  assert_int_equal(waitpid(child, &ended, 0), child);
  assert_true(WIFEXITED(ended) && WEXITSTATUS(ended) == 0);
}

static void a_zone_is_the_name_of_an_interface(void **state) {
  char plain[LS_HOST_NAME_BYTES];
  assert_true(ls_hosts_name("[fe80::1%eth0.100]", plain));
  assert_string_equal(plain, "fe80::1%eth0.100");
  assert_true(ls_hosts_name("fe80::1%my_bridge-0", plain));
  assert_false(ls_hosts_name("fe80::1%", plain));
  assert_false(ls_hosts_name("fe80::1%a b", plain));
}

static void a_link_local_address_is_this_machine_on_its_own_interface_alone(void **state) {
  struct ifaddrs *all, *at;
  char address[INET6_ADDRSTRLEN], zone[INET6_ADDRSTRLEN + IF_NAMESIZE + 1];
  assert_int_equal(getifaddrs(&all), 0);
  for (at = all; at; at = at->ifa_next) {
    const struct sockaddr_in6 *six = (const void *)at->ifa_addr;
    if (!six || six->sin6_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
    inet_ntop(AF_INET6, &six->sin6_addr, address, sizeof address);
    snprintf(zone, sizeof zone, "%s%%%s", address, at->ifa_name);
    assert_true(ls_hosts_is_here(zone));
    snprintf(zone, sizeof zone, "%s%%lo", address);
    assert_false(ls_hosts_is_here(zone));
    break;
  }
  freeifaddrs(all);
  if (!at) skip(); /* no interface here has one */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(all_hosts_that_come_at_once_are_taken, begin, end),
      cmocka_unit_test_setup_teardown(an_agent_that_comes_after_its_life_is_not_the_next_one_s, begin, end),
      cmocka_unit_test_setup_teardown(strangers_that_say_nothing_keep_hosts_out_for_a_second_at_most, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_host_that_answers_too_late_or_never_spoils_no_later_question, begin,
                                      end),
      cmocka_unit_test_setup_teardown(the_last_line_of_a_shell_is_reported_from_its_beginning,
                                      begin_complaining, end),
      cmocka_unit_test_setup_teardown(a_host_whose_shell_ends_before_its_last_lines_come_is_not_lost,
                                      begin_ended, end),
      cmocka_unit_test_setup_teardown(many_hosts_are_not_limited_by_the_number_of_open_files,
                                      begin_with_few_files, end_with_few_files),
      cmocka_unit_test(more_hosts_than_open_files_are_refused_with_the_limit_and_a_remedy),
      cmocka_unit_test(a_zone_is_the_name_of_an_interface),
      cmocka_unit_test(a_link_local_address_is_this_machine_on_its_own_interface_alone),
      cmocka_unit_test_setup_teardown(the_connection_of_an_agent_that_has_ended_wakes_nobody, begin, end),
      cmocka_unit_test_setup_teardown(
          an_agent_that_never_confirms_the_end_is_waited_for_no_longer_than_host_s, begin_brief, end),
      cmocka_unit_test_setup_teardown(a_host_that_comes_when_the_others_were_told_to_end_is_told_too, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_host_that_refuses_counts_as_lost_once_all_were_ready, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
