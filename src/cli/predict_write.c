/* The formats of predictions as rows: how they begin, a row, how they end. */
#include "cli/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NPY_HEADER_BYTES = 128 };

typedef struct {
  const char *name;
  void (*begin)(cli_rows_out_t *o);
  void (*row)(cli_rows_out_t *o, const float *values);
  void (*end)(cli_rows_out_t *o); /* NULL: nothing is left to do */
} format_t;

struct cli_rows_out {
  ls_ctx_t *ctx;
  cli_rows_spec_t spec;
  const format_t *format;
  cli_file_t file;
  FILE *to;      /* of the file */
  bool terminal; /* it is one: names are escaped */
  bool begun;
  int64_t rows;
};

static int64_t best_of(const cli_rows_out_t *o, const float *values) {
  int64_t best = 0;
  for (int64_t i = 1; i < o->spec.width; i++)
    if (values[i] > values[best]) best = i;
  return best;
}

static const char *name_of(const cli_rows_out_t *o, int64_t i, char text[24]) {
  if (o->spec.names) return o->spec.names[i];
  snprintf(text, 24, "%lld", (long long)i);
  return text;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* A cell; in quotes if it has to be (RFC 4180), or if a reader would skip blanks around it. */
static void put_cell(const cli_rows_out_t *o, const char *text) {
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

static void csv_begin(cli_rows_out_t *o) {
  char text[24];
  if (o->spec.file) fputs("file,", o->to);
  if (o->spec.classes) fputs("class,probability", o->to);
  for (int64_t i = 0; i < o->spec.width; i++) {
    if (i > 0 || o->spec.classes) fputc(',', o->to);
    put_cell(o, name_of(o, i, text));
  }
  fputc('\n', o->to);
}

/* Nine digits tell any two floats apart. */
static void csv_row(cli_rows_out_t *o, const float *values) {
  char text[24];
  if (o->spec.file) {
    put_cell(o, o->spec.file(o->spec.source, o->rows));
    fputc(',', o->to);
  }
  if (o->spec.classes) {
    int64_t best = best_of(o, values);
    put_cell(o, name_of(o, best, text));
    fprintf(o->to, ",%.9g,", (double)values[best]);
  }
  for (int64_t i = 0; i < o->spec.width; i++)
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

static void nothing(cli_rows_out_t *o) {
  (void)o;
}

static void put_json_number(FILE *to, float value) {
  fprintf(to, isfinite(value) ? "%.9g" : "null", (double)value);
}

/* Classes that have names are members, so that nobody has to know their order. */
static void json_row(cli_rows_out_t *o, const float *values) {
  const bool named = o->spec.classes && o->spec.names;
  fputc('{', o->to);
  if (o->spec.file) {
    fputs("\"file\": ", o->to);
    put_json_text(o->to, o->spec.file(o->spec.source, o->rows));
    fputs(", ", o->to);
  }
  if (o->spec.classes) {
    int64_t best = best_of(o, values);
    fputs("\"class\": ", o->to);
    if (named)
      put_json_text(o->to, o->spec.names[best]);
    else
      fprintf(o->to, "%lld", (long long)best);
    fputs(", \"probability\": ", o->to);
    put_json_number(o->to, values[best]);
    fputs(", ", o->to);
  }
  fprintf(o->to, "\"%s\": %c", o->spec.classes ? "probabilities" : "values", named ? '{' : '[');
  for (int64_t i = 0; i < o->spec.width; i++) {
    if (i > 0) fputs(", ", o->to);
    if (named) put_json_text(o->to, o->spec.names[i]);
    if (named) fputs(": ", o->to);
    put_json_number(o->to, values[i]);
  }
  fputs(named ? "}}\n" : "]}\n", o->to);
}

/* Version 1.0, of one length whatever the number of rows is. */
static void npy_header(cli_rows_out_t *o, int64_t rows) {
  char text[NPY_HEADER_BYTES + 1] = "\x93NUMPY\x01";
  enum { PREFIX = 10 };
  text[8] = NPY_HEADER_BYTES - PREFIX;
  int len = snprintf(text + PREFIX, sizeof text - PREFIX,
                     "{'descr': '%cf4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                     __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>', (long long)rows,
                     (long long)o->spec.width);
  memset(text + PREFIX + len, ' ', (size_t)(NPY_HEADER_BYTES - PREFIX - len - 1));
  text[NPY_HEADER_BYTES - 1] = '\n';
  fwrite(text, 1, NPY_HEADER_BYTES, o->to);
}

static void npy_begin(cli_rows_out_t *o) {
  npy_header(o, o->spec.rows >= 0 ? o->spec.rows : 0);
}

static void npy_row(cli_rows_out_t *o, const float *values) {
  fwrite(values, sizeof *values, (size_t)o->spec.width, o->to);
}

static void npy_end(cli_rows_out_t *o) {
  if (o->rows == o->spec.rows || fseek(o->to, 0, SEEK_SET) != 0) return;
  npy_header(o, o->rows);
}

static const format_t formats[] = {{"csv", csv_begin, csv_row, NULL},
                                   {"npy", npy_begin, npy_row, npy_end},
                                   {"jsonl", nothing, json_row, NULL}};
const char *const cli_rows_formats[] = {"csv", "npy", "jsonl", NULL};
_Static_assert(LS_COUNT(formats) + 1 == LS_COUNT(cli_rows_formats), "every format has a name");

ls_status_t cli_rows_open(ls_ctx_t *ctx, const cli_rows_spec_t *spec, cli_rows_out_t **out) {
  int format;
  ls_status_t status = cli_file_format(ctx, spec->path, spec->format, cli_rows_formats, &format);
  if (status != LS_OK) return status;
  cli_rows_out_t *o = ls_alloc(ctx, sizeof *o);
  if (!o) return LS_ERR_MEMORY;
  o->ctx = ctx;
  o->spec = *spec;
  o->format = &formats[format];
  status = cli_file_open(ctx, spec->path, &o->file);
  o->to = o->file.to;
  o->terminal = o->to && isatty(fileno(o->to)) == 1;
  if (status == LS_OK && o->format->end && !o->file.seeks && spec->rows < 0)
    status = ls_fail(
        ctx, LS_ERR_ARGUMENT,
        "--format %s: its header says how many samples there are, which only the end of this input tells: "
        "write to a file with --output FILE",
        o->format->name);
  if (status != LS_OK) return cli_rows_close(o, status);
  if (spec->file && o->format->row == npy_row)
    ls_log(ctx, LS_LOG_INFO,
           "an array has no names: its rows follow the input's files; csv and jsonl name the file of each");
  *out = o;
  return LS_OK;
}

static void begin(cli_rows_out_t *o) {
  if (!o->begun) o->format->begin(o);
  o->begun = true;
}

ls_status_t cli_rows_put(cli_rows_out_t *o, int64_t rows, const float *values) {
  begin(o);
  for (int64_t r = 0; r < rows && !ferror(o->to); r++, o->rows++)
    o->format->row(o, values + r * o->spec.width);
  return cli_file_written(&o->file);
}

ls_status_t cli_rows_close(cli_rows_out_t *o, ls_status_t status) {
  if (status == LS_OK) begin(o);
  if (status == LS_OK && o->format->end) o->format->end(o);
  status = cli_file_close(&o->file, status);
  ls_free(o);
  return status;
}
