/* The rules of the supervisor: budgets, causes, decisions. */
#include "supervise/fault.h"

#include "supervise/places.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { USUAL_TIMES = 8, SIGNAL_CODES = 128, SIGNALS_MAX = 64 };

const char *ls_fault_name(ls_fault_kind_t kind) {
  static const char *const names[] = {"none",       "asked",     "signal", "out of memory", "disk full",
                                      "not finite", "deadline",  "hang",   "launcher",      "host lost",
                                      "return",     "gpu error", "exit",   "refused"};
  _Static_assert(LS_COUNT(names) == LS_FAULT_KINDS, "every kind has a name");
  return names[kind];
}

/* ---- budgets ---- */

/* The time from the rank's start to its newest step bounds the first step: it may be too long, never too short. */
void ls_usual_learn(ls_usual_t *usual, const ls_page_look_t *look) {
  bool begins = look->phase == LS_PAGE_START || look->phase == LS_PAGE_FIRST_STEP;
  if (!begins && look->phase != LS_PAGE_STEP) {
    if (usual->usual_ns > 0) usual->since_ns = 0;
    return;
  }
  int64_t took_ns = look->since_ns - usual->since_ns;
  int64_t steps = usual->step >= 0 ? look->step - usual->step : 1;
  if (!begins && usual->since_ns > 0 && steps > 0 && took_ns > 0) {
    double mean_ns = (double)took_ns / (double)steps;
    double share = usual->usual_ns == 0 ? 1 : mean_ns > usual->usual_ns ? 0.25 : 1.0 / 32;
    usual->usual_ns += share * (mean_ns - usual->usual_ns);
  }
  usual->step = look->phase == LS_PAGE_START ? -1 : look->step;
  usual->since_ns = begins && usual->usual_ns > 0 ? 0 : look->since_ns;
}

int64_t ls_fault_budget_ns(const ls_supervise_config_t *config, const ls_usual_t *usual,
                           ls_page_phase_t phase) {
  double seconds = config->first_step_s;
  if (phase <= LS_PAGE_START) seconds = config->start_s;
  if (phase == LS_PAGE_SAVE) seconds = config->save_s;
  if (phase == LS_PAGE_STEP && usual->usual_ns > 0) {
    double usual_s = USUAL_TIMES * usual->usual_ns * 1e-9;
    seconds = usual_s > config->hang_s ? usual_s : config->hang_s;
  }
  return (int64_t)(seconds * 1e9);
}

static int64_t max(int64_t a, int64_t b) {
  return a > b ? a : b;
}

/* A stopped process comes first; then a rank that is not done; then one that has not entered the collective in which others
 * wait; then the one that has been silent longest. */
static bool more_to_blame(const ls_page_look_t *look, const bool *stopped, uint64_t entered, int a, int b) {
  if (stopped[a] != stopped[b]) return stopped[a];
  bool gone_a = look[a].phase == LS_PAGE_GONE, gone_b = look[b].phase == LS_PAGE_GONE;
  if (gone_a != gone_b) return gone_b;
  bool missing_a = look[a].entered < entered, missing_b = look[b].entered < entered;
  if (missing_a != missing_b) return missing_a;
  return look[a].since_ns < look[b].since_ns;
}

bool ls_fault_hang(const ls_supervise_config_t *config, const ls_usual_t *usual, const ls_page_look_t *look,
                   const bool *stopped, int count, int64_t begin_ns, int64_t now_ns, ls_fault_t *fault) {
  bool overdue = false, waits = false;
  uint64_t entered = 0;
  int worst = 0;
  for (int r = 0; r < count; r++) {
    overdue |= now_ns - max(look[r].since_ns, begin_ns) > ls_fault_budget_ns(config, usual, look[r].phase);
    if (look[r].entered > entered) entered = look[r].entered;
  }
  if (!overdue) return false;
  for (int r = 0; r < count; r++) {
    waits |= look[r].entered == entered && look[r].left < entered;
    if (more_to_blame(look, stopped, entered, r, worst)) worst = r;
  }
  fault->kind = LS_FAULT_HANG;
  fault->rank = worst;
  fault->at = look[worst];
  fault->at.since_ns = max(look[worst].since_ns, begin_ns);
  fault->stopped = stopped[worst];
  fault->budget_ns = ls_fault_budget_ns(config, usual, look[worst].phase);
  if (look[worst].phase == LS_PAGE_GONE && !stopped[worst]) { /* all ranks are done */
    fault->kind = LS_FAULT_LAUNCHER;
    fault->rank = -1;
    return true;
  }
  fault->collective = waits ? entered : 0;
  fault->missing_count = 0;
  for (int r = 0; r < count && waits; r++)
    if ((stopped[r] || look[r].entered < entered) && fault->missing_count < LS_FAULT_MISSING_MAX)
      fault->missing[fault->missing_count++] = r;
  return true;
}

