/* Writes a checkpoint beside the training: the run stands still while its state is copied, and a thread of rank 0 does the
 * rest. One save at a time: the next one waits for it. A best checkpoint so soon after the last write that saving would
 * take much of the disk's time is only copied; it is written when its turn has come, or gives way to a better one. */
#include "train/trainer.h"

#include "base/signals.h"

#include <string.h>

struct ls_beside {
  ls_ctx_t *ctx; /* of the thread */
  pthread_t thread;
  bool held;         /* `save` waits for its turn; nothing is under way */
  bool begun;        /* a save is under way until its end was taken note of */
  bool running;      /* there is a thread to join */
  _Atomic bool done; /* it has nothing left to do */
  ls_status_t status;
  ls_save_t save;
  char *path;
  int64_t begin_ns, took_ns;
  /* Per row of the state table, where the device's memory is the host's and the rows need a copy. Elsewhere there are
   * none: a pull makes one. */
  int copies;
  void *copy[];
};

/* Errors are reported by whoever waits for the thread; the rest at once. */
static void say(void *user, ls_log_level_t level, const char *message) {
  if (level != LS_LOG_ERROR) ls_log(user, level, "%s", message);
}

static void *write_all(void *arg) {
  ls_beside_t *b = arg;
  b->status = ls_save_write(b->ctx, &b->save, &b->path);
  b->took_ns = ls_clock_ns() - b->begin_ns;
  atomic_store(&b->done, true);
  return NULL;
}

static void release(ls_beside_t *b) {
  for (int i = 0; i < b->copies; i++)
    ls_free(b->copy[i]);
  ls_ctx_destroy(b->ctx);
  ls_free(b);
}

static ls_status_t create(ls_trainer_t *t) {
  const ls_state_table_t *table = t->engine.table;
  const int copies = t->engine.backend->host_memory ? table->count : 0;
  ls_beside_t *b = ls_alloc(t->ctx, sizeof *b + (size_t)copies * sizeof *b->copy);
  if (!b) return LS_ERR_MEMORY;
  b->copies = copies;
  b->ctx = ls_ctx_create(say, t->ctx);
  ls_status_t status =
      b->ctx ? LS_OK : ls_fail(t->ctx, LS_ERR_MEMORY, "out of memory for saving beside the training");
  for (int i = 0; i < copies && status == LS_OK; i++)
    if (t->engine.state->host[i] && !(b->copy[i] = ls_alloc(t->ctx, ls_state_row_bytes(&table->row[i]))))
      status = LS_ERR_MEMORY;
  if (status == LS_OK)
    t->saver.beside = b;
  else
    release(b);
  return status;
}

void *const *ls_beside_copy(ls_trainer_t *t, ls_status_t *status) {
  if (!t->saver.beside) *status = create(t);
  if (*status == LS_OK)
    *status = ls_state_pull(t->engine.state, t->engine.stream, t->world->comm->deadline_ns);
  if (*status != LS_OK) return NULL;
  ls_beside_t *b = t->saver.beside;
  for (int i = 0; i < b->copies; i++)
    if (b->copy[i])
      memcpy(b->copy[i], t->engine.state->host[i], ls_state_row_bytes(&t->engine.table->row[i]));
  return b->copies > 0 ? b->copy : t->engine.state->host;
}

static void start(ls_beside_t *b) {
  b->begin_ns = ls_clock_ns();
  b->held = false;
  b->begun = true;
  atomic_store(&b->done, false);
  b->running = ls_signals_thread(&b->thread, "saving", write_all, b) == 0;
  if (!b->running) write_all(b); /* no thread to be had: then here */
}

static bool turn_has_come(const ls_trainer_t *t) {
  return ls_clock_ns() - t->saver.beside->begin_ns >= LS_WRITES_APART * t->saver.took_ns;
}

void ls_beside_start(ls_trainer_t *t, ls_save_t *save, bool may_wait) {
  ls_beside_t *b = t->saver.beside;
  b->save = *save;
  *save = (ls_save_t){0};
  b->held = may_wait && !turn_has_come(t);
  if (!b->held) start(b);
}

void ls_beside_wait(ls_trainer_t *t) {
  if (!t->saver.beside) return;
  if (t->saver.beside->running) pthread_join(t->saver.beside->thread, NULL);
  t->saver.beside->running = false;
}

/* Takes note of the end of the one that is under way; how the last one ended. */
static ls_status_t finish(ls_trainer_t *t) {
  ls_beside_t *b = t->saver.beside;
  if (!b->begun) return b->status;
  ls_beside_wait(t);
  b->begun = false;
  ls_status_t status = b->status;
  if (status != LS_OK) ls_fail(t->ctx, status, "%s", ls_ctx_error(b->ctx));
  t->saver.took_ns = b->took_ns;
  ls_ctx_clear(b->ctx);
  ls_save_done(t, &b->save, b->path, status, b->took_ns);
  b->path = NULL;
  return status;
}

ls_status_t ls_beside_end(ls_trainer_t *t) {
  if (!t->saver.beside) return LS_OK;
  ls_status_t status = finish(t);
  if (status != LS_OK || !t->saver.beside->held) return status;
  start(t->saver.beside);
  return finish(t);
}

ls_status_t ls_beside_give_way(ls_trainer_t *t) {
  ls_beside_t *b = t->saver.beside;
  if (!b || !b->held) return ls_beside_end(t);
  b->held = false;
  ls_save_done(t, &b->save, NULL, LS_OK, 0);
  return b->status;
}

bool ls_beside_failed(ls_trainer_t *t) {
  ls_beside_t *b = t->saver.beside;
  if (!b || (b->begun && !atomic_load(&b->done))) return false;
  ls_status_t status = finish(t);
  if (status == LS_OK && b->held && turn_has_come(t)) start(b);
  return status != LS_OK;
}

void ls_beside_destroy(ls_trainer_t *t) {
  if (!t->saver.beside) return;
  ls_beside_end(t);
  release(t->saver.beside);
  t->saver.beside = NULL;
}
