/* Machines and workloads of round numbers, from text. */
#ifndef TESTS_SIMULATE_SUPPORT_H
#define TESTS_SIMULATE_SUPPORT_H

#include "base/capture.h"

#include "plan/workload.h"

#include <stdlib.h>

/* One device: 1e12 FLOP/s of which half are achieved, half speed at 1e6 FLOP, 1e12 bytes/s, 1 us a launch. */
#define DEVICE(name, count)                                                                                  \
  "  - name: " name "\n    count: " count "\n"                                                               \
  "    memory_bytes: {value: 1e9, source: test}\n    memory_bytes_per_s: {value: 1e12, source: test}\n"      \
  "    fp32_flops_per_s: {value: 1e12, source: test}\n    achieved: {value: 0.5, source: test}\n"            \
  "    half_flops: {value: 1e6, source: test}\n    launch_ns: {value: 1000, source: test}\n"
/* 1 us and 1 byte per ns between devices; host copies 1 byte per ns. */
#define LINKS(topology)                                                                                      \
  "node:\n  topology: " topology "\n  link_latency_ns: {value: 1000, source: test}\n"                        \
  "  link_bytes_per_s: {value: 1e9, source: test}\n  host_bytes_per_s: {value: 1e9, source: test}\n"
/* 5 us and half a byte per ns between nodes. */
#define NETWORK(nodes)                                                                                       \
  "network:\n  nodes: " nodes "\n  latency_ns: {value: 5000, source: test}\n"                                \
  "  bytes_per_s: {value: 0.5e9, source: test}\n"
#define FOUR "name: four\ndevices:\n" DEVICE("d", "4") LINKS("nvlink")

/* Fails the test when the text is not a machine (workload). */
void machine_make(capture_t *c, const char *text, ls_sim_machine_t *machine);
void workload_make(capture_t *c, const char *text, ls_workload_t *workload);

void assert_close(double value, double expected); /* within 1e-9 of it */

#endif
