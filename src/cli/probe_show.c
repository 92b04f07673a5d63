/* The results of probe, as tables for people and as one JSON document. */
#include "cli/probe.h"
#include "comm/transport.h"
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCTS_MAX = 256, COLUMNS_MAX = 6, LINES_MAX = 64 };

/* "48 KiB" */
static const char *size_text(double bytes, char text[24]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < LS_COUNT(units) - 1; unit++)
    bytes /= 1024;
  snprintf(text, 24, "%.0f %s", bytes, units[unit]);
  return text;
}

/* Before a section's first line. */
static void print_title(const char **title) {
  if (*title) cli_print("\n%s\n", *title);
  *title = NULL;
}

/* The time of a product; `key` borrows its texts from `words`. */
typedef struct {
  char words[LS_PROFILE_KEY_BYTES];
  ls_profile_key_t key; /* its backend with the precision: "cuda tf32" */
  const ls_op_t *op;
  ls_time_t time;
} product_t;

static double flops(const product_t *p) {
  const int64_t *dim = p->key.dim;
  const ls_shape_t in[LS_NODE_IN_MAX] = {LS_SHAPE(LS_F32, dim[0], dim[1]), LS_SHAPE(LS_F32, dim[2], dim[3])};
  return (double)ls_op_flops(p->op, NULL, in, NULL);
}

static int collect_products(const ls_profile_t *profile, product_t *products) {
  int count = 0;
  for (int i = 0; i < ls_profile_time_count(profile) && count < PRODUCTS_MAX; i++) {
    product_t *p = &products[count];
    const char *key = ls_profile_time_at(profile, i, &p->time);
    if (!ls_profile_key_read(key, LS_KEY_OP, p->words, &p->key)) continue;
    p->op = ls_op_find(p->key.name);
    count += p->op && p->op->class == LS_OP_PRODUCT && p->key.dim[0] > 0;
  }
  return count;
}

static bool same_line(const product_t *x, const product_t *y) {
  return x->op == y->op && !memcmp(x->key.dim, y->key.dim, sizeof x->key.dim);
}

static bool same_column(const product_t *x, const product_t *y) {
  return !strcmp(x->key.backend, y->key.backend) && x->key.threads == y->key.threads;
}

static int order(const void *left, const void *right) {
  const product_t *const *a = left, *const *b = right;
  const ls_profile_key_t *x = &(*a)->key, *y = &(*b)->key;
  int by_op = strcmp((*a)->op->name, (*b)->op->name);
  if (by_op) return by_op;
  if (x->dim[1] != y->dim[1]) return x->dim[1] < y->dim[1] ? -1 : 1;
  if (x->dim[0] != y->dim[0]) return x->dim[0] < y->dim[0] ? -1 : 1;
  int by_backend = strcmp(x->backend, y->backend);
  return by_backend ? by_backend : (x->threads > y->threads) - (x->threads < y->threads);
}

static void show_products(const ls_profile_t *profile) {
  static product_t products[PRODUCTS_MAX];
  const product_t *sorted[PRODUCTS_MAX], *column[COLUMNS_MAX];
  int count = collect_products(profile, products), columns = 0;
  if (count == 0) return;
  for (int i = 0; i < count; i++)
    sorted[i] = &products[i];
  qsort(sorted, (size_t)count, sizeof *sorted, order);
  for (int i = 0, c; i < count && columns < COLUMNS_MAX; i++) {
    for (c = 0; c < columns && !same_column(sorted[i], column[c]);)
      c++;
    if (c == columns) column[columns++] = sorted[i];
  }
  cli_print("\nmatrix products, f32, GFLOP/s (rows x width, square layers)\n  %-26s", "");
  for (int c = 0; c < columns; c++) {
    char name[LS_BACKEND_KEY_BYTES + 16];
    snprintf(name, sizeof name, "%s t%d", column[c]->key.backend, column[c]->key.threads);
    cli_print(" %12s", name);
  }
  for (int i = 0, end; i < count; i = end) {
    const product_t *p = sorted[i];
    cli_print("\n  %-11s %5lld x %-6lld", p->op->name, (long long)p->key.dim[0], (long long)p->key.dim[1]);
    for (end = i; end < count && same_line(sorted[end], p);)
      end++;
    for (int c = 0; c < columns; c++) {
      char rate[32] = "-";
      for (int k = i; k < end; k++)
        if (same_column(sorted[k], column[c]))
          snprintf(rate, sizeof rate, "%.1f", flops(sorted[k]) / sorted[k]->time.ns);
      cli_print(" %12s", rate);
    }
  }
  cli_print("\n");
}

/* Rates of a curve over bytes, one line per key: "memory cpu t1   48 KiB 12.3 GB/s ...". */
static void show_rates(const ls_profile_t *profile, const char *prefix, const char *title) {
  for (int i = 0; i < ls_profile_curve_count(profile); i++) {
    const ls_curve_point_t *points;
    char size[24];
    int count;
    const char *key = ls_profile_curve_at(profile, i, &points, &count);
    if (strncmp(key, prefix, strlen(prefix)) != 0) continue;
    print_title(&title);
    cli_print("  %-22s", key + strlen(prefix));
    for (int k = 0; k < count; k++)
      cli_print("  %s %.1f GB/s", size_text(points[k].bytes, size), points[k].bytes / points[k].time.ns);
    cli_print("\n");
  }
}

static void show_times(const ls_profile_t *profile, const char *prefix, const char *what) {
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t t;
    const char *key = ls_profile_time_at(profile, i, &t);
    if (strncmp(key, prefix, strlen(prefix)) != 0) continue;
    cli_print("  %-38s %10s  (90 %%: %s to %s)  %s\n", key, cli_time(t.ns), cli_time(t.low_ns),
              cli_time(t.high_ns), what);
  }
}

