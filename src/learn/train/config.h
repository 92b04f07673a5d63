/* Reading, checking and writing the whole configuration (engine/config.h). */
#ifndef LS_TRAIN_CONFIG_H
#define LS_TRAIN_CONFIG_H

#include "engine/config.h"

enum { LS_CONFIG_SETS_MAX = 64 /* that the program takes from its command line */ };

/* What ls_config_load and ls_config_parse leave open. */
typedef struct {
  const char *name;      /* the file; or, with `text`, what messages call it */
  const char *text;      /* NULL: the file is read */
  size_t size_bytes;     /* of the text */
  const char *data_root; /* where relative paths of the file's data section start; NULL: as in its others */
  const char *env;       /* the chosen environment (ls_doc_layer); NULL: none */
  bool env_needed;
} ls_config_source_t;
ls_status_t ls_config_read(ls_ctx_t *ctx, const ls_config_source_t *source, const char *const *sets,
                           int set_count, ls_config_t **config);

/* The resolved configuration as JSON (new reference; NULL when memory is short). */
json_t *ls_config_json(const ls_config_t *config);
#define LS_CONFIG_NAME "config.json" /* the resolved configuration in a run's directory */

/* The sections with fixed names and those of strategies (layers: ls_layer_section_at), NULL behind the last,
 * and what holds for the whole file: for the reference and what is made like it. */
const ls_section_t *ls_config_section(int index);
extern const char ls_config_file_help[];

#endif
