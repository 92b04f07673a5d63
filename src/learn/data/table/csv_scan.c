/* The lexical half of the CSV reader: RFC 4180 with LF or CRLF line ends. A cell is a view of the text;
 * nothing is copied. Errors are reported at their beginning: an open quote is named, not the end of the
 * file. */
#include "data/table/csv_scan.h"

#include "base/magic.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ls_status_t ls_csv_fail(const ls_csv_scan_t *scan, const ls_csv_cell_t *cell, const char *fmt, ...) {
  char message[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  const char *line_end = memchr(cell->line_begin, '\n', (size_t)(scan->end - cell->line_begin));
  if (!line_end) line_end = scan->end;
  if (line_end > cell->line_begin && line_end[-1] == '\r') line_end--;
  ptrdiff_t len = line_end - cell->line_begin, column = cell->begin - cell->line_begin + 1;
  ls_place_t place = {.file = scan->name,
                      .line = (int)(cell->line < INT_MAX ? cell->line : INT_MAX),
                      .column = (int)(column < INT_MAX ? column : INT_MAX),
                      .source = cell->line_begin,
                      .source_len = (int)(len < INT_MAX ? len : INT_MAX)};
  /* A line with control bytes would garble the terminal. */
  for (int i = 0; i < place.source_len && place.source; i++)
    if ((unsigned char)place.source[i] < ' ' && place.source[i] != '\t') place.source = NULL;
  return ls_fail_at(scan->ctx, LS_ERR_DATA, &place, "%s", message);
}

const char *ls_csv_delimiter_text(char delimiter, char buf[8]) {
  snprintf(buf, 8, delimiter == '\t' ? "tab" : "'%c'", delimiter);
  return buf;
}

/* The delimiters that the header contains. The last is never chosen, because it also occurs in names, but
 * messages mention it. */
static void find_delimiters(ls_csv_scan_t *s) {
  static const char known[] = ",;\t|";
  bool quoted = false, seen[sizeof known - 1] = {false};
  for (const char *at = s->at; at < s->end && (quoted || (*at != '\n' && *at != '\r')); at++) {
    if (*at == '"') quoted = !quoted;
    const char *found = quoted || !*at ? NULL : strchr(known, *at);
    if (found) seen[found - known] = true;
  }
  bool given = s->delimiter != 0;
  int count = seen[0] + seen[1] + seen[2];
  for (int i = 0; i < 3 && !given; i++)
    if (count == 1 && seen[i]) s->delimiter = known[i];
  if (!s->delimiter) s->delimiter = ',';
  for (int i = (int)sizeof known - 2; i >= 0; i--)
    if (seen[i] && known[i] != s->delimiter) s->other = known[i];
}

ls_status_t ls_csv_scan_begin(ls_ctx_t *ctx, const char *name, const char *text, size_t size, char delimiter,
                              ls_csv_scan_t *scan) {
  if (size >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
    return ls_fail(ctx, LS_ERR_DATA, "%s: the text is UTF-16: save it as UTF-8", name);
  const char *other = ls_magic_text(text, size);
  if (other)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: this is %s, not CSV: write a CSV file of it (pandas: to_csv(FILE, index=False))",
                   name, other);
  size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  const char *begin = text + mark;
  *scan = (ls_csv_scan_t){ctx, name, begin, text + size, 1, begin, delimiter, 0};
  find_delimiters(scan);
  return LS_OK;
}

bool ls_csv_scan_done(const ls_csv_scan_t *scan) {
  const char *at = scan->at;
  while (at < scan->end && (*at == '\n' || *at == '\r'))
    at++;
  return at == scan->end;
}

/* Skips the separator or line end after a cell. */
static ls_status_t end_cell(ls_csv_scan_t *s, ls_csv_cell_t *cell) {
  cell->last = true;
  if (s->at == s->end) return LS_OK;
  if (*s->at == s->delimiter) {
    s->at++;
    cell->last = false;
    return LS_OK;
  }
  if (*s->at == '\r') s->at++;
  if (s->at < s->end && *s->at != '\n')
    return ls_csv_fail(s, cell, "a carriage return without a line feed after this cell");
  if (s->at < s->end) s->at++;
  s->line++;
  s->line_begin = s->at;
  return LS_OK;
}

