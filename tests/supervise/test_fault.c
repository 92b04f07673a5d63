/* The supervisor's rules, fed with looks at ranks that do not exist. */
#include "supervise/fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { RANKS = 3 };
static const int64_t second_ns = 1000000000;
static const ls_supervise_config_t config = {
    .hang_s = 10, .start_s = 300, .first_step_s = 200, .save_s = 600};
static const ls_restarts_config_t restarts = {
    .most = 3, .healthy_steps = 200, .backoff_s = 1, .backoff_most_s = 3, .least_life_s = 60};

static ls_page_look_t at(ls_page_phase_t phase, int64_t step, double since_s) {
  return (ls_page_look_t){.phase = phase, .step = step, .since_ns = (int64_t)(since_s * 1e9), .pid = 100};
}

/* Looks every 50 ms at steps that take so long. */
static void learn(ls_usual_t *usual, double step_s, int looks) {
  for (int i = 0; i < looks; i++) {
    int64_t step = (int64_t)(0.05 * i / step_s);
    ls_page_look_t look = at(LS_PAGE_STEP, step, 1 + (double)step * step_s);
    ls_usual_learn(usual, &look);
  }
}

static void the_usual_step_is_learned_and_sets_the_budget_of_a_step(void **state) {
  ls_usual_t usual = {0};
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_STEP), 200 * second_ns); /* nothing is known */
  learn(&usual, 0.0001, 100);
  assert_true(usual.usual_ns > 0.9e5 && usual.usual_ns < 1.1e5);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_STEP), 10 * second_ns);
  usual = (ls_usual_t){0};
  learn(&usual, 5, 400);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_STEP), 40 * second_ns);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_NONE), 300 * second_ns);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_START), 300 * second_ns);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_FIRST_STEP), 200 * second_ns);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_SAVE), 600 * second_ns);
}

/* A run that hangs after a tenth of a second was looked at twice: its hang was seen after first_step_s only. */
static void a_step_is_bounded_by_what_came_before_it(void **state) {
  ls_usual_t usual = {0};
  const ls_page_look_t looks[] = {at(LS_PAGE_START, 0, 1), at(LS_PAGE_SAVE, 300, 1.45),
                                  at(LS_PAGE_STEP, 1000, 1.5)};
  for (int i = 0; i < LS_COUNT(looks); i++)
    ls_usual_learn(&usual, &looks[i]);
  assert_int_equal(usual.usual_ns, 5e8);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_STEP), 10 * second_ns);
  usual = (ls_usual_t){0};
  const ls_page_look_t slow[] = {at(LS_PAGE_START, 0, 1), at(LS_PAGE_FIRST_STEP, 40, 5),
                                 at(LS_PAGE_STEP, 41, 25)};
  for (int i = 0; i < LS_COUNT(slow); i++)
    ls_usual_learn(&usual, &slow[i]);
  assert_int_equal(ls_fault_budget_ns(&config, &usual, LS_PAGE_STEP), 160 * second_ns);
}

static void a_save_or_an_evaluation_does_not_count_as_a_step(void **state) {
  ls_usual_t usual = {0};
  learn(&usual, 0.01, 100);
  double before = usual.usual_ns;
  const ls_page_look_t looks[] = {at(LS_PAGE_SAVE, 500, 6), at(LS_PAGE_STEP, 501, 100),
                                  at(LS_PAGE_STEP, 502, 100.01)};
  for (int i = 0; i < LS_COUNT(looks); i++)
    ls_usual_learn(&usual, &looks[i]);
  assert_true(usual.usual_ns < 1.01 * before);
}

static bool hangs(const ls_page_look_t look[RANKS], const bool stopped[RANKS], double now_s,
                  ls_fault_t *fault) {
  ls_usual_t usual = {.usual_ns = 1e6};
  *fault = (ls_fault_t){.rank = -1};
  return ls_fault_hang(&config, &usual, look, stopped, RANKS, 0, (int64_t)(now_s * 1e9), fault);
}

