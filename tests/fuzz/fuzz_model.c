/* The model section from arbitrary bytes: what is accepted must build, in both ways and every precision, and be read
 * again as saved. */
#include "graph/pass/pass.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                                   \
  do {                                                                                                       \
    if (!(condition)) abort();                                                                               \
  } while (0)

static bool has_all(const void *backend, const char *op, ls_dtype_t low) {
  (void)backend;
  (void)op;
  (void)low;
  return true;
}

static void check_model(ls_ctx_t *ctx, const ls_model_config_t *model) {
  REQUIRE(ls_model_inputs(model) >= 1 && ls_model_outputs(model) >= 1);
  static const ls_dtype_t lows[] = {LS_F32, LS_BF16, LS_F16};
  for (int k = 0; k < 2 * LS_COUNT(lows); k++) {
    const ls_pass_context_t passes = {.has = has_all, .low = lows[k / 2], .fuse = true};
    ls_graph_t *graph;
    ls_status_t status = ls_model_build(ctx, model, 3, k % 2, &graph);
    REQUIRE(status == LS_OK);
    REQUIRE(ls_graph_param_count(graph) >= 1);
    REQUIRE(ls_graph_run_passes(graph, &passes) == LS_OK);
    const int loss = ls_graph_find(graph, "loss"), output = ls_graph_find(graph, "output");
    REQUIRE(loss >= 0 && graph->tensors[loss].shape.dtype == LS_F32);
    REQUIRE(output >= 0 && (k % 2 || graph->tensors[output].shape.dtype == LS_F32));
    ls_graph_destroy(graph);
  }
  json_t *object = ls_model_json(model);
  char *text = object ? json_dumps(object, 0) : NULL;
  ls_doc_t doc;
  ls_model_config_t again;
  REQUIRE(text);
  REQUIRE(ls_doc_parse(ctx, "again", text, strlen(text), &doc) == LS_OK);
  REQUIRE(ls_model_parse(ctx, &doc.arena, doc.root, &again) == LS_OK);
  json_t *second = ls_model_json(&again);
  REQUIRE(second && json_equal(object, second));
  ls_doc_release(&doc);
  free(text);
  json_decref(second);
  json_decref(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_doc_t doc;
  REQUIRE(ctx);
  if (ls_doc_parse(ctx, "input.yaml", (const char *)data, size, &doc) == LS_OK) {
    ls_model_config_t model;
    const ls_doc_node_t *below = ls_doc_get(doc.root, "model");
    ls_status_t status = ls_model_parse(ctx, &doc.arena, below ? below : doc.root, &model);
    /* A preset may be a file, which may be missing or unreadable. */
    const bool refused = status == LS_ERR_CONFIG || status == LS_ERR_NOT_FOUND || status == LS_ERR_IO;
    REQUIRE(status == LS_OK || (refused && ls_ctx_error_count(ctx) > 0));
    if (status == LS_OK) check_model(ctx, &model);
    ls_doc_release(&doc);
  }
  ls_ctx_destroy(ctx);
  return 0;
}
