/* The rows of sections supervise and supervise.restarts. */
#include "supervise/supervise.h"

#define SECONDS(struct_, field_, initial_, help_)                                                            \
  LS_OPTION(struct_, field_, .change = LS_CHANGE_IGNORED, .unit = "s", .min = 0, .max = 1e6,                 \
            .initial = initial_, .help = help_)
static const ls_option_t rows[] = {
    SECONDS(ls_supervise_config_t, hang_s, "10",
            "A rank hangs if it finishes no step for this time, or for 8 times its usual step if that is "
            "longer."),
    SECONDS(
        ls_supervise_config_t, start_s, "300",
        "Time from the start of a rank to its first step: opening the device, the data and the checkpoint."),
    SECONDS(ls_supervise_config_t, first_step_s, "300",
            "Time that the first step, an evaluation or the end of the run may take."),
    SECONDS(ls_supervise_config_t, save_s, "600", "Time that a save may take."),
    LS_OPTION(ls_supervise_config_t, skip_steps, .change = LS_CHANGE_IGNORED, .unit = "steps", .min = 0,
              .max = 1e9, .initial = "0",
              .help =
                  "After loss or gradients were not finite, the run goes on from the newest good checkpoint "
                  "behind "
                  "the samples up to the step at which it stopped, and those of so many steps more. 0 = with "
                  "the same samples."),
    SECONDS(ls_supervise_config_t, host_s, "10",
            "Of several hosts, one of which nothing was heard for this time is lost."),
    LS_OPTION(
        ls_supervise_config_t, address, .change = LS_CHANGE_IGNORED, .optional = true,
        .help =
            "Name or address under which other hosts reach this one. Default: the one from which ssh comes "
            "to them, else this host's name."),
    LS_OPTION(
        ls_supervise_config_t, port, .change = LS_CHANGE_IGNORED, .min = 0, .max = 65535, .initial = "0",
        .help =
            "TCP port at which this host hears the others, for a firewall that has to let them through. 0 = "
            "any free one."),
};
const ls_section_t ls_supervise_section = {"supervise", rows, LS_COUNT(rows),
                                           "lockstep train --supervise: how long a rank may show no progress "
                                           "before the run is ended and started again."};

static const ls_option_t ranks_rows[] = {
    LS_OPTION(ls_ranks_config_t, least, .change = LS_CHANGE_IGNORED, .unit = "ranks", .min = 0, .max = 1e6,
              .initial = "0",
              .help =
                  "The run goes on with fewer ranks, but never with fewer than these, when the same rank has "
                  "failed "
                  "twice in a row or cannot open its device, or a host is lost. 0: always with all of them."),
    SECONDS(ls_ranks_config_t, return_s, "60",
            "A run that has left out a host or a GPU asks for it so often, after restarts.healthy_steps new "
            "steps. "
            "If it answers, the run saves and goes on with more ranks. 0: at the next restart alone.")};
const ls_section_t ls_ranks_section = {"supervise.ranks", ranks_rows, LS_COUNT(ranks_rows),
                                       "lockstep train --supervise: how many ranks the run may lose."};

static const ls_option_t restart_rows[] = {
    LS_OPTION(ls_restarts_config_t, most, .change = LS_CHANGE_IGNORED, .min = 0, .max = 1e6, .initial = "3",
              .help = "Restarts in a row. One more failure ends the run."),
    LS_OPTION(ls_restarts_config_t, healthy_steps, .change = LS_CHANGE_IGNORED, .unit = "steps", .min = 1,
              .max = 1e12, .initial = "200",
              .help =
                  "After so many steps that no earlier life had done, the count of restarts begins again."),
    SECONDS(ls_restarts_config_t, backoff_s, "1",
            "The first restart in a row begins at once, the second one after this time; each later one waits "
            "twice as "
            "long."),
    SECONDS(ls_restarts_config_t, backoff_most_s, "60", "The longest wait before a restart."),
    SECONDS(
        ls_restarts_config_t, least_life_s, "60",
        "A rank that just ends (a signal, an exit code, no error of its own) at the same step twice ends the "
        "run only if the second time it had trained for so long. Shorter lives are started again, up to most "
        "times."),
};
const ls_section_t ls_restarts_section = {
    "supervise.restarts", restart_rows, LS_COUNT(restart_rows),
    "lockstep train --supervise: how often a failed run is started again. The "
    "same failure at the same step twice ends the run."};
