/* Inside the configuration: its own sections and rules. */
#ifndef LS_CONFIG_PARTS_H
#define LS_CONFIG_PARTS_H

#include "config/config.h"

/* rows.c */
extern const ls_section_t ls_train_section, ls_checkpoint_section, ls_parallel_section, ls_cost_section;

/* check.c: the rules between sections; reports every broken one. Sets values that depend on several
 * sections (epochs, parallel.automatic, parallel.strategy). */
ls_status_t ls_config_check(ls_ctx_t *ctx, const ls_doc_t *doc, ls_config_t *config);

/* The first error of several; later ones were reported as well. */
static inline ls_status_t ls_config_first(ls_status_t a, ls_status_t b) {
  return a != LS_OK ? a : b;
}

#endif
