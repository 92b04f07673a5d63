/* single: the whole batch on one device. Every other strategy has to beat it. */
#include "strategy/lower.h"

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  (void)placement;
  if (!in->optim || in->world_size == 1)
    return LS_OK; /* an evaluation has nothing to exchange, in any world */
  return ls_fail(ctx, LS_ERR_ARGUMENT, "strategy single runs on one rank, not on %d", in->world_size);
}

const ls_strategy_t ls_strategy_single = {
    .name = "single",
    .help = "the whole batch on one device",
    .distributed = false,
    .place = place,
};
