/* Inside the option module: one value from a node into the field of its row. */
#ifndef LS_BASE_OPTION_VALUE_H
#define LS_BASE_OPTION_VALUE_H

#include "base/option.h"

enum { LS_OPT_RANGE_TEXT_BYTES = 96 };

/* The source of values; the section's name is for messages. */
typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t *arena; /* NULL: strings are static and not copied (defaults) */
  const char *section;
} ls_option_source_t;

/* Checks the node's value and writes it to the field. Reports with the value's place. */
ls_status_t ls_option_value_parse(const ls_option_source_t *source, const ls_option_t *row,
                                  const ls_doc_node_t *node, void *field);

/* Writes the row's default into the field: its `initial` text, or nothing for an optional row. A default that
 * does not fit its own row is LS_ERR_INTERNAL. */
ls_status_t ls_option_value_default(const ls_option_source_t *source, const ls_option_t *row, void *field);

/* "in [1, 256]", "at least 1", "at most 8", "" for rows without limits. Returns buf. */
const char *ls_option_range_text(const ls_option_t *row, char buf[LS_OPT_RANGE_TEXT_BYTES]);
bool ls_option_in_range(const ls_option_t *row, double value);

#endif
