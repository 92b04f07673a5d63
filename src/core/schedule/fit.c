/* fit: the bytes that a program needs on this rank. The result is exact, not an estimate: it adds up the
 * memory layouts and the rows of the state, and exactly these regions are allocated. */
#include "schedule/access.h"
#include "schedule/program.h"

#include <string.h>

static const char *const usual_parts[] = {"parameters", "gradients",   "optimizer", "data",
                                          "inputs",     "activations", "other"};

/* The size if every transient tensor had bytes of its own. */
static int64_t unshared_bytes(const ls_schedule_t *s) {
  size_t sum = 0;
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    if (t->region == LS_REGION_TRANSIENT && t->alias_of < 0) sum += ls_align_up(t->size_bytes);
  }
  return (int64_t)sum;
}

/* The last part takes everything for which there is no other. */
static void add(ls_fit_t *fit, const char *part, int64_t bytes) {
  int i = 0;
  while (i < fit->part_count && strcmp(fit->part[i].name, part) != 0)
    i++;
  if (i == fit->part_count && fit->part_count < LS_FIT_PARTS_MAX) fit->part[fit->part_count++].name = part;
  if (i == LS_FIT_PARTS_MAX) i--;
  fit->part[i].bytes += bytes;
  fit->device_total_bytes += bytes;
}

static bool names_region(const ls_program_t *p, ls_region_t region) {
  for (int m = 0; m < p->count; m++)
    for (int i = 0; i < p->member[m]->tensor_count; i++)
      if (p->member[m]->tensors[i].region == region) return true;
  return false;
}

void ls_program_fit(const ls_program_t *p, ls_fit_t *fit) {
  const ls_schedule_t *first = p->member[0];
  memset(fit, 0, sizeof(*fit));
  for (int i = 0; i < LS_COUNT(usual_parts); i++)
    add(fit, usual_parts[i], 0);
  for (int i = 0; first->state && i < first->state->count; i++)
    if (names_region(p, LS_REGION_STATE + i))
      add(fit, first->state->row[i].part, (int64_t)ls_state_row_bytes(&first->state->row[i]));
  for (int r = 0; r < LS_REGION_STATE; r++) {
    const ls_region_row_t *row = &ls_region_rows[r];
    int64_t bytes = (row->per_slot ? first->input_slots : 1) * (int64_t)ls_program_bytes(p, r);
    if (row->memory == LS_MEM_HOST)
      fit->host_pinned_bytes += bytes;
    else if (row->part)
      add(fit, row->part, bytes);
  }
  for (int m = 0; m < p->count; m++) {
    int64_t bytes = unshared_bytes(p->member[m]);
    if (bytes > fit->transient_unshared_bytes) fit->transient_unshared_bytes = bytes;
  }
}

int64_t ls_fit_bytes(const ls_fit_t *fit, const char *part) {
  for (int i = 0; i < fit->part_count; i++)
    if (!strcmp(fit->part[i].name, part)) return fit->part[i].bytes;
  return 0;
}
