/* Pictures: the bits of Pillow 9.4 (checksums of its bytes, with libjpeg-turbo 2.1.5) for decoding, conversion and
 * scaling; damaged files are refused with their place. */
#include "common.h"
#include "data/picture/picture.h"

#include <stdio.h>
#include <zlib.h>

#define PICTURES "tests/data/pictures/"

typedef struct {
  char bytes[4096];
  size_t size;
} file_t;

static file_t read_picture(const char *name) {
  char path[512];
  file_t f;
  snprintf(path, sizeof path, PICTURES "%s", name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  f.size = fread(f.bytes, 1, sizeof f.bytes, file);
  assert_true(f.size < sizeof f.bytes);
  fclose(file);
  return f;
}

static uint32_t sum_of(const ls_picture_t *p) {
  uLong sum = crc32(0, NULL, 0);
  for (int y = 0; y < p->height; y++)
    sum = crc32(sum, p->pixel + (size_t)y * p->stride, (uInt)(p->width * p->channels));
  return (uint32_t)sum;
}

static const struct {
  const char *name;
  uint32_t colour, grey;
} pictures[] = {
    {"alpha.png", 0xc1b86f68, 0xb32b071c},      {"bits.png", 0x1a453e00, 0x58d1c501},
    {"colour.jpg", 0xf8479418, 0x1905ae9e},     {"colour.png", 0xc1b86f68, 0xb32b071c},
    {"grey.jpg", 0xb21c3cc, 0xdc346819},        {"grey.png", 0x2c1741bc, 0xb32b071c},
    {"grey_alpha.png", 0x2c1741bc, 0xb32b071c}, {"ink.jpg", 0x3bed1098, 0x8a4ec660},
    {"palette.png", 0xb8fef0b2, 0x9b3a2dae},    {"progressive.jpg", 0xf5ef8b06, 0x65b8da90},
    {"whole.jpg", 0xcfb6e178, 0xdde5331d},
};

static void decodes_as_pillow_does(void **state) {
  ls_room_t room = {0};
  for (int i = 0; i < LS_COUNT(pictures); i++)
    for (int channels = 1; channels <= 3; channels += 2) {
      said_clear();
      file_t f = read_picture(pictures[i].name);
      ls_picture_t p;
      if (ls_picture_decode(said.ctx, pictures[i].name, f.bytes, f.size, channels, &room, &p) != LS_OK)
        fail_msg("%s: %s", pictures[i].name, said.messages);
      assert_int_equal(p.width, 37);
      assert_int_equal(p.height, 29);
      assert_int_equal(p.channels, channels);
      uint32_t want = channels == 1 ? pictures[i].grey : pictures[i].colour;
      if (sum_of(&p) != want) fail_msg("%s, %d channels: other bits", pictures[i].name, channels);
    }
  ls_free(room.bytes);
}

static void scales_as_pillow_does(void **state) {
  static const struct {
    int width, height;
    ls_scale_t scale;
    uint32_t colour, grey;
  } sizes[] = {
      {18, 14, LS_SCALE_BILINEAR, 0x258a92f0, 0xc78262ee}, {18, 14, LS_SCALE_BICUBIC, 0x8887e1e5, 0x881fd47d},
      {7, 5, LS_SCALE_BILINEAR, 0x3c8f365d, 0x6ce2ba7e},   {7, 5, LS_SCALE_BICUBIC, 0xffed5dce, 0xccad7247},
      {64, 48, LS_SCALE_BILINEAR, 0xd8da9967, 0x49113329}, {64, 48, LS_SCALE_BICUBIC, 0x3f3a5ba6, 0xc472b76b},
      {37, 11, LS_SCALE_BILINEAR, 0xd769df9f, 0x8292f7dc}, {37, 11, LS_SCALE_BICUBIC, 0xea5c94ca, 0x9bc88e92},
      {9, 29, LS_SCALE_BILINEAR, 0xd821474b, 0x9711006},   {9, 29, LS_SCALE_BICUBIC, 0xf3aa54b6, 0xd83391f9},
      {1, 1, LS_SCALE_BILINEAR, 0x5e7e6ab9, 0x48bd5c3b},   {1, 1, LS_SCALE_BICUBIC, 0x55ccc45d, 0xd1b40d81},
      {37, 29, LS_SCALE_BILINEAR, 0xc1b86f68, 0xb32b071c}, {37, 29, LS_SCALE_BICUBIC, 0xc1b86f68, 0xb32b071c},
      {100, 3, LS_SCALE_BILINEAR, 0xc818f9db, 0x18ca2976}, {100, 3, LS_SCALE_BICUBIC, 0xafaa5b13, 0xeae75f11},
  };
  file_t f = read_picture("colour.png");
  ls_room_t room = {0}, work = {0}, scaled = {0};
  for (int i = 0; i < LS_COUNT(sizes); i++)
    for (int channels = 1; channels <= 3; channels += 2) {
      ls_picture_t p;
      assert_int_equal(ls_picture_decode(NULL, "p", f.bytes, f.size, channels, &room, &p), LS_OK);
      assert_int_equal(
          ls_picture_scale(NULL, &p, sizes[i].scale, sizes[i].height, sizes[i].width, &work, &scaled), LS_OK);
      uint32_t want = channels == 1 ? sizes[i].grey : sizes[i].colour;
      if (sum_of(&p) != want)
        fail_msg("%d x %d, filter %d, %d channels: other bits", sizes[i].width, sizes[i].height,
                 sizes[i].scale, channels);
    }
  /* a part: no pixel outside it counts */
  ls_picture_t p;
  assert_int_equal(ls_picture_decode(NULL, "p", f.bytes, f.size, 3, &room, &p), LS_OK);
  p = ls_picture_part(&p, 3, 5, 17, 20);
  assert_int_equal(ls_picture_scale(NULL, &p, LS_SCALE_BILINEAR, 8, 11, &work, &scaled), LS_OK);
  assert_int_equal(sum_of(&p), 0x76762968);
  ls_free(room.bytes);
  ls_free(work.bytes);
  ls_free(scaled.bytes);
}

/* A part of a scaled picture has the bits of the whole, if one side, both or none is scaled. */
static void scales_parts_to_the_same_bits(void **state) {
  static const int sizes[][2] = {{14, 18}, {5, 7},   {48, 64}, {11, 37},
                                 {29, 9},  {29, 37}, {3, 100}, {400, 20}};
  file_t f = read_picture("colour.png");
  ls_room_t room = {0}, work[2] = {{0}}, scaled[2] = {{0}};
  for (int i = 0; i < 4 * LS_COUNT(sizes); i++) {
    const int channels = i % 2 ? 3 : 1, height = sizes[i / 4][0], width = sizes[i / 4][1];
    const ls_scale_t scale = i / 2 % 2 ? LS_SCALE_BICUBIC : LS_SCALE_BILINEAR;
    ls_picture_t p, whole;
    assert_int_equal(ls_picture_decode(NULL, "p", f.bytes, f.size, channels, &room, &p), LS_OK);
    whole = p;
    assert_int_equal(ls_picture_scale(NULL, &whole, scale, height, width, &work[0], &scaled[0]), LS_OK);
    for (int k = 0; k < 20; k++) {
      const int top = k * 7 % height, left = k * 5 % width;
      const ls_scaled_part_t part = {
          height, width, top, left, 1 + k * 3 % (height - top), 1 + k * 11 % (width - left)};
      ls_picture_t cut = p, expect = ls_picture_part(&whole, top, left, part.height, part.width);
      assert_int_equal(ls_picture_scale_part(NULL, &cut, scale, &part, &work[1], &scaled[1]), LS_OK);
      assert_true(cut.height == part.height && cut.width == part.width);
      assert_int_equal(sum_of(&cut), sum_of(&expect));
    }
  }
  ls_free(room.bytes);
  for (int i = 0; i < 2; i++) {
    ls_free(work[i].bytes);
    ls_free(scaled[i].bytes);
  }
}

static void refuses_damaged_files(void **state) {
  static const struct {
    const char *name;
    size_t keep, flip; /* bytes that stay; one of them that is changed */
    const char *said;
  } rows[] = {
      {"colour.jpg", 700, 0, "of 700: damaged or cut JPEG data: Premature end of JPEG file"},
      {"progressive.jpg", 500, 0, "Premature end"},
      {"colour.jpg", 10, 0, "damaged or cut JPEG data"},
      {"colour.png", 900, 0, "of 900: damaged or cut PNG data: the file ends early"},
      {"colour.png", 1546, 1000, "damaged or cut PNG data: "},
      {"colour.png", 20, 0, "damaged or cut PNG data"},
      {"colour.png", 4, 0, "offset 0: neither a PNG nor a JPEG file"},
      {"colour.png", 0, 0, "the file is empty, a picture was expected"},
  };
  ls_room_t room = {0};
  for (int i = 0; i < LS_COUNT(rows); i++) {
    said_clear();
    file_t f = read_picture(rows[i].name);
    f.bytes[rows[i].flip] ^= rows[i].flip > 0 ? 0x55 : 0;
    ls_picture_t p;
    assert_int_equal(ls_picture_decode(said.ctx, rows[i].name, f.bytes, rows[i].keep, 3, &room, &p),
                     LS_ERR_DATA);
    if (!strstr(said.messages, rows[i].said)) fail_msg("%s: %s", rows[i].name, said.messages);
  }
  ls_free(room.bytes);
}

TESTS(said_open, said_close, decodes_as_pillow_does, scales_as_pillow_does, scales_parts_to_the_same_bits,
      refuses_damaged_files)
