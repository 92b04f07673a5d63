/* Shows a machine to people: a tree of the node, and a matrix of the links between GPUs. */
#include "machine/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* "1.5 GiB", "not known". */
typedef struct {
  char text[32];
} size_text_t;

static size_text_t size_text(int64_t bytes) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_text_t t = {"not known"};
  if (bytes < 0) return t;
  double value = (double)bytes;
  int unit = 0;
  for (; value >= 1024 && unit < LS_COUNT(units) - 1; unit++)
    value /= 1024;
  snprintf(t.text, sizeof t.text, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return t;
}

/* "2 cores, " and nothing for unknown counts. */
static void put_count(FILE *to, const char *separator, int count, const char *one, const char *many) {
  if (count >= 0) fprintf(to, "%s%d %s", separator, count, count == 1 ? one : many);
}

static const char *known(const char *text) {
  return *text ? text : "not known";
}

static void draw_host(FILE *to, const ls_machine_t *m) {
  char hex[17];
  ls_machine_fingerprint(m, hex);
  fprintf(to, "machine %s\n", hex);
  fprintf(to, "├─ cpu       %s%s%s\n", known(m->cpu_model), *m->cpu_flags ? ", " : "", m->cpu_flags);
  fprintf(to, "│            ");
  put_count(to, "", m->packages, "package", "packages");
  put_count(to, ", ", m->cores, "core", "cores");
  put_count(to, ", ", m->threads, "hardware thread", "hardware threads");
  put_count(to, ", ", m->usable_cpus, "usable here", "usable here");
  put_count(to, ", ", m->numa_nodes, "NUMA node", "NUMA nodes");
  fprintf(to, "\n├─ memory    %s; L1 %s, L2 %s, L3 %s\n", size_text(m->memory_bytes).text,
          size_text(m->l1_bytes).text, size_text(m->l2_bytes).text, size_text(m->l3_bytes).text);
}

static void draw_software(FILE *to, const ls_machine_t *m) {
  const struct {
    const char *label, *text;
  } rows[] = {
      {"MPI", m->mpi}, {"NCCL", m->nccl}, {"driver", m->driver}, {"CUDA", m->cuda}, {"BLAS", m->blas}};
  fprintf(to, "├─ software  ");
  const char *separator = "";
  for (int i = 0; i < LS_COUNT(rows); i++) {
    if (!*rows[i].text) continue;
    fprintf(to, "%s%s %s", separator, rows[i].label, rows[i].text);
    separator = "; ";
  }
  fprintf(to, "%s\n├─ system    %s%s%s\n", *separator ? "" : "not known", known(m->kernel),
          *m->virtualization ? ", in " : "", m->virtualization);
}

static void put_pcie(FILE *to, const ls_gpu_t *g) {
  if (g->pcie_generation < 0 && g->pcie_width < 0) return;
  fprintf(to, ", PCIe");
  if (g->pcie_generation_max > 0) fprintf(to, " %d.0", g->pcie_generation_max);
  if (g->pcie_width > 0) fprintf(to, " x%d", g->pcie_width);
  if (g->pcie_width > 0 && g->pcie_width < g->pcie_width_max) fprintf(to, " of x%d", g->pcie_width_max);
  if (g->pcie_generation > 0 && g->pcie_generation < g->pcie_generation_max)
    fprintf(to, " (at %d.0 now)", g->pcie_generation);
}

