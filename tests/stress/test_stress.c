/* Ranks as threads burn the processors in for a moment: right results stay right, every planted fault is found where it
 * was planted, and the figures decide as documented. */
#include "base/capture.h"
#include "stress/parts.h"
#include "support/threads.h"

#include <math.h>
#include <stdatomic.h>

enum { RANKS = 3 };

static const unsigned all = LS_STRESS_COMPUTE | LS_STRESS_MEMORY | LS_STRESS_LINKS;

typedef struct {
  ls_comm_t *comm;
  ls_ctx_t *ctx;
  ls_stress_options_t options;
  ls_stress_report_t *report;
  ls_status_t status;
} rank_t;

static void *work(void *arg) {
  rank_t *r = arg;
  r->status = ls_stress_run(r->ctx, r->comm, &r->options, &r->report);
  return NULL;
}

/* `parts`: those that say something of the planted fault. Instrumented, all of them take half a minute. */
static void run(capture_t *c, rank_t *ranks, unsigned parts, ls_plant_t plant) {
  ls_comm_t *comm[RANKS];
  assert_int_equal(ls_comm_sim_create(c->ctx, RANKS, 0, comm), LS_OK);
  for (int i = 0; i < RANKS; i++)
    ranks[i] = (rank_t){.comm = comm[i],
                        .ctx = c->ctx,
                        .options = {.parts = parts,
                                    .seconds = 0.2,
                                    .host_share = 1e-6, /* at least a piece */
                                    .backend = &ls_backend_cpu,
                                    .threads = 1,
                                    .transport = "auto",
                                    .plant = plant}};
  threads_run(RANKS, work, ranks, sizeof *ranks);
  for (int i = 0; i < RANKS; i++) {
    assert_int_equal(ranks[i].status, LS_OK);
    assert_int_equal(ranks[i].report->verdict, ranks[0].report->verdict); /* all know the same */
    ls_comm_destroy(comm[i]);
  }
}

static void release(rank_t *ranks) {
  for (int i = 0; i < RANKS; i++)
    ls_stress_release(ranks[i].report);
}

/* Counts of faults: of products and memory per rank, of transfers in all. */
typedef struct {
  int64_t products[RANKS], words[RANKS], transfers;
} faults_t;

static faults_t count(const ls_stress_report_t *r) {
  faults_t f = {.transfers = 0};
  for (int i = 0; i < RANKS; i++) {
    f.products[i] = r->device[i].product[0].wrong;
    f.words[i] = r->device[i].memory.wrong;
  }
  for (int i = 0; i < r->link_count; i++)
    f.transfers += r->link[i].wrong;
  return f;
}

static const ls_stress_link_t *link_of(const ls_stress_report_t *r, int from, int to) {
  for (int i = 0; i < r->link_count; i++)
    if (r->link[i].from == from && r->link[i].to == to) return &r->link[i];
  return NULL;
}

static void right_results_are_no_faults(void **state) {
  rank_t ranks[RANKS];
  run(*state, ranks, all, (ls_plant_t){0});
  const ls_stress_report_t *r = ranks[0].report;
  const faults_t f = count(r), none = {.transfers = 0};
  assert_memory_equal(&f, &none, sizeof f);
  assert_true(r->verdict != LS_WRONG);
  assert_int_equal(r->device_count, RANKS);
  assert_int_equal(r->link_count, RANKS * (RANKS - 1) + 1);
  for (int i = 0; i < RANKS; i++) {
    const ls_stress_device_t *d = &r->device[i];
    assert_int_equal(d->product_count, 1 + ls_backend_cpu.device->low(NULL, "linear", LS_BF16));
    for (int k = 0; k < d->product_count; k++) {
      assert_true(d->product[k].count >= d->product[k].length && d->product[k].ns > 0);
      assert_true(d->product[k].hash == r->device[0].product[k].hash); /* equal devices, equal bits */
    }
    assert_true(d->memory.checked_bytes > 0);
    assert_true(d->memory.used_bytes - d->memory.before_bytes ==
                (int64_t)RANKS * (16 << 20)); /* of all ranks */
  }
  for (int i = 0; i < r->link_count; i++)
    assert_true(r->link[i].count > 0 && r->link[i].ns > 0);
  json_t *json = ls_stress_json(r);
  assert_int_equal(json_array_size(json_object_get(json, "devices")), RANKS);
  assert_int_equal(json_array_size(json_object_get(json, "links")), RANKS * (RANKS - 1) + 1);
  json_decref(json);
  release(ranks);
}

