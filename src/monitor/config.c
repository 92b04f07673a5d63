/* The rows of section monitor. */
#include "monitor/monitor.h"

static const ls_option_t rows[] = {
    LS_OPTION_PATH(
        ls_monitor_config_t, dir, .change = LS_CHANGE_IGNORED, .optional = true,
        .help = "Directory in which the run shows what its ranks do (ranks.page). Without it the run shows "
                "nothing, but lockstep train --supervise uses the folder monitor in "
                "train.checkpoint.dir."),
};
const ls_section_t ls_monitor_section = {"monitor", rows, LS_COUNT(rows), "What a run shows while it runs."};
