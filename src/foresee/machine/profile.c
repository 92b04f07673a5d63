/* The measurements: two sorted tables, times and curves, looked up by key. They are small (hundreds to
 * thousands of entries), written rarely and read often, so bisection in an array is enough. */
#include "machine/profile_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status_t ls_profile_create(ls_ctx_t *ctx, const ls_machine_t *machine, ls_profile_t **out) {
  ls_profile_t *profile = ls_alloc(ctx, sizeof *profile);
  if (!profile) return LS_ERR_MEMORY;
  profile->ctx = ctx;
  profile->machine = *machine;
  *out = profile;
  return LS_OK;
}

void ls_profile_destroy(ls_profile_t *profile) {
  if (!profile) return;
  for (int which = 0; which < LS_PROFILE_TABLE_COUNT; which++) {
    ls_profile_table_t *table = &profile->table[which];
    for (int i = 0; i < table->count; i++) {
      ls_free(table->entry[i].key);
      ls_free(table->entry[i].points);
    }
    ls_free(table->entry);
  }
  ls_free(profile);
}

const ls_machine_t *ls_profile_machine(const ls_profile_t *profile) {
  return &profile->machine;
}

/* First entry whose key is not below `key`. */
static int lower_bound(const ls_profile_table_t *table, const char *key, bool *found) {
  int low = 0, high = table->count;
  *found = false;
  while (low < high) {
    int middle = low + (high - low) / 2, order = strcmp(table->entry[middle].key, key);
    if (order == 0) *found = true;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const ls_profile_entry_t *ls_profile_find(const ls_profile_t *profile, ls_profile_which_t which,
                                          const char *key) {
  bool found;
  const ls_profile_table_t *table = &profile->table[which];
  int at = lower_bound(table, key, &found);
  return found ? &table->entry[at] : NULL;
}

/* Makes room at `index` for one entry. */
static ls_status_t insert(ls_ctx_t *ctx, ls_profile_table_t *table, int index) {
  if (table->count == table->capacity) {
    int grown = table->capacity ? table->capacity * 2 : 16;
    ls_profile_entry_t *more = ls_realloc_array(ctx, table->entry, (size_t)grown, sizeof *more);
    if (!more) return LS_ERR_MEMORY;
    table->entry = more;
    table->capacity = grown;
  }
  ls_profile_entry_t *at = &table->entry[index];
  memmove(at + 1, at, (size_t)(table->count - index) * sizeof *at);
  *at = (ls_profile_entry_t){0};
  table->count++;
  return LS_OK;
}

static ls_status_t key_check(ls_ctx_t *ctx, const char *key) {
  size_t len = strlen(key);
  bool good = len > 0 && len < LS_PROFILE_KEY_BYTES;
  for (size_t i = 0; i < len && good; i++)
    good = key[i] >= ' ' && key[i] <= '~';
  return good
             ? LS_OK
             : ls_fail(ctx, LS_ERR_ARGUMENT, "profile: \"%.64s\" is not a key (1 to %d printable characters)",
                       key, LS_PROFILE_KEY_BYTES - 1);
}

static bool time_good(const ls_time_t *time) {
  return isfinite(time->ns) && isfinite(time->low_ns) && isfinite(time->high_ns) && time->low_ns >= 0 &&
         time->low_ns <= time->ns && time->ns <= time->high_ns;
}

static ls_status_t time_check(ls_ctx_t *ctx, const char *key, const ls_time_t *t) {
  return time_good(t) ? LS_OK
                      : ls_fail(ctx, LS_ERR_ARGUMENT, "profile: \"%s\": %g ns in [%g, %g] is not a time", key,
                                t->ns, t->low_ns, t->high_ns);
}

static ls_status_t points_check(ls_ctx_t *ctx, const char *key, const ls_curve_point_t *points, int count) {
  if (count < 1 || count > LS_PROFILE_POINTS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "profile: \"%s\": a curve has 1 to %d points, not %d", key,
                   LS_PROFILE_POINTS_MAX, count);
  for (int i = 0; i < count; i++) {
    double bytes = points[i].bytes;
    if (!isfinite(bytes) || bytes < 0 || (i > 0 && bytes <= points[i - 1].bytes) ||
        !time_good(&points[i].time))
      return ls_fail(ctx, LS_ERR_ARGUMENT,
                     "profile: \"%s\": point %d (%g bytes, %g ns) is not a time or not ascending", key, i,
                     bytes, points[i].time.ns);
  }
  return LS_OK;
}

ls_status_t ls_profile_put_entry(ls_profile_t *profile, ls_profile_which_t which, const char *key,
                                 const ls_curve_point_t *points, int count) {
  static const struct {
    int most;
    const char *what;
  } limits[] = {{1 << 20, "times"}, {1 << 16, "curves"}};
  ls_ctx_t *ctx = profile->ctx;
  ls_profile_table_t *table = &profile->table[which];
  ls_status_t status = key_check(ctx, key);
  if (status == LS_OK)
    status = which == LS_PROFILE_TIMES ? time_check(ctx, key, &points->time)
                                       : points_check(ctx, key, points, count);
  if (status != LS_OK) return status;
  bool found;
  int at = lower_bound(table, key, &found);
  if (!found && table->count == limits[which].most)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "profile: more than %d %s", limits[which].most, limits[which].what);
  char *name = found ? table->entry[at].key : ls_strdup(ctx, key);
  ls_curve_point_t *copy = ls_alloc_array(ctx, (size_t)count, sizeof *copy);
  status = name && copy ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK && !found) status = insert(ctx, table, at);
  if (status != LS_OK) {
    ls_free(copy);
    if (!found) ls_free(name);
    return status;
  }
  memcpy(copy, points, (size_t)count * sizeof *copy);
  ls_free(table->entry[at].points);
  table->entry[at] = (ls_profile_entry_t){name, copy, count};
  return LS_OK;
}

