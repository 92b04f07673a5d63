/* Runs the report tool as a child: the document goes to its stdin, the report comes from its stdout. */
#include "base/tool.h"

#include "base/child.h"
#include "base/file.h"
#include "base/shipped.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIMIT_S = 600, SAID_BYTES = 4096, MADE_BYTES_MAX = 1 << 30 };

/* Runs one form of the tool between two descriptors (negative: /dev/null). On failure `why` is its reason. A process
 * group of its own keeps Ctrl-C away, because bench makes a report also after an interrupted measurement. -B: Python
 * writes no files; -I: neither the environment nor the current folder changes what it runs. */
static bool run(const char *tool, const char *form, int in, int out, char why[LS_CHILD_WORDS_BYTES]) {
  const char *const argv[] = {"python3", "-I", "-B", tool, form, NULL};
  char said[SAID_BYTES];
  ls_child_end_t end;
  const ls_child_spec_t spec = {.argv = argv,
                                .stream = {{.file = in < 0 ? "/dev/null" : NULL, .fd = in},
                                           {.file = out < 0 ? "/dev/null" : NULL, .fd = out}},
                                .own_group = true,
                                .limit_s = LIMIT_S,
                                .said = said,
                                .said_bytes = sizeof said};
  if (ls_child_run(&spec, &end)) return true;
  ls_child_reason(&end, said, why);
  return false;
}

ls_status_t ls_tool_ready(ls_ctx_t *ctx, const char *flag, const char *instead) {
  char *tool, why[LS_CHILD_WORDS_BYTES];
  ls_status_t status = ls_shipped_tool(ctx, "report", &tool);
  if (status != LS_OK) return status;
  if (!run(tool, "check", -1, -1, why))
    status = ls_fail(ctx, LS_ERR_UNSUPPORTED,
                     "%s needs python3 (3.8 or later): %s\n  install the package python3, or leave %s out%s",
                     flag, why, flag, instead);
  ls_free(tool);
  return status;
}

ls_status_t ls_tool_make(ls_ctx_t *ctx, const char *form, const char *document, char **made) {
  char *tool, why[LS_CHILD_WORDS_BYTES];
  size_t size_bytes;
  ls_status_t status = ls_shipped_tool(ctx, "report", &tool);
  if (status != LS_OK) return status;
  int in = memfd_create("lockstep-document", MFD_CLOEXEC), out = memfd_create("lockstep-report", MFD_CLOEXEC);
  if (in < 0 || out < 0 || dprintf(in, "%s", document) < 0 || lseek(in, 0, SEEK_SET) != 0)
    status = ls_fail_errno(ctx, "the document cannot be given to the report tool");
  else if (!run(tool, form, in, out, why))
    status = ls_fail(ctx, LS_ERR_UNSUPPORTED, "%s %s: %s", tool, form, why);
  else if (lseek(out, 0, SEEK_SET) != 0)
    status = ls_fail_errno(ctx, "the report cannot be read");
  else
    status = ls_stream_read(ctx, out, "the report", MADE_BYTES_MAX, made, &size_bytes);
  if (in >= 0) close(in);
  if (out >= 0) close(out);
  ls_free(tool);
  return status;
}
