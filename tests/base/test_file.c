/* Files and directories: contents, limits, durability's visible half, and errors that name the path. */
#include "capture.h"
#include "support/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64]; /* of this test */
static char path_buffer[4][512];

/* root/name; four at a time stay valid. */
static const char *at(const char *name) {
  static int next;
  char *path = path_buffer[next++ % 4];
  snprintf(path, sizeof path_buffer[0], "%s/%s", root, name);
  return path;
}

static int setup(void **state) {
  strcpy(root, "/tmp/lockstep-test-XXXXXX");
  return mkdtemp(root) ? capture_setup(state) : -1;
}

static int teardown(void **state) {
  capture_t *c = *state;
  int failed = ls_dir_remove(c->ctx, root) != LS_OK || ls_path_exists(root);
  return capture_teardown(state) || failed;
}

static void expect_content(capture_t *c, const char *path, const char *content) {
  char *bytes;
  size_t size;
  assert_int_equal(ls_file_read(c->ctx, path, 1 << 20, &bytes, &size), LS_OK);
  assert_int_equal(size, strlen(content));
  assert_string_equal(bytes, content); /* also says: a NUL follows */
  ls_free(bytes);
}

static void write_and_read(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_file_write(c->ctx, at("f"), "hello", 5), LS_OK);
  expect_content(c, at("f"), "hello");
  assert_int_equal(ls_file_write(c->ctx, at("f"), "x", 1), LS_OK);
  expect_content(c, at("f"), "x");
  assert_int_equal(ls_file_write(c->ctx, at("empty"), "", 0), LS_OK);
  expect_content(c, at("empty"), "");
}

static void limits(void **state) {
  capture_t *c = *state;
  char *bytes = NULL;
  size_t size;
  assert_int_equal(ls_file_write(c->ctx, at("f"), "12345", 5), LS_OK);
  assert_int_equal(ls_file_read(c->ctx, at("f"), 5, &bytes, &size), LS_OK);
  ls_free(bytes);
  bytes = NULL;
  assert_int_equal(ls_file_read(c->ctx, at("f"), 4, &bytes, &size), LS_ERR_IO);
  assert_null(bytes);
  assert_non_null(strstr(c->text, at("f")));
  assert_non_null(strstr(c->text, "limit of 4 bytes"));
}

/* Files of /proc say that they have 0 bytes, as do files that are growing. */
static void files_longer_than_they_say(void **state) {
  capture_t *c = *state;
  char *bytes;
  size_t size;
  assert_int_equal(ls_file_read(c->ctx, "/proc/self/status", 1 << 20, &bytes, &size), LS_OK);
  assert_true(size > 100 && strlen(bytes) == size);
  ls_free(bytes);
  assert_int_equal(ls_file_read(c->ctx, "/proc/self/status", 50, &bytes, &size), LS_ERR_IO);
}

static void what_is_no_file(void **state) {
  capture_t *c = *state;
  char *bytes;
  size_t size;
  assert_int_equal(ls_file_read(c->ctx, at("none"), 10, &bytes, &size), LS_ERR_NOT_FOUND);
  assert_non_null(strstr(c->text, at("none")));
  capture_clear(c);
  assert_int_equal(ls_file_read(c->ctx, root, 10, &bytes, &size), LS_ERR_IO);
  assert_non_null(strstr(c->text, "a directory"));
  assert_int_equal(mkfifo(at("pipe"), 0600), 0);
  assert_int_equal(ls_file_read(c->ctx, at("pipe"), 10, &bytes, &size), LS_ERR_IO); /* and does not block */
  assert_int_equal(ls_file_read(c->ctx, "/dev/null", 10, &bytes, &size), LS_ERR_IO);
  capture_clear(c);
  assert_int_equal(ls_file_expect(c->ctx, at("pipe")), LS_ERR_IO);
  assert_non_null(strstr(c->text, "a special file, a regular file was expected"));
  assert_int_equal(ls_file_expect(c->ctx, at("none")), LS_OK);
  assert_int_equal(ls_file_expect(c->ctx, "/proc/self/status"), LS_OK);
}

/* Replacing a file leaves no other file. */
static void expect_only(capture_t *c, const char *name) {
  char **names;
  int count;
  assert_int_equal(ls_dir_list(c->ctx, root, &names, &count), LS_OK);
  assert_int_equal(count, 1);
  assert_string_equal(names[0], name);
  ls_free(names);
}

