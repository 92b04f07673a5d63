/* Writes the HTML reports that report.sh looks at in a browser: `reports DIR [DOCUMENT]`. Made documents,
 * each as wide as its kind gets, and a measured one where its name is given. */
#include "documents.h"

#include <stdlib.h>
#include <string.h>

enum { REPETITIONS = 20 };

static void write_report(const char *dir, const char *name, const json_t *document) {
  char path[512];
  char *html = ls_bench_html(NULL, document), *markdown = ls_bench_markdown(NULL, document);
  snprintf(path, sizeof path, "%s/%s.html", dir, name);
  if (!html || !markdown || ls_file_write(NULL, path, html, strlen(html)) != LS_OK) exit(1);
  snprintf(path, sizeof path, "%s/%s.md", dir, name);
  if (ls_file_write(NULL, path, markdown, strlen(markdown)) != LS_OK) exit(1);
  ls_free(markdown);
  ls_free(html);
}

static void add_run(json_t *d) {
  json_object_set_new(d, "run",
                      json_pack("{s:s, s:s, s:s, s:s, s:i, s:f, s:f, s:i}", "created", "2026-11-22T02:03:04Z",
                                "command_line",
                                "lockstep bench examples/05-auto.yaml --batches 16,1024 --ranks-list 1,2 "
                                "--repetitions 20 --validate --html "
                                "/home/someone/measurements/november/report.html",
                                "lockstep", "0.9.0", "network", "mlp-medium", "seed", 42, "load_before", 0.31,
                                "load_after", 1.87, "processors", 64));
  json_object_set_new(d, "machine",
                      json_pack("{s:s, s:i, s:i, s:I, s:s, s:s, s:s, s:[{s:s, s:I}, {s:s, s:I}]}",
                                "cpu_model", "AMD EPYC 9555 64-Core Processor", "cores", 64, "usable_cpus",
                                64, "memory_bytes", (json_int_t)824633720832, "kernel", "Linux 6.12.0-amd64",
                                "blas", "oneDNN 3.7.0", "mpi", "Open MPI v5.0.7", "gpu", "name",
                                "NVIDIA H200", "memory_bytes", (json_int_t)150754820096, "name",
                                "NVIDIA H200", "memory_bytes", (json_int_t)150754820096));
}

/* Parts, a timeline, a loss curve, bytes, a prediction: all that a variant of several ranks can have. */
static void enrich(json_t *v, double us, int ranks) {
  json_t *r, *losses = json_array(), *timeline = json_array();
  size_t i;
  double comm = ranks > 1 ? 0.2 * us : 0, own = us - comm;
  json_array_foreach(json_object_get(v, "repetitions"), i, r) json_object_set_new(
      r, "step_parts_us",
      json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "input", 0.0, "forward", 0.3 * own, "backward", 0.4 * own,
                "exposed_comm", comm, "optimizer", 0.25 * own, "rest", 0.04 * own));
  for (int k = 0; k < 110; k++)
    json_array_append_new(losses, json_real(0.4 + 2 * exp(-k / 20.0) + 0.02 * (k % 7)));
  json_object_set_new(v, "curves", json_pack("{s:o}", "loss", losses));
  json_object_set_new(v, "bytes_per_device",
                      json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "params", 1033792, "gradients",
                                1033792, "optimizer", 2067648, "data", 0, "inputs", 1956160, "activations",
                                35328, "other", 132, "total", 6126852));
  const struct {
    const char *lane, *part;
    double from, until;
  } tasks[] = {{"compute", "forward", 0, 0.3 * own},
               {"compute", "backward", 0.3 * own, 0.7 * own},
               {"comm", "communication", 0.5 * own, 0.7 * own + comm},
               {"compute", "optimizer", 0.7 * own + comm, us}};
  for (int k = 0; k < LS_COUNT(tasks); k++)
    json_array_append_new(timeline,
                          json_pack("{s:s, s:s, s:f, s:f}", "lane", tasks[k].lane, "part", tasks[k].part,
                                    "start_us", tasks[k].from, "end_us", tasks[k].until));
  json_object_set_new(v, "timeline", timeline);
  json_object_set_new(v, "collectives",
                      json_pack("[{s:s, s:I, s:f, s:f, s:f}]", "name", "gradients 0", "size_bytes",
                                (json_int_t)1033792, "time_us", 282.54, "algorithm_bw_bytes_per_s", 3.66e9,
                                "bus_bw_bytes_per_s", 3.66e9));
  if (ranks == 1) return;
  json_object_set_new(v, "validation",
                      json_pack("{s:f, s:b, s:f, s:b, s:f, s:b, s:b, s:b, s:b}", "final_loss_difference",
                                2e-8, "final_loss_ok", 1, "grad_norm_correlation", 0.999999, "grad_norm_ok",
                                1, "weight_difference_mean_abs", 1.4e-7, "weight_ok", 1, "reproducible", 0,
                                "identical", 0, "same_network", 1));
}

