/* The context: the first argument of the library's calls. It knows where messages go, the first error, and
 * the rank of this process. The library itself never prints, never exits and keeps no process state. Threads:
 * any thread may report messages; everything else belongs to the creating thread. */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <lockstep/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_ctx ls_ctx_t;

typedef enum { LS_LOG_ERROR, LS_LOG_WARN, LS_LOG_INFO, LS_LOG_DEBUG } ls_log_level_t;

/* Receives one complete message without a trailing newline. A message may have several lines: place, source
 * line and caret. `message` is borrowed for the duration of the call. Any thread may call this. */
typedef void (*ls_log_fn)(void *user, ls_log_level_t level, const char *message);

/* Creates a context; `log` may be NULL (messages are only kept). NULL when memory is short.
 * Owned by caller. */
LS_API ls_ctx_t *ls_ctx_create(ls_log_fn log, void *user);
LS_API void ls_ctx_destroy(ls_ctx_t *ctx); /* NULL is allowed */

/* Messages less important than `level` are not delivered. Default: LS_LOG_INFO. */
LS_API void ls_ctx_set_level(ls_ctx_t *ctx, ls_log_level_t level);

/* The first error reported since creation or the last ls_ctx_clear, "" when none. Borrowed
 * until the clear. */
LS_API const char *ls_ctx_error(const ls_ctx_t *ctx);
/* The number of errors reported since then. A bad configuration reports all of its errors at once. */
LS_API int ls_ctx_error_count(const ls_ctx_t *ctx);
LS_API void ls_ctx_clear(ls_ctx_t *ctx);

/* Frees memory that the library returned as "owned by the caller (ls_free)". NULL is allowed. */
LS_API void ls_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
