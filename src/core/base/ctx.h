/* Inside view of the context: reporting errors with a place, and allocation that tests can make fail. Rule:
 * the first detector reports once, with exact cause and place; callers pass the status up in silence. */
#ifndef LS_BASE_CTX_H
#define LS_BASE_CTX_H

#include <lockstep/context.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The plural ending of a count's noun: "1 epoch", "2 epochs". */
#define LS_PLURAL(count) ((count) == 1 ? "" : "s")
#define LS_COUNT(array)  ((int)(sizeof(array) / sizeof((array)[0])))

/* A place in a text: line and column (bytes) count from 1; 0 = not known. `source` is the text of that line
 * or NULL. `about`: what a message names before its text, such as what was written there; or NULL. */
typedef struct {
  const char *file;
  int line;
  int column;
  const char *source;
  int source_len;
  const char *about;
} ls_place_t;

/* Reports an error and returns `status`. ctx may be NULL (then only the status is returned). Whatever the
 * arguments quote, the message is UTF-8 without control characters except tab and line end (others become
 * "\x1b" and the like). */
ls_status_t ls_fail(ls_ctx_t *ctx, ls_status_t status, const char *fmt, ...) LS_PRINTF(3, 4);
/* The same with "file:line:column: " before it and the source line with a caret below it. */
ls_status_t ls_fail_at(ls_ctx_t *ctx, ls_status_t status, const ls_place_t *place, const char *fmt, ...)
    LS_PRINTF(4, 5);
/* The same for a failed system call: appends ": strerror(errno)"; ENOSPC and EDQUOT give LS_ERR_NO_SPACE,
 * ENOENT gives LS_ERR_NOT_FOUND, everything else LS_ERR_IO. */
ls_status_t ls_fail_errno(ls_ctx_t *ctx, const char *fmt, ...) LS_PRINTF(2, 3);

/* A name or text from a file, shown on one line: line ends, tabs, control characters and bytes that are not
 * UTF-8 become escapes, and "..." replaces what does not fit. `text` has `len` bytes, which may include NULs;
 * SIZE_MAX: it ends at its NUL. Returns `shown`. */
enum { LS_SHOWN_BYTES = 208 };
const char *ls_text_shown(const char *text, size_t len, char *shown, size_t size_bytes);
/* The same in memory of the enclosing block. */
#define LS_SHOWN(text) ls_text_shown((text), SIZE_MAX, (char[LS_SHOWN_BYTES]){0}, LS_SHOWN_BYTES)

/* The first character of `text` (not "") as a terminal can show it: a UTF-8 character itself, including tab
 * and line end; a control character or an invalid byte as an escape such as "\\x1b". Returns the number of
 * bytes of `text` that it covers. */
/* Bytes of the well-formed UTF-8 character at `text`, which ends with a NUL; 0 for a malformed one. */
size_t ls_utf8_bytes(const unsigned char *text);
bool ls_text_utf8(const char *text); /* well formed, control characters or not */
enum { LS_PLAIN_BYTES = 5 };
size_t ls_text_plain(const char *text, char plain[LS_PLAIN_BYTES]);

void ls_log(ls_ctx_t *ctx, ls_log_level_t level, const char *fmt, ...) LS_PRINTF(3, 4);

/* From now on nothing that this thread reports is delivered while `doubted(user)` returns true: the caller knows a deeper
 * cause, and reports it once he has ended this with a NULL. One thread of a context at a time. */
void ls_ctx_doubt(ls_ctx_t *ctx, bool (*doubted)(const void *user), const void *user);

/* Rank of this process, put before messages when world_size > 1. Default 0 of 1. */
void ls_ctx_set_rank(ls_ctx_t *ctx, int rank, int world_size);

/* Allocation. Memory is zeroed. NULL on failure, already reported as LS_ERR_MEMORY. Free with ls_free.
 * ls_alloc_array checks count * size for overflow. ls_alloc_aligned: align is a power of two >= 8. */
void *ls_alloc(ls_ctx_t *ctx, size_t size_bytes);
void *ls_alloc_array(ls_ctx_t *ctx, size_t count, size_t size_bytes);
void *ls_alloc_aligned(ls_ctx_t *ctx, size_t align_bytes, size_t size_bytes);
void *ls_realloc_array(ls_ctx_t *ctx, void *old, size_t count, size_t size_bytes); /* new bytes not zeroed */
char *ls_strdup(ls_ctx_t *ctx, const char *text);
/* ls_free is public: lockstep/context.h. */

/* write(2) and fsync(2), where a failure can be planted: the next call of this kind in this context fails once with this
 * errno; LS_IO_WRITE with 0: it writes half of the bytes. ctx may be NULL. */
typedef enum { LS_IO_NONE, LS_IO_WRITE, LS_IO_SYNC } ls_io_t;
void ls_ctx_fail_io(ls_ctx_t *ctx, ls_io_t io, int error);
ssize_t ls_io_write(ls_ctx_t *ctx, int fd, const void *bytes, size_t size_bytes);
int ls_io_sync(ls_ctx_t *ctx, int fd);

/* Tests: the n-th allocation from now (1 = the next) fails, once; 0 switches it off. Returns how many
 * allocations were made since the last call. */
int64_t ls_ctx_fail_alloc(ls_ctx_t *ctx, int64_t n);

#endif
