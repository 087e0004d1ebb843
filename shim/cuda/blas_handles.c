/*
 * The resources of matrix products per device: handles of cuBLAS and cublasLt, and a workspace.
 */
#if !defined(__APPLE__)
#include "cuda_blas.h"
#include <stdlib.h>

int32_t rm_blas_error(const char *call, int code) {
  static const char *const names[] = {
      [1] = "NOT_INITIALIZED", [3] = "ALLOC_FAILED",      [7] = "INVALID_VALUE",
      [8] = "ARCH_MISMATCH",   [11] = "MAPPING_ERROR",    [13] = "EXECUTION_FAILED",
      [14] = "INTERNAL_ERROR", [15] = "NOT_SUPPORTED",    [16] = "LICENSE_ERROR"};
  const bool known = code > 0 && code <= 16 && names[code] != NULL;
  return rm_fail(RM_DEVICE_ERROR, "%s: CUBLAS_STATUS_%s (%d)", call,
                 known ? names[code] : "unknown", code);
}

#define RM_BLAS(name, ...) \
  do { \
    const int rm_code_ = rm_cu.name(__VA_ARGS__); \
    if (rm_code_ != 0) return rm_blas_error(#name, rm_code_); \
  } while (0)

typedef struct {
  void *handle;
  int code;
} handle_request;

/* cuBLAS may report that it is not initialized when its own allocation has failed. */
static int call_create(void *context) {
  handle_request *request = context;
  request->code = rm_cu.cublasCreate_v2(&request->handle);
  return request->code == BLAS_NOT_INITIALIZED ? BLAS_NO_MEMORY : request->code;
}

int32_t rm_blas_initialize(rm_device *device) {
  /* Keeps partial sums of 16-bit results in float32. */
  enum { NO_REDUCED_SUMS = 16 };
  rm_blas_context *blas = device->blas;
  if (blas->workspace == NULL) {
    RM_TRY(rm_device_alloc_uncached(device, WORKSPACE_BYTES, &blas->workspace));
  }
  if (blas->lt_handle == NULL) RM_BLAS(cublasLtCreate, &blas->lt_handle);
  if (blas->is_configured) return RM_OK;
  if (blas->handle == NULL) {
    handle_request request = {NULL, 0};
    const int code = rm_retry_after_release(device, call_create, &request, BLAS_NO_MEMORY);
    if (code != 0) return rm_blas_error("cublasCreate_v2", request.code);
    blas->handle = request.handle;
  }
  RM_BLAS(cublasSetStream_v2, blas->handle, device->stream);
  RM_BLAS(cublasSetWorkspace_v2, blas->handle, blas->workspace, WORKSPACE_BYTES);
  RM_BLAS(cublasSetMathMode, blas->handle, NO_REDUCED_SUMS);
  blas->is_configured = true;
  return RM_OK;
}

void rm_blas_prepare(rm_device *device) {
  if (rm_cuda_library(RM_CUBLAS) != RM_OK) return;
  rm_mutex_lock(&device->blas->mutex);
  rm_blas_initialize(device);
  rm_mutex_unlock(&device->blas->mutex);
}

int32_t rm_blas_create(rm_device *device) {
  if (device->blas == NULL) {
    device->blas = calloc(1, sizeof *device->blas);
    if (device->blas == NULL) {
      return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
    }
    device->blas->mutex = (rm_mutex)RM_MUTEX_INIT;
  }
  return RM_OK;
}
#endif
