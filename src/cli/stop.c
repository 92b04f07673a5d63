/* One handler for all signals; the mode decides its action. No SA_RESTART: whoever makes a call that a signal
 * interrupts repeats it, because under TSan a handler runs only when the interrupted call returns. */
#include "cli/stop.h"

#include "base/base.h"

#include <lockstep/data.h>

#include <signal.h>
#include <string.h>
#include <unistd.h>

static const struct {
  int number;
  const char *name;
} ending[] = {{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},     {SIGTERM, "SIGTERM"},
              {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"}, {SIGALRM, "SIGALRM"},     {SIGVTALRM, "SIGVTALRM"},
              {SIGPROF, "SIGPROF"}, {SIGIO, "SIGIO"},     {SIGSTKFLT, "SIGSTKFLT"}, {SIGPWR, "SIGPWR"},
              {SIGXCPU, "SIGXCPU"}};
static const int file_signals[] = {SIGPIPE, SIGXFSZ};

/* Lock-free, so that a handler may use them. Atomic, because it runs in whatever thread the system chooses: one of OpenBLAS, too. */
static _Atomic int mode, silent, requested, insisted, paused, last_number;
static _Atomic int64_t last_ns;

const char *cli_stop_name(int signal_number) {
  for (int i = 0; i < LS_COUNT(ending); i++)
    if (ending[i].number == signal_number) return ending[i].name;
  return "a signal";
}

static void say(const char *text) {
  ssize_t unheard = write(STDERR_FILENO, text, strlen(text));
  (void)unheard;
}

static void end_now(int number) {
  if (!silent) {
    say("lockstep: error: interrupted by ");
    say(cli_stop_name(number));
    say("\n");
  }
  _exit(ls_status_exit_code(LS_ERR_INTERRUPTED));
}

/* timeout sends one signal to the process and to its group, so that it comes twice. */
static bool is_echo(int number) {
  enum { ECHO_NS = 200000000 };
  int64_t now = ls_clock_ns();
  bool echo = number == last_number && now - last_ns < ECHO_NS;
  last_number = number;
  if (!echo) last_ns = now;
  return echo;
}

/* Whoever has started this process passes a signal on as SIGUSR1, with its number. */
static void on_stop(int number, siginfo_t *info, void *context) {
  (void)context;
  const bool passed_on = info->si_code == SI_QUEUE && info->si_value.sival_int > 0;
  if (is_echo(number) && requested) return;
  if (!requested) requested = passed_on ? info->si_value.sival_int : number;
  if ((number == SIGINT || number == SIGTERM || number == SIGQUIT) && insisted < 2) insisted++;
  if (mode == CLI_STOP_NOW || (mode == CLI_STOP_TWICE && insisted > 1)) end_now(requested);
}

static void on_pause(int number) {
  (void)number;
  paused = 1;
}

/* A data file that became shorter is an error of the call that needs it. Every other fault ends the process as the system
 * does. */
static void on_bus(int number, siginfo_t *info, void *context) {
  (void)context;
  if (info->si_code == BUS_ADRERR && ls_data_fault(info->si_addr)) return;
  signal(number, SIG_DFL);
  raise(number);
}

static void install(int number, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
  sigaction(number, &action, NULL);
}

static bool ignored(int number) {
  struct sigaction action;
  return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void cli_stop_install(bool be_silent) {
  const struct sigaction stop = {.sa_sigaction = on_stop, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  silent = be_silent;
  for (int i = 0; i < LS_COUNT(ending); i++)
    if (ending[i].number != SIGHUP || !ignored(SIGHUP)) sigaction(ending[i].number, &stop, NULL);
  for (int i = 0; i < LS_COUNT(file_signals); i++)
    install(file_signals[i], SIG_IGN);
  install(SIGCHLD, SIG_DFL); /* ignored, it would hide how children end */
  struct sigaction bus = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGBUS, &bus, NULL);
}

cli_stop_t cli_stop_mode(cli_stop_t next) {
  cli_stop_t before = (cli_stop_t)mode;
  mode = (sig_atomic_t)next;
  return before;
}

int cli_stop_requested(void) {
  return requested;
}

void cli_stop_force(void) {
  insisted = 2;
}

bool cli_stop_forced(void) {
  return insisted > 1;
}

void cli_stop_take_pause(void) {
  if (!ignored(SIGTSTP)) install(SIGTSTP, on_pause);
}

bool cli_stop_paused(void) {
  bool now = paused != 0;
  paused = 0;
  return now;
}

bool cli_stop_run(ls_child_spec_t *spec, ls_child_end_t *end) {
  cli_stop_t before = cli_stop_mode(CLI_STOP_ASK);
  spec->stop = cli_stop_requested;
  bool ended_well = ls_child_run(spec, end);
  cli_stop_mode(before);
  return ended_well;
}
