/* stand_in_curve PROFILE: adds curves of collectives between two GPUs, so that plan prices two ranks. Probe would measure
 * them too, but its products take a minute in plain C. */
#include "machine/profile.h"

#include <stdio.h>

int main(int argc, char **argv) {
  static const char *const kinds[] = {"all-reduce nccl 2", "reduce-scatter nccl 2", "all-gather nccl 2"};
  static const ls_curve_point_t points[] = {{64, {1e4, 1e4, 1e4}}, {1 << 20, {1e5, 1e5, 1e5}}};
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  ls_profile_t *profile = NULL;
  ls_status_t status = argc == 2 && ctx ? ls_profile_load(ctx, argv[1], NULL, &profile) : LS_ERR_ARGUMENT;
  for (int i = 0; i < LS_COUNT(kinds) && !status; i++)
    status = ls_profile_put_curve(profile, kinds[i], points, LS_COUNT(points));
  if (!status) status = ls_profile_save(ctx, profile, argv[1]);
  if (status) fprintf(stderr, "stand_in_curve: %s\n", ctx ? ls_ctx_error(ctx) : "no memory");
  ls_profile_destroy(profile);
  ls_ctx_destroy(ctx);
  return status != LS_OK;
}
