/* The sections of a configuration: where each one's values stand, who reads and who writes them. */
#include "config/parts.h"

#include <string.h>

/* Functions of modules, with the types of a row. */
#define READER(name, parse)                                                                                  \
  static ls_status_t name(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node, void *to) {           \
    return parse(ctx, arena, node, to);                                                                      \
  }
#define WRITER(name, json)                                                                                   \
  static json_t *name(const void *from) {                                                                    \
    return json(from);                                                                                       \
  }
READER(read_model, ls_model_parse)
READER(read_optim, ls_optim_parse)
READER(read_hosts, ls_hosts_parse)
READER(read_monitor, ls_monitor_parse)
READER(read_safety, ls_safety_parse)
WRITER(write_model, ls_model_json)
WRITER(write_optim, ls_optim_json)
WRITER(write_monitor, ls_monitor_json)
WRITER(write_safety, ls_safety_json)

/* Writes nothing if there are no hosts. */
static json_t *write_hosts(const void *from) {
  const ls_hosts_config_t *hosts = from;
  return hosts->count > 0 ? ls_hosts_json(hosts) : NULL;
}

/* Writes the configured micro-batches: a run that safety has given smaller ones (twice as many) keeps its configuration. */
static json_t *write_train(const void *from) {
  ls_train_config_t usual = *(const ls_train_config_t *)from;
  if (usual.smaller) usual.accumulate /= 2;
  return ls_option_json(&ls_train_section, &usual);
}

/* ---- the list ---- */

typedef struct {
  size_t offset; /* of the values in ls_config_t */
  ls_config_part_t part;
} row_t;

#define AT(section_, field_, ...)                                                                            \
  {                                                                                                          \
    offsetof(ls_config_t, field_), {                                                                         \
      .section = &(section_), .written = true, __VA_ARGS__                                                   \
    }                                                                                                        \
  }
/* In the order of config.json and of the reference: a section stands before those that it contains. */
static const row_t rows[] = {
    AT(ls_model_section, model, .read = read_model, .write = write_model, .needed = true, .compared = true),
    AT(ls_data_section, data, .needed = true, .compared = true),
    AT(ls_train_section, train, .write = write_train, .compared = true),
    AT(ls_optim_section, optimizer, .read = read_optim, .write = write_optim, .compared = true),
    {.part = {.section = &ls_optim_group_section, .element = true}},
    AT(ls_rate_section, rate, .compared = true),
    AT(ls_prune_section, prune, .compared = true),
    AT(ls_checkpoint_section, checkpoint, .compared = false),
    AT(ls_parallel_section, parallel, .compared = true),
    AT(ls_hosts_section, parallel.hosts, .read = read_hosts, .write = write_hosts),
    AT(ls_cost_section, cost, .compared = false),
    AT(ls_monitor_section, monitor, .read = read_monitor, .write = write_monitor),
    {.part = {.section = &ls_alert_section, .element = true}},
    AT(ls_safety_section, safety, .read = read_safety, .write = write_safety),
    AT(ls_supervise_section, supervise, .compared = false),
    AT(ls_ranks_section, supervise_ranks, .compared = false),
    AT(ls_restarts_section, restarts, .compared = false),
};

/* ---- sections that programs add ---- */

static const ls_config_own_t *registered[LS_CONFIG_OWN_MAX];

bool ls_config_register(const ls_config_own_t *own) {
  int i = 0;
  while (i < LS_CONFIG_OWN_MAX && registered[i])
    i++;
  if (i < LS_CONFIG_OWN_MAX) registered[i] = own;
  return i < LS_CONFIG_OWN_MAX;
}

const void *ls_config_own(const ls_config_t *config, const ls_config_own_t *own) {
  for (int i = 0; i < LS_CONFIG_OWN_MAX && registered[i]; i++)
    if (registered[i] == own) return config->own[i];
  return NULL;
}

/* ---- all of them ---- */

const char *ls_config_key(const ls_section_t *section, size_t *parent_bytes) {
  const char *dot = strrchr(section->name, '.');
  *parent_bytes = dot ? (size_t)(dot - section->name) : 0;
  return dot ? dot + 1 : section->name;
}

bool ls_config_part(const ls_config_t *config, int index, ls_config_part_t *part) {
  if (index < LS_COUNT(rows)) {
    *part = rows[index].part;
    part->of = config ? (char *)(uintptr_t)config + rows[index].offset : NULL;
    return true;
  }
  index -= LS_COUNT(rows); /* after the list: the options of strategies, then registered sections */
  for (int i = 0; ls_strategies[i]; i++) {
    if (!ls_strategies[i]->section || index-- > 0) continue;
    const char *name = config ? config->parallel.strategy : NULL; /* none before it is read */
    const bool used = name && strcmp(name, ls_strategies[i]->name) == 0;
    void *of = config ? (void *)(uintptr_t)config->parallel.own[i] : NULL;
    *part =
        (ls_config_part_t){.section = ls_strategies[i]->section, .of = of, .compared = used, .written = used};
    return true;
  }
  if (index >= LS_CONFIG_OWN_MAX || !registered[index]) return false;
  *part = (ls_config_part_t){.section = registered[index]->section,
                             .of = config ? config->own[index] : NULL,
                             .compared = true,
                             .written = true};
  return true;
}

ls_status_t ls_config_make_own(ls_config_t *config) {
  bool made = true;
  for (int i = 0; ls_strategies[i]; i++)
    if (ls_strategies[i]->section)
      made &= (config->parallel.own[i] = ls_arena_alloc(&config->arena, ls_strategies[i]->own_bytes)) != NULL;
  for (int i = 0; i < LS_CONFIG_OWN_MAX && registered[i]; i++)
    made &= (config->own[i] = ls_arena_alloc(&config->arena, registered[i]->bytes)) != NULL;
  return made ? LS_OK : LS_ERR_MEMORY;
}
