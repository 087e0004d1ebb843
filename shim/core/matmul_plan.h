/*
 * Matrix products as BLAS sees them: the fields of plans, batches that are one product, and the
 * matrices that it can read in place.
 */
#ifndef ROWMAJOR_MATMUL_PLAN_H
#define ROWMAJOR_MATMUL_PLAN_H

#include <string.h>
#include "internal.h"

/* Plan fields: sizes, then the row and column strides of c, a and b. */
enum {
  RM_M,
  RM_N,
  RM_K,
  RM_BATCH,
  RM_C_ROW,
  RM_C_COLUMN,
  RM_A_ROW,
  RM_A_COLUMN,
  RM_B_ROW,
  RM_B_COLUMN,
  RM_MATMUL_FIELDS
};

#define RM_BLAS_INT_MAX 2147483647.0

/* The distance between the offsets of consecutive matrices; false if it varies. */
static inline bool rm_batch_stride(const double *at, ptrdiff_t batch, double *step) {
  *step = at[1] - at[0];
  for (ptrdiff_t i = 2; i < batch; i++) {
    if (at[i] - at[i - 1] != *step) return false;
  }
  return true;
}

/* Whether `count` matrices, `step` apart, form one matrix with count times the rows; sets its
 * stride. */
static inline bool rm_stack_matrices(double count, double step, double *stride) {
  if (count > 1) return step == count * *stride;
  *stride = step;
  return true;
}

/*
 * Turns a batch with a shared operand into one product: of all rows of a if b is shared, of all
 * columns of b if a is, provided they are evenly spaced. `at` holds the offsets of c, then of a,
 * then of b. Writes the fields of that product, whose offsets are the first of each operand. False
 * if it is not possible, or too large for GEMM.
 */
static inline bool rm_collapse_batch(const double *plan, const double *at, double *one) {
  const ptrdiff_t batch = (ptrdiff_t)plan[RM_BATCH];
  double by_c, by_a, by_b;
  if (batch < 2 || !rm_batch_stride(at, batch, &by_c) ||
      !rm_batch_stride(at + batch, batch, &by_a) ||
      !rm_batch_stride(at + 2 * batch, batch, &by_b)) {
    return false;
  }
  const double m = plan[RM_M] * (double)batch, n = plan[RM_N] * (double)batch;
  memcpy(one, plan, RM_MATMUL_FIELDS * sizeof *one);
  one[RM_BATCH] = 1;
  if (by_b == 0 && m <= RM_BLAS_INT_MAX && rm_stack_matrices(plan[RM_M], by_c, &one[RM_C_ROW]) &&
      rm_stack_matrices(plan[RM_M], by_a, &one[RM_A_ROW])) {
    one[RM_M] = m;
    return true;
  }
  memcpy(one, plan, RM_MATMUL_FIELDS * sizeof *one);
  one[RM_BATCH] = 1;
  if (by_a == 0 && n <= RM_BLAS_INT_MAX && rm_stack_matrices(plan[RM_N], by_c, &one[RM_C_COLUMN]) &&
      rm_stack_matrices(plan[RM_N], by_b, &one[RM_B_COLUMN])) {
    one[RM_N] = n;
    return true;
  }
  return false;
}

/* The layout of a matrix for GEMM: row-major or column-major, and its leading dimension. */
typedef struct {
  bool by_columns;
  int leading;
} rm_matrix;

/* Whether GEMM can read the matrix in place: one stride is 1, the other at least a row long. The
 * stride of an axis of size 1 is unused and may be anything. */
static inline bool rm_blas_layout(double rows, double columns, double row_stride,
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

/* The layouts of the three matrices of a plan; false if GEMM cannot read one, or sizes exceed its
 * integers. */
static inline bool rm_blas_layouts(const double *plan, rm_matrix *c, rm_matrix *a, rm_matrix *b) {
  const double m = plan[RM_M], n = plan[RM_N], k = plan[RM_K];
  if (m < 1 || n < 1 || k < 1) return false;
  if (m > RM_BLAS_INT_MAX || n > RM_BLAS_INT_MAX || k > RM_BLAS_INT_MAX) return false;
  return rm_blas_layout(m, n, plan[RM_C_ROW], plan[RM_C_COLUMN], c) &&
         rm_blas_layout(m, k, plan[RM_A_ROW], plan[RM_A_COLUMN], a) &&
         rm_blas_layout(k, n, plan[RM_B_ROW], plan[RM_B_COLUMN], b);
}

#endif
