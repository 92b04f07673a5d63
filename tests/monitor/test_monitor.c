/* A watched run without a training: records, the event log, sinks read back by small readers of their own, alerts with
 * their hysteresis, and the lock-free view of the loop. */
#include "base/capture.h"
#include "base/file.h"
#include "monitor/measure.h"
#include "monitor/read.h"
#include "monitor/sink.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 512, FILE_BYTES = 1 << 20 };

static char dir[PATH_BYTES];

static int make_dir(void **state) {
  char *made;
  if (ls_dir_temporary(NULL, "lockstep-monitor", &made) != LS_OK) return -1;
  snprintf(dir, sizeof dir, "%s", made);
  ls_free(made);
  return 0;
}

static int remove_dir(void **state) {
  return ls_dir_remove(NULL, dir) == LS_OK ? 0 : -1;
}

static const ls_monitor_run_t one_rank = {.ranks = 1,
                                          .total_steps = 100,
                                          .batch = 8,
                                          .resumed_from = -1,
                                          .params = 10,
                                          .exchanged_bytes = 40,
                                          .strategy = "single",
                                          .backend = "cpu",
                                          .precision = "fp32",
                                          .device = "cpu",
                                          .gpu = -1};

/* Runs for so many steps of 100 us; a record is taken at the end alone, because the time between is long. */
static void watch_rank(const ls_monitor_config_t *config, const ls_monitor_run_t *run, int64_t steps,
                       double loss) {
  ls_monitor_t *monitor;
  assert_int_equal(ls_monitor_start(NULL, config, run, &monitor), LS_OK);
  const ls_monitor_state_t state = {
      .step = steps,
      .steps = steps,
      .done_ns = ls_clock_ns(),
      .step_ns = steps * 100000,
      .parts_ns = {0, steps * 30000, steps * 50000, steps * 10000, steps * 5000, steps * 5000},
      .parts_steps = steps,
      .comm_steps = steps,
      .losses = steps,
      .loss_sum = loss * (double)steps,
      .loss = loss,
      .grad_norm = 2,
      .lr = 0.5,
      .val_loss = NAN,
      .val_accuracy = NAN};
  ls_monitor_show(monitor, &state);
  ls_monitor_stop(monitor, LS_OK);
}

static void watch(const ls_monitor_config_t *config, int64_t steps, double loss) {
  watch_rank(config, &one_rank, steps, loss);
}

static char *read_file(const char *name, size_t *size_bytes) {
  char path[2 * PATH_BYTES], *bytes;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  assert_int_equal(ls_file_read(NULL, path, FILE_BYTES, &bytes, size_bytes), LS_OK);
  return bytes;
}

static void a_log_goes_on_behind_a_torn_line_of_an_earlier_run(void **state) {
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600};
  watch(&config, 4, 0.25);
  char path[2 * PATH_BYTES], *text, *line, *rest;
  snprintf(path, sizeof path, "%s/events.jsonl", dir);
  size_t size_bytes;
  text = read_file("events.jsonl", &size_bytes);
  assert_int_equal(truncate(path, (off_t)size_bytes - 5), 0);
  ls_free(text);
  watch(&config, 6, 0.125);
  static const char *const kinds[] = {"start", "record", NULL, "start", "record", "end"}; /* NULL: torn */
  rest = text = read_file("events.jsonl", &size_bytes);
  for (int i = 0; i < LS_COUNT(kinds); i++) {
    line = strsep(&rest, "\n");
    assert_non_null(line);
    json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    assert_true((json != NULL) == (kinds[i] != NULL));
    if (json) assert_string_equal(json_string_value(json_object_get(json, "kind")), kinds[i]);
    if (i == 0) assert_int_equal(json_integer_value(json_object_get(json, "version")), LS_MONITOR_VERSION);
    if (i == 4) {
      ls_monitor_sample_t s;
      const ls_field_source_t source = {.name = "line", .status = LS_ERR_CORRUPT};
      ls_record_clear(&ls_monitor_sample_record, &s);
      assert_int_equal(ls_record_read(&source, &ls_monitor_sample_record, json, &s), LS_OK);
      assert_true(s.step == 6 && s.loss == 0.125 && s.loss_mean == 0.125 && s.grad_norm == 2 && s.lr == 0.5);
      assert_true(s.step_time_us == 100 && s.samples_per_s == 80000 && s.samples == 48 &&
                  s.exchanged_bytes == 240);
      assert_true(s.forward_us == 30 && s.exposed_comm_us == 10 && fabs(s.backward_s - 3e-4) < 1e-9);
      assert_true(isnan(s.val_loss) && isnan(s.gpu_ratio) && s.memory_bytes > 0 && s.disk_ratio > 0);
    }
    json_decref(json);
  }
  assert_string_equal(rest, "");
  ls_free(text);
}

/* ---- a log of several files ---- */

enum { LINES_EACH = 500 };

/* A line of about 1 KB for each step from `begin` on. */
static void say_steps(ls_monitor_t *m, int begin, int count) {
  static char wide[1000];
  memset(wide, 'x', sizeof wide - 1);
  for (int i = 0; i < count; i++)
    ls_monitor_event(m, "note", json_pack("{s:i, s:s}", "step", begin + i, "wide", wide));
}

typedef struct {
  int seen, next, gaps,
      starts; /* steps that were seen, the one that is expected, jumps ahead, lines "start" */
} followed_t;

static void follow_steps(void *user, int rank, const json_t *line) {
  followed_t *f = user;
  const char *kind = json_string_value(json_object_get(line, "kind"));
  assert_int_equal(rank, 0);
  f->starts += !strcmp(kind, "start");
  assert_string_not_equal(kind, "continue");
  if (strcmp(kind, "note") != 0) return;
  const int step = (int)json_integer_value(json_object_get(line, "step"));
  assert_true(f->seen == 0 || step >= f->next);
  f->gaps += f->seen > 0 && step > f->next;
  f->next = step + 1;
  f->seen++;
}

static int64_t log_bytes(int *files) {
  char **names, path[2 * PATH_BYTES];
  int count;
  int64_t bytes = 0;
  struct stat about;
  *files = 0;
  assert_int_equal(ls_dir_list(NULL, dir, &names, &count), LS_OK);
  for (int i = 0; i < count; i++)
    if (!strncmp(names[i], "events.jsonl", 12)) {
      snprintf(path, sizeof path, "%s/%s", dir, names[i]);
      assert_int_equal(stat(path, &about), 0);
      bytes += about.st_size;
      ++*files;
    }
  ls_free(names);
  return bytes;
}

