/* See cases.h. */
#include "cases.h"

#include "base/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FENCE = 64, POISON = 0xA5 };
static const int64_t counts[] = {0, 1, 3, 17, 1000, 65537};

ls_status_t cases_do(ls_comm_t *comm, ls_stream_t *stream, ls_collective_t *c) {
  if (!stream) return comm->ops->run(comm, c);
  ls_status_t status = ls_comm_bind(comm, c);
  if (status == LS_OK) status = ls_comm_enqueue(stream, c);
  return status == LS_OK ? stream->device->backend->stream->sync(stream, 0) : status;
}

static void store(ls_dtype_t dtype, void *at, int64_t i, int64_t value) {
  switch (dtype) {
  case LS_F32:
    ((float *)at)[i] = (float)value;
    break;
  case LS_F64:
    ((double *)at)[i] = (double)value;
    break;
  case LS_I32:
    ((int32_t *)at)[i] = (int32_t)value;
    break;
  case LS_I64:
    ((int64_t *)at)[i] = value;
    break;
  case LS_U8:
    ((uint8_t *)at)[i] = (uint8_t)value;
    break;
  case LS_BF16:
    ((uint16_t *)at)[i] = ls_bf16_of_f32((float)value);
    break;
  case LS_F16:
    ((uint16_t *)at)[i] = ls_f16_of_f32((float)value);
    break;
  case LS_U16:
    ((uint16_t *)at)[i] = (uint16_t)value;
    break;
  case LS_DTYPE_COUNT:
    break;
  }
}

/* The sum of eight ranks, and each sum on the way, is exact in bf16: at most 256. */
static int64_t value(int rank, int64_t i) {
  return (rank * 31 + i * 7) % 29 + rank;
}

/* What a rank sends, and what it must receive, as functions of the element. */
static int64_t sum(int size, int64_t i) {
  int64_t total = 0;
  for (int r = 0; r < size; r++)
    total += value(r, i);
  return total;
}

static int64_t expected(const ls_comm_t *comm, const ls_collective_t *c, int64_t i) {
  switch (c->kind) {
  case LS_ALL_REDUCE:
    return sum(comm->size, i);
  case LS_REDUCE_SCATTER:
    return sum(comm->size, comm->rank * c->count + i);
  case LS_ALL_GATHER:
    return value((int)(i / c->count), i % c->count);
  case LS_BROADCAST:
    return value(c->root, i);
  case LS_RECV:
    return value(1 - comm->rank, i);
  default:
    return 0;
  }
}

static bool all_poison(const unsigned char *p) {
  for (int i = 0; i < FENCE; i++)
    if (p[i] != POISON) return false;
  return true;
}

/* Not inlined: gcc 13 and 14 would take the text for NULL where a caller asks whether it has got one. */
__attribute__((noinline)) static const char *say(char text[static CASES_TEXT_BYTES], const ls_comm_t *comm,
                                                 const ls_collective_t *c, bool in_place, const char *what) {
  snprintf(text, CASES_TEXT_BYTES, "rank %d of %d: %s of %lld %s%s: %s", comm->rank, comm->size,
           ls_collective_name(c->kind), (long long)c->count, ls_dtype_name(c->dtype),
           in_place ? ", in place" : "", what);
  return text;
}

/* Buffers lie between fences; the result must be exact and the fences untouched. */
static const char *one(ls_comm_t *comm, ls_stream_t *stream, ls_collective_t c, bool in_place, char *text) {
  const int64_t bytes = (int64_t)ls_dtype_bytes(c.dtype);
  const int64_t send_n = c.count * (c.kind == LS_REDUCE_SCATTER ? comm->size : 1);
  const int64_t recv_n = c.count * (c.kind == LS_ALL_GATHER ? comm->size : c.kind != LS_SEND);
  unsigned char *send = malloc((size_t)(send_n * bytes) + 1), *want = malloc((size_t)(recv_n * bytes) + 1);
  unsigned char *block = malloc((size_t)(recv_n * bytes) + 2 * FENCE);
  const char *wrong = "out of memory";
  if (!send || !want || !block) goto done;
  memset(block, POISON, (size_t)(recv_n * bytes) + 2 * FENCE);
  c.recv = block + FENCE;
  c.send = send;
  if (in_place) c.send = (char *)c.recv + (c.kind == LS_ALL_GATHER ? comm->rank * c.count * bytes : 0);
  bool sends = c.kind != LS_RECV && (c.kind != LS_BROADCAST || comm->rank == c.root);
  for (int64_t i = 0; i < send_n && sends; i++)
    store(c.dtype, in_place ? (unsigned char *)c.recv + ((const char *)c.send - (const char *)c.recv) : send,
          i, value(comm->rank, i));
  if (!sends) c.send = NULL;
  for (int64_t i = 0; i < recv_n; i++)
    store(c.dtype, want, i, expected(comm, &c, i));
  ls_status_t status = cases_do(comm, stream, &c);
  wrong = status != LS_OK                                                     ? ls_status_name(status)
          : memcmp(c.recv, want, (size_t)(recv_n * bytes)) != 0               ? "wrong values"
          : !all_poison(block) || !all_poison(block + FENCE + recv_n * bytes) ? "wrote outside its buffer"
                                                                              : NULL;
done:
  free(block);
  free(want);
  free(send);
  return wrong ? say(text, comm, &c, in_place, wrong) : NULL;
}

