/* Pictures: PNG and JPEG to bytes, and the geometry of Pillow on them, bit for bit. */
#ifndef LS_DATA_PICTURE_H
#define LS_DATA_PICTURE_H

#include "base/base.h"

/* Memory that grows and is used again. Released with ls_free(bytes). */
typedef struct {
  uint8_t *bytes;
  size_t capacity;
} ls_room_t;
/* Makes room for at least `bytes`; the old content is lost. LS_ERR_MEMORY. */
ls_status_t ls_room_need(ls_ctx_t *ctx, ls_room_t *room, size_t bytes);

/* Pixels (height, width, channels), or a part of others: rows are `stride` bytes apart. */
typedef struct {
  int height, width, channels;
  size_t stride;
  const uint8_t *pixel; /* borrowed */
} ls_picture_t;
enum { LS_PICTURE_PIXELS_MAX = 1 << 26 };

/* A file's bytes (`name` is for messages), told by their magic, as 1 channel (grey) or 3 (RGB) in `room`. Colours become
 * grey by Pillow's formula, transparency and orientation are ignored, 16 bits become 8. LS_ERR_DATA, with the offset:
 * neither format, damaged, cut short, larger than LS_PICTURE_PIXELS_MAX; LS_ERR_MEMORY. */
ls_status_t ls_picture_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, int channels,
                              ls_room_t *room, ls_picture_t *picture);
/* Converts to so many channels, from 1 to 3 or back, by the same formula. Pixels have no gaps and may lie anywhere,
 * also in `room`, which receives a converted copy. LS_ERR_MEMORY. */
ls_status_t ls_picture_channels(ls_ctx_t *ctx, int channels, ls_room_t *room, ls_picture_t *picture);
bool ls_picture_is(const void *bytes, size_t size); /* begins like a file of either format */
bool ls_picture_named(const char *name);            /* ends like the name of one, in capitals or not */
/* The formats: RGB, or grey where the file is grey. */
ls_status_t ls_png_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                          ls_picture_t *picture);
ls_status_t ls_jpeg_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                           ls_picture_t *picture);
/* Refuses sizes beyond the limit, and makes room for the pixels. */
ls_status_t ls_picture_make(ls_ctx_t *ctx, const char *name, int64_t height, int64_t width, int channels,
                            ls_room_t *room, ls_picture_t *picture);

/* The part of `height` x `width` from (top, left) on, which lies inside. Pure. */
ls_picture_t ls_picture_part(const ls_picture_t *picture, int top, int left, int height, int width);

typedef enum { LS_SCALE_BILINEAR, LS_SCALE_BICUBIC } ls_scale_t;
/* To height x width in `room`, as Pillow's Image.resize does; a picture of that size stays as it is. `work` is scratch.
 * LS_ERR_MEMORY. */
ls_status_t ls_picture_scale(ls_ctx_t *ctx, ls_picture_t *picture, ls_scale_t scale, int height, int width,
                             ls_room_t *work, ls_room_t *room);
/* The part of `height` x `width` pixels from (top, left) on, which lies inside, of a picture scaled to whole_height x
 * whole_width. */
typedef struct {
  int64_t whole_height, whole_width, top, left;
  int height, width;
} ls_scaled_part_t;
/* The same bits as scaling the whole and taking its part. Time and memory follow the part and the picture, not the whole,
 * which may be of any size. LS_ERR_MEMORY. */
ls_status_t ls_picture_scale_part(ls_ctx_t *ctx, ls_picture_t *picture, ls_scale_t scale,
                                  const ls_scaled_part_t *part, ls_room_t *work, ls_room_t *room);

#endif
