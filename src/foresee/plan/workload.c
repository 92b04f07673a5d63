/* The workload file: option rows, a list of layers, and what somebody reported. */
#include "plan/workload.h"

#include <string.h>

enum { LAYERS_MAX = 4096, REPORTED_MAX = 256, SECTION_BYTES = 64 };

static const char same[] = "same";
static const char *const calibrations[] = {"none", "reported", NULL};

#define ROW(type_, struct_, field_, ...)                                                                     \
  { .name = #field_, .type = (type_), .offset = offsetof(struct_, field_), __VA_ARGS__ }

static const ls_option_t top_rows[] = {
    ROW(LS_FIELD_STRING, ls_workload_t, name, .help = "What is trained."),
    ROW(LS_FIELD_STRING, ls_workload_t, source, .help = "Where its numbers come from."),
    ROW(LS_FIELD_CHOICE, ls_workload_t, precision, .choices = ls_sim_precisions, .initial = "fp32",
        .help = "Whose rate of the device counts."),
    {.name = "strategy",
     .type = LS_FIELD_STRING,
     .offset = offsetof(ls_workload_t, strategy_name),
     .optional = true,
     .help = "A distributed strategy of training, or sharded: parameters, gradients and state are spread "
             "over ranks. "
             "Absent: the usual one of several ranks."},
    ROW(LS_FIELD_INT64, ls_workload_t, batch_per_device, .unit = "samples", .min = 0, .max = 1e9,
        .initial = "0", .help = "Samples of each device (weak scaling); or give global_batch."),
    ROW(LS_FIELD_INT64, ls_workload_t, global_batch, .unit = "samples", .min = 0, .max = 1e9, .initial = "0",
        .help = "Samples of all devices together (strong scaling); or give batch_per_device."),
    ROW(LS_FIELD_INT64, ls_workload_t, gradient_element_bytes, .unit = "bytes", .min = 1, .max = 8,
        .initial = "4", .help = "Size of one gradient on the wire."),
    ROW(LS_FIELD_REAL, ls_workload_t, bucket_bytes, .unit = "bytes", .min = 1, .max = 1e12, .initial = "25e6",
        .help = "Gradients are summed in pieces of at least this size, whole layers each."),
    ROW(LS_FIELD_REAL, ls_workload_t, backward_factor, .min = 0, .max = 100, .initial = "2",
        .help = "Work of the backward pass over that of the forward pass."),
    ROW(LS_FIELD_REAL, ls_workload_t, optimizer_bytes_per_parameter, .unit = "bytes", .min = 0, .max = 1e3,
        .initial = "20", .help = "Read and written by the update (20: SGD with momentum in fp32)."),
    ROW(LS_FIELD_CHOICE, ls_workload_t, calibrate, .choices = calibrations, .initial = "none",
        .help = "reported: times of ops are scaled so that one device takes what the report says."),
};
static const ls_option_t layer_rows[] = {
    ROW(LS_FIELD_STRING, ls_workload_layer_t, name, .help = "Layer or group of layers."),
    ROW(LS_FIELD_INT64, ls_workload_layer_t, repeat, .min = 1, .max = 1000, .initial = "1",
        .help = "So many alike, one after the other."),
    ROW(LS_FIELD_INT64, ls_workload_layer_t, parameters, .min = 0, .max = 1e12, .help = "Parameters of one."),
    ROW(LS_FIELD_REAL, ls_workload_layer_t, flops_per_sample, .unit = "FLOP", .min = 0, .max = 1e18,
        .help = "Forward work of one."),
    ROW(LS_FIELD_REAL, ls_workload_layer_t, bytes_per_sample, .unit = "bytes", .min = 0, .max = 1e15,
        .initial = "0", .help = "Activations that the forward pass of one reads and writes."),
};
static const ls_option_t reported_rows[] = {
    ROW(LS_FIELD_STRING, ls_workload_t, reported_source, .help = "Who reported it."),
};
static const ls_option_t row_rows[] = {
    ROW(LS_FIELD_INT64, ls_reported_t, ranks, .min = 1, .max = 65536, .help = "Devices."),
    ROW(LS_FIELD_INT64, ls_reported_t, batch_per_device, .unit = "samples", .min = 0, .max = 1e9,
        .initial = "0", .help = "As the report states it; 0 = the workload's."),
    {.name = "strategy",
     .type = LS_FIELD_STRING,
     .offset = offsetof(ls_reported_t, strategy_name),
     .initial = same,
     .help = "As the report states it; same: as the workload's."},
    ROW(LS_FIELD_REAL, ls_reported_t, samples_per_s, .min = 0, .max = 1e15, .initial = "0",
        .help = "All devices."),
    ROW(LS_FIELD_REAL, ls_reported_t, step_time_ms, .unit = "ms", .min = 0, .max = 1e12, .initial = "0",
        .help = "One step."),
    ROW(LS_FIELD_REAL, ls_reported_t, efficiency_percent, .min = 0, .max = 1000, .initial = "0",
        .help = "As stated."),
    ROW(LS_FIELD_REAL, ls_reported_t, communication_percent, .min = 0, .max = 100, .initial = "0",
        .help = "Share of communication, as stated."),
};

/* A list of maps, each parsed by `rows` into an element of `element_bytes`. */
static ls_status_t parse_list(ls_ctx_t *ctx, ls_arena_t *arena, const char *name, const ls_option_t *rows,
                              int row_count, const ls_doc_node_t *list, int max, size_t element_bytes,
                              void **elements, int *count) {
  if (list->kind != LS_DOC_LIST || list->count < 1 || list->count > max)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &list->place, "%s: a list of 1 to %d maps was expected", name, max);
  char *array = ls_arena_array(arena, (size_t)list->count, element_bytes);
  if (!array) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  int i = 0;
  for (const ls_doc_node_t *node = list->child; node; node = node->next, i++) {
    char text[SECTION_BYTES];
    snprintf(text, sizeof text, "%s.%d", name, i);
    const ls_section_t section = {text, rows, row_count, ""};
    status = ls_worse(status,
                      ls_option_parse(ctx, arena, &section, node, NULL, array + (size_t)i * element_bytes));
  }
  *elements = array;
  *count = list->count;
  return status;
}

