/* System calls under control: the program is linked with --wrap for each call that changes something on disk,
 * so a test can count them, record them, make one of them fail, or die right before one. Record and plans are
 * of the calling thread. */
#ifndef TESTS_CKPT_SYSCALLS_H
#define TESTS_CKPT_SYSCALLS_H

#include <stdbool.h>

typedef enum {
  SYS_OPEN,
  SYS_CLOSE,
  SYS_WRITE,
  SYS_FSYNC,
  SYS_RENAME,
  SYS_EXCHANGE,
  SYS_MKDIR,
  SYS_RMDIR,
  SYS_UNLINK,
  SYS_FLOCK
} sys_kind_t;

typedef struct {
  sys_kind_t kind;
  bool failed;    /* by injection */
  char path[512]; /* what it works on; renames: from */
  char to[512];   /* renames */
} sys_call_t;

enum { SYS_LOG_MAX = 512 };

void sys_reset(void);                  /* forgets the record and every plan */
void sys_fail_at(int n, int error);    /* the n-th call from now (1 = the next) fails with this errno */
void sys_kill_at(int n);               /* the process dies right before it; a write is done by half */
void sys_refuse_exchange(bool refuse); /* as a file system without RENAME_EXCHANGE does */
void sys_act_at(int n, void (*act)(void *arg), void *arg); /* somebody else does this right before it */
void sys_dribble(bool on);         /* writes take at most 7 bytes, every other one is interrupted */
int sys_count(void);               /* calls since the reset */
const sys_call_t *sys_call(int n); /* n-th of the record, from 0; NULL beyond it */

#endif
