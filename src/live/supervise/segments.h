/* Shared memory of Open MPI's ranks, which stays in /dev/shm when they are killed. Names: vader_segment.HOST.UID.JOB.RANK
 * (Open MPI 4), sm_segment.HOST.UID.JOB.RANK (5), osc_sm.HOST.JOB.. (both); JOB is the job's number in hexadecimal. */
#ifndef LS_SUPERVISE_SEGMENTS_H
#define LS_SUPERVISE_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { LS_SEGMENTS_JOB_BYTES = 256 };
typedef struct {
  char job[LS_SEGMENTS_JOB_BYTES]; /* "HOST.UID.JOB"; "": not known */
  int64_t due_ns;                  /* when the ranks are looked at again */
  bool done;
} ls_segments_t;
/* Whether to look for the job now: ten times a second until it is known, since a rank's list of mappings is long, and for the
 * last time once a rank has `stepped`, when all have been made. */
bool ls_segments_due(ls_segments_t *segments, bool stepped, int64_t now_ns);
/* Looks for it in what this rank's process has mapped. */
void ls_segments_look(ls_segments_t *segments, pid_t rank);
/* Removes the job's files that belong to this user, if the job is known. It must have no processes left. */
void ls_segments_remove(const ls_segments_t *segments);

#endif
