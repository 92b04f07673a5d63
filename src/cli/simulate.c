/* lockstep simulate: a configuration or a workload priced on a machine that is not here. Every figure that it
 * prints is simulated; what somebody reported stands beside it only where the workload file has it. */
#include "cli/cli.h"

#include "plan/workload.h"
#include "train/config.h"

#include <math.h>
#include <string.h>

enum { EXTRA_MACHINE, EXTRA_RANKS, EXTRA_WORKLOAD };
enum { WIDTH = 118 };
#define INPUT_BOUND 0.05 /* share of a step that waits for input, from which on it is said */

static const cli_extra_t extras[] = {
    [EXTRA_MACHINE] = {"--machine", "FILE",
                       "The machine to simulate: a file, or the name of a shipped one, such as h200."},
    [EXTRA_RANKS] = {"--ranks", "LIST",
                     "Such as 1,2,4..1024 (A..B doubles); default: 1 to all of the machine's devices."},
    [EXTRA_WORKLOAD] =
        {"--workload", "FILE",
         "Gradients and compute without a graph, instead of CONFIG: a file, or a shipped name."},
    {NULL, NULL, NULL}};

/* One row of the result: a simulated point and, for workloads, what was reported for it. */
typedef struct {
  ls_sim_point_t point;
  const ls_reported_t *reported; /* NULL = none */
  ls_reported_view_t view;
  int strategy; /* of workloads */
} row_t;

typedef struct {
  ls_sim_machine_t machine;
  ls_config_t *config; /* or */
  ls_workload_t workload;
  bool has_workload;
  ls_ints_t ranks;
  ls_sim_work_t work; /* of the first row; says precision and scale */
  row_t *row;
  int row_count;
  const char *contradictions;
} simulation_t;

static const char *const strategy_names[] = {"ddp", "sharded"};
static const char *const shares_names[] = {"even", "proportional"};

static const ls_reported_t *find_reported(const ls_workload_t *w, int64_t ranks) {
  for (int i = 0; i < w->reported_count; i++)
    if (w->reported[i].ranks == ranks) return &w->reported[i];
  return NULL;
}

/* Rows of a workload take batch and strategy from what was reported for them. */
static ls_status_t simulate_workload_row(ls_ctx_t *ctx, simulation_t *sim, int ranks, int shares,
                                         row_t *row) {
  row->reported = find_reported(&sim->workload, ranks);
  row->strategy = row->reported ? row->reported->strategy : sim->workload.strategy;
  const ls_workload_run_t run = {&sim->workload, row->strategy};
  ls_sim_work_t work;
  ls_status_t status = ls_workload_work(ctx, &sim->machine, &run, &work);
  if (status != LS_OK) return status;
  if (row->reported && work.batch_per_device > 0)
    work.batch_per_device = ls_reported_batch(&sim->workload, row->reported);
  status = ls_sim_point(ctx, &sim->machine, &work, ranks, shares, &row->point);
  sim->work = work;
  sim->work.user = NULL;
  if (status != LS_OK || !row->reported || row->point.note[0]) return status;
  ls_sim_point_t single;
  work.batch_per_device = sim->workload.batch_per_device;
  status = ls_sim_point(ctx, &sim->machine, &work, 1, LS_SIM_EVEN, &single);
  if (status == LS_OK) ls_reported_compare(&sim->workload, row->reported, &row->point, &single, &row->view);
  return status;
}

static ls_status_t simulate_row(ls_ctx_t *ctx, simulation_t *sim, int ranks, int shares) {
  row_t *row = &sim->row[sim->row_count++];
  if (sim->has_workload) return simulate_workload_row(ctx, sim, ranks, shares, row);
  ls_status_t status = ls_sim_work_config(ctx, sim->config, &sim->work);
  return status == LS_OK ? ls_sim_point(ctx, &sim->machine, &sim->work, ranks, shares, &row->point) : status;
}

