/* The rounds: every rank drives its own device; between rounds all meet, transfer, and agree whether to go on. */
#include "machine/gpu_sampler.h"
#include "machine/load.h"
#include "stress/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A round: one precision's products, then a sweep over memory for this share of it, then transfers. */
static const double chain_ns = 100e6, round_s = 2, sweep_share = 0.15, look_s = 0.2;

/* Readings of sensors while one precision ran. */
typedef struct {
  double clock_sum;
  int64_t clocks, reasons;
} seen_t;

typedef struct {
  ls_ctx_t *ctx;
  ls_comm_t *control;
  const ls_stress_options_t *o;
  ls_chain_t *chain[LS_STRESS_PRECISIONS];
  int chain_count;
  seen_t seen[LS_STRESS_PRECISIONS];
  ls_stress_fill_t *fill;
  ls_links_t *links;
  ls_stress_host_t *host;
  ls_network_t *network;
  ls_device_t *device; /* of its own where nothing is multiplied; else the first chain's */
  bool plant_product, plant_memory;
  ls_gpu_live_t *gpu;
  ls_gpu_sampler_t *sampler;
  ls_load_t load;
  double busy_sum, nvml_sum, busy_s, nvml_s; /* ratios times seconds, and these */
  double looked_s;
  double own_share, all_share; /* of the processors' time in the newest round: of this process, of all */
  double ecc_before;
  int64_t begin_ns;
  ls_stress_device_t own;
} run_t;

/* ---- opening ---- */

static ls_status_t open_chains(run_t *s) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < LS_STRESS_PRECISIONS && status == LS_OK; i++) {
    status = ls_chain_open(s->ctx, s->o, i, &s->chain[s->chain_count]);
    if (s->chain[s->chain_count]) s->chain_count++;
  }
  return status;
}

/* Equal devices multiply chains of equal lengths: that of the lowest rank among them. */
static ls_status_t agree_lengths(run_t *s) {
  typedef struct {
    char name[64];
    int64_t length[LS_STRESS_PRECISIONS];
  } wish_t;
  wish_t own = {.length = {0}}, *all = ls_alloc_array(s->ctx, (size_t)s->control->size, sizeof *all);
  ls_status_t status = all ? LS_OK : LS_ERR_MEMORY;
  if (s->chain_count > 0) snprintf(own.name, sizeof own.name, "%s", ls_chain_device(s->chain[0])->name);
  for (int i = 0; i < s->chain_count && status == LS_OK; i++)
    status = ls_chain_calibrate(s->chain[i], chain_ns, &own.length[i]);
  status = ls_comm_agree(s->control, "stress: first products", status);
  if (status == LS_OK) status = ls_comm_gather(s->control, "stress: chains", &own, sizeof own, all);
  for (int r = s->control->size - 1; r >= 0 && status == LS_OK; r--)
    if (!strcmp(all[r].name, own.name)) memcpy(own.length, all[r].length, sizeof own.length);
  for (int i = 0; i < s->chain_count; i++)
    ls_chain_set_length(s->chain[i], own.length[i] > 0 ? own.length[i] : 1);
  ls_free(all);
  return status;
}

static ls_status_t open_sensors(run_t *s) {
  const bool host = s->o->backend->host_processors;
  int gpus[LS_GPU_MAX];
  if (!host && s->o->index < LS_GPU_MAX &&
      ls_gpu_sampler_visible(getenv("CUDA_VISIBLE_DEVICES"), s->o->index + 1, gpus) > s->o->index)
    (void)ls_gpu_sampler_start(NULL, &gpus[s->o->index], 1, &s->sampler);
  return ls_gpu_live_open(s->ctx, host ? -1 : s->o->index, s->control->local_rank, &s->gpu);
}

static ls_status_t open_all(run_t *s) {
  const ls_stress_options_t *o = s->o;
  const ls_device_options_t device = {.index = o->index, .threads = o->threads};
  ls_status_t status =
      o->parts & LS_STRESS_COMPUTE ? open_chains(s) : o->backend->device->open(s->ctx, &device, &s->device);
  status = ls_comm_agree(s->control, "stress: opening the devices", status);
  ls_device_t *at = status == LS_OK && s->chain_count > 0 ? ls_chain_device(s->chain[0]) : s->device;
  if (status == LS_OK) status = agree_lengths(s);
  if (status == LS_OK && (o->parts & LS_STRESS_LINKS) && s->control->size > 1)
    status = ls_links_open(s->ctx, s->control, at, o, &s->links);
  if (status == LS_OK && o->network) status = ls_network_open(s->ctx, s->control, at, o, &s->network);
  if (status != LS_OK) return status;
  status = o->parts & LS_STRESS_MEMORY
               ? ls_fill_open(s->ctx, at, o->memory_share, s->control->local_size, o->stop, &s->fill)
               : LS_OK;
  status = ls_comm_agree(s->control, "stress: filling the memory", status); /* before others look at it */
  if (status == LS_OK)
    status = ls_comm_agree(s->control, "stress: filling the host's memory",
                           ls_host_open(s->ctx, s->control, o, &s->host));
  snprintf(s->own.name, sizeof s->own.name, "%s", at->name);
  snprintf(s->own.backend, sizeof s->own.backend, "%s", o->backend->name);
  s->own.threads = o->backend->host_processors ? o->threads : 0;
  return status;
}

