/*
 * The functions of NVIDIA's libraries that are open.
 */
#ifndef ROWMAJOR_CUDA_FUNCTIONS_H
#define ROWMAJOR_CUDA_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

/* The libraries. */
typedef enum { RM_DRIVER, RM_RUNTIME, RM_NVRTC, RM_CUBLAS, RM_CUFFT, RM_CUSOLVER, RM_NCCL,
               RM_LIBRARY_COUNT } rm_library;

/* The identifier of a communicator of NCCL. */
typedef struct {
  char bytes[128];
} rm_nccl_id;

typedef struct {
#define RM_FIELD(name, parameters) int(*name) parameters;
#define RM_DRIVER_FUNCTION RM_FIELD
#define RM_RUNTIME_FUNCTION RM_FIELD
#define RM_NVRTC_FUNCTION RM_FIELD
#define RM_CUBLAS_FUNCTION RM_FIELD
#define RM_CUBLASLT_FUNCTION RM_FIELD
#define RM_CUFFT_FUNCTION RM_FIELD
#define RM_CUSOLVER_FUNCTION RM_FIELD
#define RM_NCCL_FUNCTION RM_FIELD
/* For float32, float64, complex64 and complex128. */
#define RM_FIELDS(name, s, d, c, z, parameters) int(*name[4]) parameters;
#define RM_CUBLAS_FUNCTIONS RM_FIELDS
#define RM_CUSOLVER_FUNCTIONS RM_FIELDS
#include "cuda_functions.def"
#undef RM_FIELDS
#undef RM_FIELD
  const char *(*cudaGetErrorName)(int code);
  const char *(*cudaGetErrorString)(int code);
  const char *(*nvrtcGetErrorString)(int code);
  const char *(*ncclGetErrorString)(int code);
} rm_functions;

extern rm_functions rm_cu;

#endif
