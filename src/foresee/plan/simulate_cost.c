/* The cost of a task on another machine. An op is a roofline (Williams, Waterman, Patterson, CACM 52, 2009)
 * whose arithmetic roof rises with the size of the work (n_1/2 of Hockney and Jesshope, "Parallel Computers",
 * 1981): time = max((flops + half_flops) / (achieved * peak), bytes / bandwidth) + launch. */
#include "plan/simulate.h"

#include <math.h>

double ls_sim_compute_ns(const ls_sim_cost_t *cost, double flops, double bytes) {
  const ls_sim_device_t *d = cost->device;
  bool tensor = cost->precision != LS_SIM_FP32;
  double rate =
      d->flops_per_s[cost->precision].value * (tensor ? d->achieved_tensor.value : d->achieved.value);
  double half = tensor ? d->half_flops_tensor.value : d->half_flops.value;
  double arithmetic_ns = flops > 0 ? (flops + half) / rate * 1e9 : 0;
  double memory_ns = bytes / (d->memory_bytes_per_s.value * d->memory_achieved.value) * 1e9;
  return (fmax(arithmetic_ns, memory_ns) + d->launch_ns.value) * cost->compute_scale;
}

/* The large buffer of a collective, as ls_sim_collective_ns counts it: the tensor it works on. */
static double collective_ns(const ls_sim_cost_t *cost, const ls_schedule_t *s, const ls_task_t *task) {
  double bytes = (double)ls_task_large_bytes(s, task);
  return ls_sim_collective_ns(cost->machine, task->collective, bytes, ls_task_ranks(s, task), NULL);
}

double ls_sim_task_ns(const ls_sim_cost_t *cost, const ls_schedule_t *s, int task) {
  const ls_task_t *t = &s->tasks[task];
  if (t->kind == LS_TASK_COLLECTIVE) return collective_ns(cost, s, t);
  bool between = t->lane == LS_LANE_COPY_IN || t->lane == LS_LANE_COPY_OUT; /* host and device */
  if (t->kind == LS_TASK_COPY && between)
    return (double)t->bytes / cost->machine->node.host_bytes_per_s.value * 1e9 +
           cost->device->launch_ns.value;
  /* A copy within the device reads and writes. */
  if (t->kind == LS_TASK_COPY) return ls_sim_compute_ns(cost, 0, 2.0 * (double)t->bytes);
  return ls_sim_compute_ns(cost, (double)t->flops, (double)t->bytes);
}

static ls_status_t task_time(void *user, const ls_schedule_t *s, int task, ls_time_t *time) {
  double ns = ls_sim_task_ns(user, s, task);
  *time = (ls_time_t){.ns = ns, .low_ns = ns, .high_ns = ns};
  return LS_OK;
}

ls_cost_model_t ls_sim_cost_model(ls_sim_cost_t *cost) {
  ls_cost_model_t model = {
      .task_time = task_time, .user = cost, .step_overhead_ns = cost->machine->node.step_overhead_ns.value};
  ls_cost_model_overlap(&model, cost->machine->node.overlap_slowdown.value, 1);
  return model;
}
