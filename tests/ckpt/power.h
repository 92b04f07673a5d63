/* A directory after a power cut: a file has its content of its last fsync, a directory the names of its own last
 * fsync. The system may have written more by itself, in any order, so a test tries several ways. The calls of
 * syscalls.c report what happens. The records lie outside the directory, because processes die in tests. */
#ifndef TESTS_CKPT_POWER_H
#define TESTS_CKPT_POWER_H

#include <stdbool.h>

/* From now on `dir` is watched, in this process and those that it forks. What is there counts as durable. */
void power_on(const char *dir);
void power_off(void); /* and everything that was kept is removed */

/* For syscalls.c, after an fsync and before a name is removed. */
void power_synced(int fd);
void power_removing(const char *path);

/* The writes that the system had made by itself when the power went. */
typedef struct {
  bool names, names_within; /* all names of `dir`; of the directories in it */
  bool half;                /* of data that were not synced, the first half; else nothing */
} power_luck_t;
/* Makes `into`, which does not exist, what `dir` is after the power cut. */
void power_cut(const power_luck_t *luck, const char *into);

#endif
