/*
 * Reads plans, the arrays of numbers that describe strided operands.
 */
#include "internal.h"

int32_t rm_read_plan(rm_iterator *iterator, const double *plan, int operands, const int *dtypes,
                     void *const *buffers) {
  const int rank = (int)plan[RM_PLAN_RANK];
  const int planned = (int)plan[RM_PLAN_OPERANDS];
  if (planned != operands) {
    return rm_fail(RM_BAD_ARGUMENT, "the plan has %d operands, the op %d", planned, operands);
  }
  if (rank < 0 || rank > RM_MAX_RANK) {
    return rm_fail(RM_UNSUPPORTED, "the plan has %d axes, more than %d", rank, RM_MAX_RANK);
  }
  iterator->rank = rank;
  iterator->operands = operands;
  iterator->empty = false;
  const double *shape = plan + RM_OFFSETS + operands;
  for (int axis = 0; axis < rank; axis++) {
    iterator->shape[axis] = (ptrdiff_t)shape[axis];
    if (iterator->shape[axis] <= 0) iterator->empty = true;
  }
  for (int k = 0; k < operands; k++) {
    if (buffers[k] == NULL) return rm_fail(RM_BAD_ARGUMENT, "operand %d has no memory", k);
    const double *strides = shape + rank + (ptrdiff_t)k * rank;
    const ptrdiff_t bytes = rm_itemsize(dtypes[k]);
    iterator->data[k] = (char *)buffers[k] + (ptrdiff_t)plan[RM_OFFSETS + k] * bytes;
    iterator->inner_strides[k] = rank == 0 ? 0 : (ptrdiff_t)strides[rank - 1];
    for (int axis = 0; axis < rank; axis++) {
      iterator->strides[axis][k] = (ptrdiff_t)strides[axis] * bytes;
    }
  }
  return RM_OK;
}
