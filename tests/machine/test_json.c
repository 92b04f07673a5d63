/* Machines as JSON: both ways without loss, everything from outside checked, identity of what makes times
 * comparable. */
#include "base/capture.h"
#include "recorded.h"

#include <stdlib.h>

static ls_machine_t a, b; /* large */

static ls_status_t from_text(capture_t *c, const char *text, ls_machine_t *machine) {
  json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
  if (!json) fail_msg("not JSON: %s", text);
  ls_status_t status = ls_machine_from_json(c->ctx, "file", json, machine);
  json_decref(json);
  return status;
}

static void both_ways(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < RECORDED_COUNT; i++) {
    recorded_load((recorded_t)i, &a);
    json_t *first = ls_machine_json(&a);
    assert_non_null(first);
    memset(&b, 0xee, sizeof b);
    assert_int_equal(ls_machine_from_json(c->ctx, "again", first, &b), LS_OK);
    json_t *second = ls_machine_json(&b);
    assert_true(json_equal(first, second));
    char x[17], y[17];
    ls_machine_fingerprint(&a, x);
    ls_machine_fingerprint(&b, y);
    assert_string_equal(x, y);
    assert_int_equal(strlen(x), 16);
    json_decref(first);
    json_decref(second);
  }
}

static void empty_is_unknown(void **state) {
  assert_int_equal(from_text(*state, "{}", &a), LS_OK);
  ls_machine_clear(&b);
  json_t *x = ls_machine_json(&a), *y = ls_machine_json(&b);
  assert_true(json_equal(x, y));
  json_decref(x);
  json_decref(y);
  assert_int_equal(a.cores, -1);
  assert_int_equal(a.gpu[3].throttle_reasons, -1);
  assert_int_equal(a.link[1][1], LS_LINK_SELF);
  assert_int_equal(a.link[0][1], LS_LINK_UNKNOWN);
}

static void values(void **state) {
  const char text[] =
      "{\"source\": \"somewhere\", \"cores\": 4, \"memory_bytes\": 17179869184, \"gpu\": [{\"name\": \"A\", "
      "\"power_w\": 12.5, \"throttle_reasons\": 4}, {\"name\": \"B\", \"power_w\": 7}], \"link\": "
      "[[\"self\", \"node\"], [\"node\", \"self\"]], \"peer_access\": [[null, true], [false, null]], "
      "\"nvlinks\": [[null, 2], [3, null]]}";
  assert_int_equal(from_text(*state, text, &a), LS_OK);
  assert_int_equal(a.cores, 4);
  assert_true(a.memory_bytes == INT64_C(17179869184));
  assert_int_equal(a.gpu_count, 2);
  assert_string_equal(a.gpu[1].name, "B");
  assert_true(a.gpu[0].power_w == 12.5 && a.gpu[1].power_w == 7 && a.gpu[0].throttle_reasons == 4);
  assert_int_equal(a.link[0][1], LS_LINK_NODE);
  assert_int_equal(a.peer_access[0][1], 1);
  assert_int_equal(a.peer_access[1][0], 0);
  assert_int_equal(a.peer_access[0][0], -1);
  assert_int_equal(a.nvlinks[1][0], 3);
}

static void refused(void **state) {
  capture_t *c = *state;
  static const struct {
    const char *text, *says;
  } rows[] = {
      {"[]", "an object expected"},
      {"null", "an object expected"},
      {"{\"cores\": \"4\"}", "cores: a whole number"},
      {"{\"cores\": -1}", "cores: a whole number"},
      {"{\"cores\": 4.0}", "cores: a whole number"},
      {"{\"cores\": 2147483648}", "cores: a whole number"},
      {"{\"cores\": true}", "cores: a whole number"},
      {"{\"core\": 4}", "unknown key \"core\" (did you mean cores?)"},
      {"{\"zzzzzzzz\": 4}", "unknown key \"zzzzzzzz\""},
      {"{\"cpu_model\": 5}", "cpu_model: a short text"},
      {"{\"cpu_model\": \"a\\u001b[2Jb\"}", "cpu_model: a short text"},
      {"{\"cpu_model\": "
       "\"1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901"
       "23456\"}",
       "cpu_model: a short text"},
      {"{\"gpu\": {}}", "gpu: a list"},
      {"{\"gpu\": [1]}", "gpu[0]: an object"},
      {"{\"gpu\": [{}, {\"name\": \"B\", \"power\": 1}]}", "gpu[1]: unknown key \"power\""},
      {"{\"gpu\": [{\"power_w\": -1}]}", "gpu[0].power_w: a number >= 0"},
      {"{\"gpu\": [{\"power_w\": \"1\"}]}", "gpu[0].power_w: a number >= 0"},
      {"{\"gpu\": [{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}]}", "at most 16"},
      {"{\"gpu\": [{}], \"link\": []}", "link: one row per GPU"},
      {"{\"gpu\": [{}], \"link\": {}}", "link: one row per GPU"},
      {"{\"gpu\": [{}], \"link\": [5]}", "link[0]: one value per GPU"},
      {"{\"gpu\": [{}], \"link\": [[]]}", "link[0]: one value per GPU"},
      {"{\"gpu\": [{}], \"link\": [[\"nvlink\"]]}", "link[0][0]: \"self\" on the diagonal"},
      {"{\"gpu\": [{}, {}], \"link\": [[\"self\", \"self\"], [\"node\", \"self\"]]}",
       "link[0][1]: another link than \"self\""},
      {"{\"gpu\": [{}, {}], \"link\": [[\"self\", \"warp\"], [\"node\", \"self\"]]}",
       "link[0][1]: one of \"self\" \"nvlink\""},
      {"{\"gpu\": [{}, {}], \"link\": [[\"self\", \"nvlink\"], [\"node\", \"self\"]]}", "from both sides"},
      {"{\"gpu\": [{}], \"peer_access\": [[1]]}", "peer_access[0][0]: true, false"},
      {"{\"gpu\": [{}], \"nvlinks\": [[-1]]}", "nvlinks[0][0]: a whole number"},
      {"{\"gpu\": [{}], \"nvlinks\": [[1.5]]}", "nvlinks[0][0]: a whole number"},
  };
  for (int i = 0; i < LS_COUNT(rows); i++) {
    memset(&a, 0x5a, sizeof a);
    memset(&b, 0x5a, sizeof b);
    assert_int_equal(from_text(c, rows[i].text, &a), LS_ERR_CONFIG);
    assert_memory_equal(&a, &b, sizeof a); /* outputs only on success */
    if (!strstr(c->text, rows[i].says)) fail_msg("row %d says: %s", i, c->text);
    capture_clear(c);
  }
}

