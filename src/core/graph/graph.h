/* The graph: tensors with static shapes, and ops. Nodes are appended in an order that can run as it is. Every
 * tensor knows the node that makes it and the nodes that read it. Everything lives in the graph's arena. Ids
 * are indices and stay valid: rewriting (rewrite.h) renumbers nodes, never tensors. */
#ifndef LS_GRAPH_GRAPH_H
#define LS_GRAPH_GRAPH_H

#include "base/base.h"
#include "device/kernel.h"

typedef struct ls_op ls_op_t;
typedef struct ls_graph ls_graph_t;

typedef int ls_tensor_id_t; /* -1 = none */
enum { LS_NODE_IN_MAX = 9, LS_NODE_OUT_MAX = 4, LS_GRAPH_PASS_MAX = 8 };

typedef enum {
  LS_ROLE_INPUT,     /* filled by the host before every step */
  LS_ROLE_PARAM,     /* lives across steps; the optimizer changes it, unless it is frozen */
  LS_ROLE_STATE,     /* lives across steps; nodes change it: running statistics */
  LS_ROLE_VALUE,     /* forward result */
  LS_ROLE_GRAD,      /* backward result that is not a parameter's final gradient */
  LS_ROLE_PARAM_GRAD /* the gradient of a parameter */
} ls_role_t;

typedef enum { LS_PHASE_FORWARD, LS_PHASE_BACKWARD } ls_graph_phase_t;

typedef enum {
  LS_INIT_ZEROS,
  LS_INIT_ONES,
  LS_INIT_NORMAL,
  LS_INIT_KAIMING,
  LS_INIT_XAVIER,
  LS_INIT_UNIFORM,
  LS_INIT_SINUSOIDS
} ls_init_kind_t;
/* Kaiming: normal with std gain / sqrt(fan_in), gain sqrt(2) for relu (He et al. 2015). Xavier: uniform in
 * +-sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio 2010). Shape (out, in): fan_in = in.
 * Uniform: in +-gain. Sinusoids, shape (places, width): columns c and c + 1, c even, of place p are sin(p w) and cos(p w)
 * with w = 10000^(-c / width) (Vaswani et al. 2017). */
typedef struct {
  ls_init_kind_t kind;
  double gain; /* normal: the standard deviation; kaiming, xavier: factor; 0 = the kind's default */
} ls_init_t;

typedef struct {
  const char *name;
  ls_shape_t shape;
  ls_role_t role;
  int producer; /* node; -1 for inputs, parameters, and tensors that no node makes any more */
  int *uses;    /* the nodes that read it, in order; a node that reads it twice is listed twice */
  int use_count, use_capacity;
  bool named;              /* set by ls_graph_rename: looked up from outside, so it must stay */
  ls_tensor_id_t alias_of; /* the tensor with which it shares all bytes (reshape), -1 = none */
  ls_init_t init;          /* parameters, states */
  bool trainable;          /* parameters: clear it before ls_graph_backward to get no gradient */
  int group;               /* parameters: of the optimizer; those of one group lie together */
  ls_tensor_id_t grad;     /* parameters, after ls_graph_backward; -1 = not reached by the loss */
} ls_graph_tensor_t;

typedef struct {
  const ls_op_t *op;
  const char *name; /* "layers.0 linear" */
  ls_graph_phase_t phase;
  ls_attrs_t attrs;
  int in_count, out_count;
  ls_tensor_id_t in[LS_NODE_IN_MAX], out[LS_NODE_OUT_MAX];
} ls_graph_node_t;

/* An entry of the index of names. */
typedef struct {
  bool used;
  ls_tensor_id_t id;
  uint64_t hash;
} ls_graph_name_t;