static json_t *side(int key, int ranks, const char *strategy, double us, double spread_percent) {
  double values[REPETITIONS];
  for (int i = 0; i < REPETITIONS; i++)
    values[i] = us * (1 + 0.01 * spread_percent * ((i * 7 % REPETITIONS) / (double)REPETITIONS - 0.475));
  json_t *v = made_variant(key, key, ranks, strategy, values, REPETITIONS);
  enrich(v, us, ranks);
  return v;
}

static ls_bench_method_t method_of(void) {
  ls_bench_method_t method = plain_method;
  method.config = "examples/05-auto.yaml";
  method.repetitions = REPETITIONS;
  return method;
}

/* Two batches, of which one pays and one does not, and predictions. */
static json_t *two_variants(void) {
  ls_bench_method_t method = method_of();
  json_t *variants = json_array(), *control = json_array();
  json_array_append_new(variants, side(16, 1, "single", 320.9, 3));
  json_array_append_new(variants, side(16, 2, "ddp", 452.4, 3));
  json_array_append_new(variants, side(1024, 1, "single", 12214, 3));
  json_array_append_new(variants, side(1024, 2, "ddp", 8663, 5));
  json_array_append_new(control,
                        json_pack("{s:[f,f,f], s:[f,f,f]}", "a", 1.0, 1.1, 0.9, "b", 1.05, 0.95, 1.0));
  json_t *d = made_document(variants, control, &method), *v;
  size_t i;
  json_array_foreach(json_object_get(d, "variants"), i, v) {
    double us = ls_bench_number(v, "step_time_us.mean");
    json_object_set_new(v, "predicted_step_time_us",
                        json_pack("{s:f, s:f, s:f, s:f}", "predicted", 1.1 * us, "low", 0.98 * us, "high",
                                  1.3 * us, "error_percent", 10.0));
  }
  add_run(d);
  return d;
}

static json_t *one_variant(void) {
  static const double us[] = {320.9};
  json_t *variants = json_array();
  json_array_append_new(variants, made_variant(64, 64, 1, "single", us, 1));
  return made_document(variants, json_array(), &plain_method);
}

/* Many variants with names as long as they get, of two networks. */
static json_t *sweep(void) {
  static const char *const models[] = {"mlp-medium-with-a-long-name", "mlp-large"};
  static const int batches[] = {8, 16, 32, 64, 128, 256, 1024, 16384}, ranks[] = {1, 2, 4, 8};
  ls_bench_method_t method = method_of();
  json_t *variants = json_array();
  for (int m = 0; m < LS_COUNT(models); m++)
    for (int b = 0; b < LS_COUNT(batches); b++)
      for (int r = 0; r < LS_COUNT(ranks); r++) {
        char series[96], name[192];
        double us = (m ? 900 : 90) * (1 + batches[b] / 200.0) / (1 + 0.5 * r) + 60 * r;
        json_t *v = side(batches[b], ranks[r], r > 0 ? "ddp" : "single", us, 4 + b);
        snprintf(series, sizeof series, "%d x %s fp32, peer access %s", ranks[r], r > 0 ? "ddp" : "single",
                 r % 2 ? "off" : "on");
        snprintf(name, sizeof name, "%s, batch %d, %s", models[m], batches[b], series);
        json_object_set_new(v, "model", json_string(models[m]));
        json_object_set_new(v, "series", json_string(series));
        json_object_set_new(v, "name", json_string(name));
        json_array_append_new(variants, v);
      }
  json_t *d = made_document(variants, json_array(), &method);
  add_run(d);
  return d;
}

