/* Evaluation: forward passes over a part of the data in chunks of equally many rows, dealt to the ranks in
 * turn. Every rank learns every chunk's loss and adds them up in f64 in the order of the chunks, whichever
 * ranks computed them. */
#include "data/text/corpus.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOSS, CORRECT, CHUNK_FIRST };

/* The sums of one metric op, which several figures may share. */
typedef struct {
  const ls_score_t *row;
  char name[LS_SCORE_NAME_BYTES];
  int64_t count; /* sums */
  double *sum;   /* (count): of all chunks */
} sums_t;

/* Counts are added up as they come, which is exact; other sums, like the loss, wait for their place in the order of the
 * chunks. */
typedef struct {
  sums_t sums[LS_SCORES_MAX];
  int used;
  int of[LS_SCORES_MAX]; /* index of sums for each row of ls_scores, -1 = none */
  int64_t chunk;         /* values kept for each chunk: loss, correct, pairs */
  int64_t counts;
  double *values; /* chunk after chunk, then the counts */
  float *read;    /* room for one tensor */
} evaluation_t;

static ls_status_t prepare(ls_trainer_t *t, int64_t chunks, evaluation_t *e) {
  const ls_graph_t *graph = t->engine.step[LS_STEP_EVALUATE].graph;
  int64_t all = 0, widest = 1;
  e->chunk = CHUNK_FIRST;
  for (int i = 0; ls_scores[i].name; i++) {
    e->of[i] = -1;
    if (!(t->config->model.scores >> i & 1) || !ls_scores[i].op) continue;
    sums_t new = {.row = &ls_scores[i]}, *s = &e->sums[e->used];
    ls_score_tensor(i, new.name);
    for (int k = 0; k < e->used && e->of[i] < 0; k++)
      if (strcmp(e->sums[k].name, new.name) == 0) e->of[i] = k;
    if (e->of[i] >= 0) continue;
    int64_t read = ls_shape_count(&graph->tensors[ls_graph_find(graph, new.name)].shape);
    new.count = new.row->counts ? read : read / 2;
    *(new.row->counts ? &e->counts : &e->chunk) += new.count;
    widest = read > widest ? read : widest;
    all += new.count;
    e->of[i] = e->used++;
    *s = new;
  }
  e->values = ls_alloc_array(t->ctx, (size_t)(chunks * e->chunk + e->counts + all), sizeof *e->values);
  e->read = ls_alloc_array(t->ctx, (size_t)widest, sizeof *e->read);
  double *sum = e->values ? e->values + chunks * e->chunk + e->counts : NULL;
  for (int k = 0; k < e->used && sum; sum += e->sums[k++].count)
    e->sums[k].sum = sum;
  return e->values && e->read ? LS_OK : LS_ERR_MEMORY;
}

/* Reads the results of a chunk's evaluation from the device. */
static ls_status_t read_chunk(ls_trainer_t *t, evaluation_t *e, int64_t valid, double *value,
                              double *counts) {
  ls_run_t *run = t->engine.step[LS_STEP_EVALUATE].run;
  float loss = 0, correct = 0;
  ls_status_t status = ls_run_read(run, LS_NAME_LOSS, 0, &loss, sizeof loss);
  if (status == LS_OK) status = ls_run_read(run, LS_NAME_CORRECT, 0, &correct, sizeof correct);
  value[LOSS] = (double)loss * (double)valid;
  value[CORRECT] = (double)correct;
  value += CHUNK_FIRST;
  for (int k = 0; k < e->used && status == LS_OK; k++) {
    int64_t count = e->sums[k].count;
    bool whole = e->sums[k].row->counts;
    status =
        ls_run_read(run, e->sums[k].name, 0, e->read, (size_t)(whole ? count : 2 * count) * sizeof(float));
    for (int64_t i = 0; i < count && whole; i++)
      *counts++ += (double)e->read[i];
    for (int64_t i = 0; i < count && !whole; i++)
      *value++ = (double)e->read[i] + (double)e->read[count + i];
  }
  return status;
}

