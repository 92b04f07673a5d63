/* Results spare data: a command that writes a file asks here before it begins. */
#ifndef LS_CONFIG_SPARE_H
#define LS_CONFIG_SPARE_H

#include "config/config.h"

/* A file that the command reads. */
typedef struct {
  const char *name; /* of the flag that gives it; NULL ends a list */
  const char *path; /* a file or a pattern; NULL or "-": none */
} ls_config_input_t;
/* LS_ERR_ARGUMENT if a result at `path` would replace one of `inputs` (NULL: none), a file of the configuration or one that
 * it names (NULL: none), any picture, or a file beside the manifest of a checkpoint. Follows links. `path` NULL or "-", and
 * what is no regular file yet, replaces nothing. Local. */
ls_status_t ls_config_spares(ls_ctx_t *ctx, const char *path, const ls_config_input_t *inputs,
                             const ls_config_t *config);
/* For a result that is written long after the start: LS_ERR_IO, naming the flag, if `path` is a folder, or lies in none that
 * can be written. What is written in its place (a link, a device, an open file) has to be writable itself. Changes nothing. */
ls_status_t ls_config_writable(ls_ctx_t *ctx, const char *flag, const char *path);

#endif