void ls_fault_launcher_stopped(const ls_supervise_config_t *config, int pid, int64_t since_ns,
                               ls_fault_t *fault) {
  fault->kind = LS_FAULT_LAUNCHER;
  fault->rank = -1;
  fault->missing_count = 0;
  fault->stopped = true;
  fault->at = (ls_page_look_t){.pid = pid, .since_ns = since_ns};
  fault->budget_ns = (int64_t)(config->hang_s * 1e9);
}

/* ---- causes ---- */

/* The failures that another start can cure, by a rank's own status. */
static ls_fault_kind_t kind_of_status(ls_status_t status) {
  static const struct {
    ls_status_t status;
    ls_fault_kind_t kind;
  } rows[] = {{LS_ERR_MEMORY, LS_FAULT_MEMORY},
              {LS_ERR_NO_SPACE, LS_FAULT_DISK},
              {LS_ERR_NONFINITE, LS_FAULT_NONFINITE},
              {LS_ERR_TIMEOUT, LS_FAULT_DEADLINE},
              {LS_ERR_IO, LS_FAULT_EXIT},
              {LS_ERR_DEVICE, LS_FAULT_EXIT},
              {LS_ERR_DIFFER, LS_FAULT_EXIT},
              {LS_ERR_INTERNAL, LS_FAULT_EXIT},
              {LS_ERR_COMM, LS_FAULT_EXIT}};
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (rows[i].status == status) return rows[i].kind;
  return LS_FAULT_REFUSED;
}

static bool is_consequence(ls_status_t status) {
  return status == LS_ERR_COMM || status == LS_ERR_TIMEOUT;
}

/* Causes before consequences, then by time. */
static bool earlier(const ls_page_look_t *a, const ls_page_look_t *b) {
  bool follows = is_consequence(a->error);
  return follows != is_consequence(b->error) ? !follows : a->error_ns < b->error_ns;
}

/* The rank whose error came first; -1 = none has one. */
static int first_error(const ls_page_look_t *look, int count) {
  int first = -1;
  for (int r = 0; r < count; r++)
    if (look[r].error != LS_OK && (first < 0 || earlier(&look[r], &look[first]))) first = r;
  return first;
}

static bool any_began(const ls_page_look_t *look, int count) {
  for (int r = 0; r < count; r++)
    if (look[r].phase != LS_PAGE_NONE) return true;
  return false;
}

/* A refusal, before any rank has shown itself, is an error in words with the exit code of one. An exit without a word may be a
 * rank that was killed at its start. */
static bool refusal(const char *words, int code) {
  static const ls_status_t rows[] = {LS_ERR_ARGUMENT, LS_ERR_CONFIG, LS_ERR_DATA, LS_ERR_CORRUPT,
                                     LS_ERR_UNSUPPORTED};
  for (int i = 0; i < LS_COUNT(rows) && words[0]; i++)
    if (ls_status_exit_code(rows[i]) == code) return true;
  return false;
}

int ls_fault_first_dead(const ls_page_look_t *look, const bool *dead, int count) {
  int first = -1;
  for (int r = 0; r < count; r++) {
    if (!dead[r]) continue;
    const ls_page_look_t *a = &look[r], *b = first >= 0 ? &look[first] : NULL;
    bool earlier = !b || a->entered < b->entered ||
                   (a->entered == b->entered && a->left == a->entered && b->left < b->entered);
    if (earlier) first = r;
  }
  return first;
}

