/* Names of hosts for mpirun, which does not take IPv6 addresses, and their way back. */
#include "base/base.h"
#include "base/process.h"
#include "supervise/mpirun.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Open MPI takes names of letters, digits and hyphens alone. In an IPv6 address z begins the zone, and there z begins what is
 * none of these. */
static const struct {
  char sign;
  const char *code;
} zone_codes[] = {{'z', "zz"}, {'.', "zd"}, {'_', "zu"}};

static const char *node_of(ls_arena_t *arena, const char *name) {
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
const char *ls_mpirun_hosts(ls_arena_t *arena, const ls_hosts_config_t *hosts, int ranks) {
  const char *list = "";
  for (int i = 0; list && i < hosts->count && ranks > 0; i++) {
    int here = hosts->host[i].slots < ranks ? (int)hosts->host[i].slots : ranks;
    list = ls_arena_printf(arena, "%s%s%s:%d", list, i ? "," : "", node_of(arena, hosts->host[i].name), here);
    ranks -= here;
  }
  return list;
}

ls_status_t ls_mpirun_agent(ls_ctx_t *ctx, ls_arena_t *arena, const ls_hosts_config_t *hosts,
                            const char *shell, const char **agent) {
  static const char *const given[] = {"OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent"};
  char self[PATH_MAX];
  bool address = false;
  for (int i = 0; i < LS_COUNT(given); i++)
    if (getenv(given[i])) shell = getenv(given[i]);
  for (int i = 0; i < hosts->count; i++)
    address |= strchr(hosts->host[i].name, ':') != NULL;
  *agent = shell;
  if (!address) return LS_OK;
  if (!ls_process_program(self)) return ls_fail_errno(ctx, "cannot find this program's path");
  if (strchr(self, ' '))
    return ls_fail(ctx, LS_ERR_UNSUPPORTED,
                   "parallel.hosts: IPv6 addresses need a path of this program without spaces (%s); give the "
                   "hosts names",
                   LS_SHOWN(self));
  *agent = ls_arena_printf(arena, "%s " LS_MPIRUN_SHELL_FLAG " %s", self, shell);
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

ls_status_t ls_mpirun_shell(ls_ctx_t *ctx, char **argv) {
  int i = 0;
  while (argv[i] && !read_node(argv[i]))
    i++;
  if (argv[0]) execvp(argv[0], argv);
  return ls_fail(ctx, LS_ERR_UNSUPPORTED, "%s %s: starts a command on another host: %s", LS_MPIRUN_SHELL_FLAG,
                 argv[0] ? argv[0] : "", strerror(argv[0] ? errno : EINVAL));
}
