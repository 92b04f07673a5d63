/* Which collective the GPU has reached, for the message when a deadline passes. */
#include "comm/nccl/nccl.h"

#include <stdio.h>
#include <string.h>

ls_status_t ls_nccl_progress_open(ls_ctx_t *ctx, ls_nccl_progress_t *progress) {
  void *word = NULL, *device_word = NULL;
  ls_status_t status =
      ls_cuda_check(ctx, cudaHostAlloc(&word, sizeof(uint64_t), cudaHostAllocMapped | cudaHostAllocPortable),
                    "memory for NCCL's progress");
  if (status) return status;
  *(uint64_t *)word = 0;
  status = ls_cuda_check(ctx, cudaHostGetDevicePointer(&device_word, word, 0), "memory for NCCL's progress");
  if (status) {
    (void)cudaFreeHost(word);
    return status;
  }
  progress->word = word;
  progress->device_word = device_word;
  progress->last_step = -1;
  return LS_OK;
}

void ls_nccl_progress_close(ls_nccl_progress_t *progress) {
  if (!progress->word) return;
  (void)cudaFreeHost((void *)(uintptr_t)progress->word);
  (void)cudaGetLastError();
  progress->word = NULL;
}

uint32_t ls_nccl_progress_number(ls_nccl_progress_t *progress, const ls_collective_t *c) {
  char name[LS_NCCL_NAME_BYTES];
  snprintf(name, sizeof name, "%.*s", LS_NCCL_NAME_BYTES - 1, c->name ? c->name : "");
  uint32_t i = 0;
  while (i < progress->count && (progress->entry[i].kind != c->kind || strcmp(progress->entry[i].name, name)))
    i++;
  if (i == LS_NCCL_PROGRESS_MAX) return 0;
  if (i == progress->count) progress->count++;
  progress->entry[i].kind = c->kind;
  progress->entry[i].count = c->count;
  progress->entry[i].dtype = c->dtype;
  memcpy(progress->entry[i].name, name, sizeof name);
  return i + 1;
}

const ls_nccl_entry_t *ls_nccl_progress_pending(const ls_nccl_progress_t *progress, uint64_t word) {
  const uint32_t last = (uint32_t)word;
  if (progress->count == 0) return NULL;
  return &progress->entry[last < progress->count ? last : 0];
}

int64_t ls_nccl_progress_still_ns(ls_nccl_progress_t *progress, int64_t step, int64_t now_ns,
                                  int64_t pause_ns) {
  uint64_t word = *progress->word;
  bool moved = word != progress->last_word || step != progress->last_step;
  if (moved || now_ns - progress->last_poll_ns > pause_ns) progress->still_since_ns = now_ns;
  progress->last_word = word;
  progress->last_step = step;
  progress->last_poll_ns = now_ns;
  return now_ns - progress->still_since_ns;
}

static uint64_t enter(const ls_comm_t *comm, const ls_nccl_entry_t *e, uint64_t number) {
  const ls_collective_t c = {.kind = e->kind, .name = e->name, .count = e->count, .dtype = e->dtype};
  return comm->watch->enter(comm->watch->user, comm, &c, LS_LINE_DEVICE, number);
}

void ls_nccl_progress_tell(ls_nccl_progress_t *p, const ls_comm_t *comm, uint64_t word) {
  const ls_comm_watch_t *watch = comm->watch;
  const ls_nccl_entry_t *pending = ls_nccl_progress_pending(p, word);
  const uint64_t run = word >> 32;
  const uint32_t last = (uint32_t)word;
  if (!watch || !pending || p->told == run + 1) return;
  if (p->told > 0) watch->leave(watch->user, LS_LINE_DEVICE, p->mark);
  if (p->told < run && last > 0)
    watch->leave(watch->user, LS_LINE_DEVICE, enter(comm, &p->entry[last - 1], run));
  p->mark = enter(comm, pending, run + 1);
  p->told = run + 1;
}
