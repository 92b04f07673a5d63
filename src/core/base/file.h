/* Files: whole-file reads with a limit, durable writes, directories. Every failure names the path. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include "base/ctx.h"

/* Opens a regular file to read; a pipe in its place does not block. */
ls_status_t ls_file_open(ls_ctx_t *ctx, const char *path, int *fd);

/* Reads a whole regular file. Files larger than `limit_bytes` are refused. A NUL, which is not counted,
 * follows the text. The caller owns *bytes (ls_free). */
ls_status_t ls_file_read(ls_ctx_t *ctx, const char *path, size_t limit_bytes, char **bytes,
                         size_t *size_bytes);

/* LS_ERR_IO if `path` is there and not a regular file. Before a name that the program chose is replaced: a pipe
 * there would be written in its place (ls_new_file_t), and wait for a reader. */
ls_status_t ls_file_expect(ls_ctx_t *ctx, const char *path);

/* Reads the rest of an open file, pipe or terminal, at most `most_bytes`; anything beyond stays unread.
 * `name` is for messages; otherwise as ls_file_read. */
ls_status_t ls_stream_read(ls_ctx_t *ctx, int fd, const char *name, size_t most_bytes, char **bytes,
                           size_t *size_bytes);

/* A file that is being written: under another name in the same folder until it is whole, so that readers see the
 * old file or the new one. If several write at once, the last one's file stays, whole. A symbolic link stays, too:
 * the file that it points to is replaced. Anything but a regular file (a pipe, a device), or an open file
 * (/dev/stdout), is written in its place. */
typedef struct {
  const char *path;     /* as given; borrowed */
  int fd;               /* to write to; its owner may duplicate it, not close it */
  char *place, *beside; /* its final path, and its path until then; NULL: it is in its place */
  bool regular;         /* it can be made durable, and removed */
} ls_new_file_t;
ls_status_t ls_new_file_begin(ls_ctx_t *ctx, const char *path, ls_new_file_t *file);
/* Always in its place, which is emptied. */
ls_status_t ls_new_file_here(ls_ctx_t *ctx, const char *path, ls_new_file_t *file);
/* fsyncs the file and puts it in its place, durably, if `status` is LS_OK; else removes it. Returns the first failure.
 * Also after a begin that failed. */
ls_status_t ls_new_file_end(ls_ctx_t *ctx, ls_new_file_t *file, ls_status_t status);

/* Writes a whole file in its place; not atomic. A failed write leaves no file. */
ls_status_t ls_file_write(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes);
/* A whole file, as ls_new_file_t puts it in its place. */
ls_status_t ls_file_replace(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes);

/* mkdir -p. Existing directories are fine; anything else in the way is an error. */
ls_status_t ls_dir_make(ls_ctx_t *ctx, const char *path);
/* A directory of this user alone, where all users may write: makes it, or takes one of this user; refuses a link and another
 * user's. *fd: of the directory; the caller closes it. -1 on failure. */
ls_status_t ls_dir_own(ls_ctx_t *ctx, const char *path, int *fd);
/* fsync of a directory. */
ls_status_t ls_dir_sync(ls_ctx_t *ctx, const char *path);
/* rm -r, only below `path`; a path that does not exist is fine. */
ls_status_t ls_dir_remove(ls_ctx_t *ctx, const char *path);

/* Creates a new folder for this process alone, NAME-XXXXXX in TMPDIR, else in /tmp. Errors, including a full
 * disk, name the remedy. The caller owns *path (ls_free) and removes the folder with ls_dir_remove. */
ls_status_t ls_dir_temporary(ls_ctx_t *ctx, const char *name, char **path);

/* Names in a directory, sorted, without . and ..; the array and its strings are one block (ls_free). */
ls_status_t ls_dir_list(ls_ctx_t *ctx, const char *path, char ***names, int *count);

bool ls_path_exists(const char *path);
bool ls_path_is_folder(const char *path); /* or a link to one */
/* Paths below are owned by the caller (ls_free); NULL when memory is short. */
/* "a/b" joined by one slash. An absolute `name` is returned as it is. */
char *ls_path_join(ls_ctx_t *ctx, const char *dir, const char *name);
/* The directory that holds `path`: "." for a bare name, "/" for the root. */
char *ls_path_parent(ls_ctx_t *ctx, const char *path);
/* The path of a relative `name` that starts at `dir`, as short as possible: without ".", and without "x/.."
 * unless x is a symbolic link. An absolute `name` is returned as it is. */
char *ls_path_resolve(ls_ctx_t *ctx, const char *dir, const char *name);
/* The same file as an absolute path; `path` as it is if the current folder no longer exists. */
char *ls_path_absolute(ls_ctx_t *ctx, const char *path);

#endif
