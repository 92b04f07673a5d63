/* Fuzz target: the safetensors reader. Whatever is accepted covers its data exactly and survives being
 * written and read again. */
#include "../ckpt/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

/* Every byte of every tensor, and nothing else of the file. */
static void check_cover(const ls_ckpt_tensor_t *tensors, int count, const char *bytes, size_t size) {
  uint64_t json_bytes;
  memcpy(&json_bytes, bytes, 8);
  const char *next = bytes + 8 + json_bytes;
  for (int i = 0; i < count; i++) {
    check(tensors[i].data == next);
    next += ls_shape_bytes(&tensors[i].shape);
  }
  check(next == bytes + size);
}

static void check_again(ls_arena_t *arena, const ls_ckpt_tensor_t *tensors, int count) {
  char *bytes;
  size_t size;
  ls_ckpt_tensor_t *back;
  int back_count;
  if (image_write(NULL, tensors, count, &bytes, &size)) return; /* names that we do not write */
  check(!image_read(NULL, arena, "again", bytes, size, &back, &back_count));
  check(back_count == count);
  check_cover(back, back_count, bytes, size);
  ls_free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *bytes = malloc(size ? size : 1); /* a block of its own, so that reads beyond it are seen */
  if (!bytes) return 0;
  if (size) memcpy(bytes, data, size);
  ls_arena_t arena;
  ls_arena_init(&arena, NULL);
  ls_ckpt_tensor_t *tensors;
  int count;
  if (!image_read(NULL, &arena, "input", bytes, size, &tensors, &count)) {
    check_cover(tensors, count, bytes, size);
    check_again(&arena, tensors, count);
  }
  ls_arena_release(&arena);
  free(bytes);
  return 0;
}
