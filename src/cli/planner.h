/* Shared by plan and by train with strategy auto: profile, plan, the command that runs a candidate. */
#ifndef LS_CLI_PLANNER_H
#define LS_CLI_PLANNER_H

#include "cli/cli.h"
#include "plan/planned.h"

/* The command that runs a candidate, ended by NULL; owned by the arena, NULL when memory is short. */
const char *const *cli_planner_words(ls_arena_t *arena, const cli_args_t *args, const ls_planned_t *planned,
                                     const ls_candidate_t *c);
/* The same as a shell line; owned by the arena, NULL when memory is short. */
const char *cli_planner_command(ls_arena_t *arena, const cli_args_t *args, const ls_planned_t *planned,
                                const ls_candidate_t *c);
/* planner_show.c */
/* The first message about a plan from disturbed timings; false: none. */
enum { CLI_BUSY_BYTES = 320 };
bool cli_planner_busy(const ls_plan_t *plan, char text[CLI_BUSY_BYTES]);
void cli_planner_table(const ls_config_t *config, ls_planned_t *planned);
/* planner_emit.c: prints the job that runs the choice elsewhere. */
ls_status_t cli_planner_emit(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                             ls_planned_t *planned, const char *form, bool devices_given);
/* What the study's rules say (the report tool has them), for comparison; as a table or, with --json, a document. */
ls_status_t cli_planner_thresholds(ls_ctx_t *ctx, const cli_args_t *args, const ls_config_t *config,
                                   const ls_planned_t *planned);

/* train: with strategy auto and without a launcher, chooses, reports that in one line on stderr, and starts this command
 * again with what was chosen: then it returns only if that fails. */
ls_status_t cli_planner_auto(ls_ctx_t *ctx, const ls_config_t *config, const cli_args_t *args);

#endif
