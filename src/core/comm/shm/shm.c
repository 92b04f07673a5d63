/* The file begins with a head; pieces for communicators follow it: the world's, then those of groups. A piece has the slots of
 * two segments (segment.h), and is given back when its last rank has left. */
#include "comm/shm/shm.h"

#include "comm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char variable_name[] = "LOCKSTEP_RANK"; /* RANK SIZE FILE */
static const uint64_t magic = 0x316d68732d70736c;    /* "lsp-shm1" */

enum { RANK_NEW, RANK_JOINED, RANK_LEFT };

struct ls_shm_head {
  uint64_t magic;
  int32_t size;
  _Atomic int32_t aborted;
  _Atomic uint64_t end;     /* of the pieces so far */
  _Atomic uint32_t state[]; /* [size] */
};

typedef struct {
  _Alignas(64) _Atomic uint32_t left; /* ranks that have; then slots (channel, rank) */
} piece_t;

typedef struct shm shm_t;
struct shm {
  ls_host_comm_t host;
  shm_t *world; /* the world's own; this one, or that of a group */
  int file;
  ls_shm_head_t *head;
  piece_t *piece;
  uint64_t at; /* of the piece in the file */
  ls_segment_slot_t **slot;
  ls_segment_t segment[LS_CHANNEL_COUNT];
};

static size_t pages(size_t bytes) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

static size_t head_bytes(int size) {
  return pages(sizeof(ls_shm_head_t) + (size_t)size * sizeof(uint32_t));
}

static size_t piece_bytes(int size) {
  size_t bytes = sizeof(piece_t);
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    bytes += (size_t)size * ls_segment_slot_bytes(ls_segment_chunk_bytes[i]);
  return pages(bytes);
}

/* Never shortens the file, whoever else lengthens it. Pages exist when they are touched. */
static bool lengthen(int file, uint64_t bytes) {
  ssize_t wrote;
  while ((wrote = pwrite(file, "", 1, (off_t)bytes - 1)) < 0 && errno == EINTR)
    ;
  return wrote == 1;
}

static void *map(int file, uint64_t at, size_t bytes) {
  void *mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)at);
  return mapped == MAP_FAILED ? NULL : mapped;
}

/* ---- whoever starts the ranks ---- */

ls_status_t ls_comm_shm_prepare(ls_ctx_t *ctx, int size, ls_shm_world_t *world) {
  const size_t bytes = head_bytes(size);
  *world = (ls_shm_world_t){.size = size, .file = memfd_create("lockstep", MFD_CLOEXEC)};
  bool ok = world->file >= 0 && lengthen(world->file, bytes + piece_bytes(size));
  if (ok) world->head = map(world->file, 0, bytes);
  if (!world->head) {
    const ls_status_t status = ls_fail_errno(ctx, "no memory in which %d ranks can meet", size);
    ls_comm_shm_release(world);
    return status;
  }
  world->head->magic = magic;
  world->head->size = size;
  world->head->end = bytes + piece_bytes(size);
  return LS_OK;
}

void ls_comm_shm_release(ls_shm_world_t *world) {
  if (world->head) munmap(world->head, head_bytes(world->size));
  if (world->file >= 0) close(world->file);
  *world = (ls_shm_world_t){.file = -1};
}

void ls_comm_shm_name(const ls_shm_world_t *world, int rank, char variable[LS_SHM_NAME_BYTES]) {
  snprintf(variable, LS_SHM_NAME_BYTES, "%s=%d %d %d", variable_name, rank, world->size, world->file);
}

bool ls_comm_shm_joined(const ls_shm_world_t *world, int rank) {
  return world->head->state[rank] != RANK_NEW;
}
bool ls_comm_shm_left(const ls_shm_world_t *world, int rank) {
  return world->head->state[rank] == RANK_LEFT;
}
int ls_comm_shm_aborted(const ls_shm_world_t *world) {
  return world->head->aborted;
}

/* ---- a rank ---- */

static bool read_environment(int *rank, int *size, int *file) {
  const char *text = getenv(variable_name);
  int used = 0;
  return text && sscanf(text, "%d %d %d%n", rank, size, file, &used) == 3 && !text[used] && *rank >= 0 &&
         *rank<*size && * file> STDERR_FILENO;
}

bool ls_comm_shm_started(int *rank, int *size) {
  int r, s, file;
  if (!read_environment(&r, &s, &file)) return false;
  *rank = r;
  *size = s;
  return true;
}

static void shm_free(shm_t *shm) {
  const int size = shm->host.base.size;
  if (shm->piece) munmap(shm->piece, piece_bytes(size));
  if (shm->world == shm && shm->head) munmap(shm->head, head_bytes(size));
  ls_free(shm->slot);
  ls_host_release(&shm->host);
  ls_free(shm);
}

/* The world's ranks leave together: rank 0 may still report something, and the end of one with an error ends all. */
static void destroy(ls_comm_t *comm) {
  shm_t *shm = (shm_t *)comm;
  const ls_collective_t last = {.kind = LS_BARRIER, .name = "destroy"};
  const bool world = shm->world == shm, together = world && ls_host_run(comm, &last) == LS_OK;
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    ls_segment_leave(&shm->segment[i]);
  if (together) shm->head->state[comm->rank] = RANK_LEFT;
  if (atomic_fetch_add(&shm->piece->left, 1) + 1 == (uint32_t)comm->size && !world)
    (void)fallocate(shm->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)shm->at,
                    (off_t)piece_bytes(comm->size));
  shm_free(shm);
}

