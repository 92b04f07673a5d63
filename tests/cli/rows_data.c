/* Wrong data files. */
#include "bad_input.h"
#include "data/zip.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TRAIN     "train: {batch: 2, steps: 2}\nparallel: {backend: cpu, threads: 1}\n"
#define REAL      "model: {input: [2], loss: mse, layers: [{dense: {units: 1}}]}\n" TRAIN
#define CLASSES   "model: {input: [2], loss: cross-entropy, layers: [{dense: {units: 3}}]}\n" TRAIN
#define CSV       REAL "data: {kind: csv, path: d.csv, target: [y]}\n"
#define CSV_GZ    REAL "data: {kind: csv, path: d.csv.gz, target: [y]}\n"
#define IDX       CLASSES "data: {kind: idx, features: x.idx, targets: y.idx}\n"
#define NPY_FILES "data: {kind: npy, features: x.npy, targets: y.npy}\n"
#define NPY       REAL NPY_FILES
#define TOKENS                                                                                               \
  "model: {input: [2], loss: cross-entropy, layers: [{embedding: {size: 5, units: 3}}]}\n" TRAIN             \
  "data: {kind: npy, features: x.npy, targets: y.npy}\n"
#define NPZ REAL "data: {kind: npy, features: d.npz:x, targets: d.npz:y}\n"
#define CLASSES_OF(kind)                                                                                     \
  "model: {input: [1], loss: cross-entropy, layers: [{dense: {units: 3}}]}\n" TRAIN "data: {kind: " kind "}" \
  "\n"
#define GOOD "a,b,y\n1,2,3\n4,5,6\n7,8,9\n1,1,1\n"

#define FILES(name, ...)                                                                                     \
  static void name(void) {                                                                                   \
    __VA_ARGS__;                                                                                             \
  }
#define TEXT(name, text) FILES(name, put_text("d.csv", text))

TEXT(csv_empty, "")
TEXT(csv_header_only, "a,b,y\n")
TEXT(csv_short_row, "a,b,y\n1,2,3\n4,5\n7,8,9\n")
TEXT(csv_text, "a,b,y\n1,2,3\n4,five,6\n")
TEXT(csv_nan, "a,b,y\n1,2,3\n4,nan,6\n")
TEXT(csv_inf, "a,b,y\n1,-inf,3\n")
TEXT(csv_no_target, "a,b,price\n1,2,3\n")
TEXT(csv_wide, "a,b,c,y\n1,2,3,4\n1,2,3,4\n")
TEXT(csv_one_row, "a,b,y\n1,2,3\n")
TEXT(csv_good, GOOD)
TEXT(csv_constant_column, "a,b,y\n1,5,3\n4,5,6\n7,5,9\n1,5,1\n")
TEXT(csv_one_class, "a,b,y\n1,2,1\n4,5,1\n7,8,1\n1,1,1\n")
TEXT(csv_large_targets, "a,b,y\n1,2,1e9\n4,5,2e9\n7,8,-3e9\n1,1,1e9\n")
FILES(csv_weights, put_text("d.csv", GOOD); put_text("e.csv", "a,b\n");
      must_run("train c.yaml --quiet --set train.checkpoint.dir=run");
      must_run("export c.yaml --checkpoint run --output w.safetensors"))
TEXT(csv_semicolons, "a;b;y\n1;2;3\n4;5;6\n")
TEXT(csv_tabs, "a\tb\ty\n1\t 2\t3\n4\t5\t6\n")
TEXT(csv_spaces, "a, b, y\n1, 2, 3\n4, 5, 6\n")
TEXT(csv_two_delimiters, "a,1;b;y\n1;2;3\n4;5;6\n")
TEXT(csv_bars, "a|b|y\n1|2|3\n4|5|6\n")
TEXT(csv_decimal_commas, "a;b;y\n1,5;2;3\n4;5;6\n")
TEXT(csv_line_end_in_a_name, "a,b,\"y\nlockstep: error: z\"\n1,2,x\n4,5,6\n")
static void put_wide_csv(const char *name, int first) {
  FILE *file = fopen(name, "w");
  for (int line = 0; line < 5; line++) {
    for (int i = 0; i < 70; i++)
      fprintf(file, line == 0 ? "c%d," : "%d,", (first + i) % 70 * (line == 0 ? 1 : line + 1));
    fprintf(file, line == 0 ? "y\n" : "%d\n", line);
  }
  fclose(file);
}
static void wide_and_turned(void) {
  put_wide_csv("d.csv", 0);
  must_run("train c.yaml --quiet --set train.checkpoint.dir=run");
  put_wide_csv("turned.csv", 30);
}
FILES(csv_binary, put("d.csv",
                      "\x7f"
                      "ELF\0\0\1\2\n\0\0",
                      11))
FILES(csv_utf16, put("d.csv",
                     "\xff\xfe"
                     "a\0,\0y\0\n\0",
                     10))
FILES(csv_folder, mkdir("d.csv", 0777))
FILES(csv_pipe, mkfifo("d.csv", 0666))
FILES(gzip_cut, put_gzip("d.csv.gz", GOOD, strlen(GOOD), 12, ""))
FILES(gzip_trailing, put_gzip("d.csv.gz", GOOD, strlen(GOOD), 0, "garbage"))
FILES(gzip_damaged, put_gzip("d.csv.gz", GOOD, strlen(GOOD), 0, ""); flip_byte("d.csv.gz", -6))

static void gzip_bomb(void) {
  size_t size = (size_t)100 << 20;
  char *zeros = calloc(1, size);
  put_gzip("d.csv.gz", zeros, size, 0, "");
  free(zeros);
}

static const unsigned four_by_two[] = {4, 2}, four[] = {4}, five[] = {5},
                      huge[] = {0xffffffffu, 0xffffffffu, 0xffffffffu};
static const unsigned none_by_two[] = {0, 2};
static void idx_targets(const char *labels) {
  put_idx("y.idx", 1, four, 0);
  char bytes[12] = {0, 0, 8, 1, 0, 0, 0, 4};
  memcpy(bytes + 8, labels, 4);
  put("y.idx", bytes, sizeof bytes);
}
FILES(idx_huge, put_idx("x.idx", 3, huge, 8); idx_targets("\0\1\2\0"))
FILES(idx_none, put_idx("x.idx", 2, none_by_two, 0); idx_targets("\0\1\2\0"))
FILES(idx_magic, put_text("x.idx", "P5 2 4 255 12345678"); idx_targets("\0\1\2\0"))
FILES(idx_type, put("x.idx", "\0\0\x0a\x01\0\0\0\1\0", 9); idx_targets("\0\1\2\0"))
FILES(idx_label, put_idx("x.idx", 2, four_by_two, 8); idx_targets("\0\1\3\0"))
FILES(idx_counts, put_idx("x.idx", 2, four_by_two, 8); put_idx("y.idx", 1, five, 5))
FILES(idx_no_targets, put_idx("x.idx", 2, four_by_two, 8))
FILES(idx_empty, put_text("x.idx", ""); idx_targets("\0\1\2\0"))

