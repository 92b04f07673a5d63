/* One copy of the samples for all ranks of a node. The rank that has read them moves them to an unnamed file
 * (memfd_create(2)), which the others map. The kernel frees it when the last process that has it ends, and it is
 * read-only. */
#include "data/mapped.h"
#include "data/picture/images.h"
#include "data/text/corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t magic = 0x316d61732d70736c; /* "lsp-sam1" */
enum { ALIGN_BYTES = 64, PIECE_BYTES = 16 << 20 };

/* How the file begins. Offsets count from its first byte. The program that maps it is the one that wrote it, on the same
 * machine, so types and byte order agree. */
typedef struct {
  uint64_t magic, bytes;
  ls_dataset_t dataset; /* without what its pointers point to */
  ls_images_t images;
  size_t mean, scale, columns, targets, names, name_at, pixels, features;
} header_t;

static size_t place(size_t *end, size_t bytes) {
  size_t at = *end;
  *end = (at + bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  return at;
}

static size_t norm_count(const ls_dataset_t *d) {
  return (size_t)(d->norm.inputs + d->norm.outputs);
}

/* Texts of the columns' names, one after the other. */
static size_t names_bytes(const ls_dataset_t *d) {
  size_t bytes = 0;
  for (int64_t c = 0; d->columns && c < d->column_count; c++)
    bytes += strlen(d->columns[c]) + 1;
  return bytes;
}

static size_t values_bytes(const ls_dataset_t *d, const ls_shape_t *one) {
  return (size_t)d->rows * ls_shape_bytes(one);
}

/* Arrays have no names. */
static size_t name_at_bytes(const ls_dataset_t *d) {
  return d->images->names_bytes > 0 ? (size_t)d->rows * sizeof *d->images->name_at : 0;
}

static header_t header_make(const ls_dataset_t *d) {
  header_t f = {.magic = magic, .dataset = *d};
  size_t end = 0;
  place(&end, sizeof f);
  f.mean = place(&end, norm_count(d) * sizeof *d->norm.mean);
  f.scale = place(&end, norm_count(d) * sizeof *d->norm.scale);
  f.columns = place(&end, names_bytes(d));
  f.targets = place(&end, values_bytes(d, &d->sample.target));
  if (d->images) {
    f.images = *d->images;
    f.names = place(&end, d->images->names_bytes);
    f.name_at = place(&end, name_at_bytes(d));
    f.pixels = place(&end, ls_images_pixel_bytes(d));
  }
  f.features = place(&end, d->features ? values_bytes(d, &d->sample.x) : 0);
  f.bytes = end;
  return f;
}

/* 0 or an errno value. */
static int put(int fd, const void *from, size_t bytes, size_t at) {
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pwrite(fd, (const char *)from + done, bytes - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : ENOSPC;
    done += (size_t)n;
  }
  return 0;
}

/* From the end to the front, giving back the memory of each piece, so that no two copies are ever there. */
static int move(ls_ctx_t *ctx, int fd, size_t bytes, size_t at, void **values) {
  while (bytes > 0) {
    size_t left = bytes > PIECE_BYTES ? bytes - PIECE_BYTES : 0;
    int error = put(fd, (const char *)*values + left, bytes - left, at + left);
    if (error) return error;
    void *shorter = left > 0 ? ls_realloc_array(ctx, *values, left, 1) : NULL;
    if (left > 0 && !shorter) return ENOMEM;
    if (left > 0) *values = shorter;
    bytes = left;
  }
  ls_free(*values);
  *values = NULL;
  return 0;
}

static int open_file(size_t bytes) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes) {
    errno = EFBIG;
    return -1;
  }
  return memfd_create("lockstep-samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static int put_header(int fd, const header_t *f, const ls_dataset_t *d) {
  size_t norm = norm_count(d);
  int error = ftruncate(fd, (off_t)f->bytes) == 0 ? 0 : errno;
  if (!error) error = put(fd, f, sizeof *f, 0);
  if (!error) error = put(fd, d->norm.mean, norm * sizeof *d->norm.mean, f->mean);
  if (!error) error = put(fd, d->norm.scale, norm * sizeof *d->norm.scale, f->scale);
  const ls_images_t *im = d->images;
  if (im && !error) error = put(fd, im->names, im->names_bytes, f->names);
  if (im && !error) error = put(fd, im->name_at, name_at_bytes(d), f->name_at);
  size_t at = f->columns;
  for (int64_t c = 0; d->columns && c < d->column_count && !error; c++) {
    size_t bytes = strlen(d->columns[c]) + 1;
    error = put(fd, d->columns[c], bytes, at);
    at += bytes;
  }
  return error;
}

/* The whole file, for reading; its pages are there already. */
static ls_status_t map_file(ls_ctx_t *ctx, int fd, size_t bytes, void **mapping) {
  void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (at == MAP_FAILED)
    return ls_fail(ctx, LS_ERR_MEMORY, "%zu bytes of shared samples cannot be mapped: %s", bytes,
                   strerror(errno));
  *mapping = at;
  return LS_OK;
}

