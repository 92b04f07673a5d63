/* Names and layouts of a network's tensors in other programs. A map is a list of rows, pattern to pattern; reading
 * and writing use the same rows. */
#ifndef LS_MODEL_NAMES_H
#define LS_MODEL_NAMES_H

#include "device/tensor.h"

typedef enum {
  LS_WEIGHT_SAME,
  LS_WEIGHT_SWAPPED,   /* theirs (in, out), ours (out, in) */
  LS_WEIGHT_POINTWISE, /* theirs (out, in, 1, 1), a convolution; ours (out, in) */
  LS_WEIGHT_CHANNELS_FIRST /* of four dimensions: theirs (out, in, height, width), ours (out, height, width, in) */
} ls_weight_layout_t;

/* Patterns: * stands for some characters without a dot, ** for some characters; the n-th star of `theirs` is what
 * the n-th of `ours` stands for. Several of `theirs` are parts of equal size of ours, along its first dimension. If
 * several rows fit a name, the first is written; all are tried for reading. */
enum { LS_NAMES_PARTS_MAX = 3, LS_NAME_BYTES = 256 };
typedef struct {
  const char *ours, *theirs[LS_NAMES_PARTS_MAX];
  ls_weight_layout_t layout;
  bool bare;   /* written without the prefix */
  bool longer; /* theirs may have more rows, of which the first are ours: places of a sequence */
} ls_names_row_t;

typedef struct {
  const char *name, *help;
  const ls_names_row_t *rows; /* ended by a row without names */
  const char *const *prefix; /* of all of their names: the first is written, all are tried. NULL-terminated */
  const char *const *ignored; /* patterns of their tensors that are no parameters. NULL-terminated */
} ls_names_t;
extern const ls_names_t *const ls_names_list[];
extern const char *const ls_names_choices[]; /* their names, NULL-terminated; both in one order */

typedef struct {
  int count;
  char name[LS_NAMES_PARTS_MAX][LS_NAME_BYTES]; /* without prefix */
  ls_weight_layout_t layout;
  bool bare, longer;
} ls_foreign_names_t;
/* Writes the foreign name of `ours` by the next row from *row on; *row is then the one after it. False: there is
 * none. Pure. */
bool ls_names_find(const ls_names_t *names, const char *ours, int *row, ls_foreign_names_t *foreign);
/* Pure. */
bool ls_names_ignored(const ls_names_t *names, const char *theirs);

/* The shape of each of the equal `parts` of our tensor, as f32. Pure. */
ls_shape_t ls_weight_part(const ls_shape_t *ours, int parts);
/* Their shape of a tensor (or part) that has our shape; and its elements, from our order to theirs (`back`: from theirs
 * to ours). Pure. */
ls_shape_t ls_weight_shape(ls_weight_layout_t layout, const ls_shape_t *ours);
void ls_weight_copy(ls_weight_layout_t layout, const ls_shape_t *ours, bool back, const float *from,
                    float *to);

#endif
