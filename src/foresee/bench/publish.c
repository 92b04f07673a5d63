/* Adds plans and the study's conclusions to a document and writes its files. */
#include "bench/publish.h"

#include "base/shipped.h"
#include "base/tool.h"

#include <stdlib.h>
#include <string.h>

/* ---- plans ---- */

static ls_status_t read_plan(ls_ctx_t *ctx, const char *path, json_t *plans) {
  enum { PLAN_BYTES_MAX = 64 << 20 };
  json_t *plan = NULL;
  ls_status_t status =
      ls_json_read(ctx, path, PLAN_BYTES_MAX, LS_ERR_DATA, "; not a plan of lockstep plan --json", &plan);
  if (status == LS_OK && !json_is_array(json_object_get(plan, "candidates")))
    status = ls_fail(ctx, LS_ERR_DATA, "%s: not a plan of lockstep plan --json", path);
  if (status == LS_OK)
    json_array_append_new(plans, json_pack("{s:o, s:O}", "path", ls_json_text(path), "plan", plan));
  json_decref(plan);
  return status;
}

ls_status_t ls_bench_plans_read(ls_ctx_t *ctx, const char *list, json_t **plans) {
  char *copy = ls_strdup(ctx, list), *state = NULL;
  if (!copy) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  *plans = json_array();
  for (char *path = strtok_r(copy, ",", &state); path && status == LS_OK; path = strtok_r(NULL, ",", &state))
    status = read_plan(ctx, path, *plans);
  ls_free(copy);
  return status;
}

static void merge_plans(ls_ctx_t *ctx, const json_t *plans, json_t *document) {
  const json_t *own;
  size_t i;
  json_array_foreach(plans, i, own) {
    if (ls_bench_plan_merge(document, json_object_get(own, "plan")) == 0)
      ls_log(
          ctx, LS_LOG_WARN,
          "%s: none of its candidates is a measured variant (parameters, backend, precision, batch, ranks, "
          "strategy and schedule have to be the same)",
          json_string_value(json_object_get(own, "path")));
  }
}

/* ---- the study ---- */

ls_status_t ls_bench_study_read(ls_ctx_t *ctx, const char *name, json_t **definition) {
  static const char *const words[] = {"config", "models", "networks", "peer"};
  enum { DEFINITION_BYTES_MAX = 1 << 20 };
  char *path, file[48];
  snprintf(file, sizeof file, "report/%s.json", name);
  ls_status_t status = ls_shipped_tool(ctx, file, &path);
  if (status != LS_OK) return status;
  status = ls_json_read(ctx, path, DEFINITION_BYTES_MAX, LS_ERR_DATA, "", definition);
  const json_t *sweep = json_object_get(*definition, "sweep");
  for (int i = 0; i < LS_COUNT(words) && status == LS_OK; i++)
    if (!json_is_string(json_object_get(sweep, words[i])))
      status = ls_fail(ctx, LS_ERR_DATA, "%s: sweep.%s is no text", path, words[i]);
  ls_free(path);
  return status;
}

/* ---- files ---- */

/* Reads a document's text, adds what follows from it, and returns its text as the JSON file has it; NULL: memory. */
static char *concluded(const char *from, json_t **document) {
  json_t *own = from ? json_loads(from, 0, NULL) : NULL;
  if (own) ls_bench_conclude(own);
  json_decref(*document);
  *document = own;
  return own ? ls_bench_text(own) : NULL;
}

static ls_status_t write_report(ls_ctx_t *ctx, const char *path, const char *form, const char *document) {
  char *made;
  if (!path) return LS_OK;
  ls_status_t status = ls_tool_make(ctx, form, document, &made);
  if (status != LS_OK) return status;
  status = ls_file_replace(ctx, path, made, strlen(made));
  ls_free(made);
  return status;
}

ls_status_t ls_bench_publish(ls_ctx_t *ctx, const ls_bench_outputs_t *o, json_t *measured, json_t **out) {
  ls_status_t status[4] = {LS_OK, LS_OK, LS_OK, LS_OK};
  json_t *document = NULL;
  char *made;
  *out = NULL;
  merge_plans(ctx, o->plans, measured);
  char *first = ls_bench_text(measured), *text = concluded(first, &document);
  free(first);
  if (text && o->study) status[0] = ls_tool_make(ctx, o->study, text, &made);
  if (text && o->study && status[0] == LS_OK) {
    free(text);
    text = concluded(made, &document);
    ls_free(made);
  }
  if (!text) {
    json_decref(document);
    return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the document");
  }
  if (o->output) status[1] = ls_file_replace(ctx, o->output, text, strlen(text));
  status[2] = write_report(ctx, o->markdown, "markdown", text);
  status[3] = write_report(ctx, o->html, "html", text);
  free(text);
  *out = document;
  for (int i = 0; i < LS_COUNT(status); i++)
    if (status[i] != LS_OK) return status[i];
  return LS_OK;
}