static void a_hang_names_the_rank_that_the_others_wait_for(void **state) {
  ls_fault_t fault;
  const bool none[RANKS] = {0}, second[RANKS] = {false, true};
  ls_page_look_t look[RANKS];
  for (int r = 0; r < RANKS; r++) {
    look[r] = at(LS_PAGE_STEP, 12, 100);
    look[r].entered = r == 2 ? 40 : 41;
    look[r].left = 40;
  }
  look[0].since_ns -= 1;
  assert_false(hangs(look, none, 109.9, &fault));
  assert_true(hangs(look, none, 110.1, &fault));
  assert_int_equal(fault.kind, LS_FAULT_HANG);
  assert_int_equal(fault.rank, 2);
  assert_int_equal(fault.missing_count, 1);
  assert_int_equal(fault.missing[0], 2);
  assert_int_equal(fault.collective, 41);
  fault.noticed_ns = 110 * second_ns;
  char text[512];
  ls_fault_text(&fault, RANKS, text, sizeof text);
  assert_string_equal(
      text, "rank 2 of 3 (process 100) has shown nothing for 10 s (it may take 10 s); step 12, phase step; "
            "the others wait in collective 41 for rank 2");
  look[2].entered = 41; /* all are inside: only the system knows who does not run */
  assert_true(hangs(look, second, 110.1, &fault));
  assert_int_equal(fault.rank, 1);
  assert_true(fault.stopped);
}

/* A rank was blamed that had done all its work ("phase gone"): for a launcher that was stopped, or for one that was not done. */
static void a_rank_that_is_done_is_not_to_blame(void **state) {
  ls_fault_t fault;
  char text[512];
  const bool none[RANKS] = {0};
  ls_page_look_t look[RANKS];
  for (int r = 0; r < RANKS; r++)
    look[r] = at(LS_PAGE_GONE, 12, 100);
  look[1] = at(LS_PAGE_END, 12, 101);
  assert_true(hangs(look, none, 301.5, &fault));
  assert_int_equal(fault.kind, LS_FAULT_HANG);
  assert_int_equal(fault.rank, 1);
  look[1] = at(LS_PAGE_GONE, 12, 100);
  assert_true(hangs(look, none, 301, &fault));
  assert_int_equal(fault.kind, LS_FAULT_LAUNCHER);
  assert_int_equal(fault.rank, -1);
  fault.noticed_ns = 301 * second_ns;
  ls_fault_text(&fault, RANKS, text, sizeof text);
  assert_string_equal(text,
                      "the launcher has not ended, 201 s after all ranks were done (it may take 200 s)");
  ls_fault_launcher_stopped(&config, 7, 291 * second_ns, &fault);
  ls_fault_text(&fault, RANKS, text, sizeof text);
  assert_string_equal(text, "the launcher (process 7) has been stopped for 10 s (it may be for 10 s)");
}

/* A rank that had never shown itself had "shown nothing" since the machine was started, for hours. */
static void a_rank_that_never_began_is_counted_from_the_life_s_begin(void **state) {
  ls_fault_t fault = {.rank = -1};
  const ls_usual_t usual = {0};
  const bool none[RANKS] = {0};
  const ls_page_look_t look[RANKS] = {{.phase = LS_PAGE_NONE}};
  char text[512];
  assert_true(
      ls_fault_hang(&config, &usual, look, none, RANKS, 26000 * second_ns, 26301 * second_ns, &fault));
  fault.noticed_ns = 26301 * second_ns;
  ls_fault_text(&fault, RANKS, text, sizeof text);
  assert_string_equal(text,
                      "rank 0 of 3 has shown nothing for 301 s (it may take 300 s); step 0, phase none");
}

static void ranks_that_wait_for_a_save_have_its_budget(void **state) {
  ls_fault_t fault;
  const bool none[RANKS] = {0};
  ls_page_look_t look[RANKS];
  for (int r = 0; r < RANKS; r++)
    look[r] = at(LS_PAGE_SAVE, 12, 100);
  assert_false(hangs(look, none, 699, &fault));
  assert_true(hangs(look, none, 701, &fault));
}

