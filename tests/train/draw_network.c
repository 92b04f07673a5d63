/* Layers of all families, one behind the other, in residual branches and side by side, with sizes that fit; then a head, a
 * loss and the options of a run. Activations are smooth mostly: where a relu is 0 or two elements of a window are equal,
 * rounding decides which slope counts. */
#include "draw_network.h"

#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct {
  network_t *to;
  draw_t d;
  int length, rank;
  int64_t dim[3]; /* of the sample so far: [D], [T, F] or [H, W, C] */
  int layers;     /* named l0, l1 .. */
  int64_t tokens; /* that the input may hold; 0: numbers */
  bool per_place, batch_norm;
  int64_t outputs;
} net_t;

static int64_t below(net_t *n, int64_t count) {
  return draw_below(&n->d, count);
}

static bool one_in(net_t *n, int64_t of) {
  return draw_one_in(&n->d, of);
}

static int64_t between(net_t *n, int64_t least, int64_t most) {
  return least + below(n, most - least + 1);
}

#define PICK(n, ...)                                                                                         \
  ((const char *const[]){__VA_ARGS__}[below(n, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))])

__attribute__((format(printf, 2, 3))) static void say(net_t *n, const char *format, ...) {
  va_list args;
  va_start(args, format);
  n->length += vsnprintf(n->to->text + n->length, (size_t)(NETWORK_TEXT_BYTES - n->length), format, args);
  va_end(args);
  if (n->length >= NETWORK_TEXT_BYTES) abort();
}

static int64_t *last(net_t *n) {
  return &n->dim[n->rank - 1];
}

static void to_vector(net_t *n, int64_t width) {
  n->rank = 1;
  n->dim[0] = width;
}

static const char *activation(net_t *n) {
  return PICK(n, "none", "gelu", "tanh", "sigmoid", "gelu_tanh", "silu", "tanh", "relu");
}

static const char *truth(bool is) {
  return is ? "true" : "false";
}

/* Small mostly. Some lie beyond a vector. */
static int64_t width(net_t *n) {
  return one_in(n, 4) ? between(n, 17, 40) : between(n, 1, 12);
}

static int64_t divisor(net_t *n, int64_t a, int64_t b) {
  int64_t found = 1;
  for (int64_t d = 2; d <= a; d++)
    if (a % d == 0 && b % d == 0 && one_in(n, 2)) found = d;
  return found;
}

/* A layer begins; say() goes on with its options, and "}}" ends it. */
static int begin(net_t *n, const char *kind) {
  say(n, "%s{%s: {name: l%d", n->layers ? ", " : "", kind, n->layers);
  return n->layers++;
}

/* Such as have parameters. The head learns. */
static void may_freeze(net_t *n) {
  if (one_in(n, 12)) say(n, ", freeze: true");
}

static void end(net_t *n) {
  say(n, "}}");
}

static void join(net_t *n, const char *kind, int a, int b, const char *more) {
  begin(n, kind);
  say(n, ", from: [l%d, l%d]%s", a, b, more);
  end(n);
}

/* ---- layers ---- */

static void dense(net_t *n, int64_t units, bool every_place) {
  begin(n, "dense");
  say(n, ", units: %lld, activation: %s, bias: %s, over: %s", (long long)units, activation(n),
      truth(!one_in(n, 4)), every_place ? "last" : "all");
  if (one_in(n, 6)) say(n, ", dropout: 0.2");
  may_freeze(n);
  end(n);
  if (every_place)
    *last(n) = units;
  else
    to_vector(n, units);
}

/* Positions of a window along one dimension; 0: it does not fit. */
static int64_t windows(int64_t size, int64_t window, int64_t stride, int64_t around) {
  return size + 2 * around < window ? 0 : (size + 2 * around - window) / stride + 1;
}

