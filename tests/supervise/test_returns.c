/* What was left out is asked whether it is there again; the remote shell is a program that knows. */
#include "supervise/places.h"
#include "supervise/returns.h"

#include "base/base.h"
#include "base/child.h"

#include "unit.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 4, LOOKS_MOST = 20000 };
static const ls_host_t list[] = {{"here", 1}, {"there", 2}, {"far", 1}};
static const ls_hosts_config_t hosts = {LS_COUNT(list), list};

/* Looks until every question is answered once; whether there would be more ranks then. */
static bool asked(ls_supervise_t *spec, const ls_places_t *places, ls_returns_t **out) {
  spec->places = *places;
  spec->return_s = 0.05;
  assert_int_equal(ls_returns_open(NULL, spec, out), LS_OK);
  ls_returns_begin(*out, 0);
  int64_t now_ns = ls_clock_ns();
  for (int i = 0; i < LOOKS_MOST; i++) {
    if (ls_returns_look(*out, places, now_ns)) return true;
    poll(NULL, 0, 1);
    if (ls_clock_ns() - now_ns > 300000000) return false; /* the next questions would come */
  }
  return false;
}

static void a_host_that_answers_is_taken_in_with_all_its_places(void **state) {
  ls_supervise_t spec = {.remote_shell = "echo -n"}; /* of any host */
  ls_places_t places = {.all = PLACES, .least = 1, .out = {1, 2}, .out_count = 2, .hosts = &hosts};
  ls_returns_t *r;
  assert_true(asked(&spec, &places, &r));
  assert_string_equal(ls_returns_words(r), "host there answers again");
  ls_returns_take(r, &places);
  assert_int_equal(places.out_count, 0);
  ls_returns_close(r);
}

static void one_that_does_not_answer_stays_out(void **state) {
  static const char *const shells[] = {"false", "/nowhere/ssh"};
  for (int i = 0; i < LS_COUNT(shells); i++) {
    ls_supervise_t spec = {.remote_shell = shells[i]};
    const ls_places_t places = {.all = PLACES, .least = 1, .out = {3}, .out_count = 1, .hosts = &hosts};
    ls_returns_t *r;
    assert_false(asked(&spec, &places, &r));
    ls_returns_close(r);
    ls_child_end_below();
  }
}

/* Two of four may train, three may not: one host alone brings nothing. */
static void numbers_of_ranks_that_do_not_fit_are_not_taken(void **state) {
  static const bool fits[PLACES + 1] = {false, true, true, false, true};
  const ls_places_t places = {
      .all = PLACES, .least = 1, .out = {3, 2}, .out_count = 2, .fits = fits, .hosts = &hosts};
  bool there[PLACES] = {[3] = true};
  ls_places_t grown = places;
  ls_places_return(&grown, there);
  assert_int_equal(ls_places_ranks(&grown), 2);
  there[2] = true;
  grown = places;
  ls_places_return(&grown, there);
  assert_int_equal(ls_places_ranks(&grown), 4);
}

static void nothing_is_asked_without_a_device_or_time(void **state) {
  ls_supervise_t spec = {.remote_shell = "echo"};
  ls_places_t places = {.all = PLACES, .least = 1, .out = {3}, .out_count = 1}; /* one host, no devices */
  ls_returns_t *r;
  assert_false(asked(&spec, &places, &r));
  ls_returns_close(r);
  places.hosts = &hosts;
  assert_int_equal(ls_returns_open(NULL, &spec, &r), LS_OK);
  spec.return_s = 0;
  assert_false(ls_returns_look(r, &places, INT64_MAX));
  ls_returns_close(r);
}

static void places_have_the_devices_that_the_user_has_given(void **state) {
  static const struct {
    const char *devices;
    int place;
    const char *device; /* NULL: there is none */
  } rows[] = {{NULL, 2, "2"}, {"4,7", 1, "7"}, {"GPU-a", 0, "GPU-a"}, {"4,7", 2, NULL}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    char device[LS_PLACES_DEVICE_BYTES];
    assert_int_equal(ls_places_device(rows[i].devices, rows[i].place, device), rows[i].device != NULL);
    if (rows[i].device) assert_string_equal(device, rows[i].device);
  }
}

static void a_life_is_told_its_devices_and_hosts(void **state) {
  (void)state;
  const ls_places_t places = {.all = PLACES, .least = 1, .out = {1, 3}, .out_count = 2, .hosts = &hosts};
  char variable[LS_PLACES_DEVICES_BYTES];
  ls_places_devices(&places, NULL, variable);
  assert_string_equal(variable, "CUDA_VISIBLE_DEVICES=0,2");
  ls_places_devices(&places, "4,5,GPU-c,7", variable);
  assert_string_equal(variable, "CUDA_VISIBLE_DEVICES=4,GPU-c");
  char *text = ls_places_hosts(&places);
  assert_string_equal(text,
                      "parallel.hosts=[{\"name\":\"here\",\"slots\":1},{\"name\":\"there\",\"slots\":1}]");
  free(text);
}

TESTS(NULL, NULL, a_host_that_answers_is_taken_in_with_all_its_places, one_that_does_not_answer_stays_out,
      numbers_of_ranks_that_do_not_fit_are_not_taken, nothing_is_asked_without_a_device_or_time,
      places_have_the_devices_that_the_user_has_given, a_life_is_told_its_devices_and_hosts)
