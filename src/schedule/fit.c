/* fit: what a schedule needs on this rank, in bytes. Arithmetic on the memory plan, not an estimate: the
 * runner allocates exactly these regions. */
#include "schedule/access.h"

#include <string.h>

/* Every transient tensor in bytes of its own. */
static int64_t unshared_bytes(const ls_schedule_t *s) {
  size_t sum = 0;
  for (int i = 0; i < s->tensor_count; i++) {
    const ls_sched_tensor_t *t = &s->tensors[i];
    if (t->region == LS_REGION_TRANSIENT && t->alias_of < 0) sum += ls_align_up(t->size_bytes);
  }
  return (int64_t)sum;
}

void ls_schedule_fit(const ls_schedule_t *s, ls_fit_t *fit) {
  const size_t *bytes = s->region_bytes;
  int64_t slots = s->input_slots;
  memset(fit, 0, sizeof(*fit));
  fit->params_bytes = (int64_t)bytes[LS_REGION_PARAM];
  fit->gradients_bytes = (int64_t)bytes[LS_REGION_GRAD];
  fit->optimizer_bytes = (int64_t)bytes[LS_REGION_OPTIM];
  fit->data_bytes = (int64_t)bytes[LS_REGION_DATA];
  fit->inputs_bytes = slots * (int64_t)bytes[LS_REGION_INPUT]; /* INPUT_NEXT is one of these slots */
  fit->transient_bytes = (int64_t)bytes[LS_REGION_TRANSIENT];
  fit->other_bytes = (int64_t)bytes[LS_REGION_STAT];
  fit->device_total_bytes = fit->params_bytes + fit->gradients_bytes + fit->optimizer_bytes +
                            fit->data_bytes + fit->inputs_bytes + fit->transient_bytes + fit->other_bytes;
  fit->host_pinned_bytes = slots * (int64_t)(bytes[LS_REGION_HOST_NEXT] + bytes[LS_REGION_HOST_STAT]);
  fit->transient_unshared_bytes = unshared_bytes(s);
}
