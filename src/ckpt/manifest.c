/* The manifest of a checkpoint: writing it, reading it back strictly. */
#include "ckpt/manifest.h"
#include "ckpt/store.h"

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

static const char *const top_keys[] = {"format", "version", "step",      "metric",
                                       "files",  "meta",    LS_SEAL_KEY, "tensors" /* with pieces */};
static const char *const file_keys[] = {"name", "size_bytes", "xxh3_128"};

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

/* ---- writing ---- */

static ls_status_t no_memory(ls_ctx_t *ctx) {
  return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: manifest of a checkpoint");
}

static json_t *files_json(const ls_manifest_t *manifest) {
  json_t *files = json_array();
  for (int i = 0; files && i < manifest->file_count; i++) {
    const ls_manifest_file_t *f = &manifest->file[i];
    json_t *one = json_pack("{s:s, s:I, s:s}", "name", f->name, "size_bytes", (json_int_t)f->size_bytes,
                            "xxh3_128", f->xxh3_128);
    if (one && json_array_append_new(files, one) == 0) continue;
    json_decref(files);
    return NULL;
  }
  return files;
}

static json_t *manifest_json(const ls_manifest_t *manifest, const json_t *meta) {
  json_t *empty = meta ? NULL : json_object();
  json_t *metric = isfinite(manifest->metric) ? json_real(manifest->metric) : json_null();
  /* "o" takes the reference over even when packing fails; a NULL makes it fail. */
  bool pieces = manifest->tensor_count > 0;
  json_t *made =
      json_pack("{s:s, s:i, s:I, s:o, s:o, s:O}", "format", "lockstep-checkpoint", "version",
                pieces ? LS_MANIFEST_VERSION_PIECES : LS_MANIFEST_VERSION, "step", (json_int_t)manifest->step,
                "metric", metric, "files", files_json(manifest), "meta", meta ? meta : empty);
  json_decref(empty);
  if (made && pieces && json_object_set_new(made, "tensors", ls_manifest_tensors_json(manifest)) != 0) {
    json_decref(made);
    return NULL;
  }
  return made;
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

/* Every key of `object` is one of the `count` keys, and each of them is there. */
static ls_status_t check_keys(const where_t *w, const char *what, json_t *object, const char *const *keys,
                              int count) {
  const char *key;
  json_t *ignored;
  json_object_foreach(object, key, ignored) {
    int i = 0;
    while (i < count && strcmp(keys[i], key) != 0)
      i++;
    if (i == count)
      return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: %s has the unknown key '%s'", w->name, what, LS_SHOWN(key));
  }
  for (int i = 0; i < count; i++)
    if (!json_object_get(object, keys[i]))
      return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: %s has no \"%s\"", w->name, what, keys[i]);
  return LS_OK;
}

static bool is_hash(const json_t *value) {
  return json_is_string(value) && json_string_length(value) == LS_HASH_TEXT_BYTES - 1 &&
         strspn(json_string_value(value), "0123456789abcdef") == LS_HASH_TEXT_BYTES - 1;
}

/* A name that stays in its directory: letters, digits, dot, dash and underscore, not beginning with a dot. */
static bool is_plain_name(const json_t *value) {
  if (!json_is_string(value)) return false;
  const char *name = json_string_value(value);
  size_t len = json_string_length(value);
  return len > 0 && len < LS_MANIFEST_NAME_BYTES && name[0] != '.' &&
         strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len &&
         strcmp(name, LS_MANIFEST_NAME) != 0;
}

