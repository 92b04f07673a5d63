/* The shared window: MPI gives the ranks of one host one piece of shared memory, which is cut into the slots
 * of two segments. */
#include "comm/mpi/mpi.h"

#include <string.h>
#include <sys/statvfs.h>

enum { LINE_BYTES = 64, MPI_PIECE_BYTES = 1 << 16 /* what MPI adds, at most */ };

/* The offset of a channel's slot in a rank's piece; LS_CHANNEL_COUNT: the end of the last one. */
static size_t slot_offset(int channel) {
  size_t offset = 0;
  for (int i = 0; i < channel; i++)
    offset += ls_segment_slot_bytes(ls_segment_chunk_bytes[i]);
  return offset;
}

/* MPI places a piece anywhere within mapped pages: rounding up gives the same offset in every process. */
static unsigned char *aligned(unsigned char *piece) {
  return piece + (LINE_BYTES - (uintptr_t)piece % LINE_BYTES) % LINE_BYTES;
}

/* The slots of all ranks, as this process sees them. False if MPI does not tell. */
static bool find_slots(ls_mpi_t *mpi) {
  const int size = mpi->host.base.size;
  for (int r = 0; r < size; r++) {
    MPI_Aint bytes = 0;
    int unit = 0;
    unsigned char *base = NULL;
    if (MPI_Win_shared_query(mpi->window, r, &bytes, &unit, &base) != MPI_SUCCESS || !base) return false;
    for (int i = 0; i < LS_CHANNEL_COUNT; i++) {
      void *slot = aligned(base) + slot_offset(i);
      mpi->slot[i * size + r] = slot;
    }
  }
  return true;
}

/* Open MPI 4 hangs where a window does not fit in /dev/shm: the rank that makes the file gives up, the others
 * wait for its name. Unknown counts as room. */
static bool has_room(int ranks, size_t piece_bytes) {
  struct statvfs shm;
  if (statvfs("/dev/shm", &shm) != 0 || shm.f_blocks == 0) return true;
  return (double)shm.f_bavail * (double)shm.f_frsize >= ranks * (double)(piece_bytes + MPI_PIECE_BYTES);
}

ls_status_t ls_mpi_window_create(ls_mpi_t *mpi) {
  const ls_comm_t *comm = &mpi->host.base;
  const size_t piece_bytes = slot_offset(LS_CHANNEL_COUNT) + LINE_BYTES;
  unsigned char *own = NULL;
  MPI_Comm on = mpi->exchange[LS_CHANNEL_CONTROL].comm;
  int room = has_room(comm->size, piece_bytes);
  if (MPI_Allreduce(MPI_IN_PLACE, &room, 1, MPI_INT, MPI_MIN, on) != MPI_SUCCESS || !room)
    return LS_ERR_UNSUPPORTED;
  int ok =
      MPI_Win_allocate_shared((MPI_Aint)piece_bytes, 1, MPI_INFO_NULL, on, &own, &mpi->window) == MPI_SUCCESS;
  if (!ok) mpi->window = MPI_WIN_NULL;
  if (ok) memset(own, 0, piece_bytes); /* also allocates the pages near this rank */
  ok = ok && find_slots(mpi);
  /* Also the barrier before the first use of slots. */
  int all = 0;
  if (MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, on) != MPI_SUCCESS || !all) {
    ls_mpi_window_release(mpi, ok);
    return LS_ERR_UNSUPPORTED;
  }
  for (int i = 0; i < LS_CHANNEL_COUNT; i++)
    ls_segment_open(&mpi->segment[i], &mpi->host.channel[i], mpi->slot + i * comm->size,
                    ls_segment_chunk_bytes[i]);
  mpi->windowed = true;
  return LS_OK;
}

/* Freeing a window is collective: without the other ranks it stays until the process ends. */
void ls_mpi_window_release(ls_mpi_t *mpi, bool collective) {
  if (mpi->window != MPI_WIN_NULL && collective) MPI_Win_free(&mpi->window);
  mpi->window = MPI_WIN_NULL;
  mpi->windowed = false;
}
