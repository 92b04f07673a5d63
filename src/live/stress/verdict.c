/* Judges the figures. */
#include "stress/parts.h"

#include "base/field.h"
#include "base/json.h"
#include "machine/load.h"
#include "stat/stat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ls_stress_part_names[] = {"compute", "memory", "links", NULL};
const char *const ls_plant_names[] = {"none", "product",  "memory", "host-memory",
                                      "disk", "transfer", "link",   NULL};
const char *const ls_stress_verdict_names[] = {"sound", "disturbed", "below target", "WRONG", NULL};
const ls_stress_targets_t ls_stress_targets = {
    .rate = 0.95, .utilization = 0.99, .memory_off = 0.01, .link = 0.5};

/* nvmlClocksEventReasons; a device at full load that meets its power limit is as it should be. */
static const struct {
  int64_t bit;
  const char *words;
  bool heat;
} reasons[] = {{LS_STRESS_POWER, "power cap", false}, {0x8, "hardware slowdown", true},
               {0x10, "sync boost", false},           {LS_STRESS_HEAT, "heat", true},
               {0x40, "heat (hardware)", true},       {LS_STRESS_BRAKE, "power brake", true}};

const char *ls_stress_reasons(int64_t bits, char text[128]) {
  int len = 0;
  text[0] = '\0';
  for (int i = 0; i < LS_COUNT(reasons) && bits > 0; i++)
    if (bits & reasons[i].bit)
      len += snprintf(text + len, (size_t)(128 - len), "%s%s", len ? ", " : "", reasons[i].words);
  return text;
}

static bool hot(int64_t bits) {
  bool any = false;
  for (int i = 0; i < LS_COUNT(reasons) && bits > 0; i++)
    any |= reasons[i].heat && (bits & reasons[i].bit);
  return any;
}

/* The worst counts; every reason is told. */
static void LS_PRINTF(3, 4) found(ls_stress_device_t *d, ls_stress_verdict_t verdict, const char *fmt, ...) {
  size_t used = strlen(d->why);
  if (used > 0 && used + 2 < sizeof d->why)
    used += (size_t)snprintf(d->why + used, sizeof d->why - used, "; ");
  va_list args;
  va_start(args, fmt);
  vsnprintf(d->why + used, sizeof d->why - used, fmt, args);
  va_end(args);
  if ((int)verdict > d->verdict) d->verdict = (int)verdict;
}

/* Other programs on the processors excuse a low rate, not a wrong result. */
static ls_stress_verdict_t low(const ls_stress_device_t *d) {
  return d->others_ratio >= LS_LOAD_DISTURBING ? LS_DISTURBED : LS_BELOW;
}

static void judge_products(ls_stress_device_t *d, const ls_stress_product_t *p, bool whole) {
  if (p->wrong > 0)
    found(d, LS_WRONG, "%lld of %lld chains of products in %s came out otherwise than the first",
          (long long)p->wrong, (long long)(p->count / p->length), p->name);
  if (whole && ls_stress_share(p) < ls_stress_targets.rate)
    found(d, low(d), "products in %s reach %.1f %% of what %s", p->name, 100 * p->burst_ns / p->ns,
          p->from_profile ? "probe measured" : "they did at the start");
}

/* A burst ends before a power cap lowers the clock: under one, it is scaled to the clock that was left. */
double ls_stress_share(const ls_stress_product_t *p) {
  const bool capped = p->throttle_reasons > 0 && (p->throttle_reasons & LS_STRESS_POWER);
  return p->burst_ns / p->ns / (capped && p->clock_ratio > 0 && p->clock_ratio < 1 ? p->clock_ratio : 1);
}

/* Equal devices that multiply equal chains get equal bits. Whose result most of them share is right. */
static void judge_against_others(const ls_stress_report_t *report, ls_stress_device_t *d, int k) {
  const ls_stress_product_t *own = &d->product[k];
  int same = 0, others = 0;
  for (int i = 0; i < report->device_count; i++) {
    const ls_stress_device_t *o = &report->device[i];
    const ls_stress_product_t *p = &o->product[k];
    if (k >= o->product_count || p->count == 0 || own->count == 0 || strcmp(o->name, d->name) ||
        p->length != own->length || p->rows != own->rows)
      continue;
    same += p->hash == own->hash;
    others += p->hash != own->hash;
  }
  if (others > 0 && same <= others)
    found(d, LS_WRONG, "products in %s differ from those of %d equal device%s", own->name, others,
          LS_PLURAL(others));
}

static void judge_memory(ls_stress_device_t *d, const ls_stress_memory_t *m, const char *what, bool whole) {
  if (m->wrong > 0)
    found(d, LS_WRONG, "%lld words of %s did not hold what was written", (long long)m->wrong, what);
  double off = (double)(m->used_bytes - m->want_bytes) / (double)m->bytes;
  const bool full = m->before_bytes >= m->want_bytes; /* by other programs, which no filling changes */
  if (whole && m->bytes > 0 && !full && fabs(off) > ls_stress_targets.memory_off)
    found(d, LS_BELOW, "%.1f %% of %s in use, %.1f %% asked for",
          100 * (double)m->used_bytes / (double)m->bytes, what,
          100 * (double)m->want_bytes / (double)m->bytes);
}

