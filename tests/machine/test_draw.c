/* What people see of the recorded machines: the lines that matter are there, nothing is invented for what is
 * unknown. */
#include "base/capture.h"
#include "recorded.h"

#include <stdlib.h>

static ls_machine_t machine; /* large */

static char *draw(recorded_t which) {
  recorded_load(which, &machine);
  char *text = ls_machine_draw(&machine);
  assert_non_null(text);
  assert_null(strstr(text, " -1"));
  return text;
}

static void expect(const char *text, const char *line) {
  if (!strstr(text, line)) fail_msg("\"%s\" is not in:\n%s", line, text);
}

static void bridge(void **state) {
  char *text = draw(RECORDED_BRIDGE);
  expect(text, "AMD Ryzen 9 7950X 16-Core Processor, avx512");
  expect(text, "1 package, 16 cores, 32 hardware threads, 32 usable here, 1 NUMA node\n");
  expect(text,
         "├─ 0  NVIDIA GeForce RTX 4070 Ti SUPER, 16 GiB, 66 SMs, compute 8.9, PCIe 4.0 x16 (at 1.0 now)\n");
  expect(text, "└─ 1  NVIDIA GeForce RTX 4070 Ti SUPER, 16 GiB, 66 SMs, compute 8.9, PCIe 4.0 x8 of x16 (at "
               "1.0 now)\n");
  expect(text, "SM clock 210 of 3105 MHz, 12 W of 285 W, 38 C, NUMA node 0\n");
  expect(text, "\ngpu         0       1\n  0         - BRIDGE!\n  1   BRIDGE!       -\n");
  expect(text, "! = no peer access");
  ls_free(text);
}

static void nvlink(void **state) {
  char *text = draw(RECORDED_NVLINK);
  expect(text, "MPI Open MPI v4.1.6; NCCL 2.28.9; driver 580.82.07; CUDA 13.0; BLAS oneDNN 2.6.3\n");
  expect(text, "└─ 3  NVIDIA H200, 140 GiB, 132 SMs, compute 9.0, 18 NVLinks, PCIe 5.0 x16\n");
  expect(text, "  0         -    NV18    NV18    NV18\n");
  assert_null(strstr(text, "no peer access"));
  assert_null(strstr(text, "not known"));
  ls_free(text);
}

static void cpu_only(void **state) {
  char *text = draw(RECORDED_CPU);
  expect(text, "├─ memory    24 GiB; L1 48 KiB, L2 2.0 MiB, L3 260 MiB\n");
  expect(text, "in kvm, docker\n");
  expect(text, "└─ gpus      none (libnvidia-ml.so.1: cannot open shared object file");
  assert_null(strstr(text, "gpu  "));
  ls_free(text);
}

static void half_refused(void **state) {
  char *text = draw(RECORDED_HALF);
  expect(text, "└─ gpus      2 (2 of 3 GPUs could be read)\n");
  expect(text, "├─ 0  NVIDIA RTX A6000, 48 GiB, compute 8.6\n");
  expect(text, "SM clock not known, 71 C\n");
  expect(text, "└─ 1  NVIDIA RTX A6000, 48 GiB\n");
  expect(text, "  0         -       ?\n");
  expect(text, "? = not known\n");
  ls_free(text);
}

static void nothing_known(void **state) {
  ls_machine_clear(&machine);
  char *text = ls_machine_draw(&machine);
  expect(text, "├─ cpu       not known\n");
  expect(text, "└─ gpus      none\n");
  assert_null(strstr(text, " -1"));
  ls_free(text);
}

/* The most that fits: sixteen GPUs with the longest names. */
static void largest(void **state) {
  ls_machine_clear(&machine);
  machine.gpu_count = LS_GPU_MAX;
  for (int i = 0; i < LS_GPU_MAX; i++) {
    memset(machine.gpu[i].name, 'x', LS_NAME_BYTES - 1);
    for (int j = 0; j < LS_GPU_MAX; j++) {
      machine.nvlinks[i][j] = INT32_MAX;
      if (i != j) machine.link[i][j] = LS_LINK_NVLINK;
    }
  }
  char *text = ls_machine_draw(&machine);
  expect(text, "└─ 15 xxx");
  expect(text, "\n  15 ");
  ls_free(text);
}

TESTS(NULL, NULL, bridge, nvlink, cpu_only, half_refused, nothing_known, largest)
