/* The sampling thread. Only this thread talks to NVML. It takes the lock only to write down its readings. */
#include "machine/gpu_sampler.h"

#include "base/signals.h"
#include "machine/nvml.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { PERIOD_NS = 20000000, SLOW_EVERY = 10, BUSY_AFTER_NS = 1000000000, ANSWER_LIMIT_NS = 2000000000 };

typedef struct {
  int64_t at_ns, throttle_reasons; /* -1 = unknown */
  double busy_percent, energy_j, memory_used_bytes;
} sample_t;

struct ls_gpu_sampler {
  ls_nvml_t nvml;
  ls_nvml_device_t device[LS_GPU_MAX];
  int device_count;
  bool all; /* the devices in use are not known */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  /* under the lock */
  bool ending;
  int64_t asked, answered; /* samples requested and taken outside the period */
  int64_t begin_ns;        /* 0 = no window */
  double begin_j;          /* NAN until a sample after begin tells */
  sample_t last;
  ls_gpu_sampler_report_t sums; /* of the window; busy_percent is a sum */
  int64_t busy_samples;
};

static double add(double sum, bool known, double value) {
  return known ? sum + value : NAN;
}

/* `slow`: also reads values that change slowly and are expensive to read. */
static sample_t take(const ls_gpu_sampler_t *w, bool slow) {
  sample_t s = {
      .throttle_reasons = -1, .busy_percent = slow ? 0 : NAN, .energy_j = 0, .memory_used_bytes = NAN};
  for (int i = 0; i < w->device_count; i++) {
    unsigned long long reasons, energy_mj = 0;
    ls_nvml_utilization_t used = {0};
    ls_nvml_memory_t memory;
    if (w->nvml.throttle && w->nvml.throttle(w->device[i], &reasons) == 0 && reasons <= INT64_MAX)
      s.throttle_reasons = (s.throttle_reasons < 0 ? 0 : s.throttle_reasons) | (int64_t)reasons;
    if (w->all) continue;
    bool energy = w->nvml.energy && w->nvml.energy(w->device[i], &energy_mj) == 0;
    s.energy_j = add(s.energy_j, energy, 1e-3 * (double)energy_mj);
    if (!slow) continue;
    bool busy = w->nvml.utilization && w->nvml.utilization(w->device[i], &used) == 0;
    s.busy_percent = add(s.busy_percent, busy, (double)used.gpu / w->device_count);
    if (w->nvml.memory && w->nvml.memory(w->device[i], &memory) == 0)
      s.memory_used_bytes = fmax(s.memory_used_bytes, (double)memory.used);
  }
  if (w->all) s.busy_percent = s.energy_j = NAN;
  s.at_ns = ls_clock_ns();
  return s;
}

/* Energy at `at_ns`, interpolated between two samples. */
static double energy_at(const sample_t *from, const sample_t *to, int64_t at_ns) {
  if (from->at_ns == 0 || at_ns <= from->at_ns || to->at_ns == from->at_ns) return to->energy_j;
  double part = (double)(at_ns - from->at_ns) / (double)(to->at_ns - from->at_ns);
  return from->energy_j + part * (to->energy_j - from->energy_j);
}

static void note(ls_gpu_sampler_t *w, const sample_t *s) {
  if (w->begin_ns > 0 && s->at_ns >= w->begin_ns) {
    if (isnan(w->begin_j)) w->begin_j = energy_at(&w->last, s, w->begin_ns);
    w->sums.samples++;
    if (s->throttle_reasons >= 0)
      w->sums.throttle_reasons =
          (w->sums.throttle_reasons < 0 ? 0 : w->sums.throttle_reasons) | s->throttle_reasons;
    w->sums.memory_used_bytes = fmax(w->sums.memory_used_bytes, s->memory_used_bytes);
    if (s->at_ns - w->begin_ns >= BUSY_AFTER_NS && isfinite(s->busy_percent)) {
      w->sums.busy_percent += s->busy_percent;
      w->busy_samples++;
    }
  }
  w->last = *s;
}

static struct timespec deadline_in(int64_t ns) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  int64_t nanoseconds = at.tv_nsec + ns;
  at.tv_sec += nanoseconds / 1000000000;
  at.tv_nsec = (long)(nanoseconds % 1000000000);
  return at;
}

