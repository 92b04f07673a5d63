/* The data are read once per node, whatever happens meanwhile. Ranks are threads of this process. */
#include "support/threads.h"
#include "train/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { RANKS = 3 };
static const int64_t deadline_ns = 1000000000;

typedef struct {
  const ls_train_source_t *source;
  int64_t slow_ns; /* so long takes the message about a date, in the thread that reads */
  ls_status_t given, status;
  ls_trainer_t trainer;
  ls_world_t world;
  _Atomic int errors, warnings, dates;
} rank_t;

static void on_log(void *user, ls_log_level_t level, const char *message) {
  rank_t *rank = user;
  rank->errors += level == LS_LOG_ERROR;
  rank->warnings += level == LS_LOG_WARN;
  if (!strstr(message, "holds dates")) return;
  rank->dates++;
  int64_t until = ls_clock_ns() + rank->slow_ns;
  while (ls_clock_ns() < until)
    usleep(1000);
}

static void *rank_main(void *arg) {
  rank_t *rank = arg;
  rank->status = ls_trainer_read(&rank->trainer, rank->source, rank->given);
  return NULL;
}

/* All ranks read; what they got stays in `rank` until let_go. */
static void read_all(const ls_train_source_t *source, rank_t rank[RANKS]) {
  ls_comm_t *comms[RANKS];
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_comm_sim_create(ctx, RANKS, deadline_ns, comms), LS_OK);
  for (int r = 0; r < RANKS; r++) {
    if (!rank[r].source) rank[r].source = source;
    rank[r].world.comm = comms[r];
    rank[r].trainer.ctx = ls_ctx_create(on_log, &rank[r]);
    rank[r].trainer.world = &rank[r].world;
  }
  threads_run(RANKS, rank_main, rank, sizeof *rank);
  for (int r = 0; r < RANKS; r++)
    ls_comm_destroy(comms[r]);
  ls_ctx_destroy(ctx);
}

static void let_go(rank_t rank[RANKS]) {
  for (int r = 0; r < RANKS; r++) {
    ls_dataset_close(rank[r].trainer.dataset);
    ls_ctx_destroy(rank[r].trainer.ctx);
  }
}

static char path[64];
static const char *const target[] = {"b"};
static const ls_data_config_t table = {
    .kind = LS_DATA_CSV, .path = path, .target = {1, target}, .normalize = true};
static const ls_train_source_t source = {.config = &table, .want = {.inputs = 1, .outputs = 1}, .seed = 1};

static int write_table(void **state) {
  (void)state;
  static const char text[] = "day,a,b\n2001-01-01,1,2\n2001-01-02,3,5\n2001-01-03,4,9\n";
  strcpy(path, "/tmp/lockstep-read-XXXXXX");
  int fd = mkstemp(path);
  bool good = fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1;
  return close(fd) || !good;
}

static int remove_table(void **state) {
  (void)state;
  return unlink(path);
}

static void one_rank_reads_and_the_others_map(void **state) {
  (void)state;
  rank_t rank[RANKS] = {0};
  read_all(&source, rank);
  for (int r = 0; r < RANKS; r++) {
    const ls_dataset_t *d = rank[r].trainer.dataset;
    assert_int_equal(rank[r].status, LS_OK);
    assert_int_equal(rank[r].dates, r == 0);
    assert_int_equal(rank[r].trainer.sharing, RANKS);
    assert_non_null(d->mapping);
    assert_int_equal(d->rows, 3);
    assert_memory_equal(d->features, rank[0].trainer.dataset->features, 3 * sizeof(float));
    assert_string_equal(d->columns[0], "a");
  }
  let_go(rank);
}

/* The others used to wait for the end of reading, and no longer than the deadline. */
static void reading_may_take_longer_than_the_deadline(void **state) {
  (void)state;
  rank_t rank[RANKS] = {{.slow_ns = 2 * deadline_ns}};
  read_all(&source, rank);
  for (int r = 0; r < RANKS; r++)
    assert_int_equal(rank[r].status, LS_OK);
  let_go(rank);
}

static void a_fault_is_reported_once(void **state) {
  (void)state;
  ls_data_config_t missing = table;
  ls_train_source_t wrong = source;
  missing.path = "/nowhere/table.csv";
  wrong.config = &missing;
  rank_t rank[RANKS] = {0};
  read_all(&wrong, rank);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(rank[r].status, LS_ERR_NOT_FOUND);
    assert_int_equal(rank[r].errors, r == 0);
    assert_null(rank[r].trainer.dataset);
  }
  let_go(rank);
}

/* The others used to get the samples of the first rank, without a word. */
static void ranks_of_a_node_that_mean_other_data(void **state) {
  (void)state;
  ls_data_config_t other = table;
  ls_train_source_t another = source;
  other.path = "/proc/self/comm";
  another.config = &other;
  rank_t rank[RANKS] = {{0}, {0}, {.source = &another}};
  read_all(&source, rank);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(rank[r].status, LS_ERR_CONFIG);
    assert_int_equal(rank[r].dates, 0);
    assert_null(rank[r].trainer.dataset);
  }
  assert_non_null(strstr(ls_ctx_error(rank[2].trainer.ctx), "is to read /proc/self/comm"));
  assert_non_null(
      strstr(ls_ctx_error(rank[2].trainer.ctx), "rank 0 on the same node reads /tmp/lockstep-read-"));
  assert_non_null(strstr(ls_ctx_error(rank[2].trainer.ctx), " (53 bytes)"));
  let_go(rank);
}

/* One that cannot even begin does not leave the others waiting. */
static void a_rank_that_failed_before(void **state) {
  (void)state;
  rank_t rank[RANKS] = {{0}, {.given = LS_ERR_CORRUPT}};
  read_all(&source, rank);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(rank[r].status, LS_ERR_CORRUPT);
    assert_null(rank[r].trainer.dataset);
  }
  let_go(rank);
}

/* A process of its own, which may make no file longer than the limit. */
static int without_shared_memory(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 64;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  rank_t rank[RANKS] = {0};
  read_all(&source, rank);
  for (int r = 0; r < RANKS; r++) {
    const ls_dataset_t *d = rank[r].trainer.dataset;
    if (rank[r].status != LS_OK || rank[r].dates != 1 || rank[r].trainer.sharing != 1) return 2;
    if (!d || d->mapping || memcmp(d->features, rank[0].trainer.dataset->features, 3 * sizeof(float)))
      return 3;
    if (rank[r].warnings != (r == 0) || rank[r].errors != 0) return 4;
  }
  let_go(rank);
  return 0;
}

static void without_shared_memory_every_rank_reads(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) _exit(without_shared_memory());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
  signal(SIGXFSZ, SIG_IGN);
  const struct CMUnitTest tests[] = {cmocka_unit_test(without_shared_memory_every_rank_reads),
                                     cmocka_unit_test(one_rank_reads_and_the_others_map),
                                     cmocka_unit_test(reading_may_take_longer_than_the_deadline),
                                     cmocka_unit_test(a_fault_is_reported_once),
                                     cmocka_unit_test(ranks_of_a_node_that_mean_other_data),
                                     cmocka_unit_test(a_rank_that_failed_before)};
  return cmocka_run_group_tests(tests, write_table, remove_table);
}
