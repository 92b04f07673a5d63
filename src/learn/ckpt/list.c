/* Names of checkpoints, the list of those in a directory, and small helpers of the module. */
#include "ckpt/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_ckpt_step_name(int64_t step, char name[LS_STEP_NAME_BYTES]) {
  snprintf(name, LS_STEP_NAME_BYTES, "step-%012" PRId64, step);
}

bool ls_ckpt_step_parse(const char *name, int64_t *step) {
  static const char prefix[] = "step-";
  const char *digits = name + sizeof prefix - 1;
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
  size_t len = strspn(digits, "0123456789");
  if (digits[len] != '\0' || len < 12 || len > 18) return false; /* 18 digits always fit */
  int64_t value = strtoll(digits, NULL, 10);
  char again[LS_STEP_NAME_BYTES];
  ls_ckpt_step_name(value, again);
  if (strcmp(again, name) != 0) return false;
  *step = value;
  return true;
}

void ls_ckpt_temp_name(const char *what, int64_t pid, char name[LS_TEMP_NAME_BYTES]) {
  snprintf(name, LS_TEMP_NAME_BYTES, ".tmp-%s-%" PRId64, what, pid);
}

static int newest_first(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

ls_status_t ls_ckpt_list(ls_ctx_t *ctx, const char *dir, int64_t **steps, int *count) {
  char **names;
  int name_count;
  ls_status_t status = ls_dir_list(ctx, dir, &names, &name_count);
  if (status) return status;
  int64_t *found = ls_alloc_array(ctx, (size_t)name_count, sizeof *found);
  if (!found) {
    status = LS_ERR_MEMORY;
    goto free_names;
  }
  int n = 0;
  for (int i = 0; i < name_count; i++)
    n += ls_ckpt_step_parse(names[i], &found[n]);
  qsort(found, (size_t)n, sizeof *found, newest_first);
  *steps = found;
  *count = n;
free_names:
  ls_free(names);
  return status;
}

ls_status_t ls_ckpt_any(ls_ctx_t *ctx, const char *dir, bool *any) {
  int64_t *steps;
  int count;
  ls_status_t status = ls_ckpt_list(ctx, dir, &steps, &count);
  if (status) return status;
  ls_free(steps);
  *any = count > 0;
  return LS_OK;
}

char *ls_ckpt_step_path(ls_ctx_t *ctx, const char *dir, int64_t step) {
  char name[LS_STEP_NAME_BYTES];
  ls_ckpt_step_name(step, name);
  return ls_path_join(ctx, dir, name);
}

bool ls_ckpt_json_short_of_memory(const json_error_t *error) {
  enum json_error_code code = json_error_code(error);
  return code == json_error_out_of_memory || code == json_error_unknown;
}
