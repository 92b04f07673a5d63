/* Pictures of either format, in the channels that a model takes. */
#include "data/picture/picture.h"

#include "base/magic.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

ls_status_t ls_room_need(ls_ctx_t *ctx, ls_room_t *room, size_t bytes) {
  if (bytes <= room->capacity) return LS_OK;
  ls_free(room->bytes); /* first: both at once would be the peak */
  uint8_t *grown = ls_alloc(ctx, bytes);
  *room = (ls_room_t){grown, grown ? bytes : 0};
  return grown ? LS_OK : LS_ERR_MEMORY;
}

ls_status_t ls_picture_make(ls_ctx_t *ctx, const char *name, int64_t height, int64_t width, int channels,
                            ls_room_t *room, ls_picture_t *picture) {
  if (height < 1 || width < 1 || height > LS_PICTURE_PIXELS_MAX / width)
    return ls_fail(ctx, LS_ERR_DATA,
                   "%s: a picture of %" PRId64 " x %" PRId64 " pixels; 1 to %d pixels are supported", name,
                   width, height, LS_PICTURE_PIXELS_MAX);
  size_t stride = (size_t)width * (size_t)channels;
  ls_status_t status = ls_room_need(ctx, room, stride * (size_t)height);
  if (status != LS_OK) return status;
  *picture = (ls_picture_t){(int)height, (int)width, channels, stride, room->bytes};
  return LS_OK;
}

/* May work in place: a grey pixel never lies after the coloured one that it comes from. The weights are those of
 * ITU-R 601, as Pillow rounds them. */
static void make_grey(const uint8_t *from, size_t count, uint8_t *to) {
  for (size_t i = 0; i < count; i++) {
    const uint8_t *p = from + 3 * i;
    to[i] = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
  }
}

/* From the end, so that it may be in place. */
static void make_coloured(const uint8_t *from, size_t count, uint8_t *to) {
  for (size_t i = count; i-- > 0;)
    memset(to + 3 * i, from[i], 3);
}

ls_status_t ls_picture_channels(ls_ctx_t *ctx, int channels, ls_room_t *room, ls_picture_t *p) {
  size_t count = (size_t)p->height * (size_t)p->width, bytes = count * (size_t)channels;
  if (p->channels == channels) return LS_OK;
  if (p->pixel == room->bytes && bytes > room->capacity) {
    uint8_t *grown = ls_realloc_array(ctx, room->bytes, bytes, 1);
    if (!grown) return LS_ERR_MEMORY;
    *room = (ls_room_t){grown, bytes};
    p->pixel = grown;
  }
  ls_status_t status = ls_room_need(ctx, room, bytes);
  if (status != LS_OK) return status;
  if (channels == 1)
    make_grey(p->pixel, count, room->bytes);
  else
    make_coloured(p->pixel, count, room->bytes);
  *p = (ls_picture_t){p->height, p->width, channels, (size_t)p->width * (size_t)channels, room->bytes};
  return LS_OK;
}

static const struct {
  const char *magic;
  ls_status_t (*decode)(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, ls_room_t *room,
                        ls_picture_t *picture);
} formats[] = {{"\xff\xd8\xff", ls_jpeg_decode}, {"\x89PNG\r\n", ls_png_decode}};

/* The place in the list, or its length. */
static int format_of(const void *bytes, size_t size) {
  int i = 0;
  while (i < LS_COUNT(formats) &&
         (size < strlen(formats[i].magic) || memcmp(bytes, formats[i].magic, strlen(formats[i].magic)) != 0))
    i++;
  return i;
}

bool ls_picture_named(const char *name) {
  static const char *const endings[] = {".png", ".jpg", ".jpeg"};
  const char *dot = strrchr(name, '.');
  for (int i = 0; dot && i < LS_COUNT(endings); i++)
    if (strcasecmp(dot, endings[i]) == 0) return true;
  return false;
}

bool ls_picture_is(const void *bytes, size_t size) {
  return format_of(bytes, size) < LS_COUNT(formats);
}

ls_status_t ls_picture_decode(ls_ctx_t *ctx, const char *name, const void *bytes, size_t size, int channels,
                              ls_room_t *room, ls_picture_t *picture) {
  ls_picture_t p;
  int format = format_of(bytes, size);
  if (size == 0) return ls_fail(ctx, LS_ERR_DATA, "%s: the file is empty, a picture was expected", name);
  const char *other = format == LS_COUNT(formats) ? ls_magic_text(bytes, size) : NULL;
  if (format == LS_COUNT(formats))
    return ls_fail(ctx, LS_ERR_DATA, "%s: offset 0: neither a PNG nor a JPEG file%s%s%s", name,
                   other ? ", but " : "", other ? other : "", other ? ": save it as PNG" : "");
  ls_status_t status = formats[format].decode(ctx, name, bytes, size, room, &p);
  if (status == LS_OK) status = ls_picture_channels(ctx, channels, room, &p);
  if (status == LS_OK) *picture = p;
  return status;
}

ls_picture_t ls_picture_part(const ls_picture_t *p, int top, int left, int height, int width) {
  ls_picture_t part = *p;
  part.height = height;
  part.width = width;
  part.pixel += (size_t)top * p->stride + (size_t)left * (size_t)p->channels;
  return part;
}
