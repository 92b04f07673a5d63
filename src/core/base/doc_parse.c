/* Turns libyaml's events into a tree that remembers the place of every node. libyaml has no limits and turns
 * duplicate keys, anchors and tags into surprises. So depth, size and count are limited here, and everything
 * else is refused: a configuration states each thing once, in one place. */
#include "base/doc_parse.h"

#include <string.h>
#include <yaml.h>

typedef struct {
  ls_ctx_t *ctx;
  ls_arena_t *arena;
  const ls_doc_source_t *source;
  size_t begin;     /* where the parsed text begins in the source, ... */
  ls_place_t first; /* ... as a place: an assignment is parsed from its middle, but messages show all of it */
  yaml_parser_t yaml;
  /* libyaml counts lines and columns in characters, places count bytes. Marks come in almost increasing
   * order, so a cursor moves along instead of starting from the front for each mark (a file may be one line
   * of a megabyte). */
  size_t line, line_begin, line_end; /* the cursor's line, its first byte and the byte after its last */
  size_t column, offset;             /* the cursor within the line: characters, and byte of the source */
  int nodes;
  ls_status_t status; /* status of errors that were reported and did not stop the parse */
} parse_t;

/* Bytes of the line break at `at`, 0 when there is none; the set of breaks is that of YAML 1.1, 4.2. */
static size_t break_bytes(const ls_doc_source_t *s, size_t at) {
  const unsigned char *t = (const unsigned char *)s->text + at;
  size_t left = s->len - at;
  if (left == 0) return 0;
  if (t[0] == '\r') return left > 1 && t[1] == '\n' ? 2 : 1;
  if (t[0] == '\n') return 1;
  if (left > 1 && t[0] == 0xC2 && t[1] == 0x85) return 2;
  if (left > 2 && t[0] == 0xE2 && t[1] == 0x80 && (t[2] == 0xA8 || t[2] == 0xA9)) return 3;
  return 0;
}

ls_place_t ls_doc_place(const ls_doc_source_t *source, size_t offset) {
  ls_place_t place = {.file = source->file, .line = 1};
  size_t line_begin = 0, end, skip;
  if (offset > source->len) offset = source->len;
  for (size_t at = 0; at < offset; at += skip ? skip : 1) {
    skip = break_bytes(source, at);
    if (skip && at + skip <= offset) {
      place.line++;
      line_begin = at + skip;
    }
  }
  for (end = line_begin; end < source->len && !break_bytes(source, end); end++) {
  }
  place.column = (int)(offset - line_begin) + 1;
  place.source = source->text + line_begin;
  place.source_len = (int)(end - line_begin);
  return place;
}

static void begin_line(parse_t *p, size_t line, size_t offset) {
  p->line = line;
  p->column = 0;
  p->line_begin = p->offset = offset;
  p->line_end = offset;
  while (p->line_end < p->source->len && !break_bytes(p->source, p->line_end))
    p->line_end++;
}

/* Moves the cursor to libyaml's mark, or to the end of the text when that comes first. */
static void seek(parse_t *p, const yaml_mark_t *mark) {
  if (mark->line < p->line) begin_line(p, 0, p->begin);
  while (p->line < mark->line && p->line_end < p->source->len)
    begin_line(p, p->line + 1, p->line_end + break_bytes(p->source, p->line_end));
  if (p->line < mark->line) { /* libyaml puts the end of the text on a line of its own */
    p->offset = p->line_end;
    return;
  }
  if (mark->column < p->column) {
    p->column = 0;
    p->offset = p->line_begin;
  }
  for (; p->column < mark->column && p->offset < p->line_end; p->column++)
    for (p->offset++; p->offset < p->line_end && ((unsigned char)p->source->text[p->offset] & 0xC0) == 0x80;)
      p->offset++;
}

static ls_place_t place_of(parse_t *p, const yaml_mark_t *mark) {
  seek(p, mark);
  size_t begin = p->line == 0 ? p->begin - (size_t)(p->first.column - 1) : p->line_begin;
  return (ls_place_t){.file = p->source->file,
                      .line = p->first.line + (int)p->line,
                      .column = (int)(p->offset - begin) + 1,
                      .source = p->source->text + begin,
                      .source_len = (int)(p->line_end - begin)};
}

/* Advice where libyaml's words give none. */
static const struct {
  const char *problem, *at; /* at: the characters at its place; NULL: any */
  const char *remedy;
} remedies[] = {
    {"found character that cannot start any token", "\t", ": a tab cannot indent, use blanks"},
    {"found character that cannot start any token", "@`%", ": put a text that begins with it in quotes"},
    {"found invalid Unicode character escape code", NULL,
     ": write a character beyond U+FFFF as itself, not as two \\u escapes (Python: json.dump(.., "
     "ensure_ascii=False))"},
};

