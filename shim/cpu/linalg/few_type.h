/*
 * Cholesky factors, and eigenvalues and singular values by rotations, of batches of small real matrices,
 * one in each lane of the vectors; after small_type.h.
 */
enum { NAME(LANES) = 16, NAME(FEW_SIZE) = NAME(FEW) * NAME(FEW) };

/* Whether a call is computed in lanes. */
static bool NAME(takes_few)(const rm_linalg *ctx) {
  const ptrdiff_t most = ctx->m > ctx->n ? ctx->m : ctx->n;
  if (((const TABLE *)ctx->blas)->width == 0 || most > NAME(FEW)) return false;
  if (ctx->kind == RM_LINALG_CHOLESKY || ctx->kind == RM_LINALG_EIGH ||
      ctx->kind == RM_LINALG_EIGVALSH) {
    return true;
  }
  return ctx->kind == RM_LINALG_SVDVALS ||
         (ctx->kind == RM_LINALG_SVD && (!ctx->flag || ctx->m == ctx->n));
}

#if !defined(NARROW)
/* Writes matrix `index` from a lane of its columns, and of v; false if it is of no full rank. */
static bool NAME(write_few)(rm_linalg *ctx, ptrdiff_t index, const REAL *a, const REAL *v) {
  const ptrdiff_t step = ((const TABLE *)ctx->blas)->width;
  const bool symmetric = ctx->kind == RM_LINALG_EIGH || ctx->kind == RM_LINALG_EIGVALSH;
  const bool is_wide = ctx->m < ctx->n;
  const ptrdiff_t m = is_wide ? ctx->n : ctx->m, n = is_wide ? ctx->m : ctx->n;
  double d[NAME(FEW)];
  ptrdiff_t order[NAME(FEW)];
  for (ptrdiff_t j = 0; j < n; j++) {
    if (symmetric) d[j] = (double)RE(a[(j * n + j) * step]);
    else {
      double sum = 0;
      for (ptrdiff_t i = 0; i < m; i++) {
        const double x = (double)RE(a[(j * m + i) * step]);
        sum += x * x;
      }
      d[j] = sqrt(sum);
    }
    ptrdiff_t at = j;
    for (; at > 0 && (symmetric ? d[j] < d[order[at - 1]] : d[j] > d[order[at - 1]]); at--) {
      order[at] = order[at - 1];
    }
    order[at] = j;
  }
  const bool has_values_only = ctx->kind == RM_LINALG_EIGVALSH || ctx->kind == RM_LINALG_SVDVALS;
  REAL *values = NAME(real_output)(ctx, ctx->kind == RM_LINALG_SVD ? 1 : 0) + index * n;
  if (ctx->kind == RM_LINALG_SVD && n > 0 &&
      !(d[order[n - 1]] > d[order[0]] * 64 * 0x1p-53)) {
    return false;
  }
  for (ptrdiff_t j = 0; j < n; j++) values[j] = (REAL)d[order[j]];
  if (has_values_only) return true;
  if (symmetric) {
    TYPE *to = NAME(output)(ctx, 1) + index * n * n;
    for (ptrdiff_t j = 0; j < n; j++) {
      for (ptrdiff_t i = 0; i < n; i++) to[i * n + j] = v[(order[j] * n + i) * step];
    }
    return true;
  }
  TYPE *left = NAME(output)(ctx, 0) + index * ctx->m * n;
  TYPE *right = NAME(output)(ctx, 2) + index * n * ctx->n;
  for (ptrdiff_t j = 0; j < n; j++) {
    const REAL *x = a + order[j] * m * step, *y = v + order[j] * n * step;
    const REAL by = (REAL)(1 / d[order[j]]);
    if (is_wide) {
      for (ptrdiff_t i = 0; i < m; i++) right[j * m + i] = x[i * step] * by;
      for (ptrdiff_t i = 0; i < n; i++) left[i * n + j] = y[i * step];
    } else {
      for (ptrdiff_t i = 0; i < m; i++) left[i * n + j] = x[i * step] * by;
      for (ptrdiff_t i = 0; i < n; i++) right[j * n + i] = y[i * step];
    }
  }
  return true;
}
#endif