#define HEADER(descr, order, shape) "{'descr': '" descr "', 'fortran_order': " order ", 'shape': " shape ", }"
static const float zeros[16];
static void npy_features(const char *header, size_t bytes) {
  put_npy("x.npy", header, zeros, bytes);
  put_npy("y.npy", HEADER("<f4", "False", "(4, 1)"), zeros, 16);
}
FILES(npy_good, npy_features(HEADER("<f4", "False", "(4, 2)"), 32))
FILES(npy_fortran, npy_features(HEADER("<f4", "True", "(4, 2)"), 32))
FILES(npy_text, npy_features(HEADER("<U8", "False", "(4, 2)"), 32))
FILES(npy_complex, npy_features(HEADER("<c8", "False", "(2, 2)"), 32))
FILES(npy_cut, npy_features(HEADER("<f4", "False", "(4, 2)"), 31))
FILES(npy_overflow, npy_features(HEADER("<f4", "False", "(4611686018427387904, 4)"), 32))
FILES(npy_no_shape, npy_features("{'descr': '<f4', 'fortran_order': False}", 32))
FILES(npy_code, npy_features("{'descr': __import__('os'), 'fortran_order': False, 'shape': (4, 2)}", 32))
FILES(npy_width, npy_features(HEADER("<f4", "False", "(4, 4)"), 64))
FILES(npy_npz, put("x.npy", "PK\3\4xxxxxxxx", 12);
      put_npy("y.npy", HEADER("<f4", "False", "(4, 1)"), zeros, 16))
FILES(npy_nan, float x[8] = {0}; x[5] = NAN; put_npy("x.npy", HEADER("<f4", "False", "(4, 2)"), x, 32);
      put_npy("y.npy", HEADER("<f4", "False", "(4, 1)"), zeros, 16))
FILES(npy_token, uint16_t x[8] = {0, 1, 2, 3, 4, 0, 7, 1}; int32_t y[8] = {0};
      put_npy("x.npy", HEADER("<u2", "False", "(4, 2)"), x, 16);
      put_npy("y.npy", HEADER("<i4", "False", "(4, 2)"), y, 32))
FILES(npy_ignored, uint16_t x[8] = {0, 1, 2, 3, 4, 0, 4, 1}; int32_t y[8] = {0, -1, 2, -1, -1, 1, 0, 2};
      put_npy("x.npy", HEADER("<u2", "False", "(4, 2)"), x, 16);
      put_npy("y.npy", HEADER("<i4", "False", "(4, 2)"), y, 32))
FILES(npy_half_token, float x[8] = {0, 1, 2.5f}; int32_t y[8] = {0};
      put_npy("x.npy", HEADER("<f4", "False", "(4, 2)"), x, 32);
      put_npy("y.npy", HEADER("<i4", "False", "(4, 2)"), y, 32))
FILES(npy_target_width, put_npy("x.npy", HEADER("<f4", "False", "(4, 2)"), zeros, 32);
      put_npy("y.npy", HEADER("<f4", "False", "(4, 2)"), zeros, 32))
FILES(npy_half_class, float y[4] = {0, 1, 1.5f, 2};
      put_npy("x.npy", HEADER("<f4", "False", "(4, 2)"), zeros, 32);
      put_npy("y.npy", HEADER("<f4", "False", "(4,)"), y, 16))

/* The features deflated, the targets stored, as x and y of one archive; `cut` bytes are left out at its end.
 */
static void put_npz(size_t cut) {
  char file[400], text[] = HEADER("<f4", "True", "(4, 2)");
  zip_file_t z = {0};
  memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
  memset(file + 10, ' ', 118);
  memcpy(file + 10, text, strlen(text));
  memcpy(file + 128, zeros, 32);
  zip_add(&z, "x.npy", file, 160, true, false);
  strcpy(text, HEADER("<f4", "True", "(4, 1)"));
  memcpy(file + 10, text, strlen(text));
  zip_add(&z, "y.npy", file, 144, false, true);
  zip_end(&z, true);
  put("d.npz", z.bytes, z.size - cut);
  free(z.bytes);
}
FILES(npz_good, put_npz(0))
FILES(npz_cut, put_npz(40))
/* The checksum in y's entry, which three end records follow. */
FILES(npz_crc, put_npz(0); flip_byte("d.npz", 16 - (46 + 5 + 28) - (56 + 20 + 22)))
FILES(npz_not, put_text("d.npz", "this is text, and more than twenty-two bytes of it"))
static void npz_bomb(void) {
  size_t size = (size_t)100 << 20;
  char *none = calloc(1, size);
  zip_file_t z = {0};
  zip_add(&z, "x.npy", none, size, true, false);
  zip_end(&z, false);
  put("d.npz", z.bytes, z.size);
  free(z.bytes);
  free(none);
}

#define TEXT_DATA(more)                                                                                      \
  "model: {input: [2], loss: cross-entropy, layers: [{dense: {units: 3}}]}\n" TRAIN                          \
  "data: {kind: text, path: t.txt" more "}\n"
FILES(text_good, put_text("t.txt", "abcabcabcabc"))
FILES(text_latin, put_text("t.txt", "abc\nna\xefve"))
FILES(vocabulary_unigram, put_text("v.json", "{\"model\": {\"type\": \"Unigram\"}}"); text_good())
FILES(vocabulary_wordpiece,
      put_text("v.json",
               "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"?\", \"vocab\": {\"a\": 0}}}");
      text_good())
FILES(vocabulary_pattern,
      put_text("v.json",
               "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}, \"pre_tokenizer\": "
               "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
               "\"a|(b\"}, \"behavior\": \"Isolated\"}, {\"type\": \"ByteLevel\", \"use_regex\": false}]}}");
      text_good())
FILES(vocabulary_cut, put_text("v.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0,");
      text_good())
FILES(vocabulary_list, put_text("v.json", "[\"a\", \"b\"]"); text_good(); put("t.bin", "\0\0\1\0\2\0", 6))
FILES(text_like_a_list, put_text("t.bin.vocabulary.json", "ab"))
FILES(token_file_odd, put("t.bin", "abcde", 5))

static void grey_bytes(void) {
  static const char bytes[4 * 90];
  put_npy("x.npy", HEADER("|u1", "False", "(4, 6, 5)"), bytes, 120);
  put_npy("f.npy", HEADER("|u1", "False", "(4, 1, 6, 5)"), bytes, 120);
  put_npy("w.npy", HEADER("|u1", "False", "(4, 30)"), bytes, 120);
  put_npy("c.npy", HEADER("|u1", "False", "(4, 3, 6, 5)"), bytes, 360);
  static const float numbers[120];
  put_npy("s.npy", HEADER("<f4", "False", "(4, 5, 5)"), numbers, 400);
  put_npy("n.npy", HEADER("<f4", "False", "(4, 6, 5)"), numbers, 480);
  put_npy("y.npy", HEADER("<f4", "False", "(4, 1)"), numbers, 16);
}
static void idx_pictures(void) {
  static const unsigned sizes[] = {4, 6, 5};
  put_idx("x.idx", 3, sizes, 120);
  idx_targets("\0\1\2\0");
}

#define CSV_WITH(more) REAL "data: {kind: csv, path: d.csv, target: [y], " more "}\n"
#define KINDS                                                                                                \
  "model: {input: [1], loss: cross-entropy, layers: [{dense: {units: 3}}]}\n" TRAIN                          \
  "data: {kind: csv, path: d.csv, target: [y], validation_path: v.csv}\n"
/* 3 x 2 pixels. */
static const unsigned char picture[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
    0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x02, 0x08, 0x02, 0x00, 0x00, 0x00, 0x12, 0x16, 0xf1, 0x4d, 0x00,
    0x00, 0x00, 0x1c, 0x49, 0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x60, 0x60, 0x64, 0xd2, 0xd0, 0xd4, 0x0a,
    0x08, 0x0c, 0x62, 0x60, 0xe7, 0xe0, 0xd4, 0x37, 0x30, 0x0c, 0x8f, 0x88, 0x04, 0x00, 0x18, 0x77, 0x03,
    0x22, 0x6c, 0x11, 0x77, 0x79, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
};
#define IMAGES_OF(input, more)                                                                               \
  "model: {input: " input ", loss: cross-entropy, layers: [{dense: {units: 2}}]}\n" TRAIN                    \
  "data: {kind: images, path: d" more "}\n"
