/* Rows that the library has never heard of, each defined in one file and registered before main: two strategies, a
 * kind of state and a transport. */
#ifndef LS_TESTS_TOY_TOY_H
#define LS_TESTS_TOY_TOY_H

#include "comm/transport.h"
#include "strategy/lower.h"

#define TOY_STRATEGY  "toy"
#define TOY_LOCAL     "local"
#define TOY_STATE     "toy sums"
#define TOY_TRANSPORT "relay"

/* state.c: declares the row; adds `gradients` f32 (n), all that the optimizer reads, to its values. */
ls_status_t toy_state_declare(const ls_lower_t *in);
ls_status_t toy_state_add(ls_schedule_t *s, int gradients);

#endif
