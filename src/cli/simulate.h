/* simulate_show.c: the points as a table, and the reported figures with them. */
#ifndef LS_CLI_SIMULATE_H
#define LS_CLI_SIMULATE_H

#include "cli/cli.h"
#include "plan/simulation.h"

void cli_simulate_show(const ls_simulation_t *sim);

#endif
