/* Cuts CSV text into cells (RFC 4180), keeping the place of each. */
#ifndef LS_DATA_CSV_SCAN_H
#define LS_DATA_CSV_SCAN_H

#include "base/base.h"

typedef struct {
  const char *text; /* in the file's text; quoted: between the quotes, doubled quotes still doubled */
  size_t len;
  bool quoted, doubled; /* doubled: holds "" for " */
  bool last;            /* of its record */
  const char *begin;    /* first byte of the cell, the quote included */
  int64_t line;         /* where it begins, from 1 */
  const char *line_begin;
} ls_csv_cell_t;

typedef struct {
  ls_ctx_t *ctx;
  const char *name;
  const char *at, *end;
  int64_t line;
  const char *line_begin;
  char delimiter;
  char other; /* another delimiter that the header contains outside quotes; 0: none */
} ls_csv_scan_t;

/* Skips a UTF-8 byte order mark; refuses other encodings that it recognises. delimiter 0: the one of comma,
 * semicolon and tab that the first line contains outside quotes, or comma if there are several or none. */
ls_status_t ls_csv_scan_begin(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                              ls_csv_scan_t *scan);
/* "','", "';'", "tab": for messages. Returns buf. */
const char *ls_csv_delimiter_text(char delimiter, char buf[8]);
/* True if nothing but line ends is left. Call it between records. */
bool ls_csv_scan_done(const ls_csv_scan_t *scan);
/* The next cell, without the spaces and tabs around it. LS_ERR_DATA: a quote out of place or never closed, a
 * lone carriage return. */
ls_status_t ls_csv_scan_cell(ls_csv_scan_t *scan, ls_csv_cell_t *cell);

/* The text of a cell, doubled quotes made single. Owned by the arena. NULL: out of memory. */
char *ls_csv_cell_text(ls_arena_t *arena, const ls_csv_cell_t *cell);

/* Whether a cell stands for no value: empty, ?, or what pandas reads so (NA, NaN, null, #N/A ..). As a label: unless it is such a
 * text in quotes, or None. */
bool ls_csv_is_gap(const ls_csv_cell_t *cell);
bool ls_csv_is_label_gap(const ls_csv_cell_t *cell);
/* Says what is wrong with such a label, and what helps. Returns buf. */
enum { LS_CSV_GAP_TEXT_BYTES = 160 };
const char *ls_csv_gap_text(const ls_csv_cell_t *cell, char buf[LS_CSV_GAP_TEXT_BYTES]);

/* Reports LS_ERR_DATA at a cell (file:line:column, the line and a caret). */
ls_status_t ls_csv_fail(const ls_csv_scan_t *scan, const ls_csv_cell_t *cell, const char *fmt, ...)
    LS_PRINTF(3, 4);

#endif
