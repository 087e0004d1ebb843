/*
 * Linear algebra on CUDA devices by cuSOLVER, and by the batched functions of cuBLAS.
 *
 * Matrices are dense and column-major. Each step is for a batch: by one call if the library has a
 * function of batches, else by a call for each matrix.
 */
#if !defined(__APPLE__)
#include "cuda_blas.h"
#include <stdlib.h>

/* The parts of a call: see rowmajor.h. */
enum { STEP, TYPE, M, N, K, BATCH, FLAGS, A, STEP_A, B, C, D, FAILED };

/* From NVIDIA's headers: cudaDataType, cublasSideMode_t, CUSOLVER_STATUS_.... */
enum { R_32F = 0, R_64F = 1, C_32F = 4, C_64F = 5 };
enum { SIDE_RIGHT = 1 };
enum { SOLVER_NOT_INITIALIZED = 1, SOLVER_NO_MEMORY = 2 };

static const int types[4] = {R_32F, R_64F, C_32F, C_64F}, reals[4] = {R_32F, R_64F, R_32F, R_64F};
static const size_t sizes[4] = {4, 8, 8, 16};
/* 1 as each type: a complex number has a second part, 0. */
static const float one_f32[2] = {1, 0};
static const double one_f64[2] = {1, 0};

static const char *const names[] = {"",      "getrf", "getrs", "potrf", "geqrf",
                                    "orgqr", "syevd", "gesvd", "trsm"};

/* A call, and the memory that it works with. */
typedef struct {
  rm_blas_context *with;
  int step, kind, type, flags;
  int64_t m, n, k, batch;
  char *a, *b, *c, *d;
  size_t step_a;
  /* The codes of the matrices, and lists of addresses, on the device. */
  int *info;
  void **list_a, **list_c;
  void *work, *host;
  size_t bytes, host_bytes;
} solver_call;

static int32_t failed(const solver_call *s, int code) {
  const bool batched = (s->flags & RM_CUDA_LINALG_BATCHED) != 0;
  return s->step == RM_CUDA_LINALG_TRIANGULAR || (batched && s->step != RM_CUDA_LINALG_CHOLESKY)
             ? rm_blas_error(names[s->step], code)
             : rm_fail(RM_DEVICE_ERROR, "%s: cuSOLVER's error %d", names[s->step], code);
}

