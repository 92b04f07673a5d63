/* Reasons why this process' processors are slow: other programs in the queue or on the same core, heat, a low
 * clock. */
#ifndef LS_MACHINE_PROCESSOR_H
#define LS_MACHINE_PROCESSOR_H

typedef struct {
  double
      waited_ns; /* how long the main thread was ready to run and had no processor (schedstat); NaN: not known */
  double
      clock_ratio; /* of the highest clock, a mean over the processors that this process may use; NaN: not known */
  double
      loop_ns; /* how long a few thousand integer operations take on this process' only processor; NaN: it may use several */
  double heat_events; /* how often heat has limited the clock of one of them; -1: not known */
} ls_processor_t;

/* root: NULL, or where a recorded system's proc and sys lie. Of many processors the first 32 are read. */
void ls_processor_read(const char *root, ls_processor_t *now);

#endif
