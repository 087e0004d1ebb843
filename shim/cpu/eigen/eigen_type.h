/*
 * Eigenvalues of Hermitian matrices and singular values of one element type; after factor_type.h.
 */

/* Sweeps of rotations that are applied together, so that parts of the columns stay in a cache. */
enum { NAME(SWEEPS) = 24, NAME(ROWS) = 64 };

typedef struct {
  ptrdiff_t low, count;
} NAME(sweep);

/* Rotations of the columns of up to two matrices that wait to be applied. */
typedef struct {
  const TABLE *blas;
  TYPE *z[2];
  ptrdiff_t rows[2], ld[2], n;
  REAL *cs[2];
  NAME(sweep) sweeps[2][NAME(SWEEPS)];
  int waiting[2];
} NAME(rotations);

typedef struct {
  NAME(rotations) * all;
  int side;
} NAME(rotating);

static void NAME(rotate_rows)(void *context, ptrdiff_t index) {
  const NAME(rotating) *one = context;
  const NAME(rotations) *all = one->all;
  const int side = one->side;
  const ptrdiff_t rows = all->rows[side] * PARTS, from = index * NAME(ROWS);
  const ptrdiff_t ld = all->ld[side] * PARTS;
  for (int i = 0; i < all->waiting[side]; i++) {
    const NAME(sweep) *sweep = &all->sweeps[side][i];
    all->blas->rotate(rm_min(NAME(ROWS), rows - from), sweep->count, all->cs[side] + 2 * all->n * i,
                      (REAL *)all->z[side] + from + sweep->low * ld, ld);
  }
}

static void NAME(apply_rotations)(NAME(rotations) * all, int side) {
  if (all->waiting[side] == 0 || all->z[side] == NULL) return;
  NAME(rotating) one = {all, side};
  const ptrdiff_t rows = all->rows[side] * PARTS;
  rm_parallel(rm_ceil_div(rows, NAME(ROWS)),
              (double)rows * (double)all->n * all->waiting[side] / 4, NAME(rotate_rows), &one);
  all->waiting[side] = 0;
}

static void NAME(turn)(void *context, int side, ptrdiff_t low, ptrdiff_t count, const double *cs) {
  NAME(rotations) *all = context;
  if (all->z[side] == NULL) return;
  REAL *to = all->cs[side] + 2 * all->n * all->waiting[side];
  for (ptrdiff_t i = 0; i < 2 * count; i++) to[i] = (REAL)cs[i];
  all->sweeps[side][all->waiting[side]++] = (NAME(sweep)){low, count};
  if (all->waiting[side] == NAME(SWEEPS)) NAME(apply_rotations)(all, side);
}

/* Sorts n numbers, ascending or not, and the columns of up to two matrices with them. */
static void NAME(sort_columns)(ptrdiff_t n, double *d, bool descending, TYPE *u, ptrdiff_t m,
                               ptrdiff_t ldu, TYPE *v, ptrdiff_t ldv) {
  for (ptrdiff_t i = 0; i < n - 1; i++) {
    ptrdiff_t best = i;
    for (ptrdiff_t j = i + 1; j < n; j++) {
      if (descending ? d[j] > d[best] : d[j] < d[best]) best = j;
    }
    if (best == i) continue;
    const double one = d[i];
    d[i] = d[best], d[best] = one;
    for (ptrdiff_t k = 0; u != NULL && k < m; k++) {
      const TYPE x = u[i * ldu + k];
      u[i * ldu + k] = u[best * ldu + k], u[best * ldu + k] = x;
    }
    for (ptrdiff_t k = 0; v != NULL && k < n; k++) {
      const TYPE x = v[i * ldv + k];
      v[i * ldv + k] = v[best * ldv + k], v[best * ldv + k] = x;
    }
  }
}

static ptrdiff_t NAME(eigh_work)(ptrdiff_t n) {
  return NAME(qr_work)(n, n) + 3 * n + 2 * n * NAME(SWEEPS);
}

/* Eigenvalues of the Hermitian matrix whose lower triangle is in a, and eigenvectors as columns of z
 * unless null. `numbers` has room for 4 n doubles. */