struct ls_graph {
  ls_arena_t arena;
  ls_ctx_t *ctx;
  ls_graph_tensor_t *tensors;
  int tensor_count, tensor_capacity;
  ls_graph_node_t *nodes;
  int node_count, node_capacity;
  ls_graph_name_t *names; /* the index of ls_graph_find */
  int name_count, name_capacity;
  int pass_changes[LS_GRAPH_PASS_MAX]; /* number of places that each pass changed (pass/pass.h) */
  ls_graph_phase_t phase;              /* phase of nodes appended now */
  ls_tensor_id_t seed; /* f32 (1): d loss, with which the backward pass begins; -1: there is none yet */
  const char *scope;   /* prefix of names appended now, "" at the top */
  ls_status_t status;  /* first failure; later builder calls do nothing, so callers check once at the end */
};

ls_status_t ls_graph_create(ls_ctx_t *ctx, ls_graph_t **graph);
void ls_graph_destroy(ls_graph_t *graph);
void ls_graph_scope(ls_graph_t *graph, const char *fmt, ...) LS_PRINTF(2, 3); /* "layers.%d"; "" resets */
/* Nodes made from now on get the scope of that node: "layers.0 linear" gives "layers.0". */
void ls_graph_scope_like(ls_graph_t *graph, const ls_graph_node_t *node);

/* Builders return -1 after the graph's status is set (reported with op name and shapes). Names are copied. */
ls_tensor_id_t ls_graph_input(ls_graph_t *graph, const char *name, ls_shape_t shape);
ls_tensor_id_t ls_graph_param(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_init_t init);
/* f32, kept and saved like a parameter. */
ls_tensor_id_t ls_graph_state(ls_graph_t *graph, const char *name, ls_shape_t shape, ls_init_t init);
/* Makes `value`, an in-out output of its op (op.h), the new value of `state`: the node reads and writes the
 * state. */
void ls_graph_update(ls_graph_t *graph, ls_tensor_id_t value, ls_tensor_id_t state);
/* Appends op(in...) and returns its first output; the node is graph->nodes[node_count - 1]. `attrs` may be
 * NULL. out may be NULL or receives out_count ids. */
ls_tensor_id_t ls_graph_op(ls_graph_t *graph, const ls_op_t *op, const ls_attrs_t *attrs, int in_count,
                           const ls_tensor_id_t *in, ls_tensor_id_t *out);
/* Values are named after their node ("layers.0.linear", further outputs "layers.0.layer_norm:1"). This call
 * gives one a name of its own, without the scope. Names of inputs and parameters are unique; names of values
 * need not be. */
void ls_graph_rename(ls_graph_t *graph, ls_tensor_id_t id, const char *name);

/* Appends the nodes that compute seed times d loss / d parameter for every trainable parameter, walking back
 * from the scalar `loss`. Parts that no parameter needs are not computed. Sets tensors[param].grad. `seed`: a
 * tensor f32 (1) of the graph, such as an input with the loss scale; -1 = the constant 1. */
ls_status_t ls_graph_backward(ls_graph_t *graph, ls_tensor_id_t loss, ls_tensor_id_t seed);
/* The same for any tensor: seed times d loss / d tensors[wrt[i]] into grads[i] (-1 if unreachable). For
 * tests. */
ls_status_t ls_graph_gradients(ls_graph_t *graph, ls_tensor_id_t loss, ls_tensor_id_t seed, int count,
                               const ls_tensor_id_t *wrt, ls_tensor_id_t *grads);

ls_tensor_id_t ls_graph_find(const ls_graph_t *graph, const char *name); /* -1 = no such tensor */
int64_t ls_graph_param_count(const ls_graph_t *graph);                   /* elements over all parameters */
int64_t ls_graph_flops(const ls_graph_t *graph, ls_graph_phase_t phase);
int64_t ls_graph_node_flops(const ls_graph_t *graph, const ls_graph_node_t *node); /* of the graph's own */

/* Fills elements [begin, end) of host memory of `shape`, which begins at `out`, as `init` says. Pure function of
 * (seed, ordinal of the parameter, index of the element). */
void ls_init_fill(const ls_init_t *init, const ls_shape_t *shape, uint64_t seed, uint32_t ordinal,
                  int64_t begin, int64_t end, float *out);

#endif
