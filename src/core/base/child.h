/* Children: programs that this process starts, supervises and ends. This is the only module that forks.
 *
 * A child never outlives the thread that started it. When that thread ends, however it ends (SIGKILL too),
 * the kernel sends the child `death_signal`. Therefore start children from the main thread. A child that
 * starts its own children through this module ends them by the same rule. */
#ifndef LS_BASE_CHILD_H
#define LS_BASE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <unistd.h>

/* One of a child's standard streams. The first field that is set counts; with none set the child uses the
 * parent's stream. */
typedef struct {
  const char *file; /* opened by the child; a file to write is created or emptied */
  int *pipe;        /* written: the reading end, close-on-exec; the caller closes it */
  int fd;           /* a descriptor of the parent. The child sets stdin, stderr and stdout in this order,
                     * so STDERR_FILENO for stdout means the child's own stderr */
} ls_child_stream_t;

typedef struct {
  const char *const *argv; /* ended by NULL */
  bool self; /* start this very program; argv[0] is only its name. Otherwise argv[0] is found through PATH */
  const char *const *environment; /* "NAME=value" is set, "NAME" removed; ended by NULL. NULL: unchanged */
  ls_child_stream_t stream[3];    /* by STDIN_FILENO .. */
  bool own_group;                 /* start it in a process group that the terminal's signals do not reach */
  int death_signal;               /* 0 = SIGKILL. Use SIGTERM for programs that end their own children */
  int inherited; /* a further descriptor of the parent that the program finds open; 0: none */

  /* For ls_child_run alone. */
  int limit_s;       /* 0 = none */
  int grace_s;       /* from the first SIGTERM to SIGKILL */
  int (*stop)(void); /* not 0: the child must end now. NULL: never */
  char *said;        /* not NULL: receives the end of the child's stderr, ended by NUL, instead of
                      * stream[2] */
  size_t said_bytes;
} ls_child_spec_t;

/* How a child ended: the first field that is set counts. */
typedef struct {
  int error;  /* it could not be started: an errno value */
  int late_s; /* it was not finished within this limit */
  int signal; /* the signal that ended it */
  int code;   /* exit code; 128 + signal after one */
  bool asked; /* it was asked to end, so the way it ended says little */
} ls_child_end_t;

/* Starts a child with default signal handling (signals that this process ignores stay ignored, except SIGPIPE
 * and SIGXFSZ). Returns 0 once the program runs; an errno value means that there is no child. */
int ls_child_start(const ls_child_spec_t *spec, pid_t *child);
/* Waits for a running child. */
void ls_child_wait(pid_t child, ls_child_end_t *end);
/* Whether it has ended; then it must not be waited for again. */
bool ls_child_ended(pid_t child, ls_child_end_t *end);

/* Starts a child and waits for it. When the limit passes, or `stop` asks for it, the child gets SIGTERM,
 * again after a second (a launcher forwards only the first to its ranks), and SIGKILL after `grace_s`. True
 * if the child ended by itself with exit code 0. */
bool ls_child_run(const ls_child_spec_t *spec, ls_child_end_t *end);

/* "exit code 5", "ended by signal 9 (Killed)", "not done within 20 s", "cannot be started: ...". */
enum { LS_CHILD_WORDS_BYTES = 256 };
void ls_child_words(const ls_child_end_t *end, char text[LS_CHILD_WORDS_BYTES]);
/* The reason of a failure in one line: the first error in the child's own words ("... error: REASON"),
 * else its first line, else the words above. Only the words above if the child was late or could not be
 * started. */
void ls_child_reason(const ls_child_end_t *end, const char *said, char text[LS_CHILD_WORDS_BYTES]);

/* Kills and reaps all processes below this one. */
void ls_child_end_below(void);
/* Sends a signal to all processes below `pid` on this host, deepest descendants first. Returns their
 * number. */
int ls_child_signal_below(pid_t pid, int signal_number);
/* Sends a signal to `pid` and the processes below it, but only to those that have installed a handler: the
 * default action would end a process that is not ready yet. `cause`: the number that handlers find in si_value. */
int ls_child_ask(pid_t pid, int signal_number, int cause);

/* Ends this process with SIGKILL as soon as its parent has ended, or `ancestor`, if it descends from it on this host
 * (else, and 0: the parent alone). Call it once. */
void ls_child_follow(pid_t ancestor);

#endif
