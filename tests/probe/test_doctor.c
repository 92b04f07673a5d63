/* The doctor: each recorded machine gets exactly the findings it deserves, every row fires on its evidence
 * and is silent without it. */
#include "base/capture.h"
#include "probe/doctor.h"
#include "recorded.h"

#include <stdlib.h>

static ls_machine_t m; /* large */
static ls_finding_t findings[LS_FINDINGS_MAX];

typedef struct {
  const char *name, *value;
} setting_t;

static const char *from_settings(void *user, const char *name) {
  for (const setting_t *s = user; s && s->name; s++)
    if (!strcmp(s->name, name)) return s->value;
  return NULL;
}

static int examine(setting_t *settings, const ls_profile_t *profile) {
  const ls_doctor_subject_t subject = {
      .machine = &m, .profile = profile, .variable = from_settings, .user = settings};
  memset(findings, 0xee, sizeof findings);
  return ls_doctor_examine(&subject, findings);
}

static const ls_finding_t *find(int count, const char *id) {
  for (int i = 0; i < count; i++)
    if (!strcmp(findings[i].id, id)) return &findings[i];
  return NULL;
}

/* Exactly these ids, in this order. */
static void expect(int count, const char *const *ids) {
  int i = 0;
  for (; ids[i]; i++) {
    if (i >= count) fail_msg("%s was not found", ids[i]);
    if (strcmp(findings[i].id, ids[i]) != 0) fail_msg("finding %d is %s, not %s", i, findings[i].id, ids[i]);
    assert_true(*findings[i].evidence && *findings[i].remedy);
    assert_null(strchr(findings[i].evidence, '\n'));
    assert_null(strchr(findings[i].remedy, '\n'));
  }
  if (count > i) fail_msg("%s was found too: %s", findings[i].id, findings[i].evidence);
}

static void recordings(void **state) {
  recorded_load(RECORDED_BRIDGE, &m);
  expect(examine(NULL, NULL), (const char *[]){"pcie-width", "peer-access-bridge", "threads-over-cores",
                                               NULL}); /* idle: no word of generation 1 */
  assert_string_equal(findings[0].evidence,
                      "GPU 1 (NVIDIA GeForce RTX 4070 Ti SUPER) is a x16 card in a x8 link");
  recorded_load(RECORDED_NVLINK, &m);
  expect(examine(NULL, NULL), (const char *[]){"cpus-limited", NULL});
  recorded_load(RECORDED_CPU, &m);
  expect(examine(NULL, NULL), (const char *[]){"blas-old-core", NULL});
  assert_non_null(strstr(findings[0].remedy, "OPENBLAS_CORETYPE=SkylakeX"));
  strcpy(m.openblas, m.blas); /* oneDNN multiplies here: what other programs use is said all the same */
  strcpy(m.blas, "oneDNN 2.6.3");
  expect(examine(NULL, NULL), (const char *[]){"blas-old-core", NULL});
  assert_non_null(strstr(findings[0].evidence, "for a Prescott: programs that use it"));
  assert_non_null(strstr(findings[0].evidence, "lockstep uses oneDNN 2.6.3 instead"));
  strcpy(m.openblas, "OpenBLAS 0.3.21 SkylakeX");
  assert_int_equal(examine(NULL, NULL), 0);
  recorded_load(RECORDED_HALF, &m);
  expect(examine(NULL, NULL), (const char *[]){"cpus-limited", "gpus-unread", NULL});
}

/* What is unknown is never a finding. */
static void nothing_known(void **state) {
  ls_machine_clear(&m);
  assert_int_equal(examine(NULL, NULL), 0);
  m.gpu_count = 2;
  expect(examine(NULL, NULL), (const char *[]){"gpus-unread", NULL});
}

