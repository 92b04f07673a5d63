/* lockstep quantize: weights as 8-bit integers for predict, and what they, and pruning before them, change: size, speed, loss,
 * accuracy. */
#include "cli/cli.h"
#include "config/spare.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { EXTRA_OUTPUT, EXTRA_SAMPLES, EXTRA_UNPRUNED, EXTRA_BEST };
static const cli_extra_t extra[] = {
    [EXTRA_OUTPUT] = {"--output", "FILE", "The file to write, for lockstep predict --int8."},
    [EXTRA_SAMPLES] = {"--samples", "N",
                       "Training samples on which the ranges of activations are measured (default: 1024).",
                       CLI_NUMBER(1, 1 << 30, 1024)},
    [EXTRA_UNPRUNED] =
        {"--unpruned", "DIR",
         "Checkpoints of the same model before pruning, with which the table begins: a run without "
         "pruning, or one step's directory of this run."},
    [EXTRA_BEST] = {"--best", NULL,
                    "Take the run's best checkpoint, the one with the lowest validation loss, instead "
                    "of the newest."},
    {NULL, NULL, NULL}};

/* A form of a model: size of its weights, time and result of an evaluation. */
typedef struct {
  int64_t weights,
      kept; /* of trained matrices and convolutions, which pruning takes: all, and those that are not 0 */
  int64_t bytes, packed; /* of all tensors: as they are, and by zlib (gzip) */
  int64_t ns;
  ls_eval_report_t eval;
} form_t;
enum { F32, INT8, FORMS };
static const char *const form_names[] = {"f32", "int8"};

typedef struct {
  const char *name; /* "": there is no other model */
  const char *checkpoint;
  const char *int8;      /* the file of integers */
  char opened[PATH_MAX]; /* the directory of the one checkpoint that was taken, without links */
  form_t form[FORMS];
} model_t;
enum { MODELS = 2 };

typedef struct {
  ls_ctx_t *ctx;
  const cli_args_t *args;
  const ls_config_t *config;
  ls_world_t *world;
  model_t model[MODELS];
  int models;
} quantize_t;

static ls_status_t open_trainer(const quantize_t *q, const model_t *m, bool ranges, const char *int8,
                                ls_trainer_t **t) {
  const ls_trainer_options_t options = {.checkpoint = m->checkpoint,
                                        .no_training = true,
                                        .ranges = ranges,
                                        .int8 = int8,
                                        .best = q->args->extra[EXTRA_BEST] != NULL,
                                        .stuck = cli_messages_stuck,
                                        .stuck_user = q->args->messages};
  return ls_trainer_create(q->ctx, q->world, q->config, &options, t);
}

/* The first evaluation warms up; the fastest of the others counts. */
static ls_status_t evaluate(form_t *form, ls_trainer_t *t) {
  ls_status_t status = ls_trainer_evaluate(t, &form->eval);
  for (int i = 0; i < 2 && status == LS_OK; i++) {
    int64_t begin = ls_clock_ns();
    status = ls_trainer_evaluate(t, &form->eval);
    int64_t ns = ls_clock_ns() - begin;
    if (form->ns == 0 || ns < form->ns) form->ns = ns;
  }
  return status;
}

