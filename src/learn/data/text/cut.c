/* Cuts text into words. cut_read.c reads how. Source: the crate `tokenizers` of Hugging Face. */
#include "data/text/cut.h"

#include <string.h>

#define BLANK LS_CUT_BLANK

void ls_cut_release(ls_cut_t *c) {
  for (int i = 0; i < c->stages; i++)
    ls_pattern_close(c->stage[i].pattern);
  ls_normalizer_release(&c->normalizer);
  ls_free(c->room);
}

bool ls_cut_takes_any(const ls_cut_t *c) {
  bool any = c->normalizer.count == 0;
  for (int i = 0; i < c->stages; i++)
    any &= ls_pattern_takes_any(c->stage[i].pattern);
  return any;
}

/* ---- normalizing ---- */

ls_status_t ls_cut_normalize(const ls_cut_t *c, const ls_piece_t *p, char **made, size_t *count) {
  ls_bytes_t to = {.ctx = c->ctx};
  if (!c->characters) return ls_normalizer_run(&c->normalizer, p, made, count);
  bool put = c->prefix != LS_PREFIX_EACH || p->count == 0 || ls_bytes_put(&to, BLANK, strlen(BLANK));
  for (size_t i = 0; i < p->count && put && c->replaces; i++)
    put = p->bytes[i] == ' ' ? ls_bytes_put(&to, BLANK, strlen(BLANK)) : ls_bytes_put(&to, p->bytes + i, 1);
  *made = put ? to.bytes : NULL;
  *count = put && to.bytes ? to.count : p->count;
  if (!put) ls_free(to.bytes);
  return put ? LS_OK : LS_ERR_MEMORY;
}

/* ---- words ---- */

size_t ls_cut_blank(const char *text, size_t left) {
  if (*text == ' ') return 1;
  return left >= strlen(BLANK) && memcmp(text, BLANK, strlen(BLANK)) == 0 ? strlen(BLANK) : 0;
}

static ls_status_t reserve(ls_cut_t *c, size_t bytes) {
  if (bytes <= c->room_bytes) return LS_OK;
  char *room = ls_realloc_array(c->ctx, c->room, 2, bytes);
  if (!room) return LS_ERR_MEMORY;
  c->room = room;
  c->room_bytes = 2 * bytes;
  return LS_OK;
}

static bool wants_prefix(const ls_cut_t *c, const ls_piece_t *p) {
  bool blank = c->characters ? ls_cut_blank(p->bytes, p->count) > 0 : *p->bytes == ' ';
  return (c->prefix == LS_PREFIX_EACH && !p->prefixed) || (c->prefix == LS_PREFIX_UNLESS && !blank) ||
         (c->prefix == LS_PREFIX_FIRST && !blank && p->at == 0);
}

typedef struct {
  ls_cut_t *cut;
  ls_word_fn *word;
  void *user;
} visit_t;

static ls_status_t cut_piece(const visit_t *v, int stage, const ls_piece_t *p);

static ls_status_t pass_on(const visit_t *v, int stage, const ls_piece_t *p, size_t begin, size_t end) {
  if (begin == end) return LS_OK;
  ls_piece_t part = *p;
  part.bytes += begin;
  part.count = end - begin;
  part.at += begin;
  return cut_piece(v, stage + 1, &part);
}

/* Parts of a piece, matches and what is between them, joined as the stage says. */
typedef struct {
  size_t begin, end;
  bool match;
} part_t;

static ls_status_t take_part(const visit_t *v, int stage, const ls_piece_t *p, part_t *held, part_t now) {
  const ls_cut_stage_t *s = &v->cut->stage[stage];
  if (now.begin == now.end) return LS_OK;
  now.match ^= s->inverts;
  bool joins = held->begin < held->end && (s->joins >> (2 * held->match + now.match) & 1);
  ls_status_t status = joins ? LS_OK : pass_on(v, stage, p, held->begin, held->end);
  if (joins)
    now.begin = held->begin;
  else if (s->drops && now.match)
    now.begin = now.end;
  *held = now;
  return status;
}

static ls_status_t cut_piece(const visit_t *v, int stage, const ls_piece_t *p) {
  if (stage == v->cut->stages) return v->word(v->user, p);
  part_t held = {0, 0, false};
  ls_status_t status = LS_OK;
  for (size_t at = 0, begin, end; at < p->count && status == LS_OK; at = end) {
    const char *why = ls_pattern_find(v->cut->stage[stage].pattern, p->bytes, p->count, at, &begin, &end);
    if (why) return ls_pattern_gave_up(v->cut->ctx, v->cut->owner, p, at, why);
    status = take_part(v, stage, p, &held, (part_t){at, begin, false});
    if (status == LS_OK) status = take_part(v, stage, p, &held, (part_t){begin, end, true});
  }
  return status == LS_OK ? pass_on(v, stage, p, held.begin, held.end) : status;
}

/* A byte-level piece with its blank in front is a copy. */
static ls_status_t cut_bytes(const visit_t *v, const ls_piece_t *piece) {
  ls_cut_t *c = v->cut;
  if (!wants_prefix(c, piece)) return cut_piece(v, 0, piece);
  ls_status_t status = reserve(c, piece->count + 1);
  if (status != LS_OK) return status;
  c->room[0] = ' ';
  memcpy(c->room + 1, piece->bytes, piece->count);
  ls_piece_t copy = *piece;
  copy.bytes = c->room;
  copy.count++;
  return cut_piece(v, 0, &copy);
}

static ls_status_t put_word(const visit_t *v, ls_piece_t *word, size_t *used, size_t next) {
  word->bytes = v->cut->room;
  word->count = *used;
  ls_status_t status = *used > 0 ? v->word(v->user, word) : LS_OK;
  *used = 0;
  word->at = next;
  return status;
}

/* Without splits the library's word is the whole piece, which has to be short to be quick. A blank that no token goes on over, by
 * `spans`, is where words can be cut with no other tokens, but for two things that the library does with the whole piece: it
 * may be a token itself (so one that could be is not cut, and the words of others are no tokens), and unknown characters are
 * fused (the vocabulary's owner has set all of `spans` where the blank is one of them). */
static ls_status_t cut_characters(const visit_t *v, const ls_piece_t *p) {
  ls_cut_t *c = v->cut;
  ls_piece_t word = *p;
  size_t used = 0;
  bool after_blank = true;
  word.part = !c->splits && p->count > c->uncut;
  ls_status_t status = reserve(c, 64);
  if (status == LS_OK && wants_prefix(c, p)) c->room[used++] = ' ';
  for (size_t at = 0; at < p->count && status == LS_OK;) {
    size_t blank = ls_cut_blank(p->bytes + at, p->count - at);
    if (blank > 0 && used > 0 &&
        (c->splits || (word.part && !after_blank && !c->spans[(unsigned char)c->room[used - 1]])))
      status = put_word(v, &word, &used, p->at + at);
    if (status == LS_OK) status = reserve(c, used + 1);
    if (status != LS_OK) break;
    c->room[used++] = blank ? ' ' : p->bytes[at];
    at += blank ? blank : 1;
    after_blank = blank > 0;
  }
  return status == LS_OK ? put_word(v, &word, &used, 0) : status;
}

ls_status_t ls_cut_words(ls_cut_t *c, const ls_piece_t *piece, ls_word_fn *word, void *user) {
  const visit_t v = {c, word, user};
  if (piece->count == 0) return LS_OK;
  return c->characters ? cut_characters(&v, piece) : cut_bytes(&v, piece);
}