static void full_disk(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_file_write(c->ctx, "/dev/full", "12345", 5), LS_ERR_NO_SPACE);
  assert_true(ls_path_exists("/dev/full")); /* a device is never removed */
  assert_non_null(strstr(c->text, "/dev/full"));
}

/* Renaming over a device would take it away from the whole machine. */
static void a_device_is_never_replaced(void **state) {
  capture_t *c = *state;
  int ends[2];
  char path[32], seen[4] = "";
  assert_int_equal(pipe(ends), 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
  assert_int_equal(ls_file_replace(c->ctx, path, "abc", 3), LS_OK);
  assert_int_equal(read(ends[0], seen, sizeof seen), 3);
  assert_string_equal(seen, "abc");
  close(ends[0]);
  close(ends[1]);
  assert_int_equal(ls_file_replace(c->ctx, root, "abc", 3), LS_ERR_IO); /* a directory */
  assert_true(ls_path_exists(root));
}

/* The link was once replaced by a file, and what it pointed to stayed as it was. */
static void a_symbolic_link_stays_and_its_file_is_replaced(void **state) {
  capture_t *c = *state;
  struct stat info;
  char first[300], text[64] = "", door[64];
  assert_int_equal(ls_dir_make(c->ctx, at("real")), LS_OK);
  assert_int_equal(ls_dir_make(c->ctx, at("links")), LS_OK);
  assert_int_equal(symlink("../real/f", at("links/second")), 0); /* relative, and to nothing yet */
  snprintf(first, sizeof first, "%s", at("links/second"));
  assert_int_equal(symlink(first, at("links/first")), 0);
  for (int i = 0; i < 2; i++) {
    text[0] = (char)('a' + i);
    assert_int_equal(ls_file_replace(c->ctx, at("links/first"), text, 1), LS_OK);
    expect_content(c, at("real/f"), text);
    assert_int_equal(lstat(at("links/first"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(at("links/second"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
  }
  /* a link to an open file, as /dev/stdout is one, writes to the file that is open */
  int fd = open(at("real/f"), O_RDWR);
  assert_int_equal(symlink("/proc/self/fd", at("links/fd")), 0);
  snprintf(door, sizeof door, "links/fd/%d", fd);
  assert_int_equal(ls_file_replace(c->ctx, at(door), "opened", 6), LS_OK);
  assert_int_equal(read(fd, text, sizeof text), 6);
  close(fd);
  expect_content(c, at("real/f"), "opened");
  assert_int_equal(symlink("loop", at("loop")), 0);
  assert_int_equal(ls_file_replace(c->ctx, at("loop"), "x", 1), LS_ERR_IO);
}

/* A file-size limit makes a write fail half way, as a full disk does; SIGXFSZ is ignored by main. */
static void torn_writes_leave_nothing(void **state) {
  capture_t *c = *state;
  static char big[100000];
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 5000;
  assert_int_equal(ls_file_write(c->ctx, at("kept"), "old", 3), LS_OK);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  ls_status_t plain = ls_file_write(c->ctx, at("f"), big, sizeof big);
  ls_status_t replaced = ls_file_replace(c->ctx, at("kept"), big, sizeof big);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(plain, LS_ERR_IO);
  assert_int_equal(replaced, LS_ERR_IO);
  assert_false(ls_path_exists(at("f")));
  expect_only(c, "kept");
  expect_content(c, at("kept"), "old");
}

static void replace(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_file_replace(c->ctx, at("f"), "one", 3), LS_OK);
  expect_content(c, at("f"), "one");
  int old = open(at("f"), O_RDONLY);
  assert_int_equal(ls_file_replace(c->ctx, at("f"), "two", 3), LS_OK);
  expect_content(c, at("f"), "two");
  char seen[3];
  assert_int_equal(read(old, seen, 3), 3); /* who had it open sees the old file, whole */
  assert_memory_equal(seen, "one", 3);
  close(old);
  expect_only(c, "f");
}

/* Files are as open to others as any new file is. */
static void replace_keeps_to_the_mask(void **state) {
  capture_t *c = *state;
  struct stat info;
  mode_t before = umask(027);
  ls_status_t status = ls_file_replace(c->ctx, at("f"), "one", 3);
  umask(before);
  assert_int_equal(status, LS_OK);
  assert_int_equal(stat(at("f"), &info), 0);
  assert_int_equal(info.st_mode & 0777, 0640);
}

enum { WRITERS = 4, ROUNDS = 50, TEXT_BYTES = 20000 };

static void *replace_often(void *failed) {
  char text[TEXT_BYTES], path[512];
  snprintf(path, sizeof path, "%s/f", root);
  for (int i = 0; i < ROUNDS; i++) {
    memset(text, 'a' + i % 26, sizeof text);
    if (ls_file_replace(NULL, path, text, sizeof text) != LS_OK) *(bool *)failed = true;
  }
  return NULL;
}

/* They once shared path.tmp: renames failed, and half of one text stood in another. */
static void several_writers(void **state) {
  capture_t *c = *state;
  bool failed[WRITERS] = {false};
  threads_run(WRITERS, replace_often, failed, sizeof *failed);
  for (int i = 0; i < WRITERS; i++)
    assert_false(failed[i]);
  char *bytes;
  size_t size;
  assert_int_equal(ls_file_read(c->ctx, at("f"), TEXT_BYTES, &bytes, &size), LS_OK);
  assert_int_equal(size, TEXT_BYTES);
  for (size_t i = 1; i < size; i++)
    assert_int_equal(bytes[i], bytes[0]);
  ls_free(bytes);
  expect_only(c, "f");
}

static void replace_in_the_way(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_dir_make(c->ctx, at("dir/below")), LS_OK);
  assert_int_equal(ls_file_replace(c->ctx, at("dir"), "x", 1), LS_ERR_IO);
  expect_only(c, "dir");
  assert_int_equal(ls_file_replace(c->ctx, at("no/such/f"), "x", 1), LS_ERR_NOT_FOUND);
}

static void names_without_a_directory(void **state) {
  capture_t *c = *state;
  char before[4096];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(root), 0);
  assert_int_equal(ls_file_replace(c->ctx, "f", "x", 1), LS_OK);
  assert_int_equal(chdir(before), 0);
  expect_content(c, at("f"), "x");
}

static void make_directories(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_dir_make(c->ctx, at("a/b//c/")), LS_OK);
  assert_int_equal(ls_dir_make(c->ctx, at("a/b/c")), LS_OK);
  assert_true(ls_path_exists(at("a/b/c")));
  assert_int_equal(ls_file_write(c->ctx, at("a/f"), "", 0), LS_OK);
  assert_int_equal(ls_dir_make(c->ctx, at("a/f")), LS_ERR_IO);
  assert_non_null(strstr(c->text, "a/f: exists and is not a directory"));
  assert_int_equal(ls_dir_make(c->ctx, at("a/f/g")), LS_ERR_IO);
  assert_int_equal(ls_dir_make(c->ctx, ""), LS_ERR_ARGUMENT);
  assert_int_equal(ls_dir_sync(c->ctx, at("a")), LS_OK);
  assert_int_equal(ls_dir_sync(c->ctx, at("none")), LS_ERR_NOT_FOUND);
}

static void remove_directories(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_dir_make(c->ctx, at("out/side")), LS_OK);
  assert_int_equal(ls_file_write(c->ctx, at("out/side/f"), "x", 1), LS_OK);
  assert_int_equal(ls_dir_make(c->ctx, at("in/deep/er")), LS_OK);
  assert_int_equal(ls_file_write(c->ctx, at("in/deep/f"), "x", 1), LS_OK);
  assert_int_equal(symlink(at("out"), at("in/link")), 0);
  assert_int_equal(ls_dir_remove(c->ctx, at("in")), LS_OK);
  assert_false(ls_path_exists(at("in")));
  expect_content(c, at("out/side/f"), "x"); /* links are not followed */
  assert_int_equal(ls_dir_remove(c->ctx, at("in")), LS_OK);
  assert_int_equal(ls_dir_remove(c->ctx, at("out/side/f")), LS_OK);
  assert_int_equal(c->count, 0);
}

/* Removal lists a directory by this call; `swap` is done just before, as another process could. */
static void (*swap)(void);

int scandirat(int above, const char *name, struct dirent ***entry, int (*want)(const struct dirent *),
              int (*order)(const struct dirent **, const struct dirent **)) {
  char path[600];
  void (*now)(void) = swap;
  swap = NULL;
  if (now) now();
  if (above == AT_FDCWD) return scandir(name, entry, want, order);
  snprintf(path, sizeof path, "/proc/self/fd/%d/%s", above, name);
  return scandir(path, entry, want, order);
}

static void a_link_in_its_place(void) {
  assert_int_equal(rename(at("in"), at("aside")), 0);
  assert_int_equal(symlink(at("out"), at("in")), 0);
}

static void a_link_that_is_swapped_in_is_not_followed(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_dir_make(c->ctx, at("out")), LS_OK);
  assert_int_equal(ls_file_write(c->ctx, at("out/f"), "x", 1), LS_OK);
  assert_int_equal(ls_dir_make(c->ctx, at("in")), LS_OK);
  swap = a_link_in_its_place;
  ls_dir_remove(c->ctx, at("in"));
  assert_null(swap);
  expect_content(c, at("out/f"), "x");
}

