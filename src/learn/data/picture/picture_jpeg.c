/* JPEG by libjpeg-turbo, with its exact inverse transform (ISLOW) and smooth upsampling of chroma, which give Pillow's
 * bits. Data that are damaged or end early are an error, where the library would go on with grey. */
#include "data/picture/picture.h"

/* The library's header uses FILE and size_t without including them. */
#include <stdio.h>

#include <jpeglib.h>

#include <jerror.h>
#include <setjmp.h>

typedef struct {
  struct jpeg_error_mgr base; /* the library knows this part */
  ls_ctx_t *ctx;
  const char *name;
  size_t size;
  ls_status_t status;
  jmp_buf out;
} errors_t;

static void leave(j_common_ptr info, ls_status_t status) {
  errors_t *e = (errors_t *)info->err;
  e->status = status;
  longjmp(e->out, 1);
}

static void refuse(j_common_ptr info) {
  errors_t *e = (errors_t *)info->err;
  const struct jpeg_source_mgr *source = ((j_decompress_ptr)info)->src;
  char text[JMSG_LENGTH_MAX];
  e->base.format_message(info, text);
  leave(info, e->base.msg_code == JERR_OUT_OF_MEMORY
                  ? ls_fail(e->ctx, LS_ERR_MEMORY, "out of memory: %s", e->name)
                  : ls_fail(e->ctx, LS_ERR_DATA, "%s: offset %zu of %zu: damaged or cut JPEG data: %s",
                            e->name, source ? e->size - source->bytes_in_buffer : 0, e->size, text));
}

/* Level -1 is a warning. Those after which pixels are guessed are errors. */
static void hear(j_common_ptr info, int level) {
  static const int guessed[] = {JWRN_ARITH_BAD_CODE, JWRN_HIT_MARKER, JWRN_HUFF_BAD_CODE, JWRN_JPEG_EOF,
                                JWRN_MUST_RESYNC};
  for (int i = 0; i < LS_COUNT(guessed) && level < 0; i++)
    if (info->err->msg_code == guessed[i]) refuse(info);
}

static void say_nothing(j_common_ptr info) {
  (void)info;
}

/* Adobe's programs write inverted ink; others do not exist in practice, and Pillow decides by the same marker. */
static void ink_to_colour(const struct jpeg_decompress_struct *info, const uint8_t *row, uint8_t *to) {
  for (JDIMENSION x = 0; x < info->output_width; x++, row += 4, to += 3) {
    unsigned light = info->saw_Adobe_marker ? row[3] : 255u - row[3];
    for (int c = 0; c < 3; c++) {
      unsigned ink = info->saw_Adobe_marker ? 255u - row[c] : row[c];
      unsigned product = ink * light + 128;
      to[c] = (uint8_t)(light - (((product >> 8) + product) >> 8));
    }
  }
}

typedef struct {
  struct jpeg_decompress_struct info;
  errors_t errors;
  ls_room_t ink; /* a row of four channels */
} reader_t;

static ls_status_t read_pixels(reader_t *r, const void *bytes, ls_room_t *room, ls_picture_t *picture) {
  struct jpeg_decompress_struct *info = &r->info;
  errors_t *e = &r->errors;
  if (setjmp(e->out)) return e->status;
  jpeg_create_decompress(info);
  jpeg_mem_src(info, bytes, e->size);
  jpeg_read_header(info, TRUE);
  bool ink = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  bool grey = info->jpeg_color_space == JCS_GRAYSCALE;
  info->out_color_space = ink ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  info->dct_method = JDCT_ISLOW;
  e->status =
      ls_picture_make(e->ctx, e->name, info->image_height, info->image_width, grey ? 1 : 3, room, picture);
  if (e->status == LS_OK && ink) e->status = ls_room_need(e->ctx, &r->ink, (size_t)info->image_width * 4);
  if (e->status != LS_OK) return e->status;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    uint8_t *to = room->bytes + info->output_scanline * picture->stride;
    JSAMPROW row = ink ? r->ink.bytes : to;
    jpeg_read_scanlines(info, &row, 1);
    if (ink) ink_to_colour(info, row, to);
  }
  jpeg_finish_decompress(info);
  return LS_OK;
}

ls_status_t ls_jpeg_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                           ls_picture_t *picture) {
  reader_t r = {.errors = {.ctx = ctx, .name = name, .size = size}};
  r.info.err = jpeg_std_error(&r.errors.base);
  r.errors.base.error_exit = refuse;
  r.errors.base.emit_message = hear;
  r.errors.base.output_message = say_nothing;
  ls_status_t status = read_pixels(&r, bytes, room, picture);
  jpeg_destroy_decompress(&r.info);
  ls_free(r.ink.bytes);
  return status;
}