static ls_status_t simulate_all(ls_ctx_t *ctx, simulation_t *sim) {
  sim->row = ls_alloc_array(ctx, 2 * (size_t)sim->ranks.count, sizeof *sim->row);
  ls_status_t status = sim->row ? LS_OK : LS_ERR_MEMORY;
  for (int i = 0; status == LS_OK && i < sim->ranks.count; i++) {
    int ranks = (int)sim->ranks.v[i], shares = sim->machine.shares;
    bool unequal = sim->machine.kinds > 1 && ranks > 1 && ranks <= ls_sim_machine_devices(&sim->machine);
    if (!unequal || shares != LS_SIM_PROPORTIONAL) status = simulate_row(ctx, sim, ranks, LS_SIM_EVEN);
    if (status == LS_OK && unequal && shares != LS_SIM_EVEN)
      status = simulate_row(ctx, sim, ranks, LS_SIM_PROPORTIONAL);
  }
  if (status == LS_OK && sim->has_workload) {
    sim->contradictions = ls_reported_contradictions(&sim->workload);
    if (!sim->contradictions) status = LS_ERR_MEMORY;
  }
  return status;
}

static ls_status_t read_all(ls_ctx_t *ctx, const cli_args_t *args, simulation_t *sim) {
  const char *machine = args->extra[EXTRA_MACHINE], *ranks = args->extra[EXTRA_RANKS];
  const char *workload = args->extra[EXTRA_WORKLOAD];
  if (!machine)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep simulate: --machine FILE is missing; see machines/");
  if ((workload != NULL) == (args->config != NULL))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep simulate takes either CONFIG or --workload FILE");
  char *path;
  ls_status_t status = cli_shipped(ctx, "machines", machine, &path);
  if (status != LS_OK) return status;
  status = ls_sim_machine_load(ctx, path, &sim->machine);
  ls_free(path);
  if (status != LS_OK) return status;
  char all[32];
  int devices = ls_sim_machine_devices(&sim->machine);
  snprintf(all, sizeof all, devices > 1 ? "1..%d" : "%d", devices);
  status = ls_sim_ranks_parse(ctx, ranks ? ranks : all, &sim->ranks);
  if (status != LS_OK) return status;
  if (!workload) return ls_config_load(ctx, args->config, args->sets, args->set_count, &sim->config);
  status = cli_shipped(ctx, "workloads", workload, &path);
  if (status != LS_OK) return status;
  status = ls_workload_load(ctx, path, &sim->workload);
  ls_free(path);
  sim->has_workload = status == LS_OK;
  return status;
}

static void release(simulation_t *sim) {
  ls_free(sim->row);
  if (sim->has_workload) ls_workload_release(&sim->workload);
  ls_config_destroy(sim->config);
  ls_sim_machine_release(&sim->machine);
}

static json_t *point_json(const simulation_t *sim, const row_t *row) {
  const ls_sim_point_t *p = &row->point;
  if (p->note[0]) return json_pack("{s:i, s:s}", "ranks", p->ranks, "not_simulated", p->note);
  json_t *j =
      json_pack("{s:i, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ranks", p->ranks, "shares",
                shares_names[p->shares], "slowest_device", p->device, "global_batch", (json_int_t)p->batch,
                "slowest_rank_batch", (json_int_t)p->rows, "step_time_us", p->step_ns * 1e-3, "samples_per_s",
                p->samples_per_s, "speedup", p->speedup, "efficiency", p->efficiency, "communication_us",
                p->comm_ns * 1e-3, "exposed_communication_us", p->exposed_ns * 1e-3,
                "exposed_communication_share", p->exposed_ns / p->step_ns);
  json_object_set_new(j, "exposed_input_us", json_real(p->input_ns * 1e-3));
  if (p->algorithm) json_object_set_new(j, "algorithm", json_string(p->algorithm));
  if (sim->has_workload)
    json_object_set_new(j, "strategy", json_string(strategy_names[row->strategy]));
  else
    json_object_update_new(j, json_pack("{s:I, s:I, s:b}", "bytes_per_device", (json_int_t)p->device_bytes,
                                        "device_memory_bytes", (json_int_t)p->memory_bytes, "fits", p->fits));
  return j;
}

