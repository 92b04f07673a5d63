/* The file of the page: a head of one line's size, then a line per rank, then the speed of each. */
#include "monitor/page.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = sizeof(ls_page_line_t), RANKS_MAX = 65536 };
static const char magic[8] = "LSPAGE3";

typedef struct {
  char magic[8];
  int32_t line_bytes, ranks;
  char rest[LINE_BYTES - 16];
} head_t;
_Static_assert(sizeof(head_t) == LINE_BYTES, "lines follow at their alignment");

struct ls_page {
  head_t *head;
  size_t size_bytes;
  int ranks;
};

static size_t bytes_of(int ranks) {
  return ((size_t)ranks + 1) * LINE_BYTES + (size_t)ranks * sizeof(ls_page_speed_t);
}

/* Maps a file whose head agrees with its size; false: it is no page. */
static bool map(int fd, bool write, ls_page_t *page) {
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < LINE_BYTES ||
      info.st_size > (off_t)bytes_of(RANKS_MAX))
    return false;
  void *at = mmap(NULL, (size_t)info.st_size, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return false;
  const head_t *head = at;
  bool good = memcmp(head->magic, magic, sizeof magic) == 0 && head->line_bytes == LINE_BYTES &&
              head->ranks > 0 && head->ranks <= RANKS_MAX && (size_t)info.st_size == bytes_of(head->ranks);
  *page = (ls_page_t){.head = at, .size_bytes = (size_t)info.st_size, .ranks = good ? head->ranks : 0};
  if (!good) munmap(at, (size_t)info.st_size);
  return good;
}

static bool map_path(const char *path, bool write, ls_page_t *page) {
  int fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
  bool good = fd >= 0 && map(fd, write, page);
  int error = errno;
  if (fd >= 0) close(fd);
  errno = fd >= 0 ? 0 : error;
  return good;
}

static ls_status_t make(ls_ctx_t *ctx, const char *dir, const char *path, int ranks) {
  char *empty = ls_alloc(ctx, bytes_of(ranks));
  if (!empty) return LS_ERR_MEMORY;
  head_t head = {.line_bytes = LINE_BYTES, .ranks = ranks};
  memcpy(head.magic, magic, sizeof magic);
  memcpy(empty, &head, sizeof head);
  ls_status_t status = ls_dir_make(ctx, dir);
  if (status == LS_OK) status = ls_file_expect(ctx, path);
  if (status == LS_OK) status = ls_file_replace(ctx, path, empty, bytes_of(ranks));
  ls_free(empty);
  return status;
}

static ls_status_t open_page(ls_ctx_t *ctx, const char *dir, int ranks, ls_page_t **out) {
  char *path = ls_path_join(ctx, dir, LS_PAGE_NAME);
  ls_page_t *page = ls_alloc(ctx, sizeof *page);
  ls_status_t status = path && page ? LS_OK : LS_ERR_MEMORY;
  bool write = ranks > 0, good = status == LS_OK && map_path(path, write, page);
  if (good && write && page->ranks != ranks) {
    munmap(page->head, page->size_bytes);
    good = false;
  }
  if (status == LS_OK && !good && !write)
    status = errno == ENOENT ? ls_fail(ctx, LS_ERR_NOT_FOUND, "%s: no run shows its ranks here", path)
                             : ls_fail(ctx, LS_ERR_CORRUPT, "%s: is no page of a run's ranks", path);
  if (status == LS_OK && !good && write) {
    status = make(ctx, dir, path, ranks);
    if (status == LS_OK && !map_path(path, write, page))
      status = ls_fail(ctx, LS_ERR_IO, "%s: cannot be mapped into memory", path);
  }
  ls_free(path);
  if (status == LS_OK)
    *out = page;
  else
    ls_free(page);
  return status;
}

ls_status_t ls_page_open(ls_ctx_t *ctx, const char *dir, int ranks, ls_page_t **page) {
  if (ranks < 1 || ranks > RANKS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "a page of %d ranks: 1 to %d", ranks, RANKS_MAX);
  return open_page(ctx, dir, ranks, page);
}

ls_status_t ls_page_read(ls_ctx_t *ctx, const char *dir, ls_page_t **page) {
  return open_page(ctx, dir, 0, page);
}

void ls_page_close(ls_page_t *page) {
  if (page) munmap(page->head, page->size_bytes);
  ls_free(page);
}

int ls_page_ranks(const ls_page_t *page) {
  return page->ranks;
}

ls_page_line_t *ls_page_line(ls_page_t *page, int rank) {
  return (ls_page_line_t *)(page->head + 1) + rank;
}

