/* Fuzz target: weights of other programs. A file that opens is read tensor by tensor, under the names and in the layouts of
 * every map, and what goes there and back is the same. */
#include "ckpt/ckpt.h"
#include "model/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VALUES_MAX = 1 << 12 };

static void check(bool holds) {
  if (!holds) abort();
}

static void check_names(const char *ours) {
  for (int m = 0; ls_names_choices[m]; m++) {
    ls_foreign_names_t foreign;
    ls_names_ignored(ls_names_list[m], ours);
    for (int row = 0; ls_names_find(ls_names_list[m], ours, &row, &foreign);)
      for (int i = 0; i < foreign.count; i++)
        check(memchr(foreign.name[i], 0, LS_NAME_BYTES) != NULL);
  }
}

static void check_tensor(const ls_ckpt_t *file, int tensor) {
  const ls_shape_t *shape = ls_ckpt_shape(file, tensor);
  const int64_t count = ls_shape_count(shape);
  float value[VALUES_MAX], theirs[VALUES_MAX], back[VALUES_MAX];
  check_names(ls_ckpt_name(file, tensor));
  check(ls_ckpt_find(file, ls_ckpt_name(file, tensor)) >= 0);
  if (count > VALUES_MAX || ls_ckpt_read_f32(NULL, file, tensor, value) != LS_OK) return;
  for (ls_weight_layout_t layout = LS_WEIGHT_SAME; layout <= LS_WEIGHT_CHANNELS_FIRST; layout++) {
    const ls_shape_t other = ls_weight_shape(layout, shape);
    check(ls_shape_count(&other) == count);
    ls_weight_copy(layout, shape, false, value, theirs);
    ls_weight_copy(layout, shape, true, theirs, back);
    check(memcmp(back, value, (size_t)count * sizeof *back) == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  ls_ckpt_t *file = NULL;
  int fd = memfd_create("weights", 0);
  if (fd < 0) return 0;
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (write(fd, data, size) == (ssize_t)size && ls_ckpt_open_weights(NULL, path, &file) == LS_OK)
    for (int i = 0; i < ls_ckpt_count(file); i++)
      check_tensor(file, i);
  ls_ckpt_close(file);
  close(fd);
  return 0;
}
