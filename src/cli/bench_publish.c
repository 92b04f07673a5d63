/* The inputs and outputs of a benchmark. Outputs are tried and plans are read before anything is measured,
 * because a wrong name must not cost hours; afterwards the document is published. */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *text_of(const json_t *document) {
  return json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
}

ls_status_t bench_write_json(ls_ctx_t *ctx, const char *path, const json_t *document) {
  char *text = text_of(document);
  if (!text) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for %s", path);
  ls_status_t status = ls_file_replace(ctx, path, text, strlen(text));
  free(text);
  return status;
}

/* Nothing is written yet: what is there stays as it is if nothing is measured. */
static ls_status_t try_output(ls_ctx_t *ctx, bench_flag_t flag, const char *path) {
  struct stat info;
  if (!*path || (stat(path, &info) == 0 && S_ISDIR(info.st_mode)))
    return ls_fail(ctx, LS_ERR_IO, "%s takes the name of a file; \"%s\" is %s", bench_flags[flag].name, path,
                   *path ? "a folder" : "empty");
  return cli_file_possible(ctx, bench_flags[flag].name, path);
}

static const bench_flag_t outputs[] = {BENCH_OUTPUT, BENCH_MARKDOWN, BENCH_HTML};

static ls_status_t spare(const bench_t *b, const char *name, const char *path, const ls_config_t *config) {
  const cli_input_t inputs[] = {{name, path}, {0}};
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_COUNT(outputs) && status == LS_OK; i++)
    status = cli_file_spares(b->ctx, b->args->extra[outputs[i]], inputs, config);
  return status;
}

static ls_status_t spare_config(const bench_t *b) {
  ls_config_t *config;
  if (!b->args->config) return LS_OK;
  ls_status_t status = cli_config_load(b->ctx, b->args, b->args->sets, b->args->set_count, &config);
  if (status != LS_OK) return status;
  status = spare(b, "CONFIG", NULL, config);
  ls_config_destroy(config);
  return status;
}

enum { PLAN_BYTES_MAX = 64 << 20 };
/* --plan FILE,FILE: a plan covers one configuration and batch, so a sweep may need several. */
static ls_status_t read_plans(bench_t *b, const char *list) {
  char *copy = ls_strdup(b->ctx, list), *state = NULL;
  if (!copy) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  b->plans = json_array();
  for (char *path = strtok_r(copy, ",", &state); path && status == LS_OK;
       path = strtok_r(NULL, ",", &state)) {
    json_t *plan = NULL;
    status = spare(b, bench_flags[BENCH_PLAN].name, path, NULL);
    if (status != LS_OK) break;
    status = ls_json_read(b->ctx, path, PLAN_BYTES_MAX, LS_ERR_DATA, "; not a plan of lockstep plan --json",
                          &plan);
    if (status == LS_OK && !json_is_array(json_object_get(plan, "candidates")))
      status = ls_fail(b->ctx, LS_ERR_DATA, "%s: not a plan of lockstep plan --json", path);
    if (status == LS_OK)
      json_array_append_new(b->plans, json_pack("{s:o, s:O}", "path", ls_json_text(path), "plan", plan));
    json_decref(plan);
  }
  ls_free(copy);
  return status;
}

ls_status_t bench_prepare(bench_t *b) {
  ls_status_t status = spare(b, bench_flags[BENCH_FROM].name, b->args->extra[BENCH_FROM], NULL);
  if (status == LS_OK) status = spare_config(b);
  for (int i = 0; i < LS_COUNT(outputs) && status == LS_OK; i++)
    if (b->args->extra[outputs[i]]) status = try_output(b->ctx, outputs[i], b->args->extra[outputs[i]]);
  static const bench_flag_t reports[] = {BENCH_STUDY, BENCH_MARKDOWN, BENCH_HTML};
  static const char later[] =
      "; a document (--output FILE) can be made into a report later, also on another machine "
      "(lockstep bench --from FILE)";
  for (int i = 0; i < LS_COUNT(reports) && status == LS_OK; i++)
    if (b->args->extra[reports[i]]) status = cli_report_ready(b->ctx, bench_flags[reports[i]].name, later);
  if (status == LS_OK && b->args->extra[BENCH_PLAN]) status = read_plans(b, b->args->extra[BENCH_PLAN]);
  return status;
}

