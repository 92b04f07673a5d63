/* .npy arrays, versions 1.0, 2.0 and 3.0: magic, version, header length, header text, data. The header is a Python
 * dictionary, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and nothing else; the parser is strict on
 * purpose, because programs write it. Source: "The NPY format", numpy.lib.format. */
#include "data/table/elements.h"

#include "base/magic.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  ls_ctx_t *ctx;
  const char *name;
  const char *begin, *at, *end;
  size_t offset; /* of begin, in the file */
} header_t;

/* A string literal's contents, without the quotes. */
typedef struct {
  const char *text;
  int len;
} word_t;

static ls_status_t refuse(const header_t *h, const char *what) {
  return ls_fail(h->ctx, LS_ERR_DATA, "%s: offset %zu: bad .npy header: %s", h->name,
                 h->offset + (size_t)(h->at - h->begin), what);
}

static void skip_spaces(header_t *h) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t'))
    h->at++;
}

static bool take(header_t *h, char c) {
  skip_spaces(h);
  if (h->at == h->end || *h->at != c) return false;
  h->at++;
  return true;
}

static bool take_name(header_t *h, const char *name) {
  size_t len = strlen(name);
  skip_spaces(h);
  if ((size_t)(h->end - h->at) < len || memcmp(h->at, name, len) != 0) return false;
  h->at += len;
  return true;
}

static bool take_string(header_t *h, word_t *word) {
  skip_spaces(h);
  if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
  const char *close = memchr(h->at + 1, *h->at, (size_t)(h->end - h->at - 1));
  if (!close || close - h->at > 64) return false;
  *word = (word_t){h->at + 1, (int)(close - h->at - 1)};
  h->at = close + 1;
  return true;
}

static bool same(word_t word, const char *text) {
  return (size_t)word.len == strlen(text) && memcmp(word.text, text, (size_t)word.len) == 0;
}

static ls_status_t refuse_type(const header_t *h, word_t d) {
  char kind = d.len > 1 ? d.text[1] : '\0', text[32];
  if (same(d, "|O") || same(d, "O"))
    return ls_fail(h->ctx, LS_ERR_DATA,
                   "%s: the array holds Python objects (dtype object), not numbers: save "
                   "array.astype('float32') instead",
                   h->name);
  if (kind == 'U' || kind == 'S')
    return ls_fail(h->ctx, LS_ERR_DATA, "%s: the array holds text (dtype %s), not numbers", h->name,
                   ls_text_shown(d.text, (size_t)d.len, text, sizeof text));
  return ls_fail(h->ctx, LS_ERR_DATA,
                 "%s: dtype '%s' is not supported (f2, f4, f8, i1 to i8, u1 to u8 are): save "
                 "array.astype('float32') instead",
                 h->name, ls_text_shown(d.text, (size_t)d.len, text, sizeof text));
}

static ls_status_t read_descr(header_t *h, ls_array_t *array) {
  static const struct {
    const char *name;
    ls_elem_t type;
  } types[] = {{"u1", LS_ELEM_U8},  {"i1", LS_ELEM_I8},  {"b1", LS_ELEM_U8},  {"u2", LS_ELEM_U16},
               {"i2", LS_ELEM_I16}, {"u4", LS_ELEM_U32}, {"i4", LS_ELEM_I32}, {"u8", LS_ELEM_U64},
               {"i8", LS_ELEM_I64}, {"f2", LS_ELEM_F16}, {"f4", LS_ELEM_F32}, {"f8", LS_ELEM_F64}};
  skip_spaces(h);
  if (h->at < h->end && (*h->at == '[' || *h->at == '('))
    return ls_fail(h->ctx, LS_ERR_DATA,
                   "%s: structured arrays are not supported: save each field, or "
                   "numpy.lib.recfunctions.structured_to_unstructured(array)",
                   h->name);
  word_t d;
  if (!take_string(h, &d)) return refuse(h, "descr must be a string");
  if (d.len != 3 || !strchr("<>|", d.text[0])) return refuse_type(h, d);
  for (int i = 0; i < LS_COUNT(types); i++) {
    if (!same((word_t){d.text + 1, 2}, types[i].name)) continue;
    bool one_byte = d.text[2] == '1';
    if (!one_byte && d.text[0] == '|') break;
    array->type = types[i].type;
    array->big_endian = d.text[0] == '>';
    return LS_OK;
  }
  return refuse_type(h, d);
}

static ls_status_t read_order(header_t *h, ls_array_t *array) {
  array->by_column = take_name(h, "True");
  return array->by_column || take_name(h, "False") ? LS_OK : refuse(h, "fortran_order must be True or False");
}

