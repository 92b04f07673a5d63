/* One row is one wrong thing that a user can do. Each runs the program in a folder of its own and checks the
 * exit code, what stderr says (place and cause), that stdout holds nothing or one JSON document, and that no
 * file appeared, changed or went away. To add a case, add a row. */
#ifndef TESTS_CLI_BAD_INPUT_H
#define TESTS_CLI_BAD_INPUT_H

#include <stdbool.h>
#include <stddef.h>

enum { EXPECT_MAX = 4 };

/* Exit codes; see LS_STATUS_TABLE in include/lockstep/status.h. */
enum {
  OK = 0,
  USAGE = 2,
  CONFIG = 3,
  DATA = 4,
  IO = 5,
  CHECKPOINT = 6,
  UNSUPPORTED = 7,
  DIVERGED = 8,
  MEMORY = 10
};

typedef struct {
  const char *name;
  int code;
  const char *args;               /* split at spaces; NULL: "check c.yaml". --json is added */
  const char *config;             /* text of c.yaml; NULL: there is none */
  void (*files)(void);            /* makes further files in the current folder; may be NULL */
  const char *expect[EXPECT_MAX]; /* each must be in stderr */
  const char *lacks;              /* must not be in stderr; may be NULL */
  const char *leaves;             /* what may be new: everything below this path; NULL: nothing */
  const char *env;                /* NAME=VALUE for the program; may be NULL */
  bool tiny_disk;                 /* the folder "disk" is a file system of 24 kB */
  bool huge;                      /* asks for more memory than there is */
  bool no_json;                   /* --json is not added */
  bool stdout_full;               /* stdout is /dev/full */
} row_t;

extern const row_t rows_config[], rows_data[], rows_run[];
extern const int rows_config_count, rows_data_count, rows_run_count;

/* files.c: builders, all in the current folder. */
void put(const char *name, const void *bytes, size_t size);
void put_text(const char *name, const char *text);
/* `cut` bytes are taken from the end of the gzip data, then `tail` is appended. */
void put_gzip(const char *name, const void *bytes, size_t size, size_t cut, const char *tail);
/* IDX: u8 elements with these sizes in the header and `data_bytes` zeros behind it. */
void put_idx(const char *name, int rank, const unsigned *sizes, size_t data_bytes);
/* npy 1.0: the header's dictionary as text, then the data. */
void put_npy(const char *name, const char *header, const void *data, size_t size);
void flip_byte(const char *name, long at); /* negative: from the end */
void cut_file(const char *name, long size);
void fill_disk(const char *name); /* writes until there is no space */

/* test_bad_input.c: runs the program, which must succeed; for builders that need a trained model. */
void must_run(const char *args);

#endif