/* What ended, what it left on the page, and the cause. */
static void the_first_cause_is_found(void **state) {
  static const struct {
    ls_end_t end;
    int failed; /* the rank with this error */
    ls_status_t error;
    ls_fault_kind_t kind;
    int rank;
  } rows[] = {
      {{.code = 0, .dead_rank = -1}, -1, LS_OK, LS_FAULT_NONE, -1},
      {{.code = 0, .dead_rank = 0}, -1, LS_OK, LS_FAULT_EXIT, 0}, /* it had not finished */
      {{.code = 130, .dead_rank = -1, .asked = true}, -1, LS_OK, LS_FAULT_ASKED, -1},
      {{.code = 130, .dead_rank = -1}, -1, LS_OK, LS_FAULT_ASKED, -1},
      {{.code = 137, .dead_rank = 1}, -1, LS_OK, LS_FAULT_SIGNAL, 1},
      {{.code = 139, .dead_rank = 0}, -1, LS_OK, LS_FAULT_SIGNAL, 0},
      {{.code = 137, .dead_rank = 1, .kills_of_system = 1}, -1, LS_OK, LS_FAULT_MEMORY, 1},
      {{.code = 139, .dead_rank = 1, .kills_of_system = 1}, -1, LS_OK, LS_FAULT_SIGNAL, 1},
      {{.code = 7, .dead_rank = 2}, -1, LS_OK, LS_FAULT_EXIT, 2},
      {{.code = 137, .dead_rank = 1}, 0, LS_ERR_COMM, LS_FAULT_SIGNAL, 1}, /* rank 0 lost rank 1 */
      {{.code = 9, .dead_rank = 1}, 1, LS_ERR_TIMEOUT, LS_FAULT_DEADLINE, 1},
      {{.code = 5, .dead_rank = 1},
       0,
       LS_ERR_NO_SPACE,
       LS_FAULT_DISK,
       0}, /* rank 0 had mpirun end the others */
      {{.code = 10, .dead_rank = 2}, 2, LS_ERR_MEMORY, LS_FAULT_MEMORY, 2},
      {{.code = 8, .dead_rank = 0}, 0, LS_ERR_NONFINITE, LS_FAULT_NONFINITE, -1},
      {{.code = 7, .dead_rank = 1}, 1, LS_ERR_DIFFER, LS_FAULT_EXIT, -1}, /* one of two was blamed */
      {{.code = 6, .dead_rank = 0}, 0, LS_ERR_MISMATCH, LS_FAULT_REFUSED, 0},
      {{.code = 137, .signal = SIGKILL, .dead_rank = -1}, -1, LS_OK, LS_FAULT_LAUNCHER, -1},
      {{.code = 3, .dead_rank = -1}, -1, LS_OK, LS_FAULT_EXIT, -1},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_fault_t fault = {.rank = -1};
    ls_page_look_t look[RANKS];
    for (int r = 0; r < RANKS; r++)
      look[r] = at(LS_PAGE_STEP, 7, 1);
    if (rows[i].failed >= 0) look[rows[i].failed].error = rows[i].error;
    ls_fault_classify(&rows[i].end, look, RANKS, &fault);
    if (fault.kind != rows[i].kind || fault.rank != rows[i].rank)
      fail_msg("row %d: %s of rank %d", i, ls_fault_name(fault.kind), fault.rank);
  }
  /* a rank that has lost another says so first, perhaps */
  ls_page_look_t two[RANKS] = {{.error = LS_ERR_COMM, .error_ns = 1, .pid = 1},
                               {.error = LS_ERR_DEVICE, .error_ns = 2}};
  ls_fault_t lost = {.rank = -1};
  ls_fault_classify(&(ls_end_t){.code = 9, .dead_rank = 0}, two, RANKS, &lost);
  assert_int_equal(lost.kind, LS_FAULT_EXIT);
  assert_int_equal(lost.rank, 1);
}

