/*
 * Kernels, and the calls that they run.
 */
#ifndef ROWMAJOR_KERNEL_H
#define ROWMAJOR_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include "rowmajor.h"

/* The most operands of a plan, except for a chain, and the most buffers of a call that is no part of
 * a program. */
enum { RM_MAX_OPERANDS = 4, RM_MAX_BUFFERS = 9 };

/* The numbers of the kernels: the ops of the op table, RM_OP_COUNT of them, then those of
 * kernels.def. */
enum {
#define RM_OP(name, ...) RM_OP_##name,
#include "ops.def"
#undef RM_OP
  RM_OP_COUNT,
  RM_LAST_TABLE_OP = RM_OP_COUNT - 1,
#define RM_CPU_KERNEL(op, function) RM_OP_##op,
#define RM_ISA_KERNEL(op, function) RM_OP_##op,
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL
  RM_KERNEL_COUNT
};

/* What a kernel keeps of a small call, of which planning takes most of the time: how to run it again
 * with the same numbers and settings on any buffers. The kernel's own fields follow. */
typedef struct rm_kept rm_kept;
struct rm_kept {
  void (*run)(const rm_kept *kept, void *const *buffers);
};

/* A call of a kernel, as rm_run unpacks it. Operand 0 is the output. */
typedef struct {
  /* The number of the kernel, RM_OP_.... */
  int op;
  /* The dtype of the arithmetic. */
  int compute;
  /* The number of buffers, RM_MAX_OPERANDS or more. */
  int operands;
  /* The dtype of each buffer; RM_NONE for none. */
  const int *dtypes;
  /* A plan, unless the kernel says otherwise. */
  double *numbers;
  void *const *buffers;
  /* Where the kernel may leave what it keeps, allocated by malloc; null for calls that run once. */
  rm_kept **kept;
} rm_call;

/* The elements of float32 of an operand that is an option, null for none (a buffer of -1). False if it
 * is missing. */
static inline bool rm_optional_f32(const rm_call *call, double buffer, double offset,
                                   const float **to) {
  *to = NULL;
  if (buffer < 0) return true;
  const int i = (int)buffer;
  if (i >= call->operands || call->dtypes[i] != RM_FLOAT32 || call->buffers[i] == NULL) return false;
  *to = (const float *)call->buffers[i] + (ptrdiff_t)offset;
  return true;
}

/* Runs a call; returns a status. */
typedef int32_t rm_cpu_kernel(const rm_call *call);

/* Runs the kernel of a call. */
int32_t rm_run_call(const rm_call *call);

/* The name of the op of a kernel. */
const char *rm_kernel_name(int kernel);

#define RM_CPU_KERNEL(op, function) rm_cpu_kernel rm_##function;
#define RM_ISA_KERNEL(op, function)
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL

/* The attributes of a call. */
static inline double *rm_attributes(const rm_call *call) { return call->numbers + RM_ATTRIBUTES; }

#endif