static void settings(void **state) {
  static const struct {
    setting_t setting;
    const char *id; /* NULL: nothing to say */
  } rows[] = {
      {{"NCCL_NTHREADS", "16"}, "nccl-nthreads"},
      {{"NCCL_NTHREADS", "63"}, "nccl-nthreads"},
      {{"NCCL_NTHREADS", "100"}, "nccl-nthreads"},
      {{"NCCL_NTHREADS", "many"}, "nccl-nthreads"},
      {{"NCCL_NTHREADS", ""}, "nccl-nthreads"},
      {{"NCCL_NTHREADS", "1024"}, "nccl-nthreads"},
      {{"NCCL_NTHREADS", "64"}, NULL},
      {{"NCCL_NTHREADS", "512"}, NULL},
      {{"NCCL_P2P_DISABLE", "1"}, "nccl-p2p-disabled"},
      {{"NCCL_P2P_DISABLE", "0"}, NULL},
      {{"NCCL_SHM_DISABLE", "1"}, "nccl-shm-disabled"},
      {{"NCCL_SHM_DISABLE", ""}, NULL},
      {{"NCCL_MAX_NCHANNELS", "1"}, "nccl-channels"},
      {{"NCCL_MAX_NCHANNELS", "16"}, NULL},
      {{"NCCL_DEBUG", "trace"}, "nccl-debug"},
      {{"NCCL_DEBUG", "WARN"}, NULL},
      {{"CUDA_LAUNCH_BLOCKING", "1"}, "launch-blocking"},
      {{"CUDA_LAUNCH_BLOCKING", "0"}, NULL},
      {{"OMP_NUM_THREADS", "300"}, "threads-environment"},
      {{"OMP_NUM_THREADS", "64"}, NULL},
      {{"OMP_NUM_THREADS", "4,2"}, NULL},
      {{"OPENBLAS_NUM_THREADS", "65"}, "threads-environment"},
      {{"UNRELATED", "1"}, NULL},
  };
  recorded_load(RECORDED_NVLINK, &m);
  m.usable_cpus = 64;
  m.threads = 64;
  for (int i = 0; i < LS_COUNT(rows); i++) {
    setting_t list[] = {rows[i].setting, {NULL, NULL}};
    int count = examine(list, NULL);
    if (count != (rows[i].id != NULL)) fail_msg("row %d: %d findings", i, count);
    if (rows[i].id) assert_string_equal(findings[0].id, rows[i].id);
  }
  recorded_load(RECORDED_CPU, &m); /* settings of NCCL do not matter where there is no GPU */
  strcpy(m.blas, "oneDNN 2.6.3");
  setting_t harmless[] = {
      {"NCCL_P2P_DISABLE", "1"}, {"NCCL_SHM_DISABLE", "1"}, {"CUDA_LAUNCH_BLOCKING", "1"}, {NULL, NULL}};
  assert_int_equal(examine(harmless, NULL), 0);
}

/* One change each to a healthy machine. */
static void ailments(void **state) {
#define FINDS(id, change)                                                                                    \
  do {                                                                                                       \
    recorded_load(RECORDED_NVLINK, &m);                                                                      \
    m.usable_cpus = m.threads = m.cores;                                                                     \
    assert_int_equal(examine(NULL, NULL), 0);                                                                \
    change;                                                                                                  \
    expect(examine(NULL, NULL), (const char *[]){id, NULL});                                                 \
  } while (0)
  FINDS("peer-access-off", m.peer_access[1][3] = 0);
  assert_non_null(strstr(findings[0].evidence, "1 of 6 pairs of GPUs, first 1-3, linked by nvlink"));
  FINDS("peer-access-off", m.link[0][1] = LS_LINK_PCIE_SWITCH; m.peer_access[0][1] = 0);
  FINDS("peer-access-bridge", m.link[0][1] = LS_LINK_HOST_BRIDGE; m.peer_access[0][1] = 0);
  FINDS("pcie-width", m.gpu[2].pcie_width = 4);
  FINDS("pcie-generation", m.gpu[2].pcie_generation = 3); /* busy: throttle reasons are known and not idle */
  FINDS("power-cap", m.gpu[1].throttle_reasons = 0x4);
  assert_non_null(strstr(findings[0].evidence, "612 of 700 W, 53 C, 1980 of 1980 MHz"));
  FINDS("power-cap", m.gpu[1].throttle_reasons = 0x80);
  FINDS("thermal-cap", m.gpu[3].throttle_reasons = 0x20);
  FINDS("thermal-cap", m.gpu[3].throttle_reasons = 0x40);
  FINDS("gpus-unequal", strcpy(m.gpu[3].name, "NVIDIA H100"));
  FINDS("gpus-unread", m.gpu[0].power_w = -1);
  FINDS("blas-reference", strcpy(m.blas, "reference BLAS 3.11"));
  FINDS("blas-old-core", strcpy(m.blas, "OpenBLAS 0.3.21 PRESCOTT"));
  FINDS("threads-over-cores", m.usable_cpus = m.threads = 2 * m.cores);
  FINDS("cpus-limited", m.usable_cpus = 4);
  recorded_load(RECORDED_NVLINK, &m);
  m.usable_cpus = m.threads = m.cores;
  strcpy(m.blas, "OpenBLAS 0.3.21 SkylakeX");
  assert_int_equal(examine(NULL, NULL), 0);
  strcpy(m.blas, "OpenBLAS 0.3.21 Prescott"); /* right for a CPU that has no more */
  strcpy(m.cpu_flags, "sse2");
  assert_int_equal(examine(NULL, NULL), 0);
}

