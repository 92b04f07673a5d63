/* The results of probe, as tables for people and as one JSON document. */
#include "cli/probe.h"
#include "comm/transport.h"
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCTS_MAX = 256, COLUMNS_MAX = 6, LINES_MAX = 64 };

/* "12.3 us", always 10 columns. */
typedef struct {
  char text[24];
} cell_t;

static cell_t time_cell(double ns) {
  cell_t c;
  if (ns < 1e3)
    snprintf(c.text, sizeof c.text, "%.0f ns", ns);
  else if (ns < 1e6)
    snprintf(c.text, sizeof c.text, "%.1f us", ns / 1e3);
  else if (ns < 1e9)
    snprintf(c.text, sizeof c.text, "%.2f ms", ns / 1e6);
  else
    snprintf(c.text, sizeof c.text, "%.2f s", ns / 1e9);
  return c;
}

static cell_t size_cell(double bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  cell_t c;
  int unit = 0;
  for (; bytes >= 1024 && unit < LS_COUNT(units) - 1; unit++)
    bytes /= 1024;
  snprintf(c.text, sizeof c.text, "%.0f %s", bytes, units[unit]);
  return c;
}

typedef struct {
  char backend[LS_BACKEND_KEY_BYTES]; /* with its precision: "cuda tf32" */
  const ls_op_t *op;
  int threads;
  int64_t a, b, c, d; /* first and second input */
  ls_time_t time;
} product_t;

static double flops(const product_t *p) {
  const ls_shape_t in[LS_NODE_IN_MAX] = {LS_SHAPE(LS_F32, p->a, p->b), LS_SHAPE(LS_F32, p->c, p->d)};
  return (double)ls_op_flops(p->op, NULL, in, NULL);
}

static bool read_product(const char *key, product_t *p) {
  char words[LS_PROFILE_KEY_BYTES];
  ls_profile_key_t k;
  if (!ls_profile_key_read(key, LS_KEY_OP, words, &k)) return false;
  const ls_op_t *op = ls_op_find(k.name);
  *p = (product_t){.op = op,
                   .threads = k.threads,
                   .a = k.dim[0],
                   .b = k.dim[1],
                   .c = k.dim[2],
                   .d = k.dim[3],
                   .time = p->time};
  snprintf(p->backend, sizeof p->backend, "%s", k.backend);
  return op && op->class == LS_OP_PRODUCT && p->a > 0;
}

static int collect_products(const ls_profile_t *profile, product_t *products) {
  int count = 0;
  for (int i = 0; i < ls_profile_time_count(profile) && count < PRODUCTS_MAX; i++) {
    product_t *p = &products[count];
    const char *key = ls_profile_time_at(profile, i, &p->time);
    count += read_product(key, p);
  }
  return count;
}

static bool same_line(const product_t *x, const product_t *y) {
  return x->op == y->op && x->a == y->a && x->b == y->b && x->c == y->c && x->d == y->d;
}

static bool same_column(const product_t *x, const product_t *y) {
  return !strcmp(x->backend, y->backend) && x->threads == y->threads;
}

static int order(const void *left, const void *right) {
  const product_t *x = left, *y = right;
  int by_op = strcmp(x->op->name, y->op->name);
  if (by_op) return by_op;
  if (x->b != y->b) return x->b < y->b ? -1 : 1;
  if (x->a != y->a) return x->a < y->a ? -1 : 1;
  int by_backend = strcmp(x->backend, y->backend);
  return by_backend ? by_backend : (x->threads > y->threads) - (x->threads < y->threads);
}

static void show_products(const ls_profile_t *profile) {
  static product_t products[PRODUCTS_MAX];
  const product_t *column[COLUMNS_MAX];
  int count = collect_products(profile, products), columns = 0;
  if (count == 0) return;
  qsort(products, (size_t)count, sizeof *products, order);
  for (int i = 0; i < count && columns < COLUMNS_MAX; i++) {
    bool known = false;
    for (int c = 0; c < columns && !known; c++)
      known = same_column(&products[i], column[c]);
    if (!known) column[columns++] = &products[i];
  }
  cli_print("\nmatrix products, f32, GFLOP/s (rows x width, square layers)\n  %-26s", "");
  for (int c = 0; c < columns; c++) {
    char name[LS_BACKEND_KEY_BYTES + 16];
    snprintf(name, sizeof name, "%s t%d", column[c]->backend, column[c]->threads);
    cli_print(" %12s", name);
  }
  for (int i = 0, end; i < count; i = end) {
    cli_print("\n  %-11s %5lld x %-6lld", products[i].op->name, (long long)products[i].a,
              (long long)products[i].b);
    for (end = i; end < count && same_line(&products[end], &products[i]);)
      end++;
    for (int c = 0; c < columns; c++) {
      const product_t *found = NULL;
      for (int k = i; k < end; k++)
        if (same_column(&products[k], column[c])) found = &products[k];
      if (found)
        cli_print(" %12.1f", flops(found) / found->time.ns);
      else
        cli_print(" %12s", "-");
    }
  }
  cli_print("\n");
}