/* The event log of a run of days had no bound. A reader who looks now and then misses no line, whatever file it is in, and one
 * who comes late sees the newest lines and what the run began with. */
static void a_log_of_several_files_is_bounded_and_read_as_one(void **state) {
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .events_bytes = 65536, .events_files = 5};
  ls_monitor_t *m;
  ls_viewer_t view, late;
  followed_t f = {0}, g = {0};
  int64_t lines;
  int files, said = 0;
  assert_int_equal(ls_monitor_start(NULL, &config, &one_rank, &m), LS_OK);
  assert_int_equal(ls_viewer_open(NULL, dir, &view), LS_OK);
  view.seen = follow_steps;
  view.user = &f;
  static const int between[] = {0, 1, 10, 61, 62, 63, 64, 65, 66, 130, 200, 5};
  for (int i = 0; i < LS_COUNT(between); i++) {
    say_steps(m, said, between[i]);
    said += between[i];
    assert_int_equal(ls_viewer_update(&view, &lines), LS_OK);
    assert_int_equal(f.seen, said);
  }
  assert_true(f.starts == 1 && f.gaps == 0);
  say_steps(m, said, LINES_EACH);
  assert_in_range(log_bytes(&files), 4 * 65536, 5 * (65536 + 4096));
  assert_int_equal(files, 5);
  f.seen = 0; /* nobody looked for longer than files stay: what is gone is gone, the rest is in order */
  assert_int_equal(ls_viewer_update(&view, &lines), LS_OK);
  assert_int_equal(f.next, said + LINES_EACH);
  assert_true(f.starts == 1 && f.gaps == 1);
  assert_int_equal(ls_viewer_open(NULL, dir, &late), LS_OK);
  late.seen = follow_steps;
  late.user = &g;
  assert_int_equal(ls_viewer_update(&late, &lines), LS_OK);
  assert_in_range(g.seen, 4 * 60, 5 * 66);
  assert_int_equal(g.next, said + LINES_EACH);
  assert_true(g.starts == 1 && g.gaps == 0);
  assert_int_equal(json_integer_value(json_object_get(ls_viewer_rank(&late, 0)->start, "total_steps")), 100);
  ls_viewer_close(&late);
  ls_monitor_stop(m, LS_OK);
  /* the run goes on: its numbers do, too */
  assert_int_equal(ls_monitor_start(NULL, &config, &one_rank, &m), LS_OK);
  say_steps(m, said + LINES_EACH, 100);
  ls_monitor_stop(m, LS_OK);
  f.seen = 0;
  assert_int_equal(ls_viewer_update(&view, &lines), LS_OK);
  assert_int_equal(f.seen, 100);
  assert_true(f.starts == 2 && f.gaps == 1);
  assert_string_equal(json_string_value(json_object_get(ls_viewer_rank(&view, 0)->end, "text")), "ok");
  ls_viewer_close(&view);
  log_bytes(&files);
  assert_int_equal(files, 5);
}

/* Reading did not end where an endless device stood in the place of a log. */
static void a_log_that_is_no_file_is_refused(void **state) {
  char path[2 * PATH_BYTES];
  static const char *const devices[] = {"/dev/zero", "/dev/urandom", "."};
  for (int i = 0; i < LS_COUNT(devices); i++) {
    ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
    ls_viewer_t view;
    int64_t lines;
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    unlink(path);
    assert_int_equal(symlink(devices[i], path), 0);
    assert_int_equal(ls_viewer_open(ctx, dir, &view), LS_OK);
    assert_int_equal(ls_viewer_update(&view, &lines), LS_ERR_IO);
    assert_non_null(strstr(ls_ctx_error(ctx), "a regular file was expected"));
    ls_viewer_close(&view);
    ls_ctx_destroy(ctx);
  }
}

/* ---- TensorBoard ---- */

static uint64_t fixed(const uint8_t *at, int size) {
  uint64_t value = 0;
  for (int i = size - 1; i >= 0; i--)
    value = value << 8 | at[i];
  return value;
}

static uint64_t varint(const uint8_t **at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return value;
  }
}

typedef struct {
  int64_t step;
  char version[32], tags[1024];
  double loss;
} event_t;

/* Reads one message and those within it; `path` is the chain of field numbers, as decimal digits. */
static void read_message(const uint8_t *at, const uint8_t *end, int path, event_t *e, char *tag) {
  while (at < end) {
    uint64_t key = varint(&at);
    int field = path * 10 + (int)(key >> 3);
    if ((key & 7) == 0) {
      uint64_t value = varint(&at);
      if (field == 2) e->step = (int64_t)value;
    } else if ((key & 7) == 2) {
      uint64_t size = varint(&at);
      if (field == 3) snprintf(e->version, sizeof e->version, "%.*s", (int)size, (const char *)at);
      if (field == 511) {
        snprintf(tag, 64, "%.*s", (int)size, (const char *)at);
        snprintf(e->tags + strlen(e->tags), sizeof e->tags - strlen(e->tags), "%s ", tag);
      }
      if (field == 5 || field == 51) read_message(at, at + size, field, e, tag);
      at += size;
    } else {
      int size = (key & 7) == 1 ? 8 : 4;
      uint32_t bits = (uint32_t)fixed(at, 4);
      float value;
      memcpy(&value, &bits, sizeof value);
      if (field == 512 && strcmp(tag, "train/loss") == 0) e->loss = (double)value;
      at += size;
    }
  }
  assert_ptr_equal(at, end);
}

