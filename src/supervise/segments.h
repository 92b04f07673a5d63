/* Shared memory of Open MPI's ranks, which stays in /dev/shm when they are killed. Names: vader_segment.HOST.UID.JOB.RANK
 * (Open MPI 4), sm_segment.HOST.UID.JOB.RANK (5), osc_sm.HOST.JOB.. (both); JOB is the job's number in hexadecimal. */
#ifndef LS_SUPERVISE_SEGMENTS_H
#define LS_SUPERVISE_SEGMENTS_H

#include <stdbool.h>
#include <sys/types.h>

enum { LS_SEGMENTS_JOB_BYTES = 256 };
/* The job of a rank's process, by what it has mapped: "HOST.UID.JOB". False: nothing of Open MPI is. */
bool ls_segments_find(pid_t rank, char job[LS_SEGMENTS_JOB_BYTES]);
/* Removes the files of this job that belong to this user. "": none. For a job without processes. */
void ls_segments_remove(const char *job);

#endif