static void planted_faults_are_found(void **state) {
  rank_t ranks[RANKS];
  run(*state, ranks, all, (ls_plant_t){LS_PLANT_PRODUCT, 1, -1});
  faults_t f = count(ranks[0].report);
  assert_true(f.products[0] == 0 && f.products[1] == 1 && f.products[2] == 0 && f.transfers == 0);
  assert_int_equal(ls_stress_status(ranks[2].report), LS_ERR_DEVICE);
  release(ranks);
  run(*state, ranks, LS_STRESS_MEMORY, (ls_plant_t){LS_PLANT_MEMORY, 2, -1});
  f = count(ranks[0].report);
  assert_true(f.words[0] == 0 && f.words[1] == 0 && f.words[2] == 1);
  assert_int_equal(ranks[0].report->device[2].verdict, LS_WRONG);
  release(ranks);
  run(*state, ranks, LS_STRESS_MEMORY, (ls_plant_t){LS_PLANT_HOST, 0, -1});
  assert_int_equal(ranks[0].report->device[0].host_memory.wrong, 1);
  assert_int_equal(ranks[0].report->device[1].host_memory.wrong, 0);
  assert_int_equal(ranks[0].report->device[0].verdict, LS_WRONG);
  release(ranks);
  run(*state, ranks, LS_STRESS_LINKS, (ls_plant_t){LS_PLANT_TRANSFER, 2, 0});
  f = count(ranks[0].report);
  assert_int_equal(f.transfers, 1);
  assert_int_equal(link_of(ranks[0].report, 2, 0)->wrong, 1);
  assert_int_equal(link_of(ranks[0].report, 2, 0)->verdict, LS_WRONG);
  release(ranks);
  run(*state, ranks, LS_STRESS_LINKS, (ls_plant_t){LS_PLANT_LINK, 0, 1});
  assert_true(link_of(ranks[0].report, 0, 1)->verdict >= LS_BELOW);
  assert_true(ranks[0].report->verdict >= LS_BELOW);
  release(ranks);
}

/* The request comes after so many looks at the clock. */
static atomic_int looks_left;
static int stop_soon(void) {
  return atomic_fetch_sub(&looks_left, 1) <= 0;
}

static void a_signal_ends_the_filling_of_memory(void **state) {
  capture_t *c = *state;
  ls_comm_t *comm;
  ls_stress_report_t *r;
  const double total = (double)ls_machine_memory(""), used = total - (double)ls_machine_memory_free("");
  if (total - used < 3e9) skip(); /* memory that others need */
  ls_stress_options_t o = {.parts = LS_STRESS_MEMORY,
                           .seconds = 60,
                           .memory_share = (used + 2e9) / total,
                           .backend = &ls_backend_cpu,
                           .threads = 1,
                           .transport = "auto",
                           .stop = stop_soon};
  atomic_store(&looks_left, 2);
  assert_int_equal(ls_comm_self_create(c->ctx, &comm), LS_OK);
  assert_int_equal(ls_stress_run(c->ctx, comm, &o, &r), LS_OK);
  const ls_stress_device_t *d = &r->device[0];
  assert_true(d->memory.used_bytes - d->memory.before_bytes <= (int64_t)1 << 29); /* two pieces of eight */
  assert_true(r->interrupted);
  assert_int_equal(ls_stress_status(r), LS_OK); /* what was not filled is no missed target */
  ls_stress_release(r);
  ls_comm_destroy(comm);
}

/* ---- the rules ---- */

static ls_stress_device_t device_of(double rate, double busy, double others) {
  return (ls_stress_device_t){
      .name = "d",
      .product_count = 1,
      .product = {{.name = "fp32", .count = 10, .length = 5, .ns = 1, .burst_ns = rate, .hash = 7}},
      .busy_ratio = busy,
      .others_ratio = others,
      .memory.bytes = 1000,
      .memory.want_bytes = 800,
      .memory.used_bytes = 800,
      .throttle_reasons = -1};
}

static int judged(ls_stress_device_t d) {
  ls_stress_report_t r = {.device = &d, .device_count = 1};
  ls_stress_judge(&r, &d, NULL);
  assert_int_equal(d.verdict == LS_SOUND, d.why[0] == '\0');
  return r.verdict;
}

static void rules(void **state) {
  assert_int_equal(judged(device_of(0.951, 0.991, 0)), LS_SOUND);
  assert_int_equal(judged(device_of(NAN, 0.991, 0)), LS_SOUND); /* nothing to compare with */
  assert_int_equal(judged(device_of(0.949, 0.991, 0)), LS_BELOW);
  assert_int_equal(judged(device_of(0.951, 0.989, 0)), LS_BELOW);
  assert_int_equal(judged(device_of(0.5, 0.5, 0.3)), LS_DISTURBED);
  ls_stress_device_t d = device_of(1, 1, 0);
  d.memory.used_bytes = 789;
  assert_int_equal(judged(d), LS_BELOW);
  d.memory.before_bytes = 799, d.memory.used_bytes = 815;
  assert_int_equal(judged(d), LS_BELOW);
  d.memory.before_bytes = 850, d.memory.used_bytes = 866; /* others use more than what was asked for */
  assert_int_equal(judged(d), LS_SOUND);
  d = device_of(1, 1, 0);
  d.throttle_reasons = 0x4; /* a power cap is what full load meets */
  assert_int_equal(judged(d), LS_SOUND);
  d.throttle_reasons = 0x44;
  assert_int_equal(judged(d), LS_BELOW);
  d = device_of(1, 1, 0);
  snprintf(d.disk.dir, sizeof d.disk.dir, "disk"); /* nothing that was written was read back */
  assert_int_equal(judged(d), LS_BELOW);
  d.disk.checked_bytes = 1;
  assert_int_equal(judged(d), LS_SOUND);
  d = device_of(0.5, 1, 0.9);
  d.product[0].wrong = 1;
  assert_int_equal(judged(d), LS_WRONG);
}

