/* Loaded before the program: its processes send each other no signal but SIGKILL. Who is asked to end never hears of it. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((visibility("default"))) int kill(pid_t pid, int number) {
  return number == SIGKILL || number == 0 ? (int)syscall(SYS_kill, pid, number) : 0;
}
