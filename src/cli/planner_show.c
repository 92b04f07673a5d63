/* A plan on stdout: table, launch lines, the study's rules. */
#include "base/tool.h"
#include "cli/planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_row(ls_plan_t *plan, int i) {
  const ls_candidate_t *c = &plan->candidate[i];
  cli_print("%c %3d ", i != plan->choice ? ' ' : plan->busy_share > 0 ? '?' : '*', ls_candidate_devices(c));
  if (c->host)
    cli_print("x %-3d", ls_candidate_threads(c));
  else
    cli_print("%5s", "");
  cli_print(" %-7s", c->config.parallel.strategy);
  if (c->collectives > 0)
    cli_print(" %4d", c->collectives);
  else
    cli_print("    -");
  cli_print(" %5lld", (long long)(plan->shards ? plan->shards / ls_candidate_devices(c)
                                               : ls_config_batching(&c->config).micro_batches));
  if (!c->priced)
    cli_print(" %49s %12s %7s %6s %9s", "not priced", "", "", "", "");
  else
    cli_print(" %12.1f [%10.1f %10.1f ] %10.1f %12s", c->step.ns * 1e-3, c->step.low_ns * 1e-3,
              c->step.high_ns * 1e-3, c->mean.ns * 1e-3, cli_count(llround(c->samples_per_s)));
  if (c->priced && isfinite(c->speedup))
    cli_print(" %6.2fx %5.0f%%", c->speedup, 100 * c->efficiency);
  else if (c->priced)
    cli_print(" %7s %6s", "-", "-"); /* nothing was priced on one device, or the machine was busy */
  if (c->priced) cli_print(" %9.1f", c->exposed_ns * 1e-3);
  cli_print(" %10s%c %-4s", cli_bytes(c->library_assumed ? c->need.device_bytes : c->device_bytes),
            c->library_assumed ? '+' : ' ', c->fits ? "yes" : "NO");
  if (isfinite(c->epoch_s)) cli_print(" %9.2f", c->epoch_s);
  if (isfinite(c->epoch_kwh)) cli_print(" %9.4f", c->epoch_kwh);
  if (isfinite(c->epoch_cost)) cli_print(" %9.4f", c->epoch_cost);
  const char *choices = ls_plan_choices(&plan->arena, c);
  cli_print("%s\n", choices ? choices : "");
}

static void print_ownership(const ls_config_t *config, const ls_ownership_t *o, bool host) {
  if (!o->known) return;
  const char *currency = config->cost.currency;
  cli_print("\n  cost of ownership of %d devices against one, a month (predicted):\n", o->devices);
  if (host)
    cli_print(
        "    (here a device is a rank on this machine's own processors: device_price is asked for each)\n");
  const struct {
    const char *name;
    double money;
  } rows[] = {{"energy", o->energy_month},
              {"operation", o->overhead_month},
              {"hardware, written off", o->hardware_month},
              {"net", o->net_month}};
  cli_print("    %-32s %10.1f h, worth %.2f %s\n", "time saved", o->saved_hours_month, o->benefit_month,
            currency);
  for (int i = 0; i < LS_COUNT(rows); i++)
    cli_print("    %-32s %10.2f %s\n", rows[i].name, rows[i].money, currency);
  if (isinf(o->break_even_months))
    cli_print("    %-32s %10s", "break-even", "never");
  else
    cli_print("    %-32s %10.1f months", "break-even", o->break_even_months);
  cli_print("; %s\n", o->verdict);
}

static void print_purchases(const ls_config_t *config, const ls_plan_t *plan) {
  const char *currency = config->cost.currency;
  int shown = 0;
  for (int i = 0; i < plan->purchase_count; i++) {
    const ls_purchase_t *o = &plan->purchase[i];
    if (!o->helps) continue;
    if (shown++ == 0) cli_print("\n  what else would make it faster (predicted, most first):\n");
    cli_print("    %11.1f us %6.2fx %s", o->step_ns * 1e-3, o->speedup, o->what);
    if (isfinite(o->price)) cli_print("; %.2f %s", o->price, currency);
    if (isfinite(o->money_per_hour)) cli_print(", %.2f %s for each hour saved", o->money_per_hour, currency);
    if (isinf(o->break_even_months))
      cli_print(", never pays for itself");
    else if (isfinite(o->break_even_months))
      cli_print(", break-even after %.1f months", o->break_even_months);
    cli_print("\n");
  }
}

bool cli_planner_busy(const ls_plan_t *plan, char text[CLI_BUSY_BYTES]) {
  if (!(plan->busy_share > 0)) return false;
  snprintf(text, CLI_BUSY_BYTES,
           "the machine was busy: other programs took %.0f %% of its processors while steps were timed, so "
           "times are those of a machine so busy, and speed-ups above the number of devices are left "
           "out; %s",
           100 * plan->busy_share,
           plan->replayed ? "they cannot be timed again here" : "the next plan times them again");
  return true;
}

