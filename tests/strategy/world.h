/* A small network trained by N ranks as threads, each with its own context and device, over the sim
 * communicator. */
#ifndef LS_TESTS_STRATEGY_WORLD_H
#define LS_TESTS_STRATEGY_WORLD_H

#include "schedule/run.h"
#include "strategy/lower.h"

enum { WORLD_MAX = 8, SAMPLES_MAX = 64, INPUTS = 6, HIDDEN = 5, OUTPUTS = 2, PARAMS_MAX = 512 };

typedef struct {
  const char *strategy;
  const ls_backend_t *backend; /* NULL = ref */
  int world_size, micro_batches, input_slots, steps;
  int64_t samples; /* global batch, the same in every step */
  float weight;    /* of every sample */
  float lr;
  double dropout, momentum, clip;
  bool adam, copies, evaluate;
  bool shared; /* one more layer, which is used twice */
  int chains;  /* so many layers of an LSTM of one unit, over the hidden units */
  bool frozen; /* the first layer */
  bool side_lane;
  bool
      reproducible; /* micro-batches are shards: micro_batches times world_size of them, equally many rows each
                      */
  ls_dtype_t wire;
  int shard;      /* ls_shard_t */
  ls_dtype_t low; /* mixed precision; LS_F32: none */
  int good_steps; /* LS_F16: after which the loss scale is doubled; 0 = LS_SCALE_STEPS */
  int64_t bucket_bytes;
  int nan_step;    /* this step's data holds a NaN; -1 = none */
  int absent_rank; /* never launches; -1 = none */
  int only;        /* only this sample has a weight; -1 = all */
  int64_t deadline_ns;
} job_t;

/* One rank, one slot, one micro-batch of 16 samples, exactly representable. */
job_t job_default(void);

typedef struct {
  ls_status_t status;
  char error[512];
  ls_program_t program; /* until world_release */
  int64_t param_count;  /* of the layout */
  float param[PARAMS_MAX], initial[PARAMS_MAX], grad[PARAMS_MAX];
  float stats[LS_STATS_COUNT]; /* of the last step */
  float output[SAMPLES_MAX * OUTPUTS];
  int64_t parts_ns[LS_PHASE_STEP_COUNT], step_ns;
} rank_result_t;

typedef struct {
  rank_result_t rank[WORLD_MAX];
  ls_ctx_t *ctx[WORLD_MAX];
} world_t;

/* Asserts that every rank lowers and that its schedule, and the world's, are proven; runs it. */
void world_run(const job_t *job, world_t *world);
void world_release(world_t *world);

/* The network alone, for tests of the lowering: the graph is the caller's. */
void network_make(ls_ctx_t *ctx, int64_t rows, double dropout, bool training, ls_graph_t **graph);
/* The network has the job's dropout, frozen, shared and recurrent layers; it is for training unless the job
 * evaluates. */
void network_make_of(ls_ctx_t *ctx, int64_t rows, const job_t *job, ls_graph_t **graph);
/* The number of x (and target) at (sample, column) of step `step`: small multiples of 1/2. */
float network_x(int step, int64_t sample, int64_t column);
float network_target(int step, int64_t sample, int64_t column);

#endif
