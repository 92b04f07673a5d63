#include "probe/task_key.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char *buf;
  size_t used;
} text_t;

static void append(text_t *to, const char *fmt, ...) LS_PRINTF(2, 3);
static void append(text_t *to, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(to->buf + to->used, LS_PROFILE_KEY_BYTES - to->used, fmt, args);
  va_end(args);
  if (n > 0) to->used += (size_t)n;
  if (to->used > LS_PROFILE_KEY_BYTES - 1) to->used = LS_PROFILE_KEY_BYTES - 1;
}

static void append_shapes(text_t *to, const ls_schedule_t *s, const int *ids, int count) {
  char shape[LS_SHAPE_TEXT_BYTES];
  for (int i = 0; i < count; i++)
    append(to, " %s", ls_shape_text(&s->tensors[ids[i]].shape, shape));
}

const char *ls_task_key(const ls_schedule_t *s, int t, const char *backend, int threads,
                        char buf[LS_PROFILE_KEY_BYTES]) {
  const ls_task_t *task = &s->tasks[t];
  const char *name = task->op ? task->op->name : "copy";
  text_t to = {.buf = buf};
  to.used = strlen(ls_profile_key(buf, (ls_profile_key_t){LS_KEY_OP, backend, name, 0, threads}));
  for (int i = 0; i < LS_COUNT(task->attrs.i); i++)
    if (task->attrs.i[i]) append(&to, " i%d=%" PRId64, i, task->attrs.i[i]);
  for (int i = 0; i < LS_COUNT(task->attrs.f); i++)
    if (task->attrs.f[i] != 0) append(&to, " f%d=%g", i, task->attrs.f[i]);
  append_shapes(&to, s, task->in, task->in_count);
  append(&to, " ->");
  append_shapes(&to, s, task->out, task->out_count);
  return buf;
}
