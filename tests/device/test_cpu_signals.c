/* Signals at random moments while a thread multiplies, as they come in any program that embeds the library:
 * its handlers are plain ones, without a stack of their own. oneDNN's kernels keep the stack pointer within
 * memory from malloc, so a handler that runs in the middle of one overwrites the heap. */
#include "base/signals.h"
#include "kernel_test.h"

#include <stdatomic.h>

enum { EACH = 200, HANDLER_BYTES = 2048, NEIGHBOURS = 64, NEIGHBOUR_BYTES = 4096 };
static const int kinds[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGALRM, SIGPROF};

static _Atomic int handled;   /* signals whose handler has run */
static _Atomic int off_stack; /* of them on other memory than the thread's stack */
static uintptr_t stack_begin, stack_end;

static void on_signal(int number) {
  (void)number;
  volatile char used[HANDLER_BYTES];
  for (int k = 0; k < HANDLER_BYTES; k++)
    used[k] = (char)k;
  uintptr_t here = (uintptr_t)__builtin_frame_address(0) + (used[0] != 0);
  if (here < stack_begin || here >= stack_end) atomic_fetch_add(&off_stack, 1);
  atomic_fetch_add(&handled, 1);
}

/* One signal at a time, each a random while after the one before was handled. */
static void *send_signals(void *arg) {
  const pthread_t *to = arg;
  int sent = 0;
  for (int i = 0; i < EACH; i++)
    for (int k = 0; k < LS_COUNT(kinds); k++) {
      uint32_t spins = ls_rng(17, 3, (uint64_t)sent).v[0] % 200000;
      for (volatile uint32_t s = 0; s < spins; s++)
        ;
      pthread_kill(*to, kinds[k]);
      sent++;
      while (atomic_load(&handled) < sent)
        sched_yield();
    }
  return NULL;
}

static void find_stack(void) {
  pthread_attr_t attributes;
  void *begin;
  size_t size_bytes;
  assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
  assert_int_equal(pthread_attr_getstack(&attributes, &begin, &size_bytes), 0);
  pthread_attr_destroy(&attributes);
  stack_begin = (uintptr_t)begin;
  stack_end = stack_begin + size_bytes;
}

typedef struct {
  float *x, *w, *b, *dy, *y, *dx, *dw, *db;
} memory_t;

/* The three products of a layer with `n` rows. */
static void multiply(bed_t *bed, const memory_t *m, int64_t n, int64_t i, int64_t o) {
  ls_tensor_t x = {m->x, LS_SHAPE(LS_F32, n, i)}, w = {m->w, LS_SHAPE(LS_F32, o, i)},
              b = {m->b, LS_SHAPE(LS_F32, o)}, dy = {m->dy, LS_SHAPE(LS_F32, n, o)};
  ls_tensor_t y = {m->y, dy.shape}, dx = {m->dx, x.shape}, dwb[] = {{m->dw, w.shape}, {m->db, b.shape}};
  bed_run(bed, "linear",
          &(ls_kernel_args_t){.in = (ls_tensor_t[]){x, w, b}, .in_count = 3, .out = &y, .out_count = 1});
  bed_run(bed, "linear_dx",
          &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, w}, .in_count = 2, .out = &dx, .out_count = 1});
  bed_run(bed, "linear_dwb",
          &(ls_kernel_args_t){.in = (ls_tensor_t[]){dy, x}, .in_count = 2, .out = dwb, .out_count = 2});
}

static memory_t memory_make(int64_t n, int64_t i, int64_t o) {
  return (memory_t){random_floats(n * i, 1, -1, 1),
                    random_floats(o * i, 2, -1, 1),
                    random_floats(o, 3, -1, 1),
                    random_floats(n * o, 4, -1, 1),
                    guarded(n * o),
                    guarded(n * i),
                    guarded(o * i),
                    guarded(o)};
}

static void memory_free(const memory_t *m) {
  float *const all[] = {m->x, m->w, m->b, m->dy, m->y, m->dx, m->dw, m->db};
  for (int k = 0; k < LS_COUNT(all); k++)
    guarded_free(all[k]);
}

static void assert_same_results(const memory_t *a, const memory_t *b, int64_t n, int64_t i, int64_t o) {
  assert_memory_equal(a->y, b->y, (size_t)(n * o) * sizeof(float));
  assert_memory_equal(a->dx, b->dx, (size_t)(n * i) * sizeof(float));
  assert_memory_equal(a->dw, b->dw, (size_t)(o * i) * sizeof(float));
  assert_memory_equal(a->db, b->db, (size_t)o * sizeof(float));
}

/* Blocks of the size that lies below the library's scratch: what a stray frame would overwrite. */
static void *neighbour[NEIGHBOURS];

static void neighbours_make(void) {
  for (int k = 0; k < NEIGHBOURS; k++) {
    neighbour[k] = malloc(NEIGHBOUR_BYTES);
    assert_non_null(neighbour[k]);
    memset(neighbour[k], k, NEIGHBOUR_BYTES);
  }
  for (int k = 1; k < NEIGHBOURS; k += 2) { /* room between them */
    free(neighbour[k]);
    neighbour[k] = NULL;
  }
}

static void neighbours_check(void) {
  for (int k = 0; k < NEIGHBOURS; k += 2) {
    const unsigned char *bytes = neighbour[k];
    for (int at = 0; at < NEIGHBOUR_BYTES; at++)
      assert_int_equal(bytes[at], k);
    free(neighbour[k]);
  }
}

static void a_handled_signal_during_a_product_leaves_the_heap_alone(void **state) {
  const int64_t n = 256, i = 256, o = 512;
  bed_t bed = bed_open(1);
  memory_t quiet = memory_make(n, i, o), m = memory_make(n, i, o);
  multiply(&bed, &quiet, n, i, o);
  find_stack();
  neighbours_make();
  for (int k = 0; k < LS_COUNT(kinds); k++)
    sigaction(kinds[k], &(struct sigaction){.sa_handler = on_signal}, NULL);
  pthread_t self = pthread_self(), sender;
  atomic_store(&handled, 0);
  assert_int_equal(ls_signals_thread(&sender, "sender", send_signals, &self), 0);
  int products = 0;
  for (; atomic_load(&handled) < EACH * LS_COUNT(kinds) || products == 0; products++) {
    multiply(&bed, &m, n, i, o);
    assert_same_results(&quiet, &m, n, i, o);
  }
  pthread_join(sender, NULL);
  for (int k = 0; k < LS_COUNT(kinds); k++)
    signal(kinds[k], SIG_DFL);
  assert_int_equal(atomic_load(&off_stack), 0);
  assert_int_equal(atomic_load(&handled), EACH * LS_COUNT(kinds));
  neighbours_check();
  memory_free(&quiet);
  memory_free(&m);
  bed_close(&bed);
}

/* A product blocks signals for its own time only. */
static void a_product_leaves_the_signal_mask_as_it_was(void **state) {
  const int64_t n = 256, i = 64, o = 64;
  sigset_t before, after;
  bed_t bed = bed_open(2);
  memory_t m = memory_make(n, i, o);
  sigemptyset(&before);
  sigaddset(&before, SIGUSR2);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  multiply(&bed, &m, n, i, o);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  for (int number = 1; number < NSIG; number++)
    assert_int_equal(sigismember(&after, number), sigismember(&before, number));
  sigemptyset(&before);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  memory_free(&m);
  bed_close(&bed);
}

TESTS(NULL, NULL, a_handled_signal_during_a_product_leaves_the_heap_alone,
      a_product_leaves_the_signal_mask_as_it_was)
