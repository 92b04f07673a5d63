/* The one status enum of lockstep, grouped by what an error has broken, with the program's exit code for
 * each. 0 is success; errors are negative. Recovery reads the group; people read the text. */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define LS_API               __attribute__((visibility("default")))
#define LS_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define LS_API
#define LS_PRINTF(fmt, args)
#endif

/* X(name, value, exit code of the program, text)
 *   -1..-99     the call: it was refused, nothing changed
 *   -100..-199  the step: it was not applied, the next one may succeed
 *   -200..-299  the rank: this process cannot continue
 *   -300..-399  the job: no process can continue without a restart */
#define LS_STATUS_TABLE(X)                                                                                   \
  X(LS_OK, 0, 0, "ok")                                                                                       \
  X(LS_ERR_ARGUMENT, -1, 2, "invalid argument or usage")                                                     \
  X(LS_ERR_CONFIG, -2, 3, "invalid configuration")                                                           \
  X(LS_ERR_SHAPE, -3, 3, "shapes do not fit")                                                                \
  X(LS_ERR_DATA, -4, 4, "invalid training data")                                                             \
  X(LS_ERR_IO, -5, 5, "a file could not be read or written")                                                 \
  X(LS_ERR_NO_SPACE, -6, 5, "no space left on the device")                                                   \
  X(LS_ERR_CORRUPT, -7, 6, "a checkpoint is torn or altered")                                                \
  X(LS_ERR_MISMATCH, -8, 6, "a checkpoint belongs to another model or other data")                           \
  X(LS_ERR_NOT_FOUND, -9, 5, "not found")                                                                    \
  X(LS_ERR_BUSY, -11, 5, "another run works in the directory")                                               \
  X(LS_ERR_MOVED, -13, 5, "the run's directory was moved, or its lock removed")                              \
  X(LS_ERR_BELOW, -12, 11, "what was measured is below its target")                                          \
  X(LS_ERR_UNSUPPORTED, -10, 7, "not supported here")                                                        \
  X(LS_ERR_NONFINITE, -100, 8, "the training diverged: loss or gradients are not finite")                    \
  X(LS_ERR_MEMORY, -200, 10, "out of memory")                                                                \
  X(LS_ERR_DEVICE, -201, 7, "a device failed or is missing")                                                 \
  X(LS_ERR_INTERNAL, -202, 1, "internal error")                                                              \
  X(LS_ERR_COMM, -300, 9, "communication between ranks failed")                                              \
  X(LS_ERR_TIMEOUT, -301, 9, "a wait between ranks passed its deadline")                                     \
  X(LS_ERR_INTERRUPTED, -302, 130, "interrupted")                                                            \
  X(LS_ERR_AGAIN, -303, 75, "a limit of safety ended the run: --resume goes on")                             \
  X(LS_ERR_DIFFER, -304, 7, "the ranks' parameters differ, and no majority says whose are right")

typedef enum {
#define LS_STATUS_ENUM(name, value, exit_code, text) name = value,
  LS_STATUS_TABLE(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
} ls_status_t;

/* Static text and name ("LS_ERR_DATA") of a status, and the program's exit code for it. Never NULL. */
LS_API const char *ls_status_text(ls_status_t status);
LS_API const char *ls_status_name(ls_status_t status);
LS_API int ls_status_exit_code(ls_status_t status);

#ifdef __cplusplus
}
#endif
#endif
