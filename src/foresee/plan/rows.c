/* Candidates as vectors of option rows: what differs is found, and said, by the rows themselves. */
#include "plan/plan.h"

enum { SETS_MAX = 64 };

/* An option at its default is left out where it was before. */
const char **ls_plan_sets(ls_arena_t *arena, const ls_plan_t *plan, const ls_candidate_t *c) {
  const char **set = ls_arena_array(arena, SETS_MAX + 1, sizeof *set);
  ls_config_t asked = plan->config;
  ls_setting_t own, was;
  int count = 0;
  asked.parallel.strategy = c->config.parallel.strategy; /* has the same rows */
  for (int i = 0; set && count < SETS_MAX && ls_config_setting(&c->config, i, &own); i++) {
    ls_config_setting(&asked, i, &was);
    if (ls_option_is_default(own.row, own.of) && ls_option_equal(own.row, own.of, was.of)) continue;
    const char *text = ls_option_text(arena, own.row, own.of);
    set[count] = text ? ls_arena_printf(arena, "%s.%s=%s", own.section->name, own.row->name, text) : NULL;
    if (!set[count++]) return NULL;
  }
  return set;
}

const char *ls_plan_choices(ls_arena_t *arena, const ls_candidate_t *c) {
  const char *text = "";
  ls_setting_t s;
  for (int i = 0; text && ls_config_setting(&c->config, i, &s); i++) {
    const bool choice =
        s.tunes && s.row->type == LS_FIELD_CHOICE && *(const int *)((const char *)s.of + s.row->offset) > 0;
    const char *value = choice ? ls_option_text(arena, s.row, s.of) : "";
    if (choice) text = value ? ls_arena_printf(arena, "%s, %s %s", text, s.row->name, value) : NULL;
  }
  return text;
}

const char *ls_plan_difference(ls_arena_t *arena, const ls_candidate_t *c, const ls_candidate_t *than) {
  const char *text = "";
  ls_setting_t own, other;
  if (strcmp(c->config.parallel.strategy, than->config.parallel.strategy) != 0)
    return ls_arena_printf(arena, "parallel.strategy is %s instead of %s", c->config.parallel.strategy,
                           than->config.parallel.strategy);
  for (int i = 0; text && ls_config_setting(&c->config, i, &own); i++) {
    ls_config_setting(&than->config, i, &other);
    if (!own.tunes || ls_option_equal(own.row, own.of, other.of)) continue;
    const char *is = ls_option_text(arena, own.row, own.of),
               *instead = ls_option_text(arena, own.row, other.of);
    text = is && instead ? ls_arena_printf(arena, "%s%s%s.%s is %s instead of %s", text, *text ? ", " : "",
                                           own.section->name, own.row->name, is, instead)
                         : NULL;
  }
  return text;
}

const char *ls_plan_name(ls_arena_t *arena, const ls_candidate_t *c) {
  const int devices = ls_candidate_devices(c), threads = ls_candidate_threads(c);
  const bool named = c->transport && !ls_transport_is_usual(c->transport);
  const char *choices = ls_plan_choices(arena, c);
  char each[48] = "";
  if (c->host) snprintf(each, sizeof each, " x %d thread%s", threads, LS_PLURAL(threads));
  return choices ? ls_arena_printf(arena, "%s, %d device%s%s%s%s%s", c->config.parallel.strategy, devices,
                                   LS_PLURAL(devices), each, named ? ", " : "",
                                   named ? c->transport->name : "", choices)
                 : NULL;
}
