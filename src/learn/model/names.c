/* The maps. Networks of the presets have the names of the programs that made them known, so most rows are about what is
 * laid out in another way. */
#include "model/names.h"

#include <stdio.h>
#include <string.h>

static const char *const no_prefix[] = {"", NULL};
static const char *const nothing[] = {NULL};

static const ls_names_row_t plain_rows[] = {{"**", {"**"}}, {NULL}};
static const ls_names_t plain = {"names", "the names and layouts of this program", plain_rows, no_prefix,
                                 nothing};

/* Squeeze and excitation are dense layers here, convolutions there. */
static const ls_names_row_t torchvision_rows[] = {
    {"features.**.fc*.weight", {"features.**.fc*.weight"}, LS_WEIGHT_POINTWISE},
    {"**", {"**"}, LS_WEIGHT_CHANNELS_FIRST},
    {NULL}};
static const char *const torchvision_ignored[] = {"**num_batches_tracked", NULL};
static const ls_names_t torchvision = {"torchvision",
                                       "torchvision's state dicts: convolutions with channels first",
                                       torchvision_rows, no_prefix, torchvision_ignored};

static const ls_names_row_t gpt2_rows[] = {
    {"h.*.attn.qkv.weight", {"h.*.attn.c_attn.weight"}, LS_WEIGHT_SWAPPED},
    {"h.*.attn.qkv.bias", {"h.*.attn.c_attn.bias"}},
    {"h.*.attn.proj.weight", {"h.*.attn.c_proj.weight"}, LS_WEIGHT_SWAPPED},
    {"h.*.attn.proj.bias", {"h.*.attn.c_proj.bias"}},
    {"h.*.mlp.*.weight", {"h.*.mlp.*.weight"}, LS_WEIGHT_SWAPPED},
    {"wpe.weight", {"wpe.weight"}, .longer = true},
    {"**", {"**"}},
    {NULL}};
static const char *const gpt2_prefix[] = {"", "transformer.", NULL};
static const char *const gpt2_ignored[] = {"**.attn.bias", "**.attn.masked_bias", "lm_head.weight", NULL};
static const ls_names_t gpt2 = {
    "hf-gpt2", "Hugging Face GPT-2: (in, out) matrices, with or without the prefix transformer.", gpt2_rows,
    gpt2_prefix, gpt2_ignored};

#define BERT_QKV(what)                                                                                       \
  {                                                                                                          \
    "encoder.layer.*.attention.qkv." what, {                                                                 \
      "encoder.layer.*.attention.self.query." what, "encoder.layer.*.attention.self.key." what,              \
          "encoder.layer.*.attention.self.value." what                                                       \
    }                                                                                                        \
  }
static const ls_names_row_t bert_rows[] = {
    BERT_QKV("weight"),
    BERT_QKV("bias"),
    {"classifier.*", {"classifier.*"}, .bare = true},
    {"cls.predictions.decoder.bias", {"cls.predictions.bias"}, .bare = true},
    {"cls.**", {"cls.**"}, .bare = true},
    {"embeddings.position_embeddings.weight", {"embeddings.position_embeddings.weight"}, .longer = true},
    {"encoder.layer.*.attention.proj.*", {"encoder.layer.*.attention.output.dense.*"}},
    {"**", {"**"}},
    {"**LayerNorm.weight", {"**LayerNorm.gamma"}},
    {"**LayerNorm.bias", {"**LayerNorm.beta"}},
    {NULL}};
static const char *const bert_prefix[] = {"bert.", "", NULL};
static const char *const bert_ignored[] = {"**position_ids", "cls.predictions.decoder.*", NULL};
static const ls_names_t bert = {
    "hf-bert", "Hugging Face BERT: query, key and value apart, with or without the prefix bert.", bert_rows,
    bert_prefix, bert_ignored};

const ls_names_t *const ls_names_list[] = {&plain, &torchvision, &gpt2, &bert};
const char *const ls_names_choices[] = {"names", "torchvision", "hf-gpt2", "hf-bert", NULL};
_Static_assert(LS_COUNT(ls_names_list) + 1 == LS_COUNT(ls_names_choices), "every map has a name");

/* ---- patterns ---- */

enum { STARS_MAX = 4 };
typedef struct {
  const char *text[STARS_MAX];
  size_t len[STARS_MAX];
} stars_t;