static void close_all(run_t *s) {
  ls_host_close(s->host);
  ls_fill_close(s->fill);
  ls_network_close(s->network);
  ls_links_close(s->links);
  for (int i = 0; i < s->chain_count; i++)
    ls_chain_close(s->chain[i]);
  if (s->device) s->o->backend->device->close(s->device);
  ls_gpu_sampler_stop(s->sampler);
  ls_gpu_live_close(s->gpu);
}

/* ---- a round ---- */

static double elapsed_s(const run_t *s) {
  return 1e-9 * (double)(ls_clock_ns() - s->begin_ns);
}

static bool stopping(const run_t *s) {
  return s->o->stop && s->o->stop();
}

static void limited(int64_t *all, int64_t reasons) {
  if (reasons > 0) *all = reasons | (*all > 0 ? *all : 0);
}

static void take_sensors(run_t *s, seen_t *seen) {
  ls_gpu_now_t now;
  ls_stress_device_t *d = &s->own;
  ls_gpu_live_read(s->gpu, false, &now);
  d->temperature_c = fmax(d->temperature_c, now.temperature_c);
  d->power_w = fmax(d->power_w, now.power_w);
  d->clock_mhz = fmin(d->clock_mhz, now.clock_mhz);
  if (isnan(s->ecc_before)) s->ecc_before = now.ecc_uncorrected;
  d->device_errors = (int64_t)(fmax(0, now.xid_errors) + fmax(0, now.ecc_uncorrected - s->ecc_before));
  const int64_t reasons = (now.power_limited > 0 ? LS_STRESS_POWER : 0) |
                          (now.heat_limited > 0 ? LS_STRESS_HEAT : 0) |
                          (now.brake_limited > 0 ? LS_STRESS_BRAKE : 0);
  limited(&d->throttle_reasons, reasons);
  if (seen) limited(&seen->reasons, reasons);
  if (seen && now.clock_mhz > 0 && now.clock_most_mhz > 0) {
    seen->clock_sum += now.clock_mhz / now.clock_most_mhz;
    seen->clocks++;
  }
  s->looked_s = elapsed_s(s);
}

/* Chains of one precision. Another one is always on the device while the host looks at the oldest. */
static ls_status_t compute(run_t *s, int which, double until_s) {
  enum { LEAST = 2 }; /* one, and one that is compared with it */
  ls_chain_t *c = s->chain[which];
  ls_event_t *last = NULL;
  ls_status_t status = LS_OK;
  for (int issued = 0; status == LS_OK;) {
    const bool more = !stopping(s) && (elapsed_s(s) < until_s || issued < LEAST);
    if (more && ls_chain_under_way(c) < LS_CHAIN_SETS) {
      status = ls_chain_issue(c, s->plant_product && issued == 1, &last);
      if (issued++ == 1) s->plant_product = false;
    } else if (ls_chain_under_way(c) > 0) {
      status = ls_chain_collect(c);
      if (elapsed_s(s) - s->looked_s > look_s) take_sensors(s, &s->seen[which]);
    } else {
      break;
    }
  }
  return status;
}

static double device_busy_s(const run_t *s) {
  double ns = s->fill ? ls_fill_busy_ns(s->fill) : 0;
  for (int i = 0; i < s->chain_count; i++)
    ns += ls_chain_busy_ns(s->chain[i]);
  return 1e-9 * ns;
}

