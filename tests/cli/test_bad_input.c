/* Runs the table of bad input against the program, which is linked in: a row is a fork that calls its main, without the
 * loading of a new program. Arguments pick rows by a part of their name. */
#include "bad_input.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

enum { ARGS_MAX = 32, TEXT_BYTES = 1 << 16, LIST_BYTES = 1 << 16, SKIPPED = 77 };

/* The linker takes the program's main for __real_main and starts with this file's. */
int __real_main(int argc, char **argv); /* NOLINT(bugprone-reserved-identifier) */
int __wrap_main(int argc, char **argv); /* NOLINT(bugprone-reserved-identifier) */

/* In the environment of rows: what starts itself again, to have ranks, is the program. */
#define AS_PROGRAM "LOCKSTEP_BAD_INPUT_ROW"

static void give_up(const char *what) {
  perror(what);
  exit(2);
}

/* ---- running ---- */

static void redirect(int fd, const char *path) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || dup2(file, fd) < 0) give_up(path);
  close(file);
}

/* Runs the program in a process of its own; stdout and stderr go to files outside the current folder. Returns waitpid's
 * status. */
static int run(const char *args, bool json, const char *env, const char *out, const char *err) {
  static char copy[1024], variable[512], name[] = "lockstep", flag[] = "--json";
  char *argv[ARGS_MAX + 3], *state = NULL;
  int n = 0;
  snprintf(copy, sizeof copy, "%s", args);
  argv[n++] = name;
  for (char *word = strtok_r(copy, " ", &state); word && n < ARGS_MAX; word = strtok_r(NULL, " ", &state))
    argv[n++] = word;
  if (json && n > 1) argv[n++] = flag;
  argv[n] = NULL;
  fflush(NULL);
  pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) {
    redirect(STDOUT_FILENO, out);
    redirect(STDERR_FILENO, err);
    snprintf(variable, sizeof variable, "%s", env ? env : "LOCKSTEP_UNUSED=1");
    putenv(variable);
    setenv(AS_PROGRAM, "1", 1);
    exit(__real_main(n, argv));
  }
  int status;
  if (waitpid(child, &status, 0) != child) give_up("waitpid");
  return status;
}

void must_run(const char *args) {
  int status = run(args, true, NULL, "../out", "../err");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  fprintf(stderr, "a preparation failed: lockstep %s\n", args);
  exit(2);
}

/* ---- what is in the folder ---- */

static unsigned long crc_of(const char *path) {
  unsigned char bytes[4096];
  FILE *file = fopen(path, "rb");
  if (!file) return 0;
  unsigned long crc = crc32(0, NULL, 0);
  for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;)
    crc = crc32(crc, bytes, (unsigned)n);
  fclose(file);
  return crc;
}

/* Appends a line per file and folder below `path`: name, size, checksum. `without` is left out. */
static void list_below(const char *path, const char *without, char *list) {
  char **names;
  int count;
  if (ls_dir_list(NULL, path, &names, &count) != LS_OK) give_up(path);
  for (int i = 0; i < count; i++) {
    char below[1024];
    snprintf(below, sizeof below, "%s%s%s", strcmp(path, ".") ? path : "", strcmp(path, ".") ? "/" : "",
             names[i]);
    if (without && strcmp(below, without) == 0) continue;
    struct stat info;
    if (lstat(below, &info) != 0) give_up(below);
    size_t used = strlen(list);
    bool regular = S_ISREG(info.st_mode);
    snprintf(list + used, LIST_BYTES - used, "%s %lld %08lx\n", below, regular ? (long long)info.st_size : 0,
             regular ? crc_of(below) : 0);
    if (S_ISDIR(info.st_mode)) list_below(below, without, list);
  }
  ls_free(names);
}

/* ---- one row ---- */

static bool complain(const row_t *row, const char *what, const char *detail) {
  printf("FAILED %s: %s%s\n", row->name, what, detail);
  return false;
}

static void read_text(const char *path, char *text) {
  FILE *file = fopen(path, "rb");
  if (!file) give_up(path);
  text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
  fclose(file);
}

static bool check_status(const row_t *row, int status) {
  char text[64];
  if (WIFSIGNALED(status)) {
    snprintf(text, sizeof text, "%d", WTERMSIG(status));
    return complain(row, "crashed with signal ", text);
  }
  if (WEXITSTATUS(status) == row->code) return true;
  snprintf(text, sizeof text, "%d instead of %d", WEXITSTATUS(status), row->code);
  return complain(row, "exit code ", text);
}