static void judge_disk(ls_stress_device_t *d, bool whole) {
  if (d->disk.wrong > 0)
    found(d, LS_WRONG, "%lld words in %s were read otherwise than written", (long long)d->disk.wrong,
          d->disk.dir);
  if (d->disk.fault[0])
    found(d, LS_WRONG, "%s: %s", d->disk.dir, d->disk.fault);
  else if (whole && d->disk.dir[0] && d->disk.checked_bytes == 0)
    found(d, LS_BELOW, "nothing in %s was read back in this time: more --seconds, or a smaller file",
          d->disk.dir);
}

static void judge_network(ls_stress_device_t *d) {
  if (!d->network.name[0]) return;
  if (!d->network.finite)
    found(d, LS_WRONG, "training %s: a loss or gradient was not finite", d->network.name);
  if (!d->network.same)
    found(d, LS_WRONG, "training %s: losses or parameters of the ranks differ", d->network.name);
}

/* Threads of one rank wait for the slowest of them after each product. Ranks of one thread wait for nobody. */
static void judge_utilization(const ls_stress_report_t *report, ls_stress_device_t *d) {
  char remedy[128] = "";
  int processors = 0;
  if (d->product_count == 0 || !(d->busy_ratio < ls_stress_targets.utilization)) return;
  for (int i = 0; i < report->device_count; i++)
    processors += strcmp(report->device[i].host, d->host) ? 0 : report->device[i].threads;
  if (d->threads > 1)
    snprintf(
        remedy, sizeof remedy,
        " (its threads wait for each other where processors differ in speed; --ranks %d: a rank for each "
        "processor)",
        processors);
  found(d, low(d), "it computed in %.1f %% of the time%s", 100 * d->busy_ratio, remedy);
}

static void judge_device(const ls_stress_report_t *report, ls_stress_device_t *d) {
  char words[128];
  const bool whole = !report->interrupted;
  for (int k = 0; k < d->product_count; k++) {
    judge_products(d, &d->product[k], whole);
    judge_against_others(report, d, k);
  }
  judge_memory(d, &d->memory, "the memory", whole);
  judge_memory(d, &d->host_memory, "the host's memory", whole);
  judge_disk(d, whole);
  judge_network(d);
  if (d->device_errors > 0)
    found(d, LS_WRONG, "its driver reported %lld error%s", (long long)d->device_errors,
          LS_PLURAL(d->device_errors));
  if (whole) judge_utilization(report, d);
  if (hot(d->throttle_reasons))
    found(d, LS_BELOW, "slowed down: %s", ls_stress_reasons(d->throttle_reasons, words));
}

/* Without a profile a pair is compared with the other pairs. */
static double usual(const ls_stress_report_t *report) {
  double sorted[LS_GPU_MAX * LS_GPU_MAX];
  int count = 0;
  for (int i = 0; i < report->link_count && count < LS_COUNT(sorted); i++)
    if (report->link[i].from >= 0) sorted[count++] = report->link[i].ns;
  ls_stat_sort(sorted, count);
  return count > 2 ? ls_stat_quantile(sorted, count, 0.5) : (double)NAN;
}

static void judge_link(const ls_stress_report_t *report, ls_stress_link_t *l, double usual_ns) {
  if (l->from >= 0 && isnan(l->want_ns)) l->want_ns = usual_ns;
  bool slow = l->want_ns / l->ns < ls_stress_targets.link;
  bool uneven = l->from >= 0 && usual_ns / l->ns < ls_stress_targets.link; /* slower than the others */
  if ((slow || uneven) && !report->interrupted)
    l->verdict = uneven ? (int)LS_BELOW : (int)low(&report->device[0]);
  if (l->wrong > 0) l->verdict = LS_WRONG;
}

void ls_stress_judge(ls_stress_report_t *report, ls_stress_device_t *device, ls_stress_link_t *link) {
  report->verdict = LS_SOUND;
  for (int i = 0; i < report->device_count; i++) {
    judge_device(report, &device[i]);
    if (device[i].verdict > report->verdict) report->verdict = device[i].verdict;
  }
  const double usual_ns = usual(report);
  for (int i = 0; i < report->link_count; i++) {
    judge_link(report, &link[i], usual_ns);
    if (link[i].verdict > report->verdict) report->verdict = link[i].verdict;
  }
}

ls_status_t ls_stress_status(const ls_stress_report_t *report) {
  return report->verdict == LS_WRONG ? LS_ERR_DEVICE : report->verdict == LS_BELOW ? LS_ERR_BELOW : LS_OK;
}

/* ---- as JSON ---- */

#define PRODUCT(field, ...) LS_FIELD_AS(ls_stress_product_t, field, __VA_ARGS__)
static const ls_field_t product_rows[] = {
    PRODUCT(name, "precision"),
    PRODUCT(rows, "rows"),
    PRODUCT(width, "width"),
    PRODUCT(count, "products"),
    PRODUCT(length, "chain"),
    PRODUCT(wrong, "wrong_chains"),
    PRODUCT(flops, "flops"),
    PRODUCT(ns, "us", .scale = 1e-3),
    PRODUCT(burst_ns, "burst_us", .scale = 1e-3),
    PRODUCT(from_profile, "burst_by_profile"),
    PRODUCT(clock_ratio, "clock_ratio"),
    PRODUCT(throttle_reasons, "throttle_reasons", .known = LS_KNOWN_FROM_0)};
