/*
 * Graphs and events.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>

typedef struct {
  void *executable;
  int number;
} graph;

typedef struct {
  void **executable;
  void *description;
} graph_request;

static int call_instantiate(void *context) {
  const graph_request *request = context;
  return rm_cu.cudaGraphInstantiateWithFlags(request->executable, request->description, 0);
}

static int32_t begin_capture(rm_device *device) {
  static _Atomic int last;
  /* Other threads may allocate meanwhile, even with functions that are not allowed in a graph. */
  enum { RELAXED = 2 };
  if (!rm_capture_wait_alone(device->index)) {
    return rm_fail(RM_DEVICE_ERROR, "other threads do not end their calls");
  }
  rm_blas_prepare(device);
  RM_CU(cudaStreamBeginCapture, device->stream, RELAXED);
  atomic_store(&device->graph, atomic_fetch_add(&last, 1) + 1);
  return RM_OK;
}

static int32_t end_capture(rm_device *device, double *numbers) {
  graph *captured = malloc(sizeof *captured);
  if (captured == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a graph");
  const int number = atomic_load(&device->graph);
  if (number == 0) {
    free(captured);
    return rm_fail(RM_BAD_ARGUMENT, "no graph is being captured");
  }
  *captured = (graph){NULL, number};
  void *description = NULL;
  const char *call = "cudaStreamEndCapture";
  int code = rm_cu.cudaStreamEndCapture(device->stream, &description);
  atomic_store(&device->graph, 0);
  rm_capture_leave(device->index);
  if (code == 0) {
    call = "cudaGraphInstantiateWithFlags";
    graph_request request = {&captured->executable, description};
    code = rm_retry_after_release(device, call_instantiate, &request, RM_CUDA_NO_MEMORY);
  }
  if (description != NULL) rm_cu.cudaGraphDestroy(description);
  int32_t status = code == 0 ? RM_OK : rm_cuda_error(call, code);
  if (status == RM_OK) {
    numbers[0] = rm_handle_create(RM_GRAPH, device, captured);
    if (numbers[0] != 0) return RM_OK;
    rm_cu.cudaGraphExecDestroy(captured->executable);
    status = RM_OUT_OF_MEMORY;
  } else {
    rm_cu.cudaGetLastError();
  }
  rm_release_graph_memory(device, number);
  free(captured);
  return status;
}

static int32_t free_graph(rm_device *device, double number) {
  graph *freed = rm_handle_lookup(number, RM_GRAPH, device, true);
  if (freed == NULL) return RM_BAD_ARGUMENT;
  const int code = rm_cu.cudaGraphExecDestroy(freed->executable);
  rm_release_graph_memory(device, freed->number);
  free(freed);
  return code == 0 ? RM_OK : rm_cuda_error("cudaGraphExecDestroy", code);
}

static int32_t record_event(rm_device *device, double *numbers) {
  RM_TRY(rm_cuda_not_capturing(device, "take the time"));
  void *event = NULL;
  RM_CU(cudaEventCreateWithFlags, &event, 0);
  const int code = rm_cu.cudaEventRecord(event, device->stream);
  if (code == 0) numbers[0] = rm_handle_create(RM_EVENT, device, event);
  if (code == 0 && numbers[0] != 0) return RM_OK;
  rm_cu.cudaEventDestroy(event);
  return code == 0 ? RM_OUT_OF_MEMORY : rm_cuda_error("cudaEventRecord", code);
}

static int32_t elapsed(rm_device *device, double *numbers) {
  /* Checked first, so that an invalid call consumes nothing. */
  if (rm_handle_lookup(numbers[0], RM_EVENT, device, false) == NULL ||
      rm_handle_lookup(numbers[1], RM_EVENT, device, false) == NULL) {
    return RM_BAD_ARGUMENT;
  }
  if (numbers[0] == numbers[1]) return rm_fail(RM_BAD_ARGUMENT, "the two events are one");
  void *event = rm_handle_lookup(numbers[0], RM_EVENT, device, true);
  void *later = rm_handle_lookup(numbers[1], RM_EVENT, device, true);
  if (event == NULL || later == NULL) return RM_BAD_ARGUMENT;
  float milliseconds = 0;
  const char *call = "cudaEventSynchronize";
  int code = rm_cu.cudaEventSynchronize(event);
  if (code == 0) code = rm_cu.cudaEventSynchronize(later);
  if (code == 0) {
    call = "cudaEventElapsedTime";
    code = rm_cu.cudaEventElapsedTime(&milliseconds, event, later);
  }
  rm_cu.cudaEventDestroy(event);
  rm_cu.cudaEventDestroy(later);
  if (code != 0) return rm_cuda_error(call, code);
  numbers[0] = milliseconds;
  return RM_OK;
}

int32_t rm_cuda_control_locked(int32_t what, int32_t index, double *numbers) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (what != RM_CUDA_SYNCHRONIZE && what != RM_CUDA_CAPTURE_BEGIN && numbers == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there are no numbers");
  }
  switch (what) {
    case RM_CUDA_SYNCHRONIZE:
      RM_TRY(rm_cuda_not_capturing(device, "wait"));
      RM_CU(cudaStreamSynchronize, device->stream);
      return RM_OK;
    case RM_CUDA_CAPTURE_BEGIN: return begin_capture(device);
    case RM_CUDA_CAPTURE_END: return end_capture(device, numbers);
    case RM_CUDA_GRAPH_LAUNCH: {
      RM_TRY(rm_cuda_not_capturing(device, "launch a graph"));
      const graph *known = rm_handle_lookup(numbers[0], RM_GRAPH, device, false);
      if (known == NULL) return RM_BAD_ARGUMENT;
      RM_CU(cudaGraphLaunch, known->executable, device->stream);
      return RM_OK;
    }
    case RM_CUDA_GRAPH_FREE: return free_graph(device, numbers[0]);
    case RM_CUDA_EVENT_RECORD: return record_event(device, numbers);
    case RM_CUDA_EVENT_ELAPSED: return elapsed(device, numbers);
    default: return rm_fail(RM_BAD_ARGUMENT, "control %d does not exist", what);
  }
}
#endif