/* The process that started mpirun was ended by a signal, or mpirun, of which that process says so (mpirun.c). */
static bool launcher_ended(const ls_end_t *end, const char *words) {
  int number;
  return (end->signal && !end->signal_apart) || sscanf(words, "mpirun was ended by signal %d", &number) == 1;
}

void ls_fault_classify(const ls_end_t *end, const ls_page_look_t *look, int count, ls_fault_t *fault) {
  const int failed = first_error(look, count), dead = end->dead_rank;
  bool by_signal = end->signal || (end->code > SIGNAL_CODES && end->code <= SIGNAL_CODES + SIGNALS_MAX);
  fault->code = end->code;
  fault->signal = end->signal ? end->signal : by_signal ? end->code - SIGNAL_CODES : 0;
  fault->rank = -1;
  if (end->code == 0 && !end->signal && end->dead_rank < 0) {
    fault->kind = LS_FAULT_NONE;
  } else if (end->code == ls_status_exit_code(LS_ERR_INTERRUPTED) ||
             end->code == ls_status_exit_code(LS_ERR_AGAIN) || (end->asked && by_signal)) {
    fault->kind = LS_FAULT_ASKED;
  } else if (launcher_ended(end, fault->words) && (failed < 0 || is_consequence(look[failed].error))) {
    fault->kind = LS_FAULT_LAUNCHER;
  } else if (failed >= 0 && (dead < 0 || look[dead].error != LS_OK || !is_consequence(look[failed].error))) {
    fault->kind = kind_of_status(look[failed].error);
    fault->rank = failed;
  } else if (!by_signal && !any_began(look, count) && refusal(fault->words, end->code)) {
    fault->kind = LS_FAULT_REFUSED;
  } else if (dead >= 0 || by_signal) {
    fault->kind = !by_signal                                             ? LS_FAULT_EXIT
                  : fault->signal == SIGKILL && end->kills_of_system > 0 ? LS_FAULT_MEMORY
                                                                         : LS_FAULT_SIGNAL;
    fault->rank = dead >= 0 ? dead : count == 1 ? 0 : -1; /* a rank that has shown nothing */
  } else {
    fault->kind = LS_FAULT_EXIT;
  }
  if (fault->rank >= 0) fault->at = look[fault->rank];
  if (fault->kind == LS_FAULT_NONFINITE || fault->at.error == LS_ERR_DIFFER)
    fault->rank = -1; /* all ranks see the same */
}

void ls_fault_of_gpu(int rank, const ls_page_look_t *look, ls_fault_t *fault) {
  static const ls_fault_kind_t follow[] = {LS_FAULT_SIGNAL, LS_FAULT_DEADLINE, LS_FAULT_HANG, LS_FAULT_EXIT};
  for (int i = 0; i < LS_COUNT(follow); i++)
    if (fault->kind == follow[i]) {
      fault->kind = LS_FAULT_GPU;
      fault->rank = rank;
      fault->at = *look;
      fault->signal = 0;
      fault->code = ls_status_exit_code(LS_ERR_DEVICE);
      return;
    }
}

static void LS_PRINTF(3, 4) add(char *text, size_t size_bytes, const char *fmt, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, fmt);
  vsnprintf(text + used, size_bytes - used, fmt, args);
  va_end(args);
}

static void add_hang(const ls_fault_t *f, char *text, size_t size_bytes) {
  add(text, size_bytes, "%s for %.3g s (it may take %.3g s)",
      f->stopped ? " is stopped and has shown nothing" : " has shown nothing",
      (double)(f->noticed_ns - f->at.since_ns) * 1e-9, (double)f->budget_ns * 1e-9);
}