const char *cases_run(ls_comm_t *comm, ls_stream_t *stream, char text[CASES_TEXT_BYTES]) {
  for (int kind = 0; kind < LS_COLLECTIVE_COUNT; kind++)
    for (int dtype = 0; dtype < LS_DTYPE_COUNT; dtype++)
      for (int n = 0; n < LS_COUNT(counts); n++)
        for (int in_place = 0; in_place < 2; in_place++) {
          bool sums = kind == LS_ALL_REDUCE || kind == LS_REDUCE_SCATTER;
          bool message = kind == LS_SEND || kind == LS_RECV;
          if (sums && !ls_dtype_row((ls_dtype_t)dtype)->sums) continue;
          if (in_place && (kind == LS_REDUCE_SCATTER || message)) continue;
          if (message && comm->size != 2) continue;
          ls_collective_t c = {.kind = (ls_collective_kind_t)kind,
                               .name = "case",
                               .count = kind == LS_BARRIER ? 0 : counts[n],
                               .dtype = (ls_dtype_t)dtype,
                               .root = n % comm->size};
          if (message && comm->rank) c.kind = kind == LS_SEND ? LS_RECV : LS_SEND; /* there, then back */
          const char *wrong = one(comm, stream, c, in_place, text);
          if (wrong) return wrong;
        }
  return NULL;
}

static float noise(int rank, int64_t i) {
  ls_rng4_t r = ls_rng(42, (uint32_t)rank, (uint64_t)i);
  return (ls_rng_unit(r.v[0]) - 0.5f) * (float)(1 << (r.v[1] % 24));
}

static const char *bits_of(ls_comm_t *comm, const float *send, float *recv, const float *want, int64_t count,
                           char *text) {
  const ls_collective_t c = {
      .kind = LS_ALL_REDUCE, .name = "bits", .send = send, .recv = recv, .count = count};
  for (int repeat = 0; repeat < 2; repeat++) {
    memset(recv, POISON, (size_t)count * sizeof *recv);
    ls_status_t status = comm->ops->run(comm, &c);
    if (status != LS_OK) return say(text, comm, &c, false, ls_status_name(status));
    if (memcmp(recv, want, (size_t)count * sizeof *recv) != 0)
      return say(text, comm, &c, false, "other bits");
  }
  return NULL;
}

const char *cases_bits(ls_comm_t *comm, char text[CASES_TEXT_BYTES]) {
  static const int64_t sizes[] = {5, 1023, 8191,
                                  300007}; /* all ways: small, one-shot, two-shot, several chunks */
  const int64_t most = sizes[LS_COUNT(sizes) - 1];
  float *send = malloc((size_t)most * 4), *recv = malloc((size_t)most * 4), *want = malloc((size_t)most * 4);
  const char *wrong = send && recv && want ? NULL : "out of memory";
  for (int64_t i = 0; i < most && !wrong; i++) {
    send[i] = noise(comm->rank, i);
    want[i] = noise(0, i);
    for (int r = 1; r < comm->size; r++)
      want[i] += noise(r, i);
  }
  for (int n = 0; n < LS_COUNT(sizes) && !wrong; n++)
    wrong = bits_of(comm, send, recv, want, sizes[n], text);
  free(want);
  free(recv);
  free(send);
  return wrong;
}

static const char *differ(char *text, const ls_comm_t *comm, const char *what) {
  snprintf(text, CASES_TEXT_BYTES, "rank %d of %d: %s: %s", comm->rank, comm->size, what,
           ls_ctx_error(comm->ctx));
  return text;
}

enum { GROUP_MAX = 16 };

