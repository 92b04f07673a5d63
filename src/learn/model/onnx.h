/* A network for inference in the ONNX format: opset 17, IR version 8. Samples are f32 in the units of the data, the
 * number of them is free; the result is probabilities or values in the units of the data. */
#ifndef LS_MODEL_ONNX_H
#define LS_MODEL_ONNX_H

#include "model/model.h"

/* Source of the numbers. */
typedef struct {
  const float *(*param)(void *user, const char *name); /* in host memory; NULL: there is none of that name */
  void *user;
  /* x' = (x - mean) * scale of features, y = y' / scale + mean of targets (NULL for classes). */
  const double *mean, *target_mean;
  const float *scale, *target_scale;
  /* The file's metadata: "classes", "columns" of a row of x and "targets", each a JSON list of names. Text NULL: it has none. */
  struct {
    const char *key, *text;
  } meta[3];
} ls_onnx_source_t;

/* The whole file (ls_free). LS_ERR_UNSUPPORTED: an op has no form there, or the file would exceed 2 GiB. */
ls_status_t ls_onnx_make(ls_ctx_t *ctx, const ls_model_config_t *model, const ls_onnx_source_t *source,
                         char **bytes, size_t *size);

#endif
