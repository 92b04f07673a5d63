/* Children: programs that this process starts, watches and ends. The only place that forks.
 *
 * A child never outlives the thread that started it: when that thread ends, however it ends (SIGKILL too),
 * the kernel sends the child `death_signal`. So start children from the main thread. A child that has
 * children of its own ends them by the same rule when it started them through this module. */
#ifndef LS_BASE_CHILD_H
#define LS_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* One of a child's standard streams. The first that is set counts; none: the parent's own. */
typedef struct {
  const char *file; /* opened by the child; one that it writes is made or emptied */
  int *pipe;        /* written: the reading end, close-on-exec, the caller closes it */
  int fd;           /* a descriptor of the parent. The child sets stdin, stderr and stdout in this order, so
                       that STDERR_FILENO for stdout means the child's own stderr */
} ls_child_stream_t;

typedef struct {
  const char *const *argv; /* ended by NULL */
  bool self; /* start this very program; argv[0] is only its name. Else argv[0], as PATH has it */
  const char *const *environment; /* "NAME=value" is set, "NAME" removed; ended by NULL. NULL: unchanged */
  ls_child_stream_t stream[3];    /* by STDIN_FILENO .. */
  bool own_group;                 /* a process group out of reach of the terminal's signals */
  int death_signal; /* 0 = SIGKILL. SIGTERM for programs that know how to end their own children */

  /* For ls_child_run alone. */
  int limit_s;       /* 0 = none */
  int grace_s;       /* from the first SIGTERM to SIGKILL */
  int (*stop)(void); /* not 0: the child has to end now. NULL: never */
  char *said;        /* not NULL: the end of what it writes to stderr, ended by NUL, instead of stream[2] */
  size_t said_bytes;
} ls_child_spec_t;

/* How a child ended: the first that is set counts. */
typedef struct {
  int error;  /* it could not be started: an errno value */
  int late_s; /* it was not done within this limit */
  int signal; /* the signal that ended it */
  int code;   /* exit code; 128 + signal after one */
  bool asked; /* it was asked to end, so that how it ended says little */
} ls_child_end_t;

/* Starts a child with signals as they are by default (those that this process ignores stay ignored, but for
 * SIGPIPE and SIGXFSZ). Returns 0 once the program runs, else an errno value: then there is no child. */
int ls_child_start(const ls_child_spec_t *spec, pid_t *child);
/* Waits for one that runs. */
void ls_child_wait(pid_t child, ls_child_end_t *end);

/* Starts a child and waits for it. Past the limit, or when `stop` says so, it gets SIGTERM, again after a
 * second (a launcher passes the first on to its ranks), and SIGKILL after `grace_s`. True when it ended by
 * itself with exit code 0. */
bool ls_child_run(const ls_child_spec_t *spec, ls_child_end_t *end);

/* "exit code 5", "ended by signal 9 (Killed)", "not done within 20 s", "cannot be started: ...". */
enum { LS_CHILD_WORDS_BYTES = 256 };
void ls_child_words(const ls_child_end_t *end, char text[LS_CHILD_WORDS_BYTES]);
/* Why it failed, in one line: of what it said the first error ("... error: REASON"), else the first line,
 * else the words above. Those alone when it was late or could not be started. */
void ls_child_reason(const ls_child_end_t *end, const char *said, char text[LS_CHILD_WORDS_BYTES]);

/* Kills and reaps all that is left below this process. */
void ls_child_end_below(void);
/* Sends a signal to all processes below `pid` on this host, children's children first. Returns how many. */
int ls_child_signal_below(pid_t pid, int signal_number);
/* The same to `pid` and those below it that have a handler for it: a process that is not ready yet does not
 * end by it. */
int ls_child_ask(pid_t pid, int signal_number);

#endif