/* By parity, in reverse order: odd and even ranks are at work at the same time. */
static const char *halves(ls_comm_t *comm, ls_stream_t *stream, char *text) {
  ls_comm_t *half = NULL;
  for (int odd = 0; odd < 2; odd++) {
    int ranks[GROUP_MAX], count = 0;
    ls_comm_t *group = NULL;
    for (int r = comm->size - 1; r >= 0; r--)
      if (r % 2 == odd) ranks[count++] = r;
    if (ls_comm_group(comm, "half", ranks, count, &group) != LS_OK) return differ(text, comm, "not split");
    if (!group != (comm->rank % 2 != odd)) return differ(text, comm, "in another group");
    if (group) half = group;
  }
  int size = (comm->size + 1 - comm->rank % 2) / 2;
  const char *wrong = NULL;
  if (half->size != size || half->rank != size - 1 - comm->rank / 2)
    wrong = differ(text, half, "another rank or size");
  if (!wrong) wrong = cases_run(half, stream, text);
  if (!wrong) wrong = cases_bits(half, text);
  ls_comm_destroy(half);
  return wrong;
}

/* The ranks but the last; of these the first two, which exchange messages. */
static const char *nested(ls_comm_t *comm, ls_stream_t *stream, char *text) {
  ls_comm_t *most = NULL, *pair = NULL;
  bool last = comm->rank == comm->size - 1;
  int all[GROUP_MAX];
  for (int r = 0; r < comm->size; r++)
    all[r] = r;
  if (ls_comm_group(comm, "most", all, comm->size - 1, &most) != LS_OK)
    return differ(text, comm, "not split");
  if (last) return most ? differ(text, comm, "a member of a group without it") : NULL;
  const char *wrong = most->rank == comm->rank ? NULL : differ(text, most, "another order");
  if (!wrong && ls_comm_group(most, "pair", all, most->size < 2 ? 1 : 2, &pair) != LS_OK)
    wrong = differ(text, most, "not split");
  if (!wrong && pair) wrong = cases_run(pair, stream, text);
  ls_comm_destroy(pair);
  if (!wrong) wrong = cases_run(most, NULL, text); /* goes on without the pair */
  ls_comm_destroy(most);
  return wrong;
}

const char *cases_groups(ls_comm_t *comm, ls_stream_t *stream, char text[CASES_TEXT_BYTES]) {
  const char *wrong = halves(comm, stream, text);
  return wrong ? wrong : nested(comm, stream, text);
}

const char *cases_overlap(ls_comm_t *comm, ls_stream_t *stream, char text[CASES_TEXT_BYTES]) {
  enum { BUCKETS = 8, COUNT = 100000 };
  int64_t *data = calloc((size_t)BUCKETS * COUNT, sizeof *data);
  ls_collective_t c[BUCKETS];
  const char *wrong = data ? NULL : "out of memory";
  for (int b = 0; b < BUCKETS && !wrong; b++) {
    c[b] = (ls_collective_t){.kind = LS_ALL_REDUCE, .name = "bucket", .count = COUNT, .dtype = LS_I64};
    c[b].send = c[b].recv = data + (size_t)b * COUNT;
    if (ls_comm_bind(comm, &c[b]) != LS_OK) wrong = say(text, comm, &c[b], true, "not bound");
    for (int64_t i = 0; i < COUNT; i++)
      data[b * COUNT + i] = value(comm->rank, i + b);
  }
  for (int b = 0; b < BUCKETS && !wrong; b++) {
    double control[3] = {1, comm->rank, b};
    ls_status_t status = LS_OK;
    if (comm->rank % 2) status = ls_comm_enqueue(stream, &c[b]);
    if (status == LS_OK) status = ls_comm_sum_f64(comm, "control", control, 3);
    if (status == LS_OK && !(comm->rank % 2)) status = ls_comm_enqueue(stream, &c[b]);
    if (status != LS_OK) wrong = say(text, comm, &c[b], true, ls_status_name(status));
    if (!wrong && (control[0] != comm->size || control[2] != (double)b * comm->size))
      wrong = say(text, comm, &c[b], true, "the control sum is wrong");
  }
  if (data && stream->device->backend->stream->sync(stream, 0) != LS_OK && !wrong)
    wrong = say(text, comm, &c[0], true, "the stream failed");
  for (int64_t i = 0; i < BUCKETS * COUNT && !wrong; i++)
    if (data[i] != sum(comm->size, i % COUNT + i / COUNT))
      wrong = say(text, comm, &c[0], true, "wrong values");
  free(data);
  return wrong;
}