static void a_tensorboard_file_is_read_back(void **state) {
  static const char *const sinks[] = {"tensorboard"};
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .sinks = {1, sinks}};
  watch(&config, 3, 0.75);
  char **names, tag[64];
  int count, found = -1;
  assert_int_equal(ls_dir_list(NULL, dir, &names, &count), LS_OK);
  for (int i = 0; i < count; i++)
    if (strstr(names[i], "tfevents")) found = i;
  assert_true(found >= 0);
  size_t size_bytes;
  char *bytes = read_file(names[found], &size_bytes);
  event_t e[2] = {{0}, {0}};
  const uint8_t *at = (const uint8_t *)bytes, *end = at + size_bytes;
  for (int i = 0; i < 2; i++) {
    uint64_t size = fixed(at, 8);
    assert_true(size <= (uint64_t)(end - at) - 16);
    assert_int_equal(fixed(at + 8, 4), ls_crc32c_masked(at, 8));
    assert_int_equal(fixed(at + 12 + size, 4), ls_crc32c_masked(at + 12, size));
    read_message(at + 12, at + 12 + size, 0, &e[i], tag);
    at += 16 + size;
  }
  assert_ptr_equal(at, end);
  assert_string_equal(e[0].version, "brain.Event:2");
  assert_true(e[1].step == 3 && e[1].loss == 0.75);
  assert_non_null(strstr(e[1].tags, "train/gradient_norm "));
  assert_null(strstr(e[1].tags, "gpu/")); /* what is not known has no curve */
  ls_free(bytes);
  ls_free(names);
}

/* An evaluation was drawn again at every later record, so the curve stood still between evaluations. */
static void an_evaluation_is_one_point_at_its_own_step(void **state) {
  static const struct { double step, val_step; } records[] = {{3, NAN}, {5, 4}, {6, 4}, {9, 8}};
  static const struct {
    int64_t step;
    bool validation;
  } events[] = {{0, false}, {3, false}, {4, true}, {5, false}, {6, false}, {8, true}, {9, false}};
  const ls_monitor_config_t config = {.dir = dir};
  void *sink;
  assert_int_equal(ls_sink_tensorboard.open(NULL, &config, &one_rank, &sink), LS_OK);
  for (int i = 0; i < LS_COUNT(records); i++) {
    ls_monitor_sample_t s;
    ls_record_clear(&ls_monitor_sample_record, &s);
    s.step = records[i].step;
    s.lr = 0.5;
    s.val_step = records[i].val_step;
    if (isfinite(s.val_step)) s.val_loss = s.val_f1 = 1 / s.val_step;
    assert_true(ls_sink_tensorboard.put(sink, &s));
  }
  ls_sink_tensorboard.close(sink);
  char **names, tag[64];
  int count, found = -1;
  assert_int_equal(ls_dir_list(NULL, dir, &names, &count), LS_OK);
  for (int i = 0; i < count; i++)
    if (strstr(names[i], "tfevents")) found = i;
  assert_true(found >= 0);
  size_t size_bytes;
  char *bytes = read_file(names[found], &size_bytes);
  const uint8_t *at = (const uint8_t *)bytes;
  for (int i = 0; i < LS_COUNT(events); i++) {
    event_t e = {0};
    const uint64_t size = fixed(at, 8);
    read_message(at + 12, at + 12 + size, 0, &e, tag);
    assert_int_equal(e.step, events[i].step);
    assert_int_equal(strstr(e.tags, "validation/loss ") && strstr(e.tags, "validation/f1 "),
                     events[i].validation);
    assert_int_equal(strstr(e.tags, "train/learning_rate ") != NULL, i > 0 && !events[i].validation);
    at += 16 + size;
  }
  assert_ptr_equal(at, (const uint8_t *)bytes + size_bytes);
  ls_free(bytes);
  ls_free(names);
}

/* RFC 3720, B.4, with TensorFlow's mask. */
static void crc32c_has_the_values_of_the_standard(void **state) {
  uint8_t bytes[32] = {0};
  const uint32_t mask = UINT32_C(0xa282ead8), zeros = UINT32_C(0x8a9136aa), nine = UINT32_C(0xe3069283);
  assert_int_equal(ls_crc32c_masked(bytes, sizeof bytes), (zeros >> 15 | zeros << 17) + mask);
  assert_int_equal(ls_crc32c_masked("123456789", 9), (nine >> 15 | nine << 17) + mask);
}

/* ---- CSV and Prometheus ---- */

static void a_csv_file_has_one_header_and_refuses_other_columns(void **state) {
  static const char *const sinks[] = {"csv", "csv"};
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .sinks = {2, sinks}};
  watch(&config, 3, 0.75);
  watch(&config, 5, 0.5);
  size_t size_bytes;
  char *text = read_file("samples.csv", &size_bytes), *rest = text;
  int lines = 0, columns = 0;
  for (char *line; (line = strsep(&rest, "\n")) && *line; lines++) {
    int commas = 0;
    for (const char *c = line; *c; c++)
      commas += *c == ',';
    if (lines == 0) columns = commas;
    assert_int_equal(commas, columns);
    assert_true((strncmp(line, "t,rank,step,", 12) == 0) == (lines == 0));
  }
  assert_int_equal(lines, 3); /* a sink that is named twice writes once */
  ls_free(text);
  char path[2 * PATH_BYTES];
  snprintf(path, sizeof path, "%s/samples.csv", dir);
  assert_int_equal(ls_file_write(NULL, path, "t,rank,other\n", 13), LS_OK);
  ls_monitor_t *monitor;
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_int_equal(ls_monitor_start(ctx, &config, &one_rank, &monitor), LS_ERR_MISMATCH);
  assert_non_null(strstr(ls_ctx_error(ctx), "columns of another version; move the file aside"));
  ls_ctx_destroy(ctx);
}

/* The rules of Prometheus' text format that promtool checks, too (tests/program/monitor.sh). */
static void metrics_keep_the_rules_of_prometheus(void **state) {
  ls_monitor_sample_t s;
  ls_record_clear(&ls_monitor_sample_record, &s);
  for (int i = 0; i < LS_METRIC_COUNT; i++)
    *(double *)(void *)((char *)&s + ls_metrics[i].offset) = 1 + i;
  s.t = 1e9;
  s.loss = NAN;
  size_t size_bytes;
  char *text = ls_prometheus_text(&s, &size_bytes), *rest = text, family[128] = "", kind[16] = "";
  assert_non_null(text);
  assert_null(strstr(text, "lockstep_train_loss"));
  assert_non_null(strstr(text, "lockstep_train_step_duration_seconds{rank=\"0\"} "));
  assert_non_null(
      strstr(text, "lockstep_train_phase_seconds_total{rank=\"0\",phase=\"exposed_communication\"} "));
  char families[8192] = " ";
  for (char *line; (line = strsep(&rest, "\n")) && *line;) {
    char name[128];
    if (sscanf(line, "# HELP %127s", name) == 1) {
      char word[160];
      snprintf(word, sizeof word, " %s ", name);
      assert_null(strstr(families, word)); /* each family once */
      strcat(families, word + 1);
    } else if (sscanf(line, "# TYPE %127s %15s", family, kind) != 2) {
      size_t len = strcspn(line, "{");
      assert_int_equal(strncmp(line, family, len), 0);
      assert_int_equal(strlen(family), len);
      assert_int_equal(strncmp(family, "lockstep_", 9), 0);
      bool total = len > 6 && !strcmp(family + len - 6, "_total");
      assert_int_equal(total, !strcmp(kind, "counter"));
      assert_null(strstr(line, "step=\""));
    }
  }
  free(text);
}

