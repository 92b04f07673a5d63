/* Memory of one rank, as the report of a training has it. */
#ifndef LOCKSTEP_MEMORY_H
#define LOCKSTEP_MEMORY_H

#include <lockstep/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of one rank in bytes. The needs are computed from its schedules and samples, without the memory of
 * libraries. On a CPU the device's memory is the host's, and device_bytes covers everything. */
typedef struct {
  int64_t step_bytes; /* parameters, gradients, optimizer state, inputs and activations of a training step */
  int64_t evaluation_bytes; /* the additional need of evaluation */
  int64_t rounding_bytes;   /* allocations take whole pages of the device */
  int64_t samples_bytes;    /* the samples, always in host memory, counted in every rank that uses them */
  int64_t samples_ranks;    /* ranks of this node that share one copy of them */
  int64_t staging_bytes;  /* host memory that a GPU copies from and to: inputs, stats, a state being saved */
  int64_t log_bytes;      /* times of the run's steps, host memory */
  int64_t schedule_bytes; /* the schedules themselves and their graphs, host memory */
  int64_t decoding_bytes; /* rooms of the threads that decode images for each batch, host memory */
  int64_t reading_bytes;  /* on a CPU: peak while files are read, before all else; 0 = no files */
  int64_t exchange_bytes; /* shared memory in which the ranks of a host exchange gradients */
  /* The next two are a GPU's. They count as memory of libraries, so no sum below contains them. */
  int64_t captured_bytes;    /* of the collectives in captured steps */
  int64_t side_bytes;        /* of the side stream (parallel.side_lane): the second set of workspaces */
  int64_t device_bytes;      /* total need on the device */
  int64_t host_bytes;        /* need in host memory if the device has memory of its own; 0 on a CPU */
  int64_t device_used_bytes; /* at the end of the run: on a GPU all memory in use; on a CPU host_used_bytes */
  int64_t host_used_bytes;   /* peak resident memory of the process; 0 = not readable */
  int64_t device_total_bytes; /* of a GPU, as its runtime counts; 0 on a CPU */
} ls_train_memory_t;

#ifdef __cplusplus
}
#endif
#endif
