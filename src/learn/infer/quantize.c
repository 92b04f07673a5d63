/* Writes a model's weights as 8-bit integers, and measures what they, and pruning before them, change: size, speed, loss and
 * accuracy. */
#include "infer/infer.h"

#include "train/trainer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct {
  const char *checkpoint;
  const char *int8;         /* the file of integers */
  char opened[PATH_MAX];    /* the directory of the one checkpoint that was taken, without links */
  ls_quantize_form_t *form; /* (LS_QUANTIZE_FORMS) of the report */
} model_t;

typedef struct {
  ls_ctx_t *ctx;
  const ls_quantize_t *how;
  const ls_config_t *config;
  ls_world_t *world;
  model_t model[LS_QUANTIZE_MODELS];
  int models;
} quantize_t;

static ls_status_t open_model(const quantize_t *q, const model_t *m, bool ranges, const char *int8,
                              ls_trainer_t **t) {
  const ls_trainer_options_t options = {.checkpoint = m->checkpoint,
                                        .ranges = ranges,
                                        .int8 = int8,
                                        .best = q->how->best,
                                        .stuck = q->how->options->stuck,
                                        .stuck_user = q->how->options->stuck_user};
  return ls_infer_open(q->ctx, q->world, q->config, &options, t);
}

/* The first evaluation warms up; the fastest of the others counts. */
static ls_status_t evaluate(ls_quantize_form_t *form, ls_trainer_t *t) {
  ls_status_t status = ls_trainer_evaluate(t, &form->eval);
  for (int i = 0; i < 2 && status == LS_OK; i++) {
    int64_t begin = ls_clock_ns();
    status = ls_trainer_evaluate(t, &form->eval);
    int64_t ns = ls_clock_ns() - begin;
    if (form->ns == 0 || ns < form->ns) form->ns = ns;
  }
  return status;
}

/* Counts what pruning takes (train/prune.c). */
static ls_status_t count_kept(ls_trainer_t *t, ls_quantize_form_t *form) {
  const ls_layout_t *layout = t->engine.table->layout;
  const float *w;
  ls_status_t status = ls_trainer_parameters(t, &w);
  form->weights = form->kept = 0;
  for (int i = 0; i < layout->trained_count && status == LS_OK; i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    if (e->shape.rank < 2) continue;
    form->weights += e->count;
    for (int64_t k = 0; k < e->count; k++)
      form->kept += w[e->offset + k] != 0;
  }
  return status;
}

/* Whether the checkpoint can be what it is called; `m` is the last that was opened. */
static ls_status_t check_order(const quantize_t *q, const model_t *m) {
  const model_t *before = &q->model[0];
  if (m == before) return LS_OK;
  if (!strcmp(before->opened, m->opened))
    return ls_fail(q->ctx, LS_ERR_ARGUMENT,
                   "--unpruned %s: --checkpoint is this checkpoint, too; name a run without pruning, or the "
                   "directory of a step (DIR/step-..) from before train.prune.begin",
                   m->opened);
  if (before->form[LS_QUANTIZE_F32].kept >= m->form[LS_QUANTIZE_F32].kept) return LS_OK;
  return ls_fail(q->ctx, LS_ERR_ARGUMENT,
                 "--unpruned %s: %.1f %% of its weights are 0, but of --checkpoint %s %.1f %%: exchange the "
                 "two; a run's directory means its newest checkpoint, DIR/step-.. an earlier one",
                 before->opened, 100 * (1 - ls_quantize_kept(&before->form[LS_QUANTIZE_F32])), m->opened,
                 100 * (1 - ls_quantize_kept(&m->form[LS_QUANTIZE_F32])));
}

static ls_status_t measure(const quantize_t *q, model_t *m) {
  ls_trainer_t *t = NULL;
  ls_arena_t arena;
  ls_int8_t int8;
  ls_arena_init(&arena, q->ctx);
  ls_status_t status = open_model(q, m, true, NULL, &t);
  int64_t step;
  if (status == LS_OK && !realpath(ls_trainer_checkpoint(t, &step), m->opened))
    status = ls_fail_errno(q->ctx, "%s: cannot be found any more", ls_trainer_checkpoint(t, &step));
  if (status == LS_OK) status = count_kept(t, &m->form[LS_QUANTIZE_F32]);
  if (status == LS_OK) status = check_order(q, m);
  if (status == LS_OK) status = ls_infer_ranges(t, q->how->samples, &arena, &int8);
  if (status == LS_OK) status = ls_infer_write_int8(t, &int8, m->int8);
  ls_trainer_destroy(t);
  ls_arena_release(&arena);
  return status;
}

/* ---- sizes ---- */

