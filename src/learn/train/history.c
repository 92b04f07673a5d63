/* The evaluations of a run as lines of JSON in its directory: what is left of a run that nobody watched. */
#include "base/json.h"
#include "monitor/sink.h"
#include "train/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void put(json_t *line, const char *name, const char *of, double value) {
  char member[2 * LS_EVAL_TARGET_BYTES];
  snprintf(member, sizeof member, "val_%s%s%s", name, *of ? "." : "", of);
  json_object_set_new(line, member, ls_json_number(value));
}

static json_t *line_of(const ls_trainer_t *t, double train_loss) {
  const ls_eval_metrics_t *m = &t->val_metrics;
  json_t *line = json_pack("{s:I, s:f, s:o, s:o}", "step", (json_int_t)t->step, "epoch",
                           (double)ls_trainer_samples(t) / (double)t->dataset->train_count, "train_loss",
                           ls_json_number(train_loss), "val_loss", ls_json_number(t->val_loss));
  if (!isnan(t->val_accuracy)) put(line, "accuracy", "", t->val_accuracy);
  const double perplexity = ls_trainer_perplexity(t, t->val_loss);
  if (!isnan(perplexity)) put(line, "perplexity", "", perplexity);
  json_object_set_new(line, "best", json_boolean(t->best.step == t->step && !isnan(t->best.figure)));
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

static void complain(ls_trainer_t *t, int error) {
  if (!t->history_failed)
    ls_log(t->ctx, LS_LOG_WARN, "%s/%s: cannot be written: %s", t->config->checkpoint.dir, LS_HISTORY_NAME,
           strerror(error));
  t->history_failed = true;
}

static void put_line(FILE *to, const json_t *line) {
  char *text = ls_json_dump(line, JSON_COMPACT);
  if (text) fprintf(to, "%s\n", text);
  free(text);
}

/* Those of t->history, in one write. */
static void append(ls_trainer_t *t) {
  char *path = path_of(t), *text = NULL;
  size_t size_bytes = 0;
  FILE *to = open_memstream(&text, &size_bytes);
  for (size_t i = 0; to && i < json_array_size(t->history); i++)
    put_line(to, json_array_get(t->history, i));
  if (to) fclose(to);
  int fd = path ? ls_lines_open(path) : -1;
  if (fd < 0 || !text || !ls_write_all(fd, text, size_bytes)) complain(t, errno);
  if (fd >= 0) close(fd);
  json_array_clear(t->history);
  free(text);
  ls_free(path);
}

void ls_history_add(ls_trainer_t *t, double train_loss) {
  json_t *line = line_of(t, train_loss);
  ls_monitor_event(t->monitor, "evaluation", json_incref(line));
  if (!t->config->checkpoint.dir) {
    json_decref(line);
    return;
  }
  if (!t->history) t->history = json_array();
  json_array_append_new(t->history, line);
  if (t->claimed) append(t);
}

/* The lines of an earlier process of this run that it has kept: `to` gets those up to the step that is resumed, whose
 * evaluation is then there already. */
static void copy_kept(ls_trainer_t *t, FILE *from, FILE *to) {
  char *text = NULL;
  size_t room = 0;
  ssize_t size;
  while ((size = getline(&text, &room, from)) > 0) {
    json_t *line = json_loadb(text, (size_t)size, 0, NULL), *at = json_object_get(line, "step");
    const int64_t step = json_is_integer(at) ? json_integer_value(at) : INT64_MAX;
    if (step <= t->resumed_from) put_line(to, line);
    if (step == t->resumed_from && json_equal(at, json_object_get(json_array_get(t->history, 0), "step")))
      json_array_remove(t->history, 0);
    json_decref(line);
  }
  free(text);
}

void ls_history_begin(ls_trainer_t *t) {
  char *path = path_of(t), *text = NULL;
  size_t size_bytes = 0;
  FILE *from = path ? fopen(path, "re") : NULL, *to = from ? open_memstream(&text, &size_bytes) : NULL;
  if (to) copy_kept(t, from, to);
  if (to) fclose(to);
  if (from) fclose(from);
  if (text && ls_file_replace(NULL, path, text, size_bytes) != LS_OK) complain(t, errno);
  free(text);
  ls_free(path);
  if (json_array_size(t->history) > 0) append(t);
}
