/* A step as one CUDA graph: everything put on a stream between begin and end, on it and on streams that join
 * it through events, becomes one launch. */
#include "device/cuda/cuda.h"

/* Relaxed: loading a kernel on first use, or NCCL's set-up, may make calls that the stricter modes forbid.
 * None of them belongs to the step, so none has to be captured. */
static ls_status_t begin(ls_stream_t *stream) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_status_t status = ls_cuda_stream_status(s);
  if (status) return status;
  return ls_cuda_check(stream->device->ctx, cudaStreamBeginCapture(s->handle, cudaStreamCaptureModeRelaxed),
                       "capturing a step");
}

/* Nodes keep the priorities of the streams from which they were captured: without the flag all would have the priority of
 * the stream on which the graph is launched. Ends the capture in any case, even if something has failed on the way. */
static ls_status_t end(ls_stream_t *stream, ls_exec_t **exec) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_ctx_t *ctx = stream->device->ctx;
  cudaGraph_t graph = NULL;
  cudaError_t error = cudaStreamEndCapture(s->handle, &graph);
  ls_status_t status = ls_cuda_stream_status(s);
  if (status == LS_OK) status = ls_cuda_check(ctx, error, "ending the capture of a step");
  if (status) goto graph;
  ls_exec_t *e = ls_alloc(ctx, sizeof *e);
  status = LS_ERR_MEMORY;
  if (!e) goto graph;
  e->device = stream->device;
  status =
      ls_cuda_check(ctx, cudaGraphInstantiate(&e->handle, graph, cudaGraphInstantiateFlagUseNodePriority),
                    "instantiating the step's graph");
  if (status) goto exec;
  status = ls_cuda_check(ctx, cudaGraphUpload(e->handle, s->handle), "uploading the step's graph");
  if (status) goto instance;
  (void)cudaGraphDestroy(graph);
  *exec = e;
  return LS_OK;
instance:
  (void)cudaGraphExecDestroy(e->handle);
exec:
  ls_free(e);
graph:
  if (graph) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  return status;
}

static ls_status_t launch(ls_exec_t *exec, ls_stream_t *stream) {
  ls_cuda_stream_t *s = ls_cuda_stream(stream);
  ls_status_t status = ls_cuda_stream_status(s);
  if (status) return status;
  return ls_cuda_stream_keep(
      s, ls_cuda_check(stream->device->ctx, cudaGraphLaunch(exec->handle, s->handle), "launching a step"));
}

static void destroy(ls_exec_t *exec) {
  if (!exec) return;
  (void)cudaGraphExecDestroy(exec->handle);
  (void)cudaGetLastError();
  ls_free(exec);
}

const ls_capture_ops_t ls_cuda_capture_ops = {
    .begin = begin, .end = end, .launch = launch, .destroy = destroy};
