/* The manifest of a checkpoint: writing it, reading it back strictly. */
#include "ckpt/manifest.h"
#include "ckpt/store.h"

#include "base/field.h"
#include "base/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two parts of the seal; between them stands the hash. */
#define LS_SEAL_KEY "manifest_xxh3_128"
#define SEAL_BEGIN  ",\n  \"" LS_SEAL_KEY "\": \""
#define SEAL_END    "\"\n}\n"
static_assert(sizeof SEAL_BEGIN - 1 + LS_HASH_TEXT_BYTES - 1 + sizeof SEAL_END - 1 == LS_MANIFEST_SEAL_BYTES,
              "the seal has the length that the header says");

void ls_hash_text(XXH128_hash_t hash, char text[LS_HASH_TEXT_BYTES]) {
  snprintf(text, LS_HASH_TEXT_BYTES, "%016llx%016llx", (unsigned long long)hash.high64,
           (unsigned long long)hash.low64);
}

void ls_manifest_seal(const char *text, size_t size_bytes, char seal[LS_MANIFEST_SEAL_BYTES + 1]) {
  char hash[LS_HASH_TEXT_BYTES];
  ls_hash_text(XXH3_128bits(text, size_bytes), hash);
  snprintf(seal, LS_MANIFEST_SEAL_BYTES + 1, "%s%s%s", SEAL_BEGIN, hash, SEAL_END);
}

const struct ls_ckpt_part_row ls_ckpt_parts[LS_PART_COUNT] = {{"model", LS_MODEL_NAME},
                                                              {"optim", LS_OPTIM_NAME}};

void ls_manifest_release(ls_manifest_t *manifest) {
  json_decref(manifest->meta);
  manifest->meta = NULL;
  ls_arena_release(&manifest->arena);
}

/* ---- rows ---- */

static bool is_hash(const char *text) {
  return strlen(text) == LS_HASH_TEXT_BYTES - 1 && strspn(text, "0123456789abcdef") == LS_HASH_TEXT_BYTES - 1;
}
#define HASH .good = is_hash, .expected = "32 hexadecimal digits", .required = true

/* A name that stays in its directory: letters, digits, dot, dash and underscore, not beginning with a dot. */
static bool is_plain_name(const char *name) {
  size_t len = strlen(name);
  return len > 0 && name[0] != '.' &&
         strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len &&
         strcmp(name, LS_MANIFEST_NAME) != 0;
}

static const char *const none[] = {NULL};
static const ls_field_t file_rows[] = {
    LS_FIELD_AS(ls_manifest_file_t, name, "name", .good = is_plain_name, .expected = "a plain file name",
                .required = true),
    LS_FIELD_AS(ls_manifest_file_t, size_bytes, "size_bytes", .required = true),
    LS_FIELD_AS(ls_manifest_file_t, xxh3_128, "xxh3_128", HASH),
};
static const ls_record_t file_record = LS_RECORD(file_rows, none);
static const ls_field_t file_each = LS_FIELD_EACH(ls_manifest_file_t, file_record);

static const ls_field_t rows[] = {
    LS_FIELD_AS(ls_manifest_t, step, "step", .required = true),
    LS_FIELD_AS(ls_manifest_t, metric, "metric", .min = -INFINITY, .required = true),
    LS_FIELD_OF(ls_manifest_t, file, LS_FIELD_LIST_AT, "files", .each = &file_each,
                .count_offset = offsetof(ls_manifest_t, file_count), .max = LS_MANIFEST_FILES_MAX,
                .required = true),
    LS_FIELD_AS(ls_manifest_t, meta, "meta", .required = true),
    LS_FIELD_AS(ls_manifest_t, seal, LS_SEAL_KEY, HASH), /* written by itself, after everything else */
};
static const char *const others[] = {"format", "version", "tensors", NULL};
static const ls_record_t written = {rows, LS_COUNT(rows) - 1, NULL}, record = LS_RECORD(rows, others);
static const char format_name[] = "lockstep-checkpoint";

/* ---- writing ---- */

static ls_status_t no_memory(ls_ctx_t *ctx) {
  return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: manifest of a checkpoint");
}

static json_t *manifest_json(const ls_manifest_t *manifest, const json_t *meta) {
  ls_manifest_t m = *manifest;
  bool pieces = m.tensor_count > 0;
  json_t *made = json_pack("{s:s, s:i}", "format", format_name, "version",
                           pieces ? LS_MANIFEST_VERSION_PIECES : LS_MANIFEST_VERSION);
  m.meta = meta ? json_incref((json_t *)(uintptr_t)meta) : json_object(); /* only counted, not changed */
  bool whole = m.meta && ls_record_put(made, &written, &m);
  if (whole && pieces) whole = json_object_set_new(made, "tensors", ls_manifest_tensors_json(manifest)) == 0;
  json_decref(m.meta);
  if (whole) return made;
  json_decref(made);
  return NULL;
}

