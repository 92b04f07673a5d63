/* bench_table.c: a benchmark's document on a terminal, with the tables of its study if it has one. */
#ifndef LS_CLI_BENCH_H
#define LS_CLI_BENCH_H

#include "cli/cli.h"

void cli_bench_table(const json_t *document);

#endif
