/* See support.h. */
#include "support.h"

#include <math.h>

void machine_make(capture_t *c, const char *text, ls_sim_machine_t *machine) {
  if (ls_sim_machine_read(c->ctx, "m.yaml", text, strlen(text), machine) != LS_OK) fail_msg("%s", c->text);
}

void workload_make(capture_t *c, const char *text, ls_workload_t *workload) {
  if (ls_workload_read(c->ctx, "w.yaml", text, strlen(text), workload) != LS_OK) fail_msg("%s", c->text);
}

void assert_close(double value, double expected) {
  if (!(fabs(value - expected) <= 1e-9 * fabs(expected) + 1e-12))
    fail_msg("%.12g, not %.12g", value, expected);
}