static json_t *reported_json(const row_t *row) {
  const ls_reported_view_t *v = &row->view;
  return json_pack("{s:I, s:o, s:f, s:f, s:f, s:f, s:s}", "ranks", (json_int_t)row->reported->ranks,
                   "reported_efficiency", cli_number(v->reported_efficiency), "simulated_efficiency",
                   v->simulated_efficiency, "simulated_efficiency_nothing_hidden", v->unhidden_efficiency,
                   "reported_lost_us", v->lost_ns * 1e-3, "unexplained_us", v->unexplained_ns * 1e-3, "why",
                   v->why);
}

static json_t *lines_json(const char *text) {
  json_t *list = json_array();
  for (const char *end; (end = strchr(text, '\n')); text = end + 1)
    json_array_append_new(list, json_stringn(text, (size_t)(end - text)));
  return list;
}

static void print_json(const simulation_t *sim, const cli_args_t *args) {
  json_t *points = json_array(), *reported = json_array();
  for (int i = 0; i < sim->row_count; i++) {
    json_array_append_new(points, point_json(sim, &sim->row[i]));
    if (sim->row[i].reported && !sim->row[i].point.note[0])
      json_array_append_new(reported, reported_json(&sim->row[i]));
  }
  json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:o, s:o}", "command", "simulate", "figures",
                        "simulated", sim->has_workload ? "workload" : "config",
                        sim->has_workload ? sim->workload.name : args->config, "scaling",
                        sim->work.global_batch ? "strong" : "weak", "precision",
                        ls_sim_precisions[sim->work.precision], "compute_scale", sim->work.compute_scale,
                        "machine", ls_sim_machine_json(&sim->machine), "points", points);
  if (sim->has_workload) {
    json_object_set_new(j, "workload_source", json_string(sim->workload.source));
    json_object_set_new(j, "parameters", json_integer((json_int_t)ls_workload_parameters(&sim->workload)));
  } else {
    json_object_set_new(j, "strategy", json_string(sim->work.strategy));
  }
  if (sim->workload.reported_source) {
    json_object_set_new(j, "reported_source", json_string(sim->workload.reported_source));
    json_object_set_new(j, "reported", reported);
    json_object_set_new(j, "contradictions", lines_json(sim->contradictions));
  } else {
    json_decref(reported);
  }
  cli_print_json(j);
}

/* Words in lines of at most WIDTH columns, further lines indented. */
static void print_wrapped(const char *first, const char *text) {
  int column = printf("%s", first);
  while (*text) {
    size_t len = strcspn(text, " \n");
    if (column + 1 + (int)len > WIDTH) column = printf("\n    ");
    column += printf(" %.*s", (int)len, text);
    text += len;
    if (*text == '\n') column = printf("\n ") - 1;
    if (*text) text++;
  }
  printf("\n");
}

/* "812 us", "27.8 ms", "1.20 s". */
static const char *time_text(double ns, char buf[24]) {
  if (ns < 1e6)
    snprintf(buf, 24, "%.1f us", ns * 1e-3);
  else if (ns < 1e9)
    snprintf(buf, 24, "%.2f ms", ns * 1e-6);
  else
    snprintf(buf, 24, "%.2f s", ns * 1e-9);
  return buf;
}

