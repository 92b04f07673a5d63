/* One JSON document, and the same in words. Written anew after every life, so that it also tells of a run whose
 * supervisor was killed. */
#include "supervise/report.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1 };

/* The wall clock at a moment of the monotonic one. */
static double unix_s(int64_t at_ns) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9 - (double)(ls_clock_ns() - at_ns) * 1e-9;
}

static json_t *fault_json(const ls_fault_t *f, int ranks) {
  char text[1024];
  json_t *missing = json_array();
  for (int i = 0; i < f->missing_count; i++)
    json_array_append_new(missing, json_integer(f->missing[i]));
  ls_fault_text(f, ranks, text, sizeof text);
  json_t *j = json_pack("{s:s, s:s, s:f, s:i, s:i, s:o, s:o, s:o}", "cause", ls_fault_name(f->kind), "text",
                        text, "noticed_unix_s", unix_s(f->noticed_ns), "signal", f->signal, "exit_code",
                        f->code, "missing", missing, "words", ls_json_text(f->words), "rank",
                        f->rank >= 0 ? json_integer(f->rank) : json_null());
  if (j && f->host) json_object_set_new(j, "host", ls_json_text(f->host));
  if (j && (f->rank >= 0 || f->at.error)) {
    json_object_set_new(j, "process", json_integer(f->at.pid));
    json_object_set_new(j, "step", json_integer(f->at.step));
    json_object_set_new(j, "phase", json_string(ls_page_phase_name(f->at.phase)));
    json_object_set_new(j, "collective", json_integer((json_int_t)f->at.entered));
    json_object_set_new(j, "inside_collective", json_boolean(f->at.entered > f->at.left));
    json_object_set_new(j, "status", json_string(ls_status_name(f->at.error)));
  }
  return j;
}

void ls_report_life(ls_report_t *report, const ls_life_end_t *life, const ls_decision_t *decision,
                    const ls_restarts_t *next) {
  json_t *out = json_array();
  for (int i = 0; i < next->places.out_count; i++)
    json_array_append_new(out, json_integer(next->places.out[i]));
  json_t *j = json_pack("{s:i, s:o, s:I, s:f, s:f, s:o, s:I, s:I, s:b, s:f, s:s}", "ranks", life->ranks,
                        "left_out_next", out, "past_step_next", (json_int_t)next->past_step, "started_unix_s",
                        unix_s(life->start_ns), "ended_unix_s", unix_s(life->ended_ns), "first_step_unix_s",
                        life->first_step_ns ? json_real(unix_s(life->first_step_ns)) : json_null(),
                        "first_step", (json_int_t)life->steps.first_step, "last_step",
                        (json_int_t)life->steps.last_step, "again", decision->again, "wait_s",
                        (double)decision->wait_ns * 1e-9, "why", decision->again ? "" : decision->why);
  if (j && life->fault.kind != LS_FAULT_NONE)
    json_object_set_new(j, "fault", fault_json(&life->fault, life->ranks));
  if (j && life->evidence) json_object_set(json_object_get(j, "fault"), "evidence", life->evidence);
  json_array_append_new(report->lives, j);
}

static const char *word_of(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  return text ? text : "";
}

/* The newest collectives of each rank, then the rest. */
static void print_evidence(FILE *to, const json_t *evidence) {
  enum { SHOWN = 4 };
  size_t r, i;
  json_t *rank, *thread;
  json_array_foreach(json_object_get(evidence, "collectives"), r, rank) {
    fprintf(to, "  rank %zu, newest first:%s\n", r, json_array_size(rank) ? "" : " no collective");
    for (i = 0; i < SHOWN && i < json_array_size(rank); i++) {
      const json_t *c = json_array_get(rank, i), *took = json_object_get(c, "took_s");
      fprintf(to, "    %s, begun %.3f s before%s\n", word_of(c, "collective"),
              json_real_value(json_object_get(c, "begun_s_ago")), json_is_null(took) ? ", under way" : "");
    }
  }
  if (word_of(evidence, "host")[0]) fprintf(to, "  on host %s\n", word_of(evidence, "host"));
  json_array_foreach(json_object_get(evidence, "threads"), i, thread)
      fprintf(to, "  thread %s \"%s\", state %s, waits in %s, system call %s\n%s%s",
              word_of(thread, "thread"), word_of(thread, "name"), word_of(thread, "state"),
              word_of(thread, "waits_in"), word_of(thread, "system_call"), word_of(thread, "kernel_stack"),
              word_of(thread, "kernel_stack")[0] ? "\n" : "");
  static const char *const texts[][2] = {{"stacks", "stacks"}, {"nccl_ras", "NCCL's RAS"}};
  for (int k = 0; k < LS_COUNT(texts); k++)
    if (word_of(evidence, texts[k][0])[0])
      fprintf(to, "  %s:\n%s\n", texts[k][1], word_of(evidence, texts[k][0]));
}

