/* The ladder against a recorded GPU: rungs are entered and left as their conditions say, the heaviest counts, and a value
 * between two limits changes nothing. */
#include "base/capture.h"
#include "machine/gpu_live.h"
#include "supervise/safety.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static const ls_safety_rung_t rungs[] = {
    {.name = "warm",
     .when = "gpu_margin_c < 10",
     .clear = "gpu_margin_c > 15",
     .for_s = 2,
     .clear_for_s = 3,
     .act = LS_SAFETY_DUTY,
     .share = 0.5},
    {.name = "warmer", .when = "gpu_margin_c < 7", .act = LS_SAFETY_DUTY, .share = 0.25},
    {.name = "warmest", .when = "gpu_margin_c < 6", .clear = "gpu_margin_c > 13", .act = LS_SAFETY_SMALLER},
    {.name = "hot", .when = "gpu_margin_c < 5", .clear = "gpu_margin_c > 15", .act = LS_SAFETY_PAUSE},
    {.name = "melting", .when = "gpu_margin_c <= 1", .act = LS_SAFETY_END}};
static const ls_safety_config_t config = {LS_COUNT(rungs), rungs};

/* Second by second: what the recording says, and what has to hold then. */
static const struct {
  double margin_c;
  ls_safety_act_t act;
  double share;
  bool smaller;
} rows[] = {{30, LS_SAFETY_NONE, 1},
            {9, LS_SAFETY_NONE, 1},
            /* for_s */ {9, LS_SAFETY_NONE, 1},
            {9, LS_SAFETY_DUTY, 0.5},
            {6, LS_SAFETY_DUTY, 0.25},
            {8, LS_SAFETY_DUTY, 0.5},
            {14, LS_SAFETY_DUTY, 0.5},
            {4, LS_SAFETY_PAUSE, 0.25, true},
            {14, LS_SAFETY_PAUSE, 0.5},
            {1, LS_SAFETY_END, 0.25, true},
            {16, LS_SAFETY_DUTY, 0.5},
            {17, LS_SAFETY_DUTY, 0.5},
            {12, LS_SAFETY_DUTY, 0.5},
            /* begins again */ {16, LS_SAFETY_DUTY, 0.5},
            {16, LS_SAFETY_DUTY, 0.5},
            {16, LS_SAFETY_DUTY, 0.5},
            {16, LS_SAFETY_NONE, 1},
            {NAN, LS_SAFETY_NONE, 1}};

/* A run that has been made smaller begins there. */
static void begins_where_it_was(void **state) {
  ls_safety_t ladder;
  ls_safety_now_t is;
  ls_monitor_sample_t sample;
  ls_safety_begin(&config, true, &ladder);
  ls_record_clear(&ls_monitor_sample_record, &sample);
  sample.t = 1;
  sample.gpu_margin_c = 12; /* between the two conditions */
  assert_int_equal(ls_safety_judge(&ladder, &sample, &is), 0);
  assert_true(is.smaller);
  assert_int_equal(is.act, LS_SAFETY_SMALLER);
  sample.t = 2;
  sample.gpu_margin_c = 14;
  assert_true(ls_safety_judge(&ladder, &sample, &is) && !is.smaller);
}

static void climbs_and_descends(void **state) {
  capture_t *c = *state;
  char path[] = "/tmp/lockstep-safety-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (isnan(rows[i].margin_c))
      dprintf(fd, "{\"t\": %d, \"gpu_power_w\": 1}\n", i);
    else
      dprintf(fd, "{\"t\": %d, \"gpu_margin_c\": %g}\n", i, rows[i].margin_c);
  close(fd);
  ls_gpu_replay_t *replay;
  assert_int_equal(ls_gpu_replay_open(c->ctx, path, 0, &replay), LS_OK);
  ls_safety_t ladder;
  ls_safety_begin(&config, false, &ladder);
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_monitor_sample_t sample;
    ls_gpu_now_t now;
    ls_safety_now_t is;
    ls_gpu_replay_at(replay, i, &now);
    ls_record_clear(&ls_monitor_sample_record, &sample);
    sample.t = 1000 + i;
    sample.gpu_margin_c = now.margin_c;
    ls_safety_judge(&ladder, &sample, &is);
    assert_int_equal(is.smaller, rows[i].smaller);
    if (is.act != rows[i].act || is.share != rows[i].share)
      fail_msg("second %d, margin %g: %s %g, not %s %g", i, rows[i].margin_c, ls_safety_acts[is.act],
               is.share, ls_safety_acts[rows[i].act], rows[i].share);
  }
  ls_gpu_replay_close(replay);
  unlink(path);
}

TESTS(capture_setup, capture_teardown, climbs_and_descends, begins_where_it_was)
