/*
 * Opens CUDA devices and selects one for a call.
 *
 * Each device has one non-blocking stream, on which all its work is queued.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"

/* Locked while devices are initialized. */
static rm_mutex mutex = RM_MUTEX_INIT;
static rm_device devices[RM_MAX_DEVICES];
/* Which devices are initialized. */
static _Atomic bool is_ready[RM_MAX_DEVICES];
static _Atomic int device_count;
/* The devices that this thread has used, as bits. */
static _Thread_local uint64_t used_devices;

int32_t rm_cuda_open_devices(const void *folder, double *numbers) {
  RM_TRY(rm_cuda_open_runtime(folder));
  if (atomic_load(&device_count) == 0) {
    int count = 0;
    const int code = rm_cu.cudaGetDeviceCount(&count);
    if (code != 0) {
      return rm_fail(RM_NOT_FOUND, "no usable CUDA device: cudaGetDeviceCount: %s (%d): %s",
                     rm_cu.cudaGetErrorName(code), code, rm_cu.cudaGetErrorString(code));
    }
    if (count == 0) return rm_fail(RM_NOT_FOUND, "there is a driver, but no CUDA device");
    atomic_store(&device_count, count < RM_MAX_DEVICES ? count : RM_MAX_DEVICES);
  }
  if (numbers == NULL) return RM_OK;
  int version = 0;
  RM_CU(cudaRuntimeGetVersion, &version);
  numbers[0] = atomic_load(&device_count);
  numbers[1] = rm_cuda_driver_version();
  numbers[2] = version;
  return RM_OK;
}

int32_t rm_cuda_check_index(int32_t index) {
  if (atomic_load_explicit(&device_count, memory_order_acquire) == 0) {
    RM_TRY(rm_cuda_open_devices(NULL, NULL));
  }
  const int count = atomic_load(&device_count);
  if (index < 0 || index >= count) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no CUDA device %d: the first is 0, and there %s %d",
                   index, count == 1 ? "is" : "are", count);
  }
  return RM_OK;
}

int32_t rm_cuda_capability(int32_t index, int *capability) {
  /* Device attributes, as numbered by the runtime. */
  enum { MAJOR = 75, MINOR = 76 };
  int major, minor;
  RM_CU(cudaDeviceGetAttribute, &major, MAJOR, index);
  RM_CU(cudaDeviceGetAttribute, &minor, MINOR, index);
  *capability = major * 10 + minor;
  return RM_OK;
}

static int32_t prepare(rm_device *device) {
  RM_TRY(rm_cuda_capability(device->index, &device->capability));
  enum { NON_BLOCKING = 1 };
  if (device->stream == NULL) RM_CU(cudaStreamCreateWithFlags, &device->stream, NON_BLOCKING);
  RM_TRY(rm_allocator_create(device));
  RM_TRY(rm_staging_create(device));
  RM_TRY(rm_blas_create(device));
  return rm_fft_create(device);
}

int32_t rm_cuda_use(int32_t index, rm_device **device) {
  const bool known = index >= 0 && index < RM_MAX_DEVICES &&
                     atomic_load_explicit(&is_ready[index], memory_order_acquire);
  if (!known) RM_TRY(rm_cuda_check_index(index));
  if (used_devices & 1ull << index) {
    /* Other code that uses CUDA may have selected another device since. After a fatal error, calls
     * that need the device report it; memory can still be freed. */
    const int code = rm_cu.cudaSetDevice(index);
    if (code != 0 && !rm_cuda_is_fatal(code)) return rm_cuda_error("cudaSetDevice", code);
  } else {
    RM_CU(cudaSetDevice, index);
    /* Older runtimes make the context current only in the first call that needs it. */
    RM_CU(cudaFree, NULL);
    used_devices |= 1ull << index;
  }
  *device = &devices[index];
  if (known) return RM_OK;
  rm_mutex_lock(&mutex);
  int32_t status = RM_OK;
  if (!atomic_load(&is_ready[index])) {
    devices[index].index = index;
    status = prepare(&devices[index]);
    if (status == RM_OK) atomic_store_explicit(&is_ready[index], true, memory_order_release);
  }
  rm_mutex_unlock(&mutex);
  return status;
}

int32_t rm_cuda_not_capturing(const rm_device *device, const char *what) {
  if (atomic_load(&device->graph) == 0) return RM_OK;
  return rm_fail(RM_BAD_ARGUMENT, "cannot %s while a graph is being captured: do it before", what);
}
#endif