static void print_life(FILE *to, size_t index, const json_t *life) {
  const json_t *fault = json_object_get(life, "fault");
  const json_int_t ranks = json_integer_value(json_object_get(life, "ranks"));
  fprintf(to, "life %zu: %lld rank%s, steps %lld to %lld: %s\n", index + 1, (long long)ranks,
          LS_PLURAL(ranks), (long long)json_integer_value(json_object_get(life, "first_step")),
          (long long)json_integer_value(json_object_get(life, "last_step")),
          fault ? json_string_value(json_object_get(fault, "text")) : "finished");
  const char *words = json_string_value(json_object_get(fault, "words"));
  if (words && words[0] && !json_object_get(fault, "host")) fprintf(to, "  it said: %s\n", words);
  print_evidence(to, json_object_get(fault, "evidence"));
  const char *why = json_string_value(json_object_get(life, "why"));
  const json_t *out = json_object_get(life, "left_out_next");
  if (json_is_true(json_object_get(life, "again"))) {
    fprintf(to, "  started again after %g s", json_real_value(json_object_get(life, "wait_s")));
    for (size_t i = 0; i < json_array_size(out); i++)
      fprintf(to, "%s %lld", i ? "," : " without rank",
              (long long)json_integer_value(json_array_get(out, i)));
    fputc('\n', to);
  } else if (why && why[0])
    fprintf(to, "  not started again: %s\n", why);
}

/* Some of it comes from other hosts, and nothing in it may act on a terminal. NULL: no memory. */
static char *shown_lines(const char *text) {
  char *lines = NULL, shown[2048];
  size_t size;
  FILE *to = open_memstream(&lines, &size);
  for (size_t bytes; to && *text; text += bytes + (text[bytes] == '\n')) {
    bytes = strcspn(text, "\n");
    fprintf(to, "%s\n", ls_text_shown(text, bytes, shown, sizeof shown));
  }
  if (to) fclose(to);
  return lines;
}

static ls_status_t replace(ls_ctx_t *ctx, const char *dir, const char *name, const char *text) {
  char *path = text ? ls_path_join(ctx, dir, name) : NULL;
  ls_status_t status = path ? ls_file_expect(ctx, path) : LS_ERR_MEMORY;
  if (status == LS_OK) status = ls_file_replace(ctx, path, text, strlen(text));
  ls_free(path);
  return status;
}

ls_status_t ls_report_write(ls_ctx_t *ctx, const ls_report_t *report, const char *result, int code) {
  char host[128] = "?", *words = NULL;
  size_t size, index;
  const json_t *life;
  gethostname(host, sizeof host - 1);
  size_t lives = json_array_size(report->lives);
  json_t *j = json_pack("{s:i, s:s, s:i, s:s, s:i, s:i, s:O}", "version", VERSION, "result", result,
                        "exit_code", code, "host", host, "ranks", report->ranks, "restarts",
                        lives > 0 ? (int)lives - 1 : 0, "lives", report->lives);
  char *text = j ? ls_json_dump(j, JSON_INDENT(2)) : NULL;
  FILE *to = open_memstream(&words, &size);
  if (to)
    fprintf(to, "%s: %s, exit code %d, %zu li%s of %d rank%s\n", host, result, code, lives,
            lives == 1 ? "fe" : "ves", report->ranks, LS_PLURAL(report->ranks));
  for (index = 0; to && index < lives; index++) {
    life = json_array_get(report->lives, index);
    print_life(to, index, life);
  }
  if (to) fclose(to);
  char *lines = words ? shown_lines(words) : NULL;
  ls_status_t status = replace(ctx, report->dir, "supervise.json", text);
  if (status == LS_OK) status = replace(ctx, report->dir, "supervise.txt", lines);
  free(lines);
  free(words);
  free(text);
  json_decref(j);
  return status;
}
