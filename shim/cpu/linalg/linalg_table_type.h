/*
 * The table of the vector kernels of one element type.
 */
typedef struct {
  /* Copies a matrix of m by n elements. */
  void (*copy)(ptrdiff_t m, ptrdiff_t n, const TYPE *from, ptrdiff_t row, ptrdiff_t column, TYPE *to,
               ptrdiff_t to_row, ptrdiff_t to_column);
  /* The sum of conj(x) y. */
  TYPE (*dot)(ptrdiff_t n, const TYPE *x, const TYPE *y);
  /* y += a x */
  void (*axpy)(ptrdiff_t n, TYPE a, const TYPE *x, TYPE *y);
  /* y += A x for m rows and n columns. */
  void (*gemv)(ptrdiff_t m, ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x, TYPE *y);
  /* y = conj(A') x */
  void (*gemv_adjoint)(ptrdiff_t m, ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x, TYPE *y);
  /* Column j += c[j] x. */
  void (*rank1)(ptrdiff_t m, ptrdiff_t n, const TYPE *x, const TYPE *c, TYPE *a, ptrdiff_t ld);
  /* y = A x for a Hermitian matrix of which the lower triangle is read. */
  void (*hemv)(ptrdiff_t n, const TYPE *a, ptrdiff_t ld, const TYPE *x, TYPE *y);
  /* The lower triangle -= x conj(y') + y conj(x'). */
  void (*her2)(ptrdiff_t n, const TYPE *x, const TYPE *y, TYPE *a, ptrdiff_t ld);
  /* For rows of reals, columns k and k + 1 become c u + s w and c w - s u, for k from 0. */
  void (*rotate)(ptrdiff_t rows, ptrdiff_t count, const REAL *cs, REAL *z, ptrdiff_t ld);
  /* `count` columns of rows, 2 or 3, times I - tau v v' for v = (1, b, c); null for complex ones. */
  void (*reflect)(ptrdiff_t rows, int count, REAL b, REAL c, REAL tau, REAL *x, ptrdiff_t ld);
  /* The matrices that `jacobi` takes at a time, element (i, j) of all at (j m + i) width; 0 for complex
   * ones. */
  ptrdiff_t width;
  /* Replaces the lower triangles of matrices of n rows by their Cholesky factors; NaN or 0 is on the
   * diagonals of those that have none. */
  void (*cholesky)(ptrdiff_t n, REAL *a);
  /* Makes columns of m rows orthogonal, or if `symmetric` diagonalizes matrices of n rows, by rotations
   * of columns; those of v, n by n, turn with them unless it is null. False without convergence. Null for
   * floats, which are computed in double. */
  bool (*jacobi)(bool symmetric, ptrdiff_t m, ptrdiff_t n, REAL *a, REAL *v);
  /* Replaces n columns of the lower triangle of m rows by those of its Cholesky factor; returns a bad
   * pivot, or -1. n is a multiple of 8, and columns go on for 15 more elements. */
  ptrdiff_t (*cholesky_columns)(ptrdiff_t m, ptrdiff_t n, REAL *a, ptrdiff_t ld);
} RM_SUFFIXED(rm_blas, SUFFIX);
#undef TYPE
#undef REAL
#undef SUFFIX