/* Counts `size` bytes more, and the packed bytes that leave `z`. Size 0 ends them. */
static void pack(z_stream *z, const void *bytes, size_t size, ls_quantize_form_t *form) {
  static const size_t most = 1 << 30; /* zlib counts in 32 bits */
  unsigned char out[4096];
  const int flush = size == 0 ? Z_FINISH : Z_NO_FLUSH;
  form->bytes += (int64_t)size;
  for (const unsigned char *at = bytes;; at += most, size -= most) {
    z->next_in = (unsigned char *)(uintptr_t)at;
    z->avail_in = (uInt)(size < most ? size : most);
    do {
      z->next_out = out;
      z->avail_out = sizeof out;
      deflate(z, flush);
      form->packed += (int64_t)(sizeof out - z->avail_out);
    } while (z->avail_out == 0);
    if (size <= most) return;
  }
}

static ls_status_t pack_file(ls_ctx_t *ctx, const char *path, z_stream *z, ls_quantize_form_t *form) {
  static const char mode[] = "rbe";
  char block[65536];
  FILE *file = fopen(path, mode);
  if (!file) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  size_t got;
  while ((got = fread(block, 1, sizeof block, file)) > 0)
    pack(z, block, got, form);
  bool bad = ferror(file) != 0;
  fclose(file);
  return bad ? ls_fail(ctx, LS_ERR_IO, "%s: cannot be read", path) : LS_OK;
}

/* The trainer holds the weights as they are used: those of integers times their scale. */
static ls_status_t take_sizes(const quantize_t *q, ls_trainer_t *t, const char *int8,
                              ls_quantize_form_t *form) {
  const ls_layout_t *layout = t->engine.table->layout;
  const float *w;
  z_stream z = {0};
  ls_status_t status = ls_trainer_parameters(t, &w);
  if (status != LS_OK) return status;
  if (deflateInit(&z, Z_DEFAULT_COMPRESSION) != Z_OK)
    return ls_fail(q->ctx, LS_ERR_MEMORY, "out of memory: room to pack the weights");
  for (int i = 0; i < layout->count; i++) {
    const ls_layout_entry_t *e = &layout->entry[i];
    if (!int8 && e->count > 0) pack(&z, w + e->offset, (size_t)e->count * sizeof *w, form);
  }
  if (status == LS_OK) status = count_kept(t, form);
  if (status == LS_OK && int8) status = pack_file(q->ctx, int8, &z, form);
  pack(&z, NULL, 0, form);
  deflateEnd(&z);
  return status;
}

/* One form after the other, twice: what else the machine does for a while then slows no form alone. */
static ls_status_t compare(quantize_t *q) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < 2 * q->models * LS_QUANTIZE_FORMS && status == LS_OK; i++) {
    const int k = i % (q->models * LS_QUANTIZE_FORMS);
    model_t *m = &q->model[k / LS_QUANTIZE_FORMS];
    ls_quantize_form_t *form = &m->form[k % LS_QUANTIZE_FORMS];
    ls_trainer_t *t = NULL;
    const char *int8 = k % LS_QUANTIZE_FORMS == LS_QUANTIZE_INT8 ? m->int8 : NULL;
    status = open_model(q, m, false, int8, &t);
    if (status == LS_OK) status = evaluate(form, t);
    if (status == LS_OK && form->bytes == 0) status = take_sizes(q, t, int8, form);
    ls_trainer_destroy(t);
  }
  return status;
}

static ls_status_t measure_all(quantize_t *q) {
  ls_status_t status = LS_OK;
  for (int i = 0; i < q->models && status == LS_OK; i++)
    status = measure(q, &q->model[i]);
  return status == LS_OK ? compare(q) : status;
}

/* The file takes its place when everything has been measured. The integers of the unpruned model are temporary. */
static ls_status_t with_files(quantize_t *q) {
  ls_new_file_t file = {.fd = -1};
  char *dir = NULL, *unpruned = NULL;
  ls_status_t status = ls_file_expect(q->ctx, q->how->output);
  if (status == LS_OK) status = ls_new_file_begin(q->ctx, q->how->output, &file);
  q->model[q->models - 1].int8 = file.beside ? file.beside : q->how->output;
  if (status == LS_OK && q->models > 1) {
    status = ls_dir_temporary(q->ctx, "lockstep-quantize", &dir);
    if (status == LS_OK && !(unpruned = ls_path_join(q->ctx, dir, "int8.safetensors")))
      status = LS_ERR_MEMORY;
    q->model[0].int8 = unpruned;
  }
  if (status == LS_OK) status = measure_all(q);
  status = ls_new_file_end(q->ctx, &file, status);
  if (dir) ls_dir_remove(q->ctx, dir);
  ls_free(dir);
  ls_free(unpruned);
  return status;
}

ls_status_t ls_infer_quantize(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                              const ls_quantize_t *how, ls_quantize_report_t *report) {
  quantize_t q = {.ctx = ctx, .how = how, .config = config, .world = world, .models = how->unpruned ? 2 : 1};
  *report = (ls_quantize_report_t){.models = q.models};
  for (int i = 0; i < q.models; i++)
    q.model[i] =
        (model_t){.checkpoint = i < q.models - 1 ? how->unpruned : how->checkpoint, .form = report->form[i]};
  return with_files(&q);
}
