/* Documents, options and assignments from arbitrary bytes. Beside the sanitizers it checks that every node's
 * place lies in the text, and that resolved options read again give the same options. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                                   \
  do {                                                                                                       \
    if (!(condition)) abort();                                                                               \
  } while (0)

typedef struct {
  int64_t batch, steps;
  double lr;
  bool normalize;
  const char *path;
  int activation;
  ls_ints_t input;
  ls_strings_t target;
} options_t;

static const char *const activations[] = {"none", "relu", "gelu", "null", NULL};
static const ls_option_t rows[] = {
    {"batch", LS_FIELD_INT64, offsetof(options_t, batch), "samples", 1, 1 << 20, "128", false, NULL,
     "Batch."},
    {"steps", LS_FIELD_INT64, offsetof(options_t, steps), NULL, 1, 1e18, NULL, true, NULL, "Steps."},
    {"lr", LS_FIELD_REAL, offsetof(options_t, lr), NULL, 0, 0, "1e-3", false, NULL, "Rate."},
    {"normalize", LS_FIELD_BOOL, offsetof(options_t, normalize), NULL, 0, 0, "true", false, NULL, "Scale."},
    {"path", LS_FIELD_STRING, offsetof(options_t, path), NULL, 0, 0, NULL, true, NULL, "File."},
    {"activation", LS_FIELD_CHOICE, offsetof(options_t, activation), NULL, 0, 0, "relu", false, activations,
     "What."},
    {"input", LS_FIELD_INTS, offsetof(options_t, input), NULL, -5, 1e6, "28, 28", false, NULL, "Shape."},
    {"target", LS_FIELD_STRINGS, offsetof(options_t, target), NULL, 0, 0, NULL, true, NULL, "Columns."},
};
static const ls_section_t section = {"train", rows, LS_COUNT(rows), "Everything."};
static const char *const nested[] = {"optimizer", NULL};

static void check_place(const ls_place_t *place) {
  REQUIRE(place->line >= 1 && place->column >= 1 && place->source_len >= 0);
  REQUIRE(place->column <= place->source_len + 1);
  for (int i = 0; i < place->source_len; i++)
    REQUIRE(place->source[i] != '\n');
}

static void check_node(const ls_doc_node_t *node, int depth) {
  int count = 0;
  REQUIRE(depth <= 32);
  check_place(&node->place);
  REQUIRE(node->kind != LS_DOC_SCALAR || node->text);
  for (const ls_doc_node_t *child = node->child; child; child = child->next, count++) {
    check_node(child, depth + 1);
    REQUIRE((child->key != NULL) == (node->kind == LS_DOC_MAP));
    if (!child->key) continue;
    check_place(&child->key_place);
    REQUIRE(ls_doc_get(node, child->key) == child);
  }
  REQUIRE(count == node->count);
}

/* JSON strings may hold characters that YAML wants escaped; only plain texts make the round trip. */
static bool is_plain(const char *text) {
  for (; *text; text++)
    if (*text < 0x20 || *text > 0x7e) return false;
  return true;
}

static void check_round_trip(ls_ctx_t *ctx, const options_t *options) {
  json_t *object = ls_option_json(&section, options);
  char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
  REQUIRE(text);
  ls_doc_t doc;
  if (is_plain(text)) {
    options_t again;
    REQUIRE(ls_doc_parse(ctx, "again", text, strlen(text), &doc) == LS_OK);
    REQUIRE(ls_option_parse(ctx, &doc.arena, &section, doc.root, NULL, &again) == LS_OK);
    json_t *second = ls_option_json(&section, &again);
    REQUIRE(json_equal(object, second));
    json_decref(second);
    ls_doc_release(&doc);
  }
  free(text);
  json_decref(object);
}

static void use(ls_ctx_t *ctx, ls_doc_t *doc) {
  options_t options;
  check_node(doc->root, 1);
  const ls_doc_node_t *below = ls_doc_get(doc->root, "train");
  if (ls_option_parse(ctx, &doc->arena, &section, below ? below : doc->root, nested, &options) == LS_OK)
    check_round_trip(ctx, &options);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char base[] = "train: {batch: 3, input: [1, 2], optimizer: {name: adam}}\nnone:\n";
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_doc_t doc;
  REQUIRE(ctx);
  ls_status_t status = ls_doc_parse(ctx, "input.yaml", (const char *)data, size, &doc);
  REQUIRE(status == LS_OK || (status == LS_ERR_CONFIG && ls_ctx_error_count(ctx) > 0));
  if (status == LS_OK) {
    use(ctx, &doc);
    ls_doc_release(&doc);
  }
  char *assignment = malloc(size + 1);
  REQUIRE(assignment);
  if (size) memcpy(assignment, data, size);
  assignment[size] = '\0';
  REQUIRE(ls_doc_parse(ctx, "base.yaml", base, sizeof base - 1, &doc) == LS_OK);
  status = ls_doc_set(ctx, &doc, assignment, false);
  REQUIRE(status == LS_OK || (status == LS_ERR_CONFIG && ls_ctx_error_count(ctx) > 0));
  use(ctx, &doc);
  ls_doc_release(&doc);
  free(assignment);
  ls_ctx_destroy(ctx);
  return 0;
}
