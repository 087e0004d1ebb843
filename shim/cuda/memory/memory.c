/*
 * The entry point of device memory: rm_cuda_memory.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include "pinned.h"

static int32_t report_usage(rm_device *device, double *numbers) {
  size_t left = 0, total = 0;
  RM_CU(cudaMemGetInfo, &left, &total);
  rm_allocator_usage(device, numbers);
  numbers[3] = (double)left;
  numbers[4] = (double)total;
  return RM_OK;
}

static int32_t release(rm_device *device) {
  RM_TRY(rm_cuda_not_capturing(device, "give memory back"));
  RM_CU(cudaStreamSynchronize, device->stream);
  const int code = rm_allocator_release(device);
  rm_pinned_release(device->staging);
  return code == 0 ? RM_OK : rm_cuda_error("cudaFree", code);
}

int32_t rm_cuda_memory_locked(int32_t what, int32_t index, double *numbers, void *host) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  if (numbers == NULL && what != RM_CUDA_RELEASE) {
    return rm_fail(RM_BAD_ARGUMENT, "there are no numbers");
  }
  const bool copies = what == RM_CUDA_UPLOAD || what == RM_CUDA_DOWNLOAD;
  if (copies && numbers[1] == 0) return RM_OK;
  if (copies && host == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no memory of the host");
  }
  switch (what) {
    case RM_CUDA_ALLOCATE: {
      rm_address address = 0;
      const int32_t status = rm_device_alloc(device, numbers[0], &address);
      if (status == RM_OK) numbers[0] = (double)address;
      if (status == RM_OUT_OF_MEMORY) {
        size_t left = 0, total = 0;
        rm_cu.cudaMemGetInfo(&left, &total);
        numbers[1] = (double)left;
        numbers[2] = (double)total;
      }
      return status;
    }
    case RM_CUDA_FREE: return rm_device_free(device, (rm_address)numbers[0]);
    case RM_CUDA_UPLOAD:
      return rm_memory_upload(device, (rm_address)numbers[0],
                              (const char *)host + (size_t)numbers[2], (size_t)numbers[1]);
    case RM_CUDA_DOWNLOAD:
      return rm_memory_download(device, (rm_address)numbers[0], (char *)host + (size_t)numbers[2],
                      (size_t)numbers[1]);
    case RM_CUDA_COPY: return rm_memory_copy(device, numbers);
    case RM_CUDA_ZERO:
      if (numbers[1] == 0) return RM_OK;
      RM_CU(cudaMemsetAsync, (void *)(uintptr_t)numbers[0], 0, (size_t)numbers[1],
            device->stream);
      return RM_OK;
    case RM_CUDA_USAGE: return report_usage(device, numbers);
    case RM_CUDA_RELEASE: return release(device);
    case RM_CUDA_BEGIN_READ:
      return rm_read_begin(device, (rm_address)numbers[0], (size_t)numbers[1], numbers);
    case RM_CUDA_END_READ: return rm_read_end(device, numbers, host);
    default: return rm_fail(RM_BAD_ARGUMENT, "memory %d does not exist", what);
  }
}
#endif
