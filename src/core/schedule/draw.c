/* draw: a schedule as bars in a terminal, a row per lane.
 *
 *   rank 0 of 2: 23 tasks, step 1.84 ms (measured)
 *   compute ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓  ▏█████████
 *   comm                              ▞▞▞▞▞▞▞▞  ▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞▞
 *           ├─────────────┬─────────────┬─────────────┬─────────────┤
 *           0           0.46 ms       0.92 ms       1.38 ms     1.84 ms
 *   ▒ forward 0.51 ms  ▓ backward 0.92 ms  ▞ communication 0.70 ms (exposed 0.06 ms)  █ optimizer 0.28 ms */
#include "schedule/program.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH_MIN = 40, LABEL_COLUMNS = 9, TICKS = 4 };

static const char *const glyph[LS_PHASE_STEP_COUNT] = {"▚", "▒", "▓", "▞", "█", "░"};

/* A growing text; after a failed allocation appending does nothing. */
typedef struct {
  ls_ctx_t *ctx;
  char *text;
  size_t len, capacity;
  bool failed;
} text_t;

static void LS_PRINTF(2, 3) put(text_t *t, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0 || t->failed) return;
  if (t->len + (size_t)n + 1 > t->capacity) {
    size_t wanted = 2 * (t->len + (size_t)n + 1);
    char *room = ls_realloc_array(t->ctx, t->text, wanted, 1);
    if (!room) {
      t->failed = true;
      return;
    }
    t->text = room;
    t->capacity = wanted;
  }
  va_start(args, fmt);
  vsnprintf(t->text + t->len, t->capacity - t->len, fmt, args);
  va_end(args);
  t->len += (size_t)n;
}

/* Work in place of time: FLOPs, else bytes. */
static int64_t work_of(const ls_task_t *task) {
  int64_t work = task->flops > 0 ? task->flops : task->bytes;
  return work > 0 ? work : 1;
}

/* The times at which every task would run if work were time: each begins when its lane and the tasks for
 * which it waits are done. */
static void lay_out_work(const ls_schedule_t *s, ls_task_time_t *times) {
  int64_t lane_end[LS_LANE_COUNT] = {0};
  for (int t = 0; t < s->task_count; t++) {
    const ls_task_t *task = &s->tasks[t];
    int64_t start = lane_end[task->lane];
    for (int i = 0; i < task->wait_count; i++)
      if (times[task->wait[i]].end_ns > start) start = times[task->wait[i]].end_ns;
    times[t] = (ls_task_time_t){start, start + work_of(task)};
    lane_end[task->lane] = times[t].end_ns;
  }
}

static int64_t end_of(const ls_schedule_t *s, const ls_task_time_t *times) {
  int64_t end = 1;
  for (int t = 0; t < s->task_count; t++)
    if (times[t].end_ns > end) end = times[t].end_ns;
  return end;
}

typedef struct {
  double busy[LS_PHASE_STEP_COUNT]; /* part of the column, 0 to 1 */
} column_t;

static void add_task(column_t *columns, int count, const ls_task_t *task, double begin, double end) {
  int first = (int)begin, last = (int)end;
  if (last >= count) last = count - 1;
  for (int c = first; c <= last; c++) {
    double from = begin > c ? begin : c, until = end < c + 1 ? end : c + 1;
    if (until > from) columns[c].busy[task->phase] += until - from;
  }
}

/* The phase that fills most of the column; a thin bar if the lane is idle for most of it, so that even the
 * shortest task is visible. */
static const char *column_glyph(const column_t *column) {
  double sum = 0;
  int most = 0;
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++) {
    sum += column->busy[p];
    if (column->busy[p] > column->busy[most]) most = p;
  }
  return sum >= 0.5 ? glyph[most] : sum > 0 ? "▏" : " ";
}

static bool lane_used(const ls_schedule_t *s, int lane) {
  for (int t = 0; t < s->task_count; t++)
    if ((int)s->tasks[t].lane == lane) return true;
  return false;
}

static void draw_lane(text_t *text, const ls_schedule_t *s, const ls_task_time_t *times, int64_t total,
                      int lane, column_t *columns, int count) {
  memset(columns, 0, (size_t)count * sizeof(*columns));
  double scale = (double)count / (double)total;
  for (int t = 0; t < s->task_count; t++)
    if ((int)s->tasks[t].lane == lane)
      add_task(columns, count, &s->tasks[t], (double)times[t].start_ns * scale,
               (double)times[t].end_ns * scale);
  int last = count;
  while (last > 0 && !strcmp(column_glyph(&columns[last - 1]), " "))
    last--;
  put(text, "%-*s", LABEL_COLUMNS, ls_lane_name((ls_lane_t)lane));
  for (int c = 0; c < last; c++)
    put(text, "%s", column_glyph(&columns[c]));
  put(text, "\n");
}

/* A number with its unit, four significant digits at most: 0.84 us, 12.3 ms. */
static void put_scaled(text_t *text, double value, const char *const *units, int unit_count, double step) {
  int u = 0;
  for (; u + 1 < unit_count && value >= step; u++)
    value /= step;
  put(text, "%.*f %s", value >= 100 || value == floor(value) ? 0 : value >= 10 ? 1 : 2, value, units[u]);
}

