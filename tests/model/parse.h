/* A model from text, for the tests of this folder. */
#ifndef TESTS_MODEL_PARSE_H
#define TESTS_MODEL_PARSE_H

#include "base/capture.h"

#include "model/model.h"

typedef struct {
  ls_doc_t doc;
  ls_arena_t arena;
  ls_model_config_t model;
} parsed_t;

/* `text` is the document; its `model` key is read. Release in any case. */
static inline ls_status_t parse_model(capture_t *c, const char *text, parsed_t *out) {
  assert_int_equal(ls_doc_parse(c->ctx, "f.yaml", text, strlen(text), &out->doc), LS_OK);
  ls_arena_init(&out->arena, c->ctx);
  memset(&out->model, 0xA5, sizeof out->model);
  ls_status_t status = ls_model_parse(c->ctx, &out->arena, ls_doc_get(out->doc.root, "model"), &out->model);
  ls_doc_release(&out->doc); /* the model keeps nothing of it */
  return status;
}

static inline void release_model(parsed_t *parsed) {
  ls_arena_release(&parsed->arena);
}

#endif
