/* Starts an agent: the remote shell's words, the host's name, this program's path. */
#include "base/base.h"
#include "base/child.h"
#include "base/process.h"
#include "base/shell.h"
#include "supervise/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SHELL_WORDS_MAX = 64, ARGUMENTS_MAX = SHELL_WORDS_MAX + 4 };

static bool is_here(const ls_supervise_t *spec, int host) {
  return spec->here && host == 0;
}

/* The address at which an agent on this host finds the supervisor. */
static const char *address_for(const ls_supervise_t *spec, int host, char own[256]) {
  if (is_here(spec, host)) return "127.0.0.1";
  if (spec->config->address) return spec->config->address;
  if (strncmp(spec->remote_shell, "ssh", 3) == 0) return "-";
  if (gethostname(own, 255) != 0) strcpy(own, "localhost");
  return own;
}

/* Quoted for the shell that ssh starts on the host; other commands take such a word as it is. */
static const char *quoted(const char *word, char *text, size_t size) {
  FILE *to = fmemopen(text, size, "w");
  text[0] = '\0';
  if (to) ls_shell_put(to, word);
  if (to) fclose(to);
  return text;
}

static int start(ls_ctx_t *ctx, const ls_supervise_t *spec, int host, const char *program, int agent_stdin,
                 int *agent_stderr) {
  char path[4 * PATH_MAX];
  const char *argv[ARGUMENTS_MAX + 1];
  const bool here = is_here(spec, host);
  int n = 0;
  pid_t unused;
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  char *words = ls_arena_strdup(&arena, here ? "lockstep" : spec->remote_shell), *rest = words;
  for (char *word; rest && n < SHELL_WORDS_MAX && (word = strsep(&rest, " "));)
    if (*word) argv[n++] = word;
  if (!here) {
    argv[n++] = spec->places.hosts->host[host].name;
    argv[n++] = quoted(program, path, sizeof path);
  }
  argv[n++] = LS_AGENT_FLAG;
  argv[n] = NULL;
  const ls_child_spec_t child = {
      .argv = argv,
      .self = here,
      .death_signal = here ? SIGCONT : 0, /* it ends its ranks when its stdin ends */
      .stream = {{.fd = agent_stdin}, {.file = "/dev/null"}, {.pipe = agent_stderr}},
      .own_group = true};
  const int error = words ? ls_child_start(&child, &unused) : ENOMEM;
  ls_arena_release(&arena);
  return error;
}

ls_status_t ls_agent_start(ls_ctx_t *ctx, const ls_supervise_t *spec, const ls_agent_settings_t *s,
                           int *agent_stdin, int *agent_stderr) {
  char program[PATH_MAX], own[256] = "";
  int pipes[2], errors;
  if (!ls_process_program(program)) return ls_fail_errno(ctx, "cannot find this program's path");
  if (pipe2(pipes, O_CLOEXEC) != 0) return ls_fail_errno(ctx, "no pipe to an agent");
  const int error = start(ctx, spec, s->host, program, pipes[0], &errors);
  if (error ==
      0) /* before this end of the pipe is closed: an agent that has ended already is then noticed by its stderr */
    dprintf(pipes[1], "%s %s %d %d %d %d %d\n%s\n%s\n", s->token, address_for(spec, s->host, own), s->port,
            s->host, s->life, s->ranks, s->silent_ms, s->page_dir, s->token_file);
  close(pipes[0]);
  if (error != 0) {
    close(pipes[1]);
    return ls_fail(ctx, LS_ERR_UNSUPPORTED, "%s cannot be started (%s): parallel.remote_shell",
                   spec->remote_shell, strerror(error));
  }
  fcntl(errors, F_SETFL, O_NONBLOCK);
  *agent_stdin = pipes[1];
  *agent_stderr = errors;
  return LS_OK;
}
