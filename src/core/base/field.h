/* Records as rows: a struct's fields by name, type and place. The same rows write a struct as JSON, read it back with
 * every value checked, and clear it to "unknown". Options (option.h) are rows over the same types that also parse text, have
 * defaults and document themselves. */
#ifndef LS_BASE_FIELD_H
#define LS_BASE_FIELD_H

#include "base/arena.h"
#include <jansson.h>
#include <stddef.h>

enum { LS_OPT_LIST_MAX = 64 };
typedef struct {
  int count;
  int64_t v[LS_OPT_LIST_MAX];
} ls_ints_t;
typedef struct {
  int count;
  double v[LS_OPT_LIST_MAX];
} ls_floats_t;
typedef struct {
  int count;
  const char *const *v; /* in the arena */
} ls_strings_t;

typedef enum {
  LS_FIELD_TEXT,   /* char[size_bytes] */
  LS_FIELD_STRING, /* const char *; NULL is null. Read into the arena */
  LS_FIELD_BOOL,   /* bool */
  LS_FIELD_MAYBE,  /* int: 1, 0 or -1, which is unknown: true, false, null */
  LS_FIELD_INT,    /* int */
  LS_FIELD_INT64,  /* int64_t, or a uint64_t below 2^63 */
  LS_FIELD_REAL,   /* double; NaN and infinities are null, which leaves the field as it was when it is read */
  LS_FIELD_CHOICE, /* an enum or int: index into choices */
  LS_FIELD_RECORD, /* a struct: the rows `record` */
  LS_FIELD_LIST,   /* an array: elements by the row `each` */
  LS_FIELD_LIST_AT, /* the same through a pointer. Read into the arena */
  LS_FIELD_JSON,    /* json_t *, borrowed; NULL is null. Read: an object, borrowed from what is read */
  /* of options alone: records do not read them */
  LS_FIELD_PATH,   /* const char *, in the arena: not empty; a relative one starts where its document says */
  LS_FIELD_INTS,   /* ls_ints_t: a list of integers, or one integer */
  LS_FIELD_REALS,  /* ls_floats_t: a list of numbers, or one number */
  LS_FIELD_STRINGS /* ls_strings_t: a list of strings, or one string */
} ls_field_type_t;

/* The numbers that are known; others are written as null, and clearing a record sets one of them. The empty text is known if
 * all numbers are. */
typedef enum {
  LS_KNOWN_ALL,
  LS_KNOWN_FROM_0, /* not negative ones */
  LS_KNOWN_ABOVE_0 /* neither negative ones nor 0 */
} ls_known_t;

typedef struct ls_field ls_field_t;
typedef struct {
  const ls_field_t *rows;
  int count;
  const char *const
      *others; /* read: members without a row that are skipped (NULL-terminated); NULL: all of them are */
} ls_record_t;
/* `..`: others, or nothing. */
#define LS_RECORD(...)                                                                                       \
  { LS_RECORD_ROWS(__VA_ARGS__, NULL, ) }
#define LS_RECORD_ROWS(rows, others, ...) (rows), LS_COUNT(rows), (others)

struct ls_field {
  const char *name; /* of the JSON member; of an element: NULL */
  ls_field_type_t type;
  size_t offset;     /* in the struct; of an element: 0 */
  size_t size_bytes; /* of the field; of an element: from one to the next */
  ls_known_t known;
  double scale; /* 0 = 1: written are numbers times this (1e-3: ns as us). Such rows are not read */
  const char *const *choices; /* LS_FIELD_CHOICE: NULL-terminated names */
  const ls_record_t *record;  /* LS_FIELD_RECORD */
  const ls_field_t *each;     /* of a list */
  size_t count_offset;        /* of a list: where the struct counts its elements (int) */

  /* For writing: what a bool of the struct says (LS_FIELD_IF, LS_FIELD_UNLESS). */
  enum { LS_FIELD_ALWAYS, LS_FIELD_WHERE, LS_FIELD_WHERE_NOT } when; /* else null */
  size_t flag_offset;
  bool left_out; /* null is not written: the member is absent */

  /* For reading. Absent and null leave the field as it was, unless it is required. */
  bool required;
  bool counted;                   /* of a list: the count is known before it is read, and has to agree */
  double min, max;                /* of numbers, inclusive; max 0 = none. Negative ones need a negative min */
  bool (*good)(const char *text); /* of texts; NULL = any without control characters */
  const char *expected;           /* in messages, where the type does not say it: "one row per GPU" */
};

