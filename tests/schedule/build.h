/* Short ways to build small schedules by hand, from ops whose rows say only what a test needs. */
#ifndef LS_TESTS_SCHEDULE_BUILD_H
#define LS_TESTS_SCHEDULE_BUILD_H

#include "schedule/program.h"

/* The program that is this schedule alone. */
#define PROGRAM(s) ((ls_program_t[]){ls_program_of(s)})

/* All of f32, output shaped like input 0. */
extern const ls_op_t op_source;      /* () -> y: 1, 2, 3, .. (shape: i[0] elements) */
extern const ls_op_t op_double;      /* (x) -> y: 2 x; not in place */
extern const ls_op_t op_inplace;     /* (x) -> y: x + 1; in place */
extern const ls_op_t op_sum;         /* (a, b) -> y: a + b; in place of either */
extern const ls_op_t op_update;      /* (x) -> s in-out: s + x */
extern const ls_op_t op_scratch;     /* (x) -> y: 3 x, through 4 bytes of scratch an element */
extern const ls_op_t op_device_only; /* (x) -> y: no plain C version */

/* Rows of the state of every schedule that is built here, f32. */
enum { BUILD_PARAM = LS_REGION_STATE, BUILD_GRAD, BUILD_DATA };
enum { BUILD_PARAM_COUNT = 512, BUILD_GRAD_COUNT = (1 << 16) + 16, BUILD_DATA_COUNT = 64 };

ls_schedule_t *build_begin(ls_ctx_t *ctx, int rank, int world_size, int input_slots);
int build_transient(ls_schedule_t *s, const char *name, int64_t count);
int build_at(ls_schedule_t *s, const char *name, ls_region_t region, int64_t begin, int64_t end);
int build_source(ls_schedule_t *s, const char *name, int out);
int build_op1(ls_schedule_t *s, const ls_op_t *op, const char *name, int in, int out);
int build_op2(ls_schedule_t *s, const ls_op_t *op, const char *name, int a, int b, int out);

#endif
