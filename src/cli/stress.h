/* Output of lockstep stress. `user` is the command's cli_args_t. */
#ifndef LS_CLI_STRESS_H
#define LS_CLI_STRESS_H

#include "cli/cli.h"
#include "stress/stress.h"

void cli_stress_begin(void *user, ls_comm_t *control, const ls_stress_device_t *device, int count);
void cli_stress_round(void *user, double seconds, const ls_stress_device_t *device, int64_t faults);
/* The report as text, or as JSON with --json. */
void cli_stress_show(const ls_stress_report_t *report, const cli_args_t *args);

#endif
