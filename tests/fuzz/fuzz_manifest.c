/* Fuzz target: the manifest of a checkpoint, once as it comes and once with a right hash at its end, so that
 * everything before the hash is reached. What is accepted names only plain files, has pieces that make up
 * their tensors, and survives being written and read again. */
#include "ckpt/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void check_tensor(const ls_manifest_t *manifest, const ls_manifest_tensor_t *t) {
  int64_t next = 0;
  for (int i = 0; i < t->piece_count; i++) {
    check(t->piece[i].file >= 0 && t->piece[i].file < manifest->file_count);
    check(manifest->file[t->piece[i].file].pieces);
    check(t->piece[i].range.begin == next && t->piece[i].range.end > next);
    next = t->piece[i].range.end;
  }
  check(t->name[0] && t->shape.rank <= LS_DIMS_MAX && next == ls_shape_count(&t->shape));
}

static void check_again(const ls_manifest_t *manifest) {
  char *text;
  size_t size;
  ls_manifest_t back;
  check(!ls_manifest_write(NULL, manifest, manifest->meta, &text, &size));
  check(!ls_manifest_read(NULL, "again", text, size, &back));
  check(back.step == manifest->step && back.file_count == manifest->file_count);
  check(back.tensor_count == manifest->tensor_count);
  check(isnan(back.metric) ? isnan(manifest->metric) : back.metric == manifest->metric);
  check(json_equal(back.meta, manifest->meta));
  ls_manifest_release(&back);
  ls_free(text);
}

static void read_one(const char *text, size_t size) {
  ls_manifest_t manifest;
  if (ls_manifest_read(NULL, "input", text, size, &manifest)) return;
  check(manifest.step >= 0 && manifest.file_count <= LS_MANIFEST_FILES_MAX);
  for (int i = 0; i < manifest.file_count; i++) {
    check(manifest.file[i].name[0] && manifest.file[i].name[0] != '.');
    check(!strchr(manifest.file[i].name, '/'));
    check(manifest.file[i].size_bytes >= 0);
  }
  for (int i = 0; i < manifest.tensor_count; i++)
    check_tensor(&manifest, &manifest.tensor[i]);
  check_again(&manifest);
  ls_manifest_release(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + LS_MANIFEST_SEAL_BYTES + 1);
  if (!text) return 0;
  if (size) memcpy(text, data, size);
  read_one(text, size);
  ls_manifest_seal(text, size, text + size);
  read_one(text, size + LS_MANIFEST_SEAL_BYTES);
  free(text);
  return 0;
}
