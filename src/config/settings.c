/* The options that a plan chooses, as rows over a configuration. */
#include "config/parts.h"

bool ls_config_setting(const ls_config_t *config, int index, ls_setting_t *setting) {
  const ls_strategy_t *strategy = ls_strategy_find(config->parallel.strategy);
  const struct {
    const ls_section_t *section;
    const void *of;
    bool all;
  } parts[] = {{&ls_parallel_section, &config->parallel, false},
               {&ls_train_section, &config->train, false},
               {strategy ? strategy->section : NULL,
                strategy ? ls_config_strategy(config, strategy).own : NULL, true}};
  for (int i = 0; i < LS_COUNT(parts); i++) {
    const ls_option_t *row;
    for (int k = 0; parts[i].section && parts[i].of && (row = ls_section_row(parts[i].section, k)); k++)
      if ((parts[i].all || row->plan) && index-- == 0) {
        *setting =
            (ls_setting_t){parts[i].section, row, parts[i].of, parts[i].all || row->plan == LS_PLAN_TUNES};
        return true;
      }
  }
  return false;
}

json_t *ls_config_tuned_json(const ls_config_t *config) {
  json_t *json = json_object();
  ls_setting_t s;
  for (int i = 0; json && ls_config_setting(config, i, &s); i++)
    if (s.tunes) json_object_set_new(json, s.row->name, ls_option_value_json(s.row, s.of));
  return json;
}
