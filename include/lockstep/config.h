/* Configurations: a YAML text, checked as a whole, with defaults filled in. docs/config.md lists every
 * option. */
#ifndef LOCKSTEP_CONFIG_H
#define LOCKSTEP_CONFIG_H

#include <lockstep/context.h>

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_config ls_config_t;

/* Reads and checks a file. The assignments `sets` ("a.b=value") are applied in turn before the check; `sets`
 * may be NULL with set_count 0. A relative path in the file starts at the file's folder; a relative path in
 * an assignment starts at the working directory. All errors are reported to ctx, each with file:line:column.
 * The caller owns *config. LS_ERR_CONFIG, LS_ERR_IO, LS_ERR_NOT_FOUND, LS_ERR_MEMORY. */
LS_API ls_status_t ls_config_load(ls_ctx_t *ctx, const char *path, const char *const *sets, int set_count,
                                  ls_config_t **config);
/* The same from memory. Messages use `name` as the name of the file. Relative paths start at the working
 * directory. */
LS_API ls_status_t ls_config_parse(ls_ctx_t *ctx, const char *name, const char *text, size_t size_bytes,
                                   const char *const *sets, int set_count, ls_config_t **config);
/* Sets train.accumulate to a report's accumulate_next, micro-batches a step. Local; only while no trainer uses
 * the configuration. */
LS_API void ls_config_resize(ls_config_t *config, int64_t accumulate);
/* Whether the model's loss takes a class for each sample or position, not real targets. Local. */
LS_API bool ls_config_classes(const ls_config_t *config);
LS_API void ls_config_destroy(ls_config_t *config); /* NULL is allowed */

/* The resolved configuration as JSON text, with every default written out and absolute paths. JSON is
 * YAML, so the text can be loaded again, from any folder. The caller owns it (ls_free). NULL when memory is short. */
LS_API char *ls_config_text(ls_ctx_t *ctx, const ls_config_t *config);

/* The reference of all options as Markdown, generated from the rows that the parser uses. The caller owns it
 * (ls_free). NULL when memory is short. */
LS_API char *ls_config_reference(ls_ctx_t *ctx);

#ifdef __cplusplus
}
#endif
#endif
