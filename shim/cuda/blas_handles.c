/*
 * What a device needs for matrix products: handles of cuBLAS and cublasLt, and a workspace.
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
} wanted_handle;

/* cuBLAS may say that it is not initialized where its own memory was refused. */
static int call_create(void *context) {
  wanted_handle *wanted = context;
  wanted->code = rm_cu.cublasCreate_v2(&wanted->handle);
  return wanted->code == BLAS_NOT_INITIALIZED ? BLAS_NO_MEMORY : wanted->code;
}

int32_t rm_products_make(rm_device *device) {
  /* Partial sums of 16-bit results stay float32. */
  enum { NO_REDUCED_SUMS = 16 };
  rm_products *of = device->products;
  if (of->workspace == NULL) RM_TRY(rm_memory_raw(device, WORKSPACE, &of->workspace));
  if (of->lt_handle == NULL) RM_BLAS(cublasLtCreate, &of->lt_handle);
  if (of->ready) return RM_OK;
  if (of->handle == NULL) {
    wanted_handle wanted = {NULL, 0};
    const int code = rm_memory_try(device, call_create, &wanted, BLAS_NO_MEMORY);
    if (code != 0) return rm_blas_error("cublasCreate_v2", wanted.code);
    of->handle = wanted.handle;
  }
  RM_BLAS(cublasSetStream_v2, of->handle, device->stream);
  RM_BLAS(cublasSetWorkspace_v2, of->handle, of->workspace, WORKSPACE);
  RM_BLAS(cublasSetMathMode, of->handle, NO_REDUCED_SUMS);
  of->ready = true;
  return RM_OK;
}

void rm_products_prepare(rm_device *device) {
  if (rm_cuda_library(RM_CUBLAS) != RM_OK) return;
  rm_mutex_lock(&device->products->lock);
  rm_products_make(device);
  rm_mutex_unlock(&device->products->lock);
}

int32_t rm_products_begin(rm_device *device) {
  if (device->products == NULL) {
    device->products = calloc(1, sizeof *device->products);
    if (device->products == NULL) {
      return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
    }
    device->products->lock = (rm_mutex)RM_MUTEX_INIT;
  }
  return RM_OK;
}
#endif
