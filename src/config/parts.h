/* Inside the configuration: its own sections and rules. */
#ifndef LS_CONFIG_PARTS_H
#define LS_CONFIG_PARTS_H

#include "config/config.h"

/* rows.c */
extern const ls_section_t ls_train_section, ls_checkpoint_section, ls_parallel_section, ls_cost_section;

/* sections.c: a section with its values in a configuration, who reads and who writes them. */
typedef struct {
  const ls_section_t *section;
  void *of; /* the values; NULL without a configuration */
  ls_status_t (*read)(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                      void *to);      /* NULL: by its rows */
  json_t *(*write)(const void *from); /* NULL: by its rows. Returns NULL where nothing is to be written */
  bool element;                       /* of a list in the section before it, which reads and writes it */
  bool needed;                        /* has options that must be given */
  bool compared;                      /* a checkpoint has to agree, as the rows say (ls_change_t) */
  bool written; /* in the saved configuration. False: an element, or another strategy's section */
} ls_config_part_t;
/* One after the other, a section before those that it contains; false after the last. config NULL: no values. */
bool ls_config_part(const ls_config_t *config, int index, ls_config_part_t *part);
/* Memory for the values of sections of strategies and of registered ones, before they are read. */
ls_status_t ls_config_make_own(ls_config_t *config);
/* The last part of a section's name; *parent_bytes: the length of what is before it, without the dot. */
const char *ls_config_key(const ls_section_t *section, size_t *parent_bytes);

/* check.c: the rules between sections; reports every broken one. Sets values that depend on several
 * sections (epochs, parallel.automatic, parallel.strategy). */
ls_status_t ls_config_check(ls_ctx_t *ctx, ls_config_t *config);

/* The first error of several; later ones were reported as well. */
static inline ls_status_t ls_config_first(ls_status_t a, ls_status_t b) {
  return a != LS_OK ? a : b;
}

#endif