/* Spaces around a cell are ignored; a tab may be the delimiter. */
static bool is_blank(const ls_csv_scan_t *s, char c) {
  return (c == ' ' || c == '\t') && c != s->delimiter;
}

static void skip_blanks(ls_csv_scan_t *s) {
  while (s->at < s->end && is_blank(s, *s->at))
    s->at++;
}

static ls_status_t scan_quoted(ls_csv_scan_t *s, ls_csv_cell_t *cell) {
  cell->quoted = true;
  cell->text = ++s->at;
  for (;; s->at++) {
    if (s->at == s->end) return ls_csv_fail(s, cell, "this quote is never closed");
    if (*s->at == '\n') {
      s->line++;
      s->line_begin = s->at + 1;
    }
    if (*s->at != '"') continue;
    if (s->at + 1 == s->end || s->at[1] != '"') break;
    cell->doubled = true;
    s->at++;
  }
  cell->len = (size_t)(s->at - cell->text);
  s->at++;
  skip_blanks(s);
  if (s->at < s->end && *s->at != s->delimiter && *s->at != '\n' && *s->at != '\r')
    return ls_csv_fail(s, cell,
                       "text follows the closing quote of this cell (a quote inside is written \"\")");
  return end_cell(s, cell);
}

ls_status_t ls_csv_scan_cell(ls_csv_scan_t *s, ls_csv_cell_t *cell) {
  skip_blanks(s);
  *cell = (ls_csv_cell_t){.text = s->at, .begin = s->at, .line = s->line, .line_begin = s->line_begin};
  if (s->at < s->end && *s->at == '"') return scan_quoted(s, cell);
  const char *at = s->at;
  while (at < s->end && *at != s->delimiter && *at != '\n' && *at != '\r' && *at != '"')
    at++;
  cell->len = (size_t)(at - s->at);
  s->at = at;
  while (cell->len > 0 && is_blank(s, cell->text[cell->len - 1]))
    cell->len--;
  if (at < s->end && *at == '"')
    return ls_csv_fail(s, cell, "a quote inside an unquoted cell: put the whole cell in quotes");
  return end_cell(s, cell);
}

char *ls_csv_cell_text(ls_arena_t *arena, const ls_csv_cell_t *cell) {
  char *name = ls_arena_strndup(arena, cell->text, cell->len), *to = name;
  if (!name || !cell->doubled) return name;
  for (const char *from = name; *from; from++) {
    *to++ = *from;
    if (from[0] == '"' && from[1] == '"') from++;
  }
  *to = '\0';
  return name;
}

/* Texts that pandas reads as missing, and `?`. The first one may be the name of a class. */
static bool is_gap(const ls_csv_cell_t *cell, bool label) {
  static const char *const texts[] = {"None", "",     "NA",     "N/A",     "NaN",     "nan",     "null",
                                      "?",    "NULL", "n/a",    "<NA>",    "#N/A",    "#NA",     "#N/A N/A",
                                      "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"};
  for (int i = label; i < LS_COUNT(texts); i++)
    if (cell->len == strlen(texts[i]) && memcmp(cell->text, texts[i], cell->len) == 0) return true;
  return false;
}

bool ls_csv_is_gap(const ls_csv_cell_t *cell) {
  return is_gap(cell, false);
}

bool ls_csv_is_label_gap(const ls_csv_cell_t *cell) {
  return is_gap(cell, true) && (cell->len == 0 || !cell->quoted);
}

const char *ls_csv_gap_text(const ls_csv_cell_t *cell, char buf[LS_CSV_GAP_TEXT_BYTES]) {
  static const char remedy[] = "and a target is never missing: remove the row";
  if (cell->len == 0)
    snprintf(buf, LS_CSV_GAP_TEXT_BYTES, "empty cell where a label is needed, %s", remedy);
  else
    snprintf(buf, LS_CSV_GAP_TEXT_BYTES,
             "'%.*s' stands for a missing value, %s, or put the cell in quotes if a class has this name",
             (int)cell->len, cell->text, remedy);
  return buf;
}
