/* A file of results: written beside its place and put there when it is whole, so that nobody reads half of it. */
#include "cli/cli.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ls_status_t cli_file_open(ls_ctx_t *ctx, const char *path, cli_file_t *f) {
  struct stat info;
  *f = (cli_file_t){.ctx = ctx, .path = path, .to = stdout};
  if (!strcmp(path, "-")) return LS_OK; /* others may have written there before: no seeking */
  f->to = NULL;
  bool special = lstat(path, &info) == 0 && !S_ISREG(info.st_mode); /* a link stays, as /dev/stdout */
  if (!special &&
      snprintf(f->partial, sizeof f->partial, "%s.partial-%d", path, (int)getpid()) >= (int)sizeof f->partial)
    return ls_fail(ctx, LS_ERR_IO, "%s: the name is too long", path);
  f->to = fopen(special ? path : f->partial, "w");
  if (!f->to) return ls_fail_errno(ctx, "%s: cannot be written", path);
  f->seeks = !special;
  return LS_OK;
}

ls_status_t cli_file_not(ls_ctx_t *ctx, const char *path, const char *input) {
  struct stat a, b;
  if (stat(path, &a) != 0 || stat(input, &b) != 0 || !S_ISREG(a.st_mode)) return LS_OK;
  if (a.st_dev != b.st_dev || a.st_ino != b.st_ino) return LS_OK;
  return ls_fail(ctx, LS_ERR_ARGUMENT, "%s is what is read: name another file for the result", path);
}

ls_status_t cli_file_written(cli_file_t *f) {
  if (!ferror(f->to)) return LS_OK;
  return f->to == stdout ? cli_output_lost(f->ctx) : ls_fail_errno(f->ctx, "%s: cannot be written", f->path);
}

ls_status_t cli_file_close(cli_file_t *f, ls_status_t status) {
  if (status == LS_OK && fflush(f->to) != 0) status = cli_file_written(f);
  if (status == LS_OK && f->partial[0] && fsync(fileno(f->to)) != 0)
    status = ls_fail_errno(f->ctx, "%s: cannot be made durable", f->path);
  if (f->to && f->to != stdout && fclose(f->to) != 0 && status == LS_OK)
    status = ls_fail_errno(f->ctx, "%s: cannot be written", f->path);
  if (status == LS_OK && f->partial[0] && rename(f->partial, f->path) != 0)
    status = ls_fail_errno(f->ctx, "%s: cannot be put in place", f->path);
  if (status != LS_OK && f->partial[0]) unlink(f->partial);
  return status;
}
