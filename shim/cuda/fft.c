/*
 * Fourier transforms along the rows of matrices by cuFFT, which computes by plans: each device keeps
 * those it has used last.
 */
#if !defined(__APPLE__)
#include "cuda_internal.h"
#include <stdlib.h>

/* From NVIDIA's headers: CUFFT_..., cudaDataType. */
enum { FFT_NO_MEMORY = 2, FFT_INVALID_SIZE = 8, FFT_NOT_IMPLEMENTED = 14, FFT_NOT_SUPPORTED = 16 };
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { FORWARD = -1, INVERSE = 1 };

/* The parts of a call: see rowmajor.h. */
enum { KIND, IS_WIDE, IS_INVERSE, LENGTH, ROWS, STEP_FROM, STEP_TO, FROM, TO };
enum { COMPLEX_TO_COMPLEX, REAL_TO_COMPLEX, COMPLEX_TO_REAL };

/* Everything that determines a plan. Compared byte by byte. */
typedef struct {
  long long length, rows, step_from, step_to, kind, is_wide;
} problem;

typedef struct {
  problem of;
  int plan;
  size_t workspace;
  /* The number of the call that used it last; 0 if there is no plan. */
  uint64_t used;
  /* Whether a graph contains its work, which needs the plan's tables. */
  bool is_captured;
} cached_plan;

enum { PLANS = 32 };

/* The mutex must be locked for every use. */
struct rm_fft_context {
  rm_mutex mutex;
  uint64_t calls;
  cached_plan plans[PLANS];
};

static int32_t fft_error(const char *call, int code) {
  return rm_fail(RM_DEVICE_ERROR, "%s: cuFFT's error %d", call, code);
}

#define RM_FFT(name, ...) \
  do { \
    const int rm_code_ = rm_cu.name(__VA_ARGS__); \
    if (rm_code_ != 0) return fft_error(#name, rm_code_); \
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
  const problem *of;
  int plan;
  size_t workspace;
} plan_request;

static int call_make_plan(void *context) {
  plan_request *request = context;
  problem p = *request->of;
  const int complex = p.is_wide ? C_64F : C_32F, real = p.is_wide ? R_64F : R_32F;
  /* Sizes of memory, of which only the one of the last axis matters, and that only for more axes. */
  long long size = p.length;
  return rm_cu.cufftXtMakePlanMany(request->plan, 1, &size, &size, 1, p.step_from,
                                   p.kind == REAL_TO_COMPLEX ? real : complex, &size, 1, p.step_to,
                                   p.kind == COMPLEX_TO_REAL ? real : complex, p.rows,
                                   &request->workspace, complex);
}

/* Makes a plan whose work runs in the stream and in a given workspace. */
static int32_t make_plan(rm_device *device, const problem *of, cached_plan *made) {
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
    *made = (cached_plan){*of, request.plan, request.workspace, 1, false};
    return RM_OK;
  }
  rm_cu.cufftDestroy(request.plan);
  if (code == FFT_INVALID_SIZE || code == FFT_NOT_IMPLEMENTED || code == FFT_NOT_SUPPORTED) {
    return rm_fail(RM_UNSUPPORTED, "cuFFT has no plan of this length");
  }
  return fft_error(call, code);
}

/* The plan of a problem: a kept one, or a new one in place of the one that was used least recently. */
static int32_t find_plan(rm_device *device, const problem *of, cached_plan **found) {
  rm_fft_context *fft = device->fft;
  cached_plan *oldest = NULL;
  for (int i = 0; i < PLANS; i++) {
    cached_plan *each = &fft->plans[i];
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
  cached_plan made;
  RM_TRY(make_plan(device, of, &made));
  if (oldest->used != 0) rm_cu.cufftDestroy(oldest->plan);
  *oldest = made;
  *found = oldest;
  return RM_OK;
}

static int32_t transform(rm_device *device, const problem *of, const double *call) {
  rm_fft_context *fft = device->fft;
  cached_plan *found;
  RM_TRY(find_plan(device, of, &found));
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
  const int direction = of->kind == REAL_TO_COMPLEX   ? FORWARD
                        : of->kind == COMPLEX_TO_REAL ? INVERSE
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
  return code == 0 ? RM_OK : fft_error(name, code);
}

int32_t rm_cuda_fft_locked(int32_t index, const double *call) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  RM_TRY(rm_cuda_library(RM_CUFFT));
  const problem of = {(long long)call[LENGTH],    (long long)call[ROWS], (long long)call[STEP_FROM],
                      (long long)call[STEP_TO],   (long long)call[KIND], call[IS_WIDE] != 0};
  if (of.rows < 1) return RM_OK;
  if (of.length < 1 || of.kind < COMPLEX_TO_COMPLEX || of.kind > COMPLEX_TO_REAL) {
    return rm_fail(RM_BAD_ARGUMENT, "a transform has a length and a kind");
  }
  rm_mutex_lock(&device->fft->mutex);
  const int32_t status = transform(device, &of, call);
  rm_mutex_unlock(&device->fft->mutex);
  return status;
}
#endif
