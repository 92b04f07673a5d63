/* Faults on purpose (supervise/inject.h) where they need what a trainer has: its parameters, checkpoints and memory. */
#include "ckpt/manifest.h"
#include "train/trainer.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The first parameter behind the head, on the device, between two steps. */
static ls_status_t change_parameter(ls_trainer_t *t, bool flip) {
  const ls_stream_ops_t *stream = t->engine.backend->stream;
  float *at = (float *)t->engine.state->data[ls_state_find(t->engine.table, "parameters")] + LS_LAYOUT_HEAD;
  float value = NAN;
  uint32_t bits;
  ls_status_t status = LS_OK;
  if (flip) {
    status = stream->copy(t->engine.stream, &value, at, sizeof value);
    if (status == LS_OK) status = stream->sync(t->engine.stream, t->world->comm->deadline_ns);
    memcpy(&bits, &value, sizeof bits);
    bits ^= UINT32_C(1) << 20;
    memcpy(&value, &bits, sizeof bits);
  }
  if (status == LS_OK) status = stream->copy(t->engine.stream, at, &value, sizeof value);
  ls_state_changed(t->engine.state);
  return status == LS_OK ? stream->sync(t->engine.stream, t->world->comm->deadline_ns) : status;
}

/* One bit in the middle of the newest checkpoint's model. */
static void spoil(ls_trainer_t *t) {
  unsigned char byte;
  ls_ckpt_t *ckpt;
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  if (t->beside) ls_beside_wait(t);
  if (own && ls_ckpt_open_newest(own, t->config->checkpoint.dir, &ckpt) == LS_OK) {
    char *path = ls_path_join(own, ls_ckpt_path(ckpt), LS_MODEL_NAME);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    off_t middle = lseek(fd, 0, SEEK_END) / 2;
    if (pread(fd, &byte, 1, middle) == 1) {
      byte ^= 1;
      if (pwrite(fd, &byte, 1, middle) != 1) ls_log(t->ctx, LS_LOG_WARN, "%s: could not be altered", path);
    }
    close(fd);
  }
  raise(SIGKILL);
}

static ls_status_t strike(ls_trainer_t *t, const ls_inject_kind_t *kind) {
  if (ls_inject_process(kind)) return LS_OK;
  switch (kind->how) {
  case LS_INJECT_NAN:
  case LS_INJECT_FLIP:
    return change_parameter(t, kind->how == LS_INJECT_FLIP);
  case LS_INJECT_SPOIL:
    spoil(t);
    return LS_OK;
  case LS_INJECT_MEMORY:
    return ls_alloc(t->ctx, SIZE_MAX) ? LS_OK : LS_ERR_MEMORY;
  case LS_INJECT_WRITE:
  case LS_INJECT_SYNC:
    t->save_fault = kind;
    return LS_OK;
  default:
    t->slow = kind->how == LS_INJECT_SLOW;
    return LS_OK;
  }
}

static ls_status_t delay(void *arg) {
  const int64_t begin_ns = ls_clock_ns(), *ns = arg;
  while (ls_clock_ns() - begin_ns < *ns) {
  }
  return LS_OK;
}

/* Delays the step's first task, on a device too, by what makes the newest step that has ended, of which its own delay was
 * a part, some percent longer than it was without it or than its pace. */
static ls_status_t be_slow(ls_trainer_t *t, int64_t step, int64_t own_ns) {
  int64_t *ns = &t->slow_ns[step % 2];
  const int64_t work_ns = own_ns - t->slow_ns[(step - 1 - t->engine.lag) & 1], pace_ns = t->inject.pace_ns;
  const int64_t usual_ns = work_ns > pace_ns ? work_ns : pace_ns;
  const int64_t more_ns = usual_ns - work_ns + (t->slow ? usual_ns * t->inject.percent / 100 : 0);
  *ns = more_ns > 0 ? more_ns : 0;
  return ls_run_call(t->engine.step[LS_STEP_TRAIN].run, delay, ns);
}

/* Steps may be so short that the run would be over before the fault of another process has come back to its ranks. */
static void await(const ls_inject_t *inject, const ls_train_hooks_t *hooks, int64_t agree_step) {
  enum { LOOKS = 5000, LOOK_NS = 1000000 };
  for (int i = 0; i < LOOKS && hooks->stop; i++) {
    if (hooks->stop(hooks->user)) {
      ls_inject_asked(inject, agree_step);
      return;
    }
    nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
  }
}

ls_status_t ls_trainer_inject(ls_trainer_t *t, const ls_train_hooks_t *hooks, int64_t step,
                              int64_t agree_step, int64_t own_ns) {
  ls_status_t status = t->slow || t->inject.pace_ns > 0 ? be_slow(t, step, own_ns) : LS_OK;
  if (status != LS_OK || !ls_inject_due(&t->inject, step)) return status;
  const ls_inject_kind_t *kind = t->inject.kind;
  t->inject.kind = NULL;
  if (!ls_inject_claim(&t->inject)) return LS_OK;
  status = strike(t, kind);
  if (kind->whose != LS_INJECT_OWN && kind->number != SIGSTOP)
    await(&t->inject, hooks, agree_step > step ? agree_step : step + 1);
  return status;
}