static void draw_gpu(FILE *to, const ls_machine_t *m, int i) {
  const ls_gpu_t *g = &m->gpu[i];
  bool last = i == m->gpu_count - 1;
  fprintf(to, "   %s %-2d %s, %s", last ? "└─" : "├─", i, known(g->name), size_text(g->memory_bytes).text);
  if (g->sm_count >= 0) fprintf(to, ", %d SMs", g->sm_count);
  if (g->compute_major >= 0) fprintf(to, ", compute %d.%d", g->compute_major, g->compute_minor);
  if (g->nvlink_count > 0) fprintf(to, ", %d NVLinks", g->nvlink_count);
  put_pcie(to, g);
  fprintf(to, "\n   %s    ", last ? "  " : "│ ");
  if (g->clock_sm_mhz >= 0)
    fprintf(to, "SM clock %d", g->clock_sm_mhz);
  else
    fprintf(to, "SM clock not known");
  if (g->clock_sm_max_mhz >= 0) fprintf(to, " of %d", g->clock_sm_max_mhz);
  if (g->clock_sm_mhz >= 0 || g->clock_sm_max_mhz >= 0) fprintf(to, " MHz");
  if (g->power_w >= 0) fprintf(to, ", %.0f W", g->power_w);
  if (g->power_limit_w >= 0) fprintf(to, "%s%.0f W", g->power_w >= 0 ? " of " : ", limit ", g->power_limit_w);
  if (g->temperature_c >= 0) fprintf(to, ", %d C", g->temperature_c);
  if (g->numa_node >= 0) fprintf(to, ", NUMA node %d", g->numa_node);
  fprintf(to, "\n");
}

static void draw_gpus(FILE *to, const ls_machine_t *m) {
  if (m->gpu_count == 0) {
    fprintf(to, "└─ gpus      none%s%s%s\n", *m->gpu_refused ? " (" : "", m->gpu_refused,
            *m->gpu_refused ? ")" : "");
    return;
  }
  fprintf(to, "└─ gpus      %d%s%s%s\n", m->gpu_count, *m->gpu_refused ? " (" : "", m->gpu_refused,
          *m->gpu_refused ? ")" : "");
  for (int i = 0; i < m->gpu_count; i++)
    draw_gpu(to, m, i);
}

/* "NV18", "HOST", "SWITCH!": the link; "!" marks a pair without peer access. */
static void cell(const ls_machine_t *m, int i, int j, char text[16]) {
  static const char *const names[] = {"-", "NV", "SWITCH", "BRIDGE", "NODE", "SYSTEM", "?"};
  ls_link_t link = m->link[i][j];
  const char *mark = i == j ? "" : m->peer_access[i][j] == 0 ? "!" : m->peer_access[i][j] < 0 ? "?" : "";
  if (link == LS_LINK_UNKNOWN) mark = m->peer_access[i][j] == 0 ? "!" : "";
  if (link == LS_LINK_NVLINK && m->nvlinks[i][j] > 0)
    snprintf(text, 16, "NV%d%s", m->nvlinks[i][j] % 1000, mark);
  else
    snprintf(text, 16, "%s%s", names[link], mark);
}

static void draw_matrix(FILE *to, const ls_machine_t *m) {
  if (m->gpu_count < 2) return;
  bool used[LS_LINK_UNKNOWN + 1] = {false}, refused = false, unknown = false;
  fprintf(to, "\ngpu  ");
  for (int j = 0; j < m->gpu_count; j++)
    fprintf(to, " %7d", j);
  for (int i = 0; i < m->gpu_count; i++) {
    fprintf(to, "\n  %-3d", i);
    for (int j = 0; j < m->gpu_count; j++) {
      char text[16];
      cell(m, i, j, text);
      fprintf(to, " %7s", text);
      used[m->link[i][j]] = true;
      refused |= i != j && m->peer_access[i][j] == 0;
      unknown |= i != j && m->peer_access[i][j] < 0;
    }
  }
  static const char *const legend[] = {NULL,
                                       "NVn = n NVLinks",
                                       "SWITCH = through PCIe switches",
                                       "BRIDGE = through the CPU's PCIe host bridge",
                                       "NODE = between host bridges of a NUMA node",
                                       "SYSTEM = between CPU sockets",
                                       NULL};
  fprintf(to, "\n");
  for (int link = 0; link <= LS_LINK_UNKNOWN; link++)
    if (used[link] && legend[link]) fprintf(to, "  %s\n", legend[link]);
  if (refused) fprintf(to, "  ! = no peer access: copies go through host memory\n");
  if (unknown) fprintf(to, "  ? = not known\n");
}

char *ls_machine_draw(const ls_machine_t *machine) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  if (!to) return NULL;
  draw_host(to, machine);
  draw_software(to, machine);
  draw_gpus(to, machine);
  draw_matrix(to, machine);
  bool failed = ferror(to) != 0;
  if (fclose(to) == 0 && !failed) return text;
  ls_free(text);
  return NULL;
}