static bool NAME(eigh)(const TABLE *blas, int dtype, ptrdiff_t n, TYPE *a, ptrdiff_t ld, double *d,
                       TYPE *z, ptrdiff_t ldz, TYPE *work, double *numbers) {
  double *e = numbers, *cs = e + n;
  TYPE *tau = work, *w = tau + n, *rest = w + n;
  for (ptrdiff_t k = 0; k < n; k++) {
    d[k] = (double)RE(a[k * ld + k]);
    if (k == n - 1) break;
    const ptrdiff_t size = n - k - 1;
    TYPE *v = a + k * ld + k + 1, *right = v + ld;
    tau[k] = NAME(reflect)(blas, size, v);
    e[k] = (double)RE(*v);
    if (tau[k] == 0) continue;
    *v = 1;
    blas->hemv(size, right, ld, v, w);
    for (ptrdiff_t i = 0; i < size; i++) w[i] *= tau[k];
    const REAL half = RE(tau[k] * blas->dot(size, w, v)) / 2;
    blas->axpy(size, -half, v, w);
    blas->her2(size, v, w, right, ld);
    *v = (REAL)e[k];
  }
  NAME(rotations) all = {.blas = blas, .z = {z}, .rows = {n}, .ld = {ldz}, .n = n};
  if (z != NULL) {
    memset(z, 0, (size_t)n * sizeof *z);
    z[0] = 1;
    for (ptrdiff_t j = 1; j < n; j++) z[j * ldz] = 0;
    if (n > 1) {
      NAME(make_q)(blas, dtype, n - 1, n - 1, n - 1, a + 1, ld, tau, z + ldz + 1, ldz, rest);
    }
    all.cs[0] = (REAL *)rest;
  }
  const bool done = rm_linalg_tridiagonal(n, d, e, 0x1p-53, cs,
                                          z == NULL ? NULL : NAME(turn), &all);
  NAME(apply_rotations)(&all, 0);
  NAME(sort_columns)(n, d, false, z, n, ldz, NULL, 0);
  return done;
}

static ptrdiff_t NAME(svd_work)(ptrdiff_t m, ptrdiff_t n) {
  return 2 * (m + n) * (n + 1) + NAME(qr_work)(m, m) + 4 * n + 4 * n * NAME(SWEEPS);
}

/*
 * Singular values of a (m by n, m at least n), largest first; unless null, u gets `columns` of the left
 * vectors, and v the right ones (n by n) as columns. `numbers` has room for 6 n doubles.
 */
static bool NAME(svd)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, TYPE *a, ptrdiff_t ld,
                      double *d, TYPE *u, ptrdiff_t columns, ptrdiff_t ldu, TYPE *v, ptrdiff_t ldv,
                      TYPE *work, double *numbers) {
  double *e = numbers, *cs = e + n;
  TYPE *tau_q = work, *tau_p = tau_q + n, *row = tau_p + n, *rows = row + n, *rest = rows + n * n;
  /* The vectors of reflections of rows are columns of `rows`. */
  for (ptrdiff_t k = 0; k < n; k++) {
    TYPE *x = a + k * ld + k;
    tau_q[k] = NAME(reflect)(blas, m - k, x);
    d[k] = (double)RE(*x);
    *x = 1;
    NAME(apply_reflector)(blas, m - k, n - k - 1, x, CONJ(tau_q[k]), x + ld, ld, rest);
    *x = (REAL)d[k];
    tau_p[k] = 0;
    if (k == n - 1) break;
    const ptrdiff_t size = n - k - 1;
    TYPE *y = rows + k * n + k + 1;
    for (ptrdiff_t j = 0; j < size; j++) y[j] = CONJ(x[(j + 1) * ld]);
    tau_p[k] = NAME(reflect)(blas, size, y);
    e[k] = (double)RE(*y);
    *y = 1;
    if (tau_p[k] != 0) {
      /* A (I - tau y conj(y')) of the rows below. */
      memset(rest, 0, (size_t)m * sizeof *rest);
      blas->gemv(m - k - 1, size, x + ld + 1, ld, y, rest);
      for (ptrdiff_t j = 0; j < size; j++) row[j] = -tau_p[k] * CONJ(y[j]);
      blas->rank1(m - k - 1, size, rest, row, x + ld + 1, ld);
    }
    *y = (REAL)e[k];
  }
  NAME(rotations) all = {.blas = blas, .z = {v, u}, .rows = {n, m}, .ld = {ldv, ldu}, .n = n};
  if (u != NULL) {
    NAME(make_q)(blas, dtype, m, columns, n, a, ld, tau_q, u, ldu, rest);
    memset(v, 0, (size_t)n * sizeof *v);
    v[0] = 1;
    for (ptrdiff_t j = 1; j < n; j++) v[j * ldv] = 0;
    if (n > 1) {
      NAME(make_q)(blas, dtype, n - 1, n - 1, n - 1, rows + 1, n, tau_p, v + ldv + 1, ldv, rest);
    }
    all.cs[0] = (REAL *)rest;
    all.cs[1] = all.cs[0] + 2 * n * NAME(SWEEPS);
  }
  const bool done = rm_linalg_bidiagonal(n, d, e, 0x1p-53, cs,
                                         u == NULL ? NULL : NAME(turn), &all);
  NAME(apply_rotations)(&all, 0);
  NAME(apply_rotations)(&all, 1);
  for (ptrdiff_t j = 0; j < n; j++) {
    const bool is_negative = d[j] < 0;
    d[j] = fabs(d[j]);
    if (!is_negative) continue;
    for (ptrdiff_t i = 0; v != NULL && i < n; i++) v[j * ldv + i] = -v[j * ldv + i];
  }
  NAME(sort_columns)(n, d, true, u, m, ldu, v, ldv);
  return done;
}
