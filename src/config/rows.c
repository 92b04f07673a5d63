/* The rows of the sections that belong to no single module: train, train.checkpoint, parallel and cost. */
#include "config/parts.h"

#include "device/device.h"
#include "graph/ops/ops.h"

#include <stddef.h>

#define PART(type_, struct_, part_, field_, ...)                                                             \
  { .name = #field_, .type = (type_), .offset = offsetof(struct_, part_.field_), __VA_ARGS__ }
#define ROW(type_, struct_, field_, ...)                                                                     \
  { .name = #field_, .type = (type_), .offset = offsetof(struct_, field_), __VA_ARGS__ }

static const ls_option_t train_rows[] = {
    ROW(LS_FIELD_INT64, ls_train_config_t, batch, .unit = "samples", .min = 1, .max = 1e9, .initial = "128",
        .help = "Global batch: samples of one step, over all ranks."),
    ROW(LS_FIELD_INT64, ls_train_config_t, epochs, .min = 0, .max = 1e9, .initial = "0",
        .help = "Passes over the training part; 0: not set. Without epochs and steps the run is "
                "one epoch."),
    ROW(LS_FIELD_INT64, ls_train_config_t, steps, .min = 0, .max = 1e12, .initial = "0",
        .help = "Steps of the whole run, instead of epochs; 0: not set. One of the two in --set replaces the "
                "other in the "
                "file."),
    ROW(LS_FIELD_INT64, ls_train_config_t, seed, .change = LS_CHANGE_DATA, .min = 0, .max = 9e15,
        .initial = "42",
        .help = "Seed of the initial values, the order of samples, dropout and, without data.split_seed, the "
                "split."),
    ROW(LS_FIELD_CHOICE, ls_train_config_t, precision, .choices = ls_math_names, .initial = "fp32",
        .help =
            "fp32. tf32: tensor cores multiply matrices with elements rounded to 10 bits "
            "of mantissa; storage and sums stay fp32. Only backend cuda has tf32. bf16, fp16: activations "
            "and "
            "their gradients are 16-bit floats, products add up in fp32, and parameters, their gradients, "
            "the "
            "optimizer, statistics and losses stay fp32. fp16 multiplies the loss by a scale, and skips and "
            "counts the steps in which a gradient overflows."),
    ROW(LS_FIELD_BOOL, ls_train_config_t, strict_sums, .initial = "false",
        .help = "A GPU computes products, convolutions and attention as plain sums of products. Otherwise it "
                "may take faster "
                "ways of about the same error (Winograd, split factors on tensor cores). "
                "parallel.reproducible implies it."),
    ROW(LS_FIELD_INT64, ls_train_config_t, accumulate, .plan = LS_PLAN_TUNES, .min = 1,
        .max = LS_ACCUMULATE_MAX, .initial = "1",
        .help =
            "Number of micro-batches into which the global batch is cut; the ranks share each of them. Their "
            "gradients are added up."),
    ROW(LS_FIELD_REAL, ls_train_config_t, clip_norm, .min = 0, .max = 1e30, .initial = "0",
        .help = "Largest norm of the whole gradient. A larger gradient is scaled down to this "
                "norm; 0 = off."),
    ROW(LS_FIELD_INT64, ls_train_config_t, max_skipped, .change = LS_CHANGE_IGNORED, .min = 1, .max = 1e9,
        .initial = "10",
        .help = "A step whose loss or gradient is not finite is skipped. The run stops after this "
                "many skipped steps in a row."),
    ROW(LS_FIELD_INT64, ls_train_config_t, past_step, .change = LS_CHANGE_IGNORED, .unit = "steps", .min = 0,
        .max = 1e12, .initial = "0",
        .help = "A run that begins or is resumed before this step goes on behind the samples of the steps up "
                "to this one, "
                "which "
                "are left out: once, as the checkpoints remember. supervise.skip_steps sets it; 0 = off."),
    ROW(LS_FIELD_INT64, ls_train_config_t, replica_steps, .change = LS_CHANGE_IGNORED, .unit = "steps",
        .min = 0, .max = 1e12, .initial = "0",
        .help = "Compare the parameters that all ranks hold alike after every so many steps and before each "
                "save, and "
                "end the run with the name of a rank that differs; 0 = never."),
    ROW(LS_FIELD_INT64, ls_train_config_t, evaluate_every, .unit = "epochs", .min = 0, .max = 1e9,
        .initial = "1",
        .help = "Epochs between evaluations on the validation part; 0 = evaluate only before and "
                "after the run."),
    ROW(LS_FIELD_INT64, ls_train_config_t, patience, .unit = "evaluations", .min = 0, .max = 1e9,
        .initial = "0",
        .help =
            "Stop the run after this many evaluations without a better validation loss, or what train.best "
            "names; 0 = never stop early."),
    ROW(LS_FIELD_STRINGS, ls_train_config_t, metrics, .change = LS_CHANGE_IGNORED, .optional = true,
        .help = "Further figures of evaluations. Of classes: accuracy, top5, f1; of labels: accuracy, f1; of "
                "positions "
                "with a class: perplexity as well; of values: r2, mae. f1 is the mean over the classes that "
                "occur or "
                "are predicted; r2 the mean over the outputs that vary in the part, and null if all are "
                "constant: best: "
                "r2 then chooses no checkpoint; mae has the targets' own unit."),
    ROW(LS_FIELD_STRING, ls_train_config_t, best, .change = LS_CHANGE_RUN, .initial = "loss",
        .help = "Figure of the validation part that makes a checkpoint the best one: loss, or one that "
                "train.metrics "
                "could name."),
};
const ls_section_t ls_train_section = {"train", train_rows, LS_COUNT(train_rows), "The training run."};

static const ls_option_t checkpoint_rows[] = {
    ROW(LS_FIELD_PATH, ls_checkpoint_config_t, dir, .optional = true,
        .help = "Directory of this run's checkpoints and its resolved configuration. Without it "
                "nothing is saved."),
    ROW(LS_FIELD_INT64, ls_checkpoint_config_t, every_steps, .unit = "steps", .min = -1, .max = 1e12,
        .initial = "-1",
        .help =
            "Steps between checkpoints; 0 = none before the end; -1 = as often as pays, by what a save is "
            "measured to cost and failure_hours (Daly 2006). The best evaluation of the validation part by "
            "train.best "
            "is saved in any case."),
    ROW(LS_FIELD_REAL, ls_checkpoint_config_t, failure_hours, .unit = "hours", .min = 0.0001, .max = 1e6,
        .initial = "24", .help = "Mean time between failures of the whole run, for every_steps: -1."),
    ROW(LS_FIELD_BOOL, ls_checkpoint_config_t, beside, .initial = "true",
        .help = "The run stands still only while its state is copied; a thread writes the copy. Takes memory "
                "for the "
                "copy. A checkpoint that all ranks write together is written at once."),
    ROW(LS_FIELD_INT64, ls_checkpoint_config_t, keep, .min = 1, .max = 1e6, .initial = "3",
        .help = "Number of newest checkpoints to keep. The best one by train.best is kept "
                "too."),
};
const ls_section_t ls_checkpoint_section = {"train.checkpoint", checkpoint_rows, LS_COUNT(checkpoint_rows),
                                            "Where checkpoints go, and how often."};

const char *const ls_wire_names[] = {"f32", "bf16", "f16", NULL};
static const char *const side_names[] = {"off", "on", "auto", NULL}; /* in the order of ls_side_t */
static const char *const shard_names[] = {"none", "optimizer", "gradients", "auto", NULL}; /* as ls_shard_t */
static const ls_option_t parallel_rows[] = {
    ROW(LS_FIELD_STRING, ls_parallel_config_t, strategy, .plan = LS_PLAN_PLACES, .change = LS_CHANGE_IGNORED,
        .optional = true,
        .help = "How ranks divide a step: one of the strategies listed below, or auto for the "
                "choice of lockstep plan. Default: the first strategy for this number of ranks."),
    ROW(LS_FIELD_INT64, ls_parallel_config_t, ranks, .plan = LS_PLAN_PLACES, .change = LS_CHANGE_IGNORED,
        .min = 1, .max = 65536, .initial = "1",
        .help = "Number of processes, one per device. lockstep starts them unless "
                "a launcher already did. --ranks, or the launcher's number, overrides this."),
    ROW(LS_FIELD_STRING, ls_parallel_config_t, backend, .plan = LS_PLAN_PLACES, .change = LS_CHANGE_IGNORED,
        .initial = "auto",
        .help = "auto (cuda if present, else cpu), cpu, cuda, ref (plain C) or \"null\" (in "
                "quotes; computes nothing)."),
    ROW(LS_FIELD_STRING, ls_parallel_config_t, transport, .plan = LS_PLAN_PLACES, .change = LS_CHANGE_IGNORED,
        .initial = "auto",
        .help = "How ranks exchange tensors: one of the transports listed below, or auto for the "
                "first that can move the backend's memory."),
    ROW(LS_FIELD_INT64, ls_parallel_config_t, threads, .plan = LS_PLAN_PLACES, .change = LS_CHANGE_IGNORED,
        .min = 0, .max = 4096, .initial = "0",
        .help = "Compute threads of each rank; 0 = the node's cores divided by its ranks."),
    PART(LS_FIELD_INT64, ls_parallel_config_t, options, bucket_bytes, .plan = LS_PLAN_TUNES,
         .change = LS_CHANGE_IGNORED, .unit = "bytes", .min = 1, .max = 1e12, .initial = "4194304",
         .help = "Ranks sum their gradients in buckets of at least this size."),
    PART(LS_FIELD_CHOICE, ls_parallel_config_t, options, shard, .change = LS_CHANGE_IGNORED,
         .choices = shard_names, .initial = "auto",
         .help =
             "What ranks share instead of holding copies. optimizer: each updates its part of the parameters "
             "and holds the optimizer's state for that part (strategy fsdp). gradients: each also holds the "
             "gradients of its part alone, unless parallel.reproducible asks for their sums in one order. "
             "none: nothing (ddp). auto is the choice of lockstep plan (strategy: auto), and without a plan "
             "none."),
    ROW(LS_FIELD_CHOICE, ls_parallel_config_t, wire, .choices = ls_wire_names, .initial = "f32",
        .help =
            "Type in which gradients travel between ranks. bf16 and f16 halve the bytes and round gradients "
            "before and after they are summed; f16 loses those below 6e-8 and has none above 65504: such a "
            "step is skipped. The loss travels as f32."),
    ROW(LS_FIELD_BOOL, ls_parallel_config_t, reproducible, .initial = "false",
        .help = "Give the same bits for any number of ranks and threads. The batch is cut into "
                "shards, which are added up in one fixed order. Slower, and needs more memory."),
    ROW(LS_FIELD_INT64, ls_parallel_config_t, shards, .min = 1, .max = LS_TREE_PARTS_MAX, .initial = "8",
        .help = "Number of equal pieces into which a reproducible step cuts the global batch: a "
                "power of two, divided evenly among the ranks. Another number gives other bits."),
    ROW(LS_FIELD_BOOL, ls_parallel_config_t, fuse, .initial = "true",
        .help = "Fuse neighbouring ops that the backend can compute as one: on cuda, a linear layer and its "
                "relu, a residual sum with its dropout and layer norm, batch norm and what follows it, "
                "the two "
                "gradients of a value and of its mean (squeeze and excitation); and give logits rows that "
                "products "
                "like. May change the rounding."),
    PART(LS_FIELD_CHOICE, ls_parallel_config_t, options, side_lane, .plan = LS_PLAN_TUNES,
         .change = LS_CHANGE_IGNORED, .choices = side_names, .initial = "auto",
         .help =
             "Compute gradients of weights beside the rest of the backward pass, on a second stream of the "
             "device: on cuda; a CPU's threads are busy already. Takes memory, because both lanes keep what "
             "they "
             "work on; the bits are the same. auto is the choice of lockstep plan (strategy: auto), and "
             "without a plan off."),
    ROW(LS_FIELD_BOOL, ls_parallel_config_t, bind, .change = LS_CHANGE_IGNORED, .initial = "true",
        .help =
            "On a CPU, keep each rank on its own share of the node's processors if its threads fit there. "
            "false leaves the ranks to the operating system, which may put two of them on one core."),
    ROW(LS_FIELD_STRING, ls_parallel_config_t, remote_shell, .change = LS_CHANGE_IGNORED, .optional = true,
        .help =
            "With hosts: the program and its arguments that start a command on a host, in front of its name. "
            "Default: \"ssh -o BatchMode=yes -o ConnectTimeout=10\", in a Slurm allocation srun."),
    ROW(LS_FIELD_REAL, ls_parallel_config_t, deadline_s, .change = LS_CHANGE_IGNORED, .unit = "s",
        .min = 0.01, .max = 1e6, .initial = "60",
        .help = "Longest wait between ranks or for a device. A longer wait ends the run."),
    ROW(LS_FIELD_REAL, ls_parallel_config_t, predicted_us, .change = LS_CHANGE_IGNORED, .unit = "us",
        .min = 0, .max = 1e15, .initial = "0",
        .help = "Step time predicted by a plan, reported beside the measured one. strategy: auto "
                "sets it."),
};
const ls_section_t ls_parallel_section = {"parallel", parallel_rows, LS_COUNT(parallel_rows),
                                          "Devices and strategy."};

#define PRICE(field_, help_)                                                                                 \
  ROW(LS_FIELD_REAL, ls_cost_config_t, field_, .min = 0, .max = 1e12, .initial = "0", .help = help_)
static const ls_option_t cost_rows[] = {
    ROW(LS_FIELD_STRING, ls_cost_config_t, currency, .initial = "USD",
        .help = "Name of the currency of all prices."),
    PRICE(device_price, "Price of one more device."),
    PRICE(device_hour, "Rent of one device for an hour."),
    ROW(LS_FIELD_REAL, ls_cost_config_t, power_w, .unit = "W", .min = 0, .max = 1e6, .initial = "0",
        .help = "Power of one device while it trains, including its share of the machine."),
    PRICE(price_kwh, "Price of a kilowatt hour."),
    PRICE(engineer_hour, "Value of an hour in which somebody waits for a training."),
    PRICE(overhead_month, "Monthly cost of operating several devices, without energy."),
    ROW(LS_FIELD_REAL, ls_cost_config_t, trainings_per_month, .min = 0, .max = 1e9, .initial = "0",
        .help = "Runs of this configuration per month; 0 = do not compute the cost of ownership."),
    ROW(LS_FIELD_REAL, ls_cost_config_t, amortize_months, .unit = "months", .min = 1, .max = 1200,
        .initial = "24", .help = "Months over which a device is written off."),
    PRICE(link_price, "Price of a link between the devices that is twice as fast."),
    PRICE(host_price, "Price of a host that delivers inputs to the devices in no time."),
    PRICE(faster_device_price, "Price of replacing one device by a faster one."),
    ROW(LS_FIELD_REAL, ls_cost_config_t, faster_device_speed, .min = 1, .max = 1000, .initial = "2",
        .help = "How many times as fast the faster device computes."),
};
const ls_section_t ls_cost_section = {"cost", cost_rows, LS_COUNT(cost_rows),
                                      "Prices from which lockstep plan computes money and energy."};