static void *sample_on(void *arg) {
  ls_gpu_sampler_t *w = arg;
  int count = 0;
  pthread_mutex_lock(&w->lock);
  while (!w->ending) {
    int64_t asked = w->asked;
    bool slow = w->answered != asked || count++ % SLOW_EVERY == 0;
    pthread_mutex_unlock(&w->lock);
    sample_t s = take(w, slow);
    pthread_mutex_lock(&w->lock);
    note(w, &s);
    if (w->answered != asked) {
      w->answered = asked;
      pthread_cond_broadcast(&w->changed);
    }
    const struct timespec until = deadline_in(PERIOD_NS);
    while (!w->ending && w->asked == w->answered)
      if (pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT) break;
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static void find_devices(ls_gpu_sampler_t *w, const int *gpus, int count) {
  unsigned all = 0;
  w->all = count == 0;
  if (w->all && w->nvml.count(&all) == 0) count = all < LS_GPU_MAX ? (int)all : LS_GPU_MAX;
  for (int i = 0; i < count && i < LS_GPU_MAX; i++)
    if (w->nvml.handle(w->all ? (unsigned)i : (unsigned)gpus[i], &w->device[w->device_count]) == 0)
      w->device_count++;
  if (w->device_count < count) w->all = true; /* sums would miss a device that is not visible */
}

static void prepare_lock(ls_gpu_sampler_t *w) {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&w->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&w->lock, NULL);
}

ls_status_t ls_gpu_sampler_start(ls_ctx_t *ctx, const int *gpus, int count, ls_gpu_sampler_t **sampler) {
  char why[256];
  ls_gpu_sampler_t *w = ls_alloc(ctx, sizeof *w);
  if (!w) return LS_ERR_MEMORY;
  if (!ls_nvml_open(&w->nvml, why, sizeof why)) {
    ls_free(w);
    return LS_ERR_UNSUPPORTED;
  }
  find_devices(w, gpus, count);
  prepare_lock(w);
  int error = ls_signals_thread(&w->thread, "ls gpu sampler", sample_on, w);
  if (error != 0) {
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    ls_nvml_close(&w->nvml);
    ls_free(w);
    errno = error;
    return ls_fail_errno(ctx, "cannot start a thread that samples the GPUs");
  }
  *sampler = w;
  return LS_OK;
}

void ls_gpu_sampler_stop(ls_gpu_sampler_t *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->ending = true;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  pthread_join(w->thread, NULL);
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  ls_nvml_close(&w->nvml);
  ls_free(w);
}

static const ls_gpu_sampler_report_t unknown = {
    .throttle_reasons = -1, .busy_percent = NAN, .energy_j = NAN, .memory_used_bytes = NAN};

void ls_gpu_sampler_begin(ls_gpu_sampler_t *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  w->begin_ns = ls_clock_ns();
  w->begin_j = NAN;
  w->sums = unknown;
  w->sums.busy_percent = 0;
  w->busy_samples = 0;
  pthread_mutex_unlock(&w->lock);
}

/* Requests a sample that begins after this call: a sample in progress may have begun before. The caller has the
 * lock. */
static void ask(ls_gpu_sampler_t *w) {
  const struct timespec until = deadline_in(ANSWER_LIMIT_NS);
  int64_t mine = ++w->asked;
  pthread_cond_broadcast(&w->changed);
  while (w->answered < mine)
    if (pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT) break;
}

void ls_gpu_sampler_sample(ls_gpu_sampler_t *w) {
  if (!w) return;
  pthread_mutex_lock(&w->lock);
  ask(w);
  pthread_mutex_unlock(&w->lock);
}

void ls_gpu_sampler_end(ls_gpu_sampler_t *w, ls_gpu_sampler_report_t *report) {
  *report = unknown;
  if (!w) return;
  int64_t end_ns = ls_clock_ns();
  pthread_mutex_lock(&w->lock);
  if (w->begin_ns > 0) {
    const sample_t before = w->last;
    ask(w);
    *report = w->sums;
    report->window_s = 1e-9 * (double)(end_ns - w->begin_ns);
    report->busy_percent = w->busy_samples > 0 ? w->sums.busy_percent / (double)w->busy_samples : NAN;
    report->energy_j = energy_at(&before, &w->last, end_ns) - w->begin_j;
    w->begin_ns = 0;
  }
  pthread_mutex_unlock(&w->lock);
}

int ls_gpu_sampler_visible(const char *visible, int count, int *gpus) {
  if (count > LS_GPU_MAX) return 0;
  const char *at = visible;
  for (int i = 0; i < count; i++) {
    gpus[i] = i;
    if (!visible) continue;
    char *end;
    long index = strtol(at, &end, 10);
    if (end == at || index < 0 || index > 1023 || (*end && *end != ',')) return 0;
    gpus[i] = (int)index;
    if (!*end && i + 1 < count) return 0;
    at = end + (*end != '\0');
  }
  return count;
}