#define IMAGES        IMAGES_OF("[2, 3, 3]", "")
#define IMAGES_HELD   IMAGES_OF("[2, 3, 3]", ", validation_path: v")
#define IMAGES_LISTED IMAGES_OF("[2, 3, 3]", "/list.csv")
#define NPY_IMAGES                                                                                           \
  "model: {input: [2, 2], loss: mse, layers: [{dense: {units: 1}}]}\n" TRAIN                                 \
  "data: {kind: npy, features: x.npy, targets: y.npy}\n"
static void put_picture(const char *folder, const char *class, const char *name, size_t cut) {
  char path[128];
  mkdir(folder, 0777);
  snprintf(path, sizeof path, "%s/%s", folder, class);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%s/%s", folder, class, name);
  put(path, picture, sizeof picture - cut);
}
static void images_good(void) {
  put_picture("d", "cat", "1.png", 0);
  put_picture("d", "dog", "1.png", 0);
}
static void images_trained(void) {
  images_good();
  mkdir("e", 0777);
  must_run("train c.yaml --quiet --set train.checkpoint.dir=run");
}
static void images_weights(void) {
  images_trained();
  must_run("export c.yaml --checkpoint run --output w.safetensors");
  put_npy("im.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 3, 3), }", picture, 18);
}
static void images_trained_then_cut(void) {
  images_trained();
  put_picture("d", "cat", "1.png", 20);
  put_picture("d", "dog", "1.png", 20);
}
FILES(images_no_class, mkdir("d", 0777))
FILES(images_empty_class, images_good(); mkdir("d/cow", 0777))
FILES(images_empty_third, images_good(); mkdir("d/emu", 0777))
FILES(images_cut, images_good(); put_picture("d", "dog", "2.png", 20))
FILES(images_text, images_good(); put_text("d/cat/2.png", "a cat"))
FILES(images_pipe, images_good(); mkfifo("d/cat/2.png", 0666))
FILES(images_nothing, images_good(); put_text("d/cat/2.png", ""))
FILES(images_three, images_good(); put_picture("d", "emu", "1.png", 0))
FILES(images_held, images_good(); put_picture("v", "cat", "1.png", 0); put_picture("v", "emu", "1.png", 0))
static void images_listed(const char *list) {
  images_good();
  put_text("d/list.csv", list);
}
FILES(images_list_good, images_listed("file,label\ncat/1.png,cat\ndog/1.png,dog\n"))
FILES(images_list_missing, images_listed("file,label\ncat/1.png,cat\ncat/7.png,cat\n"))
FILES(images_list_number, images_listed("file,label\ncat/1.png,0\ndog/1.png,2\n"))
FILES(images_list_many, images_listed("file,label\ncat/1.png,a\ncat/1.png,b\ncat/1.png,c\n"))
FILES(images_list_ragged, images_listed("file,label\ncat/1.png,a\ncat/1.png\n"))
FILES(images_list_no_file, images_listed("file,label\ncat/1.png,a\n,b\n"))
#define HELD_OUT(features, targets)                                                                          \
  " --set data.validation_features=" features ".npy --set data.validation_targets=" targets ".npy"
static void npy_images(void) {
  put_npy("x.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2, 2), }", (const float[16]){0},
          64);
  put_npy("y.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1), }", (const float[4]){0}, 16);
}
/* Samples of [2, 2], and held-out ones of [1, 4]; channels before pixels. */
static void npy_pictures(void) {
  put_npy("x.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 2, 2), }", "0123456789abcdef", 16);
  put_npy("v.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 1, 4), }", "0123456789abcdef", 16);
  put_npy("c.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 3, 2, 2), }",
          "0123456789abcdef0123456789abcdef0123456789abcde", 48);
  put_npy("y.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 1), }", (const float[4]){0}, 16);
  put_npy("t.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4, 3), }",
          "0123456789abcdef01234567", 24);
  put_npy("w.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }",
          "0123456789abcdef01234567", 24);
  put_npy("y2.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", (const float[2]){0}, 8);
}
TEXT(csv_many_faults, "city,a,age,b,y\nRome,1,,5,3\nOslo,2,7,6,ten\nRome,3,NA,7,\n")
TEXT(csv_classes_from_1, "x,y\n1,1\n2,3\n3,2\n4,3\n")
TEXT(csv_class_beyond, "x,y\n1,0\n2,7\n3,2\n4,9\n")
TEXT(csv_class_negative, "x,y\n1,0\n2,-1\n3,2\n")
static void npy_classes(const int32_t y[4], const char *shape) {
  put_npy("x.npy", HEADER("<f4", "False", "(4, 2)"), zeros, 32);
  put_npy("y.npy", shape, y, 16);
}
FILES(npy_classes_from_1, npy_classes((const int32_t[]){1, 3, 2, 3}, HEADER("<i4", "False", "(4,)")))
FILES(npy_padding, uint16_t x[4] = {0, 1, 2, 3}; int32_t y[4] = {0, -100, 2, 1};
      put_npy("x.npy", HEADER("<u2", "False", "(2, 2)"), x, 8);
      put_npy("y.npy", HEADER("<i4", "False", "(2, 2)"), y, 16))
