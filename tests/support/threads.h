/* N threads, as the ranks of a world in one process or as writers of one file. */
#ifndef LS_TESTS_SUPPORT_THREADS_H
#define LS_TESTS_SUPPORT_THREADS_H

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* For threads, from which cmocka cannot leave a test: ends the program. */
#define NEED(holds)                                                                                          \
  ((holds) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds), abort()))

/* Calls fn(the i-th of `count` elements of `size_bytes` at `each`) in a thread of its own, for all at once, and waits
 * for their ends. */
static inline void threads_run(int count, void *(*fn)(void *one), void *each, size_t size_bytes) {
  pthread_t thread[64];
  NEED(count <= (int)(sizeof thread / sizeof *thread));
  for (int i = 0; i < count; i++)
    NEED(pthread_create(&thread[i], NULL, fn, (char *)each + (size_t)i * size_bytes) == 0);
  for (int i = 0; i < count; i++)
    NEED(pthread_join(thread[i], NULL) == 0);
}

#endif
