/* Findings about GPUs and the links between them. */
#include "probe/doctor_rows.h"

#include <stdio.h>
#include <string.h>

/* nvmlClocksThrottleReasons (NVML API Reference Guide). */
enum {
  THROTTLE_IDLE = 0x1,
  THROTTLE_POWER_CAP = 0x4,
  THROTTLE_HW_SLOWDOWN = 0x8,
  THROTTLE_SW_THERMAL = 0x20,
  THROTTLE_HW_THERMAL = 0x40,
  THROTTLE_POWER_BRAKE = 0x80
};

/* Peer access refused between GPUs of one of these links. */
static bool refused_over(const ls_doctor_subject_t *p, ls_link_t least, ls_link_t most, char *evidence) {
  const ls_machine_t *m = p->machine;
  int pairs = 0, refused = 0, a = 0, b = 0;
  for (int i = 0; i < m->gpu_count; i++)
    for (int j = i + 1; j < m->gpu_count; j++) {
      if (m->link[i][j] < least || m->link[i][j] > most) continue;
      pairs++;
      if (m->peer_access[i][j] != 0) continue;
      if (refused++ == 0) {
        a = i;
        b = j;
      }
    }
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "peer access is off between %d of %d pairs of GPUs, first %d-%d, linked by %s%s%s", refused, pairs,
           a, b, ls_link_name(m->link[a][b]), *m->virtualization ? "; in " : "", m->virtualization);
  return refused > 0;
}

bool ls_doctor_peer_off(const ls_doctor_subject_t *p, char *evidence) {
  return refused_over(p, LS_LINK_NVLINK, LS_LINK_PCIE_SWITCH, evidence);
}

bool ls_doctor_peer_off_bridge(const ls_doctor_subject_t *p, char *evidence) {
  return refused_over(p, LS_LINK_HOST_BRIDGE, LS_LINK_HOST_BRIDGE, evidence);
}

bool ls_doctor_copies_wrong(const ls_doctor_subject_t *p, char *evidence) {
  snprintf(evidence, LS_EVIDENCE_BYTES, "copies between %d pairs of devices arrived with wrong bytes",
           p->wrong_copies);
  return p->wrong_copies > 0;
}

bool ls_doctor_pcie_width(const ls_doctor_subject_t *p, char *evidence) {
  for (int i = 0; i < p->machine->gpu_count; i++) {
    const ls_gpu_t *g = &p->machine->gpu[i];
    if (g->pcie_width <= 0 || g->pcie_width >= g->pcie_width_max) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "GPU %d (%s) is a x%d card in a x%d link", i, g->name,
             g->pcie_width_max, g->pcie_width);
    return true;
  }
  return false;
}

/* An idle card falls back to generation 1 to save power, so only a busy card is reported. */
bool ls_doctor_pcie_generation(const ls_doctor_subject_t *p, char *evidence) {
  for (int i = 0; i < p->machine->gpu_count; i++) {
    const ls_gpu_t *g = &p->machine->gpu[i];
    bool busy = g->throttle_reasons >= 0 && !(g->throttle_reasons & THROTTLE_IDLE);
    if (!busy || g->pcie_generation <= 0 || g->pcie_generation >= g->pcie_generation_max) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "GPU %d (%s) is busy, but its link runs at PCIe %d.0 of %d.0", i,
             g->name, g->pcie_generation, g->pcie_generation_max);
    return true;
  }
  return false;
}

static bool throttled(const ls_doctor_subject_t *p, int64_t reasons, const char *what, char *evidence) {
  for (int i = 0; i < p->machine->gpu_count; i++) {
    const ls_gpu_t *g = &p->machine->gpu[i];
    if (g->throttle_reasons < 0 || !(g->throttle_reasons & reasons)) continue;
    int used = snprintf(evidence, LS_EVIDENCE_BYTES, "GPU %d (%s) is held back by %s", i, g->name, what);
    if (g->power_w >= 0 && g->power_limit_w > 0)
      used += snprintf(evidence + used, (size_t)(LS_EVIDENCE_BYTES - used), ", %.0f of %.0f W", g->power_w,
                       g->power_limit_w);
    if (g->temperature_c >= 0)
      used += snprintf(evidence + used, (size_t)(LS_EVIDENCE_BYTES - used), ", %d C", g->temperature_c);
    if (g->clock_sm_mhz >= 0 && g->clock_sm_max_mhz > 0)
      snprintf(evidence + used, (size_t)(LS_EVIDENCE_BYTES - used), ", %d of %d MHz", g->clock_sm_mhz,
               g->clock_sm_max_mhz);
    return true;
  }
  return false;
}

bool ls_doctor_power_cap(const ls_doctor_subject_t *p, char *evidence) {
  return throttled(p, THROTTLE_POWER_CAP | THROTTLE_POWER_BRAKE, "its power limit", evidence);
}

bool ls_doctor_thermal_cap(const ls_doctor_subject_t *p, char *evidence) {
  return throttled(p, THROTTLE_HW_SLOWDOWN | THROTTLE_SW_THERMAL | THROTTLE_HW_THERMAL,
                   "temperature or hardware slowdown", evidence);
}

/* Compares all neighbours at once with the slowest pair alone. */
bool ls_doctor_transfers_collapse(const ls_doctor_subject_t *p, char *evidence) {
  static const char prefix[] = "device-copy ";
  const ls_curve_point_t *points;
  ls_time_t all;
  int count;
  double slowest = 0, bytes = 0;
  if (!p->profile || !ls_profile_get(p->profile, "device-copy cuda all", &all)) return false;
  for (int i = 0; i < ls_profile_curve_count(p->profile); i++) {
    const char *key = ls_profile_curve_at(p->profile, i, &points, &count);
    if (strncmp(key, prefix, sizeof prefix - 1) != 0 || points[count - 1].time.ns <= slowest) continue;
    slowest = points[count - 1].time.ns;
    bytes = points[count - 1].bytes;
  }
  if (slowest <= 0 || all.ns <= 1.5 * slowest) return false;
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "a copy between two GPUs reaches %.1f GB/s alone, %.1f GB/s when all copy at once",
           bytes / slowest, bytes / all.ns);
  return true;
}

bool ls_doctor_gpus_unequal(const ls_doctor_subject_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  for (int i = 1; i < m->gpu_count; i++) {
    if (!strcmp(m->gpu[i].name, m->gpu[0].name)) continue;
    snprintf(evidence, LS_EVIDENCE_BYTES, "GPU 0 is a %s, GPU %d a %s", m->gpu[0].name, i, m->gpu[i].name);
    return true;
  }
  return false;
}

bool ls_doctor_gpus_unread(const ls_doctor_subject_t *p, char *evidence) {
  const ls_machine_t *m = p->machine;
  int unread = 0;
  for (int i = 0; i < m->gpu_count; i++) {
    const ls_gpu_t *g = &m->gpu[i];
    unread += g->throttle_reasons < 0 || g->power_w < 0 || g->clock_sm_mhz < 0 || g->pcie_width < 0;
  }
  snprintf(evidence, LS_EVIDENCE_BYTES,
           "NVML refuses clocks, power, limits or links of %d of %d GPUs%s%.100s", unread, m->gpu_count,
           *m->gpu_refused ? "; " : "", m->gpu_refused);
  return unread > 0 || (m->gpu_count > 0 && *m->gpu_refused);
}
