/* Reads /proc, and the user database. */
#include "base/process.h"

#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <malloc.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

bool ls_process_home(char path[PATH_MAX]) {
  const char *home = getenv("HOME");
  char text[PATH_MAX];
  struct passwd entry, *found = NULL;
  const bool known = home && *home;
  if (!known && getpwuid_r(getuid(), &entry, text, sizeof text, &found) == 0 && found) home = found->pw_dir;
  if (!known && (!found || home[0] != '/')) return false;
  return snprintf(path, PATH_MAX, "%s", home) < PATH_MAX;
}

int64_t ls_process_peak_bytes(void) {
  FILE *file = fopen("/proc/self/status", "re");
  char line[256];
  int64_t kib = 0;
  if (!file) return 0;
  while (kib == 0 && fgets(line, sizeof line, file))
    if (sscanf(line, "VmHWM: %" SCNd64 " kB", &kib) != 1) kib = 0;
  fclose(file);
  return kib > 0 ? kib * 1024 : 0;
}

bool ls_process_peak_reset(void) {
  malloc_trim(0);
  FILE *file = fopen("/proc/self/clear_refs", "we");
  const bool written = file && fputs("5", file) >= 0;
  return file && fclose(file) == 0 && written;
}

int64_t ls_process_heap_bytes(void) {
  const struct mallinfo2 heap = mallinfo2();
  return (int64_t)(heap.uordblks + heap.hblkhd);
}

ls_status_t ls_process_room(ls_ctx_t *ctx, int64_t bytes, const char *what) {
  struct rlimit limit;
  long long pages = 0;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return LS_OK;
  FILE *file = fopen("/proc/self/statm", "re");
  if (file && fscanf(file, "%lld", &pages) != 1) pages = 0;
  if (file) fclose(file);
  const int64_t left = (int64_t)limit.rlim_cur - pages * sysconf(_SC_PAGESIZE);
  if (left >= bytes) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_MEMORY,
      "out of memory: %s may need %.0f MB, and the limit of address space (ulimit -v %lld) leaves %.0f MB: "
      "raise it",
      what, (double)bytes * 1e-6, (long long)(limit.rlim_cur / 1024), left > 0 ? (double)left * 1e-6 : 0.0);
}

int64_t ls_process_node(int unique) {
  char text[160];
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  size_t read = file ? fread(text, 1, 64, file) : 0;
  ssize_t len = readlink("/proc/self/ns/pid", text + read, sizeof text - read);
  if (file) fclose(file);
  if (read == 0 || len <= 0) return -1 - unique;
  uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a (Fowler, Noll, Vo) */
  for (size_t i = 0; i < read + (size_t)len; i++)
    hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  return (int64_t)(hash >> 1);
}

bool ls_process_program(char path[PATH_MAX]) {
  ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (len < 0) return false;
  path[len] = '\0';
  return true;
}

/* The notes of one segment: {size of the name, size of the text, kind, name, text}, each padded to four bytes. */
static void take_build(const char *at, size_t bytes, char id[LS_PROCESS_BUILD_BYTES]) {
  const char *end = at + bytes;
  ElfW(Nhdr) note;
  while (at + sizeof note <= end) {
    memcpy(&note, at, sizeof note);
    const char *name = at + sizeof note, *text = name + ((note.n_namesz + 3) & ~3u);
    at = text + ((note.n_descsz + 3) & ~3u);
    if (at > end || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 || memcmp(name, "GNU", 4) != 0)
      continue;
    for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < LS_PROCESS_BUILD_BYTES; i++)
      snprintf(id + 2 * i, 3, "%02x", (unsigned char)text[i]);
    return;
  }
}

/* Finds the build ID of the object that has this function. */
static int look_for_build(struct dl_phdr_info *object, size_t size, void *id) {
  const uintptr_t own = (uintptr_t)look_for_build;
  bool here = false;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &object->dlpi_phdr[i];
    const uintptr_t from = object->dlpi_addr + p->p_vaddr;
    here |= p->p_type == PT_LOAD && own >= from && own - from < p->p_memsz;
  }
  for (int i = 0; here && i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &object->dlpi_phdr[i];
    if (p->p_type == PT_NOTE) take_build((const char *)(object->dlpi_addr + p->p_vaddr), p->p_memsz, id);
  }
  return here;
}

void ls_process_build(char id[LS_PROCESS_BUILD_BYTES]) {
  id[0] = '\0';
  dl_iterate_phdr(look_for_build, id);
}

int ls_process_watch(pid_t pid) {
  return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* State and parent, after the name, which may contain anything. */
static pid_t look_at(pid_t pid, char *state) {
  char path[64], text[512];
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *file = fopen(path, "re");
  const size_t got = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) fclose(file);
  text[got] = '\0';
  const char *end = strrchr(text, ')');
  return end && sscanf(end + 1, " %c %d", state, &parent) == 2 ? parent : 0;
}

bool ls_process_ended(pid_t pid) {
  char state = 'R';
  if (kill(pid, 0) != 0 && errno == ESRCH) return true;
  look_at(pid, &state);
  return state == 'Z' || state == 'X';
}

bool ls_process_stopped(pid_t pid) {
  char state = 'R';
  look_at(pid, &state);
  return state == 'T' || state == 't';
}

pid_t ls_process_parent(pid_t pid) {
  char state;
  return look_at(pid, &state);
}

pid_t ls_process_child(pid_t pid) {
  char path[64];
  int child = 0;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
  FILE *file = fopen(path, "re");
  if (file && fscanf(file, "%d", &child) != 1) child = 0;
  if (file) fclose(file);
  return child;
}
