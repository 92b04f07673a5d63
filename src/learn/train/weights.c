/* Weights of other programs, with which a new run begins. */
#include "train/trainer.h"

#include "model/names.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_MAX = 4, LIST_BYTES = 512 };

/* Names as text: the first, and how many there are. */
typedef struct {
  int count;
  char text[LIST_BYTES];
} list_t;

static void list_add(list_t *l, const char *name) {
  size_t used = strlen(l->text);
  if (l->count++ < SHOWN_MAX)
    snprintf(l->text + used, LIST_BYTES - used, "%s%.100s", used ? ", " : "", LS_SHOWN(name));
}

static const char *list_text(const list_t *l, const char *what, char text[LIST_BYTES + 96]) {
  char more[32] = "";
  if (l->count > SHOWN_MAX) snprintf(more, sizeof more, " and %d more", l->count - SHOWN_MAX);
  text[0] = '\0';
  if (l->count > 0) snprintf(text, LIST_BYTES + 96, "; %d %s: %s%s", l->count, what, l->text, more);
  return text;
}

typedef struct {
  ls_trainer_t *t;
  const ls_names_t *names;
  const ls_ckpt_t *file; /* rank 0 */
  bool *used;            /* per tensor of the file */
  list_t missing, other, left;
  char unfit[LIST_BYTES]; /* of the first of `other`: both shapes */
  int taken, total;
  int64_t values;
} taking_t;

/* The tensor of the file; -1 = it has none. */
static int find(const taking_t *k, const char *name) {
  char whole[LS_NAME_BYTES + 32];
  int at = -1;
  for (int i = 0; k->names->prefix[i] && at < 0; i++) {
    snprintf(whole, sizeof whole, "%s%s", k->names->prefix[i], name);
    at = ls_ckpt_find(k->file, whole);
  }
  return at;
}

/* Whether it has the shape that our part, kept as `foreign` says, has there: *want. */
static bool part_fits(const taking_t *k, const ls_foreign_names_t *foreign, const ls_shape_t *part, int at,
                      ls_shape_t *want) {
  const ls_shape_t *theirs = ls_ckpt_shape(k->file, at);
  *want = ls_weight_shape(foreign->layout, part);
  want->dtype = theirs->dtype;
  if (foreign->longer && theirs->rank == want->rank && theirs->dim[0] > want->dim[0])
    want->dim[0] = theirs->dim[0];
  return ls_shape_equal(theirs, want);
}

/* Whether every part is there; *fits: with the right shape. */
static bool find_all(const taking_t *k, const ls_ckpt_tensor_t *ours, const ls_foreign_names_t *foreign,
                     int at[LS_NAMES_PARTS_MAX], bool *fits) {
  const ls_shape_t part = ls_weight_part(&ours->shape, foreign->count);
  *fits = foreign->count == 1 || (ours->shape.rank > 0 && ours->shape.dim[0] % foreign->count == 0);
  for (int i = 0; i < foreign->count; i++) {
    ls_shape_t want;
    if ((at[i] = find(k, foreign->name[i])) < 0) return false;
    *fits = part_fits(k, foreign, &part, at[i], &want) && *fits;
  }
  return true;
}

/* Takes note of the first tensor that has another shape there. */
static void note_unfit(taking_t *k, const ls_ckpt_tensor_t *ours, const ls_foreign_names_t *foreign,
                       const int *at) {
  const ls_shape_t part = ls_weight_part(&ours->shape, foreign->count);
  char theirs[LS_SHAPE_TEXT_BYTES], needed[LS_SHAPE_TEXT_BYTES];
  ls_shape_t want;
  int i = 0;
  while (i < foreign->count - 1 && part_fits(k, foreign, &part, at[i], &want))
    i++;
  part_fits(k, foreign, &part, at[i], &want);
  snprintf(k->unfit, sizeof k->unfit, " (%.100s is %s, the model needs %s)",
           LS_SHOWN(ls_ckpt_name(k->file, at[i])), ls_shape_text(ls_ckpt_shape(k->file, at[i]), theirs),
           ls_shape_text(&want, needed));
}

