/* Signals belong to the program's own threads, and even these must not take one at certain moments. */
#ifndef LS_BASE_SIGNALS_H
#define LS_BASE_SIGNALS_H

#include <pthread.h>
#include <signal.h>

/* Blocks every signal that comes from outside in this thread. Signals that the thread's own instructions
 * raise (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT) stay unblocked. A blocked signal goes to
 * another thread or waits. *before is for restore. */
void ls_signals_block(sigset_t *before);
void ls_signals_restore(const sigset_t *before);

/* Starts a thread that blocks these signals. top -H shows `name`, at most 15 characters. Returns 0 or an
 * errno value. */
int ls_signals_thread(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

#endif
