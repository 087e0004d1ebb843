/*
 * Reads plans, the arrays of numbers that describe strided operands.
 */
#include "internal.h"

int32_t rm_read_plan(rm_walk *walk, const double *plan, int operands, int32_t dtypes,
                     void *const *buffers) {
  int rank = (int)plan[0];
  if ((int)plan[1] != operands) {
    return rm_fail(RM_BAD_ARGUMENT, "the plan has %d operands, the op %d", (int)plan[1], operands);
  }
  if (rank < 0 || rank > RM_MAX_RANK) {
    return rm_fail(RM_UNSUPPORTED, "the plan has %d axes, more than %d", rank, RM_MAX_RANK);
  }
  walk->rank = rank;
  walk->operands = operands;
  walk->empty = false;
  const double *sizes = plan + RM_OFFSETS + operands;
  for (int j = 0; j < rank; j++) {
    walk->size[j] = (ptrdiff_t)sizes[j];
    if (walk->size[j] <= 0) walk->empty = true;
  }
  for (int k = 0; k < operands; k++) {
    if (buffers[k] == NULL) return rm_fail(RM_BAD_ARGUMENT, "operand %d has no memory", k);
    const double *strides = sizes + rank + (ptrdiff_t)k * rank;
    ptrdiff_t bytes = rm_bytes(rm_dtype_at(dtypes, k + 1));
    walk->start[k] = (char *)buffers[k] + (ptrdiff_t)plan[RM_OFFSETS + k] * bytes;
    walk->inner[k] = rank == 0 ? 0 : (ptrdiff_t)strides[rank - 1];
    for (int j = 0; j < rank; j++) walk->step[j][k] = (ptrdiff_t)strides[j] * bytes;
  }
  return RM_OK;
}
