/* One list of the signals that are blocked, for the library's threads and for its products. */
#include "base/signals.h"

#include <stddef.h>

static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

void ls_signals_block(sigset_t *before) {
  sigset_t outside;
  sigfillset(&outside);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    sigdelset(&outside, own[i]);
  pthread_sigmask(SIG_BLOCK, &outside, before);
}

void ls_signals_restore(const sigset_t *before) {
  pthread_sigmask(SIG_SETMASK, before, NULL);
}

int ls_signals_thread(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg) {
  sigset_t before;
  ls_signals_block(&before);
  int error = pthread_create(thread, NULL, fn, arg);
  ls_signals_restore(&before);
  if (error == 0) pthread_setname_np(*thread, name);
  return error;
}
