/* The share of one rank in a step. The global batch is first cut into equal micro-batches, whose samples do not depend on
 * the number of ranks; then all ranks share each of them. In a reproducible step the micro-batches are parallel.shards
 * shards, and ranks take whole ones: then the shapes that compute a shard do not depend on the ranks either. */
#include "engine/engine.h"

/* Rows of a full batch in all micro-batches of the share. */
static int64_t count_rows(const ls_engine_share_t *s, int64_t batch) {
  int64_t left = batch > s->first ? batch - s->first : 0, whole = left / s->stride, rest = left % s->stride;
  if (whole >= s->micro_batches) return s->micro_batches * s->rows;
  return whole * s->rows + (rest < s->rows ? rest : s->rows);
}

static ls_engine_share_t share_of(int64_t batch, int64_t parts, bool shards, int rank, int world_size) {
  const int64_t stride = (batch + parts - 1) / parts, own = shards ? parts / world_size : parts;
  int64_t first, rows = stride;
  if (shards)
    first = rank * own * stride;
  else
    ls_share(stride, rank, world_size, &first, &rows);
  if (rows == 0) first = batch; /* its row is padding */
  ls_engine_share_t share = {
      .first = first, .rows = rows > 0 ? rows : 1, .stride = stride, .micro_batches = (int)own};
  share.count = count_rows(&share, batch);
  return share;
}

void ls_engine_share(ls_batching_t cut, int rank, int world_size, ls_engine_share_t *share) {
  const bool shards = cut.shards > 0;
  *share = share_of(cut.batch, shards ? cut.shards : cut.micro_batches, shards, rank, world_size);
}

/* The last rank has the last rows of each micro-batch, so it is the first to have none. */
ls_engine_cut_t ls_engine_cut(int64_t batch, int64_t micro_batches, int world_size) {
  const ls_engine_share_t most = share_of(batch, micro_batches, false, 0, world_size),
                          least = share_of(batch, micro_batches, false, world_size - 1, world_size);
  const int64_t filled = (least.count + least.rows - 1) / least.rows,
                even = (batch + world_size - 1) / world_size;
  return (ls_engine_cut_t){micro_batches - filled, most.count, most.count - even <= even / 10};
}

int64_t ls_engine_cut_well(int64_t batch, int64_t micro_batches, int world_size) {
  for (; micro_batches > 1; micro_batches--) {
    const ls_engine_cut_t cut = ls_engine_cut(batch, micro_batches, world_size);
    if (cut.empty == 0 && cut.even) break;
  }
  return micro_batches;
}

int64_t ls_engine_eval_rows(ls_batching_t cut, int64_t samples, int world_size) {
  enum { EVAL_ROWS_MIN = 64, EVAL_ROWS_MAX = 1024 };
  const bool reproducible = cut.shards > 0;
  int64_t parts = reproducible ? cut.shards : world_size;
  int64_t per_rank = reproducible ? samples : (samples + world_size - 1) / world_size;
  int64_t rows = (cut.batch + parts - 1) / parts;
  if (rows > EVAL_ROWS_MAX) rows = EVAL_ROWS_MAX;
  if (rows < EVAL_ROWS_MIN) rows = EVAL_ROWS_MIN;
  return per_rank < rows ? per_rank : rows;
}

bool ls_engine_can_share(ls_batching_t cut, int world_size) {
  return cut.shards == 0 || cut.shards % world_size == 0;
}

ls_status_t ls_engine_check_share(ls_ctx_t *ctx, ls_batching_t cut, int world_size) {
  if (ls_engine_can_share(cut, world_size)) return LS_OK;
  return ls_fail(
      ctx, LS_ERR_CONFIG,
      "parallel.reproducible: %lld shards cannot be spread evenly over %d ranks; start a power of two up "
      "to %lld, or raise parallel.shards",
      (long long)cut.shards, world_size, (long long)cut.shards);
}
