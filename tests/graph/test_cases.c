/* Every op of graph and optimizer has test cases, and every row of cases is an op's. */
#include "graph/cases.h"
#include "optim/optim.h"

#include "unit.h"
#include <string.h>

static void check_op(const ls_op_t *op) {
  const op_cases_t *row = cases_of(op);
  if (row->count < 3) fail_msg("%s has %d cases in tests/graph/cases, not three", op->name, row->count);
  for (int k = 0; k < row->count; k++)
    assert_int_equal(row->cases[k].in_count, op->in_count);
}

static void every_op_has_cases(void **state) {
  for (int k = 0; ls_ops[k]; k++)
    check_op(ls_ops[k]);
  for (int k = 0; ls_optim_ops[k]; k++)
    check_op(ls_optim_ops[k]);
}

static bool is_op(const char *name) {
  bool found = ls_op_find(name) != NULL;
  for (int k = 0; ls_optim_ops[k]; k++)
    found = found || strcmp(ls_optim_ops[k]->name, name) == 0;
  return found;
}

static void every_row_is_an_ops(void **state) {
  for (int file = 0; case_files[file]; file++)
    for (const op_cases_t *row = case_files[file]; row->op; row++)
      if (!is_op(row->op)) fail_msg("there is no op '%s'", row->op);
}

TESTS(NULL, NULL, every_op_has_cases, every_row_is_an_ops)
