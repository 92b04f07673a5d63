/* The rows of parallel.hosts. */
#include "supervise/supervise.h"

#include "base/json.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const ls_option_t rows[] = {
    LS_OPTION(ls_host_t, name, .help = "Name or IPv4 address, as ssh takes it."),
    LS_OPTION(ls_host_t, slots, .min = 1, .max = 65536, .initial = "1",
              .help = "How many ranks run there: one for each device."),
};
const ls_section_t ls_hosts_section = {"parallel.hosts", rows, LS_COUNT(rows),
                                       "A list of hosts on which the ranks run, in this order "
                                       "(docs/supervise.md). Without it, and without --hosts FILE or "
                                       "a Slurm allocation of several nodes, they run on this host."};

/* It becomes an argument of ssh and a part of mpirun's list. */
static ls_status_t check_name(ls_ctx_t *ctx, const ls_doc_node_t *row, const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const ls_doc_node_t *node = ls_doc_get(row, "name");
  if (!name || !node || (name[0] != '-' && name[0] && !name[strspn(name, plain)])) return LS_OK;
  return ls_fail_at(
      ctx, LS_ERR_CONFIG, &node->place,
      "parallel.hosts.name: a name of letters, digits, \".\", \"_\" and \"-\" was expected, not \"%s\"",
      LS_SHOWN(name));
}

ls_status_t ls_hosts_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                           ls_hosts_config_t *config) {
  *config = (ls_hosts_config_t){.count = 0};
  if (!node || node->kind == LS_DOC_NULL) return LS_OK;
  if (node->kind != LS_DOC_LIST || node->count > LS_HOSTS_MAX)
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place,
                      "parallel.hosts: a list of at most %d hosts was expected", LS_HOSTS_MAX);
  ls_host_t *host = ls_arena_alloc(arena, ((size_t)node->count + 1) * sizeof *host);
  ls_status_t status = host ? LS_OK : LS_ERR_MEMORY;
  for (const ls_doc_node_t *row = node->child; row && host; row = row->next) {
    ls_host_t *h = &host[config->count];
    status = ls_worse(status, ls_option_parse(ctx, arena, &ls_hosts_section, row, NULL, h));
    status = ls_worse(status, check_name(ctx, row, h->name));
    for (int i = 0; i < config->count; i++)
      if (h->name && host[i].name && !strcmp(h->name, host[i].name))
        status = ls_worse(status,
                          ls_fail_at(ctx, LS_ERR_CONFIG, &row->place,
                                     "parallel.hosts: %s stands there twice; give it more slots", h->name));
    config->count++;
  }
  config->host = host;
  return status;
}

json_t *ls_hosts_json(const ls_hosts_config_t *config) {
  json_t *list = json_array();
  for (int i = 0; i < config->count; i++)
    json_array_append_new(list, ls_option_json(&ls_hosts_section, &config->host[i]));
  return list;
}

int64_t ls_hosts_slots(const ls_hosts_config_t *config) {
  int64_t slots = 0;
  for (int i = 0; i < config->count; i++)
    slots += config->host[i].slots;
  return slots;
}

int ls_hosts_at(const ls_hosts_config_t *config, int place) {
  int host = 0;
  for (int64_t first = config->host[0].slots; host + 1 < config->count && place >= first;)
    first += config->host[++host].slots;
  return host;
}

bool ls_hosts_is_here(const char *name) {
  char own[256] = "";
  struct addrinfo *found = NULL;
  struct ifaddrs *local = NULL;
  gethostname(own, sizeof own - 1);
  bool here = !strcmp(name, own) || !strcmp(name, "localhost");
  const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  if (!here && getaddrinfo(name, NULL, &hints, &found) == 0 && getifaddrs(&local) == 0)
    for (const struct ifaddrs *i = local; i && !here; i = i->ifa_next)
      here = i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
             ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr ==
                 ((struct sockaddr_in *)found->ai_addr)->sin_addr.s_addr;
  if (local) freeifaddrs(local);
  if (found) freeaddrinfo(found);
  return here;
}
