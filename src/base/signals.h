/* Signals belong to the program's own threads, and not even those may take one at any moment. */
#ifndef LS_BASE_SIGNALS_H
#define LS_BASE_SIGNALS_H

#include <pthread.h>
#include <signal.h>

/* Blocks every signal that comes from outside in this thread. What the thread's own instructions raise
 * (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT) stays as it is. A blocked signal goes to
 * another thread or waits. *before is for restore. */
void ls_signals_block(sigset_t *before);
void ls_signals_restore(const sigset_t *before);

/* Starts a thread that blocks these signals. `name`: as top -H shows it, at most 15 characters. 0 or an errno
 * value. */
int ls_signals_thread(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg);

#endif
