/* A library to preload into a training: does something to it at one step. LOCKSTEP_FAULT="KIND RANK STEP PAGE ONCE":
 * at the first product of this rank after this step, as the page of the run's ranks (the file PAGE) shows it; never
 * again once the file ONCE exists, which then holds the time (CLOCK_REALTIME, seconds). KIND:
 *   N@L    signal N to itself (L 0), to its parent, mpirun (L 1), or further up
 *   exit   ends with exit code 0          loop   computes for ever
 *   nan    its products are not numbers from here on
 *   flip   a bit of the weights of its first product: a batch that is large enough for the library
 *   spoil  runs LOCKSTEP_FAULT_COMMAND, then is killed
 *   slowP  its products take P % longer from here on */
#include <dlfcn.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LINE_BYTES = 64, PATH_BYTES = 4096 };

static struct {
  bool ready, armed, done, poison;
  int slow_percent;
  char kind[16], once[PATH_BYTES];
  long long step;
  const volatile long long *shown;
} f;

static void arm(void) {
  const char *text = getenv("LOCKSTEP_FAULT"), *rank = getenv("OMPI_COMM_WORLD_RANK");
  char page[PATH_BYTES];
  int want;
  f.ready = true;
  if (!text || sscanf(text, "%15s %d %lld %4095s %4095s", f.kind, &want, &f.step, page, f.once) != 5) return;
  if ((rank ? atoi(rank) : 0) != want || access(f.once, F_OK) == 0) return;
  int fd = open(page, O_RDONLY | O_CLOEXEC);
  const size_t bytes = (size_t)(want + 2) * LINE_BYTES;
  void *at = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return;
  f.shown = (const volatile long long *)at + (size_t)(want + 1) * LINE_BYTES / sizeof(long long);
  f.armed = true;
}

static pid_t above(pid_t pid, int levels) {
  for (; levels > 0; levels--) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[got] = '\0';
    const char *end = strrchr(text, ')');
    int parent;
    if (!end || sscanf(end + 1, " %*c %d", &parent) != 1) return 0;
    pid = parent;
  }
  return pid;
}

static void now_once(void) {
  char text[64];
  struct timespec t;
  int fd = open(f.once, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return;
  clock_gettime(CLOCK_REALTIME, &t);
  int len = snprintf(text, sizeof text, "%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec);
  if (write(fd, text, (size_t)len) < 0) abort();
  close(fd);
}

static void strike(void) {
  f.done = true;
  f.poison = !strcmp(f.kind, "nan");
  if (sscanf(f.kind, "slow%d", &f.slow_percent) != 1) f.slow_percent = 0;
  if (!strcmp(f.kind, "spoil") && system(getenv("LOCKSTEP_FAULT_COMMAND")) != 0) abort();
  now_once();
  int number, levels;
  if (sscanf(f.kind, "%d@%d", &number, &levels) == 2) kill(above(getpid(), levels), number);
  if (!strcmp(f.kind, "spoil")) raise(SIGKILL);
  if (!strcmp(f.kind, "exit")) _exit(0);
  for (volatile unsigned loops = 0; !strcmp(f.kind, "loop");)
    loops = loops + 1;
}

static long long clock_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void after(bool transposed, const float *b, float *c, long long began_ns) {
  const long long until_ns = began_ns + (clock_ns() - began_ns) * (100 + f.slow_percent) / 100;
  while (f.slow_percent > 0 && clock_ns() < until_ns) {
  }
  if (!f.ready) arm();
  if (f.armed && !f.done && *f.shown >= f.step) {
    bool flip = !strcmp(f.kind, "flip");
    if (flip && transposed) return;
    strike();
    if (flip) *(unsigned *)(uintptr_t)b ^= 1u << 20;
  }
  if (f.poison) *c = NAN;
}

__attribute__((visibility("default"))) int dnnl_sgemm(char ta, char tb, long m, long n, long k, float alpha,
                                                      const float *a, long lda, const float *b, long ldb,
                                                      float beta, float *c, long ldc);
int dnnl_sgemm(char ta, char tb, long m, long n, long k, float alpha, const float *a, long lda,
               const float *b, long ldb, float beta, float *c, long ldc) {
  static __typeof__(dnnl_sgemm) *real;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "dnnl_sgemm");
  const long long began_ns = clock_ns();
  int status = real(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  after(ta != 'N', b, c, began_ns);
  return status;
}

__attribute__((visibility("default"))) void cblas_sgemm(int order, int ta, int tb, int m, int n, int k,
                                                        float alpha, const float *a, int lda, const float *b,
                                                        int ldb, float beta, float *c, int ldc);
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc) {
  static __typeof__(cblas_sgemm) *real;
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "cblas_sgemm");
  const long long began_ns = clock_ns();
  real(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  after(ta != 111, b, c, began_ns); /* CblasNoTrans */
}