static void add_launcher(const ls_fault_t *f, char *text, size_t size_bytes) {
  const double silent_s = (double)(f->noticed_ns - f->at.since_ns) * 1e-9,
               budget_s = (double)f->budget_ns * 1e-9;
  if (f->stopped)
    add(text, size_bytes, "the launcher (process %d) has been stopped for %.3g s (it may be for %.3g s)",
        f->at.pid, silent_s, budget_s);
  else if (f->budget_ns > 0)
    add(text, size_bytes, "the launcher has not ended, %.3g s after all ranks were done (it may take %.3g s)",
        silent_s, budget_s);
  else
    add(text, size_bytes, "the launcher was ended%s%s", f->signal ? " by a signal, " : "",
        f->signal ? strsignal(f->signal) : "");
}

void ls_fault_text(const ls_fault_t *f, int ranks, char *text, size_t size_bytes) {
  text[0] = '\0';
  if (f->host) {
    add(text, size_bytes, "host %s %s: %s", f->host, f->kind == LS_FAULT_HOST ? "is lost" : "cannot be used",
        f->words);
    return;
  }
  if (f->rank >= 0) {
    add(text, size_bytes, "rank %d of %d", f->rank, ranks);
    if (f->at.pid > 0) add(text, size_bytes, " (process %d)", f->at.pid);
  }
  switch (f->kind) {
  case LS_FAULT_SIGNAL:
    add(text, size_bytes, "%s was ended by signal %d (%s)", f->rank < 0 ? "a rank" : "", f->signal,
        strsignal(f->signal));
    break;
  case LS_FAULT_MEMORY:
    add(text, size_bytes, "%s ran out of memory%s", f->rank < 0 ? "a rank" : "",
        f->at.error ? "" : ": the system ended it");
    break;
  case LS_FAULT_HANG:
    add_hang(f, text, size_bytes);
    break;
  case LS_FAULT_GPU:
    add(text, size_bytes,
        ": its GPU has reported an error after which it has to be reset (gpu_xid in the event log)");
    break;
  case LS_FAULT_LAUNCHER:
    add_launcher(f, text, size_bytes);
    break;
  case LS_FAULT_ASKED:
    add(text, size_bytes, "a signal asked the run to end");
    break;
  case LS_FAULT_RETURN:
    add(text, size_bytes, "%s", f->words);
    break;
  case LS_FAULT_NONE:
    add(text, size_bytes, "the run has reached its end");
    break;
  case LS_FAULT_EXIT:
  default:
    if (f->at.error != LS_OK)
      add(text, size_bytes, "%s%s", f->rank >= 0 ? ": " : "", ls_status_text(f->at.error));
    else
      add(text, size_bytes, "%s with exit code %d",
          f->rank >= 0 ? " ended without having finished, and the run" : "the run ended", f->code);
    break;
  }
  if (f->rank >= 0 || f->at.error) {
    add(text, size_bytes, "; step %lld, phase %s", (long long)f->at.step, ls_page_phase_name(f->at.phase));
    if (f->at.entered > f->at.left)
      add(text, size_bytes, ", inside collective %llu", (unsigned long long)f->at.entered);
  }
  if (f->kind == LS_FAULT_HANG && f->differ[0])
    add(text, size_bytes, "; %s", f->differ);
  else if (f->kind == LS_FAULT_HANG && f->collective > 0 && f->missing_count > 0) {
    add(text, size_bytes, "; the others wait in collective %llu for rank%s ",
        (unsigned long long)f->collective, f->missing_count > 1 ? "s" : "");
    for (int i = 0; i < f->missing_count; i++)
      add(text, size_bytes, "%s%d", i ? ", " : "", f->missing[i]);
  }
}

/* ---- places ---- */

/* Whether the rank itself failed, not the disk, the data or another rank. */
static bool own_failure(const ls_fault_t *f) {
  bool own = f->kind == LS_FAULT_SIGNAL || f->kind == LS_FAULT_MEMORY || f->kind == LS_FAULT_HANG ||
             f->kind == LS_FAULT_GPU ||
             (f->kind == LS_FAULT_EXIT && f->at.error != LS_ERR_IO && !is_consequence(f->at.error));
  return own && f->rank >= 0;
}

