/* An agent in a process of its own; this test plays the supervisor and, by its line on the page, a rank. */
#include "supervise/agent.h"

#include "base/base.h"
#include "base/tcp.h"
#include "supervise/wire.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { RANKS = 2 };
static const char token[] = "0123456789abcdef0123456789abcdef";
static char folder[] = "/tmp/lockstep-agent-XXXXXX", page_dir[64], token_file[64];
static ls_wire_t wire = {.fd = -1};
static pid_t agent;
static int agent_stdin;

static int begin(void **state) {
  int stdin_pipe[2], port = 0;
  if (!mkdtemp(folder) || pipe(stdin_pipe) != 0) return -1;
  snprintf(page_dir, sizeof page_dir, "%s/page", folder);
  snprintf(token_file, sizeof token_file, "%s/hosts.token", folder);
  const int listener = ls_tcp_listen(0, 1, &port);
  if (listener < 0 || ls_file_replace(NULL, token_file, token, strlen(token)) != LS_OK) return -1;
  agent = fork();
  if (agent == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(stdin_pipe[1]);
    dup2(stdin_pipe[0], STDIN_FILENO);
    _exit(ls_agent_run(NULL) == LS_OK ? 0 : 1);
  }
  close(stdin_pipe[0]);
  agent_stdin = stdin_pipe[1];
  dprintf(agent_stdin, "%s 127.0.0.1 %d 0 1 %d 60000\n%s\n%s\n", token, port, RANKS, page_dir, token_file);
  struct pollfd connection = {.fd = listener, .events = POLLIN};
  poll(&connection, 1, -1);
  wire.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
  close(listener);
  return wire.fd < 0;
}

/* The next message of this kind. */
static void expect(const char *kind) {
  const char *message = "";
  for (ls_wire_received_t received; strcmp(message, kind) != 0;) {
    struct pollfd ready = {.fd = wire.fd, .events = POLLIN};
    received = ls_wire_receive(&wire, token, &message);
    assert_true(received == LS_WIRE_MESSAGE || received == LS_WIRE_NOTHING);
    if (received == LS_WIRE_NOTHING) poll(&ready, 1, -1);
  }
}

static int end(void **state) {
  int status;
  ls_wire_close(&wire);
  close(agent_stdin);
  const bool ended = waitpid(agent, &status, 0) == agent && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return ls_dir_remove(NULL, folder) == LS_OK && ended ? 0 : -1;
}

/* The supervisor passes speeds on to the host of rank 0. Where two of its hosts' names mean one machine, they come back. */
static void an_older_speed_that_comes_back_does_not_replace_that_of_a_rank_of_this_machine(void **state) {
  char elsewhere[64];
  ls_page_t *page, *old;
  ls_page_speed_look_t speed;
  snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
  expect("ready");
  assert_int_equal(ls_page_open(NULL, page_dir, RANKS, &page), LS_OK);
  assert_int_equal(ls_page_open(NULL, elsewhere, RANKS, &old), LS_OK);
  ls_page_begin(ls_page_line(page, 0), ls_clock_ns()); /* rank 0 runs here; rank 1 does not */
  for (int i = 0; i < LS_WIRE_SPEEDS; i++)
    for (int r = 0; r < RANKS; r++)
      ls_page_timed(old, r, 5000, 0);
  for (int i = 0; i < LS_WIRE_SPEEDS + 10; i++)
    ls_page_timed(page, 0, 1000, 0);
  for (int r = 0; r < RANKS; r++) {
    ls_wire_speed_t sent = {0};
    assert_true(ls_wire_send_speed(&wire, token, old, r, &sent));
  }
  assert_true(ls_wire_send(&wire, token, "beat"));
  expect("beat"); /* it has handled what came before */
  ls_page_speed_look(page, 0, LS_WIRE_SPEEDS, &speed);
  assert_int_equal(speed.timed, LS_WIRE_SPEEDS + 10);
  assert_int_equal(speed.own_ns[LS_WIRE_SPEEDS - 1], 1000);
  ls_page_speed_look(page, 1, LS_WIRE_SPEEDS, &speed);
  assert_int_equal(speed.timed, LS_WIRE_SPEEDS);
  assert_int_equal(speed.own_ns[0], 5000);
  assert_true(ls_wire_send(&wire, token, "end"));
  expect("bye");
  ls_page_close(page);
  ls_page_close(old);
}

TESTS(begin, end, an_older_speed_that_comes_back_does_not_replace_that_of_a_rank_of_this_machine)