static const char *remedy_of(const char *problem, char at) {
  for (int i = 0; i < LS_COUNT(remedies); i++)
    if (strcmp(problem, remedies[i].problem) == 0 && (!remedies[i].at || (at && strchr(remedies[i].at, at))))
      return remedies[i].remedy;
  return "";
}

/* The parser's own error: a place in the text, or an offset for bad bytes. */
static ls_status_t fail_yaml(parse_t *p) {
  const yaml_parser_t *y = &p->yaml;
  if (y->error == YAML_MEMORY_ERROR)
    return ls_fail(p->ctx, LS_ERR_MEMORY, "out of memory in the YAML parser");
  ls_place_t place = y->error == YAML_READER_ERROR ? ls_doc_place(p->source, p->begin + y->problem_offset)
                                                   : place_of(p, &y->problem_mark);
  const char *problem = y->problem ? y->problem : "not valid YAML";
  return ls_fail_at(p->ctx, LS_ERR_CONFIG, &place, "%s%s%s%s", problem, y->context ? " " : "",
                    y->context ? y->context : "", remedy_of(problem, p->source->text[p->offset]));
}

static ls_status_t next_event(parse_t *p, yaml_event_t *event) {
  return yaml_parser_parse(&p->yaml, event) ? LS_OK : fail_yaml(p);
}

/* Reports something that parses but is not allowed here. The parse continues, so that all such errors are
 * reported. */
static void refuse(parse_t *p, const yaml_mark_t *mark, const char *what) {
  ls_place_t place = place_of(p, mark);
  p->status = ls_fail_at(p->ctx, LS_ERR_CONFIG, &place, "%s", what);
}

static void refuse_properties(parse_t *p, const yaml_mark_t *mark, const void *anchor, const void *tag) {
  if (anchor) refuse(p, mark, "anchors (&name) are not supported: write the value out");
  if (tag) refuse(p, mark, "tags (!name) are not supported: the option's type is known");
}

bool ls_doc_is_null(const char *text) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
  for (int i = 0; i < LS_COUNT(nulls); i++)
    if (strcmp(text, nulls[i]) == 0) return true;
  return false;
}

static ls_status_t fill_scalar(parse_t *p, const yaml_event_t *event, ls_doc_node_t *node) {
  const char *value = (const char *)event->data.scalar.value;
  size_t len = event->data.scalar.length;
  refuse_properties(p, &event->start_mark, event->data.scalar.anchor, event->data.scalar.tag);
  if (memchr(value, '\0', len)) refuse(p, &event->start_mark, "a text must not contain the character \\0");
  node->text = ls_arena_strndup(p->arena, value, len);
  if (!node->text) return LS_ERR_MEMORY;
  node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
  node->kind = !node->quoted && ls_doc_is_null(node->text) ? LS_DOC_NULL : LS_DOC_SCALAR;
  return LS_OK;
}

static ls_status_t parse_node(parse_t *p, const yaml_event_t *event, int depth, ls_doc_node_t **out);

/* The key of a map's entry: text, given once. */
static ls_status_t parse_key(parse_t *p, const yaml_event_t *event, const ls_doc_node_t *map,
                             const char **key, ls_place_t *place) {
  *place = place_of(p, &event->start_mark);
  if (event->type != YAML_SCALAR_EVENT)
    return ls_fail_at(p->ctx, LS_ERR_CONFIG, place, "a key must be a name, not a list, a map or an alias");
  ls_doc_node_t scalar = {0};
  ls_status_t status = fill_scalar(p, event, &scalar);
  if (status != LS_OK) return status;
  const ls_doc_node_t *first = ls_doc_get(map, scalar.text);
  if (first)
    p->status = ls_fail_at(p->ctx, LS_ERR_CONFIG, place, "key `%s` is given twice, first in line %d",
                           LS_SHOWN(scalar.text), first->key_place.line);
  *key = scalar.text;
  return LS_OK;
}

static ls_status_t parse_entry(parse_t *p, const yaml_event_t *key_event, int depth, const ls_doc_node_t *map,
                               ls_doc_node_t **out) {
  const char *key = NULL;
  ls_place_t key_place;
  ls_status_t status = parse_key(p, key_event, map, &key, &key_place);
  if (status != LS_OK) return status;
  yaml_event_t event;
  status = next_event(p, &event);
  if (status != LS_OK) return status;
  ls_doc_node_t *node = NULL;
  status = parse_node(p, &event, depth + 1, &node);
  yaml_event_delete(&event);
  if (status != LS_OK) return status;
  node->key = key;
  node->key_place = key_place;
  *out = node;
  return LS_OK;
}

