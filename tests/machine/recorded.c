/* Loading the recorded machines. */
#include "recorded.h"

#include "unit.h"

const char *recorded_path(recorded_t which) {
  static const char *const paths[RECORDED_COUNT] = {
      [RECORDED_BRIDGE] = "tests/machine/recorded/bridge_2x4070ti_super.json",
      [RECORDED_NVLINK] = "tests/machine/recorded/nvlink_4xh200.json",
      [RECORDED_CPU] = "tests/machine/recorded/cpu_only.json",
      [RECORDED_HALF] = "tests/machine/recorded/half_refused.json"};
  return paths[which];
}

void recorded_load(recorded_t which, ls_machine_t *machine) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  assert_non_null(ctx);
  if (ls_machine_load(ctx, recorded_path(which), machine) != LS_OK) fail_msg("%s", ls_ctx_error(ctx));
  ls_ctx_destroy(ctx);
}
