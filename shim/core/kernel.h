/*
 * Kernels, and the calls that they run.
 */
#ifndef ROWMAJOR_KERNEL_H
#define ROWMAJOR_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include "rowmajor.h"

/* The most buffers of a call. */
enum { RM_MAX_OPERANDS = 4 };

/* The ops of the op table. */
enum {
#define RM_OP(name, ...) RM_OP_##name,
#include "ops.def"
#undef RM_OP
  RM_OP_COUNT
};

/* What kernels that share a function do, as the op of their calls. */
enum { RM_GATHER, RM_SCATTER, RM_SCATTER_ADD };
enum { RM_SORT, RM_ARGSORT };
enum { RM_SOFTMAX, RM_LOG_SOFTMAX, RM_LAYER_NORM, RM_RMS_NORM };

/* A call of a kernel, as rm_run unpacks it. Operand 0 is the output. */
typedef struct {
  /* What the kernel does: RM_OP_..., or one of the enums above. */
  int op;
  /* The dtype of the arithmetic. */
  int compute;
  /* The dtype of each buffer; RM_NONE for none. */
  int dtypes[RM_MAX_OPERANDS];
  /* A plan, unless the kernel says otherwise. */
  double *numbers;
  void *buffers[RM_MAX_OPERANDS];
} rm_call;

/* Runs a call; returns a status. */
typedef int32_t rm_cpu_kernel(const rm_call *call);

/* The attributes of a call. */
static inline double *rm_attributes(const rm_call *call) { return call->numbers + RM_ATTRIBUTES; }

#endif
