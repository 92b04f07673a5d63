/* Reads rings, /proc, a debugger's words and NCCL's. Whatever cannot be read is left out. */
#include "supervise/evidence.h"

#include "base/base.h"
#include "base/child.h"
#include "base/tcp.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STACK_S = 5, RAS_S = 3, WORDS_BYTES = 32768, FILE_BYTES = 4096, LINE_BYTES = 256, RAS_BYTES = 128 };

/* ---- collectives ---- */

bool ls_evidence_devices(ls_rings_t *rings) {
  bool devices = false;
  for (int r = 0; rings && r < ls_rings_ranks(rings); r++)
    devices |= ls_rings_at(rings, r)->device;
  return devices;
}

void ls_evidence_differ(ls_rings_t *rings, const ls_page_look_t *look, ls_fault_t *fault) {
  ls_ring_differ_t d;
  char in[LINE_BYTES], at[LINE_BYTES];
  if (!rings || !ls_rings_differ(rings, &d)) return;
  ls_ring_text(&d.in, in, sizeof in);
  ls_ring_text(&d.at, at, sizeof at);
  const char *how = d.at.number == 0              ? "has shown no collective"
                    : d.at.line == LS_RING_DEVICE ? "was last seen in "
                    : d.at.end_ns == 0            ? "is in "
                                                  : "has done no more than ";
  snprintf(fault->differ, sizeof fault->differ, "rank %d waits in %.200s, rank %d %s%.200s", d.waits, in,
           d.behind, how, d.at.number == 0 ? "" : at);
  if (fault->missing_count > 0 || fault->stopped) return;
  fault->rank = d.behind;
  fault->at = look[d.behind];
  for (int r = 0; r < ls_rings_ranks(rings) && fault->missing_count < LS_FAULT_MISSING_MAX; r++)
    if (ls_rings_behind(rings, r, &d.in)) fault->missing[fault->missing_count++] = r;
}

static json_t *entry_json(const ls_ring_entry_t *e, int64_t now_ns) {
  char text[LINE_BYTES];
  static const char *const lines[] = {"control", "data", "device"};
  _Static_assert(LS_COUNT(lines) == LS_RING_LINES, "every line has a name");
  ls_ring_text(e, text, sizeof text);
  return json_pack("{s:o, s:s, s:I, s:I, s:f, s:o}", "collective", ls_json_text(text), "line", lines[e->line],
                   "number", (json_int_t)e->number, "bytes", (json_int_t)e->bytes, "begun_s_ago",
                   1e-9 * (double)(now_ns - e->begin_ns), "took_s",
                   e->end_ns ? json_real(1e-9 * (double)(e->end_ns - e->begin_ns)) : json_null());
}

/* Newest first. */
static json_t *ring_json(const ls_ring_t *ring) {
  const uint64_t count = ring->count;
  const int64_t now_ns = ls_clock_ns();
  json_t *list = json_array();
  for (uint64_t i = 0; i < count && i < LS_RING_ENTRIES; i++) {
    const ls_ring_entry_t *e = &ring->entry[(count - 1 - i) % LS_RING_ENTRIES];
    if (e->number > 0 && e->line < LS_RING_LINES) json_array_append_new(list, entry_json(e, now_ns));
  }
  return list;
}

/* ---- threads ---- */

/* A file of /proc without its last line end; "" = it cannot be read. */
static const char *file_of(pid_t pid, const char *task, const char *name, char text[FILE_BYTES]) {
  char path[128];
  snprintf(path, sizeof path, "/proc/%d/task/%.20s/%s", (int)pid, task, name);
  FILE *file = fopen(path, "re");
  size_t len = file ? fread(text, 1, FILE_BYTES - 1, file) : 0;
  if (file) fclose(file);
  while (len > 0 && text[len - 1] == '\n')
    len--;
  text[len] = '\0';
  return text;
}

/* Name, state, where it waits in the kernel, and its system call. */
static json_t *thread_json(pid_t pid, const char *task) {
  char name[FILE_BYTES], stat[FILE_BYTES], where[FILE_BYTES], call[FILE_BYTES], stack[FILE_BYTES];
  const char *state = strrchr(file_of(pid, task, "stat", stat), ')');
  return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o}", "thread", task, "name",
                   ls_json_text(file_of(pid, task, "comm", name)), "state",
                   state && state[1] ? (char[2]){state[2], '\0'} : "", "waits_in",
                   ls_json_text(file_of(pid, task, "wchan", where)), "system_call",
                   ls_json_text(file_of(pid, task, "syscall", call)), "kernel_stack",
                   ls_json_text(file_of(pid, task, "stack", stack)));
}

static json_t *threads_json(pid_t pid) {
  char path[64];
  json_t *list = json_array();
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *dir = opendir(path);
  for (const struct dirent *entry; dir && (entry = readdir(dir));)
    if (entry->d_name[0] != '.') json_array_append_new(list, thread_json(pid, entry->d_name));
  if (dir) closedir(dir);
  return list;
}