static void conv(net_t *n, int64_t filters, bool same_size) {
  static const int64_t kernels[] = {1, 1, 2, 3, 3, 3, 4, 5, 7};
  int64_t *dim = n->dim, kernel = kernels[below(n, LS_COUNT(kernels))], around = below(n, 3);
  const int64_t stride = same_size ? 1 : one_in(n, 2) ? between(n, 2, 3) : 1, dilation = one_in(n, 5) ? 2 : 1;
  bool same = same_size || one_in(n, 2);
  for (; !same; kernel--) {
    const int64_t span = dilation * (kernel - 1) + 1;
    if (windows(dim[0], span, stride, around) < 1 || windows(dim[1], span, stride, around) < 1) continue;
    for (int k = 0; k < 2; k++)
      dim[k] = windows(dim[k], span, stride, around);
    break;
  }
  for (int k = 0; same && k < 2; k++)
    dim[k] = (dim[k] + stride - 1) / stride;
  const int64_t groups = !one_in(n, 3)                           ? 1
                         : filters % dim[2] == 0 && one_in(n, 2) ? dim[2]
                                                                 : divisor(n, dim[2], filters);
  begin(n, "conv2d");
  say(n,
      ", filters: %lld, kernel: %lld, stride: %lld, dilation: %lld, groups: %lld, bias: %s, activation: %s",
      (long long)filters, (long long)kernel, (long long)stride, (long long)dilation, (long long)groups,
      truth(!one_in(n, 3)), activation(n));
  if (!same) say(n, ", padding: %lld", (long long)around);
  may_freeze(n);
  end(n);
  dim[2] = filters;
}

static void pool(net_t *n) {
  const int64_t most = n->dim[0] < n->dim[1] ? n->dim[0] : n->dim[1],
                size = between(n, 1, most < 4 ? most : 4), stride = between(n, 1, size);
  const bool same = one_in(n, 3);
  begin(n, "pool");
  say(n, ", kind: %s, size: %lld, stride: %lld, padding: %s", PICK(n, "average", "average", "max"),
      (long long)size, (long long)stride, same ? "same" : "valid");
  end(n);
  for (int k = 0; k < 2; k++)
    n->dim[k] = same ? (n->dim[k] + stride - 1) / stride : windows(n->dim[k], size, stride, 0);
}

/* A norm of single elements gives zeros, whose variance is rounding alone: not within a sample of one channel. */
static void norm(net_t *n) {
  switch (*last(n) == 1 ? 0 : below(n, n->rank == 1 ? 2 : 4)) {
  case 0:
    begin(n, "batch_norm");
    if (one_in(n, 2)) say(n, ", eps: 1e-3, momentum: %s", PICK(n, "0.1", "0.5", "1"));
    n->batch_norm = true;
    break;
  case 1:
    begin(n, "layer_norm");
    break;
  case 2:
    begin(n, "layer_norm");
    say(n, ", over: last");
    break;
  default:
    begin(n, "group_norm");
    say(n, ", groups: %lld", (long long)divisor(n, *last(n), *last(n) % 2 ? 1 : *last(n) / 2));
  }
  may_freeze(n);
  end(n);
}

static void recurrent(net_t *n, bool same_size) {
  const bool both = (!same_size || *last(n) % 2 == 0) && one_in(n, 3),
             all = same_size || n->per_place || one_in(n, 2);
  const int64_t units = same_size ? *last(n) / (both ? 2 : 1) : between(n, 1, 12);
  begin(n, PICK(n, "lstm", "gru"));
  say(n, ", units: %lld, layers: %lld, bidirectional: %s, dropout: %s, output: %s", (long long)units,
      (long long)between(n, 1, 2), truth(both), PICK(n, "0", "0.3"), all ? "all" : "last");
  may_freeze(n);
  end(n);
  if (all)
    *last(n) = units * (both ? 2 : 1);
  else
    to_vector(n, units * (both ? 2 : 1));
}

static void attention(net_t *n) {
  begin(n, "attention");
  say(n, ", heads: %lld, causal: %s, dropout: %s, bias: %s", (long long)divisor(n, *last(n), *last(n)),
      truth(one_in(n, 2)), PICK(n, "0", "0.2"), truth(!one_in(n, 4)));
  may_freeze(n);
  end(n);
}

static void global_pool(net_t *n) {
  begin(n, "global_pool");
  say(n, ", kind: %s", PICK(n, "mean", "mean", "first", "last", "max"));
  end(n);
  to_vector(n, *last(n));
}

/* Leaves the size as it is. */
static void keep(net_t *n) {
  if (n->rank == 3)
    conv(n, n->dim[2], true);
  else if (n->rank == 2 && one_in(n, 2))
    attention(n);
  else if (n->rank == 2 && one_in(n, 2))
    recurrent(n, true);
  else
    dense(n, *last(n), n->rank > 1);
}

static void residual(net_t *n) {
  const int from = n->layers - 1;
  if (one_in(n, 2)) norm(n);
  keep(n);
  if (one_in(n, 3)) norm(n);
  if (one_in(n, 4)) {
    begin(n, "drop_path");
    say(n, ", rate: 0.2");
    end(n);
  }
  join(n, "add", from, n->layers - 1, "");
}

