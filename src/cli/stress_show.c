/* Prints the devices, rounds and verdicts of lockstep stress. */
#include "cli/stress.h"

#include <math.h>

/* Until here a message that all ranks have is printed once. */
void cli_stress_begin(void *user, ls_comm_t *control, const ls_stress_device_t *device, int count) {
  const cli_args_t *args = user;
  ls_world_t world = {.comm = control};
  cli_messages_settle(args->messages, &world);
  if (args->json || args->quiet || control->rank > 0) return;
  for (int i = 0; i < count; i++) {
    const ls_stress_device_t *d = &device[i];
    cli_print("rank %d: %s on %s", d->rank, d->name, d->host);
    for (int k = 0; k < d->product_count; k++)
      printf("%s%s", k ? ", " : ": products in ", d->product[k].name);
    const ls_stress_memory_t *m[] = {&d->memory, &d->host_memory};
    for (int k = 0; k < LS_COUNT(m); k++)
      if (m[k]->bytes > 0)
        printf("; %s %lld MB in use before, now %lld/%lld MB (%.1f %%)", k ? "host" : "memory",
               (long long)(m[k]->before_bytes >> 20), (long long)(m[k]->used_bytes >> 20),
               (long long)(m[k]->bytes >> 20), 100 * (double)m[k]->used_bytes / (double)m[k]->bytes);
    putchar('\n');
  }
  const ls_stress_network_t *n = &device[0].network;
  if (n->name[0])
    printf("network %s: %s parameters, batch %lld on %d rank%s\n", n->name, cli_count(n->params),
           (long long)n->batch, count, LS_PLURAL(count));
  putchar('\n');
  fflush(stdout);
}

void cli_stress_round(void *user, double seconds, const ls_stress_device_t *d, int64_t faults) {
  const cli_args_t *args = user;
  if (args->json || args->quiet) return;
  printf("%7.1f s", seconds);
  for (int k = 0; k < d->product_count; k++)
    if (d->product[k].count > 0)
      printf("  %s %.1f GFLOP/s", d->product[k].name, d->product[k].flops / d->product[k].ns);
  if (d->product_count > 0) printf("  busy %.1f %%", 100 * d->busy_ratio);
  if (d->memory.bytes > 0)
    printf("  memory %lld/%lld MB (%.1f %%), %s checked", (long long)(d->memory.used_bytes >> 20),
           (long long)(d->memory.bytes >> 20), 100 * (double)d->memory.used_bytes / (double)d->memory.bytes,
           cli_bytes(d->memory.checked_bytes));
  if (!isnan(d->temperature_c)) printf("  %.0f C %.0f W", d->temperature_c, d->power_w);
  printf("  %lld fault%s\n", (long long)faults, LS_PLURAL(faults));
  fflush(stdout);
}

static const char *ratio(double value, char text[16]) {
  if (isnan(value)) return "-";
  snprintf(text, 16, "%.1f %%", 100 * value);
  return text;
}

static void show_product(const ls_stress_product_t *p) {
  char text[16], capped[16];
  const double plain = p->burst_ns / p->ns, share = ls_stress_share(p);
  printf("  products %-5s  %lld x %lld x %lld, chains of %lld: %.1f GFLOP/s, %s of what %s", p->name,
         (long long)p->rows, (long long)p->width, (long long)p->width, (long long)p->length, p->flops / p->ns,
         ratio(plain, text), p->from_profile ? "probe measured" : "they reached at the start");
  if (share > 1.005 * plain)
    printf(", %s at the %.0f %% of the clock that the power cap leaves", ratio(share, capped),
           100 * p->clock_ratio);
  printf(" (target %.0f %%); %s products, %lld wrong chain%s\n", 100 * ls_stress_targets.rate,
         cli_count(p->count), (long long)p->wrong, LS_PLURAL(p->wrong));
}

static void show_memory(const ls_stress_memory_t *m, const char *name) {
  if (m->bytes == 0) return;
  printf("  %s     %lld/%lld MB (%.1f %%, target %.1f %%); %s checked, %lld wrong word%s\n", name,
         (long long)(m->used_bytes >> 20), (long long)(m->bytes >> 20),
         100 * (double)m->used_bytes / (double)m->bytes, 100 * (double)m->want_bytes / (double)m->bytes,
         cli_bytes(m->checked_bytes), (long long)m->wrong, LS_PLURAL(m->wrong));
}

