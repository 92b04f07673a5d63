/* Reading the machine that runs the tests: what every Linux machine has is there, twice the same. */
#include "base/capture.h"
#include "base/file.h"
#include "machine/parts.h"

#include <stdlib.h>

static ls_machine_t a, b; /* large */

static void reads_this_machine(void **state) {
  capture_t *c = *state;
  char x[17], y[17];
  memset(&a, 0xee, sizeof a);
  assert_int_equal(ls_machine_read(c->ctx, &a), LS_OK);
  assert_int_equal(ls_machine_read(c->ctx, &b), LS_OK);
  assert_true(a.threads >= 1 && a.usable_cpus >= 1);
  assert_int_equal(a.usable_cpus, ls_cpu_count());
  assert_true(a.memory_bytes > 1 << 20);
  assert_true(a.gpu_count >= 0 && a.gpu_count <= LS_GPU_MAX);
  assert_int_equal(strncmp(a.kernel, "Linux ", 6), 0);
  assert_true(*a.mpi && *a.blas);
  assert_null(strchr(a.mpi, ','));
  ls_machine_fingerprint(&a, x);
  ls_machine_fingerprint(&b, y);
  assert_string_equal(x, y);
  assert_int_equal(c->count, 0); /* what is missing is no message */
}

static ls_status_t read_one(capture_t *c) {
  return ls_machine_read(c->ctx, &a);
}

static void every_allocation_fails_once(void **state) {
  assert_in_range(capture_fail_each_alloc(*state, read_one), 1, 10);
}

static char root[64];

static void put(capture_t *c, const char *name, const char *text) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", root, name);
  *strrchr(path, '/') = '\0';
  assert_int_equal(ls_dir_make(c->ctx, path), LS_OK);
  snprintf(path, sizeof path, "%s/%s", root, name);
  assert_int_equal(ls_file_write(c->ctx, path, text, strlen(text)), LS_OK);
}

/* A container of 2 GiB on a large host must not be planned for with the host's memory. */
static void memory_is_limited_by_control_groups(void **state) {
  capture_t *c = *state;
  strcpy(root, "/tmp/lockstep-test-XXXXXX");
  assert_non_null(mkdtemp(root));
  assert_true(ls_machine_memory_limit(root) == INT64_MAX); /* nothing there */
  put(c, "sys/fs/cgroup/memory.max", "max\n");
  assert_true(ls_machine_memory_limit(root) == INT64_MAX);
  put(c, "sys/fs/cgroup/memory.max", "3000\n");
  assert_int_equal(ls_machine_memory_limit(root), 3000);
  put(c, "proc/self/cgroup", "1:name=systemd:/x\n0::/jobs/one\n");
  assert_int_equal(ls_machine_memory_limit(root), 3000);
  put(c, "sys/fs/cgroup/jobs/one/memory.max", "max\n");
  put(c, "sys/fs/cgroup/jobs/memory.max", "2000\n"); /* of the group above */
  assert_int_equal(ls_machine_memory_limit(root), 2000);
  put(c, "sys/fs/cgroup/jobs/one/memory.max", "nonsense\n");
  assert_int_equal(ls_machine_memory_limit(root), 2000);
  assert_int_equal(ls_dir_remove(c->ctx, root), LS_OK);
}

static void memory_is_limited_by_the_first_version_too(void **state) {
  capture_t *c = *state;
  strcpy(root, "/tmp/lockstep-test-XXXXXX");
  assert_non_null(mkdtemp(root));
  put(c, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* how it says "none" */
  assert_true(ls_machine_memory_limit(root) > INT64_C(1) << 60);
  put(c, "proc/self/cgroup", "9:cpu,cpuacct:/job\n8:memory:/job\n");
  put(c, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000\n");
  assert_int_equal(ls_machine_memory_limit(root), 5000);
  put(c, "proc/self/cgroup", "9:cpu,cpuacct:/job\n");
  assert_true(ls_machine_memory_limit(root) > INT64_C(1) << 60);
  put(c, "sys/fs/cgroup/memory/memory.limit_in_bytes", "4000\n");
  assert_int_equal(ls_machine_memory_limit(root), 4000);
  assert_int_equal(ls_dir_remove(c->ctx, root), LS_OK);
}

/* A virtual machine that had 4.8 GiB when it was started and 23.5 GiB later. */
static void memory_added_while_running_counts(void **state) {
  capture_t *c = *state;
  strcpy(root, "/tmp/lockstep-test-XXXXXX");
  assert_non_null(mkdtemp(root));
  assert_true(ls_machine_memory(root) == -1);
  put(c, "sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:        5033164 kB\n");
  put(c, "proc/meminfo", "MemFree: 100 kB\nMemTotal:       24641536 kB\nMemAvailable:   24000000 kB\n");
  assert_true(ls_machine_memory(root) == INT64_C(24641536) * 1024);
  put(c, "sys/fs/cgroup/memory.max", "3000\n");
  assert_true(ls_machine_memory(root) == 3000);
  put(c, "sys/fs/cgroup/memory.max", "max\n");
  put(c, "proc/meminfo", "MemTotal: 9223372036854775807 kB\n");
  assert_true(ls_machine_memory(root) == -1);
  assert_int_equal(ls_dir_remove(c->ctx, root), LS_OK);
  assert_int_equal(ls_machine_read(c->ctx, &a), LS_OK);
  assert_true(a.memory_bytes == ls_machine_memory(""));
}

TESTS(capture_setup, capture_teardown, reads_this_machine, memory_is_limited_by_control_groups,
      memory_is_limited_by_the_first_version_too, memory_added_while_running_counts,
      every_allocation_fails_once)
