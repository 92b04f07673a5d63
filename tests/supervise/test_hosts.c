/* Agents of many hosts, played by this test: what a remote shell would start is `cat`, which ends with its stdin. */
#include "supervise/hosts.h"

#include "base/base.h"
#include "base/tcp.h"
#include "supervise/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { HOSTS = 40, STRANGERS = HOSTS + 16, SECOND = 1000000000 };
static char folder[32], token[LS_WEB_TOKEN_BYTES];
static ls_host_t name[HOSTS];
static const ls_hosts_config_t list = {.count = HOSTS, .host = name};
static ls_supervise_config_t config;
static ls_supervise_t spec = {.config = &config, .remote_shell = "sh -c cat", .shared = folder};
static ls_hosts_t *hosts;
static ls_page_t *page;
static ls_wire_t agent[HOSTS];

static int begin(void **state) {
  char *text = NULL, path[64];
  size_t size;
  (void)state;
  config = (ls_supervise_config_t){.start_s = 60, .host_s = 60};
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
  if (ls_page_open(NULL, folder, HOSTS, &page) != LS_OK || ls_hosts_open(NULL, &spec, &hosts) != LS_OK ||
      ls_hosts_begin(hosts, &spec.places, page, NULL) != LS_OK ||
      ls_file_read(NULL, path, LS_WEB_TOKEN_BYTES, &text, &size) != LS_OK)
    return -1;
  snprintf(token, sizeof token, "%s", text);
  ls_free(text);
  return 0;
}

static int end(void **state) {
  (void)state;
  for (int i = 0; i < HOSTS; i++)
    ls_wire_close(&agent[i]); /* their hosts are lost, so nothing is waited for */
  ls_hosts_end(hosts);
  ls_hosts_close(hosts);
  ls_page_close(page);
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
  assert_true(ls_wire_send(&agent[host], token, "hello %d %d", LS_WIRE_VERSION, host));
  assert_true(ls_wire_send(&agent[host], token, "ready"));
}

static void all_hosts_that_come_at_once_are_taken(void **state) {
  ls_fault_t fault;
  (void)state;
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  assert_false(ls_hosts_lost(hosts, &fault));
  assert_true(ls_hosts_ready(hosts));
}

static void strangers_that_say_nothing_keep_hosts_out_for_a_second_at_most(void **state) {
  int stranger[STRANGERS];
  (void)state;
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
  (void)state;
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

/* Their answers lie in the sockets before the questions are asked. */
static void a_host_that_answers_too_late_or_never_spoils_no_later_question(void **state) {
  (void)state;
  for (int i = 0; i < HOSTS; i++)
    introduce(i);
  ls_hosts_serve(hosts, ls_clock_ns());
  ls_hosts_fetch_rings(hosts);  /* nobody answers */
  for (int i = 1; i < 3; i++) { /* the second is not asked */
    assert_true(ls_wire_send(&agent[i], token, "answered rings"));
    assert_true(ls_wire_send_text(&agent[i], token, "{\"threads\": 7}"));
    assert_true(ls_wire_send(&agent[i], token, "answered process %d", i));
  }
  const int64_t begin_ns = ls_clock_ns();
  json_t *process = ls_hosts_fetch_process(hosts, 1);
  assert_true(ls_clock_ns() - begin_ns < 7 * (int64_t)SECOND); /* it does not wait for the others */
  assert_int_equal(json_integer_value(json_object_get(process, "threads")), 7);
  json_decref(process);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(all_hosts_that_come_at_once_are_taken, begin, end),
      cmocka_unit_test_setup_teardown(strangers_that_say_nothing_keep_hosts_out_for_a_second_at_most, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_host_that_answers_too_late_or_never_spoils_no_later_question, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_host_whose_shell_ends_before_its_last_lines_come_is_not_lost,
                                      begin_ended, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
