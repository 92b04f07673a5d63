/* The rows of the sections that belong to no single module: train, train.checkpoint, parallel and cost. */
#include "train/config_parts.h"

#include "device/device.h"
#include "graph/ops/ops.h"

#include <stddef.h>

#define ROW(type_, struct_, field_, ...)                                                                     \
  { .name = #field_, .type = (type_), .offset = offsetof(struct_, field_), __VA_ARGS__ }

static const ls_option_t train_rows[] = {
    ROW(LS_OPT_INT, ls_train_config_t, batch, .unit = "samples", .min = 1, .max = 1e9, .initial = "128",
        .help = "Global batch: samples of one step, over all ranks."),
    ROW(LS_OPT_INT, ls_train_config_t, epochs, .min = 0, .max = 1e9, .initial = "0",
        .help = "Passes over the training part; 0: not given. With neither epochs nor steps the run is one "
                "epoch."),
    ROW(LS_OPT_INT, ls_train_config_t, steps, .min = 0, .max = 1e12, .initial = "0",
        .help = "Steps of the whole run, instead of epochs; 0: not given."),
    ROW(LS_OPT_INT, ls_train_config_t, seed, .change = LS_CHANGE_DATA, .min = 0, .max = 9e15, .initial = "42",
        .help = "Seed of the initial values, the split, the order of samples and dropout."),
    ROW(LS_OPT_ENUM, ls_train_config_t, precision, .choices = ls_math_names, .initial = "fp32",
        .help = "fp32, or tf32: tensor cores multiply matrices whose elements are rounded to 10 bits of "
                "mantissa. "
                "Storage and sums stay fp32. Only backend cuda has tf32."),
    ROW(LS_OPT_INT, ls_train_config_t, accumulate, .min = 1, .max = 1024, .initial = "1",
        .help =
            "Each rank computes its share of a step in so many micro-batches and adds up their gradients."),
    ROW(LS_OPT_FLOAT, ls_train_config_t, clip_norm, .min = 0, .max = 1e30, .initial = "0",
        .help = "When the norm of the whole gradient is larger, the gradient is scaled down to it; 0 = off."),
    ROW(LS_OPT_INT, ls_train_config_t, max_skipped, .change = LS_CHANGE_IGNORED, .min = 1, .max = 1e9,
        .initial = "10",
        .help =
            "A step whose loss or gradient is not finite is skipped. The run stops after so many in a row."),
    ROW(LS_OPT_INT, ls_train_config_t, evaluate_every, .unit = "epochs", .min = 0, .max = 1e9, .initial = "1",
        .help = "Evaluation on the validation part; 0 = only before and after the run."),
    ROW(LS_OPT_INT, ls_train_config_t, patience, .unit = "evaluations", .min = 0, .max = 1e9, .initial = "0",
        .help = "Stop early when the validation loss has not improved for so many evaluations; each better "
                "one is saved then. 0 = never."),
};
const ls_section_t ls_train_section = {"train", train_rows, LS_COUNT(train_rows), "The training run."};

static const ls_option_t checkpoint_rows[] = {
    ROW(LS_OPT_PATH, ls_checkpoint_config_t, dir, .optional = true,
        .help =
            "Directory of this run's checkpoints and its resolved configuration; absent: nothing is saved."),
    ROW(LS_OPT_INT, ls_checkpoint_config_t, every_steps, .unit = "steps", .min = 0, .max = 1e12,
        .initial = "0", .help = "Save every so many steps; 0 = only at the end."),
    ROW(LS_OPT_INT, ls_checkpoint_config_t, keep, .min = 1, .max = 1e6, .initial = "3",
        .help = "Newest checkpoints to keep; the best one by validation loss is kept too."),
};
const ls_section_t ls_checkpoint_section = {"train.checkpoint", checkpoint_rows, LS_COUNT(checkpoint_rows),
                                            "What is saved, where and how often."};

static const ls_option_t parallel_rows[] = {
    ROW(LS_OPT_STRING, ls_parallel_config_t, strategy, .change = LS_CHANGE_IGNORED, .optional = true,
        .help =
            "How the step is spread over ranks: one of the strategies listed below, or auto: what lockstep "
            "plan chooses. Absent: the first of them for so many ranks."),
    ROW(LS_OPT_INT, ls_parallel_config_t, ranks, .change = LS_CHANGE_IGNORED, .min = 1, .max = 65536,
        .initial = "1",
        .help = "Processes, one per device; started through mpirun unless a launcher already did. --ranks, "
                "or the launcher's "
                "number, counts instead."),
    ROW(LS_OPT_STRING, ls_parallel_config_t, backend, .change = LS_CHANGE_IGNORED, .initial = "auto",
        .help = "auto (cuda when present, else cpu), cpu, cuda, ref (plain C) or \"null\" (in quotes; "
                "computes nothing)."),
    ROW(LS_OPT_STRING, ls_parallel_config_t, transport, .change = LS_CHANGE_IGNORED, .initial = "auto",
        .help = "By what tensors travel between ranks: one of the transports listed below, or auto: the "
                "first that "
                "moves the memory of the backend's devices."),
    ROW(LS_OPT_INT, ls_parallel_config_t, threads, .change = LS_CHANGE_IGNORED, .min = 0, .max = 4096,
        .initial = "0",
        .help = "Compute threads of each rank; 0 = cores of the node shared evenly by its ranks."),
    ROW(LS_OPT_INT, ls_parallel_config_t, bucket_bytes, .change = LS_CHANGE_IGNORED, .unit = "bytes",
        .min = 1, .max = 1e12, .initial = "4194304",
        .help = "Ranks sum their gradients in buckets of at least this size."),
    ROW(LS_OPT_BOOL, ls_parallel_config_t, reproducible, .initial = "false",
        .help = "Any number of ranks and threads trains to the same bits: the batch is cut into shards, "
                "which are "
                "added up in one fixed order. Slower, and takes more memory."),
    ROW(LS_OPT_INT, ls_parallel_config_t, shards, .min = 1, .max = LS_TREE_PARTS_MAX, .initial = "8",
        .help = "Of a reproducible step: equal pieces of the global batch, a power of two, spread evenly "
                "over the "
                "ranks. Another number gives other bits."),
    ROW(LS_OPT_BOOL, ls_parallel_config_t, fuse, .initial = "false",
        .help = "Neighbouring ops become one where the backend can compute them at once: a linear layer and "
                "its relu on cuda. May round otherwise."),
    ROW(LS_OPT_FLOAT, ls_parallel_config_t, deadline_s, .change = LS_CHANGE_IGNORED, .unit = "s", .min = 0.01,
        .max = 1e6, .initial = "60",
        .help = "A wait between ranks or for a device that takes longer ends the run."),
    ROW(LS_OPT_FLOAT, ls_parallel_config_t, predicted_us, .change = LS_CHANGE_IGNORED, .unit = "us", .min = 0,
        .max = 1e15, .initial = "0",
        .help = "Step time that a plan predicted, reported beside the measured one; strategy: auto sets it."),
};
const ls_section_t ls_parallel_section = {"parallel", parallel_rows, LS_COUNT(parallel_rows),
                                          "Devices and strategy."};

#define PRICE(field_, help_)                                                                                 \
  ROW(LS_OPT_FLOAT, ls_cost_config_t, field_, .min = 0, .max = 1e12, .initial = "0", .help = help_)
static const ls_option_t cost_rows[] = {
    ROW(LS_OPT_STRING, ls_cost_config_t, currency, .initial = "USD",
        .help = "Name of the currency of all prices."),
    PRICE(device_price, "What one more device costs to buy."),
    PRICE(device_hour, "Rent of one device for an hour."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, power_w, .unit = "W", .min = 0, .max = 1e6, .initial = "0",
        .help = "Power that one device draws while it trains, its share of the machine included."),
    PRICE(price_kwh, "Price of a kilowatt hour."),
    PRICE(engineer_hour, "What an hour that somebody waits for a training is worth."),
    PRICE(overhead_month, "What running several devices costs every month beside energy."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, trainings_per_month, .min = 0, .max = 1e9, .initial = "0",
        .help = "Runs of this configuration in a month; 0 = cost of ownership is not computed."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, amortize_months, .unit = "months", .min = 1, .max = 1200,
        .initial = "24", .help = "Months over which a device is written off."),
    PRICE(link_price, "What a link between the devices twice as fast as today's costs."),
    PRICE(host_price, "What a host costs that brings inputs to the devices in no time."),
    PRICE(faster_device_price, "What replacing one device by a faster one costs."),
    ROW(LS_OPT_FLOAT, ls_cost_config_t, faster_device_speed, .min = 1, .max = 1000, .initial = "2",
        .help = "How many times as fast that device computes."),
};
const ls_section_t ls_cost_section = {"cost", cost_rows, LS_COUNT(cost_rows),
                                      "Prices, for what lockstep plan says about money and energy."};