/* Every recording with one byte changed either loads or is refused with a reason. */
static void altered_bytes(void **state) {
  capture_t *c = *state;
  uint64_t good = 0, bad = 0;
  for (int which = 0; which < RECORDED_COUNT; which++) {
    char *text;
    size_t size;
    assert_int_equal(ls_file_read(c->ctx, recorded_path((recorded_t)which), 1 << 20, &text, &size), LS_OK);
    for (size_t i = 0; i < size; i++) {
      char kept = text[i];
      text[i] = (char)(kept ^ (1 << i % 7));
      json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
      ls_status_t status = json ? ls_machine_from_json(c->ctx, "file", json, &a) : LS_ERR_CONFIG;
      assert_true(status == LS_OK || (status == LS_ERR_CONFIG && (!json || c->count > 0)));
      if (status == LS_OK) {
        char *drawing = ls_machine_draw(&a);
        assert_non_null(drawing);
        ls_free(drawing);
        good++;
      } else {
        bad++;
      }
      json_decref(json);
      text[i] = kept;
      capture_clear(c);
    }
    ls_free(text);
  }
  assert_true(good > 100 && bad > 1000);
}

static void load_reports(void **state) {
  capture_t *c = *state;
  assert_int_equal(ls_machine_load(c->ctx, "tests/machine/recorded/none.json", &a), LS_ERR_NOT_FOUND);
  assert_non_null(strstr(c->text, "none.json"));
  capture_clear(c);
  assert_int_equal(ls_machine_load(c->ctx, "tests/machine/CMakeLists.txt", &a), LS_ERR_CONFIG);
  assert_non_null(strstr(c->text, "CMakeLists.txt:1:"));
}

/* What an idle machine changes by itself is no other machine; hardware and libraries are. */
static void identity(void **state) {
  char x[17], y[17];
  recorded_load(RECORDED_NVLINK, &a);
  ls_machine_fingerprint(&a, x);
#define SAME(change)                                                                                         \
  do {                                                                                                       \
    b = a;                                                                                                   \
    change;                                                                                                  \
    ls_machine_fingerprint(&b, y);                                                                           \
    assert_string_equal(x, y);                                                                               \
  } while (0)
#define OTHER(change)                                                                                        \
  do {                                                                                                       \
    b = a;                                                                                                   \
    change;                                                                                                  \
    ls_machine_fingerprint(&b, y);                                                                           \
    assert_string_not_equal(x, y);                                                                           \
  } while (0)
  SAME(b.gpu[0].clock_sm_mhz = 345);
  SAME(b.gpu[1].power_w = 77);
  SAME(b.gpu[1].temperature_c = 30);
  SAME(b.gpu[2].pcie_generation = 1);
  SAME(b.gpu[2].throttle_reasons = 1);
  SAME(b.memory_bytes -= 4096);
  SAME(strcpy(b.kernel, "Linux 6.9"));
  OTHER(b.cores++);
  OTHER(strcpy(b.cpu_flags, "avx2"));
  OTHER(b.usable_cpus = 2);
  OTHER(strcpy(b.blas, "OpenBLAS 0.3.21 SkylakeX"));
  OTHER(strcpy(b.mpi, "Open MPI v5.0.0"));
  OTHER(b.gpu_count = 3);
  OTHER(strcpy(b.gpu[3].name, "NVIDIA H100"));
  OTHER(b.gpu[3].power_limit_w = 500);
  OTHER(b.gpu[3].pcie_width = 8);
  OTHER(b.peer_access[2][3] = 0);
  OTHER(b.link[0][3] = LS_LINK_SYSTEM);
  OTHER(b.nvlinks[1][2] = 17);
}

static ls_status_t load_one(capture_t *c) {
  return ls_machine_load(c->ctx, recorded_path(RECORDED_NVLINK), &a);
}

static void every_allocation_fails_once(void **state) {
  assert_in_range(capture_fail_each_alloc(*state, load_one), 2, 20);
}

TESTS(capture_setup, capture_teardown, both_ways, empty_is_unknown, values, refused, altered_bytes,
      load_reports, identity, every_allocation_fails_once)