/* `star`: the number of the pattern's next one. */
static bool fits(const char *pattern, const char *text, int star, stars_t *stars) {
  if (*pattern != '*') {
    if (*pattern != *text) return false;
    return !*pattern || fits(pattern + 1, text + 1, star, stars);
  }
  bool dots = pattern[1] == '*';
  for (size_t len = 1; text[len - 1] && (dots || text[len - 1] != '.'); len++) {
    if (!fits(pattern + (dots ? 2 : 1), text + len, star + 1, stars)) continue;
    stars->text[star] = text;
    stars->len[star] = len;
    return true;
  }
  return false;
}

/* False if it is too long. */
static bool put(const char *pattern, const stars_t *stars, char name[LS_NAME_BYTES]) {
  size_t used = 0;
  for (int star = 0; *pattern && used < LS_NAME_BYTES; pattern++) {
    if (*pattern != '*') {
      name[used++] = *pattern;
      continue;
    }
    pattern += pattern[1] == '*';
    if (stars->len[star] >= LS_NAME_BYTES - used) return false;
    memcpy(name + used, stars->text[star], stars->len[star]);
    used += stars->len[star++];
  }
  if (used < LS_NAME_BYTES) name[used] = '\0';
  return used < LS_NAME_BYTES;
}

bool ls_names_find(const ls_names_t *names, const char *ours, int *row, ls_foreign_names_t *foreign) {
  for (; names->rows[*row].ours; ++*row) {
    const ls_names_row_t *r = &names->rows[*row];
    stars_t stars;
    if (!fits(r->ours, ours, 0, &stars)) continue;
    bool good = true;
    foreign->layout = r->layout;
    foreign->bare = r->bare;
    foreign->longer = r->longer;
    foreign->count = 0;
    for (int i = 0; i < LS_NAMES_PARTS_MAX && r->theirs[i]; i++)
      good = good && put(r->theirs[i], &stars, foreign->name[foreign->count++]);
    ++*row;
    if (good) return true;
    --*row;
  }
  return false;
}

bool ls_names_ignored(const ls_names_t *names, const char *theirs) {
  stars_t unused;
  for (int i = 0; names->ignored[i]; i++)
    if (fits(names->ignored[i], theirs, 0, &unused)) return true;
  return false;
}

/* ---- layouts ---- */

/* Dimension i of theirs is dimension to[i] of ours; then come `ones` dimensions of 1. */
static const struct {
  int rank; /* of others the layout is the same */
  int to[4], ones;
} layouts[] = {[LS_WEIGHT_SWAPPED] = {2, {1, 0}, 0},
               [LS_WEIGHT_POINTWISE] = {2, {0, 1}, 2},
               [LS_WEIGHT_CHANNELS_FIRST] = {4, {0, 3, 1, 2}, 0}};

static bool is_same(ls_weight_layout_t layout, const ls_shape_t *ours) {
  return layout == LS_WEIGHT_SAME || layouts[layout].rank != ours->rank;
}

ls_shape_t ls_weight_part(const ls_shape_t *ours, int parts) {
  ls_shape_t part = *ours;
  part.dtype = LS_F32;
  if (parts > 1 && part.rank > 0) part.dim[0] /= parts;
  return part;
}

ls_shape_t ls_weight_shape(ls_weight_layout_t layout, const ls_shape_t *ours) {
  ls_shape_t theirs = *ours;
  for (int i = 0; i < ours->rank && !is_same(layout, ours); i++)
    theirs.dim[i] = ours->dim[layouts[layout].to[i]];
  for (int i = 0; !is_same(layout, ours) && i < layouts[layout].ones; i++)
    theirs.dim[theirs.rank++] = 1;
  return theirs;
}

void ls_weight_copy(ls_weight_layout_t layout, const ls_shape_t *ours, bool back, const float *from,
                    float *to) {
  const int64_t count = ls_shape_count(ours);
  if (is_same(layout, ours)) {
    if (count > 0) memcpy(to, from, (size_t)count * sizeof *to);
    return;
  }
  const ls_shape_t theirs = ls_weight_shape(layout, ours);
  for (int64_t at = 0; at < count; at++) { /* an element of theirs */
    int64_t index[4], rest = at, own = 0;
    for (int i = ours->rank - 1; i >= 0; rest /= theirs.dim[i--])
      index[layouts[layout].to[i]] = rest % theirs.dim[i];
    for (int i = 0; i < ours->rank; i++)
      own = own * ours->dim[i] + index[i];
    if (back)
      to[own] = from[at];
    else
      to[at] = from[own];
  }
}
