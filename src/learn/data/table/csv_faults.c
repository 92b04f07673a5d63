#include "data/table/csv_faults.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 20, VALUE_BYTES = 44, VALUES_BYTES = LS_CSV_FAULT_VALUES * (VALUE_BYTES + 4) + 64 };

static void add_value(ls_csv_fault_t *f, const ls_csv_cell_t *cell) {
  for (int i = 0; i < f->values; i++)
    if (f->value[i].len == cell->len && !memcmp(f->value[i].text, cell->text, cell->len)) return;
  f->more = f->values == LS_CSV_FAULT_VALUES;
  if (!f->more) f->value[f->values++] = *cell;
}

ls_csv_fault_t *ls_csv_fault_note(ls_csv_faults_t *faults, ls_csv_fault_t **of_column,
                                  ls_csv_fault_kind_t kind, const ls_csv_cell_t *cell) {
  ls_csv_fault_t *f = *of_column;
  while (f && f->kind != kind)
    f = f->of_column;
  if (!f) {
    if (!(f = ls_arena_alloc(faults->arena, sizeof *f))) return NULL;
    *f = (ls_csv_fault_t){.kind = kind, .cell = *cell, .of_column = *of_column};
    *of_column = f;
    *(faults->last ? &faults->last->next : &faults->first) = f;
    faults->last = f;
  }
  f->count++;
  if (!f->more) add_value(f, cell);
  return f;
}

/* " (4000 such cells: 'Berlin', 'Rome')"; "" for one alone. */
static const char *others(const ls_csv_fault_t *f, char text[VALUES_BYTES]) {
  char shown[VALUE_BYTES];
  size_t used = 0;
  text[0] = '\0';
  if (f->count < 2) return text;
  if (f->kind == LS_CSV_FAULT_SHORT_ROW || f->kind == LS_CSV_FAULT_LONG_ROW) {
    snprintf(text, VALUES_BYTES, " (%" PRId64 " such rows)", f->count);
    return text;
  }
  used += (size_t)snprintf(text, VALUES_BYTES, " (%" PRId64 " such cells%s: ", f->count,
                           f->more ? " of many kinds" : "");
  for (int i = 0; i < f->values; i++) {
    const ls_csv_cell_t *value = &f->value[i];
    ls_text_shown(value->text, value->len, shown, sizeof shown);
    used += (size_t)snprintf(text + used, VALUES_BYTES - used, value->len ? "%s'%s'" : "%sempty%s",
                             i ? ", " : "", shown);
  }
  snprintf(text + used, VALUES_BYTES - used, "%s)", f->more ? ", ..." : "");
  return text;
}

ls_status_t ls_csv_faults_tell(const ls_csv_scan_t *scan, const ls_csv_faults_t *faults) {
  char text[VALUES_BYTES];
  int64_t left = 0;
  int shown = 0;
  for (const ls_csv_fault_t *f = faults->first; f; f = f->next)
    if (shown++ < SHOWN)
      ls_csv_fail(scan, &f->cell, "%s%s", f->text, others(f, text));
    else
      left += f->count;
  if (left > 0)
    ls_fail(scan->ctx, LS_ERR_DATA, "%s: and %" PRId64 " more bad cells or rows", scan->name, left);
  return faults->first ? LS_ERR_DATA : LS_OK;
}
