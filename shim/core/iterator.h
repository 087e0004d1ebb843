/*
 * Strided iterators: plans as they are read, and how to visit their positions.
 */
#ifndef ROWMAJOR_ITERATOR_H
#define ROWMAJOR_ITERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernel.h"

/* Plans have no axes of size 1, so a plan with any elements has fewer axes than this. */
enum { RM_MAX_RANK = 64 };

/* A plan, read. Strides are in bytes, but for inner_strides. */
typedef struct {
  int rank;
  int operands;
  /* Whether some axis has no elements. */
  bool empty;
  ptrdiff_t shape[RM_MAX_RANK];
  /* By axis and operand. reduce.c copies the struct no further than here. */
  ptrdiff_t strides[RM_MAX_RANK][RM_MAX_OPERANDS];
  /* The strides of the innermost axis in elements. */
  ptrdiff_t inner_strides[RM_MAX_OPERANDS];
  /* The first element of each operand. */
  char *data[RM_MAX_OPERANDS];
} rm_iterator;

/* Reads a plan, which must have as many operands; fails if a buffer is null. */
int32_t rm_read_plan(rm_iterator *iterator, const double *plan, int operands, const int *dtypes,
                     void *const *buffers);

/* Reads the plan of a call. */
static inline int32_t rm_read_call(rm_iterator *iterator, const rm_call *call, int operands) {
  return rm_read_plan(iterator, call->numbers, operands, call->dtypes, call->buffers);
}

/* Advances `at` from the first position of the first `axes` axes to a flat position, and sets
 * `index`, the index along each axis. */
static inline void rm_iterator_seek(const rm_iterator *iterator, int axes, ptrdiff_t position,
                                    ptrdiff_t *index, char **at) {
  for (int axis = axes - 1; axis >= 0; axis--) {
    index[axis] = position % iterator->shape[axis];
    position /= iterator->shape[axis];
    for (int k = 0; k < iterator->operands; k++) {
      at[k] += index[axis] * iterator->strides[axis][k];
    }
  }
}

/* Advances `at` to the next position of the axes [first, last), the last one fastest. False after
 * the last position, when `at` and `index` are back at the first one. */
static inline bool rm_iterator_next(const rm_iterator *iterator, int first, int last,
                                    ptrdiff_t *index, char **at) {
  for (int axis = last - 1; axis >= first; axis--) {
    const ptrdiff_t *strides = iterator->strides[axis];
    if (++index[axis] < iterator->shape[axis]) {
      for (int k = 0; k < iterator->operands; k++) at[k] += strides[k];
      return true;
    }
    index[axis] = 0;
    for (int k = 0; k < iterator->operands; k++) {
      at[k] -= strides[k] * (iterator->shape[axis] - 1);
    }
  }
  return false;
}

#endif