#define LS_FIELD_TYPE(field)                                                                                 \
  _Generic((field), bool                                                                                     \
           : LS_FIELD_BOOL, int                                                                              \
           : LS_FIELD_INT, int64_t                                                                           \
           : LS_FIELD_INT64, uint64_t                                                                        \
           : LS_FIELD_INT64, double                                                                          \
           : LS_FIELD_REAL, char *                                                                           \
           : LS_FIELD_TEXT, const char *                                                                     \
           : LS_FIELD_STRING, json_t *                                                                       \
           : LS_FIELD_JSON, ls_ints_t                                                                        \
           : LS_FIELD_INTS, ls_floats_t                                                                      \
           : LS_FIELD_REALS, ls_strings_t                                                                    \
           : LS_FIELD_STRINGS, default                                                                       \
           : LS_FIELD_RECORD)

/* The row of a field, its type taken from the field. `..`: its name, then initialisers of what else it has:
 * LS_FIELD_AS(ls_gpu_t, watts, "power_w", .known = LS_KNOWN_FROM_0). */
#define LS_FIELD_AS(struct_, field_, ...)                                                                    \
  {                                                                                                          \
    .type = LS_FIELD_TYPE(((struct_ *)0)->field_), .offset = offsetof(struct_, field_),                      \
    .size_bytes = sizeof((struct_ *)0)->field_, .name = __VA_ARGS__                                          \
  }
#define LS_FIELD(struct_, field_) LS_FIELD_AS(struct_, field_, #field_)
/* Rows whose type the field does not say: LS_FIELD_OF(ls_machine_t, gpu, LS_FIELD_LIST, "gpu", .each = ..). */
#define LS_FIELD_OF(struct_, field_, type_, ...)                                                             \
  {                                                                                                          \
    .type = (type_), .offset = offsetof(struct_, field_), .size_bytes = sizeof((struct_ *)0)->field_,        \
    .name = __VA_ARGS__                                                                                      \
  }

/* An object whose members stand in the struct itself: LS_FIELD_OBJECT(time_record, "step_time_us"). */
#define LS_FIELD_OBJECT(record_, ...)                                                                        \
  { .type = LS_FIELD_RECORD, .record = &(record_), .name = __VA_ARGS__ }
/* An element of a list of structs. */
#define LS_FIELD_EACH(struct_, record_)                                                                      \
  { .type = LS_FIELD_RECORD, .size_bytes = sizeof(struct_), .record = &(record_) }

/* Initialisers: the member is null where the flag is not set, or where it is. */
#define LS_FIELD_IF(struct_, flag)     .when = LS_FIELD_WHERE, .flag_offset = offsetof(struct_, flag)
#define LS_FIELD_UNLESS(struct_, flag) .when = LS_FIELD_WHERE_NOT, .flag_offset = offsetof(struct_, flag)

/* The bytes of a value of a type that has the same size everywhere; 0: of others. */
size_t ls_field_type_bytes(ls_field_type_t type);

/* New reference; NULL when memory is short. */
json_t *ls_record_json(const ls_record_t *record, const void *from);
/* Puts the record's members into `object`. False: memory is short, or `object` is NULL. */
bool ls_record_put(json_t *object, const ls_record_t *record, const void *from);
/* One value; a list's count is in `record`. */
json_t *ls_field_json(const ls_field_t *field, const void *record);

/* Everything unknown: numbers -1 where negative ones are, NaN where all are known; else 0, false, "", NULL, no element. */
void ls_record_clear(const ls_record_t *record, void *to);

typedef struct {
  ls_ctx_t *ctx;
  const char *name;   /* of what is read, before the place: "file: machine" */
  ls_status_t status; /* of what is refused: LS_ERR_CONFIG, LS_ERR_CORRUPT */
  ls_arena_t *arena;  /* NULL: no row needs it */
} ls_field_source_t;

/* Fills `to`, which was cleared. Everything comes from outside and is checked; a fault is reported with its
 * place: "file: machine: gpu[1].power_w: a number >= 0 expected". */
ls_status_t ls_record_read(const ls_field_source_t *source, const ls_record_t *record, const json_t *json,
                           void *to);

/* A number or a text for people: "-1", "avx512". Returns text. */
const char *ls_field_text(const ls_field_t *field, const void *record, char *text, size_t size_bytes);

#endif