static void measured(void **state) {
  capture_t *c = *state;
  ls_profile_t *p;
  recorded_load(RECORDED_NVLINK, &m);
  m.usable_cpus = m.threads = m.cores;
  assert_int_equal(ls_profile_create(c->ctx, &m, &p), LS_OK);
  assert_int_equal(examine(NULL, p), 0);
  const ls_curve_point_t pair = {1 << 26, {1e6, 1e6, 1e6}}, slow = {1 << 26, {2e6, 2e6, 2e6}};
  assert_int_equal(ls_profile_put_curve(p, "device-copy cuda 0-1", &pair, 1), LS_OK);
  assert_int_equal(ls_profile_put_curve(p, "device-copy cuda 0-2", &slow, 1), LS_OK);
  assert_int_equal(ls_profile_put(p, "device-copy cuda all", &(ls_time_t){2.9e6, 2.9e6, 2.9e6}), LS_OK);
  assert_int_equal(examine(NULL, p), 0);
  assert_int_equal(ls_profile_put(p, "device-copy cuda all", &(ls_time_t){4e6, 4e6, 4e6}), LS_OK);
  expect(examine(NULL, p), (const char *[]){"transfers-collapse", NULL});
  assert_string_equal(findings[0].evidence,
                      "a copy between two GPUs reaches 33.6 GB/s alone, 16.8 GB/s when all copy at once");
  assert_int_equal(ls_profile_put(p, "contention cpu 2x1 memory", &(ls_time_t){1.9, 1.5, 2.1}), LS_OK);
  assert_int_equal(ls_profile_put(p, "contention cpu 4x1 compute", &(ls_time_t){3, 3, 3}), LS_OK);
  expect(examine(NULL, p),
         (const char *[]){"transfers-collapse", "memory-contention", NULL}); /* the worse first */
  assert_int_equal(ls_profile_put(p, "contention cpu 2x1 memory", &(ls_time_t){1.9, 1.0, 9}),
                   LS_OK); /* noise */
  assert_null(find(examine(NULL, p), "memory-contention"));
  assert_int_equal(ls_profile_put(p, LS_PROFILE_BUSY_KEY, &(ls_time_t){0, 0, 0}), LS_OK);
  assert_null(find(examine(NULL, p), "measured-busy"));
  assert_int_equal(ls_profile_put(p, LS_PROFILE_BUSY_KEY, &(ls_time_t){0.4, 0.4, 0.4}), LS_OK);
  assert_non_null(find(examine(NULL, p), "measured-busy"));
  ls_profile_destroy(p);
}

static void wrong_copies(void **state) {
  recorded_load(RECORDED_BRIDGE, &m);
  const ls_doctor_subject_t subject = {.machine = &m, .wrong_copies = 2};
  int count = ls_doctor_examine(&subject, findings);
  assert_true(count > 1);
  assert_string_equal(findings[0].id, "copies-wrong");
  assert_int_equal(findings[0].severity, LS_SEVERITY_ERROR);
  assert_string_equal(ls_severity_name(findings[0].severity), "error");
}

/* Ids are unique; texts fit one line. */
static void rows(void **state) {
  assert_in_range(ls_doctor_row_count, 15, LS_FINDINGS_MAX);
  for (int i = 0; i < ls_doctor_row_count; i++) {
    assert_true(strlen(ls_doctor_rows[i].remedy) < 160);
    for (int j = 0; j < i; j++)
      assert_string_not_equal(ls_doctor_rows[i].id, ls_doctor_rows[j].id);
  }
}

TESTS(capture_setup, capture_teardown, recordings, nothing_known, settings, ailments, measured, wrong_copies,
      rows)
