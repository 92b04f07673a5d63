/* A strategy: the gradient as a whole, once, at the end; every rank adds up its part of it (reduce-scatter), and all
 * parts go to all ranks (all-gather). What no equal parts can be made of is summed everywhere. */
#include "toy.h"

enum { FLOAT_BYTES = sizeof(float) };

typedef struct {
  bool remember;
} toy_options_t;

static const ls_option_t rows[] = {{.name = "remember",
                                    .type = LS_FIELD_BOOL,
                                    .offset = offsetof(toy_options_t, remember),
                                    .initial = "true",
                                    .change = LS_CHANGE_RUN,
                                    .help = "Adds up the gradients of all steps, and saves that."}};
static const ls_section_t section = {"parallel.toy", rows, LS_COUNT(rows), "What the toy remembers."};

static ls_status_t exchange_all(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  const int gradients = bucket->gradients;
  (void)in;
  if (s->world_size == 1) return s->status;
  int64_t count = s->tensors[gradients].shape.dim[0], part = count / s->world_size,
          even = part * s->world_size;
  if (part > 0) {
    int whole = ls_schedule_part(s, "even part", LS_SHAPE(LS_F32, even), gradients, 0);
    int own = ls_schedule_part(s, "own part", LS_SHAPE(LS_F32, part), gradients,
                               (size_t)(s->rank * part * FLOAT_BYTES));
    ls_schedule_collective(s, "toy scatter", LS_GROUP_WORLD, LS_REDUCE_SCATTER, whole, own);
    ls_schedule_collective(s, "toy gather", LS_GROUP_WORLD, LS_ALL_GATHER, own, whole);
  }
  if (even < count) {
    int rest =
        ls_schedule_part(s, "rest", LS_SHAPE(LS_F32, count - even), gradients, (size_t)(even * FLOAT_BYTES));
    ls_schedule_collective(s, "toy rest", LS_GROUP_WORLD, LS_ALL_REDUCE, rest, rest);
  }
  return s->status;
}

static ls_status_t remember(ls_schedule_t *s, const ls_lower_t *in, const ls_bucket_t *bucket) {
  (void)in;
  return toy_state_add(s, bucket->gradients);
}

static ls_status_t place(ls_ctx_t *ctx, const ls_lower_t *in, const ls_placement_t **placement) {
  static const ls_placement_t plain = {.bucket_bytes = INT64_MAX, .ready = exchange_all},
                              remembering = {.bucket_bytes = INT64_MAX,
                                             .declare = toy_state_declare,
                                             .ready = exchange_all,
                                             .collect = remember};
  const toy_options_t *own = in->options.own;
  if (!in->optim) return LS_OK;
  if (in->options.reproducible || in->options.wire != LS_F32)
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "strategy toy: its sums belong to the number of ranks, and are f32");
  *placement = !own || own->remember ? &remembering : &plain;
  return LS_OK;
}

static ls_status_t propose(const ls_proposal_t *proposal) {
  ls_strategy_options_t options = *proposal->configured;
  toy_options_t *own = ls_arena_alloc(proposal->arena, sizeof *own);
  if (!own) return LS_ERR_MEMORY;
  own->remember = !((const toy_options_t *)options.own)->remember;
  options.own = own;
  return proposal->emit(proposal->user, &options);
}

static const ls_strategy_t strategy = {.name = TOY_STRATEGY,
                                       .help = "the whole gradient at the end, by parts",
                                       .distributed = true,
                                       .section = &section,
                                       .own_bytes = sizeof(toy_options_t),
                                       .propose = propose,
                                       .place = place};

__attribute__((constructor)) static void add(void) {
  ls_strategy_register(&strategy);
}
