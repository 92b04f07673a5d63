/* The evaluations of a run, with the mean training loss, as lines of JSON in its directory. They remain of a run that nobody
 * watched. A line that cannot be written is reported once. Rank 0. */
#include "monitor/sink.h"
#include "train/observers/observers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  ls_trainer_t *t;
  json_t *lines; /* that are not in the directory yet */
  bool failed;   /* it was said */
} own_t;

static bool wanted(const ls_trainer_t *t) {
  return t->training && t->world->comm->rank == 0;
}

static void close_own(void *own) {
  json_decref(((own_t *)own)->lines);
}

static void put(json_t *line, const char *name, const char *of, double value) {
  char member[2 * LS_EVAL_TARGET_BYTES];
  snprintf(member, sizeof member, "val_%s%s%s", name, *of ? "." : "", of);
  json_object_set_new(line, member, ls_json_number(value));
}

static json_t *line_of(const ls_trainer_t *t, double train_loss) {
  const ls_eval_metrics_t *m = &t->run.val.metrics;
  json_t *line = json_pack("{s:I, s:f, s:o, s:o}", "step", (json_int_t)t->run.step, "epoch",
                           (double)ls_trainer_samples(t) / (double)t->dataset->train_count, "train_loss",
                           ls_json_number(train_loss), "val_loss", ls_json_number(t->run.val.loss));
  if (!isnan(t->run.val.accuracy)) put(line, "accuracy", "", t->run.val.accuracy);
  const double perplexity = ls_trainer_perplexity(t, t->run.val.loss);
  if (!isnan(perplexity)) put(line, "perplexity", "", perplexity);
  json_object_set_new(line, "best",
                      json_boolean(t->run.best.step == t->run.step && !isnan(t->run.best.figure)));
  for (int i = 0; i < m->count; i++) {
    if (m->v[i].usual) continue;
    put(line, m->v[i].name, "", m->v[i].value);
    for (int o = 0; m->v[i].each && o < m->targets; o++)
      put(line, m->v[i].name, m->target[o], m->v[i].of[o]);
  }
  return line;
}

static char *path_of(const ls_trainer_t *t) {
  return ls_path_join(NULL, t->config->checkpoint.dir, LS_HISTORY_NAME);
}

static void complain(own_t *o, int error) {
  const ls_trainer_t *t = o->t;
  if (!o->failed)
    ls_log(t->ctx, LS_LOG_WARN, "%s/%s: cannot be written: %s", t->config->checkpoint.dir, LS_HISTORY_NAME,
           strerror(error));
  o->failed = true;
}

static void put_line(FILE *to, const json_t *line) {
  char *text = ls_json_dump(line, JSON_COMPACT);
  if (text) fprintf(to, "%s\n", text);
  free(text);
}

/* Writes all lines at once. */
static void append(own_t *o) {
  char *path = path_of(o->t), *text = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  for (size_t i = 0; to && i < json_array_size(o->lines); i++)
    put_line(to, json_array_get(o->lines, i));
  if (to) fclose(to);
  int fd = path ? ls_lines_open(path) : -1;
  if (fd < 0 || !text || !ls_write_all(fd, text, size_bytes)) complain(o, errno);
  if (fd >= 0) close(fd);
  json_array_clear(o->lines);
  free(text);
  ls_free(path);
}

static void evaluated(void *own, const ls_loop_t *loop) {
  own_t *o = own;
  ls_trainer_t *t = o->t;
  json_t *line = line_of(t, ls_step_log_loss(&loop->log));
  if (t->config->checkpoint.dir) {
    if (!o->lines) o->lines = json_array();
    json_array_append(o->lines, line);
    if (t->saver.claimed) append(o);
  }
  ls_trainer_tell(t, "evaluation", line);
}

/* Copies the lines of an earlier process of this run up to the step that is resumed. The evaluation of that step is then
 * there already. */
static void copy_kept(own_t *o, FILE *from, FILE *to) {
  char *text = NULL;
  size_t room = 0;
  ssize_t size;
  while ((size = getline(&text, &room, from)) > 0) {
    json_t *line = json_loadb(text, (size_t)size, 0, NULL), *at = json_object_get(line, "step");
    const int64_t step = json_is_integer(at) ? json_integer_value(at) : INT64_MAX;
    if (step <= o->t->run.resumed_from) put_line(to, line);
    if (step == o->t->run.resumed_from &&
        json_equal(at, json_object_get(json_array_get(o->lines, 0), "step")))
      json_array_remove(o->lines, 0);
    json_decref(line);
  }
  free(text);
}

static void claimed(void *own) {
  own_t *o = own;
  char *path = path_of(o->t), *text = NULL;
  size_t size_bytes = 0;
  FILE *from = path ? fopen(path, "re") : NULL, *to = from ? open_memstream(&text, &size_bytes) : NULL;
  if (to) copy_kept(o, from, to);
  if (to) fclose(to);
  if (from) fclose(from);
  if (text && ls_file_replace(NULL, path, text, size_bytes) != LS_OK) complain(o, errno);
  free(text);
  ls_free(path);
  if (json_array_size(o->lines) > 0) append(o);
}

const ls_observer_t ls_observer_history = {.name = "history",
                                           .own_bytes = sizeof(own_t),
                                           .wanted = wanted,
                                           .close = close_own,
                                           .claimed = claimed,
                                           .evaluated = evaluated};