static void a_directory_of_this_user_alone(void **state) {
  capture_t *c = *state;
  struct stat info;
  int fd;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(ls_dir_own(c->ctx, at("own"), &fd), LS_OK);
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    close(fd);
  }
  assert_int_equal(symlink(at("own"), at("link")), 0);
  assert_int_equal(ls_file_write(c->ctx, at("f"), "x", 1), LS_OK);
  assert_int_equal(mkdir(at("theirs"), 0777), 0);
  const bool root_user = chown(at("theirs"), 12345, (gid_t)-1) == 0;
  const char *const wrong[] = {at("link"), at("f"), root_user ? at("theirs") : "/"};
  for (int i = 0; i < LS_COUNT(wrong); i++) {
    capture_clear(c);
    assert_int_equal(ls_dir_own(c->ctx, wrong[i], &fd), LS_ERR_IO);
    assert_int_equal(fd, -1);
    assert_non_null(strstr(c->text, "is not a directory of this user; remove it"));
  }
}

static void list_directories(void **state) {
  capture_t *c = *state;
  char **names;
  int count;
  assert_int_equal(ls_dir_list(c->ctx, root, &names, &count), LS_OK);
  assert_int_equal(count, 0);
  ls_free(names);
  for (int i = 99; i >= 0; i--) {
    char name[32];
    snprintf(name, sizeof name, "entry-%03d-with-a-name", i);
    assert_int_equal(ls_file_write(c->ctx, at(name), "", 0), LS_OK);
  }
  assert_int_equal(ls_dir_list(c->ctx, root, &names, &count), LS_OK);
  assert_int_equal(count, 100);
  assert_string_equal(names[0], "entry-000-with-a-name");
  for (int i = 1; i < count; i++)
    assert_true(strcmp(names[i - 1], names[i]) < 0);
  ls_free(names);
  assert_int_equal(ls_dir_list(c->ctx, at("none"), &names, &count), LS_ERR_NOT_FOUND);
  assert_non_null(strstr(c->text, at("none")));
}