/* Rank 0: reads our tensor into `whole`, if the file has it. `scratch` is as large. */
static ls_status_t read_tensor(taking_t *k, const ls_ckpt_tensor_t *ours, float *scratch, float *whole,
                               bool *taken) {
  ls_foreign_names_t foreign;
  int at[LS_NAMES_PARTS_MAX];
  bool there = false, fits = false;
  ls_status_t status = LS_OK;
  for (int row = 0; !there && ls_names_find(k->names, ours->name, &row, &foreign);)
    there = find_all(k, ours, &foreign, at, &fits);
  *taken = there && fits;
  k->total++;
  if (!there) {
    list_add(&k->missing, ours->name);
    return LS_OK;
  }
  if (!fits && k->other.count == 0) note_unfit(k, ours, &foreign, at);
  if (!fits) list_add(&k->other, ours->name);
  const ls_shape_t part = ls_weight_part(&ours->shape, foreign.count);
  for (int i = 0; i < foreign.count; i++) {
    k->used[at[i]] = true;
    if (!fits || status != LS_OK) continue;
    const int64_t theirs = ls_shape_count(ls_ckpt_shape(k->file, at[i]));
    float *longer = foreign.longer ? ls_alloc_array(k->t->ctx, (size_t)theirs + 1, sizeof *longer) : NULL;
    status = foreign.longer && !longer
                 ? LS_ERR_MEMORY
                 : ls_ckpt_read_f32(k->t->ctx, k->file, at[i], longer ? longer : scratch);
    if (status == LS_OK)
      ls_weight_copy(foreign.layout, &part, true, longer ? longer : scratch,
                     whole + i * ls_shape_count(&part));
    ls_free(longer);
  }
  if (*taken) k->taken++, k->values += ls_shape_count(&ours->shape);
  return status;
}

static void put_held(const ls_ckpt_tensor_t *to, const float *whole) {
  const ls_range_t all = {0, ls_shape_count(&to->shape)}, *held = to->held ? to->held : &all;
  float *next = to->data;
  for (int i = 0; i < (to->held ? to->held_count : 1); i++) {
    size_t count = (size_t)(held[i].end - held[i].begin);
    if (count > 0) memcpy(next, whole + held[i].begin, count * sizeof *next);
    next += count;
  }
}

/* Collective: one of our tensors, which rank 0 reads for all. */
static ls_status_t take_tensor(taking_t *k, const ls_ckpt_tensor_t *ours) {
  ls_comm_t *comm = k->t->world->comm;
  const size_t count = (size_t)ls_shape_count(&ours->shape);
  float *both = ls_alloc_array(k->t->ctx, 2 * count + 1, sizeof *both);
  bool taken = false;
  ls_status_t status = both ? LS_OK : LS_ERR_MEMORY;
  if (status == LS_OK && comm->rank == 0) status = read_tensor(k, ours, both + count, both, &taken);
  status = ls_comm_agree(comm, "reading weights", status);
  if (status == LS_OK) status = ls_comm_broadcast(comm, "weights are there", &taken, sizeof taken, 0);
  if (status == LS_OK && taken)
    status = ls_comm_broadcast(comm, "weights", both, (int64_t)(count * sizeof *both), 0);
  if (status == LS_OK && taken) put_held(ours, both);
  ls_free(both);
  return status;
}

/* How many of our tensors the file has under these names. */
static int fitting(const taking_t *k, const ls_ckpt_rows_t *rows, const ls_names_t *names) {
  const taking_t other = {.names = names, .file = k->file};
  int count = 0;
  for (int i = 0; i < rows->count[0]; i++) {
    ls_foreign_names_t foreign;
    int at[LS_NAMES_PARTS_MAX];
    bool there = false, fits = false;
    for (int row = 0; !there && ls_names_find(names, rows->tensor[0][i].name, &row, &foreign);)
      there = find_all(&other, &rows->tensor[0][i], &foreign, at, &fits);
    count += there && fits;
  }
  return count;
}

/* Other names with which more of it fits; NULL: there are none. */
static const ls_names_t *better_map(const taking_t *k, const ls_ckpt_rows_t *rows, int *most) {
  const ls_names_t *best = NULL;
  *most = k->taken;
  for (int i = 0; ls_names_choices[i]; i++) {
    const int count = fitting(k, rows, ls_names_list[i]);
    if (count > *most) best = ls_names_list[i], *most = count;
  }
  return best;
}