/* This rank's chunks. */
static ls_status_t evaluate_chunks(ls_trainer_t *t, const ls_loader_spec_t *spec, evaluation_t *e) {
  const ls_comm_t *comm = t->world->comm;
  ls_batch_t batch = ls_feed_batch(&t->engine, LS_STEP_EVALUATE, 0);
  ls_filler_t *filler = NULL;
  ls_status_t status =
      ls_filler_create(t->ctx, t->dataset, ls_feed_decoders(&t->engine, t->dataset), &filler);
  for (int64_t i = comm->rank; i < spec->total_steps && status == LS_OK; i += comm->size) {
    int64_t left = spec->total_samples - i * spec->rows, valid = left < spec->rows ? left : spec->rows;
    status = ls_filler_fill(filler, spec, i, &batch);
    if (status == LS_OK) status = ls_engine_once(&t->engine, LS_STEP_EVALUATE);
    if (status == LS_OK)
      status = read_chunk(t, e, valid, e->values + i * e->chunk, e->values + spec->total_steps * e->chunk);
  }
  ls_filler_destroy(filler);
  return status;
}

/* The values of all ranks become each metric's sums. */
static void add_up(evaluation_t *e, int64_t chunks, ls_evaluated_t *all) {
  const double *count = e->values + chunks * e->chunk;
  for (int64_t i = 0; i < chunks; i++) {
    const double *value = e->values + i * e->chunk;
    all->loss += value[LOSS];
    all->correct += value[CORRECT];
    value += CHUNK_FIRST;
    for (int k = 0; k < e->used; k++)
      for (int64_t c = 0; c < e->sums[k].count && !e->sums[k].row->counts; c++)
        e->sums[k].sum[c] += *value++;
  }
  for (int k = 0; k < e->used; k++)
    for (int64_t c = 0; c < e->sums[k].count && e->sums[k].row->counts; c++)
      e->sums[k].sum[c] = *count++;
}

double ls_trainer_perplexity(const ls_trainer_t *t, double loss) {
  return ls_model_positions(&t->config->model) > 0 ? exp(loss) : NAN;
}

/* Counts everything in the part that has a class: samples, their positions that count, or their labels. */
static int64_t classified(const ls_trainer_t *t, ls_part_t part, int64_t samples) {
  const ls_model_config_t *model = &t->config->model;
  int64_t positions = ls_model_positions(model), count = 0;
  if (ls_model_loss(model)->labels) return samples * t->outputs;
  if (positions == 0) return samples;
  const ls_corpus_t *corpus = t->dataset->corpus;
  for (int64_t i = 0; corpus && corpus->masked > 0 && i < samples; i++)
    count += ls_corpus_mask(corpus, t->dataset->seed, (uint64_t)i, NULL, NULL);
  if (count > 0) return count;
  if (!t->dataset->targets) return samples * positions; /* windows of a text: every token counts */
  for (int64_t i = 0; i < samples; i++) {
    const int64_t row = ls_dataset_row(t->dataset, part, i), places = t->inputs;
    const int32_t *target = (const int32_t *)t->dataset->targets + row * positions;
    int64_t length = positions;
    float id;
    for (; model->pad >= 0 && positions == places && length > 0; length--) {
      ls_dataset_features(t->dataset, row, length - 1, 1, &id);
      if (id != (float)model->pad) break;
    }
    for (int64_t k = 0; k < length; k++)
      count += target[k] != model->ignore;
  }
  return count;
}

/* "-nan" is no other answer than "nan". */
static double plain(double value) {
  return isnan(value) ? (double)NAN : value;
}

static const double *sums_of(const evaluation_t *e, int metric) {
  return e->of[metric] < 0 ? NULL : e->sums[e->of[metric]].sum;
}

static double figure(const evaluation_t *e, const ls_evaluated_t *all, int metric) {
  return plain(ls_scores[metric].figure(all, sums_of(e, metric)));
}

/* A mean over targets with units of their own says little, so each gets its own value. */
static void name_targets(const ls_trainer_t *t, ls_eval_metrics_t *m) {
  const ls_strings_t *names = &t->config->data.target;
  const bool named = t->config->data.kind == LS_DATA_CSV && names->count == t->outputs;
  if (t->outputs < 2 || t->outputs > LS_EVAL_TARGETS_MAX) return;
  m->targets = (int)t->outputs;
  for (int o = 0; o < m->targets; o++)
    if (named)
      ls_text_shown(names->v[o], SIZE_MAX, m->target[o], sizeof m->target[o]);
    else
      snprintf(m->target[o], sizeof m->target[o], "%d", o);
}

