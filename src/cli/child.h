/* Children that measure for this process. Told to end (Ctrl-C, SIGTERM), it ends them first and then removes
 * their files. */
#ifndef LS_CLI_CHILD_H
#define LS_CLI_CHILD_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

typedef struct {
  struct sigaction interrupt, terminate; /* as they were before */
} cli_child_guard_t;

/* Between the two, SIGINT and SIGTERM only set what cli_child_stopped tells and cli_child_wait looks at.
 * Not nested. */
void cli_child_guard_begin(cli_child_guard_t *guard);
void cli_child_guard_end(const cli_child_guard_t *guard);
bool cli_child_stopped(void);

/* An empty file in TMPDIR for what a child leaves; the caller unlinks it. False: errno says why. */
bool cli_child_file(char path[PATH_MAX]);

/* In a forked child: signals as they are by default, and none of it outlives the parent (its id as it was
 * before the fork). */
void cli_child_follow(pid_t parent);

/* In place of the exit code: the child was not done within its limit. */
enum { CLI_CHILD_LATE = -1 };

/* Waits for a child. Past `limit_s` (0 = none), or when this process is told to stop, the child is asked to
 * end (SIGTERM, and again after a second: a launcher passes the first on to its ranks), and killed after
 * `grace_s` more. False when it did not end well, or not by itself. */
bool cli_child_wait(pid_t child, int limit_s, int grace_s, int *exit_code);

#endif
