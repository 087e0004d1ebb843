/*
 * What the files of chains share: a chain as it is read from the numbers of a call.
 *
 * All values of a block of elements stay in the first-level cache. They are, in the order of the
 * blocks of the workspace: temporary ones, inputs that are not read in place, repeated scalars, and
 * results of steps, which take turns.
 */
#ifndef ROWMAJOR_CHAIN_CONTEXT_H
#define ROWMAJOR_CHAIN_CONTEXT_H

#include "block_load.h"
#include "map_context.h"

enum {
  /* The size of a block, and that of many blocks, which are on the stack. Kernels may write up to
   * the next whole vector. */
  BLOCK_BYTES = 4096,
  SMALL_BLOCK_BYTES = 1024,
  FEW_BLOCKS = 32,
  BLOCK_MARGIN = VECTOR * 8,
  /* The blocks of temporary values: packed elements, values between two casts, a result before it
   * is rounded, and the operands of a step. */
  PACKED = 0,
  BETWEEN = 1,
  RESULT = 2,
  CASTS = 3,
  FIRST_BLOCK = CASTS + 3,
  MAX_LOADS = 3 * RM_CHAIN_STEPS,
  /* Every operand may be an input that is loaded and a scalar that is repeated. */
  MAX_BLOCKS = FIRST_BLOCK + 2 * MAX_LOADS + RM_CHAIN_STEPS
};

/* Where an operand of a step comes from. */
typedef enum { FROM_LOAD, FROM_STEP, FROM_SCALAR } chain_source;

typedef struct {
  chain_source source;
  /* The load or the step. */
  int index;
  /* The block where a scalar is repeated. */
  int block;
  /* The dtype of a step's result. */
  int dtype;
  /* A scalar in the dtype that the kernel takes. */
  _Alignas(8) char value[8];
} chain_operand;

/* One op. */
typedef struct {
  map_op op;
  int opcode;
  /* For a copy, which has no kernel. */
  cast convert;
  chain_operand operands[3];
  int arity;
  double parameters[RM_OFFSETS - RM_ATTRIBUTES];
  /* The dtype of the result, and whether the kernel writes it. */
  int dtype;
  bool native;
  /* The output that it is, or -1. */
  int output;
  int block;
  /* Where a run of steps in registers ends that begins here, or 0, whether it may compute elements
   * again, and whether its instructions serve all blocks; whether a step of it writes its result to
   * memory. */
  int strip_end;
  bool repeatable, movable, stored;
  /* Whether all operands are scalars, and the result then. */
  bool is_scalar;
  _Alignas(8) char value[8];
} chain_step;

/* An input in a dtype that steps read. */
typedef struct {
  block_operand operand;
  /* The operand of the plan. */
  int position;
  int block;
  /* Whether it must be copied, because an output overwrites it before the last step reads it. */
  bool copied;
  /* Whether steps read it where it is. */
  bool in_place;
} chain_load;

typedef struct {
  int outputs, operands;
  int rank;
  bool empty;
  ptrdiff_t shape[RM_MAX_RANK];
  /* In bytes, by axis and operand; inner_strides in elements. */
  ptrdiff_t strides[RM_MAX_RANK][RM_CHAIN_OPERANDS];
  ptrdiff_t inner_strides[RM_CHAIN_OPERANDS];
  char *data[RM_CHAIN_OPERANDS];
  int dtypes[RM_CHAIN_OPERANDS];
  /* Whether an output is so large that stores should be non-temporal. */
  bool non_temporal[RM_CHAIN_OPERANDS];
  /* Whether one is. */
  bool streams;
  int steps, loads, blocks;
  chain_step step[RM_CHAIN_STEPS];
  chain_load load[MAX_LOADS];
  /* The bytes of the widest dtype; how many steps are compute-bound. */
  ptrdiff_t widest;
  int compute_bound;
  /* How rows and columns, the last two axes, are cut into blocks and tasks. */
  ptrdiff_t rows, columns, outer_positions;
  ptrdiff_t row_strides[RM_CHAIN_OPERANDS];
  int outer_axes;
  bool tiled;
  ptrdiff_t block_rows, block_columns, block_bytes;
  ptrdiff_t task_rows, task_columns, column_chunks;
} chain_context;

/* Reads a call, chooses the kernels, and computes what does not depend on elements. */
int32_t RM_FOR_ISA(read_chain)(chain_context *chain, const rm_call *call);

#endif
