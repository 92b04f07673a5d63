/* Inodes are kept alive after they lost their names, so that no number stands for two files. */
#include "power.h"

#include "unit.h"

#include "base/base.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, COPY_BYTES = 65536 };

static struct {
  bool on;
  char dir[PATH_BYTES],
      disk[PATH_BYTES]; /* disk: "f-INODE" holds what a file had, "d-INODE" the names of a directory */
  int kept;
} power;

typedef struct {
  unsigned long long inode;
  char type; /* f, d or l */
  char name[256], target[256];
} entry_t;

static void kept_path(char type, unsigned long long inode, char path[PATH_BYTES + 64]) {
  snprintf(path, PATH_BYTES + 64, "%s/%c-%llu", power.disk, type, inode);
}

/* ---- what is durable ---- */

static void copy(const char *from, const char *to, off_t most) {
  static char bytes[COPY_BYTES];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_true(in && out);
  for (size_t n; most > 0 && (n = fread(bytes, 1, most < COPY_BYTES ? (size_t)most : COPY_BYTES, in)) > 0;
       most -= (off_t)n)
    assert_int_equal(fwrite(bytes, 1, n, out), n);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

static void keep_file(const char *path, unsigned long long inode) {
  char to[PATH_BYTES + 64];
  kept_path('f', inode, to);
  copy(path, to, INT32_MAX);
}

/* The names of a directory now, in a file of lines. */
static void write_names(const char *path, const char *to) {
  FILE *out = fopen(to, "w");
  DIR *dir = opendir(path);
  assert_non_null(out);
  for (struct dirent *d; dir && (d = readdir(dir));) {
    char at[PATH_BYTES + 300], target[256] = "-";
    struct stat info;
    if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, "..")) continue;
    snprintf(at, sizeof at, "%s/%s", path, d->d_name);
    if (lstat(at, &info) != 0) continue;
    ssize_t n = S_ISLNK(info.st_mode) ? readlink(at, target, sizeof target - 1) : 0;
    if (n > 0) target[n] = '\0';
    fprintf(out, "%llu %c %s %s\n", (unsigned long long)info.st_ino,
            S_ISDIR(info.st_mode)   ? 'd'
            : S_ISLNK(info.st_mode) ? 'l'
                                    : 'f',
            d->d_name, target);
  }
  if (dir) closedir(dir);
  fclose(out);
}

static void keep_names(const char *path, unsigned long long inode) {
  char to[PATH_BYTES + 64];
  kept_path('d', inode, to);
  write_names(path, to);
}

static bool below(const char *path) {
  size_t n = strlen(power.dir);
  return power.on && strncmp(path, power.dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

static void keep(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return;
  if (S_ISDIR(info.st_mode))
    keep_names(path, (unsigned long long)info.st_ino);
  else
    keep_file(path, (unsigned long long)info.st_ino);
}

void power_synced(int fd) {
  char link[64], path[PATH_BYTES] = "";
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (power.on && readlink(link, path, sizeof path - 1) > 0 && below(path)) keep(path);
}

void power_removing(const char *path) {
  char to[PATH_BYTES + 64];
  struct stat info;
  if (!below(path) || lstat(path, &info) != 0) return;
  snprintf(to, sizeof to, "%s/kept-%d-%d", power.disk, (int)getpid(), power.kept++);
  if (S_ISDIR(info.st_mode))
    (void)open(path, O_PATH | O_CLOEXEC); /* stays open until the process ends */
  else
    (void)link(path, to);
}

static void keep_all(const char *path) {
  keep(path);
  DIR *dir = opendir(path);
  for (struct dirent *d; dir && (d = readdir(dir));) {
    char at[PATH_BYTES + 300];
    snprintf(at, sizeof at, "%s/%s", path, d->d_name);
    if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..") && d->d_type != DT_LNK) keep_all(at);
  }
  if (dir) closedir(dir);
}

void power_on(const char *dir) {
  snprintf(power.dir, sizeof power.dir, "%s", dir);
  snprintf(power.disk, sizeof power.disk, "%s.disk", dir);
  assert_int_equal(ls_dir_remove(NULL, power.disk), LS_OK);
  assert_int_equal(mkdir(power.disk, 0777), 0);
  keep_all(dir);
  power.on = true;
}

void power_off(void) {
  power.on = false;
  ls_dir_remove(NULL, power.disk);
}

/* ---- the cut ---- */

/* The directory with this number, now; "" = it is gone. */
static void find(unsigned long long inode, char path[PATH_BYTES]) {
  struct stat info;
  snprintf(path, PATH_BYTES, "%s", power.dir);
  if (stat(path, &info) == 0 && (unsigned long long)info.st_ino == inode) return;
  DIR *dir = opendir(power.dir);
  for (struct dirent *d; dir && (d = readdir(dir));) {
    snprintf(path, PATH_BYTES, "%.600s/%s", power.dir, d->d_name);
    if (lstat(path, &info) == 0 && (unsigned long long)info.st_ino == inode) {
      closedir(dir);
      return;
    }
  }
  if (dir) closedir(dir);
  path[0] = '\0';
}

static void restore_file(const power_luck_t *luck, const char *now, const entry_t *e, const char *to) {
  char synced[PATH_BYTES + 64], at[PATH_BYTES + 300];
  struct stat info;
  kept_path('f', e->inode, synced);
  snprintf(at, sizeof at, "%s/%s", now, e->name);
  bool there = now[0] && stat(at, &info) == 0 && (unsigned long long)info.st_ino == e->inode;
  if (access(synced, F_OK) == 0)
    copy(synced, to, INT32_MAX);
  else if (there)
    copy(at, to, luck->half ? info.st_size / 2 : 0);
  else
    copy("/dev/null", to, 0);
}

static void restore(const power_luck_t *luck, unsigned long long inode, const char *into) {
  char now[PATH_BYTES], names[PATH_BYTES + 64], line[1024];
  find(inode, now);
  bool top = !strcmp(now, power.dir);
  kept_path('d', inode, names);
  if (top ? luck->names : luck->names_within) {
    kept_path('n', inode, names);
    write_names(now, names);
  }
  assert_int_equal(mkdir(into, 0777), 0);
  FILE *list = fopen(names, "r"); /* never synced: it has no names */
  while (list && fgets(line, sizeof line, list)) {
    entry_t e;
    char to[PATH_BYTES + 300];
    assert_int_equal(sscanf(line, "%llu %c %255s %255s", &e.inode, &e.type, e.name, e.target), 4);
    snprintf(to, sizeof to, "%s/%s", into, e.name);
    if (e.type == 'd')
      restore(luck, e.inode, to);
    else if (e.type == 'l')
      assert_int_equal(symlink(e.target, to), 0);
    else
      restore_file(luck, now, &e, to);
  }
  if (list) fclose(list);
}

void power_cut(const power_luck_t *luck, const char *into) {
  struct stat info;
  assert_int_equal(stat(power.dir, &info), 0);
  restore(luck, (unsigned long long)info.st_ino, into);
}
