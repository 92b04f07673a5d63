/* Profiles: what is put is got, curves interpolate exactly, files come back bit for bit, and a file that is
 * torn, altered, of another machine or of another version is refused with its reason. */
#include "base/capture.h"
#include "machine/profile.h"

#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64], path[512];

static int setup(void **state) {
  strcpy(root, "/tmp/lockstep-test-XXXXXX");
  if (!mkdtemp(root)) return -1;
  snprintf(path, sizeof path, "%s/deep/er/profile.json", root);
  return capture_setup(state);
}

static int teardown(void **state) {
  capture_t *c = *state;
  int failed = ls_dir_remove(c->ctx, root) != LS_OK;
  return capture_teardown(state) || failed;
}

static ls_machine_t machine_of(const char *cpu) {
  ls_machine_t m;
  ls_machine_clear(&m);
  snprintf(m.cpu_model, sizeof m.cpu_model, "%s", cpu);
  m.cores = 2;
  return m;
}

static ls_profile_t *create(capture_t *c) {
  ls_machine_t m = machine_of("Test CPU");
  ls_profile_t *p = NULL;
  assert_int_equal(ls_profile_create(c->ctx, &m, &p), LS_OK);
  return p;
}

static const ls_curve_point_t three[] = {
    {64, {100, 90, 120}}, {1024, {200, 190, 240}}, {2048, {400, 350, 500}}};

static void put_get(void **state) {
  capture_t *c = *state;
  ls_profile_t *p = create(c);
  ls_time_t t = {-7, -7, -7};
  char key[32];
  for (int i = 0; i < 100; i++) { /* in an order that is neither ascending nor descending */
    snprintf(key, sizeof key, "op %d", i * 37 % 100);
    assert_int_equal(ls_profile_put(p, key, &(ls_time_t){i * 37 % 100, 0, 200}), LS_OK);
  }
  assert_int_equal(ls_profile_time_count(p), 100);
  for (int i = 0; i < 100; i++) {
    snprintf(key, sizeof key, "op %d", i);
    assert_true(ls_profile_get(p, key, &t));
    assert_true(t.ns == i && t.low_ns == 0 && t.high_ns == 200);
  }
  const char *before = ls_profile_time_at(p, 0, &t);
  for (int i = 1; i < 100; i++) {
    const char *at = ls_profile_time_at(p, i, &t);
    assert_true(strcmp(before, at) < 0);
    before = at;
  }
  assert_null(ls_profile_time_at(p, 100, &t));
  assert_null(ls_profile_time_at(p, -1, &t));
  assert_int_equal(ls_profile_put(p, "op 5", &(ls_time_t){6, 6, 6}), LS_OK);
  assert_int_equal(ls_profile_time_count(p), 100);
  assert_true(ls_profile_get(p, "op 5", &t) && t.ns == 6);
  t = (ls_time_t){-7, -7, -7};
  assert_false(ls_profile_get(p, "op", &t));
  assert_true(t.ns == -7); /* outputs only on success */
  ls_profile_destroy(p);
}

