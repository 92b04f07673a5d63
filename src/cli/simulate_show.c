/* Results of a simulation for people: the points, and the reported figures next to them. */
#include "cli/simulate.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 118 };
#define INPUT_BOUND 0.05 /* share of a step that waits for input, from which on it is said */

/* Words in lines of at most WIDTH columns, further lines indented. */
static void print_wrapped(const char *first, const char *text) {
  int column = cli_print("%s", first);
  while (*text) {
    size_t len = strcspn(text, " \n");
    if (column + 1 + (int)len > WIDTH) column = cli_print("\n    ");
    column += cli_print(" %.*s", (int)len, text);
    text += len;
    if (*text == '\n') column = cli_print("\n ") - 1;
    if (*text) text++;
  }
  cli_print("\n");
}

static void print_points(const ls_simulation_t *sim) {
  bool unequal = sim->machine.kinds > 1;
  cli_print("%7s %-13s%10s %11s %14s %9s %10s %13s  %s\n", "ranks", unequal ? "shares" : "", "global", "step",
            "samples/s", "speed-up", "efficiency", "exposed comm.",
            sim->has_workload ? "strategy, algorithm" : "step's bytes, algorithm");
  for (int i = 0; i < sim->row_count; i++) {
    const ls_simulated_row_t *row = &sim->row[i];
    const ls_sim_point_t *p = &row->point;
    if (p->note[0]) {
      cli_print("%7d %s\n", p->ranks, p->note);
      continue;
    }
    cli_print("%7d %-13s%10s %11s %14s %9.2f %8.1f %% %11.1f %%  %s%s%s%s%s\n", p->ranks,
              !unequal        ? ""
              : p->ranks == 1 ? "(best)"
                              : ls_sim_share_names[p->shares],
              cli_count(p->batch), cli_time(p->step_ns), cli_count((int64_t)llround(p->samples_per_s)),
              p->speedup, 100 * p->efficiency, 100 * p->exposed_ns / p->step_ns,
              sim->has_workload ? row->strategy->name : cli_bytes(p->device_bytes),
              !sim->has_workload && !p->fits ? " (does not fit)" : "", p->algorithm ? ", " : "",
              p->algorithm ? p->algorithm : "",
              p->input_ns > INPUT_BOUND * p->step_ns ? ", waits for input" : "");
  }
}

static void print_percent(double share) {
  if (isfinite(share))
    cli_print(" %9.1f %%", 100 * share);
  else
    cli_print(" %11s", "-");
}

static void print_lines(const char *text) {
  cli_print("\nwhere the report contradicts itself\n");
  for (const char *end; (end = strchr(text, '\n')); text = end + 1)
    cli_print("  %.*s\n", (int)(end - text), text);
}

static void print_reported(const ls_simulation_t *sim) {
  cli_print("\nbeside what was reported: %s\n", sim->workload.reported_source);
  cli_print("%7s %11s %11s %11s  %s\n", "ranks", "simulated", "unhidden", "reported",
            "of the reported difference to one device");
  for (int i = 0; i < sim->row_count; i++) {
    const ls_simulated_row_t *row = &sim->row[i];
    if (!row->reported || row->point.note[0]) continue;
    cli_print("%7d", row->point.ranks);
    print_percent(row->view.simulated_efficiency);
    print_percent(row->view.unhidden_efficiency);
    print_percent(row->view.reported_efficiency);
    cli_print("  %s\n", row->view.why);
  }
  cli_print("unhidden: simulated, if no communication ran beside compute.\n");
  if (sim->contradictions[0]) print_lines(sim->contradictions);
}

void cli_simulate_show(const ls_simulation_t *sim) {
  cli_print("SIMULATED, not measured: %s\n  on %s, %d device%s, %s\n",
            sim->has_workload ? sim->workload.name : sim->config_name, sim->machine.name,
            ls_sim_machine_devices(&sim->machine), LS_PLURAL(ls_sim_machine_devices(&sim->machine)),
            ls_sim_precisions[sim->work.precision]);
  cli_print("  %s scaling: %s\n", sim->work.global_batch ? "strong" : "weak",
            sim->work.global_batch ? "the global batch is fixed" : "the batch of each device is fixed");
  if (sim->has_workload) {
    cli_print("  %s parameters\n", cli_count(ls_workload_parameters(&sim->workload)));
    print_wrapped("  source:", sim->workload.source);
  }
  if (sim->work.compute_scale != 1)
    cli_print("  calibrated: times of ops x %.3f, so that one device takes what was reported for it\n",
              sim->work.compute_scale);
  if (sim->work.left_out)
    cli_print("  left out: %s: what it brings depends on the device, and only timing tells\n",
              sim->work.left_out);
  if (sim->machine.notes) print_wrapped("  note:", sim->machine.notes);
  cli_print("\n");
  print_points(sim);
  if (sim->workload.reported_source) print_reported(sim);
}
