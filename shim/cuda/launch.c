/*
 * Launches of kernels.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"

/* What the driver is asked for: it may need memory for a kernel's stack, or a graph. */
typedef struct {
  rm_kernel *kernel;
  const double *call;
  void **extra;
  void *stream;
} wanted_launch;

static int call_launch(void *context) {
  const wanted_launch *wanted = context;
  const double *call = wanted->call;
  return rm_cu.cuLaunchKernel(wanted->kernel->function, (unsigned)call[1], (unsigned)call[2],
                              (unsigned)call[3], (unsigned)call[4], (unsigned)call[5],
                              (unsigned)call[6], 0, wanted->stream, NULL, wanted->extra);
}

int32_t rm_cuda_launch_within(int32_t index, const double *call, const void *arguments) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  rm_kernel *kernel = rm_kernel_of(call[0]);
  if (kernel == NULL || kernel->device != index) {
    return rm_fail(RM_BAD_ARGUMENT, "%.0f is no kernel of CUDA device %d", call[0], index);
  }
  size_t bytes = (size_t)call[7];
  /* CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END. */
  void *extra[] = {(void *)1, (void *)arguments, (void *)2, &bytes, NULL};
  wanted_launch wanted = {kernel, call, bytes == 0 ? NULL : extra, device->stream};
  int code = call_launch(&wanted);
  if (code == RM_CUDA_NO_MEMORY) code = rm_memory_try(device, call_launch, &wanted, code);
  if (code == 0) return RM_OK;
  rm_cuda_error("cuLaunchKernel", code);
  char reason[512];
  rm_last_error(reason, sizeof reason);
  return rm_fail(RM_DEVICE_ERROR, "kernel %s, %.0f x %.0f x %.0f blocks of %.0f x %.0f x %.0f "
                 "threads: %s", kernel->name, call[1], call[2], call[3], call[4], call[5], call[6],
                 reason);
}
#endif