static const ls_record_t product_record = LS_RECORD(product_rows);
static const ls_field_t product_each = LS_FIELD_EACH(ls_stress_product_t, product_record);

#define DISK(field) LS_FIELD(ls_stress_disk_t, field)
static const ls_field_t disk_rows[] = {DISK(dir),
                                       DISK(bytes),
                                       DISK(direct),
                                       DISK(written_bytes),
                                       DISK(checked_bytes),
                                       LS_FIELD_AS(ls_stress_disk_t, wrong, "wrong_words"),
                                       DISK(write_bytes_per_s),
                                       DISK(read_bytes_per_s),
                                       DISK(fault)};
static const ls_record_t disk_record = LS_RECORD(disk_rows);

#define NETWORK(field) LS_FIELD(ls_stress_network_t, field)
static const ls_field_t network_rows[] = {
    NETWORK(name),        NETWORK(params),
    NETWORK(batch),       NETWORK(steps),
    NETWORK(steps_per_s), NETWORK(loss_first),
    NETWORK(loss),        NETWORK(finite),
    NETWORK(same),        LS_FIELD_AS(ls_stress_network_t, nvml_ratio, "utilization_by_nvml")};
static const ls_record_t network_record = LS_RECORD(network_rows);

#define DEVICE(field, ...) LS_FIELD_AS(ls_stress_device_t, field, __VA_ARGS__)
#define MEMORY(member, name)                                                                                 \
  DEVICE(member.bytes, name "memory_bytes"), DEVICE(member.before_bytes, name "memory_used_before_bytes"),   \
      DEVICE(member.want_bytes, name "memory_target_bytes"),                                                 \
      DEVICE(member.used_bytes, name "memory_used_bytes"),                                                   \
      DEVICE(member.checked_bytes, name "memory_checked_bytes"), DEVICE(member.wrong, name "wrong_words")
static const ls_field_t device_rows[] = {
    DEVICE(rank, "rank"),
    DEVICE(host, "host"),
    DEVICE(name, "device"),
    DEVICE(backend, "backend"),
    LS_FIELD_OF(ls_stress_device_t, verdict, LS_FIELD_CHOICE, "verdict", .choices = ls_stress_verdict_names),
    DEVICE(why, "why"),
    LS_FIELD_OF(ls_stress_device_t, product, LS_FIELD_LIST, "products", .each = &product_each,
                .count_offset = offsetof(ls_stress_device_t, product_count)),
    DEVICE(busy_ratio, "utilization"),
    DEVICE(nvml_ratio, "utilization_by_nvml"),
    DEVICE(others_ratio, "other_programs"),
    MEMORY(memory, ""),
    MEMORY(host_memory, "host_"),
    LS_FIELD_AS(ls_stress_device_t, disk, "disk", .record = &disk_record),
    LS_FIELD_AS(ls_stress_device_t, network, "network", .record = &network_record),
    DEVICE(temperature_c, "temperature_c"),
    DEVICE(power_w, "power_w"),
    DEVICE(clock_mhz, "clock_mhz"),
    DEVICE(device_errors, "device_errors"),
    DEVICE(throttle_reasons, "throttle_reasons", .known = LS_KNOWN_FROM_0)};
static const ls_record_t device_record = LS_RECORD(device_rows);

#define LINK(field, ...) LS_FIELD_AS(ls_stress_link_t, field, __VA_ARGS__)
static const ls_field_t link_rows[] = {
    LINK(from, "from", .known = LS_KNOWN_FROM_0),
    LINK(to, "to", .known = LS_KNOWN_FROM_0),
    LINK(bytes, "bytes"),
    LINK(ns, "us", .scale = 1e-3),
    LINK(want_ns, "expected_us", .scale = 1e-3),
    LINK(from_profile, "expected_by_profile"),
    LINK(count, "transfers"),
    LINK(wrong, "wrong"),
    LS_FIELD_OF(ls_stress_link_t, verdict, LS_FIELD_CHOICE, "verdict", .choices = ls_stress_verdict_names)};
static const ls_record_t link_record = LS_RECORD(link_rows);

json_t *ls_stress_json(const ls_stress_report_t *report) {
  json_t *devices = json_array(), *links = json_array();
  for (int i = 0; i < report->device_count; i++)
    json_array_append_new(devices, ls_record_json(&device_record, &report->device[i]));
  for (int i = 0; i < report->link_count; i++)
    json_array_append_new(links, ls_record_json(&link_record, &report->link[i]));
  return json_pack("{s:s, s:s, s:f, s:b, s:o?, s:o?}", "command", "stress", "verdict",
                   ls_stress_verdict_names[report->verdict], "seconds", report->seconds, "interrupted",
                   report->interrupted, "devices", devices, "links", links);
}
