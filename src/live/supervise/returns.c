/* One question at a time: `true` on a host over the remote shell, or this program with a single device. */
#include "supervise/returns.h"

#include "base/base.h"
#include "base/child.h"
#include "supervise/places.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SHELL_WORDS_MAX = 64 };
static const int64_t limit_ns = 30000000000;

struct ls_returns {
  const ls_supervise_t *spec;
  int next;                /* of places->out: the one that is asked */
  pid_t child;             /* 0: nobody is asked */
  int64_t due_ns, late_ns; /* when to ask again; when to stop waiting for an answer */
  bool *there;             /* [places.all] */
  char words[LS_FAULT_WORDS_BYTES];
};

ls_status_t ls_returns_open(ls_ctx_t *ctx, const ls_supervise_t *spec, ls_returns_t **out) {
  ls_returns_t *r = ls_alloc(ctx, sizeof *r);
  if (r) r->there = ls_alloc_array(ctx, (size_t)spec->places.all, sizeof *r->there);
  if (!r || !r->there) {
    ls_free(r);
    return LS_ERR_MEMORY;
  }
  r->spec = spec;
  *out = r;
  return LS_OK;
}

void ls_returns_close(ls_returns_t *r) {
  if (r) ls_free(r->there);
  ls_free(r);
}

void ls_returns_begin(ls_returns_t *r, int64_t now_ns) {
  r->child = 0;
  r->due_ns = now_ns + (int64_t)(r->spec->return_s * 1e9);
}

static const char *host_of(const ls_places_t *p, int place) {
  return p->hosts ? p->hosts->host[ls_hosts_at(p->hosts, place)].name : NULL;
}

static bool ask_host(ls_returns_t *r, const char *host, ls_child_spec_t *spec) {
  const char *argv[SHELL_WORDS_MAX + 3];
  char words[1024], *rest = words;
  int n = 0;
  snprintf(words, sizeof words, "%s", r->spec->remote_shell);
  for (char *word; n < SHELL_WORDS_MAX && (word = strsep(&rest, " "));)
    if (*word) argv[n++] = word;
  argv[n++] = host;
  argv[n++] = "true";
  argv[n] = NULL;
  spec->argv = argv;
  return ls_child_start(spec, &r->child) == 0;
}

static bool ask_device(ls_returns_t *r, int place, ls_child_spec_t *spec) {
  static const char *const argv[] = {"lockstep", LS_RETURNS_FLAG, NULL};
  char device[LS_PLACES_DEVICE_BYTES], variable[LS_PLACES_DEVICE_BYTES + 32];
  const char *const environment[] = {variable, NULL};
  if (!ls_places_device(r->spec->devices, place, device)) return false;
  snprintf(variable, sizeof variable, "CUDA_VISIBLE_DEVICES=%s", device);
  spec->argv = argv;
  spec->self = true;
  spec->environment = environment;
  return ls_child_start(spec, &r->child) == 0;
}

/* Asks the next one that has not answered; false: there is none left. */
static bool ask_next(ls_returns_t *r, const ls_places_t *p, int64_t now_ns) {
  for (; r->next < p->out_count; r->next++) {
    const int place = p->out[r->next];
    const char *host = host_of(p, place);
    ls_child_spec_t spec = {.stream = {{.file = "/dev/null"}, {.file = "/dev/null"}, {.file = "/dev/null"}},
                            .own_group = true};
    bool asked = false;
    for (int i = 0; host && i < r->next && !asked; i++) /* a host of several places is asked once */
      if (!strcmp(host_of(p, p->out[i]), host)) {
        r->there[place] = r->there[p->out[i]];
        asked = true;
      }
    if (asked) continue;
    r->late_ns = now_ns + limit_ns;
    if (host ? ask_host(r, host, &spec) : r->spec->has_devices && ask_device(r, place, &spec)) return true;
  }
  return false;
}

static bool more_ranks(const ls_returns_t *r, const ls_places_t *p) {
  ls_places_t grown = *p;
  ls_places_return(&grown, r->there);
  return ls_places_ranks(&grown) > ls_places_ranks(p);
}

static void take_answer(ls_returns_t *r, const ls_places_t *p, const ls_child_end_t *end) {
  const int place = p->out[r->next];
  r->child = 0;
  r->next++;
  if (end->code != 0 || end->error) return;
  r->there[place] = true;
  if (host_of(p, place))
    snprintf(r->words, sizeof r->words, "host %s answers again", host_of(p, place));
  else
    snprintf(r->words, sizeof r->words, "the device of rank %d answers again", place);
}

bool ls_returns_look(ls_returns_t *r, const ls_places_t *p, int64_t now_ns) {
  ls_child_end_t end;
  if (r->spec->return_s <= 0 || p->out_count == 0) return false;
  if (r->child == 0 && now_ns < r->due_ns) return false;
  if (r->child == 0) {
    r->next = 0;
    memset(r->there, 0, (size_t)p->all * sizeof *r->there);
  } else if (ls_child_ended(r->child, &end)) {
    take_answer(r, p, &end);
  } else {
    if (now_ns > r->late_ns) kill(r->child, SIGKILL);
    return false;
  }
  if (ask_next(r, p, now_ns)) return false;
  r->due_ns = now_ns + (int64_t)(r->spec->return_s * 1e9);
  return more_ranks(r, p);
}

const char *ls_returns_words(const ls_returns_t *r) {
  return r->words;
}

void ls_returns_take(const ls_returns_t *r, ls_places_t *places) {
  ls_places_return(places, r->there);
}