/* A rank that was killed within 5 ms of its start ended the run for good: mpirun's exit without a word counted as a refusal. */
static void a_rank_that_dies_before_it_shows_itself_is_no_refusal(void **state) {
  static const struct {
    int code;
    int64_t kills_of_system;
    const char *words;
    ls_fault_kind_t kind;
    const char *text;
  } rows[] = {
      {3, 0, "c.yaml:1:1: unknown section", LS_FAULT_REFUSED, "the run ended with exit code 3"},
      {7, 0, "mpirun (Open MPI 4) could not run the ranks: too few files may be open", LS_FAULT_REFUSED, ""},
      {3, 0, "", LS_FAULT_EXIT, ""},
      {7, 0, "", LS_FAULT_EXIT, ""},
      {1, 0, "", LS_FAULT_EXIT, "the run ended with exit code 1"},
      {9, 0, "mpirun (Open MPI 4) could not run the ranks, and none of them has said why", LS_FAULT_EXIT, ""},
      {137, 0, "a rank was ended by signal 9 (Killed)", LS_FAULT_SIGNAL, "a rank was ended by signal 9"},
      {137, 0, "", LS_FAULT_SIGNAL, "a rank was ended by signal 9"},
      {137, 1, "", LS_FAULT_MEMORY, "a rank ran out of memory: the system ended it"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    const ls_page_look_t unseen[RANKS] = {0};
    ls_fault_t fault = {.rank = -1};
    char text[512];
    snprintf(fault.words, sizeof fault.words, "%s", rows[i].words);
    ls_fault_classify(
        &(ls_end_t){.code = rows[i].code, .dead_rank = -1, .kills_of_system = rows[i].kills_of_system},
        unseen, RANKS, &fault);
    ls_fault_text(&fault, RANKS, text, sizeof text);
    if (fault.kind != rows[i].kind || fault.rank != -1 || strncmp(text, rows[i].text, strlen(rows[i].text)))
      fail_msg("row %d: %s of rank %d: %s", i, ls_fault_name(fault.kind), fault.rank, text);
  }
  const ls_page_look_t alone = {0}; /* its launcher was blamed, which it does not have */
  ls_fault_t fault = {.rank = -1};
  const ls_end_t end = {.signal = SIGKILL, .code = 137, .signal_apart = true, .dead_rank = -1};
  ls_fault_classify(&end, &alone, 1, &fault);
  assert_int_equal(fault.kind, LS_FAULT_SIGNAL);
  assert_int_equal(fault.rank, 0);
}

/* What a signal did to the launcher or to a rank, whatever the supervisor saw first of those that ended with it. */
static void the_evidence_counts_not_the_order_in_which_ends_are_seen(void **state) {
  static const struct {
    ls_end_t end;
    const char *words;
    ls_page_phase_t phase;
    ls_fault_kind_t kind;
    int rank;
  } rows[] = {
      /* a rank that had done its last step was called the launcher */
      {{.code = 137, .signal = SIGKILL, .signal_apart = true, .dead_rank = 1},
       "",
       LS_PAGE_GONE,
       LS_FAULT_SIGNAL,
       1},
      /* ranks that ended with their launcher, and were seen before it, were called the cause */
      {{.code = 137, .signal = SIGKILL, .dead_rank = 2}, "", LS_PAGE_STEP, LS_FAULT_LAUNCHER, -1},
      {{.code = 137, .dead_rank = 2},
       "mpirun was ended by signal 9 (Killed)",
       LS_PAGE_STEP,
       LS_FAULT_LAUNCHER,
       -1},
      /* one rank is its own child; and the supervisor ends what does not end by itself */
      {{.code = 137, .signal = SIGKILL, .signal_apart = true, .dead_rank = 0},
       "",
       LS_PAGE_STEP,
       LS_FAULT_SIGNAL,
       0},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_fault_t fault = {.rank = -1};
    ls_page_look_t look[RANKS];
    for (int r = 0; r < RANKS; r++)
      look[r] = at(rows[i].phase, 7, 1);
    snprintf(fault.words, sizeof fault.words, "%s", rows[i].words);
    ls_fault_classify(&rows[i].end, look, RANKS, &fault);
    if (fault.kind != rows[i].kind || fault.rank != rows[i].rank)
      fail_msg("row %d: %s of rank %d", i, ls_fault_name(fault.kind), fault.rank);
  }
}

/* On a busy machine the supervisor found the dead rank together with those that mpirun had ended after it. */
static void of_ranks_that_are_found_dead_together_the_cause_is_named(void **state) {
  const bool dead[RANKS] = {true, true, false};
  ls_page_look_t look[RANKS];
  for (int r = 0; r < RANKS; r++) {
    look[r] = at(LS_PAGE_STEP, 7, 1);
    look[r].entered = r == 1 ? 40 : 41;
    look[r].left = 40;
  }
  assert_int_equal(ls_fault_first_dead(look, dead, RANKS), 1);
  look[1].entered = look[1].left = 41; /* it had what it waited for, and died */
  assert_int_equal(ls_fault_first_dead(look, dead, RANKS), 1);
}

static ls_fault_t killed(int64_t step) {
  return (ls_fault_t){
      .kind = LS_FAULT_SIGNAL, .rank = 1, .signal = SIGKILL, .code = 137, .at = at(LS_PAGE_STEP, step, 1)};
}

static ls_decision_t decide_after(ls_restarts_t *r, int64_t first, int64_t last, double trained_s) {
  const ls_fault_t fault = killed(last);
  return ls_restarts_decide(&restarts, 0, r, &(ls_life_t){first, last, trained_s}, &fault);
}

static ls_decision_t decide(ls_restarts_t *r, int64_t first, int64_t last) {
  return decide_after(r, first, last, 60);
}

static void restarts_are_counted_in_a_row_and_wait_longer_each_time(void **state) {
  ls_restarts_t r = {0};
  assert_int_equal(decide(&r, 0, 10).wait_ns, 0);
  assert_int_equal(decide(&r, 0, 20).wait_ns, second_ns);
  assert_int_equal(decide(&r, 0, 30).wait_ns, 2 * second_ns);
  ls_decision_t last = decide(&r, 0, 40);
  assert_false(last.again);
  assert_non_null(strstr(last.why, "supervise.restarts.most"));
  r = (ls_restarts_t){0};
  for (int64_t i = 0; i < 1000; i++) /* every life is healthy */
    assert_true(decide(&r, i * 200, i * 200 + 200).again);
  assert_true(decide(&r, 0, 1).again && decide(&r, 0, 2).again);
  assert_int_equal(r.restarts, 3);
}

static void the_same_failure_at_the_same_step_twice_ends_the_run(void **state) {
  ls_restarts_t r = {0};
  assert_true(decide(&r, 0, 1000).again);
  ls_decision_t second = decide(&r, 600, 1000);
  assert_false(second.again);
  assert_non_null(strstr(second.why, "twice"));
  r = (ls_restarts_t){0};
  assert_true(decide(&r, 0, 1000).again);
  assert_true(decide(&r, 600, 1001).again);
}

/* Two kills by chance during the start, where every step is 0, ended the run, whatever supervise.restarts.most allowed. */
static void two_kills_at_the_start_are_not_the_same_failure(void **state) {
  ls_restarts_t r = {0};
  const ls_fault_t early = {.kind = LS_FAULT_SIGNAL, .rank = 1, .signal = SIGKILL, .code = 137};
  const ls_life_t none = {-1, -1, 0};
  for (int i = 0; i < restarts.most; i++) /* 0, 1, 2 s */
    assert_int_equal(ls_restarts_decide(&restarts, 0, &r, &none, &early).wait_ns, i * second_ns);
  const ls_decision_t last =
      ls_restarts_decide(&restarts, 0, &r, &none, &early); /* one that lasts has an end */
  assert_false(last.again);
  assert_non_null(strstr(last.why, "supervise.restarts.most"));
  r = (ls_restarts_t){0};
  assert_true(decide_after(&r, 0, 1000, 59).again);
  assert_true(decide_after(&r, 600, 1000, 59).again); /* nor at a step, of a short life */
  assert_false(decide_after(&r, 600, 1000, 60).again);
  r = (ls_restarts_t){0}; /* what a rank says itself, it would say again */
  ls_fault_t said = early;
  said.at = at(LS_PAGE_START, 0, 1);
  said.at.error = LS_ERR_IO;
  assert_true(ls_restarts_decide(&restarts, 0, &r, &none, &said).again);
  assert_false(ls_restarts_decide(&restarts, 0, &r, &none, &said).again);
}

/* Each life did more steps than supervise.restarts.healthy_steps, but none that an earlier one had not done. */
static void lives_that_never_get_further_come_to_an_end(void **state) {
  ls_restarts_t r = {0};
  for (int i = 0; i < restarts.most; i++)
    assert_true(decide_after(&r, 0, 1000 - i, 1).again);
  assert_true(decide_after(&r, 0, 1000 + 200, 1).again);
  assert_int_equal(r.restarts, 1);
  for (int i = 1; i < restarts.most; i++)
    assert_true(decide_after(&r, 900, 1200 - i, 1).again);
  assert_false(decide_after(&r, 900, 1199, 1).again);
}

static void what_another_start_cannot_cure_is_not_started_again(void **state) {
  ls_restarts_t r = {0};
  const ls_life_t life = {-1, -1, 0};
  for (ls_fault_kind_t kind = LS_FAULT_NONE; kind < LS_FAULT_KINDS; kind++) {
    const ls_fault_t fault = {.kind = kind, .rank = -1, .code = 3};
    bool ends = kind == LS_FAULT_NONE || kind == LS_FAULT_ASKED || kind == LS_FAULT_REFUSED;
    r = (ls_restarts_t){0};
    assert_int_equal(ls_restarts_decide(&restarts, 0, &r, &life, &fault).again, !ends);
  }
}

static void of(ls_restarts_t *r, ls_fault_t fault, int64_t first, int64_t last, bool *fewer, bool *more) {
  ls_decision_t d = ls_restarts_decide(&restarts, 0, r, &(ls_life_t){first, last, 60}, &fault);
  assert_true(d.again);
  *fewer = d.fewer, *more = d.more;
}

static void a_rank_that_fails_twice_in_a_row_is_left_out(void **state) {
  ls_restarts_t r = {.places = {.all = 4, .least = 2}};
  bool fewer, more;
  of(&r, killed(1000), 0, 100, &fewer, &more);
  assert_false(fewer || more);
  of(&r, killed(1000), 0, 100, &fewer, &more); /* the same step: another world goes on all the same */
  assert_true(fewer);
  assert_int_equal(ls_places_ranks(&r.places), 3);
  assert_int_equal(r.places.out[0], 1);
  const int places[] = {0, 2, 3};
  for (int i = 0; i < 3; i++)
    assert_int_equal(ls_places_at(&r.places, i), places[i]);
  of(&r, killed(1000), 0, 100, &fewer, &more); /* rank 1 is another one now */
  assert_false(fewer);
  of(&r, killed(1001), 0, 100, &fewer, &more);
  assert_true(fewer);
  assert_int_equal(r.places.out[1], 2);
  of(&r, killed(1000), 0, 100, &fewer, &more);
  of(&r, killed(1001), 0, 100, &fewer, &more); /* never below the least */
  assert_false(fewer);
  assert_int_equal(ls_places_ranks(&r.places), 2);
}

static void a_rank_without_its_device_is_left_out_at_once(void **state) {
  ls_restarts_t r = {.places = {.all = 2, .least = 1}};
  ls_fault_t fault = {.kind = LS_FAULT_EXIT, .rank = 0, .code = 7, .at = at(LS_PAGE_START, 0, 1)};
  bool fewer, more;
  fault.at.error = LS_ERR_DEVICE;
  of(&r, fault, -1, -1, &fewer, &more);
  assert_true(fewer);
  assert_int_equal(ls_places_at(&r.places, 0), 1);
}

static void what_is_left_out_is_tried_again_after_healthy_steps(void **state) {
  ls_restarts_t r = {.places = {.all = 3, .least = 1, .out = {2}, .out_count = 1}};
  bool fewer, more;
  of(&r, killed(100), 0, 100, &fewer, &more);
  assert_false(fewer || more);
  of(&r, killed(500), 0, 500, &fewer, &more);
  assert_true(more);
  assert_int_equal(ls_places_ranks(&r.places), 3);
}

/* Places are taken in while the run goes on, and its restarts are those of another world. */
static void a_return_is_no_failure(void **state) {
  ls_restarts_t r = {.restarts = 3, .any = true, .last = killed(500), .places = {.all = 3, .least = 1}};
  const ls_fault_t back = {.kind = LS_FAULT_RETURN, .rank = -1};
  const ls_decision_t d = ls_restarts_decide(&restarts, 0, &r, &(ls_life_t){0, 500, 60}, &back);
  assert_true(d.again && d.more && d.wait_ns == 0);
  assert_int_equal(r.restarts, 0);
  assert_true(ls_restarts_decide(&restarts, 0, &r, &(ls_life_t){500, 500, 60}, &r.last).again);
}

static const ls_host_t three[] = {{"a", 2}, {"b", 1}, {"c", 1}};
static const ls_hosts_config_t hosts = {3, three};

static void a_lost_host_is_left_out_at_once_with_all_its_ranks(void **state) {
  static const bool fits[] = {false, true, true, false, true};
  ls_restarts_t r = {.places = {.all = 4, .least = 1, .hosts = &hosts}};
  const ls_fault_t lost = {.kind = LS_FAULT_HOST, .rank = -1, .host = "a"};
  bool fewer, more;
  of(&r, lost, 0, 100, &fewer, &more);
  assert_true(fewer);
  assert_int_equal(ls_places_ranks(&r.places), 2);
  assert_int_equal(ls_places_at(&r.places, 0), 2);
  r = (ls_restarts_t){.places = {.all = 4, .least = 1, .hosts = &hosts, .fits = fits}};
  of(&r, (ls_fault_t){.kind = LS_FAULT_HOST, .rank = -1, .host = "b"}, 0, 100, &fewer, &more);
  assert_true(fewer); /* 3 ranks do not fit: the last place has nothing to do */
  assert_int_equal(ls_places_ranks(&r.places), 2);
  assert_int_equal(ls_places_at(&r.places, 1), 1);
  r = (ls_restarts_t){.places = {.all = 4, .least = 3, .hosts = &hosts}};
  of(&r, lost, 0, 100, &fewer, &more);
  of(&r, lost, 0, 100, &fewer, &more); /* it may come back: the same loss twice ends nothing */
  assert_false(fewer);
  assert_int_equal(ls_places_ranks(&r.places), 4);
}

static void a_rank_of_several_hosts_with_devices_takes_its_host_along(void **state) {
  ls_restarts_t r = {.places = {.all = 4, .least = 1, .hosts = &hosts, .whole = true}};
  bool fewer, more;
  of(&r, killed(1000), 0, 100, &fewer, &more);
  of(&r, killed(1001), 0, 100, &fewer, &more);
  assert_true(fewer);
  assert_int_equal(ls_places_ranks(&r.places), 2);
  assert_int_equal(ls_hosts_at(&hosts, ls_places_at(&r.places, 0)), 1);
}

static void a_rank_is_not_left_out_for_what_another_would_meet_too(void **state) {
  static const struct {
    ls_fault_kind_t kind;
    ls_status_t error;
  } rows[] = {{LS_FAULT_DISK, LS_ERR_NO_SPACE},
              {LS_FAULT_EXIT, LS_ERR_IO},
              {LS_FAULT_EXIT, LS_ERR_COMM},
              {LS_FAULT_DEADLINE, LS_ERR_TIMEOUT},
              {LS_FAULT_NONFINITE, LS_ERR_NONFINITE}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_restarts_t r = {.places = {.all = 3, .least = 1}};
    bool fewer, more;
    for (int life = 0; life < 2; life++) {
      ls_fault_t fault = {.kind = rows[i].kind, .at = at(LS_PAGE_STEP, life, 1)};
      fault.at.error = rows[i].error;
      of(&r, fault, 0, 10, &fewer, &more);
      assert_false(fewer);
    }
  }
}

static void after_a_divergence_its_samples_are_left_out(void **state) {
  const ls_life_t life = {100, 300, 60};
  ls_fault_t fault = {.kind = LS_FAULT_NONFINITE, .rank = -1, .code = 8, .at = at(LS_PAGE_END, 300, 1)};
  ls_restarts_t r = {0};
  assert_true(ls_restarts_decide(&restarts, 0, &r, &life, &fault).again);
  assert_int_equal(r.past_step, 0);
  r = (ls_restarts_t){0};
  assert_true(ls_restarts_decide(&restarts, 5, &r, &life, &fault).again);
  assert_int_equal(r.past_step, 305);
  const ls_fault_t other = killed(310); /* of what comes next, nothing is left out */
  assert_true(ls_restarts_decide(&restarts, 5, &r, &life, &other).again);
  assert_int_equal(r.past_step, 305);
}

static void a_broken_gpu_is_the_first_cause_and_left_out_at_once(void **state) {
  const ls_page_look_t look = at(LS_PAGE_STEP, 7, 1);
  ls_restarts_t r = {.places = {.all = 3, .least = 2}};
  ls_fault_t fault = killed(7), full = {.kind = LS_FAULT_DISK, .rank = 0};
  char text[256];
  ls_fault_of_gpu(2, &look, &full); /* no consequence of a GPU */
  assert_int_equal(full.kind, LS_FAULT_DISK);
  ls_fault_of_gpu(2, &look, &fault);
  assert_int_equal(fault.kind, LS_FAULT_GPU);
  assert_int_equal(fault.code, 7);
  ls_fault_text(&fault, 3, text, sizeof text);
  if (!strstr(text, "rank 2 of 3 ") || !strstr(text, ": its GPU has reported an error")) fail_msg("%s", text);
  ls_decision_t decision = ls_restarts_decide(&restarts, 0, &r, &(ls_life_t){0, 7, 1}, &fault);
  assert_true(decision.again && decision.fewer);
  assert_int_equal(r.places.out_count, 1);
  assert_int_equal(r.places.out[0], 2);
}

TESTS(NULL, NULL, the_usual_step_is_learned_and_sets_the_budget_of_a_step,
      a_step_is_bounded_by_what_came_before_it, a_save_or_an_evaluation_does_not_count_as_a_step,
      a_hang_names_the_rank_that_the_others_wait_for, a_rank_that_is_done_is_not_to_blame,
      a_rank_that_never_began_is_counted_from_the_life_s_begin, ranks_that_wait_for_a_save_have_its_budget,
      the_first_cause_is_found, the_evidence_counts_not_the_order_in_which_ends_are_seen,
      a_rank_that_dies_before_it_shows_itself_is_no_refusal,
      of_ranks_that_are_found_dead_together_the_cause_is_named,
      restarts_are_counted_in_a_row_and_wait_longer_each_time,
      the_same_failure_at_the_same_step_twice_ends_the_run, two_kills_at_the_start_are_not_the_same_failure,
      lives_that_never_get_further_come_to_an_end, a_rank_that_fails_twice_in_a_row_is_left_out,
      a_rank_without_its_device_is_left_out_at_once, what_is_left_out_is_tried_again_after_healthy_steps,
      a_return_is_no_failure, a_lost_host_is_left_out_at_once_with_all_its_ranks,
      a_rank_of_several_hosts_with_devices_takes_its_host_along,
      a_rank_is_not_left_out_for_what_another_would_meet_too, after_a_divergence_its_samples_are_left_out,
      what_another_start_cannot_cure_is_not_started_again,
      a_broken_gpu_is_the_first_cause_and_left_out_at_once)
