/* Fuzz target: a rank's event log, as `lockstep monitor` and `lockstep report` read it, whole and in two pieces; and the
 * conditions of alerts. */
#include "monitor/read.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void append(int fd, const uint8_t *bytes, size_t size) {
  check(write(fd, bytes, size) == (ssize_t)size);
}

/* The same lines arrive however the file grows. */
static void read_log(const char *dir, int fd, const uint8_t *bytes, size_t size) {
  ls_viewer_t whole, grown;
  int64_t lines, first, second;
  check(ls_viewer_open(NULL, dir, &grown) == LS_OK);
  append(fd, bytes, size / 2);
  check(ls_viewer_update(&grown, &first) == LS_OK);
  append(fd, bytes + size / 2, size - size / 2);
  check(ls_viewer_update(&grown, &second) == LS_OK);
  check(ls_viewer_open(NULL, dir, &whole) == LS_OK);
  check(ls_viewer_update(&whole, &lines) == LS_OK);
  check(lines == first + second && whole.losses == grown.losses && json_equal(whole.events, grown.events));
  ls_viewer_close(&whole);
  ls_viewer_close(&grown);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static char *dir, path[4096];
  if (!dir) check(ls_dir_temporary(NULL, "lockstep-fuzz", &dir) == LS_OK);
  ls_monitor_path(dir, "events", "jsonl", 0, path, sizeof path);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(fd >= 0);
  read_log(dir, fd, bytes, size);
  close(fd);
  unlink(path);
  rmdir(dir); /* nothing is left behind, whenever the fuzzer ends */
  ls_free(dir);
  dir = NULL;
  char text[256], why[LS_CONDITION_WHY_BYTES];
  ls_condition_t condition;
  snprintf(text, sizeof text, "%.*s", size < sizeof text ? (int)size : (int)sizeof text - 1,
           (const char *)bytes);
  if (!ls_condition_read(text, &condition, why)) check(strlen(why) > 0);
  return 0;
}