/* Rates of a curve over bytes, one line per key: "memory cpu t1   48 KiB 12.3 GB/s ...". */
static void show_rates(const ls_profile_t *profile, const char *prefix, const char *title) {
  bool any = false;
  for (int i = 0; i < ls_profile_curve_count(profile); i++) {
    const ls_curve_point_t *points;
    int count;
    const char *key = ls_profile_curve_at(profile, i, &points, &count);
    if (strncmp(key, prefix, strlen(prefix)) != 0) continue;
    if (!any) cli_print("\n%s\n", title);
    any = true;
    cli_print("  %-22s", key + strlen(prefix));
    for (int k = 0; k < count; k++)
      cli_print("  %s %.1f GB/s", size_cell(points[k].bytes).text, points[k].bytes / points[k].time.ns);
    cli_print("\n");
  }
}

static void show_times(const ls_profile_t *profile, const char *prefix, const char *title) {
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t t;
    const char *key = ls_profile_time_at(profile, i, &t);
    if (strncmp(key, prefix, strlen(prefix)) != 0) continue;
    cli_print("  %-38s %10s  (90 %%: %s to %s)%s%s\n", key, time_cell(t.ns).text, time_cell(t.low_ns).text,
              time_cell(t.high_ns).text, *title ? "  " : "", title);
  }
}

static void show_crowd(const ls_profile_t *profile) {
  bool any = false;
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t t;
    char words[LS_PROFILE_KEY_BYTES];
    ls_profile_key_t key;
    if (!ls_profile_key_read(ls_profile_time_at(profile, i, &t), LS_KEY_CROWD, words, &key)) continue;
    if (!any) cli_print("\nslow-down when all ranks compute at once\n");
    any = true;
    cli_print("  %d ranks x %d thread%s %s   %s-bound  %.2fx  (90 %%: %.2fx to %.2fx)\n", key.ranks,
              key.threads, key.threads == 1 ? " " : "s", key.backend, key.name, t.ns, t.low_ns, t.high_ns);
  }
}

/* One table per transport and world size: sizes down, collectives across. */
static void show_collectives(const ls_profile_t *profile) {
  static const char *const kinds[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast"};
  static const double sizes[] = {64, 4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  for (int t = 0; ls_transports[t]; t++)
    for (int ranks = 2; ranks <= CLI_PROBE_RANKS_MAX; ranks++) {
      char key[LS_PROFILE_KEY_BYTES], transport[LS_TRANSPORT_KEY_BYTES];
      const ls_curve_point_t *points;
      ls_transport_key(ls_transports[t], transport);
      ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, transport, kinds[0], ranks});
      if (ls_profile_curve(profile, key, &points) == 0) continue;
      cli_print("\ncollectives, %s, %d ranks\n  %-10s", ls_transports[t]->name, ranks, "");
      for (int k = 0; k < LS_COUNT(kinds); k++)
        cli_print(" %15s", kinds[k]);
      for (int s = 0; s < LS_COUNT(sizes); s++) {
        cli_print("\n  %-10s", size_cell(sizes[s]).text);
        for (int k = 0; k < LS_COUNT(kinds); k++) {
          ls_time_t time;
          ls_profile_key(key, (ls_profile_key_t){LS_KEY_COLLECTIVE, transport, kinds[k], ranks});
          cli_print(" %15s",
                    ls_profile_interpolate(profile, key, sizes[s], &time) ? time_cell(time.ns).text : "-");
        }
      }
      cli_print("\n");
    }
}

static void show_memory(const ls_profile_t *profile) {
  bool any = false;
  for (int i = 0; i < ls_profile_time_count(profile); i++) {
    ls_time_t t;
    char words[LS_PROFILE_KEY_BYTES];
    ls_profile_key_t key;
    if (!ls_profile_key_read(ls_profile_time_at(profile, i, &t), LS_KEY_LIBRARIES, words, &key)) continue;
    if (!any) cli_print("\nmemory that libraries take in a rank's process, beside what is trained\n");
    any = true;
    cli_print("  %s, %d rank%s %*s %s\n", key.backend, key.ranks, LS_PLURAL(key.ranks),
              key.ranks == 1 ? 13 : 12, "", cli_bytes((int64_t)t.ns));
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
  show_crowd(profile);
  show_collectives(profile);
  show_memory(profile);
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

ls_status_t cli_probe_json(ls_ctx_t *ctx, const cli_probe_t *probe) {
  char hex[17];
  ls_machine_fingerprint(&probe->machine, hex);
  json_t *j = json_pack("{s:s, s:s}", "command", "probe", "fingerprint", hex), *doctor = json_array(),
         *notes = json_array();
  int failed = json_object_set_new(j, "machine", ls_machine_json(&probe->machine));
  failed |= json_object_set_new(j, "profile", probe->profile ? ls_profile_json(probe->profile) : json_null());
  failed |= json_object_set_new(j, "path", probe->path ? json_string(probe->path) : json_null());
  failed |= json_object_set_new(j, "wall_s", ls_json_number(probe->wall_s));
  for (int i = 0; i < probe->finding_count; i++) {
    const ls_finding_t *f = &probe->finding[i];
    failed |= json_array_append_new(doctor, json_pack("{s:s, s:s, s:s, s:s}", "id", f->id, "severity",
                                                      ls_severity_name(f->severity), "evidence", f->evidence,
                                                      "remedy", f->remedy));
  }
  for (int i = 0; i < probe->note_count; i++)
    failed |= json_array_append_new(notes, json_string(probe->note[i]));
  failed |= json_object_set_new(j, "doctor", doctor);
  failed |= json_object_set_new(j, "not_measured", notes);
  if (failed) {
    json_decref(j);
    return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the result's text");
  }
  cli_print_json(j);
  return LS_OK;
}