/* The layer before, beside one of another width. */
static void side_by_side(net_t *n) {
  const int from = n->layers - 1;
  const int64_t before = *last(n);
  if (n->rank == 3)
    conv(n, width(n), true);
  else
    dense(n, width(n), n->rank > 1);
  *last(n) += before;
  join(n, "concat", from, n->layers - 1, n->rank > 1 ? ", over: last" : "");
}

/* A factor for each channel of a sample. */
static void gate(net_t *n) {
  const int from = n->layers - 1, rank = n->rank;
  const int64_t channels = *last(n);
  int64_t dim[3];
  memcpy(dim, n->dim, sizeof dim);
  global_pool(n);
  dense(n, channels, false);
  memcpy(n->dim, dim, sizeof dim);
  n->rank = rank;
  join(n, "multiply", from, n->layers - 1, "");
}

static void body(net_t *n) {
  const int first = n->layers;
  for (int64_t k = between(n, 1, 5); k > 0; k--) {
    const bool may_branch = n->layers > first;
    switch (below(n, 8)) {
    case 0:
    case 1:
      if (n->rank == 3) conv(n, width(n), false);
      if (n->rank == 2 && n->layers > first && one_in(n, 3))
        recurrent(n, false);
      else if (n->rank < 3)
        dense(n, width(n), n->rank > 1);
      break;
    case 2:
      norm(n);
      break;
    case 3:
      if (n->rank == 3)
        pool(n);
      else
        keep(n);
      break;
    case 4:
      if (may_branch) residual(n);
      break;
    case 5:
      if (may_branch) side_by_side(n);
      break;
    case 6:
      if (may_branch && n->rank > 1) gate(n);
      break;
    default:
      if (one_in(n, 2)) {
        begin(n, "dropout");
        say(n, ", rate: 0.3");
      } else {
        begin(n, "activation");
        say(n, ", kind: %s", activation(n));
      }
      end(n);
    }
  }
}

static void tokens(net_t *n) {
  begin(n, "embedding");
  n->rank = 2;
  n->dim[1] = between(n, 1, 6) * 2;
  say(n, ", size: %lld, units: %lld, init_std: 0.5", (long long)n->tokens, (long long)n->dim[1]);
  may_freeze(n);
  end(n);
  if (!one_in(n, 2)) return;
  begin(n, "positions");
  say(n, ", kind: %s, init_std: 0.5", PICK(n, "learned", "sinusoidal"));
  end(n);
}

/* ---- head, loss and run ---- */

static void head(net_t *n, const char *loss) {
  const bool classes = strcmp(loss, "cross-entropy") == 0;
  if (n->rank > 1 && !n->per_place && one_in(n, 2)) global_pool(n);
  const int64_t units = n->per_place ? n->tokens : between(n, classes ? 2 : 1, 10);
  n->outputs = units;
  begin(n, "dense");
  say(n, ", units: %lld, over: %s", (long long)units, n->per_place ? "last" : "all");
  end(n);
}

/* Samples whose channels lie around means of their own, for the batch norm that comes first. */
static void far_from_zero(net_t *n, int64_t rows, int64_t inputs, int64_t channels, bool classes,
                          int64_t outputs, float mean) {
  float *x = malloc((size_t)(rows * inputs) * sizeof *x), *y = malloc((size_t)(rows * outputs) * sizeof *y);
  int32_t *class = malloc((size_t)rows * sizeof *class);
  if (!x || !y || !class) abort();
  for (int64_t i = 0; i < rows * inputs; i++)
    x[i] = mean * (float)(i % channels + 1) / (float)channels + 2 * draw_unit(&n->d) - 1;
  for (int64_t i = 0; i < rows * outputs; i++)
    y[i] = (float)below(n, 2);
  for (int64_t i = 0; i < rows; i++)
    class[i] = (int32_t)below(n, outputs);
  n->to->memory = (ls_data_memory_t){.rows = rows,
                                     .inputs = inputs,
                                     .outputs = classes ? 0 : outputs,
                                     .features = x,
                                     .targets = classes ? NULL : y,
                                     .classes = classes ? class : NULL};
  if (classes)
    free(y);
  else
    free(class);
}

