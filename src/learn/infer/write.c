/* Predictions as rows of a file: how each format begins, a row, how it ends. */
#include "infer/infer.h"

#include "base/json.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NPY_HEADER_BYTES = 128 };

typedef struct {
  const ls_predictions_t *p;
  const ls_predictions_facts_t *facts;
  FILE *to;
  bool terminal; /* it is one: names are escaped */
  int64_t rows;
} out_t;

typedef struct {
  const char *name;
  void (*begin)(out_t *o);
  void (*row)(out_t *o, const float *values);
  void (*end)(out_t *o); /* NULL: nothing is left to do */
} format_t;

static int64_t best_of(const out_t *o, const float *values) {
  int64_t best = 0;
  for (int64_t i = 1; i < o->facts->width; i++)
    if (values[i] > values[best]) best = i;
  return best;
}

static const char *name_of(const out_t *o, int64_t i, char text[24]) {
  if (o->facts->names.v) return o->facts->names.v[i];
  snprintf(text, 24, "%lld", (long long)i);
  return text;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* A cell; in quotes if it has to be (RFC 4180), or if a reader would skip blanks around it. */
static void put_cell(const out_t *o, const char *text) {
  size_t len = strlen(text);
  bool quotes = strpbrk(text, ",\"\r\n") || is_blank(text[0]) || (len > 0 && is_blank(text[len - 1]));
  char plain[LS_PLAIN_BYTES];
  if (quotes) fputc('"', o->to);
  for (size_t size; *text; text += size) {
    size = ls_text_plain(text, plain);
    if (*text == '"') fputc('"', o->to);
    fwrite(o->terminal ? plain : text, 1, o->terminal ? strlen(plain) : size, o->to);
  }
  if (quotes) fputc('"', o->to);
}

static void csv_begin(out_t *o) {
  char text[24];
  if (o->facts->files) fputs("file,", o->to);
  if (o->facts->classes) fputs("class,probability", o->to);
  for (int64_t i = 0; i < o->facts->width; i++) {
    if (i > 0 || o->facts->classes) fputc(',', o->to);
    put_cell(o, name_of(o, i, text));
  }
  fputc('\n', o->to);
}

/* Nine digits tell any two floats apart. */
static void csv_row(out_t *o, const float *values) {
  char text[24];
  if (o->facts->files) {
    put_cell(o, ls_predictions_file(o->p, o->rows));
    fputc(',', o->to);
  }
  if (o->facts->classes) {
    int64_t best = best_of(o, values);
    put_cell(o, name_of(o, best, text));
    fprintf(o->to, ",%.9g,", (double)values[best]);
  }
  for (int64_t i = 0; i < o->facts->width; i++)
    fprintf(o->to, "%s%.9g", i ? "," : "", (double)values[i]);
  fputc('\n', o->to);
}

static void put_json_text(FILE *to, const char *text) {
  json_t *value = ls_json_text(text);
  char *dumped = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
  fputs(dumped ? dumped : "null", to);
  free(dumped);
  json_decref(value);
}

static void nothing(out_t *o) {
  (void)o;
}

static void put_json_number(FILE *to, float value) {
  fprintf(to, isfinite(value) ? "%.9g" : "null", (double)value);
}

/* Classes that have names are members, so that nobody has to know their order. */
static void json_row(out_t *o, const float *values) {
  const bool named = o->facts->classes && o->facts->names.v;
  fputc('{', o->to);
  if (o->facts->files) {
    fputs("\"file\": ", o->to);
    put_json_text(o->to, ls_predictions_file(o->p, o->rows));
    fputs(", ", o->to);
  }
  if (o->facts->classes) {
    int64_t best = best_of(o, values);
    fputs("\"class\": ", o->to);
    if (named)
      put_json_text(o->to, o->facts->names.v[best]);
    else
      fprintf(o->to, "%lld", (long long)best);
    fputs(", \"probability\": ", o->to);
    put_json_number(o->to, values[best]);
    fputs(", ", o->to);
  }
  fprintf(o->to, "\"%s\": %c", o->facts->classes ? "probabilities" : "values", named ? '{' : '[');
  for (int64_t i = 0; i < o->facts->width; i++) {
    if (i > 0) fputs(", ", o->to);
    if (named) put_json_text(o->to, o->facts->names.v[i]);
    if (named) fputs(": ", o->to);
    put_json_number(o->to, values[i]);
  }
  fputs(named ? "}}\n" : "]}\n", o->to);
}

/* Version 1.0, of one length whatever the number of rows is. */
static void npy_header(out_t *o, int64_t rows) {
  char text[NPY_HEADER_BYTES + 1] = "\x93NUMPY\x01";
  enum { PREFIX = 10 };
  text[8] = NPY_HEADER_BYTES - PREFIX;
  int len = snprintf(text + PREFIX, sizeof text - PREFIX,
                     "{'descr': '%cf4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                     __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>', (long long)rows,
                     (long long)o->facts->width);
  memset(text + PREFIX + len, ' ', (size_t)(NPY_HEADER_BYTES - PREFIX - len - 1));
  text[NPY_HEADER_BYTES - 1] = '\n';
  fwrite(text, 1, NPY_HEADER_BYTES, o->to);
}

static void npy_begin(out_t *o) {
  npy_header(o, o->facts->rows >= 0 ? o->facts->rows : 0);
}

static void npy_row(out_t *o, const float *values) {
  fwrite(values, sizeof *values, (size_t)o->facts->width, o->to);
}

static void npy_end(out_t *o) {
  if (o->rows == o->facts->rows || fseek(o->to, 0, SEEK_SET) != 0) return;
  npy_header(o, o->rows);
}

static const format_t formats[] = {{"csv", csv_begin, csv_row, NULL},
                                   {"npy", npy_begin, npy_row, npy_end},
                                   {"jsonl", nothing, json_row, NULL}};
const char *const ls_rows_formats[] = {"csv", "npy", "jsonl", NULL};
_Static_assert(LS_COUNT(formats) + 1 == LS_COUNT(ls_rows_formats), "every format has a name");

static ls_status_t check(ls_ctx_t *ctx, const ls_predictions_facts_t *facts, const format_t *format,
                         bool seeks) {
  if (format->end && !seeks && facts->rows < 0)
    return ls_fail(
        ctx, LS_ERR_ARGUMENT,
        "--format %s: its header says how many samples there are, which only the end of this input tells: "
        "write to a file with --output FILE",
        format->name);
  if (facts->files && format->row == npy_row)
    ls_log(ctx, LS_LOG_INFO,
           "an array has no names: its rows follow the input's files; csv and jsonl name the file of each");
  return LS_OK;
}

ls_status_t ls_predictions_write(ls_ctx_t *ctx, ls_predictions_t *p, const ls_rows_to_t *to) {
  const format_t *format = &formats[to->format];
  out_t o = {.p = p, .facts = ls_predictions_facts(p), .to = to->to, .terminal = isatty(fileno(to->to)) == 1};
  ls_status_t status = check(ctx, o.facts, format, to->seeks);
  const float *values;
  bool begun = false;
  for (int64_t rows = 1; rows > 0 && status == LS_OK;) {
    status = ls_predictions_next(p, &rows, &values);
    if (status != LS_OK) break;
    if (!begun) format->begin(&o);
    begun = true;
    for (int64_t r = 0; r < rows && !ferror(o.to); r++, o.rows++)
      format->row(&o, values + r * o.facts->width);
    status = to->written(to->user);
  }
  if (status == LS_OK && format->end) format->end(&o);
  return status;
}