/* One matrix; with `asks`, the bytes of the workspace. */
static int run_one(solver_call *s, int64_t i, bool asks) {
  void *const handle = s->with->solver, *const params = s->with->solver_params;
  const int type = s->type, real = reals[s->kind], flags = s->flags;
  const int64_t m = s->m, n = s->n, k = s->k;
  const size_t size = sizes[s->kind], real_size = sizes[s->kind & 1];
  const int64_t least = m < n ? m : n;
  const int upper = (flags & RM_CUDA_LINALG_UPPER) != 0;
  const int vectors = (flags & RM_CUDA_LINALG_VECTORS) != 0;
  char *a = s->a + (size_t)i * s->step_a * size;
  int *info = s->info + i;
  switch (s->step) {
    case RM_CUDA_LINALG_LU: {
      if (asks) {
        return rm_cu.cusolverDnXgetrf_bufferSize(handle, params, m, n, type, a, m, type, &s->bytes,
                                                 &s->host_bytes);
      }
      int64_t *pivots = (int64_t *)(void *)s->b + i * least;
      return rm_cu.cusolverDnXgetrf(handle, params, m, n, type, a, m, pivots, type, s->work,
                                    s->bytes, s->host, s->host_bytes, info);
    }
    case RM_CUDA_LINALG_SOLVE:
      return asks ? 0
                  : rm_cu.cusolverDnXgetrs(handle, params, (flags & RM_CUDA_LINALG_TRANSPOSED) != 0,
                                           n, k, type, a, n, (int64_t *)(void *)s->b + i * n, type,
                                           s->c + (size_t)(i * n * k) * size, n, info);
    case RM_CUDA_LINALG_CHOLESKY:
      return asks ? rm_cu.cusolverDnXpotrf_bufferSize(handle, params, upper, n, type, a, n, type,
                                                      &s->bytes, &s->host_bytes)
                  : rm_cu.cusolverDnXpotrf(handle, params, upper, n, type, a, n, type, s->work,
                                           s->bytes, s->host, s->host_bytes, info);
    case RM_CUDA_LINALG_QR: {
      char *tau = s->b + (size_t)(i * least) * size;
      return asks ? rm_cu.cusolverDnXgeqrf_bufferSize(handle, params, m, n, type, a, m, type, tau,
                                                      type, &s->bytes, &s->host_bytes)
                  : rm_cu.cusolverDnXgeqrf(handle, params, m, n, type, a, m, type, tau, type,
                                           s->work, s->bytes, s->host, s->host_bytes, info);
    }
    case RM_CUDA_LINALG_MAKE_Q: {
      char *tau = s->b + (size_t)(i * k) * size;
      int count = 0;
      if (!asks) {
        return rm_cu.cusolver_orgqr[s->kind](handle, (int)m, (int)n, (int)k, a, (int)m, tau,
                                             s->work, (int)(s->bytes / size), info);
      }
      const int code = rm_cu.cusolver_orgqr_bufferSize[s->kind](handle, (int)m, (int)n, (int)k, a,
                                                                (int)m, tau, &count);
      s->bytes = (size_t)count * size;
      return code;
    }
    case RM_CUDA_LINALG_EIGH: {
      char *w = s->b + (size_t)(i * n) * real_size;
      return asks ? rm_cu.cusolverDnXsyevd_bufferSize(handle, params, vectors, upper, n, type, a, n,
                                                      real, w, type, &s->bytes, &s->host_bytes)
                  : rm_cu.cusolverDnXsyevd(handle, params, vectors, upper, n, type, a, n, real, w,
                                           type, s->work, s->bytes, s->host, s->host_bytes, info);
    }
    case RM_CUDA_LINALG_SVD: {
      const bool full = (flags & RM_CUDA_LINALG_FULL) != 0;
      const signed char job = !vectors ? 'N' : full ? 'A' : 'S';
      char *values = s->b + (size_t)(i * n) * real_size;
      char *u = s->c == NULL ? NULL : s->c + (size_t)(i * m * (full ? m : n)) * size;
      char *vt = s->d == NULL ? NULL : s->d + (size_t)(i * n * n) * size;
      return asks ? rm_cu.cusolverDnXgesvd_bufferSize(handle, params, job, job, m, n, type, a, m,
                                                      real, values, type, u, m, type, vt, n, type,
                                                      &s->bytes, &s->host_bytes)
                  : rm_cu.cusolverDnXgesvd(handle, params, job, job, m, n, type, a, m, real,
                                           values, type, u, m, type, vt, n, type, s->work,
                                           s->bytes, s->host, s->host_bytes, info);
    }
    default:
      /* x a = c from the right: the rows of a row-major system. */
      return asks ? 0
                  : rm_cu.cublas_trsm[s->kind](
                        s->with->handle, SIDE_RIGHT, upper, 0,
                        (flags & RM_CUDA_LINALG_UNIT) != 0, (int)k, (int)n,
                        s->kind & 1 ? (const void *)one_f64 : one_f32, a, (int)n,
                        s->c + (size_t)(i * n * k) * size, (int)k);
  }
}