/* Of what pruning takes (train/prune.c). */
static ls_status_t count_kept(ls_trainer_t *t, form_t *form) {
  const ls_layout_t *layout = ls_trainer_engine(t)->table->layout;
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

static double kept(const form_t *form) {
  return form->weights > 0 ? (double)form->kept / (double)form->weights : 1;
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
  if (before->form[F32].kept >= m->form[F32].kept) return LS_OK;
  return ls_fail(q->ctx, LS_ERR_ARGUMENT,
                 "--unpruned %s: %.1f %% of its weights are 0, but of --checkpoint %s %.1f %%: exchange the "
                 "two; a run's directory means its newest checkpoint, DIR/step-.. an earlier one",
                 before->opened, 100 * (1 - kept(&before->form[F32])), m->opened,
                 100 * (1 - kept(&m->form[F32])));
}

static ls_status_t measure(const quantize_t *q, model_t *m, int64_t samples) {
  ls_trainer_t *t = NULL;
  ls_arena_t arena;
  ls_int8_t int8;
  ls_arena_init(&arena, q->ctx);
  ls_status_t status = open_trainer(q, m, true, NULL, &t);
  int64_t step;
  if (status == LS_OK && !realpath(ls_trainer_checkpoint(t, &step), m->opened))
    status = ls_fail_errno(q->ctx, "%s: cannot be found any more", ls_trainer_checkpoint(t, &step));
  if (status == LS_OK) status = count_kept(t, &m->form[F32]);
  if (status == LS_OK) status = check_order(q, m);
  if (status == LS_OK) status = ls_trainer_ranges(t, samples, &arena, &int8);
  if (status == LS_OK) status = ls_trainer_write_int8(t, &int8, m->int8);
  ls_trainer_destroy(t);
  ls_arena_release(&arena);
  return status;
}

/* ---- sizes ---- */

/* Counts `size` bytes more, and what of them leaves `z`; the last are none. */
static void pack(z_stream *z, const void *bytes, size_t size, form_t *form) {
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

static ls_status_t pack_file(ls_ctx_t *ctx, const char *path, z_stream *z, form_t *form) {
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
static ls_status_t take_sizes(const quantize_t *q, ls_trainer_t *t, const char *int8, form_t *form) {
  const ls_layout_t *layout = ls_trainer_engine(t)->table->layout;
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
  for (int i = 0; i < 2 * q->models * FORMS && status == LS_OK; i++) {
    const int k = i % (q->models * FORMS);
    model_t *m = &q->model[k / FORMS];
    form_t *form = &m->form[k % FORMS];
    ls_trainer_t *t = NULL;
    const char *int8 = k % FORMS == INT8 ? m->int8 : NULL;
    status = open_trainer(q, m, false, int8, &t);
    if (status == LS_OK) status = evaluate(form, t);
    if (status == LS_OK && form->bytes == 0) status = take_sizes(q, t, int8, form);
    ls_trainer_destroy(t);
  }
  return status;
}

/* ---- the table ---- */

static double samples_per_s(const form_t *form) {
  return (double)form->eval.samples / ((double)form->ns * 1e-9);
}

static void print_json(const quantize_t *q, const char *output) {
  const form_t *first = &q->model[0].form[F32];
  json_t *forms = json_array();
  for (int k = 0; k < q->models * FORMS; k++) {
    const model_t *m = &q->model[k / FORMS];
    const form_t *f = &m->form[k % FORMS];
    json_array_append_new(
        forms,
        json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "form", form_names[k % FORMS],
                  "checkpoint", m->checkpoint, "bytes", (json_int_t)f->bytes, "packed_bytes",
                  (json_int_t)f->packed, "kept", ls_json_number(kept(f)), "samples_per_s",
                  ls_json_number(samples_per_s(f)), "sample_us", ls_json_number(1e6 / samples_per_s(f)),
                  "loss", ls_json_number(f->eval.loss), "accuracy", ls_json_number(f->eval.accuracy)));
  }
  cli_print_json(json_pack("{s:s, s:o, s:I, s:s, s:o}", "command", "quantize", "output", ls_json_text(output),
                           "samples", (json_int_t)first->eval.samples, "part",
                           first->eval.validation ? "validation" : "all", "forms", forms));
}

static void print_result(const quantize_t *q, const char *output) {
  const form_t *first = &q->model[0].form[F32];
  cli_print("  %-14s %8s %12s %12s %12s %10s %12s %10s\n", "weights", "kept", "bytes", "packed", "samples/s",
            "us/sample", "loss", "accuracy");
  for (int k = 0; k < q->models * FORMS; k++) {
    const model_t *m = &q->model[k / FORMS];
    const form_t *f = &m->form[k % FORMS];
    char name[32], accuracy[32] = "-";
    snprintf(name, sizeof name, "%s%s", m->name, form_names[k % FORMS]);
    if (isfinite(f->eval.accuracy)) snprintf(accuracy, sizeof accuracy, "%.2f %%", 100 * f->eval.accuracy);
    cli_print("  %-14s %6.1f %% %12s %12s %12.5g %10.4g %12.6g %10s\n", name, 100 * kept(f),
              cli_count(f->bytes), cli_count(f->packed), samples_per_s(f), 1e6 / samples_per_s(f),
              f->eval.loss, accuracy);
  }
  cli_print("  %s samples (%s); %s\n", cli_count(first->eval.samples),
            first->eval.validation ? "validation part" : "all", cli_shown(output));
}

static ls_status_t run(ls_ctx_t *ctx, const cli_args_t *args) {
  const char *output = args->extra[EXTRA_OUTPUT], *unpruned = args->extra[EXTRA_UNPRUNED];
  quantize_t q = {.ctx = ctx, .args = args, .models = unpruned ? MODELS : 1};
  model_t *own = &q.model[q.models - 1];
  ls_config_t *config;
  ls_new_file_t file = {.fd = -1};    /* it takes its place when everything has been measured */
  char *dir = NULL, *own_file = NULL; /* of the unpruned model's integers */
  if (!args->checkpoint || !output)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "lockstep quantize: %s is missing; see lockstep quantize --help",
                   output ? "--checkpoint DIR" : "--output FILE");
  ls_status_t status = cli_config_load(ctx, args, args->sets, args->set_count, &config);
  if (status != LS_OK) return status;
  q.config = config;
  *own = (model_t){.name = unpruned ? "pruned " : "", .checkpoint = args->checkpoint};
  if (unpruned) q.model[0] = (model_t){.name = "unpruned ", .checkpoint = unpruned};
  status = ls_config_spares(ctx, output, NULL, config);
  if (status == LS_OK) status = ls_world_open(ctx, config->parallel.deadline_s, &q.world);
  if (status != LS_OK) goto config;
  if (ls_world_size(q.world) > 1)
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "this command uses one process, but a launcher started %d",
                     ls_world_size(q.world));
  if (status == LS_OK) status = ls_file_expect(ctx, output);
  if (status == LS_OK) status = ls_new_file_begin(ctx, output, &file);
  own->int8 = file.beside ? file.beside : output;
  if (status == LS_OK && unpruned) {
    status = ls_dir_temporary(ctx, "lockstep-quantize", &dir);
    if (status == LS_OK && !(own_file = ls_path_join(ctx, dir, "int8.safetensors"))) status = LS_ERR_MEMORY;
    q.model[0].int8 = own_file;
  }
  for (int i = 0; i < q.models && status == LS_OK; i++)
    status = measure(&q, &q.model[i], args->whole[EXTRA_SAMPLES]);
  if (status == LS_OK) status = compare(&q);
  status = ls_new_file_end(ctx, &file, status);
  if (dir) ls_dir_remove(ctx, dir);
  ls_free(dir);
  ls_free(own_file);
  if (status == LS_OK) args->json ? print_json(&q, output) : print_result(&q, output);
  if (status != LS_OK) ls_world_abort(q.world, ls_status_exit_code(status));
  ls_world_close(q.world);
config:
  ls_config_destroy(config);
  return status;
}

static const cli_command_t command = {
    .name = "quantize",
    .place = 34,
    .summary = "Writes a checkpoint's weights as 8-bit integers, and says what that changes.",
    .details =
        "Products of convolutions (of one group) and of dense layers then work on 8-bit integers: weights "
        "with a "
        "scale for each output,\ntheir inputs with a scale for each tensor, from its range over training "
        "samples. Batch norms become part of the product.\nThe table compares size, speed, loss and accuracy "
        "on the validation part, and with --unpruned also the same network without pruning. On CPUs alone.",
    .flags = CLI_FLAG_CONFIG | CLI_FLAG_CONFIG_OPTIONAL | CLI_FLAG_CHECKPOINT | CLI_FLAG_SET | CLI_FLAG_JSON |
             CLI_FLAG_VERBOSE,
    .extra = extra,
    .run = run};
CLI_COMMAND(command)
