/* Memory of one rank, as the report of a training has it. */
#ifndef LOCKSTEP_MEMORY_H
#define LOCKSTEP_MEMORY_H

#include <lockstep/status.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Parts of the code, with its tables, that a library makes for a CPU's products and convolutions. A run counts how often
 * it needs each part; lockstep probe measures the bytes that a part takes (docs/probe.md). */
typedef enum {
  LS_CODE_PRODUCTS,     /* products of f32: once */
  LS_CODE_LOW,          /* products of bf16: once */
  LS_CODE_LOW_PACKED,   /* products of bf16 that pack their factors: once, beside LOW */
  LS_CODE_LOW_EACH,     /* each shape of a product of bf16 that does not pack */
  LS_CODE_LOW_REST,     /* beside EACH: each shape whose columns are more than 64 and no multiple of 64 */
  LS_CODE_LOW_ODD,      /* beside EACH: each shape whose second factor has an odd number of rows or columns */
  LS_CODE_CONVOLUTIONS, /* convolutions of f32: once */
  LS_CODE_LOW_CONVOLUTIONS,      /* convolutions of bf16: once, beside LOW */
  LS_CODE_CONVOLUTION_EACH,      /* each shape of a convolution and of its gradients, but for the next two */
  LS_CODE_CONVOLUTION_ONE,       /* the same where a window is one element */
  LS_CODE_CONVOLUTION_DEPTHWISE, /* the same where each channel has its own filter */
  LS_CODE_LOW_PACKED_EACH,       /* each shape of a product of bf16 that packs its factors */
  LS_CODE_COUNT
} ls_code_t;
/* Static name in documents and profiles: "products", "bf16", "bf16-packed", "bf16-each", "bf16-rest", "bf16-odd",
 * "convolutions", "bf16-convolutions", "convolution-each", "convolution-1x1", "convolution-depthwise", "bf16-packed-each".
 * Never NULL; "" for a number that is no part. */
LS_API const char *ls_code_name(ls_code_t part);

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
  /* The next two count as the libraries', so no sum below contains them. The first is of a CPU's kernels and of the library
   * behind them, in all threads, or of the collectives in a GPU's graphs. */
  int64_t scratch_bytes;
  int64_t side_bytes;          /* of a GPU's side stream (parallel.side_lane): the second set of workspaces */
  int64_t code[LS_CODE_COUNT]; /* how often the run needs each part of the code; no bytes */
  int64_t device_bytes;        /* total need on the device */
  int64_t host_bytes;          /* need in host memory if the device has memory of its own; 0 on a CPU */
  int64_t device_used_bytes; /* at the end of the run: on a GPU all memory in use; on a CPU host_used_bytes */
  int64_t host_used_bytes;   /* peak resident memory of the process; 0 = not readable */
  int64_t device_total_bytes; /* of a GPU, as its runtime counts; 0 on a CPU */
} ls_train_memory_t;

#ifdef __cplusplus
}
#endif
#endif