FILES(csv_parquet, put("d.csv", "PAR1\25\4\25\100 and more", 17))
/* A zip's first local header, whose member has this name. */
static void put_zip(const char *file, const char *member) {
  char bytes[128] = "PK\3\4\24\0\0\0\10\10";
  bytes[26] = (char)strlen(member);
  memcpy(bytes + 30, member, strlen(member));
  put(file, bytes, sizeof bytes);
}
FILES(csv_workbook, put_zip("d.csv", "[Content_Types].xml"))
FILES(weights_of_torch, put_text("d.csv", GOOD); put_zip("w.pth", "archive/data.pkl"))
FILES(weights_pickled, put_text("d.csv", GOOD); put("w.pth", "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15))
static const char webp[] = "RIFF\x24\0\0\0WEBPVP8 ";
static void images_many_bad(void) {
  images_good();
  put_picture("d", "cat", "2.png", 20);
  put("d/dog/2.png", webp, sizeof webp);
  put_text("d/dog/3.jpg", "");
}
static void images_too_many_bad(void) {
  images_good();
  for (int i = 0; i < 40; i++) {
    char name[32];
    snprintf(name, sizeof name, "b%d.png", i);
    put_picture("d", "cat", name, 20);
  }
}
FILES(csv_dates, put_text("d.csv", "when,b,y\n2024-01-31,1,2\n2024-02-30,3,4\n"))
FILES(csv_labels, put_text("d.csv", "a,y\n1,oak\n2,elm\n"); put_text("v.csv", "a,y\n1,elm\n2,pine\n"))

const row_t rows_data[] = {
    {"a window of another width", DATA, .config = CSV_WITH("window: 2"), .files = csv_good,
     .expect = {"d.csv has 3 features, and with data.window: 2", "set model.input to [2, 3]"}},
    {"a window of another width than the preset's", DATA,
     .config = "model: {preset: lstm, classes: 1}\n" TRAIN
               "data: {kind: csv, path: d.csv, target: [y], window: 2}\n",
     .files = csv_good,
     .expect = {"d.csv has 3 features, and with data.window: 2",
                "set model.context to 2 and model.features to 3, or"}},
    {"a column of one value", OK, .config = CSV, .files = csv_constant_column,
     .expect = {"warning: d.csv: 1 column has the same value in every sample, and teaches nothing: `b`"}},
    {"samples of one class", OK, .config = CLASSES "data: {kind: csv, path: d.csv, target: [y]}\n",
     .files = csv_one_class,
     .expect = {"warning: d.csv: all 4 training samples have class 1: there is nothing to tell apart"}},
    {"targets of a billion", OK, .config = CSV_WITH("normalize: false"), .files = csv_large_targets,
     .expect = {"warning: d.csv: targets are as large as 3e+09, and outputs begin near 0",
                "data.normalize: true"}},
    {"normalised targets of a billion", OK, .config = CSV_WITH("normalize: true"), .files = csv_large_targets,
     .lacks = "warning"},
    {"a label that only validation has", DATA, .config = KINDS, .files = csv_labels,
     .expect = {"v.csv:3:3: column 'y': label 'pine' is none of the 2 that the model was trained on"}},
    {"text without a file", CONFIG, .config = REAL "data: {kind: text}\n",
     .expect = {"data.path is needed with data.kind: text"}},
    {"text for a model without positions", CONFIG, .config = TEXT_DATA(""), .files = text_good,
     .expect = {"data.kind: text has a target at each of 2 positions"}},
    {"text of another context", CONFIG, .config = TEXT_DATA(", context: 3"), .files = text_good,
     .expect = {"data.context is 3", "set model.input to [3]"}},
    {"text of another context than the preset's", CONFIG,
     .config = "model: {preset: gpt-char}\n" TRAIN "data: {kind: text, path: t.txt, context: 3}\n",
     .files = text_good, .expect = {"data.context is 3", "set model.context to 3\n"}},
    {"text with real targets", CONFIG, .config = REAL "data: {kind: text, path: t.txt}\n", .files = text_good,
     .expect = {"it needs loss: cross-entropy"}},
    {"text that is normalised", CONFIG, .config = TEXT_DATA(", normalize: true"), .files = text_good,
     .expect = {"data.normalize does not go with data.kind: text"}},
    {"text on the device", CONFIG, .config = TEXT_DATA(", resident: true"), .files = text_good,
     .expect = {"data.resident: true does not go with data.kind: text"}},
    {"a stride without strided windows", CONFIG, .config = TEXT_DATA(", stride: 2"), .files = text_good,
     .expect = {"data.stride goes with data.windows: strided"}},
    {"tokens of a csv", CONFIG, .config = REAL "data: {kind: csv, path: d.csv, target: [y], tokens: bytes}\n",
     .files = csv_good, .expect = {"data.tokens does not go with data.kind: csv"}},
    {"text that is Latin-1", DATA, .args = "tokenize t.txt t.bin --characters", .files = text_latin,
     .expect = {"t.txt:2:3: this is not UTF-8"}},
    {"tokenize without a way", USAGE, .args = "tokenize t.txt t.bin", .files = text_good,
     .expect = {"takes one of --vocabulary FILE, --characters and --bytes"}},
    {"tokenize two ways", USAGE, .args = "tokenize t.txt t.bin --bytes --characters", .files = text_good,
     .expect = {"takes one of"}},
    {"tokenize onto its input", USAGE, .args = "tokenize t.txt ./t.txt --bytes", .files = text_good,
     .expect = {"./t.txt is what is read"}},
    {"tokenize onto its vocabulary", USAGE, .args = "tokenize t.txt ./v.json --vocabulary v.json",
     .files = vocabulary_list, .expect = {"./v.json is what is read (--vocabulary): name another file"}},
    {"tokenize with a list onto its input", USAGE,
     .args = "tokenize t.bin.vocabulary.json t.bin --characters", .files = text_like_a_list,
     .expect = {"t.bin.vocabulary.json is what is read (INPUT)"}},
    {"tokenize nothing", IO, .args = "tokenize none.txt t.bin --bytes",
     .expect = {"none.txt: cannot be opened: No such file or directory"}},
    {"tokenize with a model that is not done", UNSUPPORTED,
     .args = "tokenize t.txt t.bin --vocabulary v.json", .files = vocabulary_unigram,
     .expect = {"v.json: its model is Unigram"}},
    {"tokenize with an unknown token that is none", DATA, .args = "tokenize t.txt t.bin --vocabulary v.json",
     .files = vocabulary_wordpiece, .expect = {"v.json: its unk_token '?' is not in the vocabulary"}},
    {"tokenize with a pattern that is cut", UNSUPPORTED, .args = "tokenize t.txt t.bin --vocabulary v.json",
     .files = vocabulary_pattern,
     .expect =
         {"v.json: its pre_tokenizer has a pattern with missing closing parenthesis, from byte 4 of 'a|(b'",
          "Another program can make a token file, which data.tokens: u16 or i32 reads"}},
    {"tokenize with a vocabulary that is cut", DATA, .args = "tokenize t.txt t.bin --vocabulary v.json",
     .files = vocabulary_cut, .expect = {"v.json:1:", "not JSON"}},
    {"tokenize a character that is not in the list", CHECKPOINT,
     .args = "tokenize t.txt t2.bin --vocabulary v.json", .files = vocabulary_list,
     .expect = {"t.txt:1:3: character 'c' (U+0063) is none of the 2 in the vocabulary of v.json"}},
    {"decode a token that is not in the list", DATA,
     .args = "tokenize t.bin t2.txt --vocabulary v.json --decode", .files = vocabulary_list,
     .expect = {"t.bin: token 2 (from 0) is 2, which is not in the vocabulary"}},
    {"a token file of odd length", DATA, .args = "check c.yaml --set data.path=t.bin",
     .config = "model: {input: [2], loss: cross-entropy, layers: [{embedding: {size: 3, units: 4}}, {dense: "
               "{units: 3, over: "
               "last}}]}\n" TRAIN "data: {kind: text, path: t.txt}\n",
     .files = token_file_odd, .expect = {"t.bin: 5 bytes are no whole number of tokens of 2 bytes"}},
    {"csv semicolons", OK, .config = CSV, .files = csv_semicolons},
    {"csv tabs and spaces", OK, .config = CSV, .files = csv_tabs},
    {"csv spaces in the header", OK, .config = CSV, .files = csv_spaces},
    {"csv two delimiters", DATA, .config = CSV, .files = csv_two_delimiters,
     .expect = {"d.csv:1:1", "no column 'y'", "it also holds ';': if that separates",
                "--set data.delimiter=';'"}},
    {"csv two delimiters, told", OK, "check c.yaml --set data.delimiter=;", CSV, csv_two_delimiters},
    {"csv bars", DATA, .config = CSV, .files = csv_bars,
     .expect = {"d.csv:1:1", "it also holds '|'", "--set data.delimiter='|'"}},
    {"csv bars, told", OK, "check c.yaml --set data.delimiter=|", CSV, csv_bars},
    {"csv commas, told", OK, "check c.yaml --set data.delimiter=,", CSV, csv_good},
    {"csv tabs, told by name", OK, "check c.yaml --set data.delimiter=tab", CSV, csv_tabs},
    {"csv tabs, told by escape", OK, "check c.yaml --set data.delimiter=\\t", CSV, csv_tabs},
    {"csv decimal comma", DATA, .config = CSV, .files = csv_decimal_commas,
     .expect = {"d.csv:2:1: column 'a': '1,5' has a decimal comma", "sed 's/,/./g'"}},
    {"csv line end in a name", DATA, "check c.yaml --set data.target=b", CSV, csv_line_end_in_a_name,
     .expect = {"column 'y\\nlockstep: error: z': 'x'"}},
    {"csv of 70 columns in another order", OK, "eval c.yaml --checkpoint run --set data.path=turned.csv",
     "model: {input: [70], loss: mse, layers: [{dense: {units: 1}}]}\n" TRAIN
     "data: {kind: csv, path: d.csv, target: [y]}\n",
     wide_and_turned},
    {"csv delimiter of two characters", CONFIG, "check c.yaml --set data.delimiter=;;", CSV, csv_semicolons,
     .expect = {"data.delimiter", ";;"}},
    {"csv delimiter with npy", CONFIG, "check c.yaml --set data.delimiter=tab", NPY, npy_good,
     .expect = {"data.delimiter does not go with data.kind: npy"}},
    {"gzip bomb", DATA, .config = CSV_GZ, .files = gzip_bomb,
     .expect = {"d.csv.gz", "more than 100 times its size", "unpack it yourself"}},
    {"csv missing", IO, .config = CSV, .expect = {"/d.csv: No such file", "configuration's folder"}},
    {"csv empty path", CONFIG, .config = REAL "data: {kind: csv, path: '', target: [y]}\n",
     .expect = {"c.yaml:4:25", "data.path", "empty"}},
    {"csv is a folder", IO, .config = CSV, .files = csv_folder, .expect = {"d.csv", "directory"}},
    {"csv is a pipe", IO, .config = CSV, .files = csv_pipe, .expect = {"d.csv"}},
    {"csv empty", DATA, .config = CSV, .files = csv_empty, .expect = {"d.csv", "empty"}},
    {"csv with a header only", DATA, .config = CSV, .files = csv_header_only, .expect = {"d.csv", "no rows"}},
    {"csv text", DATA, .config = CSV, .files = csv_text, .expect = {"d.csv:3:3", "column 'b'", "'five'"}},
    {"csv nan", DATA, .config = CSV, .files = csv_nan, .expect = {"d.csv:3:3", "'nan'", "finite"}},
    {"csv infinity", DATA, .config = CSV, .files = csv_inf, .expect = {"d.csv:2:3", "'-inf'"}},
    {"csv without the target", DATA, "check c.yaml --set data.target=prize", CSV, csv_no_target,
     .expect = {"d.csv:1:", "no column 'prize'", "did you mean 'price'"}},
    {"images without class folders", DATA, .config = IMAGES, .files = images_no_class,
     .expect = {"d: no folders in it: images need a folder for each class"}},
    {"images: an empty folder beside as many classes as the model has", DATA, .config = IMAGES,
     .files = images_empty_third, .expect = {"d/emu: a class folder without PNG or JPEG files"}},
    {"images: an empty class folder", DATA, .config = IMAGES, .files = images_empty_class,
     .expect = {"d/cow: a class folder without PNG or JPEG files"}},
    {"images: a file that is cut", DATA, .config = IMAGES, .files = images_cut,
     .expect = {"d/dog/2.png: offset ", "damaged or cut PNG data"}},
    {"images: a cut file, decoded for each batch", DATA, "check c.yaml --set data.decode=always", IMAGES,
     images_cut, .expect = {"d/dog/2.png: offset ", "damaged or cut PNG data"}},
    {"an earlier run stays where it is when the first batch cannot be read", DATA,
     "train c.yaml --set train.checkpoint.dir=run --set data.decode=always", IMAGES, images_trained_then_cut,
     .expect = {"/1.png: offset ", "damaged or cut PNG data"}},
    {"images: text named .png", DATA, .config = IMAGES, .files = images_text,
     .expect = {"d/cat/2.png: offset 0: neither a PNG nor a JPEG file"}},
    {"images: a pipe", DATA, .config = IMAGES, .files = images_pipe, .expect = {"d/cat/2.png: not a file"}},
    {"images: an empty file", DATA, .config = IMAGES, .files = images_nothing,
     .expect = {"d/cat/2.png: the file is empty"}},
    {"images: more classes than units", DATA, .config = IMAGES, .files = images_three,
     .expect = {"d/emu: 'emu' is class folder number 3, but the model's last layer has 2 units"}},
    {"images: a class in validation alone", DATA, .config = IMAGES_HELD, .files = images_held,
     .expect = {"v/emu: class 'emu' is none of the 2 that the model was trained on"}},
    {"images that are not there", IO, .config = IMAGES, .expect = {"/d: No such file"}},
    {"images: a list without its column", DATA, "check c.yaml --set data.target=class", IMAGES_LISTED,
     images_list_good,
     .expect = {"list.csv:1:", "there is no column 'class': data.target names the one of the labels"}},
    {"images: a list of files that are not there", IO, .config = IMAGES_LISTED, .files = images_list_missing,
     .expect = {"d/cat/7.png: cannot be opened"}},
    {"images: a list with a class beyond the model", DATA, .config = IMAGES_LISTED,
     .files = images_list_number,
     .expect = {"list.csv:3:11: class 2, but the model's last layer has 2 units"}},
    {"images: a list with too many labels", DATA, .config = IMAGES_LISTED, .files = images_list_many,
     .expect = {"list.csv:4:11: 'c' is label number 3"}},
    {"images: a list with a short row", DATA, .config = IMAGES_LISTED, .files = images_list_ragged,
     .expect = {"list.csv:3:", "this row has 1 cells, the header has 2"}},
    {"images: a list with a row without a file", DATA, .config = IMAGES_LISTED, .files = images_list_no_file,
     .expect = {"list.csv:3:1: empty cell where a file is needed"}},
    {"images for a model without height", CONFIG, .config = IMAGES_OF("[18]", ""), .files = images_good,
     .expect = {"pictures need model.input [height, width, 3]"}},
    {"images scaled below the model's size", CONFIG, "check c.yaml --set data.resize=2", IMAGES, images_good,
     .expect = {"data.resize is 2", "the model takes 2 x 3 pixels"}},
    {"images with two means", CONFIG, "check c.yaml --set data.mean=[0.1,0.2]", IMAGES, images_good,
     .expect = {"data.mean has 2 numbers, but the model's images have 3 channels"}},
    {"images exported with two means", CONFIG,
     "export c.yaml --output x.onnx --set model.weights=w.safetensors --set data.mean=[0.4,0.5]", IMAGES,
     images_weights, .expect = {"data.mean has 2 numbers, but the model's images have 3 channels"}},
    {"images predicted with two deviations", CONFIG,
     "predict c.yaml --input im.npy --set model.weights=w.safetensors --set data.std=[0.1,0.2]", IMAGES,
     images_weights, .expect = {"data.std has 2 numbers, but the model's images have 3 channels"}},
    {"grey images exported with three means", CONFIG,
     "export c.yaml --output x.onnx --set model.weights=w.safetensors --set model.input=[2,9] --set "
     "data.mean=[0.1,0.2,0.3]",
     IMAGES, images_weights, .expect = {"data.mean has 3 numbers, but the model's images have 1 channel"}},
    {"images exported from a model without height", CONFIG,
     "export c.yaml --output x.onnx --set model.weights=w.safetensors --set model.input=[18]", IMAGES,
     images_weights, .expect = {"pictures need model.input [height, width, 3]"}},
    {"images predicted by weights without their normalisation", USAGE,
     "predict c.yaml --input d --set model.weights=w.safetensors --set data.normalize=true", IMAGES,
     images_weights,
     .expect =
         {"name the run with --checkpoint, or set data.mean and data.std, and data.normalize to false"}},
    {"no rows predicted by weights without their normalisation", USAGE,
     "predict c.yaml --input e.csv --set model.weights=w.safetensors", CSV_WITH("normalize: true"),
     csv_weights,
     .expect = {"normalised, and --set data.normalize=false: predictions are then normalised, too"}},
    {"images with a deviation of 0", CONFIG, "check c.yaml --set data.std=0", IMAGES, images_good,
     .expect = {"data.std: `0` must be in"}},
    {"images with given and measured means", CONFIG,
     "check c.yaml --set data.mean=0.5 --set data.normalize=true", IMAGES, images_good,
     .expect = {"data.normalize: true measures mean and deviation, but data.mean gives them"}},
    {"images decoded once, but cropped at random", CONFIG,
     "check c.yaml --set data.decode=once --set data.crop=random", IMAGES, images_good,
     .expect = {"data.decode: once keeps one sample of each image"}},
    {"images kept on the device, but flipped", CONFIG,
     "check c.yaml --set data.resident=true --set data.flip=true", IMAGES, images_good,
     .expect = {"data.resident: true keeps the samples as they are", "data.flip changes them"}},
    {"images with real targets", CONFIG, "check c.yaml --set model.loss=mse", IMAGES, images_good,
     .expect = {"data.kind: images has one class for each image: it needs loss: cross-entropy"}},
    {"images named by two columns", CONFIG, "check c.yaml --set data.columns=[a,b]", IMAGES_LISTED,
     images_list_good, .expect = {"data.columns names 2 columns; images have one"}},
    {"images predicted from a folder without any", DATA, "predict c.yaml --checkpoint run --input e", IMAGES,
     images_trained, .expect = {"e: a folder without PNG or JPEG files"}},
    {"images predicted from a text", DATA, "predict c.yaml --checkpoint run --input c.yaml", IMAGES,
     images_trained,
     .expect =
         {"c.yaml: neither PNG nor JPEG, nor an array of images (.npy, .npz, IDX), nor a CSV file of paths "
          "(with a column 'file'; data.columns names another)"}},
    {"a run's own configuration", OK, "eval --checkpoint run", CSV, csv_weights},
    {"the configuration of a checkpoint's run", OK,
     "predict --checkpoint run/step-000000000002 --input d.csv --output run/p.csv", CSV, csv_weights,
     .leaves = "run/p.csv"},
    {"a checkpoint without a run's configuration", USAGE, "predict --checkpoint d.csv --input d.csv", CSV,
     csv_good, .expect = {"d.csv: there is no config.json of a run: name the configuration file"}},
    {"neither a configuration nor a run", USAGE, "predict --input d.csv", CSV, csv_good,
     .expect = {"lockstep predict: the configuration file is missing"}},
    {"flips of a table", CONFIG, "check c.yaml --set data.flip=true", CSV, csv_good,
     .expect = {"data.flip does not go with data.kind: csv"}},
    {"flips of a row of numbers", CONFIG, "check c.yaml --set data.flip=true", NPY, npy_good,
     .expect = {"data.flip needs images: model.input is"}},
    {"shifts of normalised numbers", CONFIG, "check c.yaml --set data.padding=1 --set data.normalize=true",
     NPY_IMAGES, npy_images,
     .expect = {"data.padding does not go with data.normalize where samples are no bytes"}},
    {"npy: grey pictures with PyTorch's channels in front", DATA, "check c.yaml --set model.input=[1,6,5]",
     NPY_IMAGES, grey_bytes,
     .expect = {"x.npy: samples are (6, 5), of which model.input [1, 6, 5] makes 1 x 6 pixels in 5 channels; "
                "channels come last: set "
                "model.input to [6, 5], or [6, 5, 1] (a sequence of 6 places is [6, 1, 5])"}},
    {"npy: the same, with the input's dimensions", DATA,
     "check c.yaml --set model.input=[1,6,5] --set data.features=f.npy", NPY_IMAGES, grey_bytes,
     .expect = {"f.npy: samples are (1, 6, 5), of which model.input [1, 6, 5] makes 1 x 6 pixels in 5"}},
    {"npy: the same, mapped", DATA, "check c.yaml --set model.input=[1,6,5] --set data.mapped=true",
     NPY_IMAGES, grey_bytes, .expect = {"set model.input to [6, 5], or [6, 5, 1]"}},
    {"npy: the same, flat", DATA, "check c.yaml --set model.input=[1,6,5] --set data.features=w.npy",
     NPY_IMAGES, grey_bytes, .expect = {"set model.input to [6, 5], or [6, 5, 1]"}},
    {"npy: the same, as pictures", CONFIG, "check c.yaml --set model.input=[1,6,5] --set data.std=1",
     NPY_IMAGES, grey_bytes,
     .expect = {"not f32 (1, 6, 5); channels come last: set model.input to [6, 5], or [6, 5, 1]\n"}},
    {"npy: pictures in colour with channels in front, as the input", DATA,
     "check c.yaml --set model.input=[3,6,5] --set data.features=c.npy", NPY_IMAGES, grey_bytes,
     .expect = {"channels; channels come last: set model.input to [6, 5, 3], and numpy.transpose(x, (0, 2, "
                "3, 1))\n"}},
    {"npy: square numbers with channels in front", DATA,
     "check c.yaml --set model.input=[1,5,5] --set data.features=s.npy", NPY_IMAGES, grey_bytes,
     .expect = {"set model.input to [5, 5], or [5, 5, 1]"}},
    {"npy: a sequence of one row", OK, "check c.yaml --set model.input=[1,6,5] --set data.features=n.npy",
     NPY_IMAGES, grey_bytes},
    {"npy: a sequence of one column", OK, "check c.yaml --set model.input=[6,1,5]", NPY_IMAGES, grey_bytes},
    {"idx: grey pictures with channels in front", DATA, "check c.yaml --set model.input=[1,6,5]", IDX,
     idx_pictures, .expect = {"x.idx: samples are (6, 5)", "set model.input to [6, 5], or [6, 5, 1]"}},
    {"idx: pictures for a row of inputs", DATA, .config = IDX, .files = idx_pictures,
     .expect = {"x.idx has 30 features per sample, but the model's input is 2: set model.input to [6, 5]\n"}},
    {"images with channels in front", CONFIG, .config = IMAGES_OF("[3, 8, 9]", ""), .files = images_good,
     .expect = {"not f32 (3, 8, 9); channels come last: set model.input to [8, 9, 3]\n"}},
    {"pictures of an array", OK, "check c.yaml --set data.resize=3 --set model.input=[3,3]", NPY_IMAGES,
     npy_pictures},
    {"pictures of an array in colour, for a grey network", OK,
     "check c.yaml --set data.crop=random --set model.input=[2,2,3]", NPY_IMAGES, npy_pictures},
    {"pictures of another size, not scaled", DATA, "check c.yaml --set model.input=[3,3]", NPY_IMAGES,
     npy_pictures, .expect = {"x.npy has 4 features", "or have the pictures scaled: data.resize"}},
    {"pictures that are no bytes", DATA, "check c.yaml --set data.resize=2", NPY_IMAGES, npy_images,
     .expect = {"x.npy: samples are f32 (2, 2), but data.resize", "which are unsigned bytes"}},
    {"pictures with channels in front", DATA, "check c.yaml --set data.resize=2 --set data.features=c.npy",
     NPY_IMAGES, npy_pictures, .expect = {"c.npy: samples are u8 (3, 2, 2); pictures are [height, width]"}},
    {"pictures for a row of inputs", CONFIG, "check c.yaml --set data.resize=2 --set model.input=[4]",
     NPY_IMAGES, npy_pictures, .expect = {"pictures need model.input [height, width, 3]"}},
    {"held-out pictures of another size", DATA, "check c.yaml --set data.mean=0.5" HELD_OUT("v", "y"),
     NPY_IMAGES, npy_pictures,
     .expect =
         {"v.npy: its pictures are u8 (1, 4), those of x.npy are u8 (2, 2): arrays of one dataset hold"}},
    {"held-out pictures of another size, scaled", DATA,
     "check c.yaml --set data.resize=3 --set model.input=[3,3]" HELD_OUT("t", "y2"), NPY_IMAGES, npy_pictures,
     .expect = {"t.npy: its pictures are u8 (4, 3), those of x.npy are u8 (2, 2)"}, .lacks = "model.input"},
    {"held-out pictures in another order", DATA,
     "check c.yaml --set data.resize=4 --set model.input=[3,4] --set data.features=w.npy --set "
     "data.targets=y2.npy" HELD_OUT("t", "y2"),
     NPY_IMAGES, npy_pictures, .expect = {"t.npy: its pictures are u8 (4, 3), those of w.npy are u8 (3, 4)"},
     .lacks = "numpy.transpose"},
    {"held-out rows of another width", DATA, "check c.yaml" HELD_OUT("t", "y2"), NPY_IMAGES, npy_pictures,
     .expect = {"t.npy has 12 features per sample, but x.npy, with which the model is trained, has 4"},
     .lacks = "model.input"},
    {"held-out pictures without targets for all", DATA,
     "check c.yaml --set data.mapped=true" HELD_OUT("x", "y2"), NPY_IMAGES, npy_pictures,
     .expect = {"x.npy has 4 samples, but y2.npy has 2 targets"}},
    {"a part of pictures that are not cut at random", CONFIG, "check c.yaml --set data.crop_area=0.5",
     NPY_IMAGES, npy_pictures, .expect = {"data.crop_area goes with data.crop: random"}},
    {"pictures cut at random, a part given", OK,
     "check c.yaml --set data.crop_area=0.5 --set data.crop=random", NPY_IMAGES, npy_pictures},
    {"pictures that are larger when scaled", CONFIG,
     "check c.yaml --set data.resize=2 --set model.input=[3,3]", NPY_IMAGES, npy_pictures,
     .expect = {"data.resize is 2, the images' shorter side, but the model takes 3 x 3"}},
    {"samples on the device, but made for each batch", CONFIG,
     "check c.yaml --set data.resident=true --set data.decode=always", NPY_IMAGES, npy_pictures,
     .expect = {"data.resident: true keeps the samples", "data.decode: always makes them each time"}},
    {"scaled tables", CONFIG, "check c.yaml --set data.resize=2", CSV, csv_good,
     .expect = {"data.resize does not go with data.kind: csv"}},
    {"csv: faults of several columns and of the target, all at once", DATA, .config = CSV,
     .files = csv_many_faults,
     .expect = {"d.csv:2:1: column 'city': 'Rome' is not a finite number; to leave the column out, name the "
                "ones to use (3 such "
                "cells: 'Rome', 'Oslo')\n",
                "d.csv:2:8: column 'age': empty cell where a number is needed; data.missing: mean fills it "
                "(2 such cells: empty, "
                "'NA')\n",
                "d.csv:3:12: column 'y': 'ten' is not a finite number",
                "d.csv: columns of numbers alone: data.columns: [\"a\", \"b\"]\n"},
     .lacks = "features per sample"},
    {"csv: classes that begin at 1", DATA, .config = CLASSES_OF("csv, path: d.csv, target: [y]"),
     .files = csv_classes_from_1,
     .expect = {"d.csv:3:3: column 'y': class 3, but the model's last layer has 3 units: classes are 0 to 2; "
                "they are 1 to 3 here: subtract 1 (2 such cells: '3')\n"}},
    {"csv: classes beyond the model", DATA, .config = CLASSES_OF("csv, path: d.csv, target: [y]"),
     .files = csv_class_beyond,
     .expect = {"d.csv:3:3: column 'y': class 7, but",
                "; the largest is 9: give the layer 10 units (2 such cells: '7', '9')"}},
    {"csv: a class below 0", DATA, .config = CLASSES_OF("csv, path: d.csv, target: [y]"),
     .files = csv_class_negative,
     .expect = {"d.csv:3:3: column 'y': class -1, but",
                "; no class is left out: remove the samples without one\n"}},
    {"npy: classes that begin at 1", DATA, .config = CLASSES NPY_FILES, .files = npy_classes_from_1,
     .expect = {"y.npy: row 1 (from 0): class 3, but the model's last layer has 3 units: classes are 0 to 2; "
                "they are 1 to 3 here: "
                "subtract 1\n"}},
    {"npy: classes of padding", DATA, .config = TOKENS, .files = npy_padding,
     .expect = {"y.npy: row 0 (from 0): class -100, but",
                "; if this is padding, model.ignore: -100 leaves it out\n"}},
    {"npy: classes of padding, left out", OK, "check c.yaml --set model.ignore=-100", TOKENS, npy_padding},
    {"csv: a Parquet file", DATA, .config = CSV, .files = csv_parquet,
     .expect = {"d.csv: this is a Parquet file, not CSV: write a CSV file of it (pandas: to_csv(FILE, "
                "index=False))"}},
    {"csv: a workbook", DATA, .config = CSV, .files = csv_workbook,
     .expect = {"d.csv: this is an Excel workbook (.xlsx), not CSV"}, .lacks = "there is no column"},
    {"weights: a file of PyTorch", CHECKPOINT, "check c.yaml --set model.weights=w.pth", CSV,
     weights_of_torch,
     .expect = {"w.pth: not a safetensors file, but a zip archive, as .pth, .npz and .xlsx are: "
                "safetensors.torch.save_file(model.state_dict(), \"FILE\") writes one"}},
    {"weights: an older file of PyTorch", CHECKPOINT, "check c.yaml --set model.weights=w.pth", CSV,
     weights_pickled,
     .expect = {"w.pth: not a safetensors file, but a pickle of Python, as older .pth and .pt files are"}},
    {"images: all bad ones, decoded once", DATA, .config = IMAGES, .files = images_many_bad,
     .expect = {"d/cat/2.png: offset ",
                "d/dog/2.png: offset 0: neither a PNG nor a JPEG file, but a WebP picture: save it as PNG",
                "d/dog/3.jpg: the file is empty"}},
    {"images: too many bad ones", DATA, .config = IMAGES, .files = images_too_many_bad,
     .expect = {"damaged or cut PNG data",
                "10 pictures cannot be read; those behind them were not looked at"}},
    {"csv without a path, among other errors", CONFIG,
     .config = "model: {input: [2], loss: mae, layers: [{dense: {units: 1}}]}\ndata: {kind: csv}\n",
     .expect = {"the mean absolute error is `l1`", "data.path is needed with data.kind: csv",
                "data.target is needed"}},
    {"csv: a date that is none", DATA, "check c.yaml --set data.columns=[when.day,b]", CSV, csv_dates,
     .expect = {"d.csv:3:1: column 'when': '2024-02-30' is no date: YYYY-MM-DD was expected"}},
    {"dates of arrays", CONFIG, "check c.yaml --set data.dates=parts", NPY, npy_good,
     .expect = {"data.dates does not go with data.kind: npy"}},
    {"an array that stays in its file, in column order", DATA, "check c.yaml --set data.mapped=true", NPY,
     npy_fortran, .expect = {"x.npy: an array in column order", "numpy.ascontiguousarray"}},
    {"an array that stays in its archive", DATA, "check c.yaml --set data.mapped=true", NPZ, npz_good,
     .expect = {"d.npz:x: arrays of an archive cannot stay in it: save the array with numpy.save, or "
                "data.mapped: false"}},
    {"an archive that stays where it is", DATA,
     "check c.yaml --set data.mapped=true --set data.features=d.npz", NPZ, npz_good,
     .expect = {"d.npz: arrays of an archive cannot stay in it"}},
    {"an array that stays in its file and on the device", CONFIG,
     "check c.yaml --set data.mapped=true --set data.resident=true", NPY, npy_good,
     .expect = {"data.resident: true does not go with data.mapped: true"}},
    {"a table that stays in its file", CONFIG, "check c.yaml --set data.mapped=true", CSV, csv_good,
     .expect = {"data.mapped does not go with data.kind: csv"}},
    {"csv too wide for the model", DATA, .config = CSV, .files = csv_wide,
     .expect = {"d.csv", "3 features", "input is 2"}},
    {"csv is binary", DATA, .config = CSV, .files = csv_binary, .expect = {"d.csv"}},
    {"csv is UTF-16", DATA, .config = CSV, .files = csv_utf16, .expect = {"d.csv", "UTF-16"}},
    {"csv fewer samples than the batch", DATA, .config = CSV, .files = csv_one_row,
     .expect = {"d.csv", "1 training sample, fewer", "batch of 2"}},
    {"csv fewer samples than the batch, training", DATA, "train c.yaml --set train.checkpoint.dir=run", CSV,
     csv_one_row, .expect = {"1 training sample, fewer", "batch of 2"}},
    {"csv validation takes all", DATA, "check c.yaml --set data.validation=0.9", CSV, csv_one_row,
     .expect = {"d.csv"}},
    {"csv column asked for twice", DATA, "check c.yaml --set data.columns=[a,y]", CSV, csv_good,
     .expect = {"d.csv:1:", "'y'"}},
    {"csv short row, two ranks", DATA,
     "train c.yaml --ranks 2 --set parallel.strategy=ddp --set train.checkpoint.dir=run", CSV, csv_short_row,
     .expect = {"d.csv:3:"}},
    {"gzip cut short", DATA, .config = CSV_GZ, .files = gzip_cut, .expect = {"d.csv.gz", "truncated"}},
    {"gzip with garbage behind it", DATA, .config = CSV_GZ, .files = gzip_trailing,
     .expect = {"d.csv.gz", "7 bytes follow"}},
    {"gzip damaged", DATA, .config = CSV_GZ, .files = gzip_damaged, .expect = {"d.csv.gz", "damaged"}},
    {"idx sizes overflow", DATA, .config = IDX, .files = idx_huge, .expect = {"x.idx"}},
    {"idx without samples", DATA, .config = IDX, .files = idx_none, .expect = {"x.idx", "no samples"}},
    {"idx empty", DATA, .config = IDX, .files = idx_empty, .expect = {"x.idx"}},
    {"idx wrong magic", DATA, .config = IDX, .files = idx_magic, .expect = {"x.idx", "not an IDX file"}},
    {"idx unknown type", DATA, .config = IDX, .files = idx_type, .expect = {"x.idx", "offset 2", "0x0a"}},
    {"idx class out of range", DATA, .config = IDX, .files = idx_label,
     .expect = {"y.idx", "row 2", "class 3"}},
    {"idx counts differ", DATA, .config = IDX, .files = idx_counts, .expect = {"x.idx has 4", "y.idx has 5"}},
    {"idx targets missing", IO, .config = IDX, .files = idx_no_targets, .expect = {"y.idx", "No such file"}},

    {"npy column by column", OK, .config = NPY, .files = npy_fortran},
    {"npy text", DATA, .config = NPY, .files = npy_text, .expect = {"x.npy", "<U8"}},
    {"npy complex", DATA, .config = NPY, .files = npy_complex, .expect = {"x.npy", "<c8"}},
    {"npy cut short", DATA, .config = NPY, .files = npy_cut,
     .expect = {"x.npy", "promises 32 bytes", "has 31"}},
    {"npy sizes overflow", DATA, .config = NPY, .files = npy_overflow, .expect = {"x.npy"}},
    {"npy without a shape", DATA, .config = NPY, .files = npy_no_shape, .expect = {"x.npy", "shape"}},
    {"npy header with code", DATA, .config = NPY, .files = npy_code, .expect = {"x.npy", "offset"}},
    {"npy too wide for the model", DATA, .config = NPY, .files = npy_width,
     .expect = {"x.npy", "4 features", "set model.input to [4]\n"}},
    {"npy too narrow for a preset of images", DATA, .config = "model: {preset: resnet18}\n" TRAIN NPY_FILES,
     .files = npy_width,
     .expect = {"x.npy", "4 features", "set model.image and model.features to their height and channels\n"}},
    {"npy too narrow for a preset of sequences", DATA, .config = "model: {preset: lstm}\n" TRAIN NPY_FILES,
     .files = npy_width,
     .expect = {"x.npy", "4 features", "set model.context and model.features to their places and values\n"}},
    {"npy too narrow for a preset of tokens", DATA, .config = "model: {preset: gpt2}\n" TRAIN NPY_FILES,
     .files = npy_token, .expect = {"x.npy", "2 features", "set model.context to their places\n"}},
    {"npy too narrow for a preset of one size", DATA,
     .config = "model: {preset: mlp-medium}\n" TRAIN NPY_FILES, .files = npy_width,
     .expect = {"x.npy", "4 features", "set model.input and model.layers in place of the preset\n"}},
    {"npy is an npz", DATA, .config = NPY, .files = npy_npz, .expect = {"x.npy", ".npz"}},
    {"npz two arrays", OK, .config = NPZ, .files = npz_good},
    {"npz which array", DATA, "check c.yaml --set data.features=d.npz", NPZ, npz_good,
     .expect = {"d.npz: the archive has 2 arrays", "FILE.npz:NAME; it has x, y"}},
    {"npz no such array", DATA, "check c.yaml --set data.features=d.npz:z", NPZ, npz_good,
     .expect = {"d.npz: no array is named 'z'; the archive has x, y"}},
    {"npz missing", IO, .config = NPZ, .expect = {"/d.npz: No such file", "configuration's folder"}},
    {"npz cut short", DATA, .config = NPZ, .files = npz_cut, .expect = {"d.npz:x", "truncated"}},
    {"npz wrong checksum", DATA, .config = NPZ, .files = npz_crc, .expect = {"d.npz:y", "CRC-32"}},
    {"npz is no zip archive", DATA, .config = NPZ, .files = npz_not, .expect = {"d.npz:x: not a .npz file"}},
    {"npz bomb", DATA, .config = NPZ, .files = npz_bomb,
     .expect = {"d.npz:x", "more than 100 times its size"}},
    {"npz is no csv", DATA, "check c.yaml --set data.path=d.npz", CSV, npz_good, .expect = {"d.npz"}},
    {"a token beyond the vocabulary", DATA, .config = TOKENS, .files = npy_token,
     .expect =
         {"x.npy: row 3, column 0 (from 0): 7 is no row of the model's embedding, which has 5: 0 to 4"}},
    {"a token that is no whole number", DATA, .config = TOKENS, .files = npy_half_token,
     .expect = {"x.npy", "row 1, column 0", "2.5 is no whole number"}},
    {"text beyond the embedding", DATA,
     .config = "model: {input: [2], loss: cross-entropy, layers: [{embedding: "
               "{size: 3, units: 9}}]}\n" TRAIN "data: {kind: text, path: d.csv, context: 2}\n",
     .files = csv_good, .expect = {"d.csv", "different characters, but the model's embedding has 3 units"}},
    {"text beyond a preset's vocabulary", DATA,
     .config = "model: {preset: gpt-char, vocabulary: 3, context: 2}\n" TRAIN
               "data: {kind: text, path: d.csv, context: 2}\n",
     .files = csv_good, .expect = {"d.csv", "units: set model.vocabulary to "}},
    {"classes of positions, some ignored", OK, "train c.yaml", TOKENS, npy_ignored},
    {"an ignored class of another number", DATA, "check c.yaml --set model.ignore=-100", TOKENS, npy_ignored,
     .expect = {"y.npy", "class -1"}},
    {"npy nan", DATA, .config = NPY, .files = npy_nan, .expect = {"x.npy", "row 2, column 1", "nan"}},
    {"npy targets too wide", DATA, .config = NPY, .files = npy_target_width,
     .expect = {"y.npy", "2 targets"}},
    {"npy half a class", DATA,
     "check c.yaml --set model.loss=cross-entropy --set model.layers.0.dense.units=3", NPY, npy_half_class,
     .expect = {"y.npy", "row 2", "1.5"}},
};
const int rows_data_count = sizeof rows_data / sizeof *rows_data;
