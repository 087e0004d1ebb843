/*
 * Matrix products as BLAS sees them: the fields of their plans, batches that are one product, and
 * the matrices that it can read where they lie.
 *
 * Knows nothing of any library.
 */
#ifndef ROWMAJOR_PRODUCT_H
#define ROWMAJOR_PRODUCT_H

#include <string.h>
#include "internal.h"

/* Plan fields: sizes, then the strides of c, a and b, by rows and by columns. */
enum { RM_M, RM_N, RM_K, RM_BATCH, RM_C_ROW, RM_C_COLUMN, RM_A_ROW, RM_A_COLUMN, RM_B_ROW,
       RM_B_COLUMN, RM_MATRICES };

#define RM_BLAS_INT_MAX 2147483647.0

/* What all offsets of a batch grow by; false when they grow unevenly. */
static inline bool rm_even_step(const double *at, ptrdiff_t batch, double *step) {
  *step = at[1] - at[0];
  for (ptrdiff_t i = 2; i < batch; i++) {
    if (at[i] - at[i - 1] != *step) return false;
  }
  return true;
}

/* True when matrices a step apart are one with count times the lines; sets its stride then. */
static inline bool rm_stack(double count, double step, double *stride) {
  if (count > 1) return step == count * *stride;
  *stride = step;
  return true;
}

/*
 * A batch whose b is always the same is one product of all rows of a, and one whose a is always the
 * same is one of all columns of b, where these are evenly spaced in memory. at are the offsets of
 * c, a and b, one after the other; writes the fields of that product, whose offsets are the first
 * of each. Not where sizes are then beyond GEMM.
 */
static inline bool rm_collapse(const double *plan, const double *at, double *one) {
  const ptrdiff_t batch = (ptrdiff_t)plan[RM_BATCH];
  double by_c, by_a, by_b;
  if (batch < 2 || !rm_even_step(at, batch, &by_c) || !rm_even_step(at + batch, batch, &by_a) ||
      !rm_even_step(at + 2 * batch, batch, &by_b)) {
    return false;
  }
  const double m = plan[RM_M] * (double)batch, n = plan[RM_N] * (double)batch;
  memcpy(one, plan, RM_MATRICES * sizeof *one);
  one[RM_BATCH] = 1;
  if (by_b == 0 && m <= RM_BLAS_INT_MAX && rm_stack(plan[RM_M], by_c, &one[RM_C_ROW]) &&
      rm_stack(plan[RM_M], by_a, &one[RM_A_ROW])) {
    one[RM_M] = m;
    return true;
  }
  memcpy(one, plan, RM_MATRICES * sizeof *one);
  one[RM_BATCH] = 1;
  if (by_a == 0 && n <= RM_BLAS_INT_MAX && rm_stack(plan[RM_N], by_c, &one[RM_C_COLUMN]) &&
      rm_stack(plan[RM_N], by_b, &one[RM_B_COLUMN])) {
    one[RM_N] = n;
    return true;
  }
  return false;
}

/* A matrix as GEMM sees it: by rows, or by columns, and how far apart these are. */
typedef struct {
  bool by_columns;
  int leading;
} rm_matrix;

/*
 * True when GEMM can read the matrix where it lies: one stride is 1 and the other at least a row
 * long. The stride along an axis of size 1 is never used, and may be anything.
 */
static inline bool rm_describe(double rows, double columns, double row_stride,
                               double column_stride, rm_matrix *to) {
  bool by_rows = columns == 1 || column_stride == 1;
  double leading = rows == 1 ? columns : row_stride;
  if (by_rows && leading >= columns && leading <= RM_BLAS_INT_MAX) {
    *to = (rm_matrix){false, (int)leading};
    return true;
  }
  bool by_columns = rows == 1 || row_stride == 1;
  leading = columns == 1 ? rows : column_stride;
  if (by_columns && leading >= rows && leading <= RM_BLAS_INT_MAX) {
    *to = (rm_matrix){true, (int)leading};
    return true;
  }
  return false;
}

/* The three matrices of a plan; false when GEMM cannot read one, or sizes are beyond it. */
static inline bool rm_describe_all(const double *plan, rm_matrix *c, rm_matrix *a, rm_matrix *b) {
  const double m = plan[RM_M], n = plan[RM_N], k = plan[RM_K];
  if (m < 1 || n < 1 || k < 1) return false;
  if (m > RM_BLAS_INT_MAX || n > RM_BLAS_INT_MAX || k > RM_BLAS_INT_MAX) return false;
  return rm_describe(m, n, plan[RM_C_ROW], plan[RM_C_COLUMN], c) &&
         rm_describe(m, k, plan[RM_A_ROW], plan[RM_A_COLUMN], a) &&
         rm_describe(k, n, plan[RM_B_ROW], plan[RM_B_COLUMN], b);
}

#endif
