/* A file of results. It takes its place when it is whole, so that nobody reads half of it. */
#include "cli/cli.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

bool cli_is_stdout(const char *path) {
  struct stat itself, there, out;
  if (!strcmp(path, "-")) return true;
  return lstat(path, &itself) == 0 && !S_ISREG(itself.st_mode) && stat(path, &there) == 0 &&
         fstat(STDOUT_FILENO, &out) == 0 && there.st_dev == out.st_dev && there.st_ino == out.st_ino;
}

ls_status_t cli_file_open(ls_ctx_t *ctx, const char *path, cli_file_t *f) {
  *f = (cli_file_t){.ctx = ctx, .path = path, .to = stdout, .file.fd = -1};
  if (cli_is_stdout(path)) return LS_OK; /* others may have written there before: no seeking */
  f->to = NULL;
  ls_status_t status = ls_new_file_begin(ctx, path, &f->file);
  if (status != LS_OK) return status;
  int own = fcntl(f->file.fd, F_DUPFD_CLOEXEC, 3);
  f->to = own >= 0 ? fdopen(own, "w") : NULL;
  if (!f->to) return ls_fail_errno(ctx, "%s: cannot be written", path);
  f->seeks = f->file.regular;
  return LS_OK;
}

/* NULL: the name has none. */
static const char *ending_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
  return dot && dot > name && dot[1] ? dot + 1 : NULL;
}

ls_status_t cli_file_format(ls_ctx_t *ctx, const char *path, const char *given, const char *const *names,
                            int *index) {
  char list[LS_NAMES_TEXT_BYTES];
  const char *word = given ? given : ending_of(path);
  *index = 0;
  if (!word) return LS_OK;
  for (; names[*index]; ++*index)
    if (!(given ? strcmp : strcasecmp)(word, names[*index])) return LS_OK;
  if (given)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "--format: \"%s\" is not one of %s", LS_SHOWN(given),
                   ls_names_text(names, list));
  return ls_fail(ctx, LS_ERR_ARGUMENT,
                 "%s: \"%s\" is not one of %s: give the file another ending, or choose with --format", path,
                 LS_SHOWN(word), ls_names_text(names, list));
}

ls_status_t cli_file_written(cli_file_t *f) {
  if (!ferror(f->to)) return LS_OK;
  return f->to == stdout ? cli_output_lost(f->ctx) : ls_fail_errno(f->ctx, "%s: cannot be written", f->path);
}

ls_status_t cli_file_close(cli_file_t *f, ls_status_t status) {
  if (status == LS_OK && fflush(f->to) != 0) status = cli_file_written(f);
  if (f->to && f->to != stdout && fclose(f->to) != 0 && status == LS_OK)
    status = ls_fail_errno(f->ctx, "%s: cannot be written", f->path);
  return ls_new_file_end(f->ctx, &f->file, status);
}
