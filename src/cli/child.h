/* Children that this process started, and their children: found, told, waited for. Told to end (Ctrl-C,
 * SIGTERM), a process that measures with children ends them first and then removes their files. */
#ifndef LS_CLI_CHILD_H
#define LS_CLI_CHILD_H

#include "cli/stop.h"

#include <limits.h>
#include <sys/types.h>

/* This program's path; false: errno says why. */
bool cli_child_self(char path[PATH_MAX]);

/* An empty file in TMPDIR for what a child leaves; the caller unlinks it. False: errno says why. */
bool cli_child_file(char path[PATH_MAX]);

/* In a forked child: it does not outlive the parent (its id as it was before the fork). */
void cli_child_follow(pid_t parent);

/* Sends a signal to all processes below `pid` on this host, children's children first. Returns how many. */
int cli_child_signal_below(pid_t pid, int signal_number);
/* The same to those alone that have a handler for it: a process that is not ready yet does not end by it. */
int cli_child_ask_below(pid_t pid, int signal_number);

/* In place of the exit code: the child was not done within its limit. */
enum { CLI_CHILD_LATE = -1 };

/* Waits for a child in CLI_STOP_ASK mode. Past `limit_s` (0 = none), or when this process is told to stop,
 * the child is asked to end (SIGTERM, and again after a second: a launcher passes the first on to its ranks),
 * and killed after `grace_s` more. False when it did not end well, or not by itself. */
bool cli_child_wait(pid_t child, int limit_s, int grace_s, int *exit_code);

#endif
