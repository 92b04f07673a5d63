/* The list of layer kinds, which the rest of the program sees, and their pages of the reference. */
#include "model/layer.h"

#define KINDS(ROW)                                                                                           \
  ROW(dense)                                                                                                 \
  ROW(layer_norm)                                                                                            \
  ROW(dropout)                                                                                               \
  ROW(activation)                                                                                            \
  ROW(lstm)                                                                                                  \
  ROW(gru)                                                                                                   \
  ROW(add)                                                                                                   \
  ROW(multiply)                                                                                              \
  ROW(drop_path)                                                                                             \
  ROW(concat)                                                                                                \
  ROW(conv2d)                                                                                                \
  ROW(batch_norm)                                                                                            \
  ROW(group_norm)                                                                                            \
  ROW(pool)                                                                                                  \
  ROW(global_pool)                                                                                           \
  ROW(embedding)                                                                                             \
  ROW(positions)                                                                                             \
  ROW(attention)

#define DECLARE(kind) extern const ls_layer_kind_t ls_kind_##kind;
#define KIND(kind)    &ls_kind_##kind,
KINDS(DECLARE)

const ls_layer_kind_t *const ls_layer_kinds[] = {KINDS(KIND) NULL};

const ls_section_t *ls_layer_section_at(int i) {
  enum { KIND_COUNT = LS_COUNT(ls_layer_kinds) - 1 };
  if (i == 0) return &ls_layer_section;
  if (i <= KIND_COUNT) return ls_layer_kinds[i - 1]->section;
  return i == KIND_COUNT + 1 ? &ls_repeat_section : NULL;
}
