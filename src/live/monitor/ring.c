/* The file is the rings one after the other; its size says how many there are. */
#include "monitor/ring.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS_MAX = 65536 };

struct ls_rings {
  ls_ring_t *ring;
  int ranks;
};

static ls_rings_t *map(ls_ctx_t *ctx, int fd, int ranks) {
  const size_t size = (size_t)ranks * sizeof(ls_ring_t);
  ls_rings_t *rings = ls_alloc(ctx, sizeof *rings);
  void *at = rings ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (at != MAP_FAILED) {
    *rings = (ls_rings_t){at, ranks};
    return rings;
  }
  ls_free(rings);
  return NULL;
}

static ls_status_t warn(ls_ctx_t *ctx, const char *path, const char *what, int error) {
  ls_log(ctx, LS_LOG_WARN,
         "%s: %s: %s; the report of a hang will lack collectives: free room, or set monitor.dir", path, what,
         strerror(error));
  return error == ENOSPC || error == EDQUOT ? LS_ERR_NO_SPACE : LS_ERR_IO;
}

/* Takes its room at once: a rank that wrote to a part for which the disk has no room later would be ended by SIGBUS. */
ls_status_t ls_rings_create(ls_ctx_t *ctx, const char *dir, int ranks, ls_rings_t **rings) {
  char *path = ls_path_join(ctx, dir, LS_RING_NAME);
  if (!path) return LS_ERR_MEMORY;
  unlink(path);
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  ls_status_t status = LS_OK;
  const int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)((size_t)ranks * sizeof(ls_ring_t)));
  if (error != 0)
    status = warn(ctx, path, "cannot be made", error);
  else if (!(*rings = map(ctx, fd, ranks)))
    status = warn(ctx, path, "cannot be mapped into memory", errno);
  if (fd >= 0) close(fd);
  if (error != 0 && fd >= 0) unlink(path);
  ls_free(path);
  return status;
}

ls_rings_t *ls_rings_find(const char *dir, int ranks) {
  char *path = ls_path_join(NULL, dir, LS_RING_NAME);
  struct stat info;
  int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW) : -1;
  bool fits = fd >= 0 && ranks > 0 && ranks <= RANKS_MAX && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
              (size_t)info.st_size == (size_t)ranks * sizeof(ls_ring_t);
  ls_rings_t *rings = fits ? map(NULL, fd, ranks) : NULL;
  if (fd >= 0) close(fd);
  ls_free(path);
  return rings;
}

void ls_rings_close(ls_rings_t *rings) {
  if (rings) munmap(rings->ring, (size_t)rings->ranks * sizeof(ls_ring_t));
  ls_free(rings);
}

void ls_rings_remove(const char *dir) {
  char *path = ls_path_join(NULL, dir, LS_RING_NAME);
  if (path) unlink(path);
  ls_free(path);
}

int ls_rings_ranks(const ls_rings_t *rings) {
  return rings->ranks;
}

ls_ring_t *ls_rings_at(ls_rings_t *rings, int rank) {
  return &rings->ring[rank];
}

static void put_text(char *to, size_t size, const char *text) {
  size_t len = strnlen(text, size - 1);
  memcpy(to, text, len);
  to[len] = '\0';
}

uint64_t ls_ring_enter(ls_ring_t *ring, ls_ring_line_t line, uint64_t number, const char *kind,
                       const char *name, const char *group, int64_t bytes, int64_t now_ns) {
  const uint64_t mark = atomic_fetch_add_explicit(&ring->count, 1, memory_order_relaxed);
  ls_ring_entry_t *e = &ring->entry[mark % LS_RING_ENTRIES];
  e->number = number;
  e->bytes = bytes;
  e->line = line;
  put_text(e->kind, sizeof e->kind, kind);
  put_text(e->name, sizeof e->name, name);
  put_text(e->group, sizeof e->group, group);
  atomic_store_explicit(&e->end_ns, 0, memory_order_relaxed);
  atomic_store_explicit(&e->begin_ns, now_ns, memory_order_relaxed);
  return mark;
}

void ls_ring_leave(ls_ring_t *ring, uint64_t mark, int64_t now_ns) {
  atomic_store_explicit(&ring->entry[mark % LS_RING_ENTRIES].end_ns, now_ns, memory_order_relaxed);
}

/* ---- reading ---- */

static bool same_line(const ls_ring_entry_t *a, const ls_ring_entry_t *b) {
  return a->line == b->line && strncmp(a->group, b->group, sizeof a->group) == 0;
}

/* The newest of a line; NULL: there is none. */
static const ls_ring_entry_t *newest(const ls_ring_t *ring, const ls_ring_entry_t *of) {
  const ls_ring_entry_t *found = NULL;
  for (int i = 0; i < LS_RING_ENTRIES; i++) {
    const ls_ring_entry_t *e = &ring->entry[i];
    if (e->number > 0 && same_line(e, of) && (!found || e->number > found->number)) found = e;
  }
  return found;
}

bool ls_rings_behind(ls_rings_t *rings, int rank, const ls_ring_entry_t *in) {
  const ls_ring_entry_t *e = newest(&rings->ring[rank], in);
  return e ? e->number < in->number : !in->group[0]; /* another group's collectives are not its own */
}

/* If ranks wait in vain in several collectives, the one with the longest wait is the cause. */
bool ls_rings_differ(ls_rings_t *rings, ls_ring_differ_t *differ) {
  bool found = false;
  for (int r = 0; r < rings->ranks; r++)
    for (int i = 0; i < LS_RING_ENTRIES; i++) {
      const ls_ring_entry_t *e = &rings->ring[r].entry[i];
      if (e->number == 0 || e->line >= LS_RING_LINES || e->end_ns != 0) continue;
      int behind = 0;
      while (behind < rings->ranks && !ls_rings_behind(rings, behind, e))
        behind++;
      if (behind == rings->ranks || (found && differ->in.begin_ns <= e->begin_ns)) continue;
      const ls_ring_entry_t *at = newest(&rings->ring[behind], e);
      *differ = (ls_ring_differ_t){.waits = r, .behind = behind, .in = *e};
      if (at) differ->at = *at;
      found = true;
    }
  return found;
}

void ls_ring_text(const ls_ring_entry_t *e, char *text, size_t size_bytes) {
  static const char *const units[] = {"B", "kB", "MB", "GB"};
  char kind[LS_SHOWN_BYTES], name[LS_SHOWN_BYTES], group[LS_SHOWN_BYTES];
  double size = (double)e->bytes;
  int unit = 0;
  for (; size >= 1000 && unit < LS_COUNT(units) - 1; unit++)
    size /= 1000;
  snprintf(text, size_bytes, "%s \"%s\"%s%s #%llu (%.3g %s)",
           ls_text_shown(e->kind, strnlen(e->kind, sizeof e->kind), kind, sizeof kind),
           ls_text_shown(e->name, strnlen(e->name, sizeof e->name), name, sizeof name),
           e->group[0] ? " of group " : "",
           ls_text_shown(e->group, strnlen(e->group, sizeof e->group), group, sizeof group),
           (unsigned long long)e->number, size, units[unit]);
}
