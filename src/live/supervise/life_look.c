/* Looks at a life: its words, its page, the ends of its processes, and silence. */
#include "supervise/life_look.h"

#include "base/clock.h"
#include "base/ctx.h"
#include "base/process.h"
#include "supervise/evidence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int64_t launcher_look_ns = 250000000;

int64_t ls_life_system_kills(void) {
  char line[128];
  long long count = 0;
  FILE *file = fopen("/proc/vmstat", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "oom_kill %lld", &count) == 1) break;
  if (file) fclose(file);
  return count;
}

/* ---- what it writes ---- */

/* Keeps the first error that it reports. */
static void keep_error(ls_life_run_t *l, const char *bytes, ssize_t got) {
  static const char label[] = "lockstep: error: ";
  const ls_fault_t *fault = &l->end->fault; /* what a life that is being ended says follows from its end */
  for (ssize_t i = 0; i < got && !fault->words[0] && fault->kind == LS_FAULT_NONE; i++) {
    bool ends = bytes[i] == '\n' || bytes[i] == '\r';
    if (!ends && l->line_bytes < LS_LIFE_LINE_BYTES - 1) l->line[l->line_bytes++] = bytes[i];
    if (!ends) continue;
    l->line[l->line_bytes] = '\0';
    const char *at = strstr(l->line, label);
    if (at) ls_text_shown(at + sizeof label - 1, SIZE_MAX, l->end->fault.words, LS_FAULT_WORDS_BYTES);
    l->line_bytes = 0;
  }
}

void ls_life_take_output(ls_life_run_t *l, int stream) {
  char bytes[4096];
  struct pollfd *from = &l->poll[stream];
  if (from->fd < 0 || !from->revents) return;
  ssize_t got = read(from->fd, bytes, sizeof bytes);
  if (got < 0 && errno == EINTR) return;
  if (got <= 0) {
    close(from->fd);
    from->fd = -1;
  } else if (stream == LS_LIFE_STDOUT) {
    fwrite(bytes, 1, (size_t)got, l->printed);
  } else {
    keep_error(l, bytes, got);
    l->spec->output(l->spec->user, STDERR_FILENO, bytes, (size_t)got);
  }
}

/* ---- its processes ---- */

/* Whether rank r, which this process has started, has ended as it should: done, or because it was asked to. */
static bool ended_well(const ls_life_run_t *l, int r) {
  const int code = l->own.rank[r].end.code;
  if (code == 0) return l->look[r].phase == LS_PAGE_GONE && !l->look[r].error;
  return code == ls_status_exit_code(LS_ERR_INTERRUPTED) || code == ls_status_exit_code(LS_ERR_AGAIN);
}

/* Agents say so if there are several hosts. */
static void see_gone(ls_life_run_t *l) {
  for (int r = 0; r < l->ranks; r++)
    if (l->hosts) {
      l->gone[r] = ls_hosts_rank_ended(l->hosts, r);
      l->early[r] =
          l->gone[r] && l->look[r].pid > 0 && (l->look[r].phase != LS_PAGE_GONE || l->look[r].error);
    } else {
      l->gone[r] = l->own.rank[r].pid == 0;
      l->early[r] = l->gone[r] && !ended_well(l, r);
    }
}

void ls_life_see_ends(ls_life_run_t *l, int64_t now_ns) {
  bool any = false, asked = false;
  if (!ls_life_started(l)) return;
  see_gone(l);
  for (int r = 0; r < l->ranks; r++) {
    any |= l->early[r];
    asked |= !l->hosts && l->gone[r] && l->own.rank[r].end.code != 0;
  }
  if (any && (l->seen.dead_rank < 0 || l->hosts)) /* hosts say so in any order */
    l->seen.dead_rank = ls_fault_first_dead(l->look, l->early, l->ranks);
  if ((any || asked) && l->dead_ns == 0) l->dead_ns = now_ns;
}

void ls_life_look_at_page(ls_life_run_t *l, int64_t now_ns) {
  for (int r = 0; r < l->ranks; r++)
    ls_page_look(l->page, r, &l->look[r]);
  ls_usual_learn(l->usual, &l->look[0]);
  ls_life_t *steps = &l->end->steps;
  const ls_page_look_t *first = &l->look[0];
  if (first->phase < LS_PAGE_FIRST_STEP) return;
  if (steps->first_step < 0) steps->first_step = first->first;
  steps->last_step = first->step;
  if (l->end->first_step_ns == 0 && first->phase >= LS_PAGE_STEP)
    l->end->first_step_ns = first->phase == LS_PAGE_STEP ? first->since_ns : now_ns;
}

/* The process that starts the ranks, and mpirun below it, which is its only child. */
static pid_t stopped_launcher(const ls_life_run_t *l) {
  if (!l->hosts || !ls_life_started(l) || l->own.running == 0) return 0;
  const pid_t launcher = l->own.rank[0].pid, mpirun = ls_process_child(launcher);
  return ls_process_stopped(launcher) ? launcher : mpirun > 0 && ls_process_stopped(mpirun) ? mpirun : 0;
}

static void look_at_launcher(ls_life_run_t *l, int64_t now_ns) {
  if (now_ns - l->launcher_ns < launcher_look_ns) return;
  l->launcher_ns = now_ns;
  l->launcher = stopped_launcher(l);
  if (!l->launcher)
    l->launcher_stopped_ns = 0;
  else if (l->launcher_stopped_ns < l->begin_ns)
    l->launcher_stopped_ns = now_ns;
}

/* Ranks go on without their launcher until they need it, and that would be blamed on them. */
bool ls_life_hangs(ls_life_run_t *l, int64_t now_ns) {
  const ls_supervise_config_t *config = l->spec->config;
  ls_fault_t *fault = &l->end->fault;
  for (int r = 0; r < l->ranks; r++)
    l->stopped[r] = false;
  look_at_launcher(l, now_ns);
  const bool late = l->launcher && now_ns - l->launcher_stopped_ns > (int64_t)(config->hang_s * 1e9);
  if (!ls_fault_hang(config, l->usual, l->look, l->stopped, l->ranks, l->begin_ns, now_ns, fault) && !late)
    return false;
  fault->noticed_ns = now_ns;
  if (l->launcher) {
    ls_fault_launcher_stopped(config, l->launcher, l->launcher_stopped_ns, fault);
    return true;
  }
  for (int r = 0; r < l->ranks; r++)
    l->stopped[r] = l->hosts ? ls_hosts_rank_stopped(l->hosts, r)
                             : l->look[r].pid > 0 && ls_process_stopped(l->look[r].pid);
  ls_fault_hang(config, l->usual, l->look, l->stopped, l->ranks, l->begin_ns, now_ns, fault);
  if (fault->kind != LS_FAULT_HANG) return true;
  if (l->hosts && l->rings) ls_hosts_fetch_rings(l->hosts);
  ls_evidence_differ(l->rings, l->look, fault);
  return true;
}

void ls_life_look_at_gpus(const ls_life_run_t *l, ls_fault_t *fault) {
  int rank = -1;
  for (int r = 0; r < l->ranks; r++) {
    ls_page_speed_look_t speed;
    ls_page_speed_look(l->page, r, 0, &speed);
    if ((speed.limits & LS_LIMIT_BROKEN) && (rank < 0 || r == fault->rank)) rank = r;
  }
  if (rank >= 0) ls_fault_of_gpu(rank, &l->look[rank], fault);
}
