/* The machine file: sections by option rows, figures by rows of their own. A figure is {value, source}. A
 * number without a source is refused, because later nobody could tell whether it was measured, printed or
 * guessed. */
#include "plan/simulate.h"

#include <string.h>

const char *const ls_sim_precisions[] = {"fp32", "tf32", "fp16", "bf16", NULL};
static const char *const topologies[] = {"host-bridge", "nvlink", "switch", NULL};
static const char *const shares[] = {"even", "proportional", "both", NULL};

enum { KINDS_MAX = 16, ROWS_MAX = 16, SECTION_BYTES = 64 };

typedef struct {
  const char *name, *unit;
  size_t offset; /* of an ls_sim_figure_t */
  double min, max;
  bool required;
  double initial; /* when not given */
  const char *help;
} figure_row_t;

#define FIGURE(struct_, field_, name_, ...)                                                                  \
  { .name = (name_), .offset = offsetof(struct_, field_), __VA_ARGS__ }

static const figure_row_t device_figures[] = {
    FIGURE(ls_sim_device_t, memory_bytes, "memory_bytes", .unit = "bytes", .min = 1e6, .max = 1e15,
           .required = true, .help = "memory of the device"),
    FIGURE(ls_sim_device_t, memory_bytes_per_s, "memory_bytes_per_s", .unit = "bytes/s", .min = 1e6,
           .max = 1e15, .required = true, .help = "peak memory bandwidth"),
    FIGURE(ls_sim_device_t, memory_achieved, "memory_achieved", .min = 0.01, .max = 1, .initial = 1,
           .help = "fraction of the peak that streaming reaches"),
    FIGURE(ls_sim_device_t, flops_per_s[LS_SIM_FP32], "fp32_flops_per_s", .unit = "FLOP/s", .min = 1e6,
           .max = 1e18, .required = true, .help = "peak rate in fp32"),
    FIGURE(ls_sim_device_t, flops_per_s[LS_SIM_TF32], "tf32_flops_per_s", .unit = "FLOP/s", .min = 1e6,
           .max = 1e18, .help = "peak rate in tf32"),
    FIGURE(ls_sim_device_t, flops_per_s[LS_SIM_FP16], "fp16_flops_per_s", .unit = "FLOP/s", .min = 1e6,
           .max = 1e18, .help = "peak rate in fp16"),
    FIGURE(ls_sim_device_t, flops_per_s[LS_SIM_BF16], "bf16_flops_per_s", .unit = "FLOP/s", .min = 1e6,
           .max = 1e18, .help = "peak rate in bf16"),
    FIGURE(ls_sim_device_t, achieved, "achieved", .min = 0.01, .max = 1, .initial = 1,
           .help = "fraction of the peak that large fp32 products reach"),
    FIGURE(ls_sim_device_t, achieved_tensor, "achieved_tensor", .min = 0.01, .max = 1, .initial = 1,
           .help = "the same for tf32, fp16 and bf16"),
    FIGURE(ls_sim_device_t, half_flops, "half_flops", .unit = "FLOP", .min = 0, .max = 1e15, .initial = 0,
           .help = "size of the fp32 product that runs at half of the rate of large ones"),
    FIGURE(ls_sim_device_t, half_flops_tensor, "half_flops_tensor", .unit = "FLOP", .min = 0, .max = 1e15,
           .initial = 0, .help = "the same for tf32, fp16 and bf16"),
    FIGURE(ls_sim_device_t, launch_ns, "launch_ns", .unit = "ns", .min = 0, .max = 1e9, .required = true,
           .help = "time that each kernel costs besides its work"),
};
static const figure_row_t node_figures[] = {
    FIGURE(ls_sim_node_t, link_latency_ns, "link_latency_ns", .unit = "ns", .min = 0, .max = 1e9,
           .required = true, .help = "of one message between two devices"),
    FIGURE(ls_sim_node_t, link_bytes_per_s, "link_bytes_per_s", .unit = "bytes/s", .min = 1e3, .max = 1e15,
           .required = true, .help = "of one device, in each direction"),
    FIGURE(ls_sim_node_t, bridge_bytes_per_s, "bridge_bytes_per_s", .unit = "bytes/s", .min = 1e3,
           .max = 1e15, .help = "all devices' transfers together (host-bridge)"),
    FIGURE(ls_sim_node_t, collective_overhead_ns, "collective_overhead_ns", .unit = "ns", .min = 0,
           .max = 1e9, .initial = 0, .help = "of each collective, besides its messages"),
    FIGURE(ls_sim_node_t, quick_overhead_ns, "quick_overhead_ns", .unit = "ns", .min = 0, .max = 1e9,
           .initial = 0, .help = "the same with the protocol for small messages"),
    FIGURE(ls_sim_node_t, quick_bytes_per_s, "quick_bytes_per_s", .unit = "bytes/s", .min = 1e3, .max = 1e15,
           .help = "link_bytes_per_s with the protocol for small messages"),
    FIGURE(ls_sim_node_t, host_bytes_per_s, "host_bytes_per_s", .unit = "bytes/s", .min = 1e3, .max = 1e15,
           .required = true, .help = "copies between host and one device"),
    FIGURE(ls_sim_node_t, step_overhead_ns, "step_overhead_ns", .unit = "ns", .min = 0, .max = 1e12,
           .initial = 0, .help = "of each step: launch and bookkeeping"),
    FIGURE(ls_sim_node_t, overlap_slowdown, "overlap_slowdown", .min = 1, .max = 100, .initial = 1,
           .help = "factor by which ops slow down while the device communicates"),
};
static const figure_row_t network_figures[] = {
    FIGURE(ls_sim_network_t, latency_ns, "latency_ns", .unit = "ns", .min = 0, .max = 1e9, .required = true,
           .help = "of one message between two nodes"),
    FIGURE(ls_sim_network_t, bytes_per_s, "bytes_per_s", .unit = "bytes/s", .min = 1e3, .max = 1e15,
           .required = true, .help = "of one node, in each direction"),
};

