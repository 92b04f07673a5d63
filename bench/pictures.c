/* What training takes of a picture, and how it is scaled, for bench/pictures_vs_torchvision.py.
 *   bench_pictures boxes HEIGHT WIDTH LEAST COUNT             -> COUNT lines: top left height width
 *   bench_pictures scale CHANNELS HEIGHT WIDTH TOP LEFT HEIGHT WIDTH HEIGHT WIDTH BICUBIC <pixels >pixels
 *     of a picture, the box taken of it, the result */
#include "data/picture/augment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int boxes(char **arg) {
  static const uint8_t none;
  const int height = atoi(arg[0]), width = atoi(arg[1]);
  const ls_picture_t p = {height, width, 1, (size_t)width, &none};
  for (uint64_t i = 0; i < strtoull(arg[3], NULL, 10); i++) {
    const ls_picture_t part = ls_augment_part(&p, atof(arg[2]), 1, i);
    const long at = (long)(part.pixel - p.pixel);
    printf("%ld %ld %d %d\n", at / width, at % width, part.height, part.width);
  }
  return 0;
}

static int scale(char **arg) {
  int n[10];
  for (int i = 0; i < 10; i++)
    n[i] = atoi(arg[i]);
  ls_picture_t p = {n[1], n[2], n[0], (size_t)n[0] * (size_t)n[2], NULL};
  uint8_t *pixels = malloc(p.stride * (size_t)p.height);
  ls_room_t work = {0}, room = {0};
  p.pixel = pixels;
  if (!pixels || fread(pixels, p.stride, (size_t)p.height, stdin) != (size_t)p.height) return 1;
  p = ls_picture_part(&p, n[3], n[4], n[5], n[6]);
  if (ls_picture_scale(NULL, &p, n[9] ? LS_SCALE_BICUBIC : LS_SCALE_BILINEAR, n[7], n[8], &work, &room))
    return 1;
  for (int y = 0; y < p.height; y++)
    fwrite(p.pixel + (size_t)y * p.stride, (size_t)p.channels, (size_t)p.width, stdout);
  free(pixels);
  ls_free(work.bytes);
  ls_free(room.bytes);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 6 && !strcmp(argv[1], "boxes")) return boxes(argv + 2);
  if (argc == 12 && !strcmp(argv[1], "scale")) return scale(argv + 2);
  return 2;
}