/* ---- alerts ---- */

static ls_alert_change_t judge(ls_alert_t *a, double t, double ratio) {
  ls_monitor_sample_t s;
  ls_record_clear(&ls_monitor_sample_record, &s);
  s.t = t;
  s.memory_ratio = ratio;
  return ls_alert_judge(a, &s);
}

static void an_alert_waits_and_clears_at_its_own_threshold(void **state) {
  const ls_alert_rule_t rule = {.name = "memory",
                                .when = "memory_ratio > 0.9",
                                .clear = "memory_ratio <= 0.8",
                                .for_s = 2,
                                .clear_for_s = 3};
  ls_alert_t a = ls_alert_of(&rule);
  static const struct {
    double t, ratio;
    ls_alert_change_t change;
  } rows[] = {{0, 0.5, LS_ALERT_SAME},   {1, 0.95, LS_ALERT_SAME},   {2, 0.95, LS_ALERT_SAME},
              {3, 0.90, LS_ALERT_SAME}, /* not above: the wait begins again */
              {4, 0.95, LS_ALERT_SAME},  {5, NAN, LS_ALERT_SAME},    {6, 0.95, LS_ALERT_RAISED},
              {7, 0.85, LS_ALERT_SAME}, /* between the two: stays raised */
              {20, 0.85, LS_ALERT_SAME}, {21, 0.8, LS_ALERT_SAME},   {23, 0.81, LS_ALERT_SAME},
              {24, 0.8, LS_ALERT_SAME},  {27, 0.7, LS_ALERT_CLEARED}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    assert_int_equal(judge(&a, rows[i].t, rows[i].ratio), rows[i].change);
}

static void an_alert_without_a_clear_condition_ends_with_its_own(void **state) {
  const ls_alert_rule_t rule = {.name = "memory", .when = "memory_ratio > 0.9"};
  ls_alert_t a = ls_alert_of(&rule);
  assert_int_equal(judge(&a, 0, 0.95), LS_ALERT_RAISED);
  assert_int_equal(judge(&a, 1, 0.95), LS_ALERT_SAME);
  assert_int_equal(judge(&a, 2, 0.9), LS_ALERT_CLEARED);
}

static void usual_alerts_have_conditions(void **state) {
  for (int i = 0; i < LS_ALERT_USUAL_COUNT; i++) {
    ls_alert_t a = ls_alert_of(&ls_alert_usual[i]);
    assert_non_null(a.raise.metric);
    assert_int_equal(a.clear.metric != NULL, ls_alert_usual[i].clear != NULL);
  }
}

/* Every usual rule, on a recorded run: a log of a record a second, in which one value turns bad, is near its limit for a
 * moment, and is good again. */
static void usual_alerts_are_raised_and_cleared_by_a_recorded_run(void **state) {
  static const struct {
    const char *name, *value;
    double good, bad,
        between; /* between: raises nothing and clears nothing; equal to bad where there is none */
  } rows[] = {
      {"not-finite", "nonfinite", 0, 1, 1},      {"no-progress", "idle_s", 1, 121, 121},
      {"restart", "resumed_s", 61, 1, 1},        {"slow", "step_time_ratio", 1.1, 1.6, 1.3},
      {"straggler", "straggler", 0, 1, 1},       {"memory", "memory_ratio", 0.5, 0.96, 0.93},
      {"disk", "disk_ratio", 0.5, 0.96, 0.93},   {"gpu-memory", "gpu_memory_ratio", 0.5, 0.96, 0.93},
      {"gpu-margin", "gpu_margin_c", 20, -1, 7}, {"gpu-power", "gpu_power_ratio", 0.9, 1.1, 1.02},
      {"gpu-error", "gpu_xid_errors", 0, 1, 1},  {"gpu-memory-error", "gpu_ecc_new", 0, 2, 2},
      {"gpu-heat", "gpu_heat_limited", 0, 1, 1}, {"gpu-brake", "gpu_brake_limited", 0, 1, 1},
  };
  assert_int_equal(LS_COUNT(rows), LS_ALERT_USUAL_COUNT);
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const ls_alert_rule_t *rule = &ls_alert_usual[i];
    assert_string_equal(rule->name, rows[i].name);
    enum { BAD = 300, BETWEEN = 500, GOOD = 700, BAD_MOMENT = 720, END = 1000 };
    double raised_at = -1, cleared_at = -1;
    ls_alert_t alert = ls_alert_of(rule);
    for (int t = 0; t < END; t++) {
      const bool moment = t == 100 || t == BAD_MOMENT; /* a second: only rules without for_s say something */
      const double value = (t >= BAD && t < BETWEEN) || moment ? rows[i].bad
                           : t >= BETWEEN && t < GOOD          ? rows[i].between
                                                               : rows[i].good;
      ls_monitor_sample_t s;
      const ls_field_source_t source = {.name = "record", .status = LS_ERR_CORRUPT};
      json_t *line = json_pack("{s:f, s:i, s:f}", "t", (double)t, "rank", 0, rows[i].value, value);
      ls_record_clear(&ls_monitor_sample_record, &s);
      assert_int_equal(ls_record_read(&source, &ls_monitor_sample_record, line, &s), LS_OK);
      json_decref(line);
      const ls_alert_change_t change = ls_alert_judge(&alert, &s);
      if (rule->for_s > 0 && change == LS_ALERT_RAISED && t >= BAD && raised_at < 0) raised_at = t;
      if (rule->for_s > 0 && change == LS_ALERT_RAISED) assert_true(t >= BAD && t < BETWEEN);
      if (rule->for_s == 0 && change == LS_ALERT_RAISED) assert_true(value == rows[i].bad);
      if (rule->for_s == 0 && change == LS_ALERT_RAISED && t == BAD) raised_at = t;
      if (change == LS_ALERT_CLEARED && t >= BAD && cleared_at < 0) cleared_at = t;
    }
    if (raised_at != BAD + rule->for_s) fail_msg("%s: raised at %g", rule->name, raised_at);
    /* a moment of the bad value begins the time in which it has to be good anew */
    const double clear = GOOD + rule->clear_for_s;
    const double expected =
        rule->clear_for_s > BAD_MOMENT - GOOD ? BAD_MOMENT + 1 + rule->clear_for_s : clear;
    if (cleared_at != expected) fail_msg("%s: cleared at %g, not %g", rule->name, cleared_at, expected);
  }
}