#define ROW(type_, struct_, field_, ...)                                                                     \
  { .name = #field_, .type = (type_), .offset = offsetof(struct_, field_), __VA_ARGS__ }

static const ls_option_t top_rows[] = {
    ROW(LS_FIELD_STRING, ls_sim_machine_t, name, .help = "What this machine is."),
    ROW(LS_FIELD_STRING, ls_sim_machine_t, notes, .optional = true,
        .help = "What a reader should know about it."),
    ROW(LS_FIELD_CHOICE, ls_sim_machine_t, shares, .choices = shares, .initial = "both",
        .help = "Unequal devices: equal shares of the global batch, or as much as each can do."),
};
static const ls_option_t device_rows[] = {
    ROW(LS_FIELD_STRING, ls_sim_device_t, name, .help = "The kind of device."),
    ROW(LS_FIELD_INT64, ls_sim_device_t, count, .min = 1, .max = 1024, .initial = "1",
        .help = "So many on each node."),
};
static const ls_option_t node_rows[] = {
    ROW(LS_FIELD_CHOICE, ls_sim_node_t, topology, .choices = topologies,
        .help = "How the devices of a node are linked."),
};
static const ls_option_t network_rows[] = {
    ROW(LS_FIELD_INT64, ls_sim_network_t, nodes, .min = 1, .max = 65536, .help = "How many nodes there are."),
};

typedef struct {
  const char *name;
  const ls_option_t *rows;
  int count;
  const figure_row_t *figures;
  int figure_count;
} part_t;
static const part_t device_part = {"devices", device_rows, LS_COUNT(device_rows), device_figures,
                                   LS_COUNT(device_figures)};
static const part_t node_part = {"node", node_rows, LS_COUNT(node_rows), node_figures,
                                 LS_COUNT(node_figures)};
static const part_t network_part = {"network", network_rows, LS_COUNT(network_rows), network_figures,
                                    LS_COUNT(network_figures)};

static ls_sim_figure_t *figure_at(void *section, const figure_row_t *row) {
  return (ls_sim_figure_t *)((char *)section + row->offset);
}

static ls_status_t parse_figure(ls_ctx_t *ctx, ls_arena_t *arena, const char *section,
                                const figure_row_t *row, const ls_doc_node_t *map, ls_sim_figure_t *figure) {
  const ls_doc_node_t *node = ls_doc_get(map, row->name);
  *figure = (ls_sim_figure_t){.value = row->initial};
  if (!node && !row->required) return LS_OK;
  if (!node)
    return ls_fail_at(ctx, LS_ERR_CONFIG, map->key ? &map->key_place : &map->place,
                      "%s.%s is missing: {value: .., source: ..}, %s%s%s", section, row->name, row->help,
                      row->unit ? ", " : "", row->unit ? row->unit : "");
  if (node->kind == LS_DOC_SCALAR)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place,
                      "%s.%s: a figure is {value: .., source: ..}: say where the number comes from", section,
                      row->name);
  const ls_option_t rows[] = {
      {.name = "value",
       .type = LS_FIELD_REAL,
       .offset = offsetof(ls_sim_figure_t, value),
       .unit = row->unit,
       .min = row->min,
       .max = row->max,
       .help = row->help},
      {.name = "source",
       .type = LS_FIELD_STRING,
       .offset = offsetof(ls_sim_figure_t, source),
       .help = "Data sheet, paper, \"measured ..\" or \"assumed ..\"."},
  };
  char name[SECTION_BYTES + 64];
  snprintf(name, sizeof name, "%s.%s", section, row->name);
  const ls_section_t part = {name, rows, LS_COUNT(rows), row->help};
  ls_status_t status = ls_option_parse(ctx, arena, &part, node, NULL, figure);
  if (status == LS_OK && !figure->source[0])
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place, "%s: the source is empty", name);
  return status;
}