/* A whole batch in one call. */
static int run_batched(solver_call *s) {
  void *const blas = s->with->handle;
  const int n = (int)s->n, k = (int)s->k, batch = (int)s->batch, kind = s->kind;
  const int upper = (s->flags & RM_CUDA_LINALG_UPPER) != 0;
  int ignored = 0;
  switch (s->step) {
    case RM_CUDA_LINALG_LU:
      return rm_cu.cublas_getrfBatched[kind](blas, n, s->list_a, n, (int *)(void *)s->b, s->info,
                                             batch);
    case RM_CUDA_LINALG_SOLVE:
      /* This code is on the host, and about arguments. */
      return rm_cu.cublas_getrsBatched[kind](blas, (s->flags & RM_CUDA_LINALG_TRANSPOSED) != 0, n,
                                             k, s->list_a, n, (const int *)(void *)s->b, s->list_c,
                                             n, &ignored, batch);
    case RM_CUDA_LINALG_CHOLESKY:
      return rm_cu.cusolver_potrfBatched[kind](s->with->solver, upper, n, s->list_a, n, s->info,
                                               batch);
    default:
      return rm_cu.cublas_trsmBatched[kind](blas, SIDE_RIGHT, upper, 0,
                                            (s->flags & RM_CUDA_LINALG_UNIT) != 0, k, n,
                                            kind & 1 ? (const void *)one_f64 : one_f32, s->list_a,
                                            n, s->list_c, k, batch);
  }
}

static int call_create(void *context) {
  rm_blas_context *with = context;
  const int code = rm_cu.cusolverDnCreate(&with->solver);
  return code == SOLVER_NOT_INITIALIZED ? SOLVER_NO_MEMORY : code;
}

/* Makes the handles of a device. The mutex is locked. */
static int32_t initialize(rm_device *device) {
  rm_blas_context *with = device->blas;
  RM_TRY(rm_blas_initialize(device));
  if (with->solver_is_ready) return RM_OK;
  const char *call = "cusolverDnCreate";
  int code = with->solver != NULL
                 ? 0
                 : rm_retry_after_release(device, call_create, with, SOLVER_NO_MEMORY);
  if (code == 0 && with->solver_params == NULL) {
    call = "cusolverDnCreateParams";
    code = rm_cu.cusolverDnCreateParams(&with->solver_params);
  }
  if (code == 0) {
    call = "cusolverDnSetStream";
    code = rm_cu.cusolverDnSetStream(with->solver, device->stream);
  }
  if (code != 0) return rm_fail(RM_DEVICE_ERROR, "%s: cuSOLVER's error %d", call, code);
  with->solver_is_ready = true;
  return RM_OK;
}

