/* lockstep report DIR: one HTML file of a run after the fact. The report tool (tools/report) makes it from the document of
 * monitor/past.h. */
#include "base/json.h"
#include "base/tool.h"
#include "cli/cli.h"
#include "config/spare.h"
#include "monitor/past.h"

#include <stdlib.h>
#include <string.h>

enum { REPORT_OUTPUT, REPORT_FLAG_COUNT };
static const cli_extra_t flags[] = {
    [REPORT_OUTPUT] = {"--output", "FILE", "Where to write the report (default DIR/report.html)."},
    [REPORT_FLAG_COUNT] = {NULL, NULL, NULL}};

static ls_status_t make(ls_ctx_t *ctx, const json_t *document, const char *dir, const char *output) {
  char *made = NULL, *text = ls_json_dump(document, JSON_COMPACT);
  char *path = output ? ls_strdup(ctx, output) : ls_path_join(ctx, dir, "report.html");
  ls_status_t status = text && path ? ls_tool_make(ctx, "run", text, &made)
                                    : ls_fail(ctx, LS_ERR_MEMORY, "out of memory for the report");
  if (status == LS_OK) status = ls_file_replace(ctx, path, made, strlen(made));
  if (status == LS_OK) cli_print("%s\n", cli_shown(path));
  free(text);
  ls_free(path);
  ls_free(made);
  return status;
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *output = args->extra[REPORT_OUTPUT];
  json_t *document = NULL;
  ls_status_t status = ls_past_read(ctx, args->operand[0], &document);
  if (status == LS_OK) status = ls_tool_ready(ctx, "lockstep report", "");
  if (status == LS_OK) status = ls_config_spares(ctx, output, NULL, NULL);
  if (status == LS_OK) status = make(ctx, document, args->operand[0], output);
  json_decref(document);
  return status;
}

static const cli_command_t command = {
    .name = "report",
    .place = 72,
    .summary = "Makes one HTML file of a watched training: curves, parts, restarts.",
    .details = "DIR is the training's monitor.dir (docs/monitor.md). Needs python3.",
    .flags = CLI_FLAG_VERBOSE,
    .operands = "DIR",
    .operand_count = 1,
    .extra = flags,
    .run = run};
CLI_COMMAND(command)
