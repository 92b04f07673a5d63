/* Writes safetensors: the header is laid out first (names sorted, bytes without holes), then the data follow
 * as they lie in memory, so that a writer needs no second copy of them. */
#include "ckpt/safetensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_ALIGN_BYTES = 4096, HEADER_MAX_BYTES = 100000000 };

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are written as they lie in memory");

static ls_status_t no_memory(ls_ctx_t *ctx) {
  return ls_fail(ctx, LS_ERR_MEMORY, "out of memory: header of a safetensors file");
}

static int by_place(const void *a, const void *b) {
  const ls_ckpt_tensor_t *x = *(const ls_ckpt_tensor_t *const *)a, *y = *(const ls_ckpt_tensor_t *const *)b;
  size_t wx = ls_dtype_bytes(x->shape.dtype), wy = ls_dtype_bytes(y->shape.dtype);
  if (wx != wy) return wx > wy ? -1 : 1;
  return strcmp(x->name, y->name);
}

static ls_status_t check_tensor(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensor) {
  if (!tensor->name || !tensor->name[0])
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a tensor to be saved has no name");
  for (const char *c = tensor->name; *c; c++)
    if (*c < ' ' || *c > '~')
      return ls_fail(ctx, LS_ERR_ARGUMENT, "a tensor's name must be printable ASCII, byte %d of it is not",
                     (int)(c - tensor->name));
  if (strcmp(tensor->name, "__metadata__") == 0)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a tensor cannot have the name __metadata__");
  if ((unsigned)tensor->shape.dtype >= LS_DTYPE_COUNT || tensor->shape.rank < 0 ||
      tensor->shape.rank > LS_DIMS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "tensor '%s' has no valid type or rank", tensor->name);
  return LS_OK;
}

/* {"dtype": .., "shape": [..], "data_offsets": [begin, end]}; NULL when memory is short. */
static json_t *describe(const ls_shape_t *shape, size_t begin, size_t end) {
  json_t *dims = json_array();
  for (int i = 0; dims && i < shape->rank; i++) {
    if (json_array_append_new(dims, json_integer(shape->dim[i])) == 0) continue;
    json_decref(dims);
    dims = NULL;
  }
  if (!dims) return NULL;
  return json_pack("{s:s, s:o, s:[I,I]}", "dtype", ls_dtype_row(shape->dtype)->safetensors, "shape", dims,
                   "data_offsets", (json_int_t)begin, (json_int_t)end);
}

/* The header as JSON for tensors in file order, and the bytes that they take. */
static ls_status_t header_make(ls_ctx_t *ctx, const ls_ckpt_tensor_t *const *order, int count,
                               json_t **header, size_t *data_bytes) {
  json_t *all = json_object();
  if (!all) return no_memory(ctx);
  size_t begin = 0;
  for (int i = 0; i < count; i++) {
    size_t end = begin + ls_shape_bytes(&order[i]->shape);
    json_t *entry = describe(&order[i]->shape, begin, end);
    if (!entry || json_object_set_new(all, order[i]->name, entry) != 0) {
      json_decref(all);
      return no_memory(ctx);
    }
    begin = end;
  }
  *header = all;
  *data_bytes = begin;
  return LS_OK;
}

/* Sorts the tensors into file order and refuses names that would clash. */
static ls_status_t order_make(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensors, int count,
                              const ls_ckpt_tensor_t **order) {
  for (int i = 0; i < count; i++) {
    ls_status_t status = check_tensor(ctx, &tensors[i]);
    if (status) return status;
    order[i] = &tensors[i];
  }
  if (count > 1) qsort(order, (size_t)count, sizeof *order, by_place);
  return LS_OK;
}

/* Only a quote of the JSON itself is not escaped, so this text is no part of a name. */
#define SEAL_KEY "lockstep_xxh3_128"
static const char seal_begin[] = "\"" SEAL_KEY "\":\"", no_seal[] = "00000000000000000000000000000000";
static_assert(sizeof no_seal - 1 == LS_SAFETENSORS_SEAL_BYTES, "zeros for every digit");

char *ls_safetensors_seal(char *json, size_t json_bytes) {
  const size_t begin = sizeof seal_begin - 1;
  char *at = memmem(json, json_bytes, seal_begin, begin);
  bool whole = at && (size_t)(json + json_bytes - at) >= begin + LS_SAFETENSORS_SEAL_BYTES;
  return whole ? at + begin : NULL;
}

ls_status_t ls_safetensors_layout(ls_ctx_t *ctx, const ls_ckpt_tensor_t *tensors, int count, bool sealed,
                                  ls_safetensors_layout_t **layout) {
  const ls_ckpt_tensor_t **order = ls_alloc_array(ctx, (size_t)count, sizeof(void *));
  if (!order) return LS_ERR_MEMORY;
  json_t *json = NULL;
  size_t data_bytes = 0;
  ls_status_t status = order_make(ctx, tensors, count, order);
  if (status) goto free_order;
  status = header_make(ctx, order, count, &json, &data_bytes);
  if (status) goto free_order;
  if (json_object_size(json) != (size_t)count) {
    status = ls_fail(ctx, LS_ERR_ARGUMENT, "two tensors to be saved have the same name");
    goto free_json;
  }
  if (sealed && json_object_set_new(json, "__metadata__", json_pack("{s:s}", SEAL_KEY, no_seal)) != 0) {
    status = no_memory(ctx);
    goto free_json;
  }
  size_t json_bytes = json_dumpb(json, NULL, 0, JSON_COMPACT | JSON_SORT_KEYS);
  if (json_bytes == 0 || json_bytes > HEADER_MAX_BYTES - DATA_ALIGN_BYTES) {
    status =
        json_bytes == 0 ? no_memory(ctx) : ls_fail(ctx, LS_ERR_ARGUMENT, "too many tensors for one file");
    goto free_json;
  }
  size_t header_bytes = LS_SAFETENSORS_LENGTH_BYTES + json_bytes;
  header_bytes = (header_bytes + DATA_ALIGN_BYTES - 1) / DATA_ALIGN_BYTES * DATA_ALIGN_BYTES;
  ls_safetensors_layout_t *made = ls_alloc(ctx, sizeof *made + (size_t)count * sizeof(void *) + header_bytes);
  if (!made) {
    status = LS_ERR_MEMORY;
    goto free_json;
  }
  memcpy(made->order, order, (size_t)count * sizeof(void *));
  made->header = (char *)(made->order + count);
  made->header_bytes = header_bytes;
  made->data_bytes = data_bytes;
  uint64_t length = header_bytes - LS_SAFETENSORS_LENGTH_BYTES;
  memcpy(made->header, &length, sizeof length);
  memset(made->header + LS_SAFETENSORS_LENGTH_BYTES, ' ', (size_t)length);
  if (json_dumpb(json, made->header + LS_SAFETENSORS_LENGTH_BYTES, json_bytes,
                 JSON_COMPACT | JSON_SORT_KEYS) != json_bytes) {
    ls_free(made);
    status = no_memory(ctx);
    goto free_json;
  }
  made->seal = sealed ? ls_safetensors_seal(made->header + LS_SAFETENSORS_LENGTH_BYTES, json_bytes) : NULL;
  *layout = made;
free_json:
  json_decref(json);
free_order:
  ls_free(order);
  return status;
}