static void attach(void *mapping, ls_dataset_t *d) {
  const header_t *f = mapping;
  d->mapping = mapping;
  d->mapping_bytes = (size_t)f->bytes;
  d->targets = (char *)mapping + f->targets;
  if (f->dataset.features) d->features = (char *)mapping + f->features;
  if (!d->images) return;
  d->images->names = (char *)mapping + f->names;
  d->images->name_at = (uint64_t *)((char *)mapping + f->name_at);
  d->images->pixels = f->images.pixels ? (uint8_t *)mapping + f->pixels : NULL;
}

/* Moves the values; on failure some of them are gone. */
static ls_status_t move_all(ls_ctx_t *ctx, int fd, const header_t *f, ls_dataset_t *d) {
  size_t targets = values_bytes(d, &d->sample.target),
         features = d->features ? values_bytes(d, &d->sample.x) : 0;
  int error = move(ctx, fd, targets, f->targets, &d->targets);
  if (!error) error = move(ctx, fd, features, f->features, &d->features);
  if (d->images && !error) {
    void *pixels = d->images->pixels;
    error = move(ctx, fd, ls_images_pixel_bytes(d), f->pixels, &pixels);
    d->images->pixels = pixels;
  }
  if (!error && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
    error = errno;
  if (!error) return LS_OK;
  return ls_fail(ctx, LS_ERR_MEMORY,
                 "%s: %" PRIu64 " bytes of samples cannot be shared by the ranks of this node: %s", d->source,
                 f->bytes, strerror(error));
}

ls_status_t ls_dataset_share(ls_ctx_t *ctx, ls_dataset_t *d, int *fd) {
  *fd = -1;
  if (d->corpus || d->mapped) return LS_OK;
  const header_t f = header_make(d);
  int file = open_file(f.bytes), error = file < 0 ? errno : put_header(file, &f, d);
  if (error) {
    if (file >= 0) close(file);
    ls_log(ctx, LS_LOG_WARN,
           "%s: every rank of this node reads the samples for itself and keeps a copy: no shared memory of "
           "%" PRIu64 " bytes: %s",
           d->source, f.bytes, strerror(error));
    return LS_OK;
  }
  void *mapping;
  ls_status_t status = move_all(ctx, file, &f, d);
  if (status == LS_OK) status = map_file(ctx, file, (size_t)f.bytes, &mapping);
  if (status != LS_OK) {
    close(file);
    return status;
  }
  ls_images_close(d->images);
  attach(mapping, d);
  *fd = file;
  return LS_OK;
}

/* Pointers to the names, which are in the mapping. */
static ls_status_t take_columns(ls_ctx_t *ctx, ls_dataset_t *d) {
  const header_t *f = d->mapping;
  char *text = (char *)d->mapping + f->columns;
  if (!f->dataset.columns) return LS_OK;
  d->columns = ls_alloc_array(ctx, (size_t)d->column_count, sizeof *d->columns);
  if (!d->columns) return LS_ERR_MEMORY;
  for (int64_t c = 0; c < d->column_count; c++, text += strlen(text) + 1)
    d->columns[c] = text;
  return LS_OK;
}

ls_status_t ls_dataset_map(ls_ctx_t *ctx, const char *path, ls_dataset_t **dataset) {
  void *mapping = NULL;
  struct stat stat;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &stat) != 0 || (size_t)stat.st_size < sizeof(header_t)) {
    ls_status_t status =
        ls_fail(ctx, LS_ERR_IO, "%s: no shared samples: %s", path, strerror(fd < 0 ? errno : EINVAL));
    if (fd >= 0) close(fd);
    return status;
  }
  ls_status_t status = map_file(ctx, fd, (size_t)stat.st_size, &mapping);
  close(fd);
  if (status != LS_OK) return status;
  const header_t *f = mapping;
  ls_dataset_t *d = NULL;
  if (f->magic != magic || f->bytes != (uint64_t)stat.st_size)
    status = ls_fail(ctx, LS_ERR_DATA, "%s: these are no shared samples", path);
  else if (!(d = ls_alloc(ctx, sizeof *d)))
    status = LS_ERR_MEMORY;
  if (status != LS_OK) {
    munmap(mapping, (size_t)stat.st_size);
    return status;
  }
  *d = f->dataset;
  d->columns = NULL;
  d->features = NULL;
  d->labels = d->indicators = (ls_strings_t){0};
  ls_arena_init(&d->arena, ctx);
  if (d->images) d->images = ls_arena_alloc(&d->arena, sizeof *d->images);
  if (d->images) *d->images = f->images;
  bool kept = d->images || !f->dataset.images;
  attach(mapping, d);
  d->norm.mean = (double *)((char *)mapping + f->mean);
  d->norm.target_mean = d->norm.mean + d->inputs;
  d->norm.scale = (float *)((char *)mapping + f->scale);
  d->norm.target_scale = d->norm.scale + d->inputs;
  status = kept ? take_columns(ctx, d) : LS_ERR_MEMORY;
  if (status != LS_OK) {
    ls_dataset_close(d);
    return status;
  }
  *dataset = d;
  return LS_OK;
}

void ls_dataset_unmap(ls_dataset_t *d) {
  if (d->mapping) {
    munmap(d->mapping, d->mapping_bytes);
    return;
  }
  ls_images_close(d->images);
  ls_mapped_close(d->mapped);
  ls_corpus_close(d->corpus);
  ls_free(d->features);
  ls_free(d->targets);
}