/* Rows and figures of one map. `map` is not NULL. */
static ls_status_t parse_part(ls_ctx_t *ctx, ls_arena_t *arena, const part_t *part, const char *name,
                              const ls_doc_node_t *map, void *target) {
  const char *figures[ROWS_MAX + 1] = {NULL};
  for (int i = 0; i < part->figure_count; i++)
    figures[i] = part->figures[i].name;
  const ls_section_t section = {name, part->rows, part->count, ""};
  ls_status_t status = ls_option_parse(ctx, arena, &section, map, figures, target);
  if (map->kind != LS_DOC_MAP) return status;
  for (int i = 0; i < part->figure_count; i++)
    status = ls_worse(
        status, parse_figure(ctx, arena, name, &part->figures[i], map, figure_at(target, &part->figures[i])));
  return status;
}
_Static_assert(LS_COUNT(device_figures) <= ROWS_MAX && LS_COUNT(node_figures) <= ROWS_MAX, "names fit");

static ls_status_t parse_devices(ls_ctx_t *ctx, const ls_doc_t *doc, ls_sim_machine_t *m) {
  const ls_doc_node_t *list = ls_doc_get(doc->root, "devices");
  if (!list)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &(ls_place_t){.file = doc->file},
                      "devices is missing: a list of device kinds");
  if (list->kind != LS_DOC_LIST || list->count < 1 || list->count > KINDS_MAX)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &list->place,
                      "devices: a list of 1 to %d device kinds was expected", KINDS_MAX);
  m->device = ls_arena_array(&m->arena, (size_t)list->count, sizeof *m->device);
  if (!m->device) return LS_ERR_MEMORY;
  ls_status_t status = LS_OK;
  for (const ls_doc_node_t *node = list->child; node; node = node->next) {
    char name[SECTION_BYTES];
    snprintf(name, sizeof name, "devices.%d", m->kinds);
    status = ls_worse(status, parse_part(ctx, &m->arena, &device_part, name, node, &m->device[m->kinds]));
    m->node_devices += (int)m->device[m->kinds++].count;
  }
  return status;
}

