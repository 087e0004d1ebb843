/*
 * What the files of the elementwise ops share: the kernels and the context of a call.
 */
#ifndef ROWMAJOR_MAP_CONTEXT_H
#define ROWMAJOR_MAP_CONTEXT_H

#include "internal.h"

typedef void (RM_KERNEL *map_function)(ptrdiff_t n, void *out, const void *a, const void *b,
                                      const void *c, const double *attributes);

/* The signature of a kernel with operands a, b and c. Most kernels use fewer. */
#define KERNEL_NAMED(name) \
  static RM_KERNEL void name(ptrdiff_t n, void *out, const void *a, \
                             __attribute__((unused)) const void *b, \
                             __attribute__((unused)) const void *c, \
                             __attribute__((unused)) const double *attributes)

/* The vector length of kernels that take whole vectors, and the block length of kernels that check
 * their operands first. */
enum { VECTOR = 16, CHECKED_BLOCK = 128 };

/* The integer that divides all elements of a row, or the exponent of their power. */
typedef struct {
  /* 1 / y and 1 / |2 y|. */
  double reciprocal, half;
  uint64_t number;
  /* For uint8: x / y is the upper half of (t + (x - t) / 2) last, where t is the upper half of x
   * magic. */
  uint16_t magic, last;
  /* All ones if elements may be negative. */
  uint64_t sign;
  ptrdiff_t bytes;
  /* The kernels of the dtype. */
  map_function multiply, divide;
} integer_operand;

typedef struct {
  rm_iterator iterator;
  /* Null for a copy, which at most casts. */
  map_function function;
  /* The kernels for a scalar as one of two operands, or null. */
  const map_function *scalar_functions;
  const double *attributes;
  /* The attributes of kernels with one integer or with two bounds. */
  integer_operand divisor;
  double bounds[2];
  /* Whether the kernel takes whole vectors only. */
  bool whole_vectors;
  /* The storage and compute dtypes, the output's first. */
  int storage_dtype[RM_MAX_OPERANDS];
  int compute_dtype[RM_MAX_OPERANDS];
  /* The 16-bit dtype that float32 emulates and to which results are rounded, or RM_NONE. */
  int rounding_dtype;
  /* Rows and columns are the last two axes. A plan with one axis has one row. */
  ptrdiff_t rows, columns, outer_positions;
  ptrdiff_t row_strides[RM_MAX_OPERANDS];
  int outer_axes;
  bool tiled;
  /* Whether a few rows are copied to or from interleaved elements. */
  bool interleaves;
  /* Whether the output is so large that stores should be non-temporal. */
  bool non_temporal;
  /* The partition of the work: rows and columns per task, and parts of a row. */
  ptrdiff_t task_rows, task_columns, column_chunks;
} map_context;

/* The kernel for contiguous operands of a compute dtype, or null. */
map_function RM_FOR_ISA(map_kernel)(int opcode, int compute);

/* The two kernels for a scalar as first or second operand, or null. Each may be null. */
const map_function *RM_FOR_ISA(map_scalar_kernels)(int opcode, int compute);

typedef enum { UNCHANGED, MEMORY_BOUND, COMPUTE_BOUND } map_cost;

/* Replaces an op whose operands after the first are scalars by a cheaper kernel, if there is one,
 * and returns the cost of its elements. */
map_cost RM_FOR_ISA(map_simplify)(map_context *ctx, int opcode, int compute);

#endif
