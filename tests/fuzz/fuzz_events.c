/* Fuzz target: a rank's event log, as `lockstep monitor` and `lockstep report` read it, whole and in two pieces, as the page
 * in the browser gets it, and as the recording of a GPU; and the conditions of alerts. */
#include "machine/gpu_live.h"
#include "monitor/history.h"
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

static void take(void *history, int rank, const json_t *line) {
  ls_history_take(history, rank, line);
}

static void check_json(char *text) {
  json_t *json = text ? json_loads(text, 0, NULL) : NULL;
  check(json != NULL);
  json_decref(json);
  free(text);
}

/* Whatever the log holds, the page gets JSON. */
static void show(const char *dir) {
  ls_viewer_t view;
  ls_history_t *history;
  int64_t lines;
  char id[LS_HISTORY_ID_BYTES] = "";
  check(ls_history_create(NULL, &history) == LS_OK && ls_viewer_open(NULL, dir, &view) == LS_OK);
  check_json(ls_history_news(history, id, 0));
  view.seen = take;
  view.user = history;
  check(ls_viewer_update(&view, &lines) == LS_OK);
  ls_history_now(history, json_object());
  check_json(ls_history_news(history, id, 0));
  check_json(ls_history_curves(history, 0, -1e300, 1e300, 4));
  ls_viewer_close(&view);
  ls_history_destroy(history);
}

static void replay(const char *path) {
  ls_gpu_replay_t *recording;
  ls_gpu_now_t now;
  if (ls_gpu_replay_open(NULL, path, 0, &recording) != LS_OK) return;
  for (double at_s = -1; at_s < 4; at_s++)
    ls_gpu_replay_at(recording, at_s, &now);
  ls_gpu_replay_close(recording);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static char *dir, path[4096];
  if (!dir) check(ls_dir_temporary(NULL, "lockstep-fuzz", &dir) == LS_OK);
  ls_monitor_path(dir, "events", "jsonl", 0, path, sizeof path);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  check(fd >= 0);
  read_log(dir, fd, bytes, size);
  close(fd);
  show(dir);
  replay(path);
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