static void put_time(text_t *text, int64_t ns) {
  static const char *const units[] = {"ns", "us", "ms", "s"};
  if (ns == 0)
    put(text, "0");
  else
    put_scaled(text, (double)ns, units, LS_COUNT(units), 1000);
}

static void put_work(text_t *text, double flops, double bytes) {
  static const char *const flop_units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"};
  static const char *const byte_units[] = {"B", "kB", "MB", "GB", "TB"};
  if (flops > 0)
    put_scaled(text, flops, flop_units, LS_COUNT(flop_units), 1000);
  else
    put_scaled(text, bytes, byte_units, LS_COUNT(byte_units), 1000);
}

/* The ruler and the times below its ticks. */
static void draw_axis(text_t *text, int64_t total, int count) {
  put(text, "%*s", LABEL_COLUMNS, "");
  for (int c = 0; c < count; c++) {
    bool tick = false;
    for (int k = 1; k < TICKS; k++)
      tick |= c == count * k / TICKS;
    put(text, "%s", c == 0 ? "├" : c == count - 1 ? "┤" : tick ? "┬" : "─");
  }
  put(text, "\n%*s", LABEL_COLUMNS, "");
  int at = 0;
  for (int k = 0; k <= TICKS; k++) {
    text_t label = {.ctx = text->ctx};
    put_time(&label, total * k / TICKS);
    int len = (int)label.len, tick = count * k / TICKS;
    int begin = k == 0 ? 0 : k == TICKS ? count - len : tick - len / 2;
    if (!label.failed && begin > at - (at == 0)) {
      put(text, "%*s%s", begin - at, "", label.text);
      at = begin + len;
    }
    text->failed |= label.failed;
    ls_free(label.text);
  }
  put(text, "\n");
}

static void draw_legend(text_t *text, const ls_schedule_t *s, const ls_task_time_t *measured) {
  int64_t parts_ns[LS_PHASE_STEP_COUNT] = {0};
  if (measured) ls_schedule_parts(s, measured, parts_ns);
  const char *gap = "";
  for (int p = 0; p < LS_PHASE_STEP_COUNT; p++) {
    int64_t busy_ns = 0;
    double flops = 0, bytes = 0;
    int tasks = 0;
    for (int t = 0; t < s->task_count; t++) {
      const ls_task_t *task = &s->tasks[t];
      if ((int)task->phase != p) continue;
      tasks++;
      flops += (double)task->flops;
      bytes += (double)task->bytes;
      if (measured) busy_ns += measured[t].end_ns - measured[t].start_ns;
    }
    if (!tasks) continue;
    put(text, "%s%s %s ", gap, glyph[p], ls_step_phase_name((ls_step_phase_t)p));
    gap = "  ";
    if (!measured) {
      put_work(text, flops, bytes);
      continue;
    }
    put_time(text, busy_ns);
    if (p == LS_PHASE_STEP_COMM || p == LS_PHASE_STEP_INPUT) {
      put(text, " (exposed ");
      put_time(text, parts_ns[p]);
      put(text, ")");
    }
  }
  put(text, "\n");
}

static void draw_all(text_t *text, const ls_schedule_t *s, const ls_task_time_t *measured,
                     const ls_task_time_t *times, column_t *columns, int count) {
  int64_t total = end_of(s, times);
  put(text, "rank %d of %d: %d tasks, ", s->rank, s->world_size, s->task_count);
  if (measured) {
    put(text, "step ");
    put_time(text, total);
    put(text, " (measured)\n");
  } else {
    put(text, "widths show work (FLOPs, else bytes), not time\n");
  }
  for (int lane = 0; lane < LS_LANE_COUNT; lane++)
    if (lane_used(s, lane)) draw_lane(text, s, times, total, lane, columns, count);
  if (measured) draw_axis(text, total, count);
  draw_legend(text, s, measured);
}

/* Appends one schedule. */
static void draw_schedule(text_t *text, const ls_schedule_t *s, const ls_task_time_t *times, int width) {
  int count = (width < WIDTH_MIN ? WIDTH_MIN : width) - LABEL_COLUMNS;
  ls_arena_t work;
  ls_arena_init(&work, s->ctx);
  column_t *columns = ls_arena_array(&work, (size_t)count, sizeof(*columns));
  ls_task_time_t *laid_out = ls_arena_array(&work, (size_t)s->task_count + 1, sizeof(*laid_out));
  if (columns && laid_out) {
    if (!times) lay_out_work(s, laid_out);
    draw_all(text, s, times, times ? times : laid_out, columns, count);
  }
  ls_arena_release(&work);
}

static char *finish(text_t *text) {
  if (!text->failed) return text->text;
  ls_free(text->text);
  return NULL;
}

char *ls_schedule_draw(const ls_schedule_t *s, const ls_task_time_t *times, int width) {
  text_t text = {.ctx = s->ctx};
  draw_schedule(&text, s, times, width);
  return finish(&text);
}

char *ls_program_draw(const ls_program_t *p, int width) {
  text_t text = {.ctx = p->member[0]->ctx};
  for (int i = 0; i < p->count; i++) {
    if (p->count > 1)
      put(&text, "\"%s\", %d of %d micro-batches\n", p->member[i]->name, p->times[i],
          p->period * p->micro_batches);
    draw_schedule(&text, p->member[i], NULL, width);
  }
  return finish(&text);
}
