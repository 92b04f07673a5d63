/* JSON files that another program may have written. */
#ifndef LS_BASE_JSON_H
#define LS_BASE_JSON_H

#include "base/ctx.h"

#include <jansson.h>

/* Reads and parses a whole file. A file larger than `limit_bytes`, or with a key twice in an object, is
 * refused. Text that is not JSON gives status `broken`, reported with line and column, followed by `hint` (""
 * = none). *json: new reference. */
ls_status_t ls_json_read(ls_ctx_t *ctx, const char *path, size_t limit_bytes, ls_status_t broken,
                         const char *hint, json_t **json);

/* JSON is UTF-8, but paths are bytes: in a text that is not UTF-8, bytes beyond ASCII become "?". NULL when
 * memory is short. */
json_t *ls_json_text(const char *text);

/* Null for NaN and infinities. */
json_t *ls_json_number(double value);

/* A number with the fewest digits that read back equal, but at least six significant ones if they are not
 * zeros: 0.1, 100000, 1e+06. Returns `text`. */
enum { LS_JSON_REAL_BYTES = 32 };
const char *ls_json_real(double value, char text[LS_JSON_REAL_BYTES]);

/* The text of a document (json_dumps flags) in which every number has the fewest digits that read back equal:
 * 0.1, not 0.10000000000000001. Release it with free. NULL when memory is short. */
char *ls_json_dump(const json_t *json, size_t flags);

/* The value of a dotted path of at most 63 characters, borrowed; NULL when there is none. */
json_t *ls_json_at(const json_t *json, const char *path);

#endif
