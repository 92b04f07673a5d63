#include "base/magic.h"

#include <string.h>

static const struct {
  size_t at, len;
  const char *magic, *text;
} rows[] = {
    {0, 4, "PAR1", "a Parquet file"},
    {0, 6, "ARROW1", "an Arrow file (.feather)"},
    {0, 4, "FEA1", "a Feather file"},
    {0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file (.h5)"},
    {0, 6, "\x93NUMPY", "a numpy array (.npy)"},
    {0, 15, "SQLite format 3", "an SQLite database"},
    {0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook (.xls)"},
    {0, 4, "%PDF", "a PDF file"},
    {0, 8, "\x89PNG\r\n\x1a\n", "a PNG picture"},
    {0, 3, "\xff\xd8\xff", "a JPEG picture"},
    {8, 4, "WEBP", "a WebP picture"},
    {0, 4, "GIF8", "a GIF picture"},
    {0, 4, "II*\0", "a TIFF picture"},
    {0, 4, "MM\0*", "a TIFF picture"},
    {4, 8, "ftypavif", "an AVIF picture"},
    {4, 8, "ftypheic", "a HEIC picture"},
    {0, 3, "BZh", "a file packed by bzip2"},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     "a file packed by xz"},
    {0, 4, "\x28\xb5\x2f\xfd", "a file packed by zstd"},
    {0, 2, "\x80\2", "a pickle of Python, as older .pth and .pt files are"},
    {0, 2, "\x80\4", "a pickle of Python (.pkl)"},
    {0, 2, "\x80\5", "a pickle of Python (.pkl)"},
};

static bool ends_with(const char *name, size_t len, const char *end) {
  const size_t size = strlen(end);
  return len >= size && !memcmp(name + len - size, end, size);
}

/* By the name of the first member, in the local header (APPNOTE.TXT, 4.3.7). */
static const char *zip_text(const unsigned char *bytes, size_t size) {
  enum { LENGTH_AT = 26, NAME_AT = 30 };
  if (size <= NAME_AT) return "a zip archive, as .pth, .npz and .xlsx are";
  const char *name = (const char *)bytes + NAME_AT;
  size_t len = (size_t)bytes[LENGTH_AT] | (size_t)bytes[LENGTH_AT + 1] << 8;
  if (len > size - NAME_AT) len = size - NAME_AT;
  if (ends_with(name, len, "data.pkl")) return "a file of PyTorch (.pth, .pt)";
  if (ends_with(name, len, ".npy")) return "an archive of numpy (.npz)";
  static const char *const office[] = {"[Content_Types].xml", "xl/", "_rels/", "docProps/"};
  for (int i = 0; i < LS_COUNT(office); i++)
    if (len >= strlen(office[i]) && !memcmp(name, office[i], strlen(office[i])))
      return "an Excel workbook (.xlsx)";
  return "a zip archive";
}

const char *ls_magic_text(const void *bytes, size_t size) {
  if (size >= 4 && !memcmp(bytes, "PK\3\4", 4)) return zip_text(bytes, size);
  for (int i = 0; i < LS_COUNT(rows); i++)
    if (size >= rows[i].at + rows[i].len &&
        !memcmp((const char *)bytes + rows[i].at, rows[i].magic, rows[i].len))
      return rows[i].text;
  return NULL;
}