/* Rank 0. */
static ls_status_t report(taking_t *k, const ls_ckpt_rows_t *rows) {
  const char *path = ls_ckpt_path(k->file);
  char missing[LIST_BYTES + 96], other[LIST_BYTES + 96], left[LIST_BYTES + 96];
  int most;
  const ls_names_t *better = better_map(k, rows, &most);
  for (int i = 0; i < ls_ckpt_count(k->file); i++)
    if (!k->used[i] && !ls_names_ignored(k->names, ls_ckpt_name(k->file, i)))
      list_add(&k->left, ls_ckpt_name(k->file, i));
  const bool anew = k->t->training;
  list_text(&k->missing, anew ? "of the model are not there and begin anew" : "of the model are not there",
            missing);
  list_text(&k->other,
            anew ? "of the model have another shape there and begin anew"
                 : "of the model have another shape there",
            other);
  list_text(&k->left, "of the file are not used", left);
  if (better) /* some of the names are the same in both, some tensors of them too */
    return ls_fail(k->t->ctx, LS_ERR_MISMATCH,
                   "%s: model.map: %s fits %d of the model's %d tensors, %s fits %d: set model.map: %s", path,
                   k->names->name, k->taken, k->total, better->name, most, better->name);
  if (k->taken == 0)
    return ls_fail(k->t->ctx, LS_ERR_MISMATCH,
                   "%s: none of its tensors belongs to this model (model.map: %s)%s%s%s", path,
                   k->names->name, missing, other, left);
  if (!anew && k->taken < k->total)
    return ls_fail(
        k->t->ctx, LS_ERR_MISMATCH,
        "%s (%s): has %d of the model's %d tensors%s%s%s%s; only training begins with random numbers: "
        "give model.layers these sizes and names, or train, and name the run with --checkpoint",
        path, k->names->name, k->taken, k->total, missing, other, k->unfit, left);
  ls_log(k->t->ctx, k->missing.count + k->other.count > 0 ? LS_LOG_WARN : LS_LOG_INFO,
         "%s (%s): begins with %d of the model's %d tensors, %lld values%s%s%s", path, k->names->name,
         k->taken, k->total, (long long)k->values, missing, other, left);
  return LS_OK;
}

ls_status_t ls_trainer_take_weights(ls_trainer_t *t) {
  ls_comm_t *comm = t->world->comm;
  taking_t k = {.t = t, .names = ls_names_list[t->config->model.map]};
  ls_ckpt_t *file = NULL;
  ls_ckpt_rows_t rows = {0};
  ls_status_t status = LS_OK;
  if (comm->rank == 0) status = ls_ckpt_open_weights(t->ctx, t->config->model.weights, &file);
  if (file && status == LS_OK)
    status = ls_train_compare_names(t->ctx, ls_ckpt_path(file), ls_ckpt_meta(file), t->dataset);
  if (file) k.used = ls_alloc_array(t->ctx, (size_t)ls_ckpt_count(file) + 1, sizeof *k.used);
  if (file && !k.used) status = LS_ERR_MEMORY;
  k.file = file;
  if (status == LS_OK) status = ls_state_pull(t->engine.state, t->engine.stream, comm->deadline_ns);
  if (status == LS_OK) status = ls_ckpt_rows(t->ctx, t->engine.table, t->engine.state->host, &rows);
  status = ls_comm_agree(comm, "opening weights", status);
  for (int i = 0; i < rows.count[0] && status == LS_OK; i++)
    status = take_tensor(&k, &rows.tensor[0][i]);
  if (status == LS_OK)
    status = ls_comm_agree(comm, "taking weights", comm->rank == 0 ? report(&k, &rows) : LS_OK);
  if (status == LS_OK && !t->training && file)
    snprintf(t->saver.checkpoint, sizeof t->saver.checkpoint, "%s", ls_ckpt_path(file));
  if (status == LS_OK) status = ls_state_push(t->engine.state, t->engine.stream, comm->deadline_ns);
  ls_arena_release(&rows.arena);
  ls_free(k.used);
  ls_ckpt_close(file);
  return status;
}
