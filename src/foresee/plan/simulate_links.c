/* Times of collectives from latency and bandwidth: the alpha-beta model.
 *   ring, recursive halving   Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations
 *                             in MPICH", IJHPCA 19 (2005)
 *   double binary tree        Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast,
 *                             reduction and scan", Parallel Computing 35 (2009); used by NCCL since 2.4
 *   bytes on the wire         nccl-tests, doc/PERFORMANCE.md
 * The additions themselves run at memory speed, tens of times faster than any link, and are left out. */
#include "plan/simulate.h"

#include <math.h>

/* One protocol of one machine for `ranks` devices: seconds become nanoseconds here. */
typedef struct {
  int local, nodes;                 /* devices on a full node in use; nodes in use */
  double overhead_ns;               /* once per collective */
  double alpha_ns, beta_ns;         /* within a node: per message; per byte and device, all sending at once */
  double net_alpha_ns, net_beta_ns; /* between nodes: per byte of one node */
} links_t;

static double log2_up(int n) {
  int levels = 0;
  while ((1LL << levels) < n)
    levels++;
  return levels;
}

static links_t links_of(const ls_sim_machine_t *m, int ranks, bool quick) {
  const ls_sim_node_t *node = &m->node;
  links_t l = {.local = ranks < m->node_devices ? ranks : m->node_devices};
  l.nodes = (ranks + l.local - 1) / l.local;
  double bulk = node->link_bytes_per_s.value, rate = quick ? node->quick_bytes_per_s.value : bulk;
  l.overhead_ns = quick ? node->quick_overhead_ns.value : node->collective_overhead_ns.value;
  l.alpha_ns = node->link_latency_ns.value;
  l.beta_ns = 1e9 / rate;
  /* All transfers over a host bridge share one path. */
  if (node->topology == LS_SIM_HOST_BRIDGE && l.local > 1)
    l.beta_ns = fmax(l.beta_ns, 1e9 * l.local / node->bridge_bytes_per_s.value);
  if (l.nodes > 1) {
    l.net_alpha_ns = m->network.latency_ns.value;
    /* The protocol for small messages halves bandwidth by what it puts on the wire, whichever wire. */
    l.net_beta_ns = 1e9 / (m->network.bytes_per_s.value * rate / bulk);
  }
  return l;
}

/* Ring over all devices: (p - 1) messages of n / p bytes; the slowest hop sets the pace of every round. */
static double ring_pass(const links_t *l, double bytes, int p) {
  double alpha = l->nodes > 1 ? fmax(l->alpha_ns, l->net_alpha_ns) : l->alpha_ns;
  double beta = l->nodes > 1 ? fmax(l->beta_ns, l->net_beta_ns) : l->beta_ns;
  return (p - 1) * (alpha + bytes / p * beta);
}

/* Reduce-scatter (or all-gather) within each node, every device sending. */
static double local_pass(const links_t *l, double bytes) {
  return (l->local - 1) * (l->alpha_ns + bytes / l->local * l->beta_ns);
}

/* The same between nodes: device i of every node forms ring i with bytes / local; together they fill the
 * node's network, which therefore carries `bytes`. */
static double network_pass(const links_t *l, double bytes) {
  return (l->nodes - 1) * (l->net_alpha_ns + bytes / l->nodes * l->net_beta_ns);
}

typedef struct {
  double ns;
  const char *algorithm;
} best_t;

static void offer(best_t *best, double ns, const char *algorithm) {
  if (!best->algorithm || ns < best->ns) *best = (best_t){ns, algorithm};
}

/* Up and down two trees at once, pipelined: every device sends and receives all bytes twice; along a chain
 * within the node, along a binary tree between nodes. One way only for a broadcast. */
static double tree_pass(const links_t *l, double bytes) {
  double local_levels = l->nodes > 1 ? l->local - 1 : log2_up(l->local);
  double beta = l->nodes > 1 ? fmax(l->beta_ns, l->net_beta_ns) : l->beta_ns;
  return local_levels * l->alpha_ns + log2_up(l->nodes) * l->net_alpha_ns + bytes * beta;
}

static void all_reduce(const links_t *l, double bytes, int p, best_t *best) {
  offer(best, l->overhead_ns + 2 * ring_pass(l, bytes, p), "ring");
  offer(best, l->overhead_ns + 2 * tree_pass(l, bytes), "tree");
  if (l->nodes < 2 || l->local < 2) return;
  double inside = l->overhead_ns + 2 * local_pass(l, bytes);
  offer(best, inside + 2 * network_pass(l, bytes), "hierarchical ring");
  offer(best, inside + 2 * (log2_up(l->nodes) * l->net_alpha_ns + bytes * l->net_beta_ns),
        "hierarchical tree");
}

static void half_reduce(const links_t *l, double bytes, int p, best_t *best) {
  offer(best, l->overhead_ns + ring_pass(l, bytes, p), "ring");
  if (l->nodes > 1 && l->local > 1)
    offer(best, l->overhead_ns + local_pass(l, bytes) + network_pass(l, bytes), "hierarchical ring");
}

static void with_links(const links_t *l, ls_collective_kind_t kind, double bytes, int p, best_t *best) {
  switch (kind) {
  case LS_ALL_REDUCE:
    all_reduce(l, bytes, p, best);
    break;
  case LS_REDUCE_SCATTER:
  case LS_ALL_GATHER:
    half_reduce(l, bytes, p, best);
    break;
  case LS_BROADCAST:
  case LS_SEND:
  case LS_RECV:
    offer(best, l->overhead_ns + tree_pass(l, bytes), "tree");
    break;
  case LS_BARRIER:
  case LS_COLLECTIVE_COUNT:
    offer(best, l->overhead_ns + 2 * tree_pass(l, 0), "tree");
    break;
  }
}

double ls_sim_collective_ns(const ls_sim_machine_t *machine, ls_collective_kind_t kind, double bytes,
                            int ranks, const char **algorithm) {
  best_t best = {0, NULL};
  if (ranks > 1) {
    links_t bulk = links_of(machine, ranks, false);
    with_links(&bulk, kind, bytes, ranks, &best);
    if (machine->node.quick_bytes_per_s.source) {
      links_t quick = links_of(machine, ranks, true);
      with_links(&quick, kind, bytes, ranks, &best);
    }
  }
  if (algorithm) *algorithm = best.algorithm;
  return best.ns;
}
