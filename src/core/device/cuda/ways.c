/* Chooses between the ways to compute an op. A choice is measured once for an op, its shapes and attributes, the GPU and
 * the libraries, and is kept as a line of a file, so that later runs and the other ranks of a machine make the same one and
 * give the same bits. A way is timed as it will run: on the op's own operands, captured in a graph. */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 512, LINE_BYTES = KEY_BYTES + 256, PATH_BYTES = 4096, WAYS_VERSION = 1, ALIGN_BYTES = 64 };
enum { ROUNDS = 3, REPEATS_MAX = 20, ROUND_NS = 200000 };
/* A way takes the place of an earlier one only if it is faster by this factor: less is noise. The first one's place it takes
 * only for more, because that order was measured in whole steps, with other kernels beside it and colder caches. */
static const double GAIN = 0.97, GAIN_OF_FIRST = 0.88;

struct ls_way_choice {
  ls_way_choice_t *next;
  const ls_way_t *row; /* once it is known which */
  char *key, *name;
};

static void key_of(ls_stream_t *stream, const ls_kernel_args_t *args, const char *op, char key[KEY_BYTES]) {
  const ls_cuda_device_t *device = ls_cuda_device(stream->device);
  uintptr_t bits = ALIGN_BYTES;
  int at = snprintf(key, KEY_BYTES, "%s%s", op, device->base.math == LS_MATH_TF32 ? " tf32" : "");
  for (int i = 0; i < args->in_count + args->out_count && at < KEY_BYTES; i++) {
    const ls_tensor_t *t = i < args->in_count ? &args->in[i] : &args->out[i - args->in_count];
    at += snprintf(key + at, (size_t)(KEY_BYTES - at), " %s", ls_dtype_name(t->shape.dtype));
    for (int d = 0; d < t->shape.rank && at < KEY_BYTES; d++)
      at += snprintf(key + at, (size_t)(KEY_BYTES - at), ",%lld", (long long)t->shape.dim[d]);
    bits |= (uintptr_t)t->data;
  }
  for (int i = 0; i < LS_COUNT(args->attrs->i) && at < KEY_BYTES; i++)
    if (args->attrs->i[i] && !(i == 2 && strncmp(op, "attention", 9) == 0)) /* the stream of its dropout */
      at += snprintf(key + at, (size_t)(KEY_BYTES - at), " i%d=%lld", i, (long long)args->attrs->i[i]);
  for (int i = 0; i < LS_COUNT(args->attrs->f) && at < KEY_BYTES; i++)
    if (args->attrs->f[i] != 0)
      at += snprintf(key + at, (size_t)(KEY_BYTES - at), " f%d=%g", i, args->attrs->f[i]);
  if (at < KEY_BYTES) snprintf(key + at, (size_t)(KEY_BYTES - at), " a%d", (int)(bits & (~bits + 1)));
}

