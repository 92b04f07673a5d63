/* Fuzz target of PNG and JPEG: any bytes give a picture of the channels that were asked for, or one refusal. */
#include "data/picture/picture.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  ls_ctx_t *ctx = ls_ctx_create(NULL, NULL);
  if (!ctx) return 0;
  ls_room_t room = {0}, work = {0}, scaled = {0};
  ls_picture_t p;
  int channels = size % 2 ? 3 : 1;
  ls_status_t status = ls_picture_decode(ctx, "fuzz", bytes, size, channels, &room, &p);
  if (status == LS_OK) {
    uint64_t sum = 0;
    if (p.channels != channels || p.height < 1 || p.width < 1) abort();
    for (int y = 0; y < p.height; y++)
      for (size_t x = 0; x < (size_t)p.width * (size_t)p.channels; x++)
        sum += p.pixel[(size_t)y * p.stride + x];
    if (sum > 255ull * (uint64_t)p.height * (uint64_t)p.width * 3) abort();
    if ((int64_t)p.height * p.width < 1 << 20 &&
        ls_picture_scale(ctx, &p, size % 3 ? LS_SCALE_BILINEAR : LS_SCALE_BICUBIC, 5, 9, &work, &scaled) !=
            LS_OK)
      abort();
  } else if ((status != LS_ERR_DATA && status != LS_ERR_MEMORY) || ls_ctx_error_count(ctx) != 1) {
    abort();
  }
  ls_free(room.bytes);
  ls_free(work.bytes);
  ls_free(scaled.bytes);
  ls_ctx_destroy(ctx);
  return 0;
}
