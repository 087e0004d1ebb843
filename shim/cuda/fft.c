/*
 * Fourier transforms along the rows of matrices by cuFFT.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"

enum { FORWARD = -1, INVERSE = 1 };

/* The parts of a call: see rowmajor.h. */
enum { KIND, IS_WIDE, IS_INVERSE, LENGTH, ROWS, STEP_FROM, STEP_TO, FROM, TO };

static int32_t transform(rm_device *device, const rm_fft_problem *of, const double *call) {
  rm_fft_context *fft = device->fft;
  rm_fft_plan *found;
  RM_TRY(rm_fft_find(device, of, &found));
  found->used = ++fft->calls;
  if (atomic_load(&device->graph) != 0) found->is_captured = true;
  rm_address workspace = 0;
  if (found->workspace > 0) {
    RM_TRY(rm_device_alloc(device, (double)found->workspace, &workspace));
  }
  const char *name = "cufftSetWorkArea";
  int code = workspace == 0
                 ? 0
                 : rm_cu.cufftSetWorkArea(found->plan, (void *)(uintptr_t)workspace);
  /* The other directions of real numbers are made of these by conjugates. */
  const int direction = of->kind == RM_REAL_TO_COMPLEX   ? FORWARD
                        : of->kind == RM_COMPLEX_TO_REAL ? INVERSE
                        : call[IS_INVERSE] != 0       ? INVERSE
                                                      : FORWARD;
  if (code == 0) {
    name = "cufftXtExec";
    code = rm_cu.cufftXtExec(found->plan, (void *)(uintptr_t)(rm_address)call[FROM],
                             (void *)(uintptr_t)(rm_address)call[TO],
                             direction);
  }
  /* The device runs this work before any later use of the memory. */
  if (workspace != 0) rm_device_free(device, workspace);
  return code == 0 ? RM_OK : rm_fft_error(name, code);
}

int32_t rm_cuda_fft_locked(int32_t index, const double *call) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  RM_TRY(rm_cuda_library(RM_CUFFT));
  const rm_fft_problem of = {(long long)call[LENGTH],    (long long)call[ROWS], (long long)call[STEP_FROM],
                      (long long)call[STEP_TO],   (long long)call[KIND], call[IS_WIDE] != 0};
  if (of.rows < 1) return RM_OK;
  if (of.length < 1 || of.kind < RM_COMPLEX_TO_COMPLEX || of.kind > RM_COMPLEX_TO_REAL) {
    return rm_fail(RM_BAD_ARGUMENT, "a transform has a length and a kind");
  }
  rm_mutex_lock(&device->fft->mutex);
  const int32_t status = transform(device, &of, call);
  rm_mutex_unlock(&device->fft->mutex);
  return status;
}
#endif