static void show_disk(const ls_stress_disk_t *k) {
  if (!k->dir[0]) return;
  printf("  disk            %s, a file of %s, %s: ", k->dir, cli_bytes(k->bytes),
         k->direct ? "past the page cache" : "through the page cache");
  if (k->checked_bytes > 0)
    printf("written at %.1f MB/s, read at %.1f MB/s; ", 1e-6 * k->write_bytes_per_s,
           1e-6 * k->read_bytes_per_s);
  printf("%s checked, %lld wrong word%s\n", cli_bytes(k->checked_bytes), (long long)k->wrong,
         LS_PLURAL(k->wrong));
}

static void show_network(const ls_stress_network_t *n) {
  char text[16];
  if (!n->name[0]) return;
  printf(
      "  network         %s, %s parameters, batch %lld: %lld steps, %.2f steps/s, loss %.6g -> %.6g, %s, %s",
      n->name, cli_count(n->params), (long long)n->batch, (long long)n->steps, n->steps_per_s, n->loss_first,
      n->loss, n->finite ? "finite" : "NOT FINITE", n->same ? "the same on all ranks" : "NOT THE SAME");
  if (!isnan(n->nvml_ratio)) printf("; NVML: %s", ratio(n->nvml_ratio, text));
  putchar('\n');
}

static void show_device(const ls_stress_device_t *d) {
  char text[16], reasons[128];
  cli_print("\nrank %d: %s on %s: %s%s%s\n", d->rank, d->name, d->host, ls_stress_verdict_names[d->verdict],
            d->why[0] ? ": " : "", d->why);
  for (int k = 0; k < d->product_count; k++)
    if (d->product[k].count > 0) show_product(&d->product[k]);
  if (d->product_count > 0) {
    printf("  utilization     %s (target %.0f %%)", ratio(d->busy_ratio, text),
           100 * ls_stress_targets.utilization);
    if (!isnan(d->nvml_ratio)) printf("; NVML: %s", ratio(d->nvml_ratio, text));
    putchar('\n');
  }
  show_memory(&d->memory, "memory     ");
  show_memory(&d->host_memory, "host memory");
  show_disk(&d->disk);
  show_network(&d->network);
  if (!isnan(d->temperature_c)) printf("  highest         %.0f C, %.0f W\n", d->temperature_c, d->power_w);
  if (d->throttle_reasons > 0)
    printf("  clocks limited  %s\n", ls_stress_reasons(d->throttle_reasons, reasons));
  if (d->others_ratio >= 0.01)
    printf("  other programs  took up to %s of the processors\n", ratio(d->others_ratio, text));
}

static void show_links(const ls_stress_report_t *r) {
  if (r->link_count) printf("\ntransfers\n");
  for (int i = 0; i < r->link_count; i++) {
    const ls_stress_link_t *l = &r->link[i];
    char name[32] = "all ranks", text[16];
    if (l->from >= 0) snprintf(name, sizeof name, "rank %d to %d", l->from, l->to);
    printf("  %-14s  %s: %.2f GB/s, %s of what %s; %lld, %lld wrong: %s\n", name,
           cli_bytes((int64_t)l->bytes), l->bytes / l->ns, ratio(l->want_ns / l->ns, text),
           l->from_profile ? "probe measured" : "the other pairs reach", (long long)l->count,
           (long long)l->wrong, ls_stress_verdict_names[l->verdict]);
  }
}

void cli_stress_show(const ls_stress_report_t *r, const cli_args_t *args) {
  if (args->json) {
    cli_print_json(ls_stress_json(r));
    return;
  }
  for (int i = 0; i < r->device_count; i++)
    show_device(&r->device[i]);
  show_links(r);
  printf("\nafter %.1f s%s: %s\n", r->seconds, r->interrupted ? ", interrupted" : "",
         r->interrupted && r->verdict == LS_SOUND ? "nothing wrong until then"
                                                  : ls_stress_verdict_names[r->verdict]);
}