static void refuses_nonsense(void **state) {
  capture_t *c = *state;
  ls_profile_t *p = create(c);
  const ls_time_t bad[] = {{NAN, 0, 1}, {1, NAN, 1}, {1, 0, INFINITY}, {1, 2, 3}, {5, 1, 3}, {1, -1, 3}};
  for (int i = 0; i < LS_COUNT(bad); i++)
    assert_int_equal(ls_profile_put(p, "k", &bad[i]), LS_ERR_ARGUMENT);
  char longer[LS_PROFILE_KEY_BYTES + 1];
  memset(longer, 'k', sizeof longer);
  longer[LS_PROFILE_KEY_BYTES] = '\0';
  const ls_time_t good = {1, 1, 1};
  assert_int_equal(ls_profile_put(p, longer, &good), LS_ERR_ARGUMENT);
  longer[LS_PROFILE_KEY_BYTES - 1] = '\0';
  assert_int_equal(ls_profile_put(p, longer, &good), LS_OK);
  assert_int_equal(ls_profile_put(p, "", &good), LS_ERR_ARGUMENT);
  assert_int_equal(ls_profile_put(p, "a\nb", &good), LS_ERR_ARGUMENT);
  ls_curve_point_t points[2] = {{64, {1, 1, 1}}, {64, {1, 1, 1}}};
  assert_int_equal(ls_profile_put_curve(p, "c", points, 2), LS_ERR_ARGUMENT); /* not ascending */
  assert_int_equal(ls_profile_put_curve(p, "c", points, 0), LS_ERR_ARGUMENT);
  points[0].bytes = -1;
  assert_int_equal(ls_profile_put_curve(p, "c", points, 1), LS_ERR_ARGUMENT);
  assert_int_equal(ls_profile_time_count(p), 1);
  assert_int_equal(ls_profile_curve_count(p), 0);
  ls_profile_destroy(p);
}

static void interpolation(void **state) {
  capture_t *c = *state;
  ls_profile_t *p = create(c);
  ls_time_t t = {-7, -7, -7};
  assert_false(ls_profile_interpolate(p, "curve", 100, &t));
  assert_true(t.ns == -7);
  assert_int_equal(ls_profile_put_curve(p, "curve", three, 3), LS_OK);
  const struct {
    double bytes, ns, low, high;
  } rows[] = {{0, 100, 90, 120},     {64, 100, 90, 120},    {544, 150, 140, 180},  {1024, 200, 190, 240},
              {1536, 300, 270, 370}, {2048, 400, 350, 500}, {4096, 800, 670, 1020}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    assert_true(ls_profile_interpolate(p, "curve", rows[i].bytes, &t));
    assert_true(t.ns == rows[i].ns && t.low_ns == rows[i].low && t.high_ns == rows[i].high);
  }
  assert_false(ls_profile_interpolate(p, "curve", NAN, &t));
  /* A last stretch that falls (noise) is not carried on to negative times. */
  const ls_curve_point_t falling[] = {{10, {100, 50, 150}}, {20, {90, 80, 100}}};
  assert_int_equal(ls_profile_put_curve(p, "falling", falling, 2), LS_OK);
  assert_true(ls_profile_interpolate(p, "falling", 1e9, &t));
  assert_true(t.ns == 90 && t.low_ns <= t.ns && t.high_ns >= t.ns);
  assert_int_equal(ls_profile_put_curve(p, "one", three, 1), LS_OK);
  assert_true(ls_profile_interpolate(p, "one", 1e6, &t) && t.ns == 100);
  ls_profile_destroy(p);
}

static ls_profile_t *filled(capture_t *c) {
  ls_profile_t *p = create(c);
  assert_int_equal(ls_profile_put(p, "op cpu t2 linear f32 (16, 799)", &(ls_time_t){1.0 / 3, 0.1, 1e9 / 7}),
                   LS_OK);
  assert_int_equal(ls_profile_put(p, "whole", &(ls_time_t){5, 5, 5}), LS_OK);
  assert_int_equal(ls_profile_put_curve(p, "all-reduce mpi 2", three, 3), LS_OK);
  return p;
}

static void file_round_trip(void **state) {
  capture_t *c = *state;
  ls_machine_t here = machine_of("Test CPU");
  ls_profile_t *p = filled(c), *q = NULL;
  assert_int_equal(ls_profile_save(c->ctx, p, path), LS_OK); /* folders are made */
  assert_int_equal(ls_profile_load(c->ctx, path, &here, &q), LS_OK);
  ls_time_t t;
  const ls_curve_point_t *points;
  assert_true(ls_profile_get(q, "op cpu t2 linear f32 (16, 799)", &t));
  assert_true(t.ns == 1.0 / 3 && t.low_ns == 0.1 && t.high_ns == 1e9 / 7);
  assert_int_equal(ls_profile_curve(q, "all-reduce mpi 2", &points), 3);
  assert_memory_equal(points, three, sizeof three);
  json_t *a = ls_profile_json(p), *b = ls_profile_json(q);
  assert_true(a && json_equal(a, b));
  json_decref(a);
  json_decref(b);
  assert_string_equal(ls_profile_machine(q)->cpu_model, "Test CPU");
  ls_profile_destroy(p);
  ls_profile_destroy(q);
}

