/* Options as rows: one row gives the parser, the range check, the help text, the reference page and the saved
 * resolved configuration. A module describes its own section next to the struct that the rows fill. */
#ifndef LS_BASE_OPTION_H
#define LS_BASE_OPTION_H

#include "base/doc.h"
#include "base/field.h"

/* Effect of a value that differs from the checkpoint's when a run continues from that checkpoint
 * (config/compare.c). */
typedef enum {
  LS_CHANGE_LISTED,  /* resume: may change, and is listed; evaluation: ignored */
  LS_CHANGE_IGNORED, /* ignored */
  LS_CHANGE_MODEL,   /* the weights would mean something else: refused everywhere */
  LS_CHANGE_RUN,     /* resume: refused; evaluation: ignored */
  LS_CHANGE_DATA,    /* resume: refused unless other data are allowed; evaluation: ignored */
  LS_CHANGE_KEPT     /* the checkpoint's value is used, and a message says so */
} ls_change_t;

typedef struct {
  const char *name;
  ls_field_type_t type;       /* a scalar, a path, or a list of them */
  size_t offset;              /* of the field in the section's struct */
  const char *unit;           /* "bytes", "s", "samples"; NULL when none */
  double min, max;            /* inclusive; both 0 = unbounded. For lists: of every element */
  const char *initial;        /* default as text; NULL = must be given unless `optional` */
  bool optional;              /* no default, and may be absent: then strings are NULL, lists empty, numbers
                               * 0 */
  const char *const *choices; /* LS_FIELD_CHOICE: NULL-terminated names */
  const char *help;           /* one sentence */
  ls_change_t change;
  bool secret; /* LS_FIELD_STRING: a value of secret.h, hidden wherever it is saved or shown */
  bool apart;  /* min, below 0, stands for "not given": other values are at least 0 */
  enum {
    LS_PLAN_KEEPS,
    LS_PLAN_PLACES,
    LS_PLAN_TUNES
  } plan; /* lockstep plan chooses it: which ranks there are, or how they work */
} ls_option_t;

/* An int of an option is a choice. */
#define LS_OPTION_TYPE(field) _Generic((field), int : LS_FIELD_CHOICE, default : LS_FIELD_TYPE(field))
/* The row of a field that the option is named after, its type taken from the field. `..`: initialisers of what else it
 * has. */
#define LS_OPTION(struct_, field_, ...)                                                                      \
  {                                                                                                          \
    .name = #field_, .type = LS_OPTION_TYPE(((struct_ *)0)->field_), .offset = offsetof(struct_, field_),    \
    __VA_ARGS__                                                                                              \
  }
#define LS_OPTION_PATH(struct_, field_, ...)                                                                 \
  { .name = #field_, .type = LS_FIELD_PATH, .offset = offsetof(struct_, field_), __VA_ARGS__ }

typedef struct ls_section {
  const char *name; /* "train.optimizer" */
  const ls_option_t *rows;
  int count;
  const char *help;
  const struct ls_section *shared; /* a section whose rows are options here, too; NULL = none. Its help is
                                    * shown separately */
} ls_section_t;

/* The rows of the section, then those of its shared section; NULL after the last. */
const ls_option_t *ls_section_row(const ls_section_t *section, int index);

/* The worse of two: a lack of memory or a broken table is not the document's fault. */
static inline ls_status_t ls_worse(ls_status_t a, ls_status_t b) {
  return a < b ? a : b;
}

/* Fills `target` (the struct that the offsets refer to) from `map` (NULL or null node: all defaults). Reports
 * every error of the section: unknown keys (with a suggestion), wrong types, values out of range, missing
 * keys. Keys listed in `nested` (NULL-terminated, may be NULL) belong to sub-sections and are skipped.
 * Strings live in `arena`. Returns LS_ERR_CONFIG after all errors were reported. */
ls_status_t ls_option_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_section_t *section,
                            const ls_doc_node_t *map, const char *const *nested, void *target);

/* The section's resolved values as a JSON object (new reference; NULL when memory is short). Paths are
 * absolute, so they mean the same wherever the object is saved. */
json_t *ls_option_json(const ls_section_t *section, const void *source);

/* The value of one row (new reference; NULL when memory is short). */
json_t *ls_option_value_json(const ls_option_t *row, const void *source);
/* Whether two structs of the section have the same value of a row: to the bit, texts by their characters. */
bool ls_option_equal(const ls_option_t *row, const void *a, const void *b);
bool ls_option_is_default(const ls_option_t *row, const void *source);
/* The value as `--set` takes it, in the arena; NULL when memory is short. */
const char *ls_option_text(ls_arena_t *arena, const ls_option_t *row, const void *source);

/* "integer, in [1, 256], samples, default 128"; owned by the arena, NULL when memory is short. */
const char *ls_option_type_text(ls_arena_t *arena, const ls_option_t *row);

/* The row's default; for an optional row the value that means "absent" (new reference; NULL: memory). */
json_t *ls_option_default_json(const ls_option_t *row);

/* "name  type, range, unit, default  help" lines for --help and docs/config.md; owned by the arena. */
const char *ls_option_help(ls_arena_t *arena, const ls_section_t *section);

/* Whether a name is in a selection: * is any text, ? one character, `!` in front takes back what patterns before it chose.
 * The last pattern that the name matches decides. */
bool ls_patterns_choose(const ls_strings_t *patterns, const char *name);

/* The name among `names` (NULL-terminated) closest to `text` within a third of its length; NULL when none. */
const char *ls_nearest(const char *text, const char *const *names);
/* For errors about an unknown name, written to buf: what a user of another program means by it (base/hints.h), as "; REMEDY"; else
 * the nearest name, as "; did you mean `N`?"; else "". `where` is of ls_hint. */
enum { LS_NAMES_TEXT_BYTES = 512 };
const char *ls_nearest_text(const char *where, const char *text, const char *const *names,
                            char buf[LS_NAMES_TEXT_BYTES]);
/* "A, B, C"; "none" without names, and an ellipsis for what does not fit. */
const char *ls_names_text(const char *const *names, char buf[LS_NAMES_TEXT_BYTES]);

#endif
