/* Put before every file of a build for the thread sanitizer (cmake/LockstepCompiler.cmake). gcc's runtime
 * does not see pthread_mutex_clocklock and takes what such a lock guards for unguarded;
 * pthread_mutex_timedlock it does see. */
#include <pthread.h>
#include <time.h>

static inline int ls_tsan_clocklock(pthread_mutex_t *lock, clockid_t clock, const struct timespec *until) {
  enum { S = 1000000000 };
  struct timespec from, now;
  clock_gettime(clock, &from);
  clock_gettime(CLOCK_REALTIME, &now);
  long long left_ns = (until->tv_sec - from.tv_sec) * S + until->tv_nsec - from.tv_nsec;
  long long at_ns = now.tv_sec * S + now.tv_nsec + left_ns;
  return pthread_mutex_timedlock(lock, &(struct timespec){.tv_sec = at_ns / S, .tv_nsec = at_ns % S});
}

#define pthread_mutex_clocklock ls_tsan_clocklock
