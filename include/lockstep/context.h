/* The context: first argument of the library's calls. It carries where messages go, what went wrong last, and
 * which rank speaks. The library itself never prints, exits or keeps process state.
 * Threads: messages may be reported from any thread; everything else belongs to the creating thread. */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <lockstep/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_ctx ls_ctx_t;

typedef enum { LS_LOG_ERROR, LS_LOG_WARN, LS_LOG_INFO, LS_LOG_DEBUG } ls_log_level_t;

/* Receives one complete message without a trailing newline (a message may hold several lines: place, source
 * line and caret). `message` is borrowed for the duration of the call. May be called from any thread. */
typedef void (*ls_log_fn)(void *user, ls_log_level_t level, const char *message);

/* Creates a context; `log` may be NULL (messages are only kept). NULL when memory is short.
 * Owned by caller. */
LS_API ls_ctx_t *ls_ctx_create(ls_log_fn log, void *user);
LS_API void ls_ctx_destroy(ls_ctx_t *ctx); /* NULL is allowed */

/* Messages below `level` in importance are not delivered. Default LS_LOG_INFO. */
LS_API void ls_ctx_set_level(ls_ctx_t *ctx, ls_log_level_t level);

/* The first error reported since creation or the last ls_ctx_clear, "" when none. Borrowed
 * until the clear. */
LS_API const char *ls_ctx_error(const ls_ctx_t *ctx);
/* How many errors were reported since then (a bad configuration reports all of its errors at once). */
LS_API int ls_ctx_error_count(const ls_ctx_t *ctx);
LS_API void ls_ctx_clear(ls_ctx_t *ctx);

/* Frees what the library handed out as "owned by the caller (ls_free)". NULL is allowed. */
LS_API void ls_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
