/*
 * Linear algebra: the vector kernels of each ISA, and the driver's context.
 *
 * Matrices are columns of elements in a workspace, `ld` elements apart. The algorithms are compiled
 * once for each element type (linalg_type.h) and call the vector kernels through a table.
 */
#ifndef ROWMAJOR_LINALG_H
#define ROWMAJOR_LINALG_H

#include <math.h>
#include "internal.h"

/* The element types, in the order of the tables. */
enum { RM_LINALG_F32, RM_LINALG_F64, RM_LINALG_C64, RM_LINALG_C128, RM_LINALG_TYPES };

/* For vectors of so few elements, calls of kernels take longer than sums. */
enum { RM_LINALG_FEW = 8 };

/* Eigenvalues of Hermitian matrices and singular values of floats are computed in double up to this
 * size, and beyond it where LAPACK does not compute them; src/ops/matmul/problem.ts. */
enum { RM_LINALG_WIDE = 128 };

/* The tables of the vector kernels of an ISA: rm_blas_f32 and so on. */
typedef const void *const rm_linalg_tables[RM_LINALG_TYPES];

#define TYPE float
#define REAL float
#define SUFFIX f32
#include "linalg_table_type.h"
#define TYPE double
#define REAL double
#define SUFFIX f64
#include "linalg_table_type.h"
#define TYPE float _Complex
#define REAL float
#define SUFFIX c64
#include "linalg_table_type.h"
#define TYPE double _Complex
#define REAL double
#define SUFFIX c128
#include "linalg_table_type.h"

/* What a call computes; abi_constants of src/backend/native/linalg.ts. */
enum {
  RM_LINALG_CHOLESKY,
  RM_LINALG_LU,
  RM_LINALG_DET,
  RM_LINALG_SLOGDET,
  RM_LINALG_INV,
  RM_LINALG_SOLVE,
  RM_LINALG_SOLVE_TRIANGULAR,
  RM_LINALG_QR,
  RM_LINALG_EIGH,
  RM_LINALG_EIGVALSH,
  RM_LINALG_SVD,
  RM_LINALG_SVDVALS,
  RM_LINALG_EIG,
  RM_LINALG_EIGVALS,
  RM_LINALG_EXPM
};

/* Attributes: where the first failure goes, then what follows. */
enum {
  RM_LINALG_AT_FAILURE,
  RM_LINALG_AT_KIND,
  /* Whether elements are complex. */
  RM_LINALG_AT_COMPLEX,
  /* Upper triangle; complete factors; NaN for singular matrices. */
  RM_LINALG_AT_FLAG,
  /* A diagonal of ones. */
  RM_LINALG_AT_UNIT,
  RM_LINALG_AT_M,
  RM_LINALG_AT_N,
  /* Columns of the second operand. */
  RM_LINALG_AT_K,
  RM_LINALG_AT_BATCH,
  /* Row and column strides of both operands. */
  RM_LINALG_AT_A_ROW,
  RM_LINALG_AT_A_COLUMN,
  RM_LINALG_AT_B_ROW,
  RM_LINALG_AT_B_COLUMN,
  /* The offsets of the outputs. */
  RM_LINALG_AT_OUT,
  /* Of the matrices of the operands. */
  RM_LINALG_AT_OFFSETS = RM_LINALG_AT_OUT + 3
};

/* A call: buffers are the first output, both operands, and the other outputs. */
typedef struct {
  const rm_call *call;
  const void *blas;
  /* The element type, RM_LINALG_F32 and so on. */
  int type;
  int kind, dtype;
  bool flag, unit;
  /* Whether matrices that are copied as doubles go to LAPACK first. */
  bool wide_lapack;
  ptrdiff_t m, n, k, batch, per_task;
  ptrdiff_t a_row, a_column, b_row, b_column;
  const double *a_at, *b_at, *out_at;
  _Atomic double failure;
  _Atomic bool no_memory;
} rm_linalg;

/* The binary exponent of a number; 0 for 0, infinity and NaN. */
int rm_exponent(double x);

/* Multiplies re + i im by x + i y. */
void rm_times(double *re, double *im, double x, double y);

/* The same for a product times 2^exponent, which it returns anew: products of pivots may be beyond
 * what a double can be. */
int rm_times_scaled(double *re, double *im, double x, double y, int exponent);

/* Marks that a matrix failed at a pivot; n for no convergence. */
void rm_linalg_fail(rm_linalg *ctx, ptrdiff_t matrix, ptrdiff_t pivot);

/* c = a b for real columns with any strides; c is m by n. False without memory to work in. */
bool rm_linalg_product(int dtype, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, void *c, ptrdiff_t ldc,
                       const void *a, ptrdiff_t a_row, ptrdiff_t a_column, const void *b,
                       ptrdiff_t b_row, ptrdiff_t b_column);

/* Runs matrices of a batch, one function for each element type. */
typedef void rm_linalg_task(void *context, ptrdiff_t index);
rm_linalg_task rm_linalg_f32, rm_linalg_f64, rm_linalg_c64, rm_linalg_c128;

/* Makes a real symmetric tridiagonal matrix diagonal, or a bidiagonal one; calls `turn` with the
 * rotations of each sweep: of columns from `low` on. False without convergence. */
typedef void rm_linalg_turn(void *context, int side, ptrdiff_t low, ptrdiff_t count,
                            const double *cs);
bool rm_linalg_tridiagonal(ptrdiff_t n, double *d, double *e, double eps, double *cs,
                           rm_linalg_turn *turn, void *context);
bool rm_linalg_bidiagonal(ptrdiff_t n, double *d, double *e, double eps, double *cs,
                          rm_linalg_turn *turn, void *context);

#endif
