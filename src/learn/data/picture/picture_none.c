/* Replaces both readers in a build without libpng and libjpeg. */
#include "data/picture/picture.h"

static ls_status_t refuse(ls_ctx_t *ctx, const char *name) {
  return ls_fail(
      ctx, LS_ERR_UNSUPPORTED,
      "%s: this build reads no pictures: libpng and libjpeg (libpng-dev, libjpeg-dev) were not there", name);
}

ls_status_t ls_png_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                          ls_picture_t *picture) {
  (void)bytes, (void)size, (void)room, (void)picture;
  return refuse(ctx, name);
}

ls_status_t ls_jpeg_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                           ls_picture_t *picture) {
  (void)bytes, (void)size, (void)room, (void)picture;
  return refuse(ctx, name);
}