static void optimizer(net_t *n) {
  if (one_in(n, 2)) {
    say(n, "optimizer: {name: sgd, lr: %s, momentum: %s", PICK(n, "0.02", "0.05", "0.1"),
        PICK(n, "0", "0.5", "0.9, nesterov: true"));
  } else {
    /* A gradient that is 0 but for rounding must not become a step. */
    say(n, "optimizer: {name: %s, lr: %s, eps: %s", PICK(n, "adam", "adamw"), PICK(n, "0.002", "0.01"),
        PICK(n, "1e-3", "1e-2"));
  }
  say(n, ", weight_decay: %s", PICK(n, "0", "0.01"));
  if (one_in(n, 4)) say(n, ", ema: 0.9");
  if (one_in(n, 4)) say(n, ", groups: [{match: ['*.bias'], lr: 0.01, decay: 0}]");
  say(n, "}");
}

/* Returns the number of samples. */
static int64_t run(net_t *n) {
  const int64_t steps = between(n, 2, 5), accumulate = one_in(n, 4) ? between(n, 2, 3) : 1,
                batch = (n->batch_norm ? 6 : 1) * accumulate + below(n, 16), rows = batch * between(n, 1, 3);
  n->to->ranks = one_in(n, 4) && batch > 2 ? (int)between(n, 2, 3) : 1;
  n->to->threads = (int)between(n, 1, 3);
  say(n, "data: {kind: synthetic, samples: %lld, data_seed: %lld, noise: 0.3, resident: %s}\n",
      (long long)rows, (long long)below(n, 1000000), PICK(n, "auto", "true", "false"));
  say(n, "train: {batch: %lld, steps: %lld, accumulate: %lld, seed: %lld, clip_norm: %s, ", (long long)batch,
      (long long)steps, (long long)accumulate, (long long)below(n, 1000000), PICK(n, "0", "0", "0.5"));
  if (one_in(n, 3))
    say(n, "schedule: {name: %s, warmup_steps: 1}, ", PICK(n, "constant", "cosine", "step, every_steps: 2"));
  optimizer(n);
  say(n, "}\n");
  return rows;
}

void network_draw(uint64_t seed, network_t *network) {
  net_t n = {.to = network, .d = {.seed = seed}};
  *network = (network_t){.ranks = 1};
  n.rank = (int)between(&n, 1, 3);
  n.tokens = n.rank == 2 && one_in(&n, 2) ? between(&n, 2, 20) : 0;
  n.per_place = n.tokens > 0 && one_in(&n, 2);
  const char *loss =
      n.per_place ? "cross-entropy" : PICK(&n, "cross-entropy", "mse", "huber", "binary-cross-entropy", "l1");
  n.dim[0] = n.rank == 1 ? width(&n) : between(&n, 1, n.rank == 3 ? 12 : 8);
  n.dim[1] = n.rank == 3 ? between(&n, 1, 12) : width(&n);
  n.dim[2] = between(&n, 1, 6);
  say(&n, "model: {input: [%lld", (long long)n.dim[0]);
  for (int k = 1; k < n.rank && n.tokens == 0; k++)
    say(&n, ", %lld", (long long)n.dim[k]);
  say(&n, "], loss: %s", loss);
  if (strcmp(loss, "cross-entropy") == 0 && one_in(&n, 3)) say(&n, ", label_smoothing: 0.1");
  if (n.tokens > 0 && one_in(&n, 3)) say(&n, ", pad: 0");
  say(&n, ", layers: [");
  static const float means[] = {0, 1, 3};
  int64_t inputs = 1;
  const int64_t channels = *last(&n);
  const bool far = n.tokens == 0 && one_in(&n, 6);
  for (int k = 0; k < n.rank; k++)
    inputs *= n.dim[k];
  if (far) {
    begin(&n, "batch_norm");
    end(&n);
    n.batch_norm = true;
  }
  if (n.tokens > 0) tokens(&n);
  body(&n);
  head(&n, loss);
  say(&n, "]}\n");
  const int64_t rows = run(&n);
  if (!far) return;
  const float mean = means[below(&n, LS_COUNT(means))];
  far_from_zero(&n, rows, inputs, channels, strcmp(loss, "cross-entropy") == 0, n.outputs, mean);
  say(&n, "# samples around means of up to %g, instead of data\n", (double)mean);
}

void network_release(network_t *network) {
  free((void *)(uintptr_t)network->memory.features);
  free((void *)(uintptr_t)network->memory.targets);
  free((void *)(uintptr_t)network->memory.classes);
}