bool ls_profile_get(const ls_profile_t *profile, const char *key, ls_time_t *time) {
  const ls_profile_entry_t *found = ls_profile_find(profile, LS_PROFILE_TIMES, key);
  if (found) *time = found->points->time;
  return found;
}

ls_status_t ls_profile_put(ls_profile_t *profile, const char *key, const ls_time_t *time) {
  const ls_curve_point_t point = {.time = *time};
  return ls_profile_put_entry(profile, LS_PROFILE_TIMES, key, &point, 1);
}

int ls_profile_curve(const ls_profile_t *profile, const char *key, const ls_curve_point_t **points) {
  const ls_profile_entry_t *found = ls_profile_find(profile, LS_PROFILE_CURVES, key);
  if (found) *points = found->points;
  return found ? found->count : 0;
}

ls_status_t ls_profile_put_curve(ls_profile_t *profile, const char *key, const ls_curve_point_t *points,
                                 int count) {
  return ls_profile_put_entry(profile, LS_PROFILE_CURVES, key, points, count);
}

static const ls_profile_entry_t *entry_at(const ls_profile_t *profile, ls_profile_which_t which, int index) {
  const ls_profile_table_t *table = &profile->table[which];
  return index >= 0 && index < table->count ? &table->entry[index] : NULL;
}

int ls_profile_time_count(const ls_profile_t *profile) {
  return profile->table[LS_PROFILE_TIMES].count;
}

const char *ls_profile_time_at(const ls_profile_t *profile, int index, ls_time_t *time) {
  const ls_profile_entry_t *entry = entry_at(profile, LS_PROFILE_TIMES, index);
  if (entry) *time = entry->points->time;
  return entry ? entry->key : NULL;
}

int ls_profile_curve_count(const ls_profile_t *profile) {
  return profile->table[LS_PROFILE_CURVES].count;
}

const char *ls_profile_curve_at(const ls_profile_t *profile, int index, const ls_curve_point_t **points,
                                int *count) {
  const ls_profile_entry_t *entry = entry_at(profile, LS_PROFILE_CURVES, index);
  if (!entry) return NULL;
  *points = entry->points;
  *count = entry->count;
  return entry->key;
}

static bool begins(const char *key, const char *const *prefixes) {
  for (int i = 0; prefixes[i]; i++)
    if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

/* prefixes NULL: copies everything; else what `into` lacks. */
static ls_status_t copy(ls_profile_t *into, const ls_profile_t *from, const char *const *prefixes) {
  ls_status_t status = LS_OK;
  for (int which = 0; which < LS_PROFILE_TABLE_COUNT; which++)
    for (int i = 0; i < from->table[which].count && status == LS_OK; i++) {
      const ls_profile_entry_t *e = &from->table[which].entry[i];
      if (!prefixes || (begins(e->key, prefixes) && !ls_profile_find(into, which, e->key)))
        status = ls_profile_put_entry(into, which, e->key, e->points, e->count);
    }
  return status;
}

ls_status_t ls_profile_merge(ls_profile_t *into, const ls_profile_t *from) {
  return copy(into, from, NULL);
}

ls_status_t ls_profile_fill(ls_profile_t *into, const ls_profile_t *from, const char *const *prefixes) {
  return copy(into, from, prefixes);
}

static double along(double from, double to, double part, bool rising) {
  if (part > 1 && rising) return to + (part - 1) * fmax(to - from, 0);
  return from + part * (to - from);
}

ls_time_t ls_curve_time(const ls_curve_point_t *p, int count, double at, bool rising) {
  int last = 1;
  if (count == 1 || at <= p[0].bytes) return p[0].time;
  while (last < count - 1 && p[last].bytes < at)
    last++;
  const ls_curve_point_t *a = &p[last - 1], *b = &p[last];
  double part = (at - a->bytes) / (b->bytes - a->bytes);
  ls_time_t t = {.ns = fmax(along(a->time.ns, b->time.ns, part, rising), 0)};
  t.low_ns =
      fmin(fmax(along(a->time.low_ns, b->time.low_ns, part, rising), 0), t.ns);  /* they may cross there */
  t.high_ns = fmax(along(a->time.high_ns, b->time.high_ns, part, rising), t.ns); /* the last point */
  return t;
}

bool ls_profile_interpolate(const ls_profile_t *profile, const char *key, double bytes, ls_time_t *time) {
  const ls_curve_point_t *p;
  int count = ls_profile_curve(profile, key, &p);
  if (count == 0 || !isfinite(bytes)) return false;
  *time = ls_curve_time(p, count, bytes, true);
  return true;
}

double ls_profile_value(const ls_profile_t *profile, const char *key, double otherwise) {
  ls_time_t value;
  return ls_profile_get(profile, key, &value) ? value.ns : otherwise;
}

ls_status_t ls_profile_put_value(ls_profile_t *profile, const char *key, double value) {
  return ls_profile_put(profile, key, &(ls_time_t){value, value, value});
}

double ls_profile_busy(const ls_profile_t *profile) {
  return ls_profile_value(profile, LS_PROFILE_BUSY_KEY, 0);
}
