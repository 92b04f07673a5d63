/* Hosts from outside of the configuration: a file, or a Slurm allocation. Both become a list as parallel.hosts has it. */
#include "base/base.h"
#include "base/child.h"
#include "supervise/supervise.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, LIMIT_S = 60 };

/* What is wrong with a line; "" = nothing. Line: without its comment. */
static const char *read_line(char *line, json_t *list, char *name, long *slots) {
  char word[LS_HOST_NAME_BYTES];
  int end = 0, after = 0;
  size_t i;
  json_t *host;
  *slots = 1;
  if (sscanf(line, " %255s %n", word, &end) != 1) return "";
  if (line[end] && (sscanf(line + end, "slots = %ld %n", slots, &after) != 1 || line[end + after]))
    return "\"NAME\" or \"NAME slots=N\" was expected";
  if (*slots < 1 || *slots > LS_HOST_SLOTS_MAX) return "1 to 65536 slots were expected";
  if (!ls_hosts_name(word, name)) return LS_HOSTS_NAME_HELP;
  json_array_foreach(list, i,
                     host) if (!strcmp(json_string_value(json_object_get(host, "name")),
                                       name)) return "this host stands there twice; give it more slots";
  return json_array_size(list) == LS_HOSTS_MAX ? "at most 1024 hosts were expected" : "";
}

/* "name" or "name slots=N" in each line, as for mpirun --hostfile; # begins a comment. */
ls_status_t ls_hosts_read_file(ls_ctx_t *ctx, const char *path, json_t *list) {
  char *text, *rest, name[LS_HOST_NAME_BYTES];
  size_t size;
  int number = 0;
  ls_status_t status = ls_file_read(ctx, path, FILE_BYTES, &text, &size);
  if (status != LS_OK) return status;
  rest = text;
  for (char *line; status == LS_OK && (line = strsep(&rest, "\n"));) {
    long slots;
    number++;
    line[strcspn(line, "#\r")] = '\0';
    name[0] = '\0';
    const char *wrong = read_line(line, list, name, &slots);
    if (wrong[0])
      status = ls_fail(ctx, LS_ERR_CONFIG, "%s:%d: %s, not \"%s\"", path, number, wrong, LS_SHOWN(line));
    else if (name[0])
      json_array_append_new(list,
                            json_pack("{s:o, s:I}", "name", ls_json_text(name), "slots", (json_int_t)slots));
  }
  ls_free(text);
  if (status == LS_OK && json_array_size(list) == 0)
    return ls_fail(ctx, LS_ERR_CONFIG, "%s: names no host", path);
  return status;
}

/* The tasks of each node, "2(x3),1". */
ls_status_t ls_hosts_read_slurm(ls_ctx_t *ctx, const char *nodes, json_t *list) {
  char *names = ls_alloc(ctx, FILE_BYTES), *rest = names;
  const char *const argv[] = {"scontrol", "show", "hostnames", nodes, NULL};
  const char *tasks = getenv("SLURM_TASKS_PER_NODE");
  ls_child_spec_t ask = {.argv = argv, .limit_s = LIMIT_S, .said = names, .said_bytes = FILE_BYTES};
  ls_child_end_t end;
  int slots = 1, times = 0;
  if (!names) return LS_ERR_MEMORY;
  ask.stream[STDOUT_FILENO].fd = STDERR_FILENO;
  bool good = ls_child_run(&ask, &end);
  for (char *name; good && (name = strsep(&rest, "\n"));) {
    if (!*name) continue;
    if (times == 0 && tasks && *tasks) {
      char *after;
      slots = (int)strtol(tasks, &after, 10);
      times = strncmp(after, "(x", 2) == 0 ? (int)strtol(after + 2, &after, 10) : 1;
      tasks = after + strcspn(after, ",");
      tasks += *tasks == ',';
    }
    times -= times > 0;
    json_array_append_new(list, json_pack("{s:o, s:i}", "name", ls_json_text(name), "slots", slots));
  }
  if (!good) {
    char words[LS_CHILD_WORDS_BYTES];
    ls_child_reason(&end, names, words);
    ls_fail(ctx, LS_ERR_UNSUPPORTED, "scontrol does not name the nodes of this Slurm job: %s", words);
  }
  ls_free(names);
  return good ? LS_OK : LS_ERR_UNSUPPORTED;
}

const char *ls_hosts_shell(const char *given) {
  if (given) return given;
  return getenv("SLURM_JOB_ID") ? "srun --overlap --nodes=1 --ntasks=1 --quiet --nodelist"
                                : "ssh -o BatchMode=yes -o ConnectTimeout=10";
}