/* Products and a sweep. Utilization counts meanwhile: transfers are waits. */
static ls_status_t one_round(run_t *s, int which, double until_s) {
  ls_gpu_sampler_report_t sampled;
  ls_load_t end;
  const double begin_s = elapsed_s(s), before_s = device_busy_s(s);
  const double sweep_s = (until_s - begin_s) * (s->chain_count == 0 ? 1 : s->fill ? sweep_share : 0);
  ls_gpu_sampler_begin(s->sampler);
  ls_load_read(NULL, &s->load);
  ls_status_t status = s->chain_count > 0 ? compute(s, which, until_s - sweep_s) : LS_OK;
  if (status == LS_OK && s->fill) status = ls_fill_sweep(s->fill, (int64_t)(sweep_s * 1e9), &s->plant_memory);
  while (status == LS_OK && s->chain_count == 0 && !s->fill && !s->links && elapsed_s(s) < until_s &&
         !stopping(s)) /* the host's loads alone */
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  const double s_long = elapsed_s(s) - begin_s;
  ls_load_read(NULL, &end);
  ls_gpu_sampler_end(s->sampler, &sampled);
  take_sensors(s, NULL); /* may take a while, in which nothing computes */
  ls_stress_device_t *d = &s->own;
  double busy = (double)(end.busy_ticks - s->load.busy_ticks) / (double)(end.all_ticks - s->load.all_ticks);
  s->own_share = busy - ls_load_others(&s->load, &end);
  s->all_share = busy;
  if (!s->o->backend->host_processors) busy = (device_busy_s(s) - before_s) / s_long;
  limited(&d->throttle_reasons, sampled.throttle_reasons);
  if (s->chain_count > 0) limited(&s->seen[which].reasons, sampled.throttle_reasons);
  if (!isnan(busy) && s_long > 0) {
    s->busy_sum += busy * s_long;
    s->busy_s += s_long;
    d->busy_ratio = s->busy_sum / s->busy_s;
  }
  if (!isnan(sampled.busy_percent)) {
    s->nvml_sum += 1e-2 * sampled.busy_percent * s_long;
    s->nvml_s += s_long;
    d->nvml_ratio = s->nvml_sum / s->nvml_s;
  }
  return status;
}

/* Measures the processors' time that other programs took. A rank on processors has some of its own; ranks on other devices
 * share all processors, and do not count each other as other programs. */
static ls_status_t count_others(run_t *s) {
  double own = s->own_share, *seen = &s->own.others_ratio;
  ls_status_t status = LS_OK;
  if (!s->o->backend->host_processors && s->control->local_size == s->control->size && s->control->size > 1)
    status = ls_comm_sum_f64(s->control, "stress: load", &own, 1);
  const double others = fmax(s->all_share - own, 0);
  if (!isnan(s->all_share - own)) *seen = isnan(*seen) ? others : fmax(*seen, others);
  return status;
}

static int64_t fill_report(run_t *s) {
  ls_stress_device_t *d = &s->own;
  int64_t faults = 0;
  d->product_count = s->chain_count;
  for (int i = 0; i < s->chain_count; i++) {
    ls_chain_report(s->chain[i], s->o, s->control->local_size, &d->product[i]);
    d->product[i].clock_ratio =
        s->seen[i].clocks > 0 ? s->seen[i].clock_sum / (double)s->seen[i].clocks : (double)NAN;
    d->product[i].throttle_reasons = s->seen[i].reasons;
    faults += d->product[i].wrong;
  }
  if (s->fill) ls_fill_report(s->fill, &d->memory);
  return faults + d->memory.wrong;
}

/* Precisions take turns, each at least once. */
static ls_status_t rounds(run_t *s, double until_s) {
  ls_status_t status = LS_OK;
  const int turns = s->chain_count > 0 ? s->chain_count : 1;
  const double each_s = fmin(round_s, until_s / turns);
  for (int round = 0, again = until_s > 0; again && status == LS_OK; round++) {
    const double left_s = until_s - elapsed_s(s);
    status = one_round(s, round % turns, elapsed_s(s) + fmin(each_s, fmax(left_s, 0)));
    status = ls_comm_agree(s->control, "stress: a round", status);
    if (status == LS_OK) status = count_others(s);
    if (status == LS_OK && s->links) status = ls_links_round(s->links);
    if (s->control->rank == 0 && status == LS_OK && s->o->round) {
      int64_t faults = fill_report(s);
      s->o->round(s->o->user, elapsed_s(s), &s->own, faults);
    }
    again = (elapsed_s(s) < until_s || round + 1 < turns) && !stopping(s);
    if (status == LS_OK) status = ls_comm_broadcast(s->control, "stress: go on", &again, sizeof again, 0);
  }
  return status;
}

/* The network has the last third of the time, or all of it. Collective: any rank's signal ends it for all. */
static ls_status_t train(run_t *s) {
  ls_gpu_sampler_report_t sampled;
  double left_s = stopping(s) ? 0 : fmax(s->o->seconds - elapsed_s(s), 0.1);
  ls_status_t status = ls_comm_broadcast(s->control, "stress: network", &left_s, sizeof left_s, 0);
  if (status != LS_OK || left_s <= 0) return status;
  ls_gpu_sampler_begin(s->sampler);
  status = ls_network_run(s->network, left_s);
  take_sensors(s, NULL);
  ls_gpu_sampler_end(s->sampler, &sampled);
  limited(&s->own.throttle_reasons, sampled.throttle_reasons);
  ls_network_report(s->network, &s->own.network);
  s->own.network.nvml_ratio = 1e-2 * sampled.busy_percent;
  return status;
}

