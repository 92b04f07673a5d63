/* A checkpoint's meta data as rows. Its hash says that nobody altered it by accident, not that what is in it makes
 * sense: everything is checked once, as a whole, before any of it is used. */
#include "train/saved.h"

#include "base/field.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_MAX ((double)(INT64_MAX / 4))

/* Members of `saved` are kept. The others are only checked here, and read as JSON elsewhere. */
typedef struct {
  ls_saved_t saved; /* first: rows of either stand in the same struct */
  json_t **layers, *train;
  const char **columns, **indicators, **vocabulary, **labels, **config_columns, *kind;
  int layer_count, column_count, indicator_count, character_count, label_count, config_column_count;
} checked_t;

/* Names are what the readers of data take, control characters too: messages escape them. */
static const ls_field_t text_each = {.type = LS_FIELD_STRING,
                                     .size_bytes = sizeof(char *),
                                     .good = ls_text_utf8,
                                     .expected = "a text"},
                        object_each = {.type = LS_FIELD_JSON, .size_bytes = sizeof(json_t *)};
#define SAVED(field, name) LS_FIELD_AS(ls_saved_t, field, name, .known = LS_KNOWN_FROM_0, .max = COUNT_MAX)
#define LIST(field, count, each_, name)                                                                      \
  LS_FIELD_OF(checked_t, field, LS_FIELD_LIST_AT, name, .each = &(each_),                                    \
              .count_offset = offsetof(checked_t, count))

static const ls_field_t skip_rows[] = {
    LS_FIELD_AS(ls_skip_t, past_step, "past_step", .max = COUNT_MAX, .required = true),
    LS_FIELD_AS(ls_skip_t, from, "from", .max = COUNT_MAX, .required = true),
    LS_FIELD_AS(ls_skip_t, to, "to", .max = COUNT_MAX, .required = true),
};
static const ls_record_t skip_record = LS_RECORD(skip_rows);
static const ls_field_t skip_each = LS_FIELD_EACH(ls_skip_t, skip_record);
static const ls_field_t early_rows[] = {
    LS_FIELD_AS(ls_saved_t, best_figure, "best", .min = -INFINITY),
    LS_FIELD_AS(ls_saved_t, no_better, "no_better", .max = INT32_MAX),
};
static const ls_field_t best_rows[] = {
    LS_FIELD_AS(ls_saved_t, best.figure, "figure", .min = -INFINITY),
    LS_FIELD_AS(ls_saved_t, best.step, "step", .max = COUNT_MAX),
    LS_FIELD_AS(ls_saved_t, best.epoch, "epoch", .max = COUNT_MAX),
};
static const ls_field_t held_rows[] = {
    LS_FIELD_AS(ls_saved_t, held_rows, "rows", .max = COUNT_MAX),
    LS_FIELD_AS(ls_saved_t, held_hash, "xxh3_64"),
};
static const ls_record_t early_record = LS_RECORD(early_rows), best_record = LS_RECORD(best_rows),
                         held_record = LS_RECORD(held_rows);
static const ls_field_t data_rows[] = {
    LS_FIELD_AS(ls_saved_t, rows, "rows", .max = COUNT_MAX),
    LS_FIELD_AS(ls_saved_t, inputs, "inputs", .max = COUNT_MAX),
    LS_FIELD_AS(ls_saved_t, outputs, "outputs", .max = COUNT_MAX),
    LS_FIELD_AS(ls_saved_t, hash, "xxh3_64"),
    LS_FIELD_OBJECT(held_record, "validation", LS_FIELD_IF(ls_saved_t, held), .left_out = true),
};
static const ls_field_t model_rows[] = {LIST(layers, layer_count, object_each, "layers")};
static const ls_field_t config_data_rows[] = {
    LS_FIELD_AS(checked_t, kind, "kind"),
    LIST(config_columns, config_column_count, text_each, "columns"),
    LS_FIELD_AS(ls_saved_t, validation, "validation", .known = LS_KNOWN_ABOVE_0, .max = 1),
};
static const ls_record_t data_record = LS_RECORD(data_rows), model_record = LS_RECORD(model_rows),
                         config_data_record = LS_RECORD(config_data_rows);
static const ls_field_t config_rows[] = {
    LS_FIELD_OBJECT(model_record, "model", .required = true),
    LS_FIELD_OBJECT(config_data_record, "data", .required = true),
    LS_FIELD_AS(checked_t, train, "train", .required = true),
};
static const ls_record_t config_record = LS_RECORD(config_rows);

/* The first five rows are only read here: save.c writes them, since columns, indicators, characters and labels are lists of
 * the dataset, and the configuration has rows of its own. */
static const ls_field_t rows[] = {
    LS_FIELD_OBJECT(config_record, "config", .required = true),
    LIST(columns, column_count, text_each, "columns"),
    LIST(indicators, indicator_count, text_each, "indicators"),
    LIST(vocabulary, character_count, text_each, "vocabulary"),
    LIST(labels, label_count, text_each, "labels"),
    SAVED(samples, "samples"),
    LS_FIELD_OF(ls_saved_t, skip, LS_FIELD_LIST, "left_out", .each = &skip_each,
                .count_offset = offsetof(ls_saved_t, skips)),
    LS_FIELD_AS(ls_saved_t, seed, "seed", .required = true),
    LS_FIELD_AS(ls_saved_t, global_batch, "global_batch", .min = 1, .max = COUNT_MAX, .required = true),
    SAVED(world_size, "world_size"),
    LS_FIELD_AS(ls_saved_t, train_count, "train_samples", .max = COUNT_MAX, .required = true),
    SAVED(total_steps, "total_steps"),
    LS_FIELD_OBJECT(early_record, "early_stopping"),
    LS_FIELD_OBJECT(best_record, "best_evaluation"),
    LS_FIELD_AS(ls_saved_t, norm, "norm"),
    LS_FIELD_OBJECT(data_record, "data"),
};
static const ls_record_t record = LS_RECORD(rows), written = {rows + 5, LS_COUNT(rows) - 5, NULL};

json_t *ls_train_saved_json(const ls_saved_t *saved) {
  return ls_record_json(&written, saved);
}

ls_status_t ls_train_saved(ls_ctx_t *ctx, const char *name, const json_t *meta, ls_saved_t *saved) {
  checked_t c = {.layers = NULL};
  ls_arena_t arena;
  char place[512];
  ls_record_clear(&record, &c);
  snprintf(place, sizeof place, "%.400s: its manifest's meta data", name);
  ls_arena_init(&arena, ctx);
  const ls_field_source_t source = {ctx, place, LS_ERR_CORRUPT, &arena};
  ls_status_t status = meta ? ls_record_read(&source, &record, meta, &c) : LS_OK;
  ls_arena_release(&arena);
  *saved = c.saved;
  saved->known = meta && status == LS_OK;
  saved->held = saved->held_rows > 0;
  return status;
}
