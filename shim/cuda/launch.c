/*
 * Kernel launches.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"

/* The arguments of a launch. The driver may need memory for the kernel's stack or for a graph. */
typedef struct {
  rm_kernel *kernel;
  const double *call;
  void **extra;
  void *stream;
} launch_request;

static int call_launch(void *context) {
  const launch_request *request = context;
  const double *call = request->call;
  return rm_cu.cuLaunchKernel(request->kernel->function, (unsigned)call[1], (unsigned)call[2],
                              (unsigned)call[3], (unsigned)call[4], (unsigned)call[5],
                              (unsigned)call[6], 0, request->stream, NULL, request->extra);
}

int32_t rm_cuda_launch_locked(int32_t index, const double *call, const void *arguments) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  rm_kernel *kernel = rm_kernel_of(call[0]);
  if (kernel == NULL || kernel->device != index) {
    return rm_fail(RM_BAD_ARGUMENT, "%.0f is no kernel of CUDA device %d", call[0], index);
  }
  size_t bytes = (size_t)call[7];
  /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END. */
  void *extra[] = {(void *)1, (void *)arguments, (void *)2, &bytes, NULL};
  launch_request request = {kernel, call, bytes == 0 ? NULL : extra, device->stream};
  int code = call_launch(&request);
  if (code == RM_CUDA_NO_MEMORY) code = rm_retry_after_release(device, call_launch, &request, code);
  if (code == 0) return RM_OK;
  rm_cuda_error("cuLaunchKernel", code);
  char reason[512];
  rm_last_error(reason, sizeof reason);
  return rm_fail(RM_DEVICE_ERROR, "kernel %s, %.0f x %.0f x %.0f blocks of %.0f x %.0f x %.0f "
                 "threads: %s", kernel->name, call[1], call[2], call[3], call[4], call[5], call[6],
                 reason);
}
#endif
