/* A profile as a file: JSON with a format version, the machine on which it was measured, its fingerprint, and
 * a checksum. A torn, altered or borrowed file is refused. */
#include "machine/profile_parts.h"

#include "base/process.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Version 4: "libraries cpu" contain a library's code for products. */
enum { FORMAT_VERSION = 4, FILE_BYTES_MAX = 256 << 20, DIGITS = 17 };
static const char format_name[] = "lockstep profile";

static json_t *curve_json(const ls_profile_entry_t *curve) {
  json_t *j = json_array();
  for (int i = 0; i < curve->count && j; i++) {
    const ls_curve_point_t *p = &curve->points[i];
    if (json_array_append_new(
            j, json_pack("[f, f, f, f]", p->bytes, p->time.ns, p->time.low_ns, p->time.high_ns)) != 0) {
      json_decref(j);
      return NULL;
    }
  }
  return j;
}

static json_t *table_json(const ls_profile_t *profile, ls_profile_which_t which) {
  json_t *j = json_object();
  for (int i = 0; i < profile->table[which].count && j; i++) {
    const ls_profile_entry_t *e = &profile->table[which].entry[i];
    const ls_time_t *t = &e->points->time;
    json_t *value =
        which == LS_PROFILE_TIMES ? json_pack("[f, f, f]", t->ns, t->low_ns, t->high_ns) : curve_json(e);
    if (json_object_set_new(j, e->key, value) != 0) {
      json_decref(j);
      return NULL;
    }
  }
  return j;
}

