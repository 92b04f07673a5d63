/* Hosts from outside of the configuration: a file, or a Slurm allocation. Both become an assignment of parallel.hosts. */
#include "base/child.h"
#include "base/json.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 1 << 20, LIMIT_S = 60 };

/* "name" or "name slots=N" in each line, as for mpirun --hostfile; # begins a comment. */
static ls_status_t read_file(ls_ctx_t *ctx, const char *path, json_t *list) {
  char *text, *rest, word[256];
  size_t size;
  int number = 0;
  ls_status_t status = ls_file_read(ctx, path, FILE_BYTES, &text, &size);
  if (status != LS_OK) return status;
  rest = text;
  for (char *line; status == LS_OK && (line = strsep(&rest, "\n"));) {
    long slots = 1;
    int end = 0, after = 0;
    number++;
    line[strcspn(line, "#\r")] = '\0';
    if (sscanf(line, " %255s %n", word, &end) != 1) continue;
    if (line[end] &&
        (sscanf(line + end, "slots = %ld %n", &slots, &after) != 1 || line[end + after] || slots < 1))
      status = ls_fail(ctx, LS_ERR_CONFIG, "%s:%d: \"NAME\" or \"NAME slots=N\" was expected, not \"%s\"",
                       path, number, LS_SHOWN(line));
    else
      json_array_append_new(list,
                            json_pack("{s:o, s:I}", "name", ls_json_text(word), "slots", (json_int_t)slots));
  }
  ls_free(text);
  if (status == LS_OK && json_array_size(list) == 0)
    return ls_fail(ctx, LS_ERR_CONFIG, "%s: names no host", path);
  return status;
}

/* The tasks of each node, "2(x3),1". */
static ls_status_t read_slurm(ls_ctx_t *ctx, const char *nodes, json_t *list) {
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

ls_status_t cli_hosts_take(ls_ctx_t *ctx, ls_arena_t *arena, cli_args_t *args, const char *file) {
  const char *nodes = getenv("SLURM_JOB_NODELIST"), *count = getenv("SLURM_JOB_NUM_NODES");
  int rank, size;
  bool slurm = !file && nodes && count && atoi(count) > 1;
  if (ls_comm_launched(&rank, &size) || (!file && !slurm)) return LS_OK;
  if (args->set_count == CLI_SETS_MAX)
    return ls_fail(ctx, LS_ERR_ARGUMENT, "more than %d --set assignments; put them into the file",
                   CLI_SETS_MAX - 1);
  for (int i = 0; slurm && i < args->set_count; i++)
    if (strncmp(args->sets[i], "parallel.hosts=", strlen("parallel.hosts=")) == 0) return LS_OK;
  json_t *list = json_array();
  ls_status_t status = file ? read_file(ctx, file, list) : read_slurm(ctx, nodes, list);
  char *text = status == LS_OK ? json_dumps(list, JSON_COMPACT) : NULL;
  const char *set = text ? ls_arena_printf(arena, "parallel.hosts=%s", text) : NULL;
  if (status == LS_OK && !set) status = LS_ERR_MEMORY;
  if (set) {
    args->sets[args->set_count++] = set;
    args->sets_added++;
  }
  free(text);
  json_decref(list);
  return status;
}

const char *cli_hosts_shell(const ls_parallel_config_t *parallel) {
  if (parallel->remote_shell) return parallel->remote_shell;
  return getenv("SLURM_JOB_ID") ? "srun --overlap --nodes=1 --ntasks=1 --quiet --nodelist"
                                : "ssh -o BatchMode=yes -o ConnectTimeout=10";
}
