/*
 * What the files of the elementwise ops share: the kernels and the context of a call.
 */
#ifndef ROWMAJOR_MAP_CONTEXT_H
#define ROWMAJOR_MAP_CONTEXT_H

#include "internal.h"

typedef void (RM_KERNEL *map_function)(ptrdiff_t n, void *out, const void *a, const void *b,
                                      const void *c, const double *attributes);

/* The signature of a kernel with operands a, b and c. Most kernels use fewer. */
#define KERNEL_SIGNATURE(name) \
  RM_KERNEL void name(ptrdiff_t n, void *out, const void *a, \
                      __attribute__((unused)) const void *b, \
                      __attribute__((unused)) const void *c, \
                      __attribute__((unused)) const double *attributes)
#define KERNEL_NAMED(name) static KERNEL_SIGNATURE(name)

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

/* An op of the table in the arithmetic of a dtype: its kernel, and what the kernel takes. It points
 * into itself. */
typedef struct {
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
  bool compute_bound;
  /* The number of operands, the output included, without scalars that are attributes. */
  int operands;
  /* The dtypes that the kernel takes, the output's first. */
  int compute_dtype[RM_MAX_OPERANDS];
  /* The 16-bit dtype that float32 emulates and to which results are rounded, or RM_NONE. */
  int rounding_dtype;
} map_op;

/* A scalar operand; data is null for other operands. */
typedef struct {
  const void *data;
  int dtype;
} map_scalar;

typedef struct {
  rm_iterator iterator;
  map_op op;
  /* The output's first. */
  int storage_dtype[RM_MAX_OPERANDS];
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

/* Functions of one element, and the loops around them, are inlined into every kernel. */
#define MAP_APPLY static RM_ALWAYS_INLINE
#define MAP_LOOP static RM_ALWAYS_INLINE void

/* The ops of arithmetic have consecutive ids. */
enum { ARITHMETIC = RM_OP_div - RM_OP_add + 1 };

/* The kernel for contiguous operands of a compute dtype, or null. */
map_function RM_FOR_ISA(map_kernel)(int opcode, int compute);
/* The same for those in map_shared_kernels.c. */
map_function RM_FOR_ISA(map_shared_kernel)(int opcode, int compute);

/* Whether there is an activation of that number, RM_ACTIVATION_.... */
static inline bool has_activation(int activation) {
  return activation >= 0 && activation <= RM_ACTIVATION_SIGMOID;
}

/* The op of the table of an activation that is not NONE. */
static inline int activation_op(int activation) {
  static const int ops[] = {
      [RM_ACTIVATION_RELU] = RM_OP_relu, [RM_ACTIVATION_GELU] = RM_OP_gelu,
      [RM_ACTIVATION_SILU] = RM_OP_silu, [RM_ACTIVATION_TANH] = RM_OP_tanh,
      [RM_ACTIVATION_SIGMOID] = RM_OP_sigmoid,
  };
  return ops[activation];
}

/* The two kernels for a scalar as first or second operand, or null. Each may be null. */
const map_function *RM_FOR_ISA(map_scalar_kernels)(int opcode, int compute);
/* The same for arithmetic with the kernels in map_shared_kernels.c. */
const map_function *RM_FOR_ISA(map_shared_scalar_kernels)(int opcode, int compute);

/* Finds the kernel of an op of the table; returns RM_UNSUPPORTED if there is none. */
int32_t RM_FOR_ISA(find_map_op)(map_op *op, int opcode, int dtype, const double *attributes);

/* Whether map_simplify has kernels for scalar operands of an op. */
static inline bool may_simplify(int opcode) {
  return opcode == RM_OP_pow || opcode == RM_OP_clip || opcode == RM_OP_floorDivide;
}

/* Replaces the kernel by a cheaper one, if there is one for the scalars among the operands. */
void RM_FOR_ISA(map_simplify)(map_op *op, int opcode, const map_scalar scalars[RM_MAX_OPERANDS]);

/* Runs a kernel that takes whole vectors only on any number of elements. */
void RM_FOR_ISA(run_padded)(const map_op *op, ptrdiff_t n, char *out, const char *a, const char *b,
                            const char *c);

/* Runs the kernel of an op on contiguous operands. */
static inline void run_function(const map_op *op, ptrdiff_t n, char *out, const char *a,
                                const char *b, const char *c) {
  if (op->whole_vectors && n % VECTOR != 0) RM_FOR_ISA(run_padded)(op, n, out, a, b, c);
  else op->function(n, out, a, b, c, op->attributes);
}

#endif
