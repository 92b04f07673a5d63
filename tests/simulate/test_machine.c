/* Machine files: what they give, what is refused and where, and that those we ship are good. */
#include "support.h"

static void a_machine_is_read(void **state) {
  capture_t *c = *state;
  ls_sim_machine_t m;
  machine_make(c,
               "name: two kinds\nshares: proportional\ndevices:\n" DEVICE("a", "1") DEVICE("b", "2")
                   LINKS("switch") NETWORK("3"),
               &m);
  assert_string_equal(m.name, "two kinds");
  assert_int_equal(m.shares, LS_SIM_PROPORTIONAL);
  assert_int_equal(m.kinds, 2);
  assert_int_equal(m.node_devices, 3);
  assert_int_equal(ls_sim_machine_devices(&m), 9);
  const int kinds[9] = {0, 1, 1, 0, 1, 1, 0, 1, 1};
  for (int r = 0; r < 9; r++)
    assert_int_equal(ls_sim_machine_kind(&m, r), kinds[r]);
  assert_int_equal(m.node.topology, LS_SIM_SWITCH);
  assert_close(m.device[1].flops_per_s[LS_SIM_FP32].value, 1e12);
  assert_string_equal(m.device[1].flops_per_s[LS_SIM_FP32].source, "test");
  assert_close(m.device[0].memory_achieved.value, 1); /* defaults have no source */
  assert_null(m.device[0].memory_achieved.source);
  assert_close(m.device[0].flops_per_s[LS_SIM_BF16].value, 0);
  assert_close(m.node.overlap_slowdown.value, 1);
  json_t *j = ls_sim_machine_json(&m);
  const json_t *launch = json_object_get(json_array_get(json_object_get(j, "devices"), 1), "launch_ns");
  assert_close(json_number_value(json_object_get(launch, "value")), 1000);
  assert_string_equal(json_string_value(json_object_get(launch, "source")), "test");
  json_decref(j);
  ls_sim_machine_release(&m);
}

/* Text of the file, and texts that its messages must contain. */
typedef struct {
  const char *text;
  const char *says[4];
} bad_t;

