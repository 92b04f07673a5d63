/* Samples from pictures: read and decoded, or taken from an array; scaled or cropped, copied. */
#include "data/picture/images.h"

#include "data/mapped.h"

#include "base/clock.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- one sample ---- */

ls_status_t ls_images_read(ls_ctx_t *ctx, const char *path, ls_room_t *room, size_t *size) {
  struct stat info;
  size_t used = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe must not wait */
  if (fd < 0) return ls_fail_errno(ctx, "%s: cannot be opened", path);
  ls_status_t status = fstat(fd, &info) == 0 ? LS_OK : ls_fail_errno(ctx, "%s: cannot be read", path);
  if (status == LS_OK && (!S_ISREG(info.st_mode) || (size_t)info.st_size > ls_read_limit()))
    status = ls_fail(ctx, LS_ERR_DATA, "%s: not a file, or one too large for a picture", path);
  if (status == LS_OK) status = ls_room_need(ctx, room, (size_t)info.st_size + 1);
  while (status == LS_OK && used < (size_t)info.st_size) {
    ssize_t got = read(fd, room->bytes + used, (size_t)info.st_size - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = ls_fail_errno(ctx, "%s: cannot be read", path);
    if (got <= 0) break;
    used += (size_t)got;
  }
  close(fd);
  *size = used;
  return status;
}

ls_status_t ls_images_fit(ls_ctx_t *ctx, const ls_images_t *im, ls_batch_work_t *work, ls_picture_t *p) {
  ls_scaled_part_t part = {im->height, im->width, 0, 0, im->height, im->width};
  if (im->resize > 0) { /* the longer side is cut off to whole pixels, as torchvision does */
    bool upright = p->height > p->width;
    int shorter = upright ? p->width : p->height, longer = upright ? p->height : p->width;
    int64_t scaled = (int64_t)((double)(im->resize * longer) / shorter);
    part.whole_width = upright ? im->resize : scaled;
    part.whole_height = upright ? scaled : im->resize;
  }
  part.top = llrint((double)(part.whole_height - im->height) / 2.0);
  part.left = llrint((double)(part.whole_width - im->width) / 2.0);
  return ls_picture_scale_part(ctx, p, (ls_scale_t)im->scale, &part, &work->scratch, &work->scaled);
}

/* The row's picture, in the model's channels. */
static ls_status_t take_picture(const ls_dataset_t *d, int64_t row, ls_batch_work_t *work,
                                int64_t *read_at_ns, ls_picture_t *p) {
  ls_ctx_t *ctx = d->arena.ctx;
  const ls_images_t *im = d->images;
  char *path;
  size_t size;
  if (im->names_bytes == 0) {
    *p = im->each;
    p->pixel =
        d->mapped ? ls_mapped_bytes(d->mapped, row) : im->pixels + (size_t)row * ls_images_each_bytes(im);
    *read_at_ns = ls_clock_ns();
    return ls_picture_channels(ctx, im->channels, &work->pixels, p);
  }
  ls_status_t status = ls_images_path(d, row, &path);
  if (status != LS_OK) return status;
  status = ls_images_read(ctx, path, &work->file, &size);
  *read_at_ns = ls_clock_ns();
  if (status == LS_OK)
    status = ls_picture_decode(ctx, path, work->file.bytes, size, im->channels, &work->pixels, p);
  ls_free(path);
  return status;
}

static ls_status_t make_sample(const ls_dataset_t *d, int64_t row, bool drawn, uint64_t seed,
                               uint64_t position, ls_batch_work_t *work, uint8_t *to) {
  ls_ctx_t *ctx = d->arena.ctx;
  const ls_images_t *im = d->images;
  ls_input_times_t *times = &work->times;
  ls_picture_t p;
  int64_t at_ns[5] = {ls_clock_ns()};
  ls_status_t status = take_picture(d, row, work, &at_ns[1], &p);
  at_ns[2] = ls_clock_ns();
  if (status != LS_OK) return status;
  if (drawn && im->random) {
    p = ls_augment_part(&p, im->area, seed, position);
    status = ls_picture_scale(ctx, &p, (ls_scale_t)im->scale, im->height, im->width, &work->scratch,
                              &work->scaled);
  } else {
    status = ls_images_fit(ctx, im, work, &p);
  }
  if (status != LS_OK) return status;
  at_ns[3] = ls_clock_ns();
  ls_augment_copy(&d->augment, drawn, seed, position, p.pixel, p.stride, to);
  at_ns[4] = ls_clock_ns();
  times->read_ns += at_ns[1] - at_ns[0];
  times->decode_ns += at_ns[2] - at_ns[1];
  times->augment_ns += at_ns[3] - at_ns[2];
  times->copy_ns += at_ns[4] - at_ns[3];
  return LS_OK;
}

ls_status_t ls_images_put(const ls_dataset_t *d, int64_t row, bool drawn, uint64_t seed, uint64_t position,
                          ls_batch_work_t *work, uint8_t *to) {
  ls_status_t status = make_sample(d, row, drawn, seed, position, work, to);
  int64_t bytes = (int64_t)ls_batch_work_bytes(work), most = atomic_load(&d->images->work_bytes);
  while (bytes > most && !atomic_compare_exchange_weak(&d->images->work_bytes, &most, bytes))
    ;
  return status;
}

/* ---- all of them ---- */

enum { FAULTS_SHOWN = 10, TIMED_IMAGES = 64, TIMED_NS = 300000000 };

typedef struct {
  const ls_dataset_t *dataset;
  const int64_t *row; /* these, or with NULL those from first on */
  int64_t first, count;
  uint8_t *to; /* (count, sample); else: (threads, sample), which is not read */
  bool kept;
  ls_batch_work_t *work; /* (threads) */
  _Atomic int64_t next;
  _Atomic int status, faults;
} decoding_t;

static void decode_some(void *arg, int thread, int threads) {
  decoding_t *d = arg;
  (void)threads;
  size_t bytes = ls_shape_bytes(&d->dataset->sample.x);
  for (int64_t i; atomic_load(&d->faults) < FAULTS_SHOWN && (i = atomic_fetch_add(&d->next, 1)) < d->count;) {
    ls_status_t status = ls_images_put(d->dataset, d->row ? d->row[i] : d->first + i, false, 0, 0,
                                       &d->work[thread], d->to + (size_t)(d->kept ? i : thread) * bytes);
    if (status == LS_OK) continue;
    atomic_store(&d->status, (int)status);
    atomic_fetch_add(&d->faults, status == LS_ERR_MEMORY ? FAULTS_SHOWN : 1);
  }
}

ls_status_t ls_images_decode(ls_ctx_t *ctx, const ls_dataset_t *dataset, const int64_t *row, int64_t first,
                             int64_t count, uint8_t *to) {
  int threads = ls_cpu_count();
  ls_pool_t *pool = NULL;
  if (threads > count) threads = (int)count;
  decoding_t d = {.dataset = dataset, .first = first, .count = count, .row = row, .to = to, .kept = to};
  d.work = ls_alloc_array(ctx, (size_t)threads, sizeof *d.work);
  if (!to) d.to = ls_alloc_array(ctx, (size_t)threads, ls_shape_bytes(&dataset->sample.x));
  ls_status_t status = d.work && d.to ? ls_pool_create(ctx, threads, &pool) : LS_ERR_MEMORY;
  if (status == LS_OK) {
    ls_pool_run(pool, decode_some, &d);
    status = (ls_status_t)atomic_load(&d.status);
    if (status != LS_OK && status != LS_ERR_MEMORY && atomic_load(&d.next) < count)
      ls_fail(ctx, status, "%d pictures cannot be read; those behind them were not looked at", FAULTS_SHOWN);
  }
  ls_pool_destroy(pool);
  for (int i = 0; d.work && i < threads; i++)
    ls_batch_work_release(&d.work[i]);
  ls_free(d.work);
  if (!to) ls_free(d.to);
  return status;
}

ls_status_t ls_dataset_time(ls_ctx_t *ctx, const ls_dataset_t *d, ls_input_times_t *times) {
  ls_batch_work_t work = {0};
  ls_status_t status = LS_OK;
  *times = (ls_input_times_t){0};
  if (!d->images || d->features || d->train_count < 1) return LS_OK;
  uint8_t *to = ls_alloc(ctx, ls_shape_bytes(&d->sample.x));
  if (!to) return LS_ERR_MEMORY;
  int64_t begin_ns = ls_clock_ns();
  for (int64_t i = 0; i <= TIMED_IMAGES && status == LS_OK; i++) {
    int64_t index = i * d->train_count / (TIMED_IMAGES + 1);
    status = ls_images_put(d, ls_dataset_row(d, LS_PART_TRAIN, index), true, 1, (uint64_t)i, &work, to);
    if (i == 0) work.times = (ls_input_times_t){0}; /* memory is new, too */
    work.times.samples = i;
    if (i > 0 && ls_clock_ns() - begin_ns > TIMED_NS) break;
  }
  *times = work.times;
  ls_batch_work_release(&work);
  ls_free(to);
  return status;
}

ls_status_t ls_dataset_verify(ls_ctx_t *ctx, const ls_dataset_t *d) {
  return d->images && !d->features ? ls_images_decode(ctx, d, NULL, 0, d->rows, NULL) : LS_OK;
}