static void another_machine(void **state) {
  capture_t *c = *state;
  ls_profile_t *p = filled(c), *q = NULL;
  assert_int_equal(ls_profile_save(c->ctx, p, path), LS_OK);
  ls_machine_t here = machine_of("Other CPU");
  assert_int_equal(ls_profile_load(c->ctx, path, &here, &q), LS_ERR_MISMATCH);
  assert_non_null(strstr(c->text, "cpu model is \"Test CPU\" there, \"Other CPU\" here"));
  assert_null(q);
  assert_int_equal(ls_profile_load(c->ctx, path, NULL, &q), LS_OK); /* replay and simulation */
  ls_profile_destroy(q);
  here = machine_of("Test CPU");
  here.memory_bytes = 1; /* not part of the identity */
  assert_int_equal(ls_profile_load(c->ctx, path, &here, &q), LS_OK);
  ls_profile_destroy(q);
  ls_profile_destroy(p);
}

static void missing(void **state) {
  capture_t *c = *state;
  ls_profile_t *q = NULL;
  assert_int_equal(ls_profile_load(c->ctx, path, NULL, &q), LS_ERR_NOT_FOUND);
  assert_null(q);
}

/* Every truncation of the file, and every byte changed, is refused or loads the same contents (white space).
 */
static void torn_and_altered(void **state) {
  capture_t *c = *state;
  ls_machine_t here = machine_of("Test CPU");
  ls_profile_t *p = filled(c);
  json_t *whole = ls_profile_json(p);
  assert_int_equal(ls_profile_save(c->ctx, p, path), LS_OK);
  ls_profile_destroy(p);
  char *text, *changed;
  size_t size;
  assert_int_equal(ls_file_read(c->ctx, path, 1 << 20, &text, &size), LS_OK);
  changed = malloc(size);
  assert_non_null(changed);
  for (size_t i = 0; i < 2 * size; i++) {
    size_t len = i < size ? i : size;
    memcpy(changed, text, size);
    if (i >= size) changed[i - size] = (char)(changed[i - size] ^ (1 + i % 7));
    FILE *file = fopen(path, "wb"); /* not durable: thousands of times */
    assert_int_equal(fwrite(changed, 1, len, file), len);
    fclose(file);
    ls_profile_t *q = NULL;
    ls_status_t status = ls_profile_load(c->ctx, path, &here, &q);
    if (status == LS_OK) {
      json_t *j = ls_profile_json(q);
      assert_true(json_equal(j, whole));
      json_decref(j);
      ls_profile_destroy(q);
    } else {
      assert_true(status == LS_ERR_CORRUPT || status == LS_ERR_MISMATCH);
      assert_null(q);
    }
    capture_clear(c);
  }
  json_decref(whole);
  free(changed);
  ls_free(text);
}