/* "" where choices are kept for this process alone. */
static void path_of(char path[PATH_BYTES]) {
  const char *named = getenv("LOCKSTEP_CUDA_WAYS"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  *path = 0;
  if (named)
    snprintf(path, PATH_BYTES, "%s", named);
  else if (cache && *cache)
    snprintf(path, PATH_BYTES, "%s/lockstep/cuda-ways", cache);
  else if (home && *home)
    snprintf(path, PATH_BYTES, "%s/.cache/lockstep/cuda-ways", home);
}

static ls_way_choice_t *find(const ls_cuda_device_t *device, const char *key) {
  ls_way_choice_t *c = device->choice;
  while (c && strcmp(c->key, key) != 0)
    c = c->next;
  return c;
}

/* The first choice of a key stays. NULL: no memory. */
static ls_way_choice_t *keep(ls_cuda_device_t *device, const char *key, const char *name) {
  ls_way_choice_t *c = find(device, key);
  if (c) return c;
  size_t key_bytes = strlen(key) + 1, name_bytes = strlen(name) + 1;
  c = ls_alloc(device->base.ctx, sizeof *c + key_bytes + name_bytes);
  if (!c) return NULL;
  c->key = (char *)(c + 1);
  c->name = c->key + key_bytes;
  memcpy(c->key, key, key_bytes);
  memcpy(c->name, name, name_bytes);
  c->next = device->choice;
  device->choice = c;
  return c;
}

static void machine_of(const ls_cuda_device_t *device, char text[128]) {
  size_t dnn = 0;
#ifdef LS_HAVE_CUDNN
  if (device->dnn.handle) dnn = device->dnn.cudnnGetVersion();
#endif
  snprintf(text, 128, "%s, cuBLASLt %zu, cuDNN %zu, ways %d", device->base.name,
           device->blas.cublasLtGetVersion(), dnn, WAYS_VERSION);
}

/* Lines that were added since the last call: machine, key, name, microseconds, with tabs between. */
static void read_choices(ls_cuda_device_t *device, const char *path, const char *machine) {
  char line[LINE_BYTES];
  FILE *file = *path ? fopen(path, "r") : NULL;
  if (!file) return;
  if (fseek(file, device->choices_read, SEEK_SET) == 0)
    while (fgets(line, sizeof line, file) && strchr(line, '\n')) {
      device->choices_read += (long)strlen(line);
      char *rest = line, *of = strsep(&rest, "\t"), *key = strsep(&rest, "\t"), *name = strsep(&rest, "\t");
      if (rest && strcmp(of, machine) == 0) keep(device, key, name);
    }
  fclose(file);
}

static void make_folder(char *path) {
  for (char *p = path + 1; (p = strchr(p, '/')); *p++ = '/') {
    *p = 0;
    (void)mkdir(path, 0777);
  }
}

/* One write appends the line whole, so that ranks which measure at the same time agree on the first. */
static void write_choice(ls_cuda_device_t *device, char *path, const char *machine, const char *key,
                         const char *name, double us) {
  char line[LINE_BYTES];
  int size = snprintf(line, sizeof line, "%s\t%s\t%s\t%.2f\n", machine, key, name, us);
  if (!*path || size >= LINE_BYTES) return;
  make_folder(path);
  int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0 || write(file, line, (size_t)size) != size)
    ls_log(device->base.ctx, LS_LOG_DEBUG, "%s: %s: the choice of a kernel is not kept", path,
           strerror(errno));
  if (file >= 0) close(file);
}

typedef struct {
  ls_cuda_stream_t stream; /* the op's, with a handle of its own */
  cudaEvent_t from, until;
} meter_t;

static cudaError_t elapsed(meter_t *m, cudaError_t error, double *ns) {
  float ms = 0;
  if (!error) error = cudaEventRecord(m->until, m->stream.handle);
  if (!error) error = cudaEventSynchronize(m->until);
  if (!error) error = cudaEventElapsedTime(&ms, m->from, m->until);
  *ns = (double)ms * 1e6;
  return error;
}

static cudaError_t once(meter_t *m, const ls_kernel_args_t *args, const ls_way_t *way, double *ns) {
  cudaError_t error = cudaEventRecord(m->from, m->stream.handle);
  if (!error) error = (cudaError_t)way->run(&m->stream.base, args, way->which);
  return elapsed(m, error, ns);
}

static cudaError_t capture(meter_t *m, const ls_kernel_args_t *args, const ls_way_t *way, int repeats,
                           cudaGraphExec_t *exec) {
  cudaGraph_t graph = NULL;
  cudaError_t error = cudaStreamBeginCapture(m->stream.handle, cudaStreamCaptureModeRelaxed);
  if (error) return error;
  for (int i = 0; i < repeats && !error; i++)
    error = (cudaError_t)way->run(&m->stream.base, args, way->which);
  cudaError_t end = cudaStreamEndCapture(m->stream.handle, &graph);
  if (!error) error = end;
  if (!error) error = cudaGraphInstantiate(exec, graph, 0);
  if (graph) (void)cudaGraphDestroy(graph);
  return error;
}

/* Nanoseconds of one run; infinite where the way cannot do it, or is much slower than `best`. */
static double time_way(meter_t *m, const ls_kernel_args_t *args, const ls_way_t *way, double best) {
  double ns = INFINITY, least = INFINITY;
  cudaGraphExec_t exec = NULL;
  cudaError_t error = once(m, args, way, &ns);
  if (!error) error = once(m, args, way, &ns);
  if (!error && ns > 3 * best && ns > ROUND_NS) return INFINITY;
  int repeats = ns * REPEATS_MAX < ROUND_NS ? REPEATS_MAX : 1 + (int)(ROUND_NS / ns);
  if (!error) error = capture(m, args, way, repeats, &exec);
  for (int i = 0; i <= ROUNDS && !error; i++) {
    error = cudaEventRecord(m->from, m->stream.handle);
    if (!error) error = cudaGraphLaunch(exec, m->stream.handle);
    error = elapsed(m, error, &ns);
    if (!error && i > 0 && ns / repeats < least) least = ns / repeats;
  }
  if (exec) (void)cudaGraphExecDestroy(exec);
  (void)cudaGetLastError(); /* a way that cannot is no error */
  return least;
}

