/* What is looked at when a rank hangs: here a rank is a child of this process, and NCCL a socket. */
#include "supervise/evidence.h"

#include "base/base.h"
#include "base/child.h"
#include "supervise/report.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

typedef struct {
  int listens;
  char heard[64];
} ras_t;

static void *answer(void *arg) {
  static const char status[] = "NCCL version 2.28.9\nJob summary\n  rank 1 at AllReduce #5812\n";
  ras_t *ras = arg;
  int fd = accept(ras->listens, NULL, NULL);
  ssize_t got = recv(fd, ras->heard, sizeof ras->heard - 1, 0);
  ras->heard[got > 0 ? got : 0] = '\0';
  for (size_t i = 0; i < sizeof status - 1; i++) /* in pieces */
    if (send(fd, status + i, 1, MSG_NOSIGNAL) != 1) break;
  close(fd);
  return NULL;
}

static int open_ras(ras_t *ras) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  ras->listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(ras->listens, (struct sockaddr *)&at, sizeof at), 0);
  assert_int_equal(getsockname(ras->listens, (struct sockaddr *)&at, &size), 0);
  return ntohs(at.sin_port);
}

static void nccl_is_asked_for_its_own_report(void **state) {
  ras_t ras;
  char name[64], text[1024], little[8];
  pthread_t thread;
  snprintf(name, sizeof name, "127.0.0.1:%d", open_ras(&ras));
  setenv("NCCL_RAS_ADDR", name, 1);
  ls_evidence_ras(0, text, sizeof text); /* nobody listens */
  assert_string_equal(text, "");
  assert_int_equal(listen(ras.listens, 1), 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_create(&thread, NULL, answer, &ras), 0);
    if (i == 0) {
      ls_evidence_ras(0, text, sizeof text);
      assert_non_null(strstr(text, "rank 1 at AllReduce #5812\n"));
    } else {
      ls_evidence_ras(0, little, sizeof little); /* as much as there is room for */
      assert_string_equal(little, "NCCL ve");
    }
    pthread_join(thread, NULL);
    assert_string_equal(ras.heard, "verbose status\n");
  }
  close(ras.listens);
  setenv("NCCL_RAS_ADDR", "no port", 1);
  ls_evidence_ras(0, text, sizeof text);
  assert_string_equal(text, "");
}

static void nccl_is_asked_where_the_environment_of_the_rank_says(void **state) {
  ras_t ras;
  char variable[64];
  pthread_t thread;
  pid_t rank;
  const char *const argv[] = {"sleep", "1000", NULL}, *const environment[] = {variable, NULL};
  const ls_child_spec_t spec = {.argv = argv, .environment = environment};
  snprintf(variable, sizeof variable, "NCCL_RAS_ADDR=[127.0.0.1]:%d", open_ras(&ras));
  assert_int_equal(listen(ras.listens, 1), 0);
  assert_int_equal(ls_child_start(&spec, &rank), 0);
  setenv("NCCL_RAS_ADDR", "no port", 1); /* of this process */
  assert_int_equal(pthread_create(&thread, NULL, answer, &ras), 0);
  json_t *process = ls_evidence_process(rank, true);
  const char *report = json_string_value(json_object_get(process, "nccl_ras"));
  assert_non_null(report);
  assert_non_null(strstr(report, "rank 1 at AllReduce #5812\n"));
  assert_int_equal(pthread_join(thread, NULL), 0);
  json_decref(process);
  kill(rank, SIGKILL);
  assert_int_equal(waitpid(rank, NULL, 0), rank);
  close(ras.listens);
}

