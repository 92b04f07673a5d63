/* Files: whole-file reads with a limit, durable writes, directories. Every failure names the path. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include "base/ctx.h"

/* Reads a whole regular file; files larger than `limit_bytes` are refused. The text is followed by a NUL that
 * is not counted. *bytes is owned by the caller (ls_free). */
ls_status_t ls_file_read(ls_ctx_t *ctx, const char *path, size_t limit_bytes, char **bytes,
                         size_t *size_bytes);

/* Reads what an open file, pipe or terminal still has, at most `most_bytes`; more is left there. `name` for
 * messages; the rest as ls_file_read. */
ls_status_t ls_stream_read(ls_ctx_t *ctx, int fd, const char *name, size_t most_bytes, char **bytes,
                           size_t *size_bytes);

/* Writes a whole file and fsyncs it. A failed write leaves no file behind. Not atomic: see
 * ls_file_replace. */
ls_status_t ls_file_write(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes);

/* Writes a new file beside path, fsyncs, renames it over path, fsyncs the directory: readers see the old file
 * or the new one, and of several writers at once the last one's is there, whole. What is there and no regular
 * file (/dev/stdout, a pipe) is written to, never replaced. */
ls_status_t ls_file_replace(ls_ctx_t *ctx, const char *path, const void *bytes, size_t size_bytes);

/* mkdir -p. Existing directories are fine; anything else in the way is an error. */
ls_status_t ls_dir_make(ls_ctx_t *ctx, const char *path);
/* fsync of a directory. */
ls_status_t ls_dir_sync(ls_ctx_t *ctx, const char *path);
/* rm -r, only below `path`; a path that does not exist is fine. */
ls_status_t ls_dir_remove(ls_ctx_t *ctx, const char *path);

/* A new folder of this process alone, NAME-XXXXXX in TMPDIR, else in /tmp. A failure, also for want of room,
 * names the remedy. *path is the caller's (ls_free), what it holds ls_dir_remove's. */
ls_status_t ls_dir_temporary(ls_ctx_t *ctx, const char *name, char **path);

/* Names in a directory, sorted, without . and ..; the array and its strings are one block (ls_free). */
ls_status_t ls_dir_list(ls_ctx_t *ctx, const char *path, char ***names, int *count);

bool ls_path_exists(const char *path);
/* Paths below are owned by the caller (ls_free); NULL when memory is short. */
/* "a/b" joined by one slash. An absolute `name` is returned as it is. */
char *ls_path_join(ls_ctx_t *ctx, const char *dir, const char *name);
/* The directory that holds `path`: "." for a bare name, "/" for the root. */
char *ls_path_parent(ls_ctx_t *ctx, const char *path);
/* Where a relative `name` that starts at `dir` is, as short as possible: without ".", and without "x/.."
 * unless x is a symbolic link. An absolute `name` is returned as it is. */
char *ls_path_resolve(ls_ctx_t *ctx, const char *dir, const char *name);
/* The same file from the root; `path` as it is when the current folder is gone. */
char *ls_path_absolute(ls_ctx_t *ctx, const char *path);

#endif
