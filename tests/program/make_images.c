/* make_images FOLDER CLASSES COUNT SEED: a folder of small pictures for each class, a third of them PNG, the others JPEG:
 * bright stripes on a dark ground, whose direction is the class. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <jpeglib.h>
#include <png.h>

enum { SIZE_MAX_PIXELS = 48 };

static uint32_t state;
static int draw(int least, int most) {
  state = state * 1664525u + 1013904223u;
  return least + (int)((state >> 8) % (uint32_t)(most - least + 1));
}

static void fill(uint8_t *pixel, int width, int height, int kind) {
  int phase = draw(0, 7), dark = draw(0, 90), bright = draw(150, 255), tint = draw(0, 60);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++) {
      const int along[] = {x, y, x + y, x - y + 2 * SIZE_MAX_PIXELS};
      int on = (along[kind % 4] + phase) / (kind < 4 ? 4 : 2) % 2;
      for (int c = 0; c < 3; c++)
        pixel[3 * (y * width + x) + c] =
            (uint8_t)((on ? bright - tint * (c == 1) : dark + tint * (c == 2)) & 255);
    }
}

static int write_png(const char *path, const uint8_t *pixel, int width, int height) {
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = PNG_FORMAT_RGB};
  return png_image_write_to_file(&image, path, 0, pixel, 0, NULL);
}

static int write_jpeg(const char *path, uint8_t *pixel, int width, int height) {
  FILE *file = fopen(path, "wb");
  struct jpeg_error_mgr errors;
  struct jpeg_compress_struct info = {.err = jpeg_std_error(&errors)};
  if (!file) return 0;
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = (JDIMENSION)width;
  info.image_height = (JDIMENSION)height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; y++)
    jpeg_write_scanlines(&info, &(JSAMPROW){pixel + (size_t)(3 * y * width)}, 1);
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  return fclose(file) == 0;
}

static int make_folder(const char *path) {
  return mkdir(path, 0777) == 0 || errno == EEXIST;
}

int main(int argc, char **argv) {
  static const char *const names[] = {"across", "along", "falling", "rising", "thin across", "thin along"};
  static uint8_t pixel[3 * SIZE_MAX_PIXELS * SIZE_MAX_PIXELS];
  char path[4096];
  if (argc != 5) return 2;
  int classes = atoi(argv[2]), count = atoi(argv[3]);
  state = (uint32_t)atoi(argv[4]);
  if (!make_folder(argv[1])) return 1;
  for (int c = 0; c < classes && c < (int)(sizeof names / sizeof *names); c++) {
    snprintf(path, sizeof path, "%s/%s", argv[1], names[c]);
    if (!make_folder(path)) return 1;
    for (int i = 0; i < count; i++) {
      int width = draw(28, SIZE_MAX_PIXELS), height = draw(28, SIZE_MAX_PIXELS);
      fill(pixel, width, height, c);
      snprintf(path, sizeof path, "%s/%s/%03d.%s", argv[1], names[c], i, i % 3 == 0 ? "png" : "jpg");
      if (!(i % 3 == 0 ? write_png(path, pixel, width, height) : write_jpeg(path, pixel, width, height)))
        return 1;
    }
  }
  return 0;
}
