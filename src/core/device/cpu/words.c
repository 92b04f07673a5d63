/* Words of memory in a burn-in: the loops of device/words.h, shared among the threads. */
#include "device/words.h"

#include "device/cpu/cpu.h"

enum { GRAIN = 1024 };

static void part_turn(const void *arg, int64_t begin, int64_t end, double sums[2]) {
  const ls_kernel_args_t *args = arg;
  const int64_t *i = args->attrs->i;
  sums[0] = (double)ls_words_turn(args->out[0].data, begin, end, i[LS_TURN_FIRST], i[LS_TURN_SWEEP],
                                  i[LS_TURN_CHECK] != 0);
  sums[1] = 0;
}

static ls_status_t turn_words(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const int64_t count = args->attrs->i[LS_TURN_COUNT];
  double sums[2];
  ls_cpu_sum(stream, count, GRAIN, LS_CPU_BYTES(8 * count), part_turn, args, sums);
  *(int64_t *)args->out[1].data += (int64_t)sums[0];
  return LS_OK;
}

static void part_differ(const void *arg, int64_t begin, int64_t end, double sums[2]) {
  const ls_kernel_args_t *args = arg;
  sums[0] = (double)ls_words_differ(args->in[0].data, args->in[1].data, begin, end);
  sums[1] = 0;
}

static ls_status_t differing_words(ls_stream_t *stream, const ls_kernel_args_t *args) {
  const int64_t count = ls_shape_count(&args->in[0].shape);
  double sums[2];
  ls_cpu_sum(stream, count, GRAIN, LS_CPU_BYTES(8 * count), part_differ, args, sums);
  *(int64_t *)args->out[0].data += (int64_t)sums[0];
  return LS_OK;
}

const ls_cpu_row_t ls_cpu_words_rows[] = {
    {"turn_words", turn_words}, {"differing_words", differing_words}, {NULL, NULL}};