/* What a rank of all processors loses where they differ in speed, ranks of one processor do not. */
static void threads_that_wait_for_each_other_are_told_of_more_ranks(void **state) {
  static const struct {
    int threads;
    double busy;
    const char *said; /* NULL: no more ranks are asked for */
  } rows[] = {{2, 0.974, "97.4 % of the time (its threads wait"},
              {2, 0.991, NULL},
              {1, 0.974, NULL},
              {0, 0.974, NULL}};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    ls_stress_device_t d[2] = {device_of(1, rows[i].busy, 0), device_of(1, 1, 0)};
    d[0].threads = rows[i].threads;
    d[1].threads = 3; /* another rank of the host */
    ls_stress_report_t r = {.device = d, .device_count = 2};
    ls_stress_judge(&r, d, NULL);
    assert_int_equal(strstr(d[0].why, "--ranks 5: a rank for each processor") != NULL, rows[i].said != NULL);
    if (rows[i].said) assert_non_null(strstr(d[0].why, rows[i].said));
  }
}

/* Products as quick as the clock allows that the cap leaves. */
static void a_power_cap_is_no_low_rate(void **state) {
  ls_stress_device_t d = device_of(0.8, 1, 0);
  d.product[0].clock_ratio = 0.82;
  d.product[0].throttle_reasons = LS_STRESS_POWER;
  assert_int_equal(judged(d), LS_SOUND);
  d.product[0].clock_ratio = 0.9; /* slower than that clock explains */
  assert_int_equal(judged(d), LS_BELOW);
  d.product[0].clock_ratio = 0.82;
  d.product[0].throttle_reasons = 0; /* nothing explains it */
  assert_int_equal(judged(d), LS_BELOW);
}

static void whoever_differs_from_equal_devices_is_wrong(void **state) {
  ls_stress_device_t d[4] = {device_of(1, 1, 0), device_of(1, 1, 0), device_of(1, 1, 0), device_of(1, 1, 0)};
  d[1].product[0].hash = 8;
  d[3].product[0].hash = 9;
  snprintf(d[3].name, sizeof d[3].name, "another kind");
  ls_stress_report_t r = {.device = d, .device_count = 4};
  ls_stress_judge(&r, d, NULL);
  assert_true(d[0].verdict == LS_SOUND && d[1].verdict == LS_WRONG && d[2].verdict == LS_SOUND &&
              d[3].verdict == LS_SOUND);
}

static void slow_links(void **state) {
  ls_stress_device_t d = device_of(1, 1, 0);
  ls_stress_link_t l[] = {{0, 1, 100, 10, NAN},
                          {1, 0, 100, 10, NAN},
                          {0, 2, 100, 21, NAN},
                          {2, 0, 100, 19, NAN},
                          {-1, -1, 100, 50, NAN}};
  ls_stress_report_t r = {.device = &d, .device_count = 1, .link = l, .link_count = LS_COUNT(l)};
  ls_stress_judge(&r, &d, l); /* the median is 14.5 */
  for (int i = 0; i < LS_COUNT(l); i++)
    assert_int_equal(l[i].verdict, LS_SOUND);
  l[2].ns = 60;
  ls_stress_judge(&r, &d, l);
  assert_int_equal(l[2].verdict, LS_BELOW);
  assert_int_equal(l[3].verdict, LS_SOUND);
  ls_stress_link_t one = {0, 1, 100, 21, 10, true};
  ls_stress_report_t alone = {.device = &d, .device_count = 1, .link = &one, .link_count = 1};
  ls_stress_judge(&alone, &d, &one);
  assert_int_equal(one.verdict, LS_BELOW);
}

TESTS(capture_setup, capture_teardown, right_results_are_no_faults, planted_faults_are_found,
      a_signal_ends_the_filling_of_memory, rules, threads_that_wait_for_each_other_are_told_of_more_ranks,
      a_power_cap_is_no_low_rate, whoever_differs_from_equal_devices_is_wrong, slow_links)
