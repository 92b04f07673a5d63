/* Arena: a list of blocks, allocation by moving a mark. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_BYTES = 16384, ALIGN_BYTES = 16 };

struct ls_arena_block {
  ls_arena_block_t *next;
  size_t used, size;
  _Alignas(ALIGN_BYTES) unsigned char bytes[];
};

void ls_arena_init(ls_arena_t *arena, ls_ctx_t *ctx) {
  arena->ctx = ctx;
  arena->block = NULL;
}

void ls_arena_release(ls_arena_t *arena) {
  while (arena->block) {
    ls_arena_block_t *next = arena->block->next;
    ls_free(arena->block);
    arena->block = next;
  }
}

size_t ls_arena_bytes(const ls_arena_t *arena) {
  size_t sum = 0;
  for (const ls_arena_block_t *b = arena->block; b; b = b->next)
    sum += sizeof *b + b->size;
  return sum;
}

void *ls_arena_alloc(ls_arena_t *arena, size_t size_bytes) {
  if (size_bytes > SIZE_MAX / 2) size_bytes = SIZE_MAX / 2; /* so large that the allocator refuses it */
  size_t need = (size_bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  ls_arena_block_t *block = arena->block;
  if (!block || block->size - block->used < need) {
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    block = ls_alloc(arena->ctx, sizeof *block + size);
    if (!block) return NULL;
    block->size = size;
    block->next = arena->block;
    arena->block = block;
  }
  void *memory = block->bytes + block->used;
  block->used += need;
  return memory;
}

void *ls_arena_array(ls_arena_t *arena, size_t count, size_t size_bytes) {
  size_t total;
  if (__builtin_mul_overflow(count, size_bytes, &total)) total = SIZE_MAX;
  return ls_arena_alloc(arena, total);
}

char *ls_arena_strndup(ls_arena_t *arena, const char *text, size_t len) {
  char *copy = ls_arena_alloc(arena, len + 1);
  return copy ? memcpy(copy, text, len) : NULL;
}

char *ls_arena_strdup(ls_arena_t *arena, const char *text) {
  return ls_arena_strndup(arena, text, strlen(text));
}

char *ls_arena_shown(ls_arena_t *arena, const char *text) {
  size_t size = strlen(text) * (LS_PLAIN_BYTES - 1) + 1;
  char *shown = ls_arena_alloc(arena, size);
  if (shown) ls_text_shown(text, SIZE_MAX, shown, size);
  return shown;
}

char *ls_arena_printf(ls_arena_t *arena, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int len = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (len < 0) return NULL;
  char *text = ls_arena_alloc(arena, (size_t)len + 1);
  if (!text) return NULL;
  va_start(args, fmt);
  vsnprintf(text, (size_t)len + 1, fmt, args);
  va_end(args);
  return text;
}
