/*
 * The resources of matrix products per device.
 */
#ifndef ROWMAJOR_CUDA_BLAS_H
#define ROWMAJOR_CUDA_BLAS_H

#include "cuda_internal.h"

/* From NVIDIA's headers: CUBLAS_STATUS_... */
enum { BLAS_NOT_INITIALIZED = 1, BLAS_NO_MEMORY = 3, BLAS_INVALID_VALUE = 7,
       BLAS_ARCH_MISMATCH = 8, BLAS_NOT_SUPPORTED = 15 };

/* The size of the workspace. */
static const size_t WORKSPACE_BYTES = 32 << 20;

/* Everything that determines the choice of an algorithm. Compared byte by byte. */
typedef struct {
  int64_t rows, columns, inner, leading[3], batch, step[3];
  int32_t type, compute, transposed[2], epilogue, alignment[4], reserved;
} lt_problem;

/* cublasLtMatmulHeuristicResult_t. */
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_algorithm;

enum { CACHED_ALGORITHMS = 1024 };

/* The resources of one device. The mutex must be locked for every use. */
struct rm_blas_context {
  rm_mutex mutex;
  void *handle, *lt_handle, *workspace;
  /* Whether the handle is fully configured. */
  bool is_configured;
  /* cuSOLVER, made by the first call that needs it. */
  void *solver, *solver_params;
  bool solver_is_ready;
  /* A cache indexed by the hash of the problem. Later entries replace earlier ones. */
  lt_problem problems[CACHED_ALGORITHMS];
  lt_algorithm algorithms[CACHED_ALGORITHMS];
};

/* Sets the error message of a cuBLAS failure. */
int32_t rm_blas_error(const char *call, int code);

/* Creates the resources of a device, outside of a capture: cuBLAS may synchronize. The mutex is
 * locked. */
int32_t rm_blas_initialize(rm_device *device);

#endif
