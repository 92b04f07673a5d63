/* Memory with one lifetime: many small allocations, freed together. Parsed documents, graphs and schedules
 * use it, because their parts live as long as the whole. */
#ifndef LS_BASE_ARENA_H
#define LS_BASE_ARENA_H

#include "base/ctx.h"

typedef struct ls_arena_block ls_arena_block_t;
typedef struct {
  ls_ctx_t *ctx;
  ls_arena_block_t *block; /* newest first */
} ls_arena_t;

void ls_arena_init(ls_arena_t *arena, ls_ctx_t *ctx);
void ls_arena_release(ls_arena_t *arena); /* frees everything; the arena is empty and usable again */

size_t ls_arena_bytes(const ls_arena_t *arena); /* bytes taken so far */

/* Zeroed, 16-byte aligned, valid until release. NULL on failure (reported). */
void *ls_arena_alloc(ls_arena_t *arena, size_t size_bytes);
void *ls_arena_array(ls_arena_t *arena, size_t count, size_t size_bytes);
char *ls_arena_strdup(ls_arena_t *arena, const char *text);
char *ls_arena_strndup(ls_arena_t *arena, const char *text, size_t len);
char *ls_arena_shown(ls_arena_t *arena, const char *text); /* ls_text_shown, uncut */
char *ls_arena_printf(ls_arena_t *arena, const char *fmt, ...) LS_PRINTF(2, 3);

#endif
