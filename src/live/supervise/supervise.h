/* Runs a training to its end though ranks die, hang or diverge: starts it in a child, watches the page of its ranks
 * (monitor/page.h) and their processes, ends what is left of a failed life, and starts the next one from the newest
 * good checkpoint. The supervising process knows neither MPI nor a device, so nothing of these can take it along. */
#ifndef LS_SUPERVISE_SUPERVISE_H
#define LS_SUPERVISE_SUPERVISE_H

#include "base/option.h"

#include <stddef.h>

/* Sections supervise and supervise.restarts. */
typedef struct {
  double hang_s, start_s, first_step_s, save_s;
  int64_t skip_steps;  /* 0: after a divergence nothing is left out */
  double host_s;       /* several hosts: one that is silent for so long is lost */
  const char *address; /* of this host, as the others see it; NULL: found out */
  int64_t port;        /* 0: any */
} ls_supervise_config_t;
typedef struct {
  int64_t most, healthy_steps;
  double backoff_s, backoff_most_s, least_life_s;
} ls_restarts_config_t;
typedef struct {
  int64_t least;   /* 0: all of them */
  double return_s; /* 0: what was left out comes back at a restart alone */
} ls_ranks_config_t;
extern const ls_section_t ls_supervise_section, ls_restarts_section, ls_ranks_section;

/* parallel.hosts: several hosts, each with the places that follow those of the hosts before it. */
typedef struct {
  const char *name;
  int64_t slots;
} ls_host_t;
enum { LS_HOSTS_MAX = 1024, LS_HOST_SLOTS_MAX = 65536, LS_HOST_NAME_BYTES = 256 };
typedef struct {
  int count; /* 0: this host alone */
  const ls_host_t *host;
} ls_hosts_config_t;
extern const ls_section_t ls_hosts_section;
/* node NULL: none. Reports LS_ERR_CONFIG with its place. */
ls_status_t ls_hosts_parse(ls_ctx_t *ctx, ls_arena_t *arena, const ls_doc_node_t *node,
                           ls_hosts_config_t *config);
/* Whether this may be a host's name; plain: without the brackets of an IPv6 address. */
#define LS_HOSTS_NAME_HELP                                                                                   \
  "a name of letters, digits, \".\", \"_\" and \"-\", or an IPv4 or IPv6 address was expected"
bool ls_hosts_name(const char *name, char plain[LS_HOST_NAME_BYTES]);
/* Begins mpirun's name for an IPv6 address (mpirun_hosts.c). Next to such an address no host may have this name. */
#define LS_HOSTS_SIX "v6-"
json_t *ls_hosts_json(const ls_hosts_config_t *config); /* a list; new reference */
int64_t ls_hosts_slots(const ls_hosts_config_t *config);
/* The host of a place; the last one for those beyond. */
int ls_hosts_at(const ls_hosts_config_t *config, int place);
/* Adds to a list as ls_hosts_json makes it: the hosts of a file, "name" or "name slots=N" in each line; the nodes of a Slurm
 * allocation. */
ls_status_t ls_hosts_read_file(ls_ctx_t *ctx, const char *path, json_t *list);
ls_status_t ls_hosts_read_slurm(ls_ctx_t *ctx, const char *nodes, json_t *list);
/* The command with which another is started on a host; `given`: parallel.remote_shell or NULL. */
const char *ls_hosts_shell(const char *given);
/* The same hosts, this one first, as mpirun puts its ranks; whether it is among them. hosts->count 0: out of memory, or none. */
bool ls_hosts_own_first(ls_arena_t *arena, const ls_hosts_config_t *given, ls_hosts_config_t *hosts);
bool ls_hosts_is_here(const char *name); /* whether this name means the machine on which this runs */

/* A place is a rank of the whole run, and with it its device. Those that fail again and again are left out, and the
 * ranks of a life are counted over the others. */
enum { LS_PLACES_OUT_MAX = 1024 };
typedef struct {
  int all, least;             /* places, and how many a life has at least; 0, 0: none is left out */
  int out[LS_PLACES_OUT_MAX]; /* the newest last */
  int out_count;
  const bool *fits;               /* [all + 1]: numbers of ranks that a life may have; NULL: any */
  const ls_hosts_config_t *hosts; /* NULL: one */
  bool whole;                     /* of several hosts, one is left out with all its places */
} ls_places_t;
int ls_places_ranks(const ls_places_t *places);
int ls_places_at(const ls_places_t *places, int rank); /* the place of this rank of a life */
/* lockstep --device-answers: exit code 0 if the first visible device can be used. */
#define LS_RETURNS_FLAG "--device-answers"

/* Requests that signals have brought to this process. */
typedef struct {
  int (*asked)(void);       /* the signal that asks it to end; 0: none */
  bool (*forced)(void);     /* whether it came twice */
  bool (*paused)(void);     /* whether it is to stop (Ctrl-Z): true once for each time */
  const char *(*name)(int); /* "SIGTERM" */
} ls_requests_t;

/* All that differs between one training and another. */
typedef struct {
  const ls_supervise_config_t *config;
  const ls_restarts_config_t *restarts;
  const char *dir;     /* the run's monitor directory */
  ls_places_t places;  /* of the first life */
  double return_s;     /* of ls_ranks_config_t */
  bool has_devices;    /* each place has a device of its own, */
  const char *devices; /* of this CUDA_VISIBLE_DEVICES; NULL: the user has not set it */
  const char *shared;  /* the run's folder; all hosts have to see it */
  const char *
      mark; /* the file in it that a life replaces when it has made the folder its own. Before, the checkpoints
                        * there are those of an earlier run, */
  bool resume; /* with which this one goes on only if this says so */
  /* Several hosts: */
  const char *remote_shell; /* the command that starts another on a host: "ssh" */
  bool here;                /* the first of them is this one */
  /* The command line of a life, ended by NULL: this program's name and arguments. `again`: the run has begun.
   * `hosts`: the assignment of parallel.hosts; NULL: none. `past_step`: leave out the samples before this step; 0: none. Borrowed until the next call. */
  const char *const *(*command)(void *user, bool again, int ranks, const char *hosts, int64_t past_step);
  /* Receives what the ranks write: stderr at once, stdout of the last life alone, since a life that failed may have
   * reported, too. */
  void (*output)(void *user, int stream, const char *bytes, size_t size_bytes);
  void *user;
  const ls_requests_t *requests;
} ls_supervise_t;

/* Returns the exit code of the program: of the last life, or LS_SUPERVISE_AGAIN where a signal ended it after a save,
 * so that a batch system may start the same command again (EX_TEMPFAIL of sysexits.h); where it came from a terminal,
 * that of LS_ERR_INTERRUPTED. Reports what happened through
 * the context and in DIR/supervise.json and DIR/supervise.txt. */
enum { LS_SUPERVISE_AGAIN = 75 };
int ls_supervise(ls_ctx_t *ctx, const ls_supervise_t *spec);

#endif