static ls_status_t parse_node(ls_ctx_t *ctx, const ls_doc_t *doc, ls_sim_machine_t *m) {
  const ls_doc_node_t *map = ls_doc_get(doc->root, "node");
  if (!map)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &(ls_place_t){.file = doc->file}, "node is missing: its links");
  ls_status_t status = parse_part(ctx, &m->arena, &node_part, "node", map, &m->node);
  if (map->kind != LS_DOC_MAP) return status;
  if (m->node.topology == LS_SIM_HOST_BRIDGE && ls_doc_get(map, "topology") &&
      !m->node.bridge_bytes_per_s.source && !ls_doc_get(map, "bridge_bytes_per_s"))
    status = ls_worse(
        status, ls_fail_at(ctx, LS_ERR_CONFIG, &map->key_place,
                           "node.bridge_bytes_per_s is missing: devices behind a host bridge share it"));
  return status;
}

static ls_status_t parse_all(ls_ctx_t *ctx, const ls_doc_t *doc, void *target) {
  ls_sim_machine_t *m = target;
  static const char *const nested[] = {"devices", "node", "network", NULL};
  const ls_section_t top = {"", top_rows, LS_COUNT(top_rows), ""};
  ls_status_t status = ls_option_parse(ctx, &m->arena, &top, doc->root, nested, m);
  status = ls_worse(status, parse_devices(ctx, doc, m));
  status = ls_worse(status, parse_node(ctx, doc, m));
  const ls_doc_node_t *network = ls_doc_get(doc->root, "network");
  m->network.nodes = 1;
  if (network)
    status = ls_worse(status, parse_part(ctx, &m->arena, &network_part, "network", network, &m->network));
  return status;
}

_Static_assert(offsetof(ls_sim_machine_t, arena) == 0, "ls_doc_read wants the arena first");

ls_status_t ls_sim_machine_read(ls_ctx_t *ctx, const char *name, const char *text, size_t len,
                                ls_sim_machine_t *machine) {
  return ls_doc_read(ctx, name, text, len, parse_all, sizeof *machine, machine);
}

void ls_sim_machine_release(ls_sim_machine_t *machine) {
  ls_arena_release(&machine->arena);
  memset(machine, 0, sizeof *machine);
}

int ls_sim_machine_devices(const ls_sim_machine_t *machine) {
  return machine->node_devices * (int)machine->network.nodes;
}

int ls_sim_machine_kind(const ls_sim_machine_t *machine, int rank) {
  int64_t place = rank % machine->node_devices;
  int kind = 0;
  while (kind < machine->kinds - 1 && place >= machine->device[kind].count)
    place -= machine->device[kind++].count;
  return kind;
}

static json_t *part_json(const part_t *part, void *section) {
  const ls_section_t rows = {part->name, part->rows, part->count, ""};
  json_t *j = ls_option_json(&rows, section);
  for (int i = 0; i < part->figure_count; i++) {
    const ls_sim_figure_t *figure = figure_at(section, &part->figures[i]);
    if (!figure->source) continue;
    json_object_set_new(j, part->figures[i].name,
                        json_pack("{s:f, s:s}", "value", figure->value, "source", figure->source));
  }
  return j;
}

json_t *ls_sim_machine_json(const ls_sim_machine_t *machine) {
  ls_sim_machine_t m = *machine; /* part_json does not change it, but takes one kind of pointer for all */
  json_t *devices = json_array();
  for (int i = 0; i < m.kinds; i++)
    json_array_append_new(devices, part_json(&device_part, &m.device[i]));
  json_t *j = json_pack("{s:s, s:o, s:o}", "name", m.name, "devices", devices, "node",
                        part_json(&node_part, &m.node));
  if (m.notes) json_object_set_new(j, "notes", json_string(m.notes));
  if (m.network.bytes_per_s.source) json_object_set_new(j, "network", part_json(&network_part, &m.network));
  return j;
}
