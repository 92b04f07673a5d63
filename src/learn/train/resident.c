/* Decides where the samples of a run are: on the host, which gathers every batch and sends it, or on the
 * device, which then gets only their numbers. The bits are the same either way. */
#include "train/train.h"

#include <inttypes.h>

enum {
  PART_OF_MEMORY = 4, /* auto: the data may take one part in so many */
  SPARE_PART = 8,     /* auto: of the memory, one part in so many is left */
};

/* Bytes of a step and of the data on the device, for the rank that has most. */
static ls_status_t step_bytes(ls_ctx_t *ctx, const ls_config_t *config, int world_size,
                              const ls_train_room_t *room, int64_t *bytes) {
  ls_step_t step;
  ls_fit_t fit;
  const ls_step_spec_t spec = {.step = ls_config_step(config),
                               .kind = LS_STEP_TRAIN,
                               .world_size = world_size,
                               .data_rows = room->rows,
                               .backend = room->backend};
  ls_status_t status = ls_step_lower(ctx, &spec, &step);
  if (status != LS_OK) return status;
  ls_program_fit(&step.program, &fit);
  *bytes = fit.device_total_bytes;
  ls_step_release(&step);
  return LS_OK;
}

static ls_status_t does_not_fit(ls_ctx_t *ctx, const ls_train_room_t *room, int64_t need_bytes) {
  return ls_fail(ctx, LS_ERR_MEMORY,
                 "data.resident: true: %" PRId64
                 " samples and a step need %.1f MB, but the device has %.1f MB free; "
                 "use data.resident: auto, or raise train.accumulate",
                 room->rows, (double)need_bytes * 1e-6, (double)room->free_bytes * 1e-6);
}

ls_status_t ls_train_resident(ls_ctx_t *ctx, const ls_config_t *config, int world_size,
                              const ls_train_room_t *room, int64_t *data_rows) {
  int mode = config->data.resident;
  bool demanded = mode == LS_RESIDENT_TRUE;
  int64_t bytes = ls_model_samples_bytes(&config->model, room->rows), need_bytes;
  *data_rows = 0;
  if (mode == LS_RESIDENT_FALSE || room->rows < 1 || config->data.kind == LS_DATA_TEXT ||
      ls_data_makes(&config->data))
    return LS_OK;
  if (demanded && room->rows > INT32_MAX)
    return ls_fail(ctx, LS_ERR_CONFIG,
                   "data.resident: true: %" PRId64 " samples are too many for row numbers of 32 bits",
                   room->rows);
  if (demanded && room->free_bytes > 0 && bytes > room->free_bytes) return does_not_fit(ctx, room, bytes);
  if (!demanded &&
      (room->backend->host_memory || room->rows > INT32_MAX || bytes > room->free_bytes / PART_OF_MEMORY))
    return LS_OK;
  if (room->free_bytes > 0) {
    ls_status_t status = step_bytes(ctx, config, world_size, room, &need_bytes);
    if (status != LS_OK) return status;
    int64_t spare_bytes = demanded ? 0 : room->free_bytes / SPARE_PART; /* evaluation has buffers too */
    if (need_bytes > room->free_bytes - spare_bytes)
      return demanded ? does_not_fit(ctx, room, need_bytes) : LS_OK;
  }
  *data_rows = room->rows;
  return LS_OK;
}