/* The children of a list or map, up to the event that ends it. */
static ls_status_t fill_children(parse_t *p, yaml_event_type_t last, int depth, ls_doc_node_t *parent) {
  parent->kind = last == YAML_MAPPING_END_EVENT ? LS_DOC_MAP : LS_DOC_LIST;
  for (ls_doc_node_t **tail = &parent->child;; tail = &(*tail)->next) {
    yaml_event_t event;
    ls_status_t status = next_event(p, &event);
    if (status != LS_OK) return status;
    bool end = event.type == last;
    if (!end && parent->kind == LS_DOC_MAP)
      status = parse_entry(p, &event, depth, parent, tail);
    else if (!end)
      status = parse_node(p, &event, depth + 1, tail);
    yaml_event_delete(&event);
    if (end || status != LS_OK) return status;
    parent->count++;
  }
}

/* The value that `event` begins. */
static ls_status_t parse_node(parse_t *p, const yaml_event_t *event, int depth, ls_doc_node_t **out) {
  ls_place_t place = place_of(p, &event->start_mark);
  if (depth > LS_DOC_DEPTH_MAX)
    return ls_fail_at(p->ctx, LS_ERR_CONFIG, &place, "nested deeper than %d levels", LS_DOC_DEPTH_MAX);
  if (++p->nodes > LS_DOC_NODES_MAX)
    return ls_fail_at(p->ctx, LS_ERR_CONFIG, &place, "more than %d values", LS_DOC_NODES_MAX);
  ls_doc_node_t *node = ls_arena_alloc(p->arena, sizeof *node);
  if (!node) return LS_ERR_MEMORY;
  node->place = place;
  *out = node;
  switch (event->type) {
  case YAML_SCALAR_EVENT:
    return fill_scalar(p, event, node);
  case YAML_SEQUENCE_START_EVENT:
    refuse_properties(p, &event->start_mark, event->data.sequence_start.anchor,
                      event->data.sequence_start.tag);
    return fill_children(p, YAML_SEQUENCE_END_EVENT, depth, node);
  case YAML_MAPPING_START_EVENT:
    refuse_properties(p, &event->start_mark, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    return fill_children(p, YAML_MAPPING_END_EVENT, depth, node);
  case YAML_ALIAS_EVENT:
    refuse(p, &event->start_mark, "aliases (*name) are not supported: write the value out");
    return LS_OK;
  default:
    return ls_fail_at(p->ctx, LS_ERR_CONFIG, &place, "a value was expected");
  }
}

/* The one document of the stream; a stream without any gives a null node. */
static ls_status_t parse_stream(parse_t *p, int depth, ls_doc_node_t **out) {
  ls_status_t status = LS_OK;
  for (bool end = false; !end && status == LS_OK;) {
    yaml_event_t event;
    status = next_event(p, &event);
    if (status != LS_OK) break;
    switch (event.type) {
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
      break;
    case YAML_STREAM_END_EVENT:
      end = true;
      break;
    case YAML_DOCUMENT_START_EVENT:
      if (*out) {
        refuse(p, &event.start_mark, "a second document begins here: only one is possible");
        end = true;
      }
      break;
    default:
      status = parse_node(p, &event, depth, out);
    }
    yaml_event_delete(&event);
  }
  if (status == LS_OK && !*out) {
    *out = ls_arena_alloc(p->arena, sizeof **out);
    if (!*out) return LS_ERR_MEMORY;
    (*out)->text = "";
    (*out)->place = p->first;
  }
  return status == LS_OK ? p->status : status;
}

ls_status_t ls_doc_parse_value(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_source_t *source, size_t begin,
                               int depth, ls_doc_node_t **node) {
  parse_t p = {
      .ctx = ctx, .arena = arena, .source = source, .begin = begin, .first = ls_doc_place(source, begin)};
  begin_line(&p, 0, begin);
  if (!yaml_parser_initialize(&p.yaml))
    return ls_fail(ctx, LS_ERR_MEMORY, "out of memory in the YAML parser");
  yaml_parser_set_encoding(&p.yaml, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&p.yaml, (const unsigned char *)source->text + begin, source->len - begin);
  ls_doc_node_t *parsed = NULL;
  ls_status_t status = parse_stream(&p, depth, &parsed);
  yaml_parser_delete(&p.yaml);
  if (status == LS_OK) *node = parsed;
  return status;
}
