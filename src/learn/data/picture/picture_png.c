/* PNG by libpng: every colour type becomes 8 bits of grey or RGB, without gamma. */
#include "data/picture/picture.h"

#include <png.h>
#include <string.h>

typedef struct {
  ls_ctx_t *ctx;
  const char *name;
  const uint8_t *bytes;
  size_t size, at;
  ls_status_t status;
} source_t;

static void refuse(png_structp png, png_const_charp text) {
  source_t *s = png_get_error_ptr(png);
  s->status = ls_fail(s->ctx, LS_ERR_DATA, "%s: offset %zu of %zu: damaged or cut PNG data: %s", s->name,
                      s->at, s->size, text);
  png_longjmp(png, 1);
}

static void say_nothing(png_structp png, png_const_charp text) {
  (void)png;
  (void)text;
}

static void read_bytes(png_structp png, png_bytep to, size_t count) {
  source_t *s = png_get_io_ptr(png);
  if (count > s->size - s->at) png_error(png, "the file ends early");
  memcpy(to, s->bytes + s->at, count);
  s->at += count;
}

static ls_status_t read_pixels(png_structp png, png_infop info, source_t *s, ls_room_t *room,
                               ls_picture_t *picture) {
  if (setjmp(png_jmpbuf(png))) return s->status;
  png_set_read_fn(png, s, read_bytes);
  png_set_user_limits(png, LS_PICTURE_PIXELS_MAX, LS_PICTURE_PIXELS_MAX);
  png_read_info(png, info);
  int type = png_get_color_type(png, info);
  png_set_strip_16(png);
  png_set_packing(png);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (!(type & PNG_COLOR_MASK_COLOR)) png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  s->status = ls_picture_make(s->ctx, s->name, png_get_image_height(png, info),
                              png_get_image_width(png, info), png_get_channels(png, info), room, picture);
  if (s->status != LS_OK) return s->status;
  for (int pass = 0; pass < passes; pass++)
    for (int y = 0; y < picture->height; y++)
      png_read_row(png, room->bytes + (size_t)y * picture->stride, NULL);
  png_read_end(png, NULL);
  return LS_OK;
}

ls_status_t ls_png_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                          ls_picture_t *picture) {
  source_t s = {.ctx = ctx, .name = name, .bytes = bytes, .size = size};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, refuse, say_nothing);
  png_infop info = png ? png_create_info_struct(png) : NULL;
  ls_status_t status = info ? read_pixels(png, info, &s, room, picture)
                            : ls_fail(ctx, LS_ERR_MEMORY, "out of memory: %s", name);
  png_destroy_read_struct(&png, &info, NULL);
  return status;
}