ls_status_t ls_manifest_write(ls_ctx_t *ctx, const ls_manifest_t *manifest, const json_t *meta, char **text,
                              size_t *size_bytes) {
  if (meta && !json_is_object(meta))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "the meta data of a checkpoint must be a JSON object");
  json_t *json = manifest_json(manifest, meta);
  if (!json) return no_memory(ctx);
  ls_status_t status = LS_OK;
  char *dumped = ls_json_dump(json, JSON_INDENT(2));
  size_t size = dumped ? strlen(dumped) : 0;
  if (size < 2 || size > LS_MANIFEST_LIMIT_BYTES - LS_MANIFEST_SEAL_BYTES) {
    status = size < 2 ? no_memory(ctx)
                      : ls_fail(ctx, LS_ERR_ARGUMENT,
                                "the meta data of a checkpoint, or the list of its pieces, are too large");
    goto free_json;
  }
  char *made = ls_alloc(ctx, size + LS_MANIFEST_SEAL_BYTES + 1);
  if (!made) {
    status = LS_ERR_MEMORY;
    goto free_json;
  }
  memcpy(made, dumped, size);
  size -= 2; /* the "\n}" that the seal replaces */
  ls_manifest_seal(made, size, made + size);
  *text = made;
  *size_bytes = size + LS_MANIFEST_SEAL_BYTES;
free_json:
  free(dumped);
  json_decref(json);
  return status;
}

/* ---- reading ---- */

typedef struct {
  ls_ctx_t *ctx;
  const char *name;
} where_t;

static ls_status_t bad(const where_t *w, const char *fault) {
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: %s", w->name, fault);
}

/* files: each file's index by its name. */
static ls_status_t index_files(const where_t *w, const ls_manifest_t *manifest, json_t *files) {
  for (int i = 0; i < manifest->file_count; i++) {
    const char *name = manifest->file[i].name;
    if (json_object_get(files, name)) return bad(w, "a file is listed twice");
    if (json_object_set_new(files, name, json_integer(i)) != 0) return no_memory(w->ctx);
  }
  return LS_OK;
}

/* Format and version come first: a later version may have other keys. */
static ls_status_t check_version(const where_t *w, json_t *root) {
  const json_t *format = json_object_get(root, "format"), *version = json_object_get(root, "version");
  if (!json_is_string(format) || strcmp(json_string_value(format), format_name) != 0)
    return bad(w, "not the manifest of a checkpoint (\"format\" is not \"lockstep-checkpoint\")");
  if (!json_is_integer(version)) return bad(w, "\"version\" is not an integer");
  json_int_t v = json_integer_value(version);
  if (v == LS_MANIFEST_VERSION || v == LS_MANIFEST_VERSION_PIECES) return LS_OK;
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: version %lld is not known here (%d and %d are)", w->name,
                 (long long)v, LS_MANIFEST_VERSION, LS_MANIFEST_VERSION_PIECES);
}

static ls_status_t parse_root(const where_t *w, json_t *root, ls_manifest_t *manifest) {
  const ls_field_source_t source = {w->ctx, w->name, LS_ERR_CORRUPT, &manifest->arena};
  if (!json_is_object(root)) return bad(w, "not a JSON object");
  ls_status_t status = check_version(w, root);
  if (status) return status;
  bool pieces = json_integer_value(json_object_get(root, "version")) == LS_MANIFEST_VERSION_PIECES;
  const json_t *tensors = json_object_get(root, "tensors");
  if (!pieces != !tensors) return bad(w, "\"tensors\" and \"version\" do not go together");
  ls_record_clear(&record, manifest);
  status = ls_record_read(&source, &record, root, manifest);
  if (status) return status;
  json_t *files = json_object();
  status = files ? index_files(w, manifest, files) : no_memory(w->ctx);
  if (!status && pieces) status = ls_manifest_tensors_parse(w->ctx, w->name, tensors, files, manifest);
  json_decref(files);
  return status;
}

/* The seal is compared byte by byte at the very end of the text, not as JSON. */
static ls_status_t check_seal(const where_t *w, const char *text, size_t size_bytes) {
  if (size_bytes < LS_MANIFEST_SEAL_BYTES) return bad(w, "the hash at its end is missing");
  char seal[LS_MANIFEST_SEAL_BYTES + 1];
  ls_manifest_seal(text, size_bytes - LS_MANIFEST_SEAL_BYTES, seal);
  if (memcmp(text + size_bytes - LS_MANIFEST_SEAL_BYTES, seal, LS_MANIFEST_SEAL_BYTES) == 0) return LS_OK;
  return bad(w, "its text does not match the hash at its end: it was altered");
}

ls_status_t ls_manifest_read(ls_ctx_t *ctx, const char *name, const char *text, size_t size_bytes,
                             ls_manifest_t *manifest) {
  where_t w = {ctx, name};
  json_error_t error;
  json_t *root = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
  if (!root && ls_ckpt_json_short_of_memory(&error)) return no_memory(ctx);
  if (!root)
    return ls_fail(ctx, LS_ERR_CORRUPT, "%s:%d:%d: not valid JSON: torn or altered", name, error.line,
                   error.column);
  ls_manifest_t made = {0};
  ls_arena_init(&made.arena, ctx);
  ls_status_t status = parse_root(&w, root, &made);
  if (!status) status = check_seal(&w, text, size_bytes);
  made.arena.ctx = NULL; /* nothing is added from here on; the manifest may outlive the context */
  if (status) {
    made.meta = NULL; /* it was borrowed */
    ls_manifest_release(&made);
  } else {
    json_incref(made.meta);
    *manifest = made;
  }
  json_decref(root);
  return status;
}