static void refused_files(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text, *says;
    ls_status_t status;
  } rows[] = {
      {"", "not a whole profile", LS_ERR_CORRUPT},
      {"[]", "not a profile", LS_ERR_CORRUPT},
      {"{}", "not a profile", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\"}", "\"version\" is not a whole number", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 5}", "version 5", LS_ERR_MISMATCH},
      /* its "libraries cpu" are bytes of something else */
      {"{\"format\": \"lockstep profile\", \"version\": 3}",
       "profile of version 3, this program reads version 4; run lockstep probe", LS_ERR_MISMATCH},
      {"{\"format\": \"lockstep profile\", \"version\": 4}", "an object expected", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"times\": []}", "\"times\"",
       LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"times\": {\"a\": [1, 2]}}",
       "\"a\"", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"times\": {\"a\": [1, 2, 3]}}",
       "not a time", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"times\": {\"\": [1, 1, 1]}}",
       "not a key", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"curves\": {\"a\": []}}",
       "a curve", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"curves\": {\"a\": [[1, 1, 1, "
       "\"1\"]]}}",
       "a curve", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"curves\": {\"a\": "
       "[[2,1,1,1],[1,1,1,1]]}}",
       "not ascending", LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"checksum\": \"0\"}", "altered",
       LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {}, \"machine\": {}}", "duplicate",
       LS_ERR_CORRUPT},
      {"{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {\"cores\": 1e400}}",
       "real number overflow", LS_ERR_CORRUPT},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_profile_t *q = NULL;
    snprintf(path, sizeof path, "%s/p.json", root);
    assert_int_equal(ls_file_write(c->ctx, path, rows[i].text, strlen(rows[i].text)), LS_OK);
    assert_int_equal(ls_profile_load(c->ctx, path, NULL, &q), rows[i].status);
    assert_null(q);
    if (!strstr(c->text, rows[i].says)) fail_msg("row %d says: %s", i, c->text);
    capture_clear(c);
  }
}

/* Written by hand, without checksum: good for any machine, never taken for a measurement of this one. */
static void described_by_hand(void **state) {
  capture_t *c = *state;
  const char text[] =
      "{\"format\": \"lockstep profile\", \"version\": 4, \"machine\": {\"cpu_model\": \"X\"}, "
      "\"times\": {\"a\": [1, 1, 1]}}";
  snprintf(path, sizeof path, "%s/p.json", root);
  assert_int_equal(ls_file_write(c->ctx, path, text, sizeof text - 1), LS_OK);
  ls_profile_t *q = NULL;
  assert_int_equal(ls_profile_load(c->ctx, path, NULL, &q), LS_OK);
  ls_machine_t same = *ls_profile_machine(q);
  ls_profile_destroy(q);
  q = NULL;
  assert_int_equal(ls_profile_load(c->ctx, path, &same, &q), LS_ERR_CORRUPT);
  assert_null(q);
}

static void merge(void **state) {
  capture_t *c = *state;
  ls_profile_t *p = filled(c), *q = create(c);
  assert_int_equal(ls_profile_put(q, "whole", &(ls_time_t){9, 9, 9}), LS_OK);
  assert_int_equal(ls_profile_put(q, "more", &(ls_time_t){1, 1, 1}), LS_OK);
  assert_int_equal(ls_profile_put_curve(q, "all-reduce mpi 2", three, 2), LS_OK);
  assert_int_equal(ls_profile_merge(p, q), LS_OK);
  ls_time_t t;
  const ls_curve_point_t *points;
  assert_true(ls_profile_get(p, "whole", &t) && t.ns == 9);
  assert_int_equal(ls_profile_time_count(p), 3);
  assert_int_equal(ls_profile_curve(p, "all-reduce mpi 2", &points), 2);
  ls_profile_destroy(p);
  ls_profile_destroy(q);
}

static void default_path(void **state) {
  capture_t *c = *state;
  ls_machine_t m = machine_of("Test CPU");
  char hex[17], expected[512];
  ls_machine_fingerprint(&m, hex);
  setenv("LOCKSTEP_PROFILE", "/x/y.json", 1);
  char *got = ls_profile_default_path(c->ctx, &m);
  assert_string_equal(got, "/x/y.json");
  ls_free(got);
  unsetenv("LOCKSTEP_PROFILE");
  setenv("XDG_CACHE_HOME", "/cache", 1);
  got = ls_profile_default_path(c->ctx, &m);
  snprintf(expected, sizeof expected, "/cache/lockstep/%s.json", hex);
  assert_string_equal(got, expected);
  ls_free(got);
  setenv("XDG_CACHE_HOME", "relative", 1); /* ignored, as its specification says */
  setenv("HOME", "/home/someone", 1);
  got = ls_profile_default_path(c->ctx, &m);
  snprintf(expected, sizeof expected, "/home/someone/.cache/lockstep/%s.json", hex);
  assert_string_equal(got, expected);
  ls_free(got);
}

