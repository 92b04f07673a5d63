/* A row of test cases for each op, found by the op's name. The gradient test, the compare test and the time test are
 * generated from them. A file has the ops of one file of src/core/graph/ops or src/core/optim; list.c lists the files. */
#ifndef TESTS_GRAPH_CASES_ROW_H
#define TESTS_GRAPH_CASES_ROW_H

#include "graph/op.h"

#include <math.h>

typedef enum {
  FILL_UNIFORM, /* in [lo, hi] */
  FILL_CLASS,   /* integers in [0, hi) (i32, u16, u8, f32); bf16, f16: their bits */
  FILL_STEP, /* an ls_step_params_t with seed 42, position lo, mean 33.3, .. and scale 0.0123, .. (cases.c) */
  FILL_POSITIVE, /* uniform in [lo, hi] and, across the tensor, summing to about 1 (sample weights) */
} case_fill_t;

typedef struct {
  ls_shape_t shape;
  case_fill_t fill;
  float lo, hi;
} case_input_t;

typedef struct {
  const char *name;
  int in_count;
  case_input_t in[LS_NODE_IN_MAX];
  ls_attrs_t attrs;
  double tolerance;          /* backend against ref: |a - b| <= tolerance * (1 + |b|) */
  double gradient_tolerance; /* analytic against central differences; 0 = not differentiable */
} op_case_t;

/* An op's cases. Tests also draw sizes like those of its cases, and of the gradient of drawn cases. Bit i of `drawn`:
 * attrs.i[i] may then be any small number that the op's `shape` takes. */
typedef struct {
  const char *op;
  const op_case_t *cases;
  int count;
  uint32_t drawn;
} op_cases_t;

/* Inputs: CASE_F32(lo, hi, dims...). */
#define CASE_SHAPE(type, ...)                                                                                \
  {                                                                                                          \
    .dtype = (type), .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), .dim = { __VA_ARGS__ }             \
  }
#define CASE_F32(lo_, hi_, ...)                                                                              \
  { .shape = CASE_SHAPE(LS_F32, __VA_ARGS__), .fill = FILL_UNIFORM, .lo = (lo_), .hi = (hi_) }
#define CASE_F64(lo_, hi_, ...)                                                                              \
  { .shape = CASE_SHAPE(LS_F64, __VA_ARGS__), .fill = FILL_UNIFORM, .lo = (lo_), .hi = (hi_) }
#define CASE_WEIGHT(n)                                                                                       \
  { .shape = CASE_SHAPE(LS_F32, n), .fill = FILL_POSITIVE, .lo = 0.5f, .hi = 1.5f }
#define CASE_CLASS(n, classes)                                                                               \
  { .shape = CASE_SHAPE(LS_I32, n), .fill = FILL_CLASS, .lo = 0, .hi = (classes) }
#define CASE_WHOLE(dtype_, below, ...)                                                                       \
  { .shape = CASE_SHAPE(dtype_, __VA_ARGS__), .fill = FILL_CLASS, .lo = 0, .hi = (below) }
#define CASE_STEP(position)                                                                                  \
  { .shape = CASE_SHAPE(LS_U8, 64), .fill = FILL_STEP, .lo = (position) }
#define CASES(array) (array), LS_COUNT(array)

/* The tables of all files, each up to a row without an op. NULL-terminated. */
extern const op_cases_t *const case_files[];

#endif
