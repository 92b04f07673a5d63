/* Inference: a trained model is opened without an optimizer, and used: predictions, text, export, 8-bit weights. Evaluation
 * (ls_trainer_evaluate) takes a model that is opened the same way. A model is a trainer that does not train
 * (lockstep/train.h). All is local, in a world of one process; only ls_infer_open is collective, for an evaluation. */
#ifndef LS_INFER_INFER_H
#define LS_INFER_INFER_H

#include "data/stream.h"
#include "train/train.h"
#include <stdio.h>

/* The world of this process alone, which the caller closes. LS_ERR_ARGUMENT: a launcher started several. */
ls_status_t ls_infer_world(ls_ctx_t *ctx, const ls_config_t *config, ls_world_t **world);
/* The model of options->checkpoint, or of model.weights. Errors: LS_ERR_ARGUMENT without either; ls_trainer_create's. */
ls_status_t ls_infer_open(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                          const ls_trainer_options_t *options, ls_trainer_t **model);

/* predict.c. LS_ERR_ARGUMENT where nothing tells how samples are to be normalised. */
ls_status_t ls_infer_check_norm(const ls_trainer_t *model);
/* ls_trainer_predict of values of any dtype, which are normalised with all their digits. */
ls_status_t ls_infer_predict(ls_trainer_t *model, const ls_matrix_t *features, float *outputs);

/* samples.c: predictions of all samples of `input` (data/stream.h), batch by batch. */
typedef struct ls_predictions ls_predictions_t;
typedef struct {
  bool classes;       /* rows are probabilities of classes, else values */
  int64_t width;      /* of a row */
  int64_t rows;       /* that will come: one for each sample, or each of its positions; -1 = not known */
  ls_strings_t names; /* (width) of classes or values; count 0: they have none */
  bool files;         /* rows are about files: ls_predictions_file */
} ls_predictions_facts_t;
ls_status_t ls_predictions_open(ls_ctx_t *ctx, ls_trainer_t *model, const char *input, ls_predictions_t **p);
void ls_predictions_close(ls_predictions_t *p); /* NULL is allowed */
const ls_predictions_facts_t *ls_predictions_facts(const ls_predictions_t *p);
/* The next rows (*rows, width), valid until the next call. *rows 0: the end. */
ls_status_t ls_predictions_next(ls_predictions_t *p, int64_t *rows, const float **values);
int64_t ls_predictions_samples(const ls_predictions_t *p); /* so far */
const char *ls_predictions_file(const ls_predictions_t *p, int64_t row);

/* write.c: all predictions as rows of a file. */
extern const char *const ls_rows_formats[]; /* NULL-terminated */
typedef struct {
  int format; /* of ls_rows_formats */
  FILE *to;
  bool seeks;                         /* it can go back, which a header may need */
  ls_status_t (*written)(void *user); /* asked after each batch: reports a failed write */
  void *user;
} ls_rows_to_t;
/* Writes nothing before the first batch is predicted, so a bad input leaves stdout empty. LS_ERR_ARGUMENT: a format that
 * has to go back. */
ls_status_t ls_predictions_write(ls_ctx_t *ctx, ls_predictions_t *p, const ls_rows_to_t *to);

/* generate.c: a model of text goes on with a prompt, token by token. */
typedef struct ls_generator ls_generator_t;
typedef struct {
  const char
      *prompt; /* text; for tokens without characters, their numbers; NULL or "": a line end, else token 0 */
  const char *vocabulary; /* a tokenizer's file; NULL: the checkpoint's characters, bytes, or none */
  double temperature;     /* probabilities to the power of its inverse; 0: always the most probable token */
  int64_t top;            /* of so many most probable tokens */
  int64_t seed;
} ls_generate_t;
/* LS_ERR_CONFIG: the model has no class for every position of its input; LS_ERR_ARGUMENT, LS_ERR_DATA: a prompt or
 * vocabulary of another model. */
ls_status_t ls_generator_open(ls_ctx_t *ctx, ls_trainer_t *model, const ls_generate_t *how,
                              ls_generator_t **g);
void ls_generator_close(ls_generator_t *g); /* NULL is allowed */
/* Draws one more token. */
ls_status_t ls_generator_next(ls_generator_t *g);
/* Tokens so far, the prompt's first. */
int64_t ls_generator_count(const ls_generator_t *g, const int32_t **token);
bool ls_generator_speaks(const ls_generator_t *g); /* its tokens have a text */
/* The text of token `i` of those; tokens that are only numbers have a space after them. */
void ls_generator_say(const ls_generator_t *g, int64_t i, FILE *to);

/* export.c: the model's tensors as a .safetensors file with the names and layouts of a map (ls_names_list); *count of
 * them. */
ls_status_t ls_infer_export(ls_trainer_t *model, const char *path, int map, int *count);
/* The network as an ONNX file (model/onnx.h), which takes samples in the units of the data. */
ls_status_t ls_infer_export_onnx(ls_trainer_t *model, const char *path, int *count);

/* int8.c: the ranges of the inputs of products over about so many training samples, in `arena`, of a model with
 * options.ranges; the model's tensors as a file with the weights of these products as 8-bit integers. */
ls_status_t ls_infer_ranges(ls_trainer_t *model, int64_t samples, ls_arena_t *arena, ls_int8_t *out);
ls_status_t ls_infer_write_int8(ls_trainer_t *model, const ls_int8_t *int8, const char *path);

/* quantize.c: writes the file of 8-bit weights, and compares the forms of a model, and of the same model before pruning. */
enum { LS_QUANTIZE_F32, LS_QUANTIZE_INT8, LS_QUANTIZE_FORMS, LS_QUANTIZE_MODELS = 2 };
typedef struct {
  int64_t weights,
      kept; /* of trained matrices and convolutions, which pruning takes: all, and those that are not 0 */
  int64_t bytes, packed; /* of all tensors: as they are, and by zlib (gzip) */
  int64_t ns;            /* of an evaluation */
  ls_eval_report_t eval;
} ls_quantize_form_t;
typedef struct {
  const char *checkpoint, *unpruned; /* unpruned NULL: one model */
  bool best;                         /* checkpoints that are runs' directories: take the best */
  int64_t samples;                   /* that measure the ranges */
  const char *output;
  const ls_trainer_options_t *options; /* stuck and stuck_user alone */
} ls_quantize_t;
typedef struct {
  int models; /* the unpruned one first */
  ls_quantize_form_t form[LS_QUANTIZE_MODELS][LS_QUANTIZE_FORMS];
} ls_quantize_report_t;
/* LS_ERR_ARGUMENT: `unpruned` cannot be what it is called. Nothing is written after a failure. */
ls_status_t ls_infer_quantize(ls_ctx_t *ctx, ls_world_t *world, const ls_config_t *config,
                              const ls_quantize_t *how, ls_quantize_report_t *report);
static inline double ls_quantize_kept(const ls_quantize_form_t *form) {
  return form->weights > 0 ? (double)form->kept / (double)form->weights : 1;
}

#endif
