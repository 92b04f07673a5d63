/* A dataset in memory that processes share: the same samples, read-only, and a way out where there is no such
 * memory. */
#include "common.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static const char table[] = "late,a,b,c\n9,1,2,0.5\n8,3,4,1\n7,5,6,2.5\n6,7,8,-1\n5,9,10,3\n";
static const char *const target[] = {"b"}, *const columns[] = {"c", "late", "a"};

static ls_dataset_t *open_table(ls_ctx_t *ctx) {
  ls_data_config_t config = {.kind = LS_DATA_CSV,
                             .path = file_make("table.csv", table, sizeof table - 1),
                             .target = {1, target},
                             .columns = {3, columns},
                             .validation = 0.2,
                             .normalize = true};
  ls_data_want_t want = {.inputs = 3, .outputs = 1};
  ls_dataset_t *d;
  assert_int_equal(ls_dataset_open(ctx, &config, NULL, &want, 3, NULL, &d), LS_OK);
  return d;
}

static const char *path_of(int fd) {
  static char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", getpid(), fd);
  return path;
}

static void assert_same(const ls_dataset_t *a, const ls_dataset_t *b) {
  char x[LS_DATASET_HASH_BYTES], y[LS_DATASET_HASH_BYTES];
  ls_dataset_hash(a, 0, a->rows, x);
  ls_dataset_hash(b, 0, b->rows, y);
  assert_string_equal(x, y);
  assert_string_equal(a->source, b->source);
  for (int c = 0; c < 3; c++) {
    assert_string_equal(a->columns[c], columns[c]);
    assert_string_equal(b->columns[c], columns[c]);
    assert_true(a->norm.mean[c] == b->norm.mean[c]);
    assert_true((double)a->norm.scale[c] == (double)b->norm.scale[c]);
  }
  assert_true(a->norm.target_mean[0] == b->norm.target_mean[0]);
  assert_true((double)a->norm.target_scale[0] == (double)b->norm.target_scale[0]);
  for (int64_t i = 0; i < a->train_count; i++)
    assert_int_equal(ls_dataset_row(a, LS_PART_TRAIN, i), ls_dataset_row(b, LS_PART_TRAIN, i));
}

static void the_same_samples_for_all(void **state) {
  ls_dataset_t *read = open_table(said.ctx), *mine = open_table(said.ctx), *other;
  int fd;
  assert_int_equal(ls_dataset_share(said.ctx, mine, &fd), LS_OK);
  assert_true(fd >= 0 && mine->mapping != NULL);
  assert_int_equal(ls_dataset_map(said.ctx, path_of(fd), &other), LS_OK);
  assert_same(mine, read);
  assert_same(other, read);
  /* The numbers are in memory once. */
  assert_true(other->features != mine->features);
  assert_memory_equal(other->features, read->features, 5 * 3 * sizeof(float));
  /* Nobody can write to it, not even the one who made it. */
  assert_int_equal(pwrite(fd, "x", 1, 0), -1);
  assert_true(mmap(NULL, 64, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
  assert_int_equal(ftruncate(fd, 0), -1);
  close(fd);
  ls_dataset_close(mine); /* the others keep theirs */
  assert_same(other, read);
  ls_dataset_close(other);
  ls_dataset_close(read);
}

/* Runs in a process of its own, with a limit on files: the samples stay where they are, and a message says so. */
static int limited(void) {
  ls_dataset_t *d = open_table(said.ctx);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 64;
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
  const void *before = d->features;
  int fd = 0;
  if (ls_dataset_share(said.ctx, d, &fd) != LS_OK || fd != -1) return 2;
  if (d->mapping || d->features != before) return 3;
  if (!strstr(said.messages, "reads the samples for itself and keeps a copy")) return 4;
  ls_dataset_close(d);
  return 0;
}

static void without_shared_memory_every_rank_has_its_own(void **state) {
  pid_t child = fork();
  if (child == 0) _exit(limited());
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void what_is_no_dataset_is_refused(void **state) {
  char block[8192] = {0};
  ls_dataset_t *d;
  assert_refused(ls_dataset_map(said.ctx, file_make("large", block, sizeof block), &d), LS_ERR_DATA,
                 "these are no shared samples");
  assert_int_equal(ls_dataset_map(said.ctx, file_make("short", block, 7), &d), LS_ERR_IO);
  assert_refused(ls_dataset_map(said.ctx, "/nowhere", &d), LS_ERR_IO,
                 "/nowhere: no shared samples: No such file");
}

static ls_status_t share_and_map(ls_ctx_t *ctx, void *arg) {
  (void)arg;
  ls_ctx_t *whole = ls_ctx_create(NULL, NULL); /* in which nothing fails */
  ls_dataset_t *d = open_table(whole), *other = NULL;
  int fd;
  assert_int_equal(ls_dataset_share(whole, d, &fd), LS_OK);
  ls_status_t status = ls_dataset_map(ctx, path_of(fd), &other);
  close(fd);
  ls_dataset_close(other);
  ls_dataset_close(d);
  ls_ctx_destroy(whole);
  return status;
}

static void every_allocation_may_fail(void **state) {
  each_alloc_fails(share_and_map, NULL);
}

static int with_signal_ignored(void **state) {
  signal(SIGXFSZ, SIG_IGN);
  return said_open(state);
}

TESTS(with_signal_ignored, said_close, the_same_samples_for_all, without_shared_memory_every_rank_has_its_own,
      what_is_no_dataset_is_refused, every_allocation_may_fail)