/* Strategies for simulation alone. */
static const ls_strategy_t *const simulated[] = {&ls_strategy_sharded};

/* A strategy that workloads can be simulated with: the distributed ones, and those for simulation alone. */
static const ls_strategy_t *strategy_of(const char *name) {
  const ls_strategy_t *strategy = ls_strategy_find(name);
  if (strategy && strategy->distributed) return strategy;
  for (int i = 0; i < LS_COUNT(simulated); i++)
    if (!strcmp(simulated[i]->name, name)) return simulated[i];
  return NULL;
}

/* *strategy by its name, which stands in `map`; `otherwise` for "same" and where nothing was written. */
static ls_status_t find_strategy(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *map, const char *name,
                                 const ls_strategy_t *otherwise, const ls_strategy_t **strategy) {
  bool named = name && strcmp(name, same) != 0;
  *strategy = named ? strategy_of(name) : otherwise;
  if (*strategy || !named) return LS_OK;
  const char *names = "";
  for (int i = 0; ls_strategies[i] && names; i++)
    if (ls_strategies[i]->distributed)
      names = ls_arena_printf(arena, "%s%s, ", names, ls_strategies[i]->name);
  return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(map, "strategy")->place,
                    "strategy: \"%s\" is none of %s%s", LS_SHOWN(name), names ? names : "",
                    simulated[0]->name);
}