static void without_home_the_profile_is_in_the_users_home_and_not_in_the_current_folder(void **state) {
  capture_t *c = *state;
  ls_machine_t m = machine_of("Test CPU");
  const struct passwd *user = getpwuid(getuid());
  if (!user || user->pw_dir[0] != '/') skip();
  unsetenv("LOCKSTEP_PROFILE");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  char expected[512];
  snprintf(expected, sizeof expected, "%s/.cache/lockstep/", user->pw_dir);
  char *got = ls_profile_default_path(c->ctx, &m);
  assert_int_equal(strncmp(got, expected, strlen(expected)), 0);
  assert_string_equal(c->text, "");
  ls_free(got);
}

static ls_status_t whole_life(capture_t *c) {
  ls_machine_t m = machine_of("Test CPU");
  ls_profile_t *p, *q;
  char *name = NULL;
  ls_status_t status = ls_profile_create(c->ctx, &m, &p);
  if (status != LS_OK) return status;
  status = ls_profile_put(p, "a", &(ls_time_t){1, 1, 1});
  if (status == LS_OK) status = ls_profile_put_curve(p, "c", three, 3);
  if (status == LS_OK) status = ls_profile_put_curve(p, "c", three, 2);
  if (status == LS_OK) status = ls_profile_save(c->ctx, p, path);
  if (status == LS_OK) status = ls_profile_load(c->ctx, path, &m, &q);
  if (status == LS_OK) {
    ls_profile_destroy(q);
    name = ls_profile_default_path(c->ctx, &m);
    if (!name) status = LS_ERR_MEMORY;
  }
  ls_free(name);
  ls_profile_destroy(p);
  return status;
}

static void every_allocation_fails_once(void **state) {
  assert_in_range(capture_fail_each_alloc(*state, whole_life), 10, 200);
}

/* What is not there is taken over, by the beginning of its key; what is there stays. */
static void fill_keeps_what_is_there(void **state) {
  capture_t *c = *state;
  ls_profile_t *into = create(c), *from = create(c);
  ls_time_t t = {1, 1, 1}, other = {2, 2, 2};
  static const char *const prefixes[] = {"step ", "op ", NULL};
  assert_int_equal(ls_profile_put(into, "op both", &t), LS_OK);
  assert_int_equal(ls_profile_put(from, "op both", &other), LS_OK);
  assert_int_equal(ls_profile_put(from, "op new", &other), LS_OK);
  assert_int_equal(ls_profile_put(from, "launch cpu t1", &other), LS_OK);
  assert_int_equal(ls_profile_put_curve(from, "step x | whole step", three, LS_COUNT(three)), LS_OK);
  assert_int_equal(ls_profile_put_curve(from, "all-reduce mpi 2", three, LS_COUNT(three)), LS_OK);
  assert_int_equal(ls_profile_fill(into, from, prefixes), LS_OK);
  const ls_curve_point_t *points;
  assert_true(ls_profile_get(into, "op both", &t) && t.ns == 1);
  assert_true(ls_profile_get(into, "op new", &t) && t.ns == 2);
  assert_false(ls_profile_get(into, "launch cpu t1", &t));
  assert_int_equal(ls_profile_curve(into, "step x | whole step", &points), LS_COUNT(three));
  assert_int_equal(ls_profile_curve(into, "all-reduce mpi 2", &points), 0);
  ls_profile_destroy(into);
  ls_profile_destroy(from);
}