static ls_status_t tell_begin(run_t *s) {
  ls_stress_device_t *all = ls_alloc_array(s->ctx, (size_t)s->control->size, sizeof *all);
  ls_status_t status = ls_comm_agree(s->control, "stress: devices", all ? LS_OK : LS_ERR_MEMORY);
  fill_report(s);
  ls_host_report(s->host, &s->own);
  if (s->network) ls_network_report(s->network, &s->own.network);
  if (status == LS_OK) status = ls_comm_gather(s->control, "stress: devices", &s->own, sizeof s->own, all);
  if (status == LS_OK && s->o->begin) s->o->begin(s->o->user, s->control, all, s->control->size);
  ls_free(all);
  return status;
}

static ls_status_t burn(run_t *s) {
  const double share = !s->network ? 1 : s->o->parts ? 2 / 3.0 : 0;
  ls_status_t status = tell_begin(s);
  s->begin_ns = ls_clock_ns();
  if (status == LS_OK)
    status = ls_comm_agree(s->control, "stress: loads of the host", ls_host_start(s->host));
  if (status == LS_OK) status = rounds(s, share * s->o->seconds);
  if (status == LS_OK && s->network) status = train(s);
  if (status == LS_OK && s->network && s->fill) /* what training has left of it */
    status = ls_fill_sweep(s->fill, (int64_t)(sweep_share * round_s * 1e9), &s->plant_memory);
  ls_status_t host = ls_host_stop(s->host);
  if (status == LS_OK) status = ls_comm_agree(s->control, "stress: loads of the host", host);
  ls_host_report(s->host, &s->own);
  return status;
}

/* ---- the whole ---- */

typedef struct {
  ls_stress_report_t base;
  ls_stress_device_t *device;
  ls_stress_link_t *link;
} report_t;

void ls_stress_release(ls_stress_report_t *report) {
  if (!report) return;
  report_t *r = (report_t *)report;
  ls_free(r->device);
  ls_free(r->link);
  ls_free(r);
}

static ls_status_t gather(run_t *s, report_t *r) {
  const int size = s->control->size, links = s->links ? ls_links_count(size) : 0;
  ls_status_t status = LS_OK;
  for (int i = 0; i < s->chain_count && status == LS_OK; i++)
    status = ls_chain_hash(s->chain[i]);
  fill_report(s);
  r->device = ls_alloc_array(s->ctx, (size_t)size, sizeof *r->device);
  r->link = ls_alloc_array(s->ctx, (size_t)links + 1, sizeof *r->link);
  if (!r->device || !r->link) status = LS_ERR_MEMORY;
  status = ls_comm_agree(s->control, "stress: results", status);
  if (status == LS_OK)
    status = ls_comm_gather(s->control, "stress: results", &s->own, sizeof s->own, r->device);
  if (status == LS_OK && links) status = ls_links_report(s->links, r->link);
  if (status != LS_OK) return status;
  r->base = (ls_stress_report_t){r->device, size, r->link, links, elapsed_s(s), stopping(s), LS_SOUND};
  ls_stress_judge(&r->base, r->device, r->link);
  return LS_OK;
}

ls_status_t ls_stress_run(ls_ctx_t *ctx, ls_comm_t *control, const ls_stress_options_t *options,
                          ls_stress_report_t **report) {
  const ls_plant_t *plant = &options->plant;
  run_t *s = ls_alloc(ctx, sizeof *s);
  report_t *r = ls_alloc(ctx, sizeof *r);
  ls_status_t status = s && r ? LS_OK : LS_ERR_MEMORY;
  status = ls_comm_agree(control, "stress", status);
  if (status != LS_OK) goto done;
  s->ctx = ctx;
  s->control = control;
  s->o = options;
  s->ecc_before = NAN;
  s->plant_product = plant->kind == LS_PLANT_PRODUCT && plant->a == control->rank;
  s->plant_memory = plant->kind == LS_PLANT_MEMORY && plant->a == control->rank;
  s->own = (ls_stress_device_t){.rank = control->rank,
                                .busy_ratio = NAN,
                                .nvml_ratio = NAN,
                                .others_ratio = NAN,
                                .temperature_c = NAN,
                                .power_w = NAN,
                                .clock_mhz = NAN,
                                .throttle_reasons = -1};
  gethostname(s->own.host, sizeof s->own.host - 1);
  status = ls_comm_agree(control, "stress: sensors", open_sensors(s));
  if (status == LS_OK) status = open_all(s);
  if (status == LS_OK) status = burn(s);
  if (status == LS_OK) status = gather(s, r);
  close_all(s);
done:
  ls_free(s);
  if (status == LS_OK)
    *report = &r->base;
  else
    ls_stress_release(r ? &r->base : NULL);
  return status;
}