static ls_status_t parse_reported(ls_ctx_t *ctx, const ls_doc_node_t *map, ls_workload_t *w) {
  static const char *const nested[] = {"rows", NULL};
  ls_option_t rows[LS_COUNT(reported_rows)];
  memcpy(rows, reported_rows, sizeof rows);
  rows[0].name = "source";
  const ls_section_t section = {"reported", rows, LS_COUNT(rows), ""};
  ls_status_t status = ls_option_parse(ctx, &w->arena, &section, map, nested, w);
  const ls_doc_node_t *list = ls_doc_get(map, "rows");
  if (!list)
    return ls_worse(status,
                    ls_fail_at(ctx, LS_ERR_CONFIG, &map->key_place, "reported.rows is missing: the table"));
  void *elements = NULL;
  status = ls_worse(status, parse_list(ctx, &w->arena, "reported.rows", row_rows, LS_COUNT(row_rows), list,
                                       REPORTED_MAX, sizeof *w->reported, &elements, &w->reported_count));
  w->reported = elements;
  for (int i = 0; status == LS_OK && i < w->reported_count; i++) {
    ls_reported_t *row = &w->reported[i];
    status =
        find_strategy(ctx, &w->arena, ls_doc_at(list, i), row->strategy_name, w->strategy, &row->strategy);
    if (status == LS_OK && row->samples_per_s <= 0 && row->step_time_ms <= 0)
      status = ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_at(list, i)->place,
                          "reported.rows.%d: samples_per_s or step_time_ms must be given", i);
  }
  return status;
}

/* Rules between options. */
static ls_status_t check_rules(ls_ctx_t *ctx, const ls_doc_t *doc, const ls_workload_t *w) {
  const ls_place_t whole = {.file = doc->file};
  if ((w->batch_per_device > 0) == (w->global_batch > 0))
    return ls_fail_at(ctx, LS_ERR_CONFIG, &whole,
                      "give batch_per_device (weak scaling) or global_batch (strong scaling)");
  bool single = false;
  for (int i = 0; i < w->reported_count; i++)
    single = single || w->reported[i].ranks == 1;
  if (w->calibrate && !single)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &ls_doc_get(doc->root, "calibrate")->place,
                      "calibrate: reported needs a row of reported.rows with ranks: 1");
  return LS_OK;
}

static ls_status_t parse_all(ls_ctx_t *ctx, const ls_doc_t *doc, void *target) {
  ls_workload_t *w = target;
  static const char *const nested[] = {"layers", "reported", NULL};
  const ls_section_t top = {"", top_rows, LS_COUNT(top_rows), ""};
  ls_status_t status = ls_option_parse(ctx, &w->arena, &top, doc->root, nested, w);
  if (status == LS_OK)
    status = find_strategy(ctx, &w->arena, doc->root, w->strategy_name, ls_strategy_default(2, false),
                           &w->strategy);
  const ls_doc_node_t *layers = ls_doc_get(doc->root, "layers"),
                      *reported = ls_doc_get(doc->root, "reported");
  if (layers) {
    void *elements = NULL;
    status = ls_worse(status, parse_list(ctx, &w->arena, "layers", layer_rows, LS_COUNT(layer_rows), layers,
                                         LAYERS_MAX, sizeof *w->layer, &elements, &w->layer_count));
    w->layer = elements;
  } else {
    status = ls_worse(status, ls_fail_at(ctx, LS_ERR_CONFIG, &(ls_place_t){.file = doc->file},
                                         "layers is missing: a list of layers"));
  }
  if (reported) status = ls_worse(status, parse_reported(ctx, reported, w));
  return status == LS_OK ? check_rules(ctx, doc, w) : status;
}

_Static_assert(offsetof(ls_workload_t, arena) == 0, "ls_doc_read wants the arena first");

ls_status_t ls_workload_read(ls_ctx_t *ctx, const char *name, const char *text, size_t len,
                             ls_workload_t *workload) {
  return ls_doc_read(ctx, name, text, len, parse_all, sizeof *workload, workload);
}

void ls_workload_release(ls_workload_t *workload) {
  ls_arena_release(&workload->arena);
  memset(workload, 0, sizeof *workload);
}

int64_t ls_workload_parameters(const ls_workload_t *workload) {
  int64_t sum = 0;
  for (int i = 0; i < workload->layer_count; i++)
    sum += workload->layer[i].repeat * workload->layer[i].parameters;
  return sum;
}