/* Fills the lists of addresses. */
static int32_t list_matrices(rm_device *device, solver_call *s) {
  const size_t size = sizes[s->kind];
  const int64_t batch = s->batch;
  void **list = malloc(2 * (size_t)batch * sizeof *list);
  if (list == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for a batch");
  for (int64_t i = 0; i < batch; i++) {
    list[i] = s->a + (size_t)i * s->step_a * size;
    list[batch + i] = s->c == NULL ? NULL : s->c + (size_t)(i * s->n * s->k) * size;
  }
  const int32_t status = rm_memory_upload(device, (rm_address)(uintptr_t)s->list_a, list,
                                          2 * (size_t)batch * sizeof *list);
  free(list);
  return status;
}

/* Finds the first matrix with a code. Waits for the device. */
static int32_t check_info(rm_device *device, solver_call *s, int *info, double *call) {
  const size_t bytes = (size_t)s->batch * sizeof *info;
  RM_TRY(rm_memory_download(device, (rm_address)(uintptr_t)s->info, (char *)info, bytes));
  for (int64_t i = 0; i < s->batch; i++) {
    if (info[i] < 0) {
      return rm_fail(RM_DEVICE_ERROR, "%s refuses its argument %d", names[s->step], -info[i]);
    }
    if (info[i] > 0 && call[FAILED] < 0) call[FAILED] = (double)i;
  }
  return RM_OK;
}

/* Runs the step with memory for codes, lists and the workspace. */
static int32_t run_step(rm_device *device, solver_call *s, double *call) {
  const bool batched = (s->flags & RM_CUDA_LINALG_BATCHED) != 0;
  if (!batched) {
    const int code = run_one(s, 0, true);
    if (code != 0) return failed(s, code);
  }
  const size_t lists = (size_t)s->batch * 2 * sizeof(void *);
  const size_t codes = (size_t)s->batch * sizeof(int);
  /* Codes that no function writes are 0. */
  int *info = calloc((size_t)s->batch, sizeof *info);
  s->host = malloc(s->host_bytes + 1);
  rm_address memory = 0, work = 0;
  int32_t status = info == NULL || s->host == NULL
                       ? rm_fail(RM_OUT_OF_MEMORY, "no memory of the host for linear algebra")
                       : rm_device_alloc(device, (double)(lists + codes), &memory);
  if (status == RM_OK && s->bytes > 0) status = rm_device_alloc(device, (double)s->bytes, &work);
  if (status == RM_OK) {
    s->list_a = (void **)(uintptr_t)memory;
    s->list_c = s->list_a + s->batch;
    s->info = (int *)(uintptr_t)(memory + lists);
    s->work = (void *)(uintptr_t)work;
    status = rm_memory_upload(device, memory + lists, info, codes);
  }
  if (status == RM_OK && batched) status = list_matrices(device, s);
  if (status == RM_OK) {
    int code = batched ? run_batched(s) : 0;
    for (int64_t i = 0; !batched && i < s->batch && code == 0; i++) code = run_one(s, i, false);
    if (code != 0) status = failed(s, code);
    /* The codes of solutions are about arguments. The work of other matrices may still use the
     * host's memory, also after a failure. */
    const bool waits = s->host_bytes > 0 || (s->step != RM_CUDA_LINALG_TRIANGULAR &&
                                             s->step != RM_CUDA_LINALG_SOLVE);
    if (status == RM_OK && waits) status = check_info(device, s, info, call);
    else if (s->host_bytes > 0) rm_cu.cudaStreamSynchronize(device->stream);
  }
  /* The device runs this work before any later use of the memory. */
  if (work != 0) rm_device_free(device, work);
  if (memory != 0) rm_device_free(device, memory);
  free(s->host);
  free(info);
  return status;
}

static char *pointer(double address) { return (char *)(uintptr_t)(rm_address)address; }

int32_t rm_cuda_linalg_locked(int32_t index, double *call) {
  rm_device *device;
  RM_TRY(rm_cuda_use(index, &device));
  RM_TRY(rm_cuda_not_capturing(device, "run linear algebra"));
  RM_TRY(rm_cuda_library(RM_CUSOLVER));
  RM_TRY(rm_cuda_library(RM_CUBLAS));
  const int step = (int)call[STEP], kind = (int)call[TYPE];
  if (step == 0) return RM_OK;
  call[FAILED] = -1;
  if (step < 0 || step > RM_CUDA_LINALG_TRIANGULAR || kind < 0 || kind > 3 || !(call[BATCH] >= 1) ||
      !(call[N] >= 1)) {
    return rm_fail(RM_BAD_ARGUMENT, "linear algebra has steps, four types, and matrices");
  }
  solver_call s = {.with = device->blas,
                   .step = step,
                   .kind = kind,
                   .type = types[kind],
                   .flags = (int)call[FLAGS],
                   .m = (int64_t)call[M],
                   .n = (int64_t)call[N],
                   .k = (int64_t)call[K],
                   .batch = (int64_t)call[BATCH],
                   .a = pointer(call[A]),
                   .b = pointer(call[B]),
                   .c = pointer(call[C]),
                   .d = pointer(call[D]),
                   .step_a = (size_t)call[STEP_A]};
  rm_mutex_lock(&device->blas->mutex);
  int32_t status = initialize(device);
  if (status == RM_OK) status = run_step(device, &s, call);
  rm_mutex_unlock(&device->blas->mutex);
  return status;
}
#endif