/* XXH3-64 of the document without its checksum, keys sorted, no spaces. False when memory is short. */
static bool checksum(const json_t *document, char hex[DIGITS]) {
  json_t *copy =
      json_copy((json_t *)(uintptr_t)document); /* jansson's copy takes no const, and changes nothing */
  if (!copy) return false;
  json_object_del(copy, "checksum");
  char *text = json_dumps(copy, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
  json_decref(copy);
  if (!text) return false;
  snprintf(hex, DIGITS, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
  free(text);
  return true;
}

json_t *ls_profile_json(const ls_profile_t *profile) {
  char hex[DIGITS];
  ls_machine_fingerprint(&profile->machine, hex);
  json_t *j =
      json_pack("{s:s, s:i, s:s}", "format", format_name, "version", FORMAT_VERSION, "fingerprint", hex);
  int failed = json_object_set_new(j, "machine", ls_machine_json(&profile->machine));
  failed |= json_object_set_new(j, "times", table_json(profile, LS_PROFILE_TIMES));
  failed |= json_object_set_new(j, "curves", table_json(profile, LS_PROFILE_CURVES));
  if (!failed && checksum(j, hex)) failed = json_object_set_new(j, "checksum", json_string(hex));
  if (!failed && json_object_get(j, "checksum")) return j;
  json_decref(j);
  return NULL;
}

ls_status_t ls_profile_save(ls_ctx_t *ctx, const ls_profile_t *profile, const char *path) {
  json_t *j = ls_profile_json(profile);
  char *text = j ? json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
  json_decref(j);
  if (!text) return ls_fail(ctx, LS_ERR_MEMORY, "%s: out of memory for the profile's text", path);
  char *dir = ls_path_parent(ctx, path);
  ls_status_t status = dir ? ls_dir_make(ctx, dir) : LS_ERR_MEMORY;
  ls_free(dir);
  if (status == LS_OK) status = ls_file_replace(ctx, path, text, strlen(text));
  free(text);
  return status;
}

static bool numbers(const json_t *array, double *values, size_t count) {
  if (!json_is_array(array) || json_array_size(array) != count) return false;
  for (size_t i = 0; i < count; i++) {
    const json_t *value = json_array_get(array, i);
    if (!json_is_number(value)) return false;
    values[i] = json_number_value(value);
  }
  return true;
}

static ls_status_t corrupt(ls_ctx_t *ctx, const char *name, const char *key, const char *what) {
  return ls_fail(ctx, LS_ERR_CORRUPT, "%s: \"%s\" is not %s; measure again with lockstep probe", name, key,
                 what);
}

/* Turns the status of a refused value into "corrupt", because the value came from a file. */
static ls_status_t refused(ls_status_t status) {
  return status == LS_ERR_MEMORY ? status : LS_ERR_CORRUPT;
}

static ls_status_t entry_read(ls_ctx_t *ctx, const char *name, ls_profile_which_t which, const char *key,
                              const json_t *value, ls_profile_t *profile) {
  const bool time = which == LS_PROFILE_TIMES;
  const char *expected = time ? "a time [ns, low, high]" : "a curve [[bytes, ns, low, high], ...]";
  size_t count = time ? 1 : json_array_size(value);
  if (!json_is_array(value) || count < 1 || count > LS_PROFILE_POINTS_MAX)
    return corrupt(ctx, name, key, expected);
  ls_curve_point_t *points = ls_alloc_array(ctx, count, sizeof *points);
  if (!points) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  for (size_t i = 0; i < count && status == LS_OK; i++) {
    double v[4] = {0};
    if (time ? numbers(value, v + 1, 3) : numbers(json_array_get(value, i), v, 4))
      points[i] = (ls_curve_point_t){v[0], {v[1], v[2], v[3]}};
    else
      status = corrupt(ctx, name, key, expected);
  }
  if (status == LS_OK) {
    status = ls_profile_put_entry(profile, which, key, points, (int)count);
    if (status != LS_OK) status = refused(status);
  }
  ls_free(points);
  return status;
}

static ls_status_t table_read(ls_ctx_t *ctx, const char *name, ls_profile_which_t which,
                              const json_t *document, ls_profile_t *profile) {
  const char *table = which == LS_PROFILE_TIMES ? "times" : "curves", *key;
  json_t *entries = json_object_get(document, table), *value;
  if (!json_is_object(entries)) return entries ? corrupt(ctx, name, table, "an object") : LS_OK;
  json_object_foreach(entries, key, value) {
    ls_status_t status = entry_read(ctx, name, which, key, value, profile);
    if (status != LS_OK) return status;
  }
  return LS_OK;
}

/* Checks that it is a profile, of this version, complete and unaltered. `measured`: it must carry its
 * checksum. */
static ls_status_t frame_check(ls_ctx_t *ctx, const char *name, const json_t *j, bool measured) {
  const char *format = json_string_value(json_object_get(j, "format"));
  if (!format || strcmp(format, format_name) != 0)
    return ls_fail(ctx, LS_ERR_CORRUPT, "%s: not a profile: \"format\" is not \"%s\"", name, format_name);
  const json_t *version = json_object_get(j, "version");
  if (!json_is_integer(version)) return corrupt(ctx, name, "version", "a whole number");
  if (json_integer_value(version) != FORMAT_VERSION)
    return ls_fail(ctx, LS_ERR_MISMATCH,
                   "%s: profile of version %lld, this program reads version %d; run lockstep probe", name,
                   (long long)json_integer_value(version), FORMAT_VERSION);
  const json_t *stored = json_object_get(j, "checksum");
  if (!stored && !measured) return LS_OK;
  char hex[DIGITS];
  if (!checksum(j, hex))
    return ls_fail(ctx, LS_ERR_MEMORY, "%s: out of memory for the profile's checksum", name);
  const char *text = json_string_value(stored);
  if (!text || strcmp(text, hex) != 0)
    return ls_fail(ctx, LS_ERR_CORRUPT,
                   "%s: the profile was altered (checksum %s, contents %s); run lockstep probe", name,
                   text ? text : "missing", hex);
  return LS_OK;
}

static ls_status_t machine_compare(ls_ctx_t *ctx, const char *name, const ls_machine_t *of,
                                   const ls_machine_t *here) {
  char a[DIGITS], b[DIGITS];
  ls_machine_fingerprint(of, a);
  ls_machine_fingerprint(here, b);
  if (!strcmp(a, b)) return LS_OK;
  ls_identity_t x, y;
  for (int row = 0; ls_machine_identity(of, row, &x) && ls_machine_identity(here, row, &y); row++)
    if (strcmp(x.name, y.name) != 0 || strcmp(x.value, y.value) != 0)
      return ls_fail(
          ctx, LS_ERR_MISMATCH,
          "%s: profile of another machine (%s): %s is \"%s\" there, \"%s\" here; run lockstep probe", name, a,
          x.name, x.value, y.value);
  return ls_fail(ctx, LS_ERR_MISMATCH, "%s: profile of another machine (%s, this is %s); run lockstep probe",
                 name, a, b);
}

ls_status_t ls_profile_from_json(ls_ctx_t *ctx, const char *name, const json_t *j,
                                 const ls_machine_t *machine, ls_profile_t **out) {
  ls_status_t status = frame_check(ctx, name, j, machine != NULL);
  if (status != LS_OK) return status;
  ls_profile_t *profile = ls_alloc(ctx, sizeof *profile);
  if (!profile) return LS_ERR_MEMORY;
  profile->ctx = ctx;
  status = ls_machine_from_json(ctx, name, json_object_get(j, "machine"), &profile->machine);
  if (status != LS_OK) {
    status = refused(status);
    goto profile;
  }
  if (machine) status = machine_compare(ctx, name, &profile->machine, machine);
  if (status == LS_OK) status = table_read(ctx, name, LS_PROFILE_TIMES, j, profile);
  if (status == LS_OK) status = table_read(ctx, name, LS_PROFILE_CURVES, j, profile);
  if (status != LS_OK) goto profile;
  if (machine)
    profile->machine.memory_bytes = machine->memory_bytes; /* today's limit; times do not depend on it */
  *out = profile;
  return LS_OK;
profile:
  ls_profile_destroy(profile);
  return status;
}

ls_status_t ls_profile_load(ls_ctx_t *ctx, const char *path, const ls_machine_t *machine,
                            ls_profile_t **profile) {
  json_t *j;
  ls_status_t status = ls_json_read(ctx, path, FILE_BYTES_MAX, LS_ERR_CORRUPT,
                                    "; not a whole profile: run lockstep probe", &j);
  if (status != LS_OK) return status;
  status = ls_profile_from_json(ctx, path, j, machine, profile);
  json_decref(j);
  return status;
}

char *ls_profile_default_path(ls_ctx_t *ctx, const ls_machine_t *machine) {
  const char *named = getenv("LOCKSTEP_PROFILE"), *cache = getenv("XDG_CACHE_HOME"), *below = "";
  char hex[DIGITS], home[PATH_MAX];
  if (named && *named) return ls_strdup(ctx, named);
  if (!cache || cache[0] != '/') { /* the XDG base directory specification: relative ones are ignored */
    below = "/.cache";
    cache = ls_process_home(home) ? home : NULL;
    if (!cache)
      ls_log(
          ctx, LS_LOG_WARN,
          "neither XDG_CACHE_HOME nor HOME is set and this user has no home directory: the profile is kept "
          "in ./.cache/lockstep, and another folder measures anew");
    if (!cache) cache = ".";
  }
  ls_machine_fingerprint(machine, hex);
  size_t size = strlen(cache) + sizeof "/.cache/lockstep/.json" + DIGITS;
  char *path = ls_alloc(ctx, size);
  if (path) snprintf(path, size, "%s%s/lockstep/%s.json", cache, below, hex);
  return path;
}