static void conditions_are_refused_with_a_reason(void **state) {
  static const struct {
    const char *text, *why; /* NULL: it is one */
  } rows[] = {{"loss > 1", NULL},
              {"idle_s>=-2.5e3", NULL},
              {"memory_rato > 1", "did you mean `memory_ratio`?"},
              {"> 1", "is not measured"},
              {"loss", "NAME OPERATOR NUMBER"},
              {"loss = 1", "NAME OPERATOR NUMBER"},
              {"loss > one", "NAME OPERATOR NUMBER"},
              {"loss > nan", "NAME OPERATOR NUMBER"},
              {"loss > 1 and lr > 2", "NAME OPERATOR NUMBER"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_condition_t c;
    char why[LS_CONDITION_WHY_BYTES] = "";
    assert_int_equal(ls_condition_read(rows[i].text, &c, why), rows[i].why == NULL);
    if (rows[i].why && !strstr(why, rows[i].why)) fail_msg("%s: %s", rows[i].text, why);
  }
}

/* Where all ranks have the same value, each of them once said so. What is a rank's own, it says itself. */
static void an_alert_of_the_run_is_raised_once(void **state) {
  const ls_alert_rule_t rules[] = {{.name = "far", .when = "step > 2"},
                                   {.name = "time", .when = "step_time_us > 1"},
                                   {.name = "loss", .when = "loss > 1"},
                                   {.name = "own", .when = "memory_bytes > 1"}};
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .alert_count = 4, .alerts = rules};
  for (int rank = 0; rank < 3; rank++) {
    ls_monitor_run_t run = one_rank;
    run.ranks = 3;
    run.rank = run.local_rank = rank;
    watch_rank(&config, &run, 3, 7.5);
  }
  for (int rank = 0; rank < 3; rank++) {
    static const char *const names[] = {"events.jsonl", "events-1.jsonl", "events-2.jsonl"};
    size_t size_bytes;
    char *log = read_file(names[rank], &size_bytes);
    for (int i = 0; i < LS_COUNT(rules); i++) {
      char text[64];
      snprintf(text, sizeof text, "\"alert\":\"%s\",\"status\":\"raised\"", rules[i].name);
      const bool own = i == LS_COUNT(rules) - 1;
      if ((strstr(log, text) != NULL) != (rank == 0 || own)) fail_msg("rank %d: %s", rank, rules[i].name);
    }
    ls_free(log);
  }
}

/* The whole way: a condition of the last record, the log, a program and a file, which get Alertmanager's form. */
static void a_raised_alert_reaches_log_program_and_file(void **state) {
  char file[2 * PATH_BYTES], copy[2 * PATH_BYTES], command[3 * PATH_BYTES];
  snprintf(file, sizeof file, "%s/notices", dir);
  snprintf(copy, sizeof copy, "%s/copy", dir);
  snprintf(command, sizeof command, "cat >'%s'", copy);
  static const char *const told[] = {"val_loss", "grad_norm"}; /* the first is not known */
  const char *const program[] = {"sh", "-c", command};
  const ls_alert_rule_t rules[] = {
      {.name = "loss", .when = "loss > 1", .tell = {2, told}, .run = {3, program}, .file = file},
      {.name = "rate", .when = "lr > 1"}};
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .alert_count = 2, .alerts = rules};
  watch(&config, 3, 7.5);
  size_t size_bytes;
  char *notice = read_file("notices", &size_bytes), *given = read_file("copy", &size_bytes);
  char *log = read_file("events.jsonl", &size_bytes);
  assert_string_equal(notice, given);
  assert_non_null(strstr(notice, ": loss is 7.5, grad_norm 2\""));
  json_t *json = json_loads(notice, 0, NULL);
  const json_t *alert = json_array_get(json_object_get(json, "alerts"), 0),
               *labels = json_object_get(alert, "labels");
  assert_string_equal(json_string_value(json_object_get(json, "version")), "4");
  assert_string_equal(json_string_value(json_object_get(json, "status")), "firing");
  assert_string_equal(json_string_value(json_object_get(alert, "status")), "firing");
  assert_string_equal(json_string_value(json_object_get(labels, "alertname")), "loss");
  assert_string_equal(json_string_value(json_object_get(labels, "rank")), "0");
  assert_string_equal(json_string_value(json_object_get(alert, "endsAt")), "0001-01-01T00:00:00Z");
  assert_non_null(strstr(log, "\"kind\":\"alert\""));
  assert_non_null(
      strstr(log, "\"alert\":\"loss\",\"status\":\"raised\",\"when\":\"loss > 1\",\"value\":7.5"));
  assert_null(strstr(log, "\"alert\":\"rate\""));
  json_decref(json);
  ls_free(log);
  ls_free(given);
  ls_free(notice);
}

/* Receivers of Alertmanager read labels and annotations as texts and refuse a number; and they take what has one group key
 * for one matter, so a run that is well again must not clear another run's alert. */