static void end_all(ls_comm_t *comm, int exit_code) {
  int32_t none = 0;
  atomic_compare_exchange_strong(&((shm_t *)comm)->head->aborted, &none, exit_code);
  _exit(exit_code);
}

static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub);

static const ls_comm_ops_t ops = {
    .name = "shm", LS_HOST_OPS, .split = split, .end_all = end_all, .destroy = destroy};

/* world NULL: of the world's own. */
static shm_t *allocate(ls_ctx_t *ctx, shm_t *world, int rank, int size, int64_t deadline_ns) {
  shm_t *shm = ls_alloc(ctx, sizeof *shm);
  if (!shm) return NULL;
  bool ok = ls_host_init(&shm->host, &ops, ctx, rank, size, deadline_ns) == LS_OK;
  shm->slot = ls_alloc_array(ctx, (size_t)size * LS_CHANNEL_COUNT, sizeof *shm->slot);
  shm->world = world ? world : shm;
  if (world) shm->file = world->file;
  if (world) shm->head = world->head;
  if (ok && shm->slot) return shm;
  shm_free(shm);
  return NULL;
}

static bool open_piece(shm_t *shm, uint64_t at) {
  const int size = shm->host.base.size;
  shm->at = at;
  shm->piece = map(shm->file, at, piece_bytes(size));
  if (!shm->piece) return false;
  unsigned char *next = (unsigned char *)(shm->piece + 1);
  for (int i = 0; i < LS_CHANNEL_COUNT; i++) {
    const size_t bytes = ls_segment_slot_bytes(ls_segment_chunk_bytes[i]);
    for (int r = 0; r < size; r++, next += bytes)
      shm->slot[i * size + r] = (ls_segment_slot_t *)(void *)next;
    memset(shm->slot[i * size + shm->host.base.rank], 0, bytes); /* its pages lie near this rank */
    ls_segment_open(&shm->segment[i], &shm->host.channel[i], shm->slot + i * size, ls_segment_chunk_bytes[i]);
  }
  return true;
}

/* The first member makes the group's piece and says where it is. */
static ls_status_t split(ls_comm_t *comm, const ls_split_t *how, ls_comm_t **sub) {
  shm_t *whole = (shm_t *)comm, *shm = NULL;
  uint64_t at = 0, *all = ls_alloc_array(comm->ctx, (size_t)comm->size, sizeof *all);
  if (how->size) shm = allocate(comm->ctx, whole->world, how->rank, how->size, comm->deadline_ns);
  ls_status_t status = ls_comm_agree(comm, how->name, all && (shm || !how->size) ? LS_OK : LS_ERR_MEMORY);
  if (status == LS_OK && how->size && how->rank == 0) {
    at = atomic_fetch_add(&whole->head->end, piece_bytes(how->size));
    if (!lengthen(whole->file, at + piece_bytes(how->size))) at = 0;
  }
  if (status == LS_OK) status = ls_comm_gather(comm, how->name, &at, sizeof at, all);
  if (status == LS_OK && shm && (!all[how->member[0]] || !open_piece(shm, all[how->member[0]])))
    status = LS_ERR_MEMORY;
  ls_free(all);
  if (status == LS_OK && shm)
    *sub = &shm->host.base;
  else if (shm)
    shm_free(shm);
  return status;
}

/* Maps the head. Nobody can know what the number of a file means in a process that got the variable by chance. */
static bool open_head(shm_t *shm) {
  const int size = shm->host.base.size;
  struct stat info;
  if (fstat(shm->file, &info) != 0 || !S_ISREG(info.st_mode) ||
      (uint64_t)info.st_size < head_bytes(size) + piece_bytes(size))
    return false;
  shm->head = map(shm->file, 0, head_bytes(size));
  return shm->head && shm->head->magic == magic && shm->head->size == size;
}

ls_status_t ls_comm_shm_create(ls_ctx_t *ctx, int64_t deadline_ns, ls_comm_t **comm) {
  int rank, size, file;
  uint32_t state = RANK_NEW;
  if (!read_environment(&rank, &size, &file))
    return ls_fail(ctx, LS_ERR_COMM, "environment variable %s: cannot be read", variable_name);
  shm_t *shm = allocate(ctx, NULL, rank, size, deadline_ns);
  if (!shm) return LS_ERR_MEMORY;
  shm->file = file;
  ls_status_t status = LS_OK;
  if (!open_head(shm))
    status =
        ls_fail(ctx, LS_ERR_COMM,
                "environment variable %s does not belong to this process: only lockstep sets it, for the "
                "ranks that it starts",
                variable_name);
  else if (!atomic_compare_exchange_strong(&shm->head->state[rank], &state, RANK_JOINED))
    status = ls_fail(ctx, LS_ERR_UNSUPPORTED, "the ranks have met already, and cannot do so twice");
  else if (!open_piece(shm, head_bytes(size)))
    status = ls_fail_errno(ctx, "no shared memory between the ranks");
  if (status != LS_OK) {
    shm_free(shm);
    return status;
  }
  fcntl(file, F_SETFD, FD_CLOEXEC); /* what this rank starts is no rank */
  *comm = &shm->host.base;
  return LS_OK;
}