static void rank_and_collectives_of_a_hang_are_named(void **state) {
  char folder[] = "/tmp/lockstep-evidence-XXXXXX";
  ls_rings_t *rings;
  assert_non_null(mkdtemp(folder));
  assert_int_equal(ls_rings_create(NULL, folder, 2, &rings), LS_OK);
  ls_ring_t *first = ls_rings_at(rings, 0), *second = ls_rings_at(rings, 1);
  uint64_t mark = ls_ring_enter(second, LS_RING_DEVICE, 5812, "all-reduce", "gradients 1", "", 4000000, 1);
  ls_ring_leave(second, mark, 2);
  ls_ring_enter(first, LS_RING_DEVICE, 5813, "all-reduce", "gradients 0", "", 4000000, 3);
  const pid_t rank = fork(); /* a debugger stops it while it looks */
  while (rank == 0)
    pause();
  const ls_page_look_t look[] = {{.step = 12, .pid = 1}, {.step = 11, .pid = rank}};
  ls_fault_t fault = {.kind = LS_FAULT_HANG, .rank = 0, .at = look[0]};
  ls_evidence_differ(rings, look, &fault);
  assert_int_equal(fault.rank, 1);
  assert_int_equal(fault.at.step, 11);
  assert_int_equal(fault.missing_count, 1);
  assert_string_equal(fault.differ,
                      "rank 0 waits in all-reduce \"gradients 0\" #5813 (4 MB), rank 1 was last seen in "
                      "all-reduce \"gradients 1\" #5812 (4 MB)");
  /* what the page told, or a process that is stopped, stays */
  ls_fault_t told = {.kind = LS_FAULT_HANG, .rank = 0, .stopped = true, .at = look[0]};
  ls_evidence_differ(rings, look, &told);
  assert_int_equal(told.rank, 0);
  json_t *all = ls_evidence_hang(rings, ls_evidence_process(fault.at.pid, false));
  const json_t *threads = json_object_get(all, "threads"), *ranks = json_object_get(all, "collectives");
  assert_int_equal(json_array_size(ranks), 2);
  assert_int_equal(json_integer_value(json_object_get(json_array_get(json_array_get(ranks, 0), 0), "number")),
                   5813);
  assert_in_range(json_array_size(threads), 1, 100);
  assert_string_equal(json_string_value(json_object_get(json_array_get(threads, 0), "name")),
                      "test_supervise_");
  json_decref(all);
  kill(rank, SIGKILL);
  assert_int_equal(waitpid(rank, NULL, 0), rank);
  ls_rings_close(rings);
  assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
}

/* Another host's threads, stacks and collectives. */
static void text_of_another_host_does_not_act_on_a_terminal(void **state) {
  char folder[] = "/tmp/lockstep-evidence-XXXXXX", collective[256], path[64], *text;
  ls_ring_entry_t e = {.number = 1, .kind = "\033]0;a\a", .name = "\033[2J"};
  size_t size;
  assert_non_null(mkdtemp(folder));
  ls_ring_text(&e, collective, sizeof collective);
  assert_null(strchr(collective, '\033'));
  json_t *evidence =
      json_pack("{s:s, s:[{s:s}]}", "stacks", "#0 \033[31mred\n#1 main", "threads", "name", "\033[5mblinks");
  ls_life_end_t life = {.fault = {.kind = LS_FAULT_HANG}, .ranks = 1, .evidence = evidence};
  const ls_decision_t decision = {.why = "enough"};
  const ls_restarts_t next = {0};
  ls_report_t report = {folder, 1, json_array()};
  ls_report_life(&report, &life, &decision, &next);
  assert_int_equal(ls_report_write(NULL, &report, "failed", 9), LS_OK);
  snprintf(path, sizeof path, "%s/supervise.txt", folder);
  assert_int_equal(ls_file_read(NULL, path, 1 << 20, &text, &size), LS_OK);
  assert_null(strchr(text, '\033'));
  assert_non_null(strstr(text, "blinks"));
  assert_non_null(strstr(text, "red\n#1 main\n"));
  ls_free(text);
  json_decref(evidence);
  json_decref(report.lives);
  assert_int_equal(ls_dir_remove(NULL, folder), LS_OK);
}

TESTS(NULL, NULL, nccl_is_asked_for_its_own_report, nccl_is_asked_where_the_environment_of_the_rank_says,
      text_of_another_host_does_not_act_on_a_terminal, rank_and_collectives_of_a_hang_are_named)