static ls_profile_t *load(capture_t *c) {
  ls_machine_t m = machine_of("Test CPU");
  ls_profile_t *p = NULL;
  assert_int_equal(ls_profile_load(c->ctx, path, &m, &p), LS_OK);
  return p;
}

/* Two plans that read the same profile: what either timed is kept, and an older value that a plan has merely
 * read does not come back over a newer one. */
static void updates_keep_what_others_wrote(void **state) {
  capture_t *c = *state;
  ls_profile_t *first = create(c), *before, *b;
  const ls_curve_point_t *points;
  ls_time_t t = {1, 1, 1}, newer = {2, 2, 2}, newest = {3, 3, 3};
  assert_int_equal(ls_profile_put(first, "both have read", &t), LS_OK);
  assert_int_equal(ls_profile_put(first, "b times again", &t), LS_OK);
  assert_int_equal(ls_profile_copy(c->ctx, first, &before), LS_OK);
  assert_int_equal(ls_profile_update(c->ctx, before, first, path), LS_OK); /* there was none: all of it */
  b = load(c);
  assert_int_equal(ls_profile_time_count(b), 2);
  assert_int_equal(ls_profile_put(first, "both have read", &newer), LS_OK);
  assert_int_equal(ls_profile_put(first, "step a", &newer), LS_OK);
  assert_int_equal(ls_profile_put_curve(first, "curve a", three, 2), LS_OK);
  assert_int_equal(ls_profile_update(c->ctx, before, first, path), LS_OK);
  assert_int_equal(ls_profile_put(b, "b times again", &newest), LS_OK);
  assert_int_equal(ls_profile_put(b, "step b", &newest), LS_OK);
  assert_int_equal(ls_profile_put_curve(b, "curve b", three, 3), LS_OK);
  assert_int_equal(ls_profile_update(c->ctx, before, b, path), LS_OK);
  ls_profile_destroy(b);
  b = load(c);
  assert_true(ls_profile_get(b, "both have read", &t) && t.ns == 2);
  assert_true(ls_profile_get(b, "b times again", &t) && t.ns == 3);
  assert_true(ls_profile_get(b, "step a", &t) && t.ns == 2);
  assert_true(ls_profile_get(b, "step b", &t) && t.ns == 3);
  assert_int_equal(ls_profile_curve(b, "curve a", &points), 2);
  assert_int_equal(ls_profile_curve(b, "curve b", &points), 3);
  assert_int_equal(c->count, 0);
  ls_profile_destroy(b);
  ls_profile_destroy(before);
  ls_profile_destroy(first);
}

enum { WRITERS = 3, ROUNDS = 20 };

/* In a process of its own: adds one time after the other. */
static int add_often(int writer) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_machine_t m = machine_of("Test CPU");
  ls_profile_t *before, *p;
  for (int i = 0; i < ROUNDS; i++) {
    char key[32];
    snprintf(key, sizeof key, "step %d %d", writer, i);
    if (ls_profile_load(ctx, path, &m, &p) != LS_OK || ls_profile_copy(ctx, p, &before) != LS_OK) return 1;
    if (ls_profile_put(p, key, &(ls_time_t){i, i, i}) != LS_OK) return 2;
    if (ls_profile_update(ctx, before, p, path) != LS_OK) return 3;
    ls_profile_destroy(before);
    ls_profile_destroy(p);
  }
  return 0;
}

static void writers_at_once_lose_nothing(void **state) {
  capture_t *c = *state;
  ls_profile_t *p = create(c);
  pid_t child[WRITERS];
  assert_int_equal(ls_profile_save(c->ctx, p, path), LS_OK);
  ls_profile_destroy(p);
  for (int i = 0; i < WRITERS; i++)
    if ((child[i] = fork()) == 0) _exit(add_often(i));
  for (int i = 0; i < WRITERS; i++) {
    int code = -1;
    assert_int_equal(waitpid(child[i], &code, 0), child[i]);
    assert_int_equal(code, 0);
  }
  p = load(c);
  assert_int_equal(ls_profile_time_count(p), WRITERS * ROUNDS);
  ls_profile_destroy(p);
}