static void joins(void **state) {
  capture_t *c = *state;
  static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"},      {"/", "b", "/b"},
                                         {"", "b", "b"},    {"a/b", "/etc", "/etc"}, {"a", "", "a/"}};
  for (int i = 0; i < LS_COUNT(cases); i++) {
    char *joined = ls_path_join(c->ctx, cases[i][0], cases[i][1]);
    assert_string_equal(joined, cases[i][2]);
    ls_free(joined);
  }
}

static ls_status_t use_all(capture_t *c) {
  char *bytes, **names;
  size_t size;
  int count;
  ls_status_t status = ls_dir_make(c->ctx, at("x/y"));
  if (status == LS_OK) status = ls_file_replace(c->ctx, at("x/y/f"), "text", 4);
  if (status == LS_OK && (status = ls_file_read(c->ctx, at("x/y/f"), 10, &bytes, &size)) == LS_OK)
    ls_free(bytes);
  if (status == LS_OK && (status = ls_dir_list(c->ctx, at("x"), &names, &count)) == LS_OK) ls_free(names);
  if (status == LS_OK) status = ls_dir_remove(c->ctx, at("x"));
  return status;
}

static void allocation_failures(void **state) {
  assert_true(capture_fail_each_alloc(*state, use_all) >= 8);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
int main(void) {
  signal(SIGXFSZ, SIG_IGN);
  const struct CMUnitTest tests[] = {
      TEST(write_and_read),
      TEST(limits),
      TEST(files_longer_than_they_say),
      TEST(what_is_no_file),
      TEST(full_disk),
      TEST(a_device_is_never_replaced),
      TEST(a_symbolic_link_stays_and_its_file_is_replaced),
      TEST(torn_writes_leave_nothing),
      TEST(replace),
      TEST(replace_keeps_to_the_mask),
      TEST(several_writers),
      TEST(replace_in_the_way),
      TEST(names_without_a_directory),
      TEST(make_directories),
      TEST(remove_directories),
      TEST(a_link_that_is_swapped_in_is_not_followed),
      TEST(a_directory_of_this_user_alone),
      TEST(list_directories),
      TEST(joins),
      TEST(allocation_failures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
