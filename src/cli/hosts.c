/* Hosts from outside of the configuration: a file, or a Slurm allocation. Both become an assignment of parallel.hosts. */
#include "base/child.h"
#include "base/json.h"
#include "base/process.h"
#include "cli/cli.h"

#include <errno.h>
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
static ls_status_t read_file(ls_ctx_t *ctx, const char *path, json_t *list) {
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
  const char *set = NULL;
  for (int i = 0; slurm && i < args->set_count; i++)
    if (strncmp(args->sets[i], "parallel.hosts=", strlen("parallel.hosts=")) == 0)
      set = args->sets[i] + strlen("parallel.hosts=");
  if (set && *set) return LS_OK;
  json_t *list = json_array();
  ls_status_t status = file ? read_file(ctx, file, list) : read_slurm(ctx, nodes, list);
  char *text = status == LS_OK ? json_dumps(list, JSON_COMPACT) : NULL;
  set = text ? ls_arena_printf(arena, "parallel.hosts=%s", text) : NULL;
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

/* Open MPI takes names of letters, digits and hyphens alone. In an IPv6 address z begins the zone, and there z begins what is
 * none of these. */
static const struct {
  char sign;
  const char *code;
} zone_codes[] = {{'z', "zz"}, {'.', "zd"}, {'_', "zu"}};

const char *cli_hosts_node(ls_arena_t *arena, const char *name) {
  if (!strchr(name, ':')) return name;
  if (ls_hosts_is_here(name)) return "localhost";
  char node[2 * LS_HOST_NAME_BYTES] = LS_HOSTS_SIX;
  for (size_t n = strlen(node); *name; name++, n = strlen(node)) {
    const char sign[] = {*name == ':' ? '-' : *name == '%' ? 'z' : *name, '\0'}, *code = sign;
    for (int i = 0; i < LS_COUNT(zone_codes); i++)
      if (*name == zone_codes[i].sign) code = zone_codes[i].code;
    snprintf(node + n, sizeof node - n, "%s", code);
  }
  return ls_arena_strdup(arena, node);
}

/* "a:2,b:1": as many ranks, on the first of the hosts. */
const char *cli_hosts_list(ls_arena_t *arena, const ls_hosts_config_t *hosts, int ranks) {
  const char *list = "";
  for (int i = 0; list && i < hosts->count && ranks > 0; i++) {
    int here = hosts->host[i].slots < ranks ? (int)hosts->host[i].slots : ranks;
    list = ls_arena_printf(arena, "%s%s%s:%d", list, i ? "," : "", cli_hosts_node(arena, hosts->host[i].name),
                           here);
    ranks -= here;
  }
  return list;
}

ls_status_t cli_hosts_agent(ls_ctx_t *ctx, ls_arena_t *arena, const ls_parallel_config_t *parallel,
                            const char **agent) {
  static const char *const given[] = {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"};
  const char *shell = cli_hosts_shell(parallel);
  char self[PATH_MAX];
  bool address = false;
  for (int i = 0; i < LS_COUNT(given); i++)
    if (getenv(given[i])) shell = getenv(given[i]);
  for (int i = 0; i < parallel->hosts.count; i++)
    address |= strchr(parallel->hosts.host[i].name, ':') != NULL;
  *agent = shell;
  if (!address) return LS_OK;
  if (!ls_process_program(self)) return ls_fail_errno(ctx, "cannot find this program's path");
  if (strchr(self, ' '))
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "parallel.hosts: IPv6 addresses need a path of this program without spaces (%s); give the "
                   "hosts names",
                   LS_SHOWN(self));
  *agent = ls_arena_printf(arena, "%s " CLI_SHELL_FLAG " %s", self, shell);
  return *agent ? LS_OK : LS_ERR_MEMORY;
}

/* Turns the node name of an IPv6 address into the address; false: it is another word, and stays. */
static bool read_node(char *node) {
  char address[LS_HOST_NAME_BYTES], plain[LS_HOST_NAME_BYTES];
  const size_t skip = strlen(LS_HOSTS_SIX);
  bool zone = false;
  size_t n = 0;
  if (strncmp(node, LS_HOSTS_SIX, skip) != 0 || strlen(node) - skip >= sizeof address) return false;
  for (const char *at = node + skip; *at; at++) {
    char sign = zone || *at != '-' ? *at : ':';
    for (int i = 0; i < LS_COUNT(zone_codes) && zone && *at == 'z'; i++)
      if (at[1] == zone_codes[i].code[1]) sign = zone_codes[i].sign;
    at += zone && *at == 'z' && at[1];
    if (!zone && *at == 'z') sign = '%';
    zone |= sign == '%';
    address[n++] = sign;
  }
  address[n] = '\0';
  const bool good = strchr(address, ':') && ls_hosts_name(address, plain);
  if (good) strcpy(node, address);
  return good;
}

int cli_hosts_exec(ls_ctx_t *ctx, char **argv) {
  int i = 0;
  while (argv[i] && !read_node(argv[i]))
    i++;
  if (argv[0]) execvp(argv[0], argv);
  return ls_status_exit_code(ls_fail(ctx, LS_ERR_UNSUPPORTED, "%s %s: starts a command on another host: %s",
                                     CLI_SHELL_FLAG, argv[0] ? argv[0] : "",
                                     strerror(argv[0] ? errno : EINVAL)));
}