static void keys_are_written_and_taken_apart(void **state) {
  static const struct {
    ls_profile_key_t key;
    const char *text;
  } rows[] = {{{LS_KEY_OP, "cuda tf32", "linear", 0, 1}, "op cuda tf32 t1 linear"},
              {{LS_KEY_OP, "cpu", "linear_dx", 0, 12}, "op cpu t12 linear_dx"},
              {{LS_KEY_DEVICE, "cpu", "hand-over", 0, 2}, "hand-over cpu t2"},
              {{LS_KEY_COLLECTIVE, "nccl-without-peer", "all-reduce", 8}, "all-reduce nccl-without-peer 8"},
              {{LS_KEY_CONTENTION, "cpu", "memory", 2, 3}, "contention cpu 2x3 memory"},
              {{LS_KEY_LIBRARIES, "cuda", "", 1}, "libraries cuda w1"},
              {{LS_KEY_LIBRARIES, "cuda", "-without-peer", 2}, "libraries cuda w2-without-peer"},
              {{LS_KEY_CAPACITY, "cuda"}, "capacity cuda"}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    char text[LS_PROFILE_KEY_BYTES], words[LS_PROFILE_KEY_BYTES];
    ls_profile_key_t key;
    assert_string_equal(ls_profile_key(text, rows[i].key), rows[i].text);
    assert_true(ls_profile_key_read(text, rows[i].key.what, words, &key));
    assert_string_equal(key.backend, rows[i].key.backend);
    assert_string_equal(key.name, rows[i].key.name ? rows[i].key.name : "");
    assert_true(key.ranks == rows[i].key.ranks && key.threads == rows[i].key.threads && key.dim[0] == 0);
    for (int other = 0; other < LS_COUNT(rows); other++)
      if (rows[other].key.what != rows[i].key.what)
        assert_false(ls_profile_key_read(rows[other].text, rows[i].key.what, words, &key));
  }
}

static void dimensions_of_products_are_read(void **state) {
  char words[LS_PROFILE_KEY_BYTES];
  ls_profile_key_t key;
  assert_true(ls_profile_key_read(
      "op cuda tf32 t1 linear f32 (16, 128) f32 (64, 128) f32 (64) -> f32 (16, 64)", LS_KEY_OP, words, &key));
  assert_string_equal(key.backend, "cuda tf32");
  assert_true(key.dim[0] == 16 && key.dim[1] == 128 && key.dim[2] == 64 && key.dim[3] == 128);
  assert_true(
      ls_profile_key_read("op cpu t1 linear i0=1 f32 (16, 128) f32 (64, 128)", LS_KEY_OP, words, &key));
  assert_int_equal(key.dim[0], 0);
  static const char *const none[] = {"",
                                     "op",
                                     "op cpu t1",
                                     "op cpu linear",
                                     "op cpu t linear",
                                     "op  t1 linear",
                                     "op a b c t1 linear",
                                     "op cpu t99999999999 linear"};
  for (int i = 0; i < LS_COUNT(none); i++)
    if (ls_profile_key_read(none[i], LS_KEY_OP, words, &key)) fail_msg("\"%s\" was read", none[i]);
}

TESTS(setup, teardown, keys_are_written_and_taken_apart, dimensions_of_products_are_read, put_get,
      refuses_nonsense, interpolation, file_round_trip, another_machine, missing, torn_and_altered,
      refused_files, described_by_hand, merge, fill_keeps_what_is_there, updates_keep_what_others_wrote,
      writers_at_once_lose_nothing, default_path,
      without_home_the_profile_is_in_the_users_home_and_not_in_the_current_folder,
      every_allocation_fails_once)