void cli_planner_table(const ls_config_t *config, ls_planned_t *planned) {
  ls_plan_t *plan = &planned->plan;
  const ls_candidate_t *best = &plan->candidate[plan->choice];
  const ls_cost_config_t *cost = &config->cost;
  bool epoch = isfinite(best->epoch_s);
  char busy[CLI_BUSY_BYTES];
  if (cli_planner_busy(plan, busy)) cli_print("%s\n\n", busy);
  if (plan->replayed)
    cli_print("for the machine of %s, which is not here: times from its rates, not from this network\n",
              cli_shown(planned->path));
  if (plan->left_out)
    cli_print(
        "left out, and off in the plan's commands: %s: what it brings depends on the device, and only timing "
        "tells\n",
        plan->left_out);
  cli_print("%s parameters, global batch %lld, backend %s; all times predicted, 90 %% intervals\n\n",
            cli_count(plan->params), (long long)plan->batch, plan->backend);
  if (plan->shards)
    cli_print("reproducible: %lld shards, the same bits for every candidate\n\n", (long long)plan->shards);
  cli_print("  devices   strategy buck micro      step us [       low       high ]    mean us    samples/s "
            "speed-up  eff.  "
            " exposed  "
            "bytes/dev.  fits");
  if (epoch) cli_print("   epoch s");
  if (epoch && isfinite(best->epoch_kwh)) cli_print("       kWh");
  if (epoch && isfinite(best->epoch_cost)) cli_print(" %9s", cost->currency);
  cli_print("\n");
  for (int i = 0; i < plan->count; i++)
    print_row(plan, i);
  cli_print("\n");
  const char *name = ls_plan_name(&plan->arena, best);
  cli_print("  %s: %s%s", plan->busy_share > 0 ? "would be chosen" : "choice",
            name ? name : best->config.parallel.strategy,
            best->interpolated ? " (times from neighbouring batches)" : "");
  if (plan->busy_share > 0)
    cli_print("; measured while other programs took %.0f %% of the processors, so it is not kept",
              100 * plan->busy_share);
  if (best->why[0]) cli_print("; %s", best->why);
  cli_print("\n");
  for (int i = 0; i < plan->count; i++) {
    if (i == plan->choice) continue;
    const ls_candidate_t *c = &plan->candidate[i];
    name = ls_plan_name(&plan->arena, c);
    cli_print("    %s%s: %s\n", name ? name : c->config.parallel.strategy,
              c->collectives > 1 ? " (more buckets)" : "", c->why);
  }
  for (int i = 0; i < plan->crossover_count; i++) {
    const ls_crossover_t *c = &plan->crossover[i];
    if (!c->known)
      cli_print("  from which batch %d devices win is not known: they could not be priced\n", c->devices);
    else if (c->batch > 0)
      cli_print("  %d devices win from a global batch of %lld\n", c->devices, (long long)c->batch);
    else
      cli_print("  %d devices do not win up to a global batch of %lld\n", c->devices,
                (long long)plan->batch_max);
  }
  const ls_input_times_t *in = &plan->input;
  if (in->samples > 0)
    cli_print("  input: a thread takes %.0f us for a sample: reading %.0f, decoding %.0f, cropping and "
              "scaling %.0f, "
              "copying %.0f\n",
              ls_input_sample_ns(in) * 1e-3, (double)in->read_ns * 1e-3 / (double)in->samples,
              (double)in->decode_ns * 1e-3 / (double)in->samples,
              (double)in->augment_ns * 1e-3 / (double)in->samples,
              (double)in->copy_ns * 1e-3 / (double)in->samples);
  if (best->library_assumed)
    cli_print(
        "  bytes/dev. with a + are without libraries, which are not measured here (run lockstep probe); fits "
        "allows %s for them\n",
        cli_bytes(best->library_bytes));
  else
    cli_print("  bytes/dev. include %s for libraries, measured%s%s\n", cli_bytes(best->library_bytes),
              best->margin_bytes ? "; they are sure to about " : "",
              best->margin_bytes ? cli_bytes(best->margin_bytes) : "");
  print_ownership(config, &plan->ownership, best->host);
  print_purchases(config, plan);
  cli_print("  profile: %s%s\n", planned->kept ? cli_shown(planned->path) : "not kept",
            planned->probed ? " (quick probe; lockstep probe measures more)" : "");
}

ls_status_t cli_planner_thresholds(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                                   const ls_planned_t *planned) {
  const ls_plan_t *plan = &planned->plan;
  const ls_candidate_t *c = &plan->candidate[plan->choice];
  int devices = 1;
  char *answer;
  for (int i = 0; i < plan->count; i++)
    if (ls_candidate_devices(&plan->candidate[i]) > devices)
      devices = ls_candidate_devices(&plan->candidate[i]);
  json_t *json = json_pack("{s:I, s:I, s:I, s:i, s:I, s:s, s:i, s:f}", "params", (json_int_t)plan->params,
                           "batch", (json_int_t)config->train.batch, "inputs",
                           (json_int_t)ls_model_inputs(&config->model), "devices", devices, "memory_bytes",
                           (json_int_t)plan->memory_bytes, "priced_strategy", c->config.parallel.strategy,
                           "priced_devices", ls_candidate_devices(c), "priced_us", c->step.ns * 1e-3);
  char *question = json_dumps(json, 0);
  json_decref(json);
  if (!question) return ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the rules' question");
  ls_status_t status = ls_tool_make(ctx, args->json ? "thresholds-json" : "thresholds", question, &answer);
  free(question);
  if (status != LS_OK) return status;
  if (args->json)
    cli_print_json(json_loads(answer, 0, NULL));
  else
    cli_print("%s", answer);
  ls_free(answer);
  return LS_OK;
}
