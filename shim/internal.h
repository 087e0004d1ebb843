/*
 * What the files of the shim share: dtype ids, walks over strided axes, messages.
 *
 * Knows nothing of ops. Not part of the interface: callers see rowmajor.h only.
 */
#ifndef ROWMAJOR_INTERNAL_H
#define ROWMAJOR_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include "rowmajor.h"

/* Ids of the dtypes, as in TypeScript. */
enum { RM_BOOL = 0, RM_INT32 = 3, RM_FLOAT32 = 11, RM_FLOAT64 = 12, RM_NONE = 15 };

#define RM_DTYPES(compute, out, a, b, c) \
  ((compute) | (out) << 4 | (a) << 8 | (b) << 12 | (c) << 16)

/* Where the attributes and the offsets begin in a plan. */
enum { RM_ATTRIBUTES = 2, RM_OFFSETS = 6 };

/* Axes of size 1 are gone from a plan, so that no plan with work in it has as many axes as this. */
enum { RM_MAX_RANK = 64, RM_MAX_OPERANDS = 4 };

/* A plan, read. Strides are in bytes; element strides of the innermost axis stand beside them. */
typedef struct {
  int rank;
  int operands;
  bool empty;
  ptrdiff_t size[RM_MAX_RANK];
  ptrdiff_t step[RM_MAX_RANK][RM_MAX_OPERANDS];
  ptrdiff_t inner[RM_MAX_OPERANDS];
  char *start[RM_MAX_OPERANDS];
} rm_walk;

/* Reads a plan whose operands have the given number; null buffers count as no data at all. */
int32_t rm_read_plan(rm_walk *walk, const double *plan, int operands, int32_t dtypes,
                     void *const *buffers);

/*
 * Goes to the next position of the axes [first, last), the last one fastest; false after the last
 * position, when all is back where it began.
 */
static inline bool rm_next(const rm_walk *walk, int first, int last, ptrdiff_t *count, char **at) {
  for (int axis = last - 1; axis >= first; axis--) {
    const ptrdiff_t *step = walk->step[axis];
    if (++count[axis] < walk->size[axis]) {
      for (int k = 0; k < walk->operands; k++) at[k] += step[k];
      return true;
    }
    count[axis] = 0;
    for (int k = 0; k < walk->operands; k++) at[k] -= step[k] * (walk->size[axis] - 1);
  }
  return false;
}

/* Leaves a message for rm_last_error and gives status back. */
int32_t rm_fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies text into a caller's buffer as rm_last_error does. */
int32_t rm_copy_text(const char *text, void *buffer, int32_t length);

/* Elements may be read and written in any order: operands are apart, or the same element for
 * element. */
#define RM_ANY_ORDER _Pragma("clang loop vectorize(assume_safety)")

#endif
