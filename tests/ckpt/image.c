/* Lays a file out by the header, and reads it by the header. */
#include "image.h"

#include <string.h>

ls_status_t image_write(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensors, int count, char **bytes,
                        size_t *size_bytes) {
  ls_safetensors_layout_t *layout;
  ls_status_t status = ls_safetensors_layout(ctx, tensors, count, false, &layout);
  if (status) return status;
  char *image = ls_alloc(ctx, layout->header_bytes + layout->data_bytes);
  if (!image) {
    status = LS_ERR_MEMORY;
    goto free_layout;
  }
  char *to = image;
  memcpy(to, layout->header, layout->header_bytes);
  to += layout->header_bytes;
  for (int i = 0; i < count; i++) {
    size_t size = ls_shape_bytes(&layout->order[i]->shape);
    if (size > 0) memcpy(to, layout->order[i]->data, size);
    to += size;
  }
  *bytes = image;
  *size_bytes = layout->header_bytes + layout->data_bytes;
free_layout:
  ls_free(layout);
  return status;
}

ls_status_t image_read(ls_ctx_t *ctx, ls_arena_t *arena, const char *name, char *bytes, size_t size_bytes,
                       ls_ckpt_tensor_t **tensors, int *count) {
  size_t json_bytes;
  ls_status_t status = ls_safetensors_length(ctx, name, bytes, size_bytes, &json_bytes);
  if (status) return status;
  char *json = bytes + LS_SAFETENSORS_LENGTH_BYTES, *data = json + json_bytes;
  ls_safetensors_entry_t *entries;
  int found;
  status = ls_safetensors_header(ctx, arena, name, json, json_bytes,
                                 size_bytes - LS_SAFETENSORS_LENGTH_BYTES - json_bytes, &entries, &found);
  if (status) return status;
  ls_ckpt_tensor_t *all = ls_arena_array(arena, (size_t)found + 1, sizeof *all);
  if (!all) return LS_ERR_MEMORY;
  for (int i = 0; i < found; i++)
    all[i] = (ls_ckpt_tensor_t){entries[i].name, entries[i].shape, data + entries[i].offset_bytes};
  *tensors = all;
  *count = found;
  return LS_OK;
}
