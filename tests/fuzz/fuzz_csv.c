/* Fuzz target of the CSV reader: any bytes give a matrix or LS_ERR_DATA. The first byte says which columns
 * are asked for, so that choosing by name is reached too. */
#include "matrix.h"

#include <string.h>

enum { ERRORS = 22 }; /* twenty faults, how many more, and what broke the text */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static const char *const names[] = {"close", "b", "a"};
  static const ls_strings_t close_column = {1, names}, a_column = {1, names + 2}, both = {2, names + 1};
  static const ls_strings_t *const choices[][2] = {{NULL, NULL},          {&close_column, NULL},
                                                   {NULL, &close_column}, {&both, NULL},
                                                   {NULL, &a_column},     {&both, &a_column}};
  if (size == 0) return 0;
  int choice = bytes[0] % LS_COUNT(choices);
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 0;
  ls_matrix_t m;
  static const char delimiters[] = {0, ',', ';', '\t'};
  char delimiter = delimiters[bytes[0] / LS_COUNT(choices) % LS_COUNT(delimiters)];
  ls_csv_read_t read = {"fuzz.csv", (const char *)bytes + 1, size - 1,
                        delimiter,  choices[choice][0],      choices[choice][1]};
  ls_status_t status = ls_read_csv(ctx, &read, &m);
  matrix_check(ctx, status, &m, ERRORS);

  /* The column named "a" as labels: numbers of the list, which is sorted. */
  ls_arena_t arena;
  ls_arena_init(&arena, ctx);
  ls_ctx_clear(ctx);
  ls_labels_t labels = {.arena = &arena, .most = 4};
  read.want = &a_column;
  read.except = NULL;
  read.targets = true;
  read.labels = &labels;
  status = ls_read_csv(ctx, &read, &m);
  for (int64_t i = 0; status == LS_OK && labels.text && i < m.rows; i++)
    if (!(ls_matrix_at(&m, i) >= 0 && ls_matrix_at(&m, i) < labels.count)) abort();
  for (int i = 1; i < labels.count; i++)
    if (strcmp(labels.label[i - 1].name, labels.label[i].name) >= 0) abort();
  matrix_check(ctx, status, &m, ERRORS);

  /* Both sides of a file, in the order of dates. */
  ls_ctx_clear(ctx);
  const ls_data_config_t config = {
      .kind = LS_DATA_CSV, .target = a_column, .window = 2, .dates = LS_DATES_PARTS};
  ls_matrix_t y;
  labels = (ls_labels_t){.arena = &arena, .most = choice % 4, .classes = choice % 3};
  status = ls_read_csv_pair(ctx, "fuzz.csv", (const char *)bytes + 1, size - 1, delimiter, &config, &labels,
                            &m, &y);
  matrix_check(ctx, status, &m, 2 * ERRORS);
  if (status == LS_OK) matrix_check(ctx, status, &y, 0);
  ls_arena_release(&arena);
  ls_ctx_destroy(ctx);
  return 0;
}