/* names: of the files before, so that a long list takes no square of time. */
static ls_status_t parse_file(const where_t *w, json_t *value, json_t *names, ls_manifest_t *manifest) {
  if (!json_is_object(value)) return bad(w, "an entry of \"files\" is not an object");
  ls_status_t status = check_keys(w, "an entry of \"files\"", value, file_keys, LS_COUNT(file_keys));
  if (status) return status;
  const json_t *name = json_object_get(value, "name"), *size = json_object_get(value, "size_bytes");
  const json_t *hash = json_object_get(value, "xxh3_128");
  if (!is_plain_name(name)) return bad(w, "a file's \"name\" is not a plain file name");
  if (json_object_get(names, json_string_value(name))) return bad(w, "a file is listed twice");
  if (json_object_set_new(names, json_string_value(name), json_true()) != 0) return no_memory(w->ctx);
  if (!json_is_integer(size) || json_integer_value(size) < 0)
    return bad(w, "a file's \"size_bytes\" is not a whole number");
  if (!is_hash(hash)) return bad(w, "a file's \"xxh3_128\" is not 32 hexadecimal digits");
  ls_manifest_file_t *file = &manifest->file[manifest->file_count++];
  snprintf(file->name, sizeof file->name, "%s", json_string_value(name));
  file->size_bytes = json_integer_value(size);
  snprintf(file->xxh3_128, sizeof file->xxh3_128, "%s", json_string_value(hash));
  return LS_OK;
}

static ls_status_t parse_files(const where_t *w, json_t *value, ls_manifest_t *manifest) {
  if (!json_is_array(value)) return bad(w, "\"files\" is not a list");
  if (json_array_size(value) > LS_MANIFEST_FILES_MAX)
    return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: \"files\" has more than %d entries", w->name,
                   LS_MANIFEST_FILES_MAX);
  manifest->file = ls_arena_array(&manifest->arena, json_array_size(value) + 1, sizeof *manifest->file);
  if (!manifest->file) return LS_ERR_MEMORY;
  json_t *names = json_object();
  ls_status_t status = names ? LS_OK : no_memory(w->ctx);
  for (size_t i = 0; i < json_array_size(value) && !status; i++)
    status = parse_file(w, json_array_get(value, i), names, manifest);
  json_decref(names);
  return status;
}

/* Format and version come first: a later version may have other keys. */
static ls_status_t check_version(const where_t *w, json_t *root) {
  const json_t *format = json_object_get(root, "format"), *version = json_object_get(root, "version");
  if (!json_is_string(format) || strcmp(json_string_value(format), "lockstep-checkpoint") != 0)
    return bad(w, "not the manifest of a checkpoint (\"format\" is not \"lockstep-checkpoint\")");
  if (!json_is_integer(version)) return bad(w, "\"version\" is not an integer");
  json_int_t v = json_integer_value(version);
  if (v == LS_MANIFEST_VERSION || v == LS_MANIFEST_VERSION_PIECES) return LS_OK;
  return ls_fail(w->ctx, LS_ERR_CORRUPT, "%s: version %lld is not known here (%d and %d are)", w->name,
                 (long long)v, LS_MANIFEST_VERSION, LS_MANIFEST_VERSION_PIECES);
}

static ls_status_t parse_root(const where_t *w, json_t *root, ls_manifest_t *manifest) {
  if (!json_is_object(root)) return bad(w, "not a JSON object");
  ls_status_t status = check_version(w, root);
  if (status) return status;
  bool pieces = json_integer_value(json_object_get(root, "version")) == LS_MANIFEST_VERSION_PIECES;
  status = check_keys(w, "the manifest", root, top_keys, LS_COUNT(top_keys) - !pieces);
  if (status) return status;
  const json_t *step = json_object_get(root, "step"), *metric = json_object_get(root, "metric");
  if (!json_is_integer(step) || json_integer_value(step) < 0) return bad(w, "\"step\" is not a whole number");
  if (!json_is_number(metric) && !json_is_null(metric))
    return bad(w, "\"metric\" is neither a number nor null");
  if (!json_is_object(json_object_get(root, "meta"))) return bad(w, "\"meta\" is not an object");
  manifest->step = json_integer_value(step);
  manifest->metric = json_is_null(metric) ? NAN : json_number_value(metric);
  status = parse_files(w, json_object_get(root, "files"), manifest);
  if (status || !pieces) return status;
  return ls_manifest_tensors_parse(w->ctx, w->name, json_object_get(root, "tensors"), manifest);
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
    ls_manifest_release(&made);
  } else {
    made.meta = json_incref(json_object_get(root, "meta"));
    snprintf(made.seal, sizeof made.seal, "%s", json_string_value(json_object_get(root, LS_SEAL_KEY)));
    *manifest = made;
  }
  json_decref(root);
  return status;
}
