/* Results of a simulation as a document. */
#include "plan/simulation.h"

#include <string.h>

static json_t *point_json(const ls_simulation_t *sim, const ls_simulated_row_t *row) {
  const ls_sim_point_t *p = &row->point;
  if (p->note[0]) return json_pack("{s:i, s:s}", "ranks", p->ranks, "not_simulated", p->note);
  json_t *j = json_pack("{s:i, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "ranks", p->ranks,
                        "shares", ls_sim_share_names[p->shares], "slowest_device", p->device, "global_batch",
                        (json_int_t)p->batch, "slowest_rank_batch", (json_int_t)p->rows, "step_time_us",
                        p->step_ns * 1e-3, "samples_per_s", p->samples_per_s, "speedup", p->speedup,
                        "efficiency", p->efficiency, "comm_us", p->comm_ns * 1e-3, "exposed_comm_us",
                        p->exposed_ns * 1e-3, "exposed_comm_share", p->exposed_ns / p->step_ns);
  json_object_set_new(j, "exposed_input_us", json_real(p->input_ns * 1e-3));
  if (p->algorithm) json_object_set_new(j, "algorithm", json_string(p->algorithm));
  if (sim->has_workload)
    json_object_set_new(j, "strategy", json_string(row->strategy->name));
  else
    json_object_update_new(j, json_pack("{s:I, s:I, s:b}", "step_bytes", (json_int_t)p->device_bytes,
                                        "device_memory_bytes", (json_int_t)p->memory_bytes, "fits", p->fits));
  return j;
}

static json_t *reported_json(const ls_simulated_row_t *row) {
  const ls_reported_view_t *v = &row->view;
  return json_pack("{s:I, s:o, s:f, s:f, s:f, s:f, s:s}", "ranks", (json_int_t)row->reported->ranks,
                   "reported_efficiency", ls_json_number(v->reported_efficiency), "simulated_efficiency",
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

json_t *ls_simulation_json(const ls_simulation_t *sim) {
  json_t *points = json_array(), *reported = json_array();
  for (int i = 0; i < sim->row_count; i++) {
    json_array_append_new(points, point_json(sim, &sim->row[i]));
    if (sim->row[i].reported && !sim->row[i].point.note[0])
      json_array_append_new(reported, reported_json(&sim->row[i]));
  }
  json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:o, s:o}", "command", "simulate", "figures",
                        "simulated", sim->has_workload ? "workload" : "config",
                        sim->has_workload ? sim->workload.name : sim->config_name, "scaling",
                        sim->work.global_batch ? "strong" : "weak", "precision",
                        ls_sim_precisions[sim->work.precision], "compute_scale", sim->work.compute_scale,
                        "machine", ls_sim_machine_json(&sim->machine), "points", points);
  if (sim->has_workload) {
    json_object_set_new(j, "workload_source", json_string(sim->workload.source));
    json_object_set_new(j, "parameters", json_integer((json_int_t)ls_workload_parameters(&sim->workload)));
  } else {
    json_object_set_new(j, "strategy", json_string(sim->work.strategy));
  }
  if (sim->work.left_out) json_object_set_new(j, "left_out", json_string(sim->work.left_out));
  if (sim->workload.reported_source) {
    json_object_set_new(j, "reported_source", json_string(sim->workload.reported_source));
    json_object_set_new(j, "reported", reported);
    json_object_set_new(j, "contradictions", lines_json(sim->contradictions));
  } else {
    json_decref(reported);
  }
  return j;
}