/* A line for each time of a kind of key. */
static void show_kind(const ls_profile_t *profile, ls_key_what_t what, const char *title,
                      void (*show)(const ls_profile_key_t *key, const ls_time_t *time)) {
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t t;
    char words[LS_PROFILE_KEY_BYTES];
    ls_profile_key_t key;
    if (!ls_profile_key_read(ls_profile_time_at(profile, i, &t), what, words, &key)) continue;
    print_title(&title);
    show(&key, &t);
  }
}

static void show_contention(const ls_profile_key_t *key, const ls_time_t *t) {
  cli_print("  %d ranks x %d thread%s %s   %s-bound  %.2fx  (90 %%: %.2fx to %.2fx)\n", key->ranks,
            key->threads, key->threads == 1 ? " " : "s", key->backend, key->name, t->ns, t->low_ns,
            t->high_ns);
}

static void show_memory(const ls_profile_key_t *key, const ls_time_t *t) {
  cli_print("  %s, %d rank%s %*s %s\n", key->backend, key->ranks, LS_PLURAL(key->ranks),
            key->ranks == 1 ? 13 : 12, "", cli_bytes((int64_t)t->ns));
}

/* One table per transport and world size: sizes down, collectives across. */
static void show_collectives(const ls_profile_t *profile) {
  static const char *const kinds[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
  static const double sizes[] = {64, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  for (int t = 0; ls_transports[t]; t++)
    for (int ranks = 2; ranks <= CLI_PROBE_RANKS_MAX; ranks++) {
      char key[LS_PROFILE_KEY_BYTES], transport[LS_TRANSPORT_KEY_BYTES], size[24];
      const ls_curve_point_t *points;
      ls_transport_key(ls_transports[t], transport);
      ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, transport, kinds[0], ranks});
      if (ls_profile_curve(profile, key, &points) == 0) continue;
      cli_print("\ncollectives, %s, %d ranks\n  %-10s", ls_transports[t]->name, ranks, "");
      for (int k = 0; k < LS_COUNT(kinds); k++)
        cli_print(" %15s", kinds[k]);
      for (int s = 0; s < LS_COUNT(sizes); s++) {
        cli_print("\n  %-10s", size_text(sizes[s], size));
        for (int k = 0; k < LS_COUNT(kinds); k++) {
          ls_time_t time;
          ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, transport, kinds[k], ranks});
          cli_print(" %15s", ls_profile_interpolate(profile, key, sizes[s], &time) ? cli_time(time.ns) : "-");
        }
      }
      cli_print("\n");
    }
}

static void show_profile(const cli_probe_t *probe) {
  const ls_profile_t *profile = probe->profile;
  show_products(profile);
  show_rates(profile, "memory ", "memory, read and written by an accumulating pass");
  show_rates(profile, "copy-in ", "copies from the host");
  show_rates(profile, "copy-out ", "copies to the host");
  show_rates(profile, "device-copy ", "copies between GPUs, one pair at a time");
  cli_print("\noverheads\n");
  show_times(profile, "launch ", "one small op");
  show_times(profile, "hand-over ", "to another lane and back");
  show_times(profile, "device-copy ", "64 MiB from each GPU at once");
  show_kind(profile, LS_KEY_CONTENTION, "slow-down when all ranks compute at once", show_contention);
  show_collectives(profile);
  show_kind(profile, LS_KEY_LIBRARIES,
            "memory that libraries take in a rank's process, beside what is trained", show_memory);
}

void cli_probe_show(const cli_probe_t *probe) {
  double busy = probe->profile ? ls_profile_busy(probe->profile) : 0;
  if (busy > 0) cli_print("measured while other programs took %.0f %% of the processors\n\n", 100 * busy);
  char *drawing = ls_machine_draw(&probe->machine);
  if (drawing) cli_print("%s", drawing);
  ls_free(drawing);
  if (probe->profile) show_profile(probe);
  if (probe->note_count) cli_print("\nnot measured\n");
  for (int i = 0; i < probe->note_count; i++)
    cli_print("  %s\n", probe->note[i]);
  cli_print("\ndoctor: %s\n", probe->finding_count ? "" : "nothing found");
  for (int i = 0; i < probe->finding_count; i++) {
    const ls_finding_t *f = &probe->finding[i];
    cli_print("  %-7s %s: %s -> %s\n", ls_severity_name(f->severity), f->id, f->evidence, f->remedy);
  }
  if (probe->path) cli_print("\nprofile of %.1f s saved: %s\n", probe->wall_s, cli_shown(probe->path));
  if (probe->kept) cli_print("kept: %s\n", probe->kept);
}

void cli_probe_json(const cli_probe_t *probe) {
  char hex[17];
  json_t *doctor = json_array(), *notes = json_array();
  ls_machine_fingerprint(&probe->machine, hex);
  for (int i = 0; i < probe->finding_count; i++) {
    const ls_finding_t *f = &probe->finding[i];
    json_array_append_new(doctor, json_pack("{s:s, s:s, s:s, s:s}", "id", f->id, "severity",
                                            ls_severity_name(f->severity), "evidence", f->evidence, "remedy",
                                            f->remedy));
  }
  for (int i = 0; i < probe->note_count; i++)
    json_array_append_new(notes, ls_json_text(probe->note[i]));
  cli_print_json(json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "command", "probe", "fingerprint", hex,
                           "machine", ls_machine_json(&probe->machine), "profile",
                           probe->profile ? ls_profile_json(probe->profile) : json_null(), "path",
                           probe->path ? ls_json_text(probe->path) : json_null(), "wall_s",
                           ls_json_number(probe->wall_s), "doctor", doctor, "not_measured", notes));
}