/* Computes Cholesky factors of matrices from `first` on; notes those that have none. */
static void NAME(cholesky_few)(rm_linalg *ctx, ptrdiff_t first, ptrdiff_t count, bool *left) {
  const TABLE *blas = ctx->blas;
  const ptrdiff_t n = ctx->n, width = blas->width;
  const ptrdiff_t row = ctx->flag ? ctx->a_column : ctx->a_row;
  const ptrdiff_t column = ctx->flag ? ctx->a_row : ctx->a_column;
  const ptrdiff_t to_row = ctx->flag ? 1 : n, to_column = ctx->flag ? n : 1;
  REAL a[NAME(FEW_SIZE) * NAME(LANES)];
  if (count < width) memset(a, 0, sizeof a);
  for (ptrdiff_t k = 0; k < count; k++) {
    const TYPE *from = NAME(matrix)(ctx, first + k);
    for (ptrdiff_t j = 0; j < n; j++) {
      for (ptrdiff_t i = j; i < n; i++) a[(j * n + i) * width + k] = from[i * row + j * column];
    }
  }
  blas->cholesky(n, a);
  TYPE *to = NAME(output)(ctx, 0) + first * n * n;
  for (ptrdiff_t k = 0; k < count; k++, to += n * n) {
    left[k] = false;
    for (ptrdiff_t j = 0; j < n; j++) {
      left[k] |= !(a[(j * n + j) * width + k] > 0);
      for (ptrdiff_t i = 0; i < j; i++) to[i * to_row + j * to_column] = 0;
      for (ptrdiff_t i = j; i < n; i++) {
        to[i * to_row + j * to_column] = a[(j * n + i) * width + k];
      }
    }
  }
}

#if !defined(NARROW)
/* Computes `count` matrices from `first` on by rotations; notes those that need another way. */
static void NAME(jacobi_few)(rm_linalg *ctx, ptrdiff_t first, ptrdiff_t count, bool *left) {
  const TABLE *blas = ctx->blas;
  const ptrdiff_t width = blas->width;
  const bool symmetric = ctx->kind == RM_LINALG_EIGH || ctx->kind == RM_LINALG_EIGVALSH;
  const bool is_wide = ctx->m < ctx->n;
  const ptrdiff_t m = is_wide ? ctx->n : ctx->m, n = is_wide ? ctx->m : ctx->n;
  const bool has_vectors = ctx->kind == RM_LINALG_EIGH || ctx->kind == RM_LINALG_SVD;
  /* Only the lower triangle is read, or the upper one. */
  const bool flips = symmetric ? ctx->flag : is_wide;
  const ptrdiff_t row = flips ? ctx->a_column : ctx->a_row, column = flips ? ctx->a_row : ctx->a_column;
  REAL a[NAME(FEW_SIZE) * NAME(LANES)], v[NAME(FEW_SIZE) * NAME(LANES)];
  if (count < width) memset(a, 0, sizeof a);
  for (ptrdiff_t k = 0; k < count; k++) {
    const TYPE *from = NAME(matrix)(ctx, first + k);
    double largest = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
      for (ptrdiff_t i = symmetric ? j : 0; i < m; i++) {
        const REAL x = RE(from[i * row + j * column]);
        const double size = fabs((double)x);
        if (!(size <= largest)) largest = size == size ? size : (double)INFINITY;
        a[(j * m + i) * width + k] = x;
        if (symmetric) a[(i * m + j) * width + k] = x;
      }
    }
    /* Others go the long way. */
    left[k] = !(largest < 1e9 && (largest > 1e-9 || largest == 0));
    for (ptrdiff_t i = 0; i < m * n && left[k]; i++) a[i * width + k] = 0;
  }
  if (has_vectors) {
    memset(v, 0, (size_t)(n * n * width) * sizeof *v);
    for (ptrdiff_t j = 0; j < n; j++) {
      for (ptrdiff_t k = 0; k < width; k++) v[(j * n + j) * width + k] = 1;
    }
  }
  const bool done = blas->jacobi(symmetric, m, n, a, has_vectors ? v : NULL);
  for (ptrdiff_t k = 0; k < count; k++) {
    left[k] = left[k] || !done || !NAME(write_few)(ctx, first + k, a + k, v + k);
  }
}
#endif

/* Computes matrices from `first` to before `end`, and returns how many; `left` notes those that have to
 * be computed in another way. */
static ptrdiff_t NAME(run_few)(rm_linalg *ctx, ptrdiff_t first, ptrdiff_t end, bool *left) {
  const TABLE *blas = ctx->blas;
  const ptrdiff_t width = blas->width, count = rm_min(width, end - first);
  if (ctx->kind == RM_LINALG_CHOLESKY) NAME(cholesky_few)(ctx, first, count, left);
#if !defined(NARROW)
  else NAME(jacobi_few)(ctx, first, count, left);
#endif
  return count;
}