/* The first debugger that can be started. */
static json_t *stacks_json(pid_t pid) {
  char number[16];
  const char *const eu_stack[] = {"eu-stack", "-p", number, NULL};
  const char *const gdb[] = {"gdb", "-nx", "-batch", "-p", number, "-ex", "thread apply all bt", NULL};
  const char *const *const tool[] = {eu_stack, gdb};
  const char *const environment[] = {"DEBUGINFOD_URLS", NULL}; /* no look into the network */
  char *words = ls_alloc(NULL, WORDS_BYTES);
  json_t *text = NULL;
  snprintf(number, sizeof number, "%d", (int)pid);
  for (int i = 0; words && !text && i < LS_COUNT(tool); i++) {
    ls_child_spec_t spec = {.argv = tool[i],
                            .environment = environment,
                            .stream = {{.file = "/dev/null"}, {.fd = STDERR_FILENO}},
                            .limit_s = STACK_S,
                            .said = words,
                            .said_bytes = WORDS_BYTES};
    ls_child_end_t end;
    ls_child_run(&spec, &end);
    if (!end.error) text = ls_json_text(words);
  }
  ls_free(words);
  return text;
}

/* ---- NCCL ---- */

/* An IPv6 address stands in brackets. False: there is no port. */
static bool ras_address(pid_t rank, char host[RAS_BYTES], const char **port) {
  static const char name[] = "NCCL_RAS_ADDR=";
  const char *own = getenv("NCCL_RAS_ADDR");
  char path[64], *variable = NULL;
  size_t room = 0;
  snprintf(host, RAS_BYTES, "%s", own ? own : "localhost:28028");
  snprintf(path, sizeof path, "/proc/%d/environ", (int)rank);
  FILE *file = fopen(path, "re");
  while (file && getdelim(&variable, &room, '\0', file) > 0)
    if (!strncmp(variable, name, sizeof name - 1))
      snprintf(host, RAS_BYTES, "%s", variable + sizeof name - 1);
  if (file) fclose(file);
  free(variable);
  char *colon = strrchr(host, ':');
  if (!colon) return false;
  *colon = '\0';
  *port = colon + 1;
  if (host[0] == '[' && colon[-1] == ']') {
    colon[-1] = '\0';
    memmove(host, host + 1, (size_t)(colon - 1 - host));
  }
  return true;
}

void ls_evidence_ras(pid_t rank, char *text, size_t size_bytes) {
  static const char command[] = "verbose status\n";
  const int64_t end_ns = ls_clock_ns() + RAS_S * INT64_C(1000000000);
  char host[RAS_BYTES];
  const char *port;
  size_t used = 0;
  text[0] = '\0';
  if (!ras_address(rank, host, &port)) return;
  int fd = ls_tcp_connect(host, port, end_ns, NULL);
  if (fd >= 0 && send(fd, command, sizeof command - 1, MSG_NOSIGNAL) == (ssize_t)sizeof command - 1)
    while (used < size_bytes - 1 && ls_tcp_ready(fd, POLLIN, end_ns)) {
      ssize_t got = recv(fd, text + used, size_bytes - 1 - used, 0);
      if (got <= 0) break;
      used += (size_t)got;
    }
  if (fd >= 0) close(fd);
  text[used] = '\0';
}

static json_t *ras_json(pid_t rank) {
  char *text = ls_alloc(NULL, WORDS_BYTES);
  if (text) ls_evidence_ras(rank, text, WORDS_BYTES);
  json_t *words = text && text[0] ? ls_json_text(text) : NULL;
  ls_free(text);
  return words;
}

json_t *ls_evidence_process(pid_t pid, bool devices) {
  json_t *process = json_object(), *stacks = NULL, *ras = devices ? ras_json(pid) : NULL;
  if (pid > 0) json_object_set_new(process, "threads", threads_json(pid));
  if (pid > 0) stacks = stacks_json(pid);
  if (stacks) json_object_set_new(process, "stacks", stacks);
  if (ras) json_object_set_new(process, "nccl_ras", ras);
  return process;
}

json_t *ls_evidence_hang(ls_rings_t *rings, json_t *process) {
  json_t *all = json_object(), *ranks = json_array();
  for (int r = 0; rings && r < ls_rings_ranks(rings); r++)
    json_array_append_new(ranks, ring_json(ls_rings_at(rings, r)));
  json_object_set_new(all, "collectives", ranks);
  json_object_update(all, process);
  json_decref(process);
  const bool asked = json_object_get(all, "nccl_ras") || !json_object_get(all, "host");
  json_t *ras = !asked && ls_evidence_devices(rings) ? ras_json(0) : NULL;
  if (ras) json_object_set_new(all, "nccl_ras", ras);
  return all;
}