/* All that can go wrong: variants that were not measured or gave up, a void run, outliers, another network.
 */
static json_t *failures(void) {
  static const double spiked[] = {200, 202, 198, 201, 900}, wide[] = {100, 300, 150, 210, 260};
  ls_bench_method_t method = plain_method;
  method.cpu_throttles_before = 7;
  method.cpu_throttles_after = 9;
  method.incomplete = "interrupted while measuring batch 64, 2 x ddp";
  json_t *variants = json_array(), *v;
  json_array_append_new(variants, made_variant(64, 64, 1, "single", spiked, 5));
  json_array_append_new(variants, made_variant(64, 64, 2, "ddp", wide, 5));
  v = json_array_get(variants, 1);
  json_object_set_new(v, "incomplete", json_string("a repetition took more than 600 s (--limit)"));
  json_object_set_new(
      v, "validation",
      json_pack("{s:f, s:b, s:b}", "final_loss_difference", 0.4, "same_network", 0, "identical", 0));
  json_array_append_new(variants,
                        json_pack("{s:s, s:s, s:i, s:i, s:s, s:s, s:[]}", "name", "batch 64, 4 x ddp",
                                  "series", "4 x ddp", "key", 64, "ranks", 4, "precision", "fp32", "failed",
                                  "/home/someone/with/a/very/long/path/that/has/no/place/to/break/and/goes/"
                                  "on/and/on/and/on/model.yaml:12: "
                                  "no such <device> | 4 are needed, this machine has 2",
                                  "repetitions"));
  json_t *d = made_document(variants, json_array(), &method);
  add_run(d);
  json_object_set_new(json_object_get(d, "run"), "load_before", json_real(93.5));
  return d;
}

static json_t *study(void) {
  static const char *const models[] = {"mlp-medium", "mlp-large"}, *const peers[] = {"on", "off"};
  static const int batches[2][5] = {{8, 16, 32, 64, 128}, {4, 8, 16, 32, 64}};
  ls_bench_method_t method = method_of();
  json_t *variants = json_array();
  for (int m = 0; m < 2; m++)
    for (int b = 0; b < 5; b++)
      for (int k = 0; k < 3; k++) {
        json_t *v =
            side(batches[m][b], k > 0 ? 2 : 1, k > 0 ? "ddp" : "single", (m ? 230 : 85) * (1 + 0.4 * k), 6);
        json_object_set_new(v, "model", json_string(models[m]));
        if (k > 0) json_object_set_new(v, "peer_access", json_string(peers[k - 1]));
        char series[64], name[96];
        snprintf(series, sizeof series, "%s%s", k > 0 ? "2 x ddp, peer access " : "1 x single",
                 k > 0 ? peers[k - 1] : "");
        snprintf(name, sizeof name, "%s, batch %d, %s", models[m], batches[m][b], series);
        json_object_set_new(v, "series", json_string(series));
        json_object_set_new(v, "name", json_string(name));
        json_array_append_new(variants, v);
      }
  json_t *d = made_document(variants, json_array(), &method);
  if (ls_bench_study(NULL, d) != LS_OK) exit(1);
  add_run(d);
  return d;
}

int main(int argc, char **argv) {
  const struct {
    const char *name;
    json_t *document;
  } reports[] = {{"one", one_variant()},
                 {"two", two_variants()},
                 {"sweep", sweep()},
                 {"failures", failures()},
                 {"study", study()}};
  json_t *measured = NULL;
  if (argc < 2) return 2;
  for (int i = 0; i < LS_COUNT(reports); i++) {
    write_report(argv[1], reports[i].name, reports[i].document);
    json_decref(reports[i].document);
  }
  if (argc > 2 && ls_bench_document_read(NULL, argv[2], &measured) == LS_OK)
    write_report(argv[1], "measured", measured);
  json_decref(measured);
  return 0;
}
