/* The share of one rank in a step: rows of the global batch as micro-batches. In a reproducible step the
 * batch is first cut into parallel.shards equal micro-batches, and ranks take whole ones. The contents of a
 * shard, and the shapes that compute it, then do not depend on the number of ranks. */
#include "engine/engine.h"

void ls_engine_share(const ls_config_t *config, int rank, int world_size, ls_engine_share_t *share) {
  int64_t batch = config->train.batch;
  if (!config->parallel.reproducible) {
    ls_share(batch, rank, world_size, &share->first, &share->count);
    share->accumulate = (int)config->train.accumulate;
    share->rows = (share->count + share->accumulate - 1) / share->accumulate;
    return;
  }
  int64_t shards = config->parallel.shards, own = shards / world_size, rows = (batch + shards - 1) / shards;
  int64_t first = rank * own * rows, until = first + own * rows < batch ? first + own * rows : batch;
  *share = (ls_engine_share_t){
      .first = first, .count = until > first ? until - first : 0, .rows = rows, .accumulate = (int)own};
}

int64_t ls_engine_eval_rows(const ls_config_t *config, int64_t samples, int world_size) {
  enum { EVAL_ROWS_MIN = 64, EVAL_ROWS_MAX = 1024 };
  ls_engine_share_t share; /* the largest */
  ls_engine_share(config, 0, world_size, &share);
  bool reproducible = config->parallel.reproducible;
  int64_t per_rank = reproducible ? samples : (samples + world_size - 1) / world_size;
  int64_t rows = reproducible ? share.rows : share.count;
  if (rows > EVAL_ROWS_MAX) rows = EVAL_ROWS_MAX;
  if (rows < EVAL_ROWS_MIN) rows = EVAL_ROWS_MIN;
  return per_rank < rows ? per_rank : rows;
}

bool ls_engine_can_share(const ls_config_t *config, int world_size) {
  return !config->parallel.reproducible || config->parallel.shards % world_size == 0;
}

ls_status_t ls_engine_check_share(ls_ctx_t *ctx, const ls_config_t *config, int world_size) {
  if (ls_engine_can_share(config, world_size)) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_CONFIG,
      "parallel.reproducible: %lld shards cannot be spread evenly over %d ranks; start a power of two up "
      "to %lld, or raise parallel.shards",
      (long long)config->parallel.shards, world_size, (long long)config->parallel.shards);
}