static bool check_stderr(const row_t *row, const char *text) {
  bool good = true;
  for (int i = 0; i < EXPECT_MAX && row->expect[i]; i++)
    if (!strstr(text, row->expect[i])) good = complain(row, "stderr lacks: ", row->expect[i]);
  if (row->lacks && strstr(text, row->lacks)) good = complain(row, "stderr has: ", row->lacks);
  if (row->code != OK && !strstr(text, "lockstep: error: ") && !strstr(text, "usage: lockstep"))
    good = complain(row, "stderr has no error line", "");
  return good;
}

static bool check_stdout(const row_t *row, const char *text) {
  if (!text[0]) return row->code != OK || complain(row, "stdout is empty", "");
  json_error_t error;
  json_t *document = json_loads(text, JSON_REJECT_DUPLICATES, &error);
  json_decref(document);
  return document ? true : complain(row, "stdout is not one JSON document: ", error.text);
}

static bool run_row(const row_t *row) {
  static char before[LIST_BYTES], after[LIST_BYTES], out[TEXT_BYTES], err[TEXT_BYTES];
  if (row->config) put_text("c.yaml", row->config);
  if (row->files) row->files();
  before[0] = after[0] = '\0';
  list_below(".", row->leaves, before);
  int status = run(row->args ? row->args : "check c.yaml", !row->no_json, row->env,
                   row->stdout_full ? "/dev/full" : "../out", "../err");
  list_below(".", row->leaves, after);
  read_text("../err", err);
  bool good = check_status(row, status);
  good = check_stderr(row, err) && good;
  if (!row->stdout_full) {
    read_text("../out", out);
    good = check_stdout(row, out) && good;
  }
  if (strcmp(before, after) != 0) {
    good = complain(row, "the folder is not as before:\n", before);
    printf("-- after --\n%s", after);
  }
  if (!good) printf("-- stderr --\n%s\n", err);
  return good;
}

/* A small file system that only this process and its children see. */
static bool mount_tiny_disk(void) {
  return mkdir("disk", 0777) == 0 && unshare(CLONE_NEWNS) == 0 &&
         mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
         mount("tmpfs", "disk", "tmpfs", 0, "size=24k") == 0;
}

/* Where the system promises any amount of memory, a model that is too large is stopped by nothing. */
static bool memory_is_promised_freely(void) {
  FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
  int mode = file ? fgetc(file) : EOF;
  if (file) fclose(file);
  return mode == '1';
}

static bool possible(const row_t *row) {
  return !(row->tiny_disk && !mount_tiny_disk()) && !(row->huge && memory_is_promised_freely());
}

/* In a process and a folder of its own. 0 good, 1 failed, SKIPPED. */
static int isolate(const row_t *row, const char *base) {
  char folder[512];
  snprintf(folder, sizeof folder, "%s/row", base);
  fflush(stdout);
  pid_t child = fork();
  if (child < 0) give_up("fork");
  if (child == 0) {
    if (mkdir(folder, 0777) != 0 || chdir(folder) != 0) give_up(folder);
    int code = !possible(row) ? SKIPPED : run_row(row) ? 0 : 1;
    fflush(stdout);
    _exit(code);
  }
  int status;
  if (waitpid(child, &status, 0) != child) give_up("waitpid");
  if (ls_dir_remove(NULL, folder) != LS_OK) give_up(folder);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- all rows ---- */

typedef struct {
  int good, failed, skipped;
} tally_t;

static bool wanted(const row_t *row, int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strstr(row->name, argv[i])) return true;
  return argc <= 1;
}

static void run_rows(const row_t *rows, int count, const char *base, int argc, char **argv, tally_t *tally) {
  for (int i = 0; i < count; i++) {
    if (!wanted(&rows[i], argc, argv)) continue;
    int code = isolate(&rows[i], base);
    if (code == 0)
      tally->good++;
    else if (code == SKIPPED)
      tally->skipped++;
    else
      tally->failed++;
    if (code == SKIPPED) printf("skipped %s: this machine does not let us make the case\n", rows[i].name);
  }
}

int __wrap_main(int argc, char **argv) {
  if (getenv(AS_PROGRAM)) return __real_main(argc, argv);
  const char *tmp = getenv("TMPDIR");
  char base[256];
  snprintf(base, sizeof base, "%s/lockstep-bad-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
  if (!mkdtemp(base)) give_up(base);
  setenv("XDG_CACHE_HOME", base, 1); /* no row reads the user's profile, however large */
  tally_t tally = {0};
  run_rows(rows_config, rows_config_count, base, argc, argv, &tally);
  run_rows(rows_data, rows_data_count, base, argc, argv, &tally);
  run_rows(rows_run, rows_run_count, base, argc, argv, &tally);
  if (ls_dir_remove(NULL, base) != LS_OK) give_up(base);
  printf("%d rows as expected, %d not, %d skipped\n", tally.good, tally.failed, tally.skipped);
  return tally.failed ? 1 : 0;
}