static void a_notice_is_one_that_receivers_take_and_names_its_run(void **state) {
  static const char *const texts[] = {"groupLabels", "commonLabels", "commonAnnotations"};
  char file[2 * PATH_BYTES], run[2][2 * PATH_BYTES], key[2][2 * PATH_BYTES];
  snprintf(file, sizeof file, "%s/notices", dir);
  const ls_alert_rule_t rule = {.name = "loss", .when = "loss > 1", .file = file};
  for (int i = 0; i < LS_COUNT(run); i++) {
    snprintf(run[i], sizeof run[i], "%s/run-%d", dir, i);
    const ls_monitor_config_t config = {.dir = run[i], .every_s = 3600, .alert_count = 1, .alerts = &rule};
    watch(&config, 3, 7.5);
  }
  size_t size_bytes;
  char *notices = read_file("notices", &size_bytes), *line = notices;
  for (int i = 0; i < LS_COUNT(run); i++, line = strchr(line, '\n') + 1) {
    json_t *notice = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL), *value;
    const json_t *alert = json_array_get(json_object_get(notice, "alerts"), 0);
    const char *name;
    for (int k = 0; k < LS_COUNT(texts); k++)
      json_object_foreach(json_object_get(notice, texts[k]), name, value) assert_true(json_is_string(value));
    json_object_foreach(json_object_get(alert, "annotations"), name, value)
        assert_true(json_is_string(value));
    json_object_foreach(json_object_get(alert, "labels"), name, value) {
      assert_true(json_is_string(value));
      assert_non_null(
          strstr(json_string_value(json_object_get(notice, "groupKey")), json_string_value(value)));
    }
    const char *named = json_string_value(json_object_get(json_object_get(alert, "labels"), "run"));
    assert_true(named && named[0] == '/' && strstr(named, run[i] + strlen(dir)));
    assert_string_equal(json_string_value(json_object_get(json_object_get(alert, "annotations"), "value")),
                        "7.5");
    snprintf(key[i], sizeof key[i], "%s", json_string_value(json_object_get(notice, "groupKey")));
    json_decref(notice);
  }
  assert_string_not_equal(key[0], key[1]);
  ls_free(notices);
}

static void a_quote_in_a_name_ends_no_text_of_the_group_key(void **state) {
  const ls_alert_rule_t rule = {.name = "a\", rank=\"9", .when = "loss > 1"};
  const ls_alert_t a = ls_alert_of(&rule);
  const ls_monitor_sample_t s = {.loss = 2};
  json_t *notice = ls_alert_notice(&a, "host", "/a\\b", &s);
  assert_string_equal(json_string_value(json_object_get(notice, "groupKey")),
                      "{}:{alertname=\"a\\\", rank=\\\"9\", instance=\"host\", rank=\"0\", run=\"/a\\\\b\"}");
  json_decref(notice);
}

static void a_program_that_fails_is_said_in_the_log(void **state) {
  static const char *const program[] = {"sh", "-c", "echo 'error: no such receiver' >&2; exit 3"};
  const ls_alert_rule_t rules[] = {{.name = "loss", .when = "loss > 1", .run = {3, program}}};
  const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .alert_count = 1, .alerts = rules};
  watch(&config, 3, 7.5);
  size_t size_bytes;
  char *log = read_file("events.jsonl", &size_bytes);
  assert_non_null(strstr(log, "\"kind\":\"alert_failed\""));
  assert_non_null(strstr(log, "sh: no such receiver"));
  ls_free(log);
}

/* A program that does not end: records go on meanwhile, and the notice is delivered when it may. */
static void a_slow_receiver_holds_nobody_up(void **state) {
  char fifo[2 * PATH_BYTES], events[2 * PATH_BYTES], command[4 * PATH_BYTES];
  snprintf(fifo, sizeof fifo, "%s/fifo", dir);
  snprintf(command, sizeof command, "cat '%s' >'%s/said'", fifo, dir);
  assert_int_equal(mkfifo(fifo, 0600), 0);
  const char *const program[] = {"sh", "-c", command};
  const ls_alert_rule_t rules[] = {{.name = "always", .when = "running_s >= 0", .run = {3, program}}};
  const ls_monitor_config_t config = {.dir = dir, .every_s = 0.01, .alert_count = 1, .alerts = rules};
  ls_monitor_t *monitor;
  size_t size_bytes;
  assert_int_equal(ls_monitor_start(NULL, &config, &one_rank, &monitor), LS_OK);
  snprintf(events, sizeof events, "%s/events.jsonl", dir);
  struct stat about = {0};
  while (about.st_size < 20000) /* start, record, alert, and many records while its program waits */
    stat(events, &about);
  int to = open(fifo, O_WRONLY | O_CLOEXEC); /* waits until the program reads */
  assert_true(ls_write_all(to, "go on", 5));
  close(to);
  ls_monitor_stop(monitor, LS_OK);
  char *log = read_file("events.jsonl", &size_bytes), *said = read_file("said", &size_bytes);
  assert_string_equal(said, "go on");
  assert_null(strstr(log, "alert_failed"));
  ls_free(said);
  ls_free(log);
}

/* One request of a webhook: answers with `status` and keeps what came. */
typedef struct {
  int listener;
  const char *status;
  char request[1 << 14];
} receiver_t;

static void *receive(void *arg) {
  receiver_t *r = arg;
  size_t used = 0, wanted = sizeof r->request - 1;
  int fd = accept(r->listener, NULL, NULL);
  while (used < wanted) {
    ssize_t n = read(fd, r->request + used, sizeof r->request - 1 - used);
    if (n <= 0) break;
    used += (size_t)n;
    r->request[used] = '\0';
    const char *body = strstr(r->request, "\r\n\r\n"), *length = strstr(r->request, "Content-Length: ");
    if (body && length) wanted = (size_t)(body + 4 - r->request) + strtoul(length + 16, NULL, 10);
  }
  ls_write_all(fd, r->status, strlen(r->status));
  close(fd);
  return NULL;
}