static bool allowed(const ls_cuda_device_t *device, const ls_way_t *way) {
  return !(way->loose && (device->strict || device->reproducible));
}

/* Waits for what was put on the stream before, which may still read what the trials overwrite. A stream that is captured
 * has nothing to wait for. */
static cudaError_t settle(cudaStream_t handle) {
  enum cudaStreamCaptureStatus capture;
  cudaError_t error = cudaStreamIsCapturing(handle, &capture);
  return error || capture != cudaStreamCaptureStatusNone ? error : cudaStreamSynchronize(handle);
}

static const ls_way_t *measure(ls_stream_t *stream, const ls_kernel_args_t *args, const ls_way_t *way,
                               int count, const char *op, double *best) {
  const ls_cuda_device_t *device = ls_cuda_device(stream->device);
  const ls_way_t *chosen = NULL, *first = NULL;
  meter_t m = {.stream = *ls_cuda_stream(stream)};
  m.stream.handle = NULL;
  m.stream.tries = true;
  *best = INFINITY;
  cudaError_t error = settle(ls_cuda_stream(stream)->handle);
  if (!error) error = cudaStreamCreateWithFlags(&m.stream.handle, cudaStreamNonBlocking);
  if (!error) error = cudaEventCreate(&m.from);
  if (!error) error = cudaEventCreate(&m.until);
  for (int i = 0; i < count && !error; i++) {
    if (!allowed(device, &way[i])) continue;
    double ns = time_way(&m, args, &way[i], *best);
    if (ns < INFINITY)
      ls_log(device->base.ctx, LS_LOG_DEBUG, "%s: %s takes %.2f us", op, way[i].name, ns / 1e3);
    if (ns >= *best * (!chosen ? 1 : chosen == first ? GAIN_OF_FIRST : GAIN)) continue;
    *best = ns;
    chosen = &way[i];
    if (!first) first = chosen;
  }
  if (m.until) (void)cudaEventDestroy(m.until);
  if (m.from) (void)cudaEventDestroy(m.from);
  if (m.stream.handle) (void)cudaStreamDestroy(m.stream.handle);
  (void)cudaGetLastError();
  return chosen;
}

static const ls_way_t *row_of(const ls_way_t *way, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (strcmp(way[i].name, name) == 0) return &way[i];
  return NULL;
}

/* The chosen row; NULL: the first that can. */
static const ls_way_t *choose(ls_stream_t *stream, const ls_kernel_args_t *args, const char *op,
                              const ls_way_t *way, int count) {
  ls_cuda_device_t *device = ls_cuda_device(stream->device);
  const char *forced = getenv("LOCKSTEP_CUDA_WAY");
  char key[KEY_BYTES], path[PATH_BYTES], machine[128];
  double best;
  if (forced && *forced) return row_of(way, count, forced);
  if (device->reproducible || ls_cuda_stream(stream)->workspace == NULL) return NULL;
  key_of(stream, args, op, key);
  if (device->strict) strncat(key, " strict", sizeof key - strlen(key) - 1);
  ls_way_choice_t *c = find(device, key);
  if (!c) {
    path_of(path);
    machine_of(device, machine);
    read_choices(device, path, machine);
    c = find(device, key);
  }
  if (!c) {
    const ls_way_t *measured = measure(stream, args, way, count, op, &best);
    if (!measured) return NULL;
    write_choice(device, path, machine, key, measured->name, best / 1e3);
    read_choices(device, path, machine);
    c = keep(device, key, measured->name);
  }
  if (c && !c->row) c->row = row_of(way, count, c->name);
  return c ? c->row : NULL;
}

ls_status_t ls_kernel_best(ls_stream_t *stream, const ls_kernel_args_t *args, const char *op,
                           const ls_way_t *way, int count) {
  const ls_cuda_device_t *device = ls_cuda_device(stream->device);
  const ls_way_t *chosen = choose(stream, args, op, way, count);
  int error = chosen ? chosen->run(stream, args, chosen->which) : cudaErrorNotSupported;
  for (int i = 0; i < count && (error == cudaErrorNotSupported || error == cudaErrorInvalidValue); i++) {
    if (&way[i] == chosen || !allowed(device, &way[i])) continue;
    (void)cudaGetLastError();
    error = way[i].run(stream, args, way[i].which);
  }
  return ls_kernel_status(stream, error, op);
}

void ls_cuda_forget_choices(ls_cuda_device_t *device) {
  for (ls_way_choice_t *c = device->choice, *next; c; c = next) {
    next = c->next;
    ls_free(c);
  }
  device->choice = NULL;
}
