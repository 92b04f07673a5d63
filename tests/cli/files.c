/* Builders of the files that rows need. */
#include "bad_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static void need(bool done, const char *name) {
  if (done) return;
  perror(name);
  exit(2);
}

void put(const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(name, "wb");
  need(file != NULL, name);
  need(size == 0 || fwrite(bytes, 1, size, file) == size, name);
  need(fclose(file) == 0, name);
}

void put_text(const char *name, const char *text) {
  put(name, text, strlen(text));
}

void put_gzip(const char *name, const void *bytes, size_t size, size_t cut, const char *tail) {
  size_t tail_size = strlen(tail), room = compressBound((uLong)size) + 64;
  unsigned char *out = malloc(room + tail_size), *in = malloc(size + 1);
  need(out && in, name);
  memcpy(in, bytes, size);
  z_stream z = {.next_in = in, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)room};
  need(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, name);
  need(deflate(&z, Z_FINISH) == Z_STREAM_END, name);
  size_t made = room - z.avail_out - cut;
  deflateEnd(&z);
  memcpy(out + made, tail, tail_size);
  put(name, out, made + tail_size);
  free(in);
  free(out);
}

void put_idx(const char *name, int rank, const unsigned *sizes, size_t data_bytes) {
  size_t header = 4 + 4 * (size_t)rank;
  unsigned char *bytes = calloc(1, header + data_bytes);
  need(bytes != NULL, name);
  bytes[2] = 0x08;
  bytes[3] = (unsigned char)rank;
  for (int i = 0; i < rank; i++)
    for (int b = 0; b < 4; b++)
      bytes[4 + 4 * i + b] = (unsigned char)(sizes[i] >> (24 - 8 * b));
  put(name, bytes, header + data_bytes);
  free(bytes);
}

void put_npy(const char *name, const char *header, const void *data, size_t size) {
  size_t text = strlen(header), padded = (10 + text + 1 + 63) / 64 * 64 - 10;
  unsigned char *bytes = malloc(10 + padded + size);
  need(bytes != NULL, name);
  memcpy(bytes, "\x93NUMPY\1\0", 8);
  bytes[8] = (unsigned char)(padded & 255);
  bytes[9] = (unsigned char)(padded >> 8);
  memset(bytes + 10, ' ', padded);
  memcpy(bytes + 10, header, text);
  bytes[10 + padded - 1] = '\n';
  if (size > 0) memcpy(bytes + 10 + padded, data, size);
  put(name, bytes, 10 + padded + size);
  free(bytes);
}

void flip_byte(const char *name, long at) {
  FILE *file = fopen(name, "r+b");
  need(file != NULL, name);
  need(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET) == 0, name);
  int byte = fgetc(file);
  need(byte != EOF, name);
  need(fseek(file, -1, SEEK_CUR) == 0, name);
  need(fputc(byte ^ 1, file) != EOF && fclose(file) == 0, name);
}

void cut_file(const char *name, long size) {
  need(truncate(name, size) == 0, name);
}

void fill_disk(const char *name) {
  FILE *file = fopen(name, "wb");
  need(file != NULL, name);
  setvbuf(file, NULL, _IONBF, 0);
  static const char block[512];
  while (fwrite(block, 1, sizeof block, file) == sizeof block)
    continue;
  fclose(file);
}
