/* Faults on purpose (supervise/inject.h) that need what a trainer has: its parameters, checkpoints and memory. */
#include "supervise/inject.h"
#include "ckpt/manifest.h"
#include "train/observers/observers.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  ls_trainer_t *t;
  ls_inject_t inject; /* planted in this rank */
  bool slow;          /* it has struck: steps are slow from here on, */
  int64_t slow_ns[2]; /* even and odd ones by so much: two may be in flight */
} own_t;

static bool wanted(const ls_trainer_t *t) {
  return t->training && getenv(LS_INJECT_ENVIRONMENT);
}

static ls_status_t open_own(void *own, const ls_trainer_options_t *options) {
  (void)options;
  own_t *o = own;
  return ls_inject_read(o->t->ctx, o->t->world->comm->rank, &o->inject);
}

/* Changes the first parameter after the head, on the device, between two steps. */
static ls_status_t change_parameter(ls_trainer_t *t, bool flip) {
  const ls_stream_ops_t *stream = t->engine.backend->stream;
  float *at = (float *)t->engine.state->data[LS_STATE_PARAMETERS] + LS_LAYOUT_HEAD;
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

/* Changes one bit in the middle of the newest checkpoint's model, and kills the rank. */
static void spoil(ls_trainer_t *t) {
  unsigned char byte;
  ls_ckpt_t *ckpt;
  ls_ctx_t *own = ls_ctx_create(NULL, NULL);
  ls_beside_wait(t);
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

static ls_status_t strike(own_t *o, const ls_inject_kind_t *kind) {
  ls_trainer_t *t = o->t;
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
    t->saver.fault = (ls_save_fault_t){kind->how == LS_INJECT_SYNC ? LS_IO_SYNC : LS_IO_WRITE, kind->number};
    return LS_OK;
  default:
    o->slow = kind->how == LS_INJECT_SLOW;
    return LS_OK;
  }
}

static ls_status_t delay(void *arg) {
  const int64_t begin_ns = ls_clock_ns(), *ns = arg;
  while (ls_clock_ns() - begin_ns < *ns) {
  }
  return LS_OK;
}

/* Delays the first task of this step, on a device too. The newest step that has ended was itself delayed. Without that delay
 * it took work_ns; this step is to take that, or the pace, and some percent more once the fault has struck. */
static ls_status_t be_slow(own_t *o, int64_t step, int64_t own_ns) {
  const ls_engine_t *e = &o->t->engine;
  int64_t *ns = &o->slow_ns[step % 2];
  const int64_t work_ns = own_ns - o->slow_ns[(step - 1 - e->lag) & 1], pace_ns = o->inject.pace_ns;
  const int64_t usual_ns = work_ns > pace_ns ? work_ns : pace_ns;
  const int64_t more_ns = usual_ns - work_ns + (o->slow ? usual_ns * o->inject.percent / 100 : 0);
  *ns = more_ns > 0 ? more_ns : 0;
  return ls_run_call(e->step[LS_STEP_TRAIN].run, delay, ns);
}

/* Waits until the fault of another process has come back to this rank. Short steps could all be done by then. */
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

static ls_status_t before_step(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  const int64_t step = o->t->engine.launched;
  ls_status_t status = o->slow || o->inject.pace_ns > 0 ? be_slow(o, step, loop->own_ns) : LS_OK;
  if (status != LS_OK || !ls_inject_due(&o->inject, step)) return status;
  const ls_inject_kind_t *kind = o->inject.kind;
  o->inject.kind = NULL;
  if (!ls_inject_claim(&o->inject)) return LS_OK;
  status = strike(o, kind);
  if (kind->whose != LS_INJECT_OWN && kind->number != SIGSTOP)
    await(&o->inject, loop->hooks, loop->agree_step > step ? loop->agree_step : step + 1);
  return status;
}

const ls_observer_t ls_observer_inject = {.name = "inject",
                                          .own_bytes = sizeof(own_t),
                                          .wanted = wanted,
                                          .open = open_own,
                                          .before_step = before_step};
