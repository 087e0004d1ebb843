/*
 * The plans by which cuFFT computes: each device keeps those it has used last.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>

/* From NVIDIA's headers: CUFFT_..., cudaDataType. */
enum { FFT_NO_MEMORY = 2, FFT_INVALID_SIZE = 8, FFT_NOT_IMPLEMENTED = 14, FFT_NOT_SUPPORTED = 16 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };

int32_t rm_fft_error(const char *call, int code) {
  return rm_fail(RM_DEVICE_ERROR, "%s: cuFFT's error %d", call, code);
}

#define RM_FFT(name, ...) \
  do { \
    const int rm_code_ = rm_cu.name(__VA_ARGS__); \
    if (rm_code_ != 0) return rm_fft_error(#name, rm_code_); \
  } while (0)

int32_t rm_fft_create(rm_device *device) {
  if (device->fft == NULL) {
    device->fft = calloc(1, sizeof *device->fft);
    if (device->fft == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a device");
    device->fft->mutex = (rm_mutex)RM_MUTEX_INIT;
  }
  return RM_OK;
}

/* A plan of a problem, to be made. */
typedef struct {
  const rm_fft_problem *of;
  int plan;
  size_t workspace;
} plan_request;

static int call_make_plan(void *context) {
  plan_request *request = context;
  rm_fft_problem p = *request->of;
  const int complex = p.is_wide ? C_64F : C_32F, real = p.is_wide ? R_64F : R_32F;
  /* Sizes of memory, of which only the one of the last axis matters, and that only for more axes. */
  long long size = p.length;
  return rm_cu.cufftXtMakePlanMany(request->plan, 1, &size, &size, 1, p.step_from,
                                   p.kind == RM_REAL_TO_COMPLEX ? real : complex, &size, 1, p.step_to,
                                   p.kind == RM_COMPLEX_TO_REAL ? real : complex, p.rows,
                                   &request->workspace, complex);
}

/* Makes a plan whose work runs in the stream and in a given workspace. */
static int32_t make_plan(rm_device *device, const rm_fft_problem *of, rm_fft_plan *made) {
  plan_request request = {of, 0, 0};
  RM_FFT(cufftCreate, &request.plan);
  const char *call = "cufftSetAutoAllocation";
  int code = rm_cu.cufftSetAutoAllocation(request.plan, 0);
  if (code == 0) {
    call = "cufftXtMakePlanMany";
    code = rm_retry_after_release(device, call_make_plan, &request, FFT_NO_MEMORY);
  }
  if (code == 0) {
    call = "cufftSetStream";
    code = rm_cu.cufftSetStream(request.plan, device->stream);
  }
  if (code == 0) {
    *made = (rm_fft_plan){*of, request.plan, request.workspace, 1, false};
    return RM_OK;
  }
  rm_cu.cufftDestroy(request.plan);
  if (code == FFT_INVALID_SIZE || code == FFT_NOT_IMPLEMENTED || code == FFT_NOT_SUPPORTED) {
    return rm_fail(RM_UNSUPPORTED, "cuFFT has no plan of this length");
  }
  return rm_fft_error(call, code);
}

int32_t rm_fft_find(rm_device *device, const rm_fft_problem *of, rm_fft_plan **found) {
  rm_fft_context *fft = device->fft;
  rm_fft_plan *oldest = NULL;
  for (int i = 0; i < RM_FFT_PLANS; i++) {
    rm_fft_plan *each = &fft->plans[i];
    if (each->used != 0 && memcmp(&each->of, of, sizeof *of) == 0) {
      *found = each;
      return RM_OK;
    }
    if (!each->is_captured && (oldest == NULL || each->used < oldest->used)) oldest = each;
  }
  if (atomic_load(&device->graph) != 0) {
    return rm_fail(RM_BAD_ARGUMENT, "cannot plan a Fourier transform while a graph is being "
                                    "captured: do it before");
  }
  if (oldest == NULL) return rm_fail(RM_UNSUPPORTED, "graphs use all plans of transforms");
  rm_fft_plan made;
  RM_TRY(make_plan(device, of, &made));
  if (oldest->used != 0) rm_cu.cufftDestroy(oldest->plan);
  *oldest = made;
  *found = oldest;
  return RM_OK;
}
#endif
