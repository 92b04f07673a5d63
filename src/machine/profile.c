/* The table of measurements: two sorted arrays, times and curves, looked up by key. It is small (hundreds to
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
  for (int i = 0; i < profile->time_count; i++)
    ls_free(profile->times[i].key);
  for (int i = 0; i < profile->curve_count; i++) {
    ls_free(profile->curves[i].key);
    ls_free(profile->curves[i].points);
  }
  ls_free(profile->times);
  ls_free(profile->curves);
  ls_free(profile);
}

const ls_machine_t *ls_profile_machine(const ls_profile_t *profile) {
  return &profile->machine;
}

/* First entry whose key is not below `key`; every entry of both arrays begins with its key. */
static int lower_bound(const void *entries, int count, size_t size, const char *key, bool *found) {
  int low = 0, high = count;
  *found = false;
  while (low < high) {
    int middle = low + (high - low) / 2;
    char *const *at = (char *const *)(const void *)((const char *)entries + (size_t)middle * size);
    int order = strcmp(*at, key);
    if (order == 0) *found = true;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Makes room at `index` for one entry, which is zeroed. */
static ls_status_t insert(ls_ctx_t *ctx, void **entries, int *count, int *capacity, size_t size, int index) {
  if (*count == *capacity) {
    int grown = *capacity ? *capacity * 2 : 16;
    void *more = ls_realloc_array(ctx, *entries, (size_t)grown, size);
    if (!more) return LS_ERR_MEMORY;
    *entries = more;
    *capacity = grown;
  }
  char *at = (char *)*entries + (size_t)index * size;
  memmove(at + size, at, (size_t)(*count - index) * size);
  memset(at, 0, size);
  (*count)++;
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

bool ls_profile_get(const ls_profile_t *profile, const char *key, ls_time_t *time) {
  bool found;
  int at = lower_bound(profile->times, profile->time_count, sizeof *profile->times, key, &found);
  if (found) *time = profile->times[at].time;
  return found;
}

ls_status_t ls_profile_put(ls_profile_t *profile, const char *key, const ls_time_t *time) {
  ls_ctx_t *ctx = profile->ctx;
  ls_status_t status = key_check(ctx, key);
  if (status != LS_OK) return status;
  if (!time_good(time))
    return ls_fail(ctx, LS_ERR_ARGUMENT, "profile: \"%s\": %g ns in [%g, %g] is not a time", key, time->ns,
                   time->low_ns, time->high_ns);
  bool found;
  int at = lower_bound(profile->times, profile->time_count, sizeof *profile->times, key, &found);
  if (found) {
    profile->times[at].time = *time;
    return LS_OK;
  }
  if (profile->time_count == LS_PROFILE_TIMES_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "profile: more than %d times", LS_PROFILE_TIMES_MAX);
  char *copy = ls_strdup(ctx, key);
  if (!copy) return LS_ERR_MEMORY;
  void *times = profile->times;
  status = insert(ctx, &times, &profile->time_count, &profile->time_capacity, sizeof *profile->times, at);
  profile->times = times;
  if (status != LS_OK) {
    ls_free(copy);
    return status;
  }
  profile->times[at] = (ls_profile_time_t){.key = copy, .time = *time};
  return LS_OK;
}

int ls_profile_time_count(const ls_profile_t *profile) {
  return profile->time_count;
}

const char *ls_profile_time_at(const ls_profile_t *profile, int index, ls_time_t *time) {
  if (index < 0 || index >= profile->time_count) return NULL;
  *time = profile->times[index].time;
  return profile->times[index].key;
}

int ls_profile_curve_count(const ls_profile_t *profile) {
  return profile->curve_count;
}

const char *ls_profile_curve_at(const ls_profile_t *profile, int index, const ls_curve_point_t **points,
                                int *count) {
  if (index < 0 || index >= profile->curve_count) return NULL;
  *points = profile->curves[index].points;
  *count = profile->curves[index].count;
  return profile->curves[index].key;
}

int ls_profile_curve(const ls_profile_t *profile, const char *key, const ls_curve_point_t **points) {
  bool found;
  int at = lower_bound(profile->curves, profile->curve_count, sizeof *profile->curves, key, &found);
  if (!found) return 0;
  *points = profile->curves[at].points;
  return profile->curves[at].count;
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

ls_status_t ls_profile_put_curve(ls_profile_t *profile, const char *key, const ls_curve_point_t *points,
                                 int count) {
  ls_ctx_t *ctx = profile->ctx;
  ls_status_t status = key_check(ctx, key);
  if (status == LS_OK) status = points_check(ctx, key, points, count);
  if (status != LS_OK) return status;
  bool found;
  int at = lower_bound(profile->curves, profile->curve_count, sizeof *profile->curves, key, &found);
  if (!found && profile->curve_count == LS_PROFILE_CURVES_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "profile: more than %d curves", LS_PROFILE_CURVES_MAX);
  status = LS_ERR_MEMORY;
  char *name = NULL;
  ls_curve_point_t *copy = ls_alloc_array(ctx, (size_t)count, sizeof *copy);
  if (!copy) return status;
  memcpy(copy, points, (size_t)count * sizeof *copy);
  if (!found) {
    name = ls_strdup(ctx, key);
    if (!name) goto copy;
    void *curves = profile->curves;
    status =
        insert(ctx, &curves, &profile->curve_count, &profile->curve_capacity, sizeof *profile->curves, at);
    profile->curves = curves;
    if (status != LS_OK) goto copy;
    profile->curves[at].key = name;
  }
  ls_free(profile->curves[at].points);
  profile->curves[at].points = copy;
  profile->curves[at].count = count;
  return LS_OK;
copy:
  ls_free(name);
  ls_free(copy);
  return status;
}

ls_status_t ls_profile_merge(ls_profile_t *into, const ls_profile_t *from) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < from->time_count && status == LS_OK; i++)
    status = ls_profile_put(into, from->times[i].key, &from->times[i].time);
  for (int i = 0; i < from->curve_count && status == LS_OK; i++)
    status = ls_profile_put_curve(into, from->curves[i].key, from->curves[i].points, from->curves[i].count);
  return status;
}

static bool begins(const char *key, const char *const *prefixes) {
  for (int i = 0; prefixes[i]; i++)
    if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0) return true;
  return false;
}

ls_status_t ls_profile_fill(ls_profile_t *into, const ls_profile_t *from, const char *const *prefixes) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < from->time_count && status == LS_OK; i++) {
    const ls_profile_time_t *t = &from->times[i];
    ls_time_t known;
    if (begins(t->key, prefixes) && !ls_profile_get(into, t->key, &known))
      status = ls_profile_put(into, t->key, &t->time);
  }
  for (int i = 0; i < from->curve_count && status == LS_OK; i++) {
    const ls_profile_curve_t *c = &from->curves[i];
    const ls_curve_point_t *known;
    if (begins(c->key, prefixes) && ls_profile_curve(into, c->key, &known) == 0)
      status = ls_profile_put_curve(into, c->key, c->points, c->count);
  }
  return status;
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
      fmin(fmax(along(a->time.low_ns, b->time.low_ns, part, rising), 0), t.ns);  /* they may cross beyond */
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