static void fill_metrics(const ls_trainer_t *t, const evaluation_t *e, const ls_evaluated_t *all,
                         ls_eval_metrics_t *m) {
  const ls_train_config_t *config = &t->config->train;
  name_targets(t, m);
  m->count = config->metrics.count;
  for (int i = 0; i < m->count; i++) {
    const int metric = config->metric[i];
    const ls_score_t *row = &ls_scores[metric];
    m->v[i] = (ls_eval_metric_t){.name = row->name,
                                 .value = figure(e, all, metric),
                                 .share = row->share,
                                 .usual = row->op == NULL,
                                 .each = row->of && m->targets > 0};
    for (int o = 0; m->v[i].each && o < m->targets; o++)
      m->v[i].of[o] = plain(row->of(all, sums_of(e, metric), o));
  }
}

static void conclude(const ls_trainer_t *t, ls_part_t part, int64_t samples, int64_t chunks, evaluation_t *e,
                     ls_eval_report_t *report) {
  const ls_loss_t *loss = ls_model_loss(&t->config->model);
  ls_evaluated_t all = {.samples = samples,
                        .classified = loss->probabilities ? classified(t, part, samples) : samples,
                        .width = ls_model_classes(&t->config->model),
                        .target_scale = loss->classes ? NULL : t->dataset->norm.target_scale};
  add_up(e, chunks, &all);
  all.loss = plain(all.loss / (double)samples);
  *report = (ls_eval_report_t){.samples = samples,
                               .correct = (int64_t)llround(all.correct),
                               .loss = all.loss,
                               .accuracy = loss->probabilities ? all.correct / (double)all.classified : NAN,
                               .perplexity = ls_trainer_perplexity(t, all.loss),
                               .figure = figure(e, &all, t->config->train.figure),
                               .validation = part == LS_PART_VALIDATION,
                               .new_data = t->new_data};
  fill_metrics(t, e, &all, &report->metrics);
}

ls_status_t ls_trainer_evaluate_part(ls_trainer_t *t, ls_part_t part, ls_eval_report_t *report) {
  ls_comm_t *comm = t->world->comm;
  int64_t samples = part == LS_PART_TRAIN ? t->dataset->train_count : t->dataset->validation_count;
  int64_t rows = t->engine.step[LS_STEP_EVALUATE].rows, chunks = (samples + rows - 1) / rows;
  ls_loader_spec_t spec = {.part = part,
                           .seed = t->dataset->seed, /* of what is masked: alike for every train.seed */
                           .global_batch = rows,
                           .rows = rows,
                           .micro_batches = 1,
                           .total_samples = samples,
                           .total_steps = chunks};
  evaluation_t e = {.used = 0};
  const ls_doing_t before = ls_trainer_do(t, LS_DOING_EVALUATION);
  ls_status_t status = prepare(t, chunks, &e);
  if (status == LS_OK) status = evaluate_chunks(t, &spec, &e);
  status = ls_comm_agree(comm, "evaluation", status);
  /* the others have zeros there, and counts are whole, so each sum is exact */
  if (status == LS_OK)
    status = ls_comm_sum_f64(comm, "evaluation sums", e.values, chunks * e.chunk + e.counts);
  ls_trainer_do(t, before);
  if (status == LS_OK) conclude(t, part, samples, chunks, &e, report);
  ls_free(e.values);
  ls_free(e.read);
  return status;
}

ls_status_t ls_trainer_evaluate(ls_trainer_t *t, ls_eval_report_t *report) {
  ls_part_t part = t->dataset->validation_count > 0 ? LS_PART_VALIDATION : LS_PART_TRAIN;
  return ls_trainer_evaluate_part(t, part, report);
}

int64_t ls_trainer_inputs(const ls_trainer_t *t) {
  return t->inputs;
}
int64_t ls_trainer_outputs(const ls_trainer_t *t) {
  return t->outputs;
}