static void a_webhook_gets_the_notice(void **state) {
  static receiver_t r;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof address;
  char url[64], why[1024] = "";
  pthread_t thread;
  if (system("curl --version >/dev/null 2>&1") != 0) {
    print_message("curl is not installed: no webhook was tried\n");
    skip();
  }
  r.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(r.listener, (struct sockaddr *)&address, sizeof address), 0);
  assert_int_equal(listen(r.listener, 1), 0);
  assert_int_equal(getsockname(r.listener, (struct sockaddr *)&address, &size), 0);
  snprintf(url, sizeof url, "http://127.0.0.1:%d/hook", ntohs(address.sin_port));
  const ls_alert_rule_t rule = {.name = "loss", .when = "loss > 1", .webhook = url};
  json_t *notice = json_pack("{s:s, s:s}", "version", "4", "status", "firing");
  const struct {
    const char *status, *why;
  } rows[] = {{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", NULL},
              {"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", "returned error: 500"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    r.status = rows[i].status;
    assert_int_equal(pthread_create(&thread, NULL, receive, &r), 0);
    assert_int_equal(ls_alert_send(&rule, notice, why, sizeof why), rows[i].why == NULL);
    pthread_join(thread, NULL);
    assert_true(strstr(r.request, "POST /hook HTTP/1.1\r\n") == r.request);
    assert_non_null(strstr(r.request, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(r.request, "\r\n\r\n{\"version\":\"4\",\"status\":\"firing\"}"));
    if (rows[i].why && !strstr(why, rows[i].why)) fail_msg("%s", why);
  }
  close(r.listener); /* nobody listens any more */
  assert_false(ls_alert_send(&rule, notice, why, sizeof why));
  if (strncmp(why, "curl: (", 7) != 0) fail_msg("%s", why); /* its name once */
  json_decref(notice);
}

/* The address, with its secrets, was an argument, which all users can see. */
static void an_address_with_a_secret_is_no_argument(void **state) {
  char path[2 * PATH_BYTES], script[4 * PATH_BYTES], source[2 * PATH_BYTES + 8],
      why[1024] = "", *before = strdup(getenv("PATH"));
  size_t size_bytes;
  snprintf(path, sizeof path, "%s/curl", dir);
  snprintf(script, sizeof script, "#!/bin/sh\necho \"$*\" >'%s/flags'\n/bin/cat >'%s/options'\n", dir, dir);
  assert_int_equal(ls_file_replace(NULL, path, script, strlen(script)), LS_OK);
  chmod(path, 0700);
  snprintf(source, sizeof source, "file:%s/secret", dir);
  setenv("PATH", dir, 1);
  setenv("LS_TEST_HOOK", "https://u:pa\"ss@host/?token=T1", 1);
  const struct {
    const char *webhook, *options;
  } rows[] = {{"http://u:pass@host/?token=T0", "url = \"http://u:pass@host/?token=T0\"\n"},
              {"env:LS_TEST_HOOK", "url = \"https://u:pa\\\"ss@host/?token=T1\"\n"},
              {source, "url = \"https://host/T2\"\n"},
              {source, "url = \"https://host/T3\"\n"}}; /* it has changed meanwhile */
  json_t *notice = json_pack("{s:s}", "run", "a\\b");
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const ls_alert_rule_t rule = {.name = "loss", .when = "loss > 1", .webhook = rows[i].webhook};
    snprintf(path, sizeof path, "%s/secret", dir);
    snprintf(script, sizeof script, "https://host/T%d\n", i);
    assert_int_equal(ls_file_replace(NULL, path, script, strlen(script)), LS_OK);
    if (!ls_alert_send(&rule, notice, why, sizeof why)) fail_msg("%s", why);
    char *flags = read_file("flags", &size_bytes), *options = read_file("options", &size_bytes);
    assert_null(strstr(flags, "host"));
    assert_ptr_equal(strstr(options, rows[i].options), options);
    assert_non_null(strstr(options, "\ndata-binary = \"{\\\"run\\\":\\\"a\\\\\\\\b\\\"}\"\n"));
    ls_free(options);
    ls_free(flags);
  }
  setenv("PATH", before, 1);
  free(before);
  json_decref(notice);
}

/* A run whose alerts cannot be sent is refused when it begins, and so is the address of a configuration that was saved. */
static void a_secret_that_is_not_there_is_refused(void **state) {
  capture_t *c;
  const struct {
    const char *webhook, *said;
  } rows[] = {
      {"env:LS_TEST_NONE", "monitor.alerts.webhook of loss: the environment of this process has no variable"},
      {"env:PATH", "monitor.alerts.webhook of loss: env:PATH: an address that begins with http://"},
      {"(hidden)", "is hidden in this saved configuration: write env:NAME or file:PATH"},
      {"http://u:pw@h/", "the address stands in the configuration itself. What is saved"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const ls_alert_rule_t rule = {.name = "loss", .when = "loss > 1", .webhook = rows[i].webhook};
    const ls_monitor_config_t config = {.dir = dir, .every_s = 3600, .alerts = &rule, .alert_count = 1};
    ls_monitor_t *monitor = NULL;
    assert_int_equal(capture_setup((void **)&c), 0);
    const ls_status_t status = ls_monitor_start(c->ctx, &config, &one_rank, &monitor);
    assert_int_equal(status, i == 3 ? LS_OK : LS_ERR_CONFIG);
    if (!strstr(c->text, rows[i].said) || strstr(c->text, "pw@")) fail_msg("%s", c->text);
    ls_monitor_stop(monitor, status);
    capture_teardown((void **)&c);
  }
}

static void each_receiver_that_failed_is_named(void **state) {
  static const char *const argv[] = {"/proc/none/program"};
  const ls_alert_rule_t rule = {.name = "loss",
                                .when = "loss > 1",
                                .file = "/proc/none/file",
                                .run = {1, argv},
                                .webhook = "http://127.0.0.1:1/"};
  char why[1024] = "", little[24] = "";
  json_t *notice = json_pack("{s:s}", "status", "firing");
  assert_false(ls_alert_send(&rule, notice, why, sizeof why));
  if (!strstr(why, "/proc/none/file: ") || !strstr(why, "; /proc/none/program: ") || !strstr(why, "; curl"))
    fail_msg("%s", why);
  assert_false(ls_alert_send(&rule, notice, little, sizeof little));
  assert_string_equal(little, "/proc/none/file: No suc");
  json_decref(notice);
}

static void a_mail_is_given_to_sendmail(void **state) {
  char path[2 * PATH_BYTES], script[4 * PATH_BYTES], why[1024] = "", *before = strdup(getenv("PATH"));
  size_t size_bytes;
  static const char *const addresses[] = {"ops@example.org", "root"};
  const ls_alert_rule_t rule = {.name = "loss", .when = "loss > 1", .mail = {2, addresses}};
  snprintf(path, sizeof path, "%s/sendmail", dir);
  snprintf(script, sizeof script, "#!/bin/sh\necho \"$*\" >'%s/flags'\n%s >'%s/mail'\n", dir, "/bin/cat",
           dir);
  assert_int_equal(ls_file_replace(NULL, path, script, strlen(script)), LS_OK);
  chmod(path, 0700);
  setenv("PATH", dir, 1);
  json_t *notice = json_pack("{s:{s:s, s:s}, s:{s:s}}", "commonAnnotations", "summary",
                             "loss raised\nBcc: x@y on h\u00f6st", "description", "Loss of the newest step.",
                             "commonLabels", "run", "/runs/a");
  bool sent = ls_alert_send(&rule, notice, why, sizeof why);
  setenv("PATH", before, 1);
  free(before);
  json_decref(notice);
  if (!sent) fail_msg("%s", why);
  char *flags = read_file("flags", &size_bytes), *mail = read_file("mail", &size_bytes);
  assert_string_equal(flags, "-i -t\n");
  assert_true(strstr(mail, "To: ops@example.org, root\nSubject: lockstep: loss raised?Bcc: x@y on h??st\n") ==
              mail);
  assert_non_null(strstr(mail, "\nContent-Type: text/plain; charset=utf-8\n"));
  assert_non_null(strstr(mail, "\n\nloss raised\nBcc: x@y on h\u00f6st\n\nCondition: loss > 1\nLoss of the "
                               "newest step.\nRun: /runs/a\n"));
  ls_free(mail);
  ls_free(flags);
}

/* ---- records ---- */

static void a_slow_step_is_seen_against_the_usual_one(void **state) {
  ls_measure_t m;
  ls_monitor_sample_t s;
  ls_monitor_state_t now = {.val_loss = NAN};
  assert_int_equal(ls_measure_begin(NULL, &m, dir, &one_rank), LS_OK);
  for (int i = 1; i <= 8; i++) {
    ls_record_clear(&ls_monitor_sample_record, &s);
    now.steps = now.step = 10 * i;
    now.step_ns += i == 8 ? 3000000 : 1000000;
    now.done_ns = m.begin_ns + now.step_ns;
    ls_measure_steps(&m, &now, m.begin_ns + now.step_ns + 500000000, &s);
    if (i <= LS_USUAL_RECORDS_MIN) assert_true(isnan(s.step_time_ratio));
    if (i == 7) assert_true(s.step_time_ratio == 1 && s.step_time_us == 100);
  }
  assert_true(s.step_time_ratio == 3 && s.idle_s == 0.5 && s.step_s == 0.01);
  ls_record_clear(&ls_monitor_sample_record, &s); /* no step since */
  ls_measure_steps(&m, &now, m.begin_ns + now.step_ns + INT64_C(2000000000), &s);
  assert_true(isnan(s.step_time_us) && isnan(s.step_time_ratio) && s.idle_s == 2 && s.step == 80);
  ls_measure_end(&m);
}

/* Steps in which fp16's loss scale is found raise no alert; a loss that is not finite does, and so does a norm without
 * a scale that could fall. */
static void an_overflow_of_the_loss_scale_is_no_alarm(void **state) {
  static const struct {
    double loss, grad_norm, loss_scale, nonfinite;
  } cases[] = {
      {2, INFINITY, 65536, 0}, {NAN, 1, 65536, 1}, {2, INFINITY, 1, 1}, {2, INFINITY, 0, 1}, {2, 1, 0, 0}};
  ls_measure_t m;
  ls_monitor_sample_t s;
  assert_int_equal(ls_measure_begin(NULL, &m, dir, &one_rank), LS_OK);
  for (int i = 0; i < LS_COUNT(cases); i++) {
    ls_monitor_state_t now = {.val_loss = NAN,
                              .steps = 1,
                              .loss = cases[i].loss,
                              .grad_norm = cases[i].grad_norm,
                              .loss_scale = cases[i].loss_scale};
    ls_record_clear(&ls_monitor_sample_record, &s);
    ls_measure_steps(&m, &now, m.begin_ns, &s);
    assert_true(s.nonfinite == cases[i].nonfinite);
    assert_true(now.loss_scale > 0 ? s.loss_scale == now.loss_scale : isnan(s.loss_scale));
  }
  ls_measure_end(&m);
}

/* ---- the view of the loop ---- */

typedef struct {
  ls_shown_t shown;
  _Atomic bool done;
} view_t;

static void *write_blocks(void *arg) {
  view_t *view = arg;
  uint64_t block[LS_SHOWN_WORDS];
  for (uint64_t i = 1; i <= 200000; i++) {
    for (int k = 0; k < LS_SHOWN_WORDS; k++)
      block[k] = i;
    ls_shown_write(&view->shown, block, sizeof block);
  }
  view->done = true;
  return NULL;
}

static void a_reader_sees_whole_blocks_in_order(void **state) {
  static view_t view;
  uint64_t block[LS_SHOWN_WORDS], last = 0;
  pthread_t writer;
  assert_int_equal(pthread_create(&writer, NULL, write_blocks, &view), 0);
  for (bool done = false; !done;) {
    done = view.done;
    if (!ls_shown_read(&view.shown, block, sizeof block)) continue;
    for (int k = 1; k < LS_SHOWN_WORDS; k++)
      assert_true(block[k] == block[0]);
    assert_true(block[0] >= last);
    last = block[0];
  }
  assert_int_equal(last, 200000);
  pthread_join(writer, NULL);
}

TESTS(make_dir, remove_dir, a_log_goes_on_behind_a_torn_line_of_an_earlier_run,
      a_log_of_several_files_is_bounded_and_read_as_one, a_log_that_is_no_file_is_refused,
      a_tensorboard_file_is_read_back, an_evaluation_is_one_point_at_its_own_step,
      crc32c_has_the_values_of_the_standard, a_csv_file_has_one_header_and_refuses_other_columns,
      metrics_keep_the_rules_of_prometheus, an_alert_waits_and_clears_at_its_own_threshold,
      an_alert_without_a_clear_condition_ends_with_its_own, usual_alerts_have_conditions,
      usual_alerts_are_raised_and_cleared_by_a_recorded_run, conditions_are_refused_with_a_reason,
      an_alert_of_the_run_is_raised_once, a_raised_alert_reaches_log_program_and_file,
      a_program_that_fails_is_said_in_the_log, a_slow_receiver_holds_nobody_up,
      a_notice_is_one_that_receivers_take_and_names_its_run, a_quote_in_a_name_ends_no_text_of_the_group_key,
      a_webhook_gets_the_notice, an_address_with_a_secret_is_no_argument,
      a_secret_that_is_not_there_is_refused, each_receiver_that_failed_is_named, a_mail_is_given_to_sendmail,
      a_slow_step_is_seen_against_the_usual_one, an_overflow_of_the_loss_scale_is_no_alarm,
      a_reader_sees_whole_blocks_in_order)
