/* Compares a checkpoint with the model's needs: same names, types and shapes, and no others. */
#include "ckpt/open.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_MAX = 3, LIST_BYTES = 1024 };

/* The first differences as text, and how many there are. */
typedef struct {
  char text[LIST_BYTES];
  int count;
} differences_t;

static void add(differences_t *d, const char *fmt, ...) LS_PRINTF(2, 3);
static void add(differences_t *d, const char *fmt, ...) {
  if (++d->count > SHOWN_MAX) return;
  size_t used = strlen(d->text);
  if (used > 0) used += (size_t)snprintf(d->text + used, LIST_BYTES - used, "; ");
  if (used >= LIST_BYTES) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(d->text + used, LIST_BYTES - used, fmt, args);
  va_end(args);
}

/* One wanted tensor; sorted by name so that the file's entries find theirs. */
typedef struct {
  const ls_ckpt_tensor_t *tensor;
  bool found;
} want_t;

static int want_by_name(const void *a, const void *b) {
  return strcmp(((const want_t *)a)->tensor->name, ((const want_t *)b)->tensor->name);
}

static int name_to_want(const void *name, const void *want) {
  return strcmp(name, ((const want_t *)want)->tensor->name);
}

static void compare(const ls_ckpt_source_t *entry, want_t *want, differences_t *d) {
  char there[LS_SHAPE_TEXT_BYTES], here[LS_SHAPE_TEXT_BYTES];
  if (!want) {
    add(d, "'%s' is in the checkpoint only", LS_SHOWN(entry->name));
    return;
  }
  want->found = true;
  if (ls_shape_equal(&entry->shape, &want->tensor->shape)) return;
  add(d, "'%s' is %s in the checkpoint and %s in the model", LS_SHOWN(entry->name),
      ls_shape_text(&entry->shape, there), ls_shape_text(&want->tensor->shape, here));
}

ls_status_t ls_ckpt_match(ls_ctx_t *ctx, ls_arena_t *arena, const char *file, const ls_ckpt_source_t *sources,
                          int source_count, const ls_ckpt_tensor_t *want, int want_count,
                          const ls_ckpt_tensor_t ***to) {
  const ls_ckpt_tensor_t **found = ls_arena_array(arena, (size_t)source_count, sizeof *found);
  want_t *wants = ls_arena_array(arena, (size_t)want_count, sizeof *wants);
  if (!found || !wants) return LS_ERR_MEMORY;
  for (int i = 0; i < want_count; i++)
    wants[i].tensor = &want[i];
  if (want_count > 1) qsort(wants, (size_t)want_count, sizeof *wants, want_by_name);
  differences_t d = {.count = 0};
  for (int i = 0; i < source_count; i++) {
    want_t *w = want_count == 0
                    ? NULL
                    : bsearch(sources[i].name, wants, (size_t)want_count, sizeof *wants, name_to_want);
    compare(&sources[i], w, &d);
    if (w) found[i] = w->tensor;
  }
  for (int i = 0; i < want_count; i++)
    if (!wants[i].found) add(&d, "'%s' is in the model only", wants[i].tensor->name);
  if (d.count == 0) {
    *to = found;
    return LS_OK;
  }
  char more[48] = "";
  if (d.count > SHOWN_MAX) snprintf(more, sizeof more, "; and %d more", d.count - SHOWN_MAX);
  return ls_fail(ctx, LS_ERR_MISMATCH, "%s: belongs to another model or optimizer: %s%s", file, d.text, more);
}