static void merge_plans(const bench_t *b, json_t *document) {
  const json_t *own;
  size_t i;
  json_array_foreach(b->plans, i, own) {
    if (ls_bench_plan_merge(document, json_object_get(own, "plan")) == 0)
      ls_log(
          b->ctx, LS_LOG_WARN,
          "%s: none of its candidates is a measured variant (parameters, backend, precision, batch, ranks, "
          "strategy and schedule have to be the same)",
          json_string_value(json_object_get(own, "path")));
  }
}

enum { SAVE_EVERY_S = 10 };

static ls_status_t save_so_far(bench_t *b, ls_ctx_t *ctx, int64_t rounds) {
  char why[64];
  json_t *document;
  ls_bench_method_t method = b->method;
  snprintf(why, sizeof why, "%lld of %lld rounds so far", (long long)b->rounds_done, (long long)rounds);
  method.incomplete = why;
  method.repetitions = b->rounds_done * method.per_process;
  ls_status_t status = ls_bench_document(ctx, &method, b->measured, b->control, &document);
  if (status != LS_OK) return status;
  bench_add_run(b, document);
  ls_bench_conclude(document);
  status = bench_write_json(ctx, b->args->extra[BENCH_OUTPUT], document);
  json_decref(document);
  return status;
}

void bench_save_so_far(bench_t *b, int64_t rounds) {
  int64_t now_ns = ls_clock_ns();
  bool last = b->rounds_done == rounds;
  if (!b->args->extra[BENCH_OUTPUT] || b->unsaved || (last && !b->validate)) return;
  if (!last && b->saved_ns > 0 && now_ns - b->saved_ns < SAVE_EVERY_S * INT64_C(1000000000)) return;
  ls_ctx_t *own = ls_ctx_create(NULL, NULL); /* keeps the reason, prints nothing */
  if (!own) return;
  if (save_so_far(b, own, rounds) != LS_OK) {
    b->unsaved = true;
    ls_log(b->ctx, LS_LOG_WARN,
           "the rounds so far could not be saved (%s); measuring goes on, and the result is "
           "written at its end",
           ls_ctx_error(own));
  }
  b->saved_ns = now_ns;
  ls_ctx_destroy(own);
}

/* Reads a document's text, adds what follows from it, and returns its text as the JSON file has it; NULL: memory. */
static char *concluded(const char *from, json_t **document) {
  json_t *own = from ? json_loads(from, 0, NULL) : NULL;
  char *text = NULL;
  if (own) {
    ls_bench_conclude(own);
    text = text_of(own);
  }
  json_decref(*document);
  *document = own;
  return text;
}

static ls_status_t write_report(bench_t *b, bench_flag_t flag, const char *form, const char *document) {
  char *made;
  const char *path = b->args->extra[flag];
  if (!path) return LS_OK;
  ls_status_t status = cli_report_make(b->ctx, form, document, &made);
  if (status != LS_OK) return status;
  status = ls_file_replace(b->ctx, path, made, strlen(made));
  ls_free(made);
  return status;
}

/* If one file cannot be written, the others still are; the first failure is the result. All of them have the
 * JSON file's numbers, digit by digit, so that --from reproduces them. */
ls_status_t bench_publish(bench_t *b, json_t *measured) {
  const cli_args_t *args = b->args;
  const char *output = args->extra[BENCH_OUTPUT];
  ls_status_t status[4] = {LS_OK, LS_OK, LS_OK, LS_OK};
  merge_plans(b, measured);
  json_t *document = NULL;
  char *first = text_of(measured), *text = concluded(first, &document), *made;
  free(first);
  if (text && b->study) status[0] = cli_report_make(b->ctx, b->study, text, &made);
  if (text && b->study && status[0] == LS_OK) {
    free(text);
    text = concluded(made, &document);
    ls_free(made);
  }
  if (!text) {
    json_decref(document);
    return ls_fail(b->ctx, LS_ERR_MEMORY, "out of memory for the document");
  }
  if (output) status[1] = ls_file_replace(b->ctx, output, text, strlen(text));
  status[2] = write_report(b, BENCH_MARKDOWN, "markdown", text);
  status[3] = write_report(b, BENCH_HTML, "html", text);
  free(text);
  if (args->json) {
    cli_print_json(document);
  } else {
    bench_print_table(document);
    bench_print_study(document);
    json_decref(document);
  }
  for (int i = 0; i < LS_COUNT(status); i++)
    if (status[i] != LS_OK) return status[i];
  return LS_OK;
}