/* `in_a_row`: the failure before was not long ago. */
static bool leave_out(ls_restarts_t *state, const ls_fault_t *fault, bool in_a_row) {
  ls_places_t less = state->places;
  const ls_hosts_config_t *hosts = less.hosts;
  const bool lost = fault->kind == LS_FAULT_HOST;
  bool twice = state->any && in_a_row && own_failure(&state->last) && state->last.rank == fault->rank;
  bool no_device =
      fault->kind == LS_FAULT_GPU || (fault->at.error == LS_ERR_DEVICE && fault->at.phase == LS_PAGE_START);
  if (!lost && (!own_failure(fault) || !(twice || no_device))) return false;
  const int place = lost ? -1 : ls_places_at(&less, fault->rank);
  const char *host = lost ? fault->host : less.whole ? hosts->host[ls_hosts_at(hosts, place)].name : NULL;
  bool any = !host && ls_places_take_out(&less, place);
  for (int i = 0; host && i < less.all; i++)
    if (!strcmp(hosts->host[ls_hosts_at(hosts, i)].name, host)) any |= ls_places_take_out(&less, i);
  if (!any || !ls_places_fit(&less)) return false;
  state->places = less;
  return true;
}

/* ---- decisions ---- */

/* A process that just ends may have been ended by anybody; a rank's error, or its silence, is its own. */
static bool ended_wordless(const ls_fault_t *f) {
  return f->kind != LS_FAULT_HANG && f->at.error == LS_OK;
}

/* A run that is deterministic fails again as it did. A short life is cheap to repeat, and two of them may have been killed by
 * chance at the same step, which at the start is none. */
static bool same_fault(const ls_restarts_config_t *config, const ls_life_t *life, const ls_fault_t *a,
                       const ls_fault_t *b) {
  if (b->kind == LS_FAULT_HOST || (ended_wordless(b) && life->trained_s < config->least_life_s)) return false;
  return a->kind == b->kind && a->rank == b->rank && a->signal == b->signal && a->code == b->code &&
         a->at.step == b->at.step && a->at.phase == b->at.phase && a->at.error == b->at.error;
}

ls_decision_t ls_restarts_decide(const ls_restarts_config_t *config, int64_t skip_steps, ls_restarts_t *state,
                                 const ls_life_t *life, const ls_fault_t *fault) {
  if (fault->kind == LS_FAULT_NONE || fault->kind == LS_FAULT_ASKED) return (ls_decision_t){.why = ""};
  if (fault->kind == LS_FAULT_RETURN) { /* the places are the caller's; ranks of another world are others */
    state->furthest = max(state->furthest, life->last_step);
    state->restarts = 0;
    state->any = false;
    return (ls_decision_t){.again = true, .more = true};
  }
  if (fault->kind == LS_FAULT_REFUSED) return (ls_decision_t){.why = "starting again cannot cure that"};
  bool same = state->any && same_fault(config, life, &state->last, fault);
  const int64_t before = max(life->first_step, state->furthest);
  bool healthy = life->last_step >= 0 && life->last_step - before >= config->healthy_steps;
  state->furthest = max(state->furthest, life->last_step);
  bool more = healthy && state->places.out_count > 0;
  bool fewer = !more && config->most > 0 && leave_out(state, fault, same || !healthy);
  if (more) state->places.out_count = 0;
  if (fault->kind == LS_FAULT_NONFINITE && skip_steps > 0) state->past_step = fault->at.step + skip_steps;
  state->last = *fault;
  state->any = !more && !fewer; /* ranks of another world are others */
  if (same && state->any)
    return (ls_decision_t){.why = "the same failure at the same step twice: it would come again"};
  if (healthy || fewer) state->restarts = 0;
  if (state->restarts >= config->most)
    return (ls_decision_t){.why = "as many restarts in a row as supervise.restarts.most allows"};
  double wait_s = state->restarts > 0 ? config->backoff_s : 0;
  for (int64_t i = 1; i < state->restarts && wait_s < config->backoff_most_s; i++)
    wait_s *= 2;
  if (wait_s > config->backoff_most_s) wait_s = config->backoff_most_s;
  state->restarts++;
  return (ls_decision_t){.again = true, .fewer = fewer, .more = more, .wait_ns = (int64_t)(wait_s * 1e9)};
}