static const bad_t bad[] = {
    {"name: x\n", {"m.yaml", "devices is missing", "node is missing"}},
    {"devices:\n" DEVICE("d", "1") LINKS("nvlink"), {"name is missing"}},
    {"name: x\ndevices: 3\n" LINKS("nvlink"), {"m.yaml:2:10", "a list of 1 to 16 device kinds"}},
    {"name: x\ndevices: []\n" LINKS("nvlink"), {"m.yaml:2:10", "a list of 1 to 16 device kinds"}},
    {"name: x\ndevices: [3]\n" LINKS("nvlink"), {"m.yaml:2:11", "devices.0: a value is given"}},
    {"name: x\ndevices:\n" DEVICE("d", "0") LINKS("nvlink"),
     {"m.yaml:4:12", "devices.0.count", "in [1, 1024]"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    launch_n: {value: 1, source: s}\n" LINKS("nvlink"),
     {"m.yaml:11:5", "unknown option `launch_n` in devices.0", "did you mean"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    achieved_tensor: 0.5\n" LINKS("nvlink"),
     {"m.yaml:11:22", "devices.0.achieved_tensor", "say where the number comes from"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    achieved_tensor: {value: 0.5}\n" LINKS("nvlink"),
     {"m.yaml:11:5", "devices.0.achieved_tensor.source is missing"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    achieved_tensor: {value: 0.5, source: ''}\n" LINKS("nvlink"),
     {"m.yaml:11:22", "the source is empty"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    achieved_tensor: {value: 1.5, source: s}\n" LINKS("nvlink"),
     {"m.yaml:11:30", "devices.0.achieved_tensor.value", "in [0.01, 1]"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    achieved_tensor: {value: nan, source: s}\n" LINKS("nvlink"),
     {"m.yaml:11:30", "devices.0.achieved_tensor.value"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") "    achieved_tensor: [1]\n" LINKS("nvlink"),
     {"m.yaml:11:22", "a list is given"}},
    {"name: x\ndevices:\n  - name: d\n" LINKS("nvlink"),
     {"m.yaml:3:5", "devices.0.memory_bytes is missing", "devices.0.fp32_flops_per_s is missing",
      "devices.0.launch_ns is missing"}},
    {"name: x\ndevices:\n" DEVICE("d", "1") LINKS("bridge"),
     {"m.yaml:12:13", "node.topology", "host-bridge"}},
    {"name: x\ndevices:\n" DEVICE("d", "2") LINKS("host-bridge"),
     {"m.yaml:11:1", "node.bridge_bytes_per_s is missing"}},
    {"name: x\ndevices:\n" DEVICE("d", "2") "node:\n  topology: nvlink\n",
     {"m.yaml:11:1", "node.link_latency_ns is missing", "node.link_bytes_per_s is missing",
      "node.host_bytes_per_s is missing"}},
    {FOUR "network: {nodes: 2}\n", {"network.latency_ns is missing", "network.bytes_per_s is missing"}},
    {FOUR "network: {nodes: 0, latency_ns: {value: -1, source: s}, bytes_per_s: {value: 1e9, source: s}}\n",
     {"network.nodes", "network.latency_ns.value"}},
    {FOUR "shares: fair\n", {"shares", "proportional"}},
    {FOUR "nod: 1\n", {"unknown option `nod`", "did you mean `node`"}},
};

static void bad_files_are_refused_with_every_fault_and_its_place(void **state) {
  capture_t *c = *state;
  for (int i = 0; i < LS_COUNT(bad); i++) {
    ls_sim_machine_t m;
    memset(&m, 0xA5, sizeof m);
    ls_status_t status = ls_sim_machine_read(c->ctx, "m.yaml", bad[i].text, strlen(bad[i].text), &m);
    if (status != LS_ERR_CONFIG) fail_msg("row %d: status %d", i, status);
    for (int k = 0; k < 4 && bad[i].says[k]; k++)
      if (!strstr(c->text, bad[i].says[k])) fail_msg("row %d: no \"%s\" in: %s", i, bad[i].says[k], c->text);
    unsigned char untouched[sizeof m];
    memset(untouched, 0xA5, sizeof untouched);
    assert_memory_equal(&m, untouched, sizeof m);
    capture_clear(c);
  }
}

static void a_missing_file_is_named(void **state) {
  capture_t *c = *state;
  ls_sim_machine_t m;
  assert_int_equal(ls_sim_machine_read(c->ctx, "machines/none.yaml", NULL, 0, &m), LS_ERR_NOT_FOUND);
  assert_non_null(strstr(c->text, "machines/none.yaml"));
}

static void the_shipped_machines_are_good(void **state) {
  capture_t *c = *state;
  static const char *const files[] = {
      "h200", "h200-host-bridge", "rtx4070tis-host-bridge", "rtx5080-rtx4060", "v100-hdr", "v100-hdr-pcie3"};
  for (int i = 0; i < LS_COUNT(files); i++) {
    char path[128];
    snprintf(path, sizeof path, "machines/%s.yaml", files[i]);
    ls_sim_machine_t m;
    if (ls_sim_machine_read(c->ctx, path, NULL, 0, &m) != LS_OK) fail_msg("%s", c->text);
    assert_true(ls_sim_machine_devices(&m) >= 2);
    ls_sim_machine_release(&m);
  }
}

/* Torn and altered files are refused or read, nothing else; every cut and every byte once. */
static void torn_and_altered_files_do_no_harm(void **state) {
  capture_t *c = *state;
  static const char text[] =
      "name: x\nshares: both\ndevices:\n" DEVICE("a", "1") LINKS("nvlink") NETWORK("3");
  static const char replacements[] = {'\0', '\n', ':', '{', '[', '-', '9', '\'', '\xff'};
  ls_sim_machine_t m;
  for (size_t len = 0; len < sizeof text; len++) {
    if (ls_sim_machine_read(c->ctx, "m.yaml", text, len, &m) == LS_OK) ls_sim_machine_release(&m);
    capture_clear(c);
  }
  for (size_t i = 0; i < sizeof text - 1; i++)
    for (int k = 0; k < LS_COUNT(replacements); k++) {
      char altered[sizeof text];
      memcpy(altered, text, sizeof text);
      altered[i] = replacements[k];
      if (ls_sim_machine_read(c->ctx, "m.yaml", altered, sizeof text - 1, &m) == LS_OK) {
        assert_true(ls_sim_machine_devices(&m) >= 1);
        ls_sim_machine_release(&m);
      }
      capture_clear(c);
    }
}

static ls_status_t parse_once(capture_t *c) {
  static const char text[] =
      "name: x\ndevices:\n" DEVICE("a", "1") DEVICE("b", "2") LINKS("switch") NETWORK("3");
  ls_sim_machine_t m;
  ls_status_t status = ls_sim_machine_read(c->ctx, "m.yaml", text, sizeof text - 1, &m);
  if (status == LS_OK) ls_sim_machine_release(&m);
  return status;
}

static void every_allocation_may_fail(void **state) {
  assert_true(capture_fail_each_alloc(*state, parse_once) >= 2);
}

TESTS(capture_setup, capture_teardown, a_machine_is_read,
      bad_files_are_refused_with_every_fault_and_its_place, a_missing_file_is_named,
      the_shipped_machines_are_good, torn_and_altered_files_do_no_harm, every_allocation_may_fail)