static void print_points(const simulation_t *sim) {
  bool unequal = sim->machine.kinds > 1;
  printf("%7s %-13s%10s %11s %14s %9s %10s %13s  %s\n", "ranks", unequal ? "shares" : "", "global", "step",
         "samples/s", "speed-up", "efficiency", "exposed comm.",
         sim->has_workload ? "strategy, algorithm" : "bytes/device, algorithm");
  for (int i = 0; i < sim->row_count; i++) {
    const row_t *row = &sim->row[i];
    const ls_sim_point_t *p = &row->point;
    if (p->note[0]) {
      printf("%7d %s\n", p->ranks, p->note);
      continue;
    }
    char step[24];
    printf("%7d %-13s%10s %11s %14s %9.2f %8.1f %% %11.1f %%  %s%s%s%s%s\n", p->ranks,
           !unequal        ? ""
           : p->ranks == 1 ? "(best)"
                           : shares_names[p->shares],
           cli_count(p->batch), time_text(p->step_ns, step), cli_count((int64_t)llround(p->samples_per_s)),
           p->speedup, 100 * p->efficiency, 100 * p->exposed_ns / p->step_ns,
           sim->has_workload ? strategy_names[row->strategy] : cli_bytes(p->device_bytes),
           !sim->has_workload && !p->fits ? " (does not fit)" : "", p->algorithm ? ", " : "",
           p->algorithm ? p->algorithm : "",
           p->input_ns > INPUT_BOUND * p->step_ns ? ", waits for input" : "");
  }
}

static void print_percent(double share) {
  if (isfinite(share))
    printf(" %9.1f %%", 100 * share);
  else
    printf(" %11s", "-");
}

static void print_lines(const char *text) {
  printf("\nwhere the report contradicts itself\n");
  for (const char *end; (end = strchr(text, '\n')); text = end + 1)
    printf("  %.*s\n", (int)(end - text), text);
}

static void print_reported(const simulation_t *sim) {
  printf("\nbeside what was reported: %s\n", sim->workload.reported_source);
  printf("%7s %11s %11s %11s  %s\n", "ranks", "simulated", "unhidden", "reported",
         "of the reported difference to one device");
  for (int i = 0; i < sim->row_count; i++) {
    const row_t *row = &sim->row[i];
    if (!row->reported || row->point.note[0]) continue;
    printf("%7d", row->point.ranks);
    print_percent(row->view.simulated_efficiency);
    print_percent(row->view.unhidden_efficiency);
    print_percent(row->view.reported_efficiency);
    printf("  %s\n", row->view.why);
  }
  printf("unhidden: simulated, if no communication ran beside compute.\n");
  if (sim->contradictions[0]) print_lines(sim->contradictions);
}

static void print_people(const simulation_t *sim, const cli_args_t *args) {
  printf("SIMULATED, not measured: %s\n  on %s, %d device%s, %s\n",
         sim->has_workload ? sim->workload.name : args->config, sim->machine.name,
         ls_sim_machine_devices(&sim->machine), ls_sim_machine_devices(&sim->machine) == 1 ? "" : "s",
         ls_sim_precisions[sim->work.precision]);
  printf("  %s scaling: %s\n", sim->work.global_batch ? "strong" : "weak",
         sim->work.global_batch ? "the global batch is fixed" : "the batch of each device is fixed");
  if (sim->has_workload) {
    printf("  %s parameters\n", cli_count(ls_workload_parameters(&sim->workload)));
    print_wrapped("  source:", sim->workload.source);
  }
  if (sim->work.compute_scale != 1)
    printf("  calibrated: times of ops x %.3f, so that one device takes what was reported for it\n",
           sim->work.compute_scale);
  if (sim->machine.notes) print_wrapped("  note:", sim->machine.notes);
  printf("\n");
  print_points(sim);
  if (sim->workload.reported_source) print_reported(sim);
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  simulation_t sim = {0};
  ls_status_t status = read_all(ctx, args, &sim);
  if (status == LS_OK) status = simulate_all(ctx, &sim);
  if (status == LS_OK) {
    if (args->json)
      print_json(&sim, args);
    else
      print_people(&sim, args);
  }
  release(&sim);
  return status;
}

const cli_command_t cli_simulate = {.name = "simulate",
                                    .summary = "Prices the same schedules on machines that are not here.",
                                    .details = "All figures are simulated; --json names the source of each "
                                               "figure of the machine. See docs/simulate.md.",
                                    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_SET |
                                             CLI_FLAG_JSON | CLI_FLAG_VERBOSE,
                                    .extra = extras,
                                    .run = run};
