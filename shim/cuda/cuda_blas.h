/*
 * What a device needs for matrix products.
 */
#ifndef ROWMAJOR_CUDA_BLAS_H
#define ROWMAJOR_CUDA_BLAS_H

#include "cuda_internal.h"

/* What NVIDIA's headers call CUBLAS_STATUS_... */
enum { BLAS_NOT_INITIALIZED = 1, BLAS_NO_MEMORY = 3, BLAS_INVALID_VALUE = 7,
       BLAS_ARCH_MISMATCH = 8, BLAS_NOT_SUPPORTED = 15 };

/* Bytes that products may use besides. */
static const size_t WORKSPACE = 32 << 20;

/* All that the choice of an algorithm depends on; compared byte by byte. */
typedef struct {
  int64_t rows, columns, inner, leading[3], batch, step[3];
  int32_t type, compute, transposed[2], epilogue, alignment[4], room;
} shape;

/* cublasLtMatmulHeuristicResult_t. */
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} choice;

enum { CHOICES = 1024 };

/* What a device needs for products. Used by one thread at a time. */
struct rm_products {
  rm_mutex lock;
  void *handle, *lt_handle, *workspace;
  /* Whether the handle has been told all that it has to know. */
  bool ready;
  /* By the hash of the shape; a later one takes the place of an earlier one. */
  shape shapes[CHOICES];
  choice choices[CHOICES];
};

/* Leaves a message for what cuBLAS answered. */
int32_t rm_blas_error(const char *call, int code);

/* Makes what a device needs, before a graph is recorded: cuBLAS may wait; its lock is held. */
int32_t rm_products_make(rm_device *device);

#endif