static bool take_size(header_t *h, int64_t *size) {
  skip_spaces(h);
  const char *first = h->at;
  *size = 0;
  for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
    if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *h->at - '0', size))
      return false;
  return h->at > first && (*first != '0' || h->at == first + 1);
}

/* A tuple: (), (3,), (3, 4), (3, 4,). */
static ls_status_t read_shape(header_t *h, ls_array_t *array) {
  if (!take(h, '(')) return refuse(h, "shape must be a tuple of sizes");
  array->rank = 0;
  bool comma = true;
  while (!take(h, ')')) {
    if (!comma) return refuse(h, "a comma or ) is missing in shape");
    if (array->rank == LS_ARRAY_RANK_MAX) return refuse(h, "more than 32 dimensions");
    if (!take_size(h, &array->dim[array->rank])) return refuse(h, "a size in shape is not a whole number");
    array->rank++;
    comma = take(h, ',');
  }
  if (array->rank == 0)
    return ls_fail(h->ctx, LS_ERR_DATA, "%s: the array has no dimensions (shape ()): samples are rows",
                   h->name);
  if (array->rank == 1 && !comma) return refuse(h, "(n) is not a tuple; (n,) is");
  return LS_OK;
}

/* Parses text[0..len), which begins at `offset` of file `array->name`, and fills the rest of `array`. Refuses
 * everything but a plain array of numbers, with the remedy. */
static ls_status_t parse_header(ls_ctx_t *ctx, const char *text, size_t len, size_t offset,
                                ls_array_t *array) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  header_t h = {ctx, array->name, text, text, text + len, offset};
  unsigned seen = 0;
  if (!take(&h, '{')) return refuse(&h, "it must begin with {");
  bool comma = true;
  while (!take(&h, '}')) {
    word_t word;
    if (!comma) return refuse(&h, "a comma or } is missing");
    if (!take_string(&h, &word)) return refuse(&h, "a key is not a string");
    int key = 0;
    while (key < LS_COUNT(keys) && !same(word, keys[key]))
      key++;
    if (key == LS_COUNT(keys)) return refuse(&h, "unknown key before this place");
    if (seen & 1u << key) return refuse(&h, "the key before this place comes twice");
    seen |= 1u << key;
    if (!take(&h, ':')) return refuse(&h, "a colon is missing after a key");
    ls_status_t status = key == 0   ? read_descr(&h, array)
                         : key == 1 ? read_order(&h, array)
                                    : read_shape(&h, array);
    if (status != LS_OK) return status;
    comma = take(&h, ',');
  }
  if (seen != 7u) return refuse(&h, "descr, fortran_order and shape must all be there");
  skip_spaces(&h);
  if (h.at != h.end) return refuse(&h, "text after the closing }");
  return LS_OK;
}

/* numpy itself refuses to evaluate headers above 10,000 bytes; plain arrays need far less. */
enum { PREFIX_BYTES = 8, HEADER_BYTES_MAX = 65536 };

ls_status_t ls_npy_header(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_array_t *array,
                          size_t *offset) {
  static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  const unsigned char *b = bytes;
  const char *other = ls_magic_text(bytes, size);
  if (size < PREFIX_BYTES || memcmp(b, magic, sizeof magic) != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: not a .npy file%s%s%s", name, other ? ", but " : "",
                   other ? other : "", other ? ": numpy.save(FILE, array) writes one" : "");
  int major = b[6], minor = b[7];
  if (major < 1 || major > 3 || minor != 0)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 6: .npy version %d.%d; 1.0, 2.0 and 3.0 are supported", name,
                   major, minor);
  size_t length_bytes = major == 1 ? 2 : 4, begin = PREFIX_BYTES + length_bytes, length = 0;
  if (size < begin) return ls_fail(ctx, LS_ERR_DATA, "%s: truncated after %zu bytes", name, size);
  for (size_t i = 0; i < length_bytes; i++)
    length |= (size_t)b[PREFIX_BYTES + i] << (8 * i); /* little-endian */
  if (length > HEADER_BYTES_MAX)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 8: a header of %zu bytes; at most %d are accepted", name,
                   length, HEADER_BYTES_MAX);
  if (length > size - begin)
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 8: a header of %zu bytes, but the file ends after %zu", name,
                   length, size - begin);
  *array = (ls_array_t){.name = name};
  *offset = begin + length;
  return parse_header(ctx, (const char *)bytes + begin, length, begin, array);
}

ls_status_t ls_read_npy(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_matrix_t *out) {
  ls_array_t array;
  size_t offset;
  ls_status_t status = ls_npy_header(ctx, name, bytes, size, &array, &offset);
  return status == LS_OK ? ls_array_read(ctx, &array, bytes, size, offset, out) : status;
}
