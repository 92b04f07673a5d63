/* The rows of parallel.hosts. */
#include "supervise/supervise.h"

#include "base/json.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const ls_option_t rows[] = {
    LS_OPTION(ls_host_t, name,
              .help = "Name or address, as ssh takes it; an IPv6 address with or without brackets."),
    LS_OPTION(ls_host_t, slots, .min = 1, .max = LS_HOST_SLOTS_MAX, .initial = "1",
              .help = "How many ranks run there: one for each device."),
};
const ls_section_t ls_hosts_section = {"parallel.hosts", rows, LS_COUNT(rows),
                                       "A list of hosts on which the ranks run, in this order "
                                       "(docs/supervise.md). Without it, and without --hosts FILE or "
                                       "a Slurm allocation of several nodes, they run on this host."};

/* It becomes an argument of ssh and a part of mpirun's list. */
bool ls_hosts_name(const char *name, char plain[LS_HOST_NAME_BYTES]) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  const size_t len = strlen(name), most = LS_HOST_NAME_BYTES - 1;
  const bool brackets = len > 2 && name[0] == '[' && name[len - 1] == ']';
  char address[INET6_ADDRSTRLEN];
  struct in6_addr six;
  snprintf(plain, LS_HOST_NAME_BYTES, "%.*s", (int)(brackets ? len - 2 : len), name + brackets);
  if (len > most || !plain[0] || plain[0] == '-') return false;
  if (!brackets && !plain[strspn(plain, letters)]) return true;
  const size_t end = strcspn(plain, "%");
  const char *zone = plain[end] ? plain + end + 1 : NULL; /* an interface: "eth0.100" */
  snprintf(address, sizeof address, "%.*s", (int)end, plain);
  return end < sizeof address && inet_pton(AF_INET6, address, &six) == 1 && !strchr(address, '.') &&
         (!zone || (*zone && !zone[strspn(zone, letters)]));
}

static bool is_six(const ls_host_t *host) {
  return host->name && strchr(host->name, ':');
}

static bool looks_six(const ls_host_t *host) {
  return host->name && !strncmp(host->name, LS_HOSTS_SIX, strlen(LS_HOSTS_SIX));
}

static ls_status_t take_name(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *row, ls_host_t *host) {
  char plain[LS_HOST_NAME_BYTES];
  const ls_doc_node_t *node = ls_doc_get(row, "name");
  if (!host->name || !node) return LS_OK;
  if (!ls_hosts_name(host->name, plain))
    return ls_fail_at(ctx, LS_ERR_CONFIG, &node->place,
                      "parallel.hosts.name: " LS_HOSTS_NAME_HELP ", not \"%s\"", LS_SHOWN(host->name));
  host->name = ls_arena_strdup(arena, plain);
  return host->name ? LS_OK : LS_ERR_MEMORY;
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
    status = ls_worse(status, take_name(ctx, arena, row, h));
    for (int i = 0; i < config->count; i++) {
      if (h->name && host[i].name && !strcmp(h->name, host[i].name))
        status = ls_worse(status,
                          ls_fail_at(ctx, LS_ERR_CONFIG, &row->place,
                                     "parallel.hosts: %s stands there twice; give it more slots", h->name));
      if ((is_six(h) && looks_six(&host[i])) || (looks_six(h) && is_six(&host[i])))
        status = ls_worse(
            status,
            ls_fail_at(ctx, LS_ERR_CONFIG, &row->place,
                       "parallel.hosts: beside an IPv6 address no host's name may begin with " LS_HOSTS_SIX
                       "; give %s by its address or another name",
                       looks_six(h) ? h->name : host[i].name));
    }
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

static bool same_address(const struct sockaddr *a, const struct sockaddr *b) {
  const struct sockaddr_in *four[] = {(const void *)a, (const void *)b};
  const struct sockaddr_in6 *six[] = {(const void *)a, (const void *)b};
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) return four[0]->sin_addr.s_addr == four[1]->sin_addr.s_addr;
  return a->sa_family == AF_INET6 && six[0]->sin6_scope_id == six[1]->sin6_scope_id &&
         !memcmp(&six[0]->sin6_addr, &six[1]->sin6_addr, sizeof six[0]->sin6_addr);
}

bool ls_hosts_is_here(const char *name) {
  char own[256] = "";
  struct addrinfo *found = NULL;
  struct ifaddrs *local = NULL;
  gethostname(own, sizeof own - 1);
  bool here = !strcmp(name, own) || !strcmp(name, "localhost");
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
  if (!here && getaddrinfo(name, NULL, &hints, &found) == 0 && getifaddrs(&local) == 0)
    for (const struct ifaddrs *i = local; i && !here; i = i->ifa_next)
      for (const struct addrinfo *a = found; a && !here; a = a->ai_next)
        here = i->ifa_addr && same_address(i->ifa_addr, a->ai_addr);
  if (local) freeifaddrs(local);
  if (found) freeaddrinfo(found);
  return here;
}

bool ls_hosts_own_first(ls_arena_t *arena, const ls_hosts_config_t *given, ls_hosts_config_t *hosts) {
  ls_host_t *host = ls_arena_array(arena, (size_t)given->count + 1, sizeof *host);
  int here = 0;
  while (here < given->count && !ls_hosts_is_here(given->host[here].name))
    here++;
  for (int i = 0, n = here < given->count; host && i < given->count; i++)
    host[i == here ? 0 : n++] = given->host[i];
  *hosts = (ls_hosts_config_t){host ? given->count : 0, host};
  return here < given->count;
}