#define GET(field) atomic_load_explicit(&line->field, memory_order_relaxed)
void ls_page_look(const ls_page_t *page, int rank, ls_page_look_t *look) {
  const ls_page_line_t *line = (const ls_page_line_t *)(page->head + 1) + rank;
  const unsigned phase = GET(phase);
  const int64_t step = GET(step);
  *look = (ls_page_look_t){.step = step,
                           .first = step - (uint32_t)((uint32_t)step - GET(first)),
                           .since_ns = GET(since_ns),
                           .entered = GET(entered),
                           .left = GET(left),
                           .error_ns = GET(error_ns),
                           .error = (ls_status_t)GET(error),
                           .phase = phase < LS_PAGE_PHASES ? (ls_page_phase_t)phase : LS_PAGE_NONE,
                           .pid = GET(pid),
                           .parent = GET(parent)};
}
#undef GET

ls_page_speed_t *ls_page_speed(ls_page_t *page, int rank) {
  return (ls_page_speed_t *)(void *)(ls_page_line(page, page->ranks)) + rank;
}

#define GET(field) atomic_load_explicit(&speed->field, memory_order_relaxed)
void ls_page_speed_look(const ls_page_t *page, int rank, int steps, ls_page_speed_look_t *look) {
  ls_page_t *own = (ls_page_t *)(uintptr_t)page; /* only read */
  const ls_page_speed_t *speed = ls_page_speed(own, rank);
  *look = (ls_page_speed_look_t){
      .timed = atomic_load_explicit(&ls_page_line(own, rank)->timed, memory_order_acquire),
      .limits = GET(limits),
      .clock_ratio = 1e-6 * GET(clock_ppm),
      .waiting_ratio = 1e-6 * GET(waiting_ppm),
      .loop_ns = GET(loop_ns)};
  for (int i = 0; i < steps && i < look->timed && i < LS_PAGE_STEPS / 2; i++) {
    const int64_t at = (look->timed - 1 - i) % LS_PAGE_STEPS;
    look->own_ns[i] = GET(own_ns[at]);
    look->input_ns[i] = GET(input_ns[at]);
  }
}
#undef GET

#define PUT(field, value) atomic_store_explicit(&speed->field, (value), memory_order_relaxed)
void ls_page_speed_put(ls_page_t *page, int rank, int steps, const ls_page_speed_look_t *look) {
  ls_page_speed_t *speed = ls_page_speed(page, rank);
  for (int i = 0; i < steps && i < look->timed && i < LS_PAGE_STEPS / 2; i++) {
    const int64_t at = (look->timed - 1 - i) % LS_PAGE_STEPS;
    PUT(own_ns[at], look->own_ns[i]);
    PUT(input_ns[at], look->input_ns[i]);
  }
  PUT(limits, look->limits);
  PUT(clock_ppm, (int32_t)(1e6 * look->clock_ratio + 0.5));
  PUT(waiting_ppm, (int32_t)(1e6 * look->waiting_ratio + 0.5));
  PUT(loop_ns, look->loop_ns);
  atomic_store_explicit(&ls_page_line(page, rank)->timed, look->timed, memory_order_release);
}
#undef PUT

const char *ls_page_phase_name(ls_page_phase_t phase) {
  static const char *const names[] = {"none",       "start", "first step", "step",
                                      "evaluation", "save",  "end",        "gone"};
  _Static_assert(LS_COUNT(names) == LS_PAGE_PHASES, "every phase has a name");
  return names[phase];
}

#define PUT(field, value) atomic_store_explicit(&line->field, (value), memory_order_relaxed)
void ls_page_clear(ls_page_line_t *line) {
  PUT(phase, LS_PAGE_NONE);
  PUT(step, 0);
  PUT(first, 0);
  PUT(since_ns, 0);
  PUT(timed, 0);
  PUT(entered, 0);
  PUT(left, 0);
  PUT(error, LS_OK);
  PUT(error_ns, 0);
  PUT(pid, 0);
  PUT(parent, 0);
}

void ls_page_put(ls_page_line_t *line, const ls_page_look_t *look) {
  PUT(step, look->step);
  PUT(first, (uint32_t)look->first);
  PUT(entered, look->entered);
  PUT(left, look->left);
  PUT(error_ns, look->error_ns);
  PUT(error, (int16_t)look->error);
  PUT(pid, look->pid);
  PUT(parent, look->parent);
  ls_page_enter(line, look->phase, look->since_ns);
}

void ls_page_begin(ls_page_line_t *line, int64_t now_ns) {
  ls_page_clear(line);
  PUT(parent, getppid());
  PUT(pid, getpid());
  ls_page_enter(line, LS_PAGE_START, now_ns);
}

void ls_page_fail(ls_page_line_t *line, ls_status_t error) {
  if (error == LS_OK || atomic_load_explicit(&line->error, memory_order_relaxed) != LS_OK) return;
  PUT(error_ns, ls_clock_ns());
  PUT(error, (int16_t)error);
}
