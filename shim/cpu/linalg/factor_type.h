/*
 * Factors and systems of one element type; after linalg_type.h.
 */
enum { NAME(SMALL) = 8, NAME(INVERTED) = 32, NAME(PANEL) = 32, NAME(MOST_PARTS) = 8 };

/* Replaces a by L and U; notes row exchanges. Returns the first zero pivot, or -1. */
static ptrdiff_t NAME(lu)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, TYPE *a,
                          ptrdiff_t ld, int32_t *pivots, TYPE *work);

/* Exchanges rows of n columns as pivots say. */
static void NAME(swap_rows)(ptrdiff_t n, TYPE *a, ptrdiff_t ld, ptrdiff_t count,
                            const int32_t *pivots) {
  for (ptrdiff_t j = 0; j < n; j++, a += ld) {
    for (ptrdiff_t i = 0; i < count; i++) {
      const TYPE one = a[i];
      a[i] = a[pivots[i]];
      a[pivots[i]] = one;
    }
  }
}

static ptrdiff_t NAME(lu_small)(const TABLE *blas, ptrdiff_t m, ptrdiff_t n, TYPE *a, ptrdiff_t ld,
                                int32_t *pivots) {
  ptrdiff_t zero = -1;
  for (ptrdiff_t k = 0; k < rm_min(m, n); k++) {
    TYPE *column = a + k * ld;
    ptrdiff_t best = k;
    REAL most = NAME(size1)(column[k]);
    for (ptrdiff_t i = k + 1; i < m && most == most; i++) {
      const REAL size = NAME(size1)(column[i]);
      if (!(size <= most)) best = i, most = size;
    }
    pivots[k] = (int32_t)best;
    if (best != k) {
      for (ptrdiff_t j = 0; j < n; j++) {
        const TYPE one = a[j * ld + k];
        a[j * ld + k] = a[j * ld + best];
        a[j * ld + best] = one;
      }
    }
    const TYPE pivot = column[k];
    if (most == 0) {
      if (zero < 0) zero = k;
      continue;
    }
#if defined(COMPLEX)
    for (ptrdiff_t i = k + 1; i < m; i++) column[i] = NAME(divide)(column[i], pivot);
#else
    if (fabs((double)pivot) > 1e-30) {
      const TYPE by = 1 / pivot;
      for (ptrdiff_t i = k + 1; i < m; i++) column[i] *= by;
    } else {
      for (ptrdiff_t i = k + 1; i < m; i++) column[i] /= pivot;
    }
#endif
    for (ptrdiff_t j = k + 1; j < n; j++) {
      TYPE *to = a + j * ld;
      if (m - k - 1 >= 8) blas->axpy(m - k - 1, -to[k], column + k + 1, to + k + 1);
      else {
        RM_SCALAR for (ptrdiff_t i = k + 1; i < m; i++) to[i] -= to[k] * column[i];
      }
    }
  }
  return zero;
}

/* Replaces a triangle of n rows by its inverse, in `to` of n columns and rows; the other triangle of
 * `to` is 0. */
static void NAME(invert_triangle)(ptrdiff_t n, const TYPE *a, ptrdiff_t ld, bool upper, bool unit,
                                  TYPE *to) {
  for (ptrdiff_t j = 0; j < n; j++) {
    TYPE *x = to + j * n;
    memset(x, 0, (size_t)n * sizeof *x);
    x[j] = 1;
    if (upper) {
      for (ptrdiff_t k = j; k >= 0; k--) {
        if (!unit) x[k] = NAME(divide)(x[k], a[k * ld + k]);
        for (ptrdiff_t i = 0; i < k; i++) x[i] -= x[k] * a[k * ld + i];
      }
    } else {
      for (ptrdiff_t k = j; k < n; k++) {
        if (!unit) x[k] = NAME(divide)(x[k], a[k * ld + k]);
        for (ptrdiff_t i = k + 1; i < n; i++) x[i] -= x[k] * a[k * ld + i];
      }
    }
  }
}

/* Replaces b (n by k) by the solution x of a x = b for a triangular a. `work` has room for n times 64
 * elements, and 1024 more. */
static void NAME(solve_triangle)(const TABLE *blas, int dtype, ptrdiff_t n, ptrdiff_t k,
                                 const TYPE *a, ptrdiff_t lda, bool upper, bool unit, TYPE *b,
                                 ptrdiff_t ldb, TYPE *work) {
  if (n <= 0 || k <= 0) return;
  if (k < 16 || n <= NAME(SMALL)) {
    if (n > 64) goto split;
    for (ptrdiff_t j = 0; j < k; j++) {
      TYPE *x = b + j * ldb;
      for (ptrdiff_t step = 0; step < n; step++) {
        const ptrdiff_t i = upper ? n - 1 - step : step;
        if (!unit) x[i] = NAME(divide)(x[i], a[i * lda + i]);
        const ptrdiff_t from = upper ? 0 : i + 1, count = upper ? i : n - 1 - i;
        if (count >= 8) blas->axpy(count, -x[i], a + i * lda + from, x + from);
        else {
          RM_SCALAR for (ptrdiff_t p = from; p < from + count; p++) x[p] -= x[i] * a[i * lda + p];
        }
      }
    }
    return;
  }
  if (n <= NAME(INVERTED)) {
    TYPE inverse[NAME(INVERTED) * NAME(INVERTED)];
    NAME(invert_triangle)(n, a, lda, upper, unit, inverse);
    for (ptrdiff_t j = 0, count; j < k; j += count) {
      count = rm_min(64, k - j);
      NAME(product)(blas, dtype, n, count, n, inverse, n, b + j * ldb, ldb, work, n);
      for (ptrdiff_t i = 0; i < count; i++) {
        memcpy(b + (j + i) * ldb, work + i * n, (size_t)n * sizeof *b);
      }
    }
    return;
  }
split:;
  const ptrdiff_t half = rm_min(n - 1, rm_round_up(n / 2, NAME(INVERTED)));
  const ptrdiff_t rest = n - half;
  if (upper) {
    NAME(solve_triangle)(blas, dtype, rest, k, a + half * lda + half, lda, upper, unit, b + half,
                         ldb, work);
    NAME(subtract_product)(blas, dtype, half, k, rest, a + half * lda, lda, b + half, ldb, false, b,
                           ldb, work);
    NAME(solve_triangle)(blas, dtype, half, k, a, lda, upper, unit, b, ldb, work);
  } else {
    NAME(solve_triangle)(blas, dtype, half, k, a, lda, upper, unit, b, ldb, work);
    NAME(subtract_product)(blas, dtype, rest, k, half, a + half, lda, b, ldb, false, b + half, ldb,
                           work);
    NAME(solve_triangle)(blas, dtype, rest, k, a + half * lda + half, lda, upper, unit, b + half,
                         ldb, work);
  }
}

static ptrdiff_t NAME(lu)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, TYPE *a,
                          ptrdiff_t ld, int32_t *pivots, TYPE *work) {
  if (n <= NAME(SMALL) || m <= 1) return NAME(lu_small)(blas, m, n, a, ld, pivots);
  const ptrdiff_t least = rm_min(m, n), half = least < n ? least : n / 2, rest = n - half;
  ptrdiff_t zero;
  if (half == n) return NAME(lu_small)(blas, m, n, a, ld, pivots);
  TYPE *right = a + half * ld;
  zero = NAME(lu)(blas, dtype, m, half, a, ld, pivots, work);
  NAME(swap_rows)(rest, right, ld, half, pivots);
  NAME(solve_triangle)(blas, dtype, half, rest, a, ld, false, true, right, ld, work);
  if (m <= half) return zero;
  NAME(subtract_product)(blas, dtype, m - half, rest, half, a + half, ld, right, ld, false,
                         right + half, ld, work);
  const ptrdiff_t next = NAME(lu)(blas, dtype, m - half, rest, right + half, ld, pivots + half, work);
  NAME(swap_rows)(half, a + half, ld, rm_min(m - half, rest), pivots + half);
  for (ptrdiff_t i = half; i < half + rm_min(m - half, rest); i++) pivots[i] += (int32_t)half;
  return zero >= 0 ? zero : next >= 0 ? next + half : -1;
}

/* Replaces n columns of the lower triangle of m rows by those of its Cholesky factor. Returns a bad
 * pivot, or -1. `work` has room for m times 64 elements, and 1024 more. The kernel of reals says what
 * columns it takes. */
static ptrdiff_t NAME(cholesky)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, TYPE *a,
                                ptrdiff_t ld, TYPE *work) {
#if defined(COMPLEX)
  if (n <= 32) {
    for (ptrdiff_t j = 0; j < n; j++) {
      TYPE *column = a + j * ld;
      const double pivot = (double)RE(column[j]);
      if (pivot <= 0) return j;
      const REAL root = (REAL)sqrt(pivot);
      column[j] = root;
      for (ptrdiff_t i = j + 1; i < m; i++) column[i] /= root;
      for (ptrdiff_t k = j + 1; k < n; k++) {
        blas->axpy(m - k, -CONJ(column[k]), column + k, a + k * ld + k);
      }
    }
    return -1;
  }
#else
  if (n <= 64) return blas->cholesky_columns(m, n, a, ld);
#endif
  const ptrdiff_t half = rm_round_up(n / 2, 32), rest = n - half;
  const ptrdiff_t first = NAME(cholesky)(blas, dtype, m, half, a, ld, work);
  if (first >= 0) return first;
  TYPE *below = a + half, *corner = below + half * ld;
  for (ptrdiff_t j = 0, count; j < rest; j += count) {
    count = rm_min(64, rest - j);
    NAME(subtract_product)(blas, dtype, m - half - j, count, half, below + j, ld, below + j, ld,
                           true, corner + j * ld + j, ld, work);
  }
  const ptrdiff_t second = NAME(cholesky)(blas, dtype, m - half, rest, corner, ld, work);
  return second < 0 ? -1 : second + half;
}

/* The norm of n elements. */
static double NAME(length)(const TABLE *blas, ptrdiff_t n, const TYPE *x) {
  if (n > RM_LINALG_FEW) return NAME(norm)(blas, n, x);
  double squares = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    const double a = (double)RE(x[i]), b = (double)IM(x[i]);
    squares += a * a + b * b;
  }
  return squares > 1e-200 && squares < 1e200 ? sqrt(squares) : NAME(norm)(blas, n, x);
}

/* Replaces n elements by the vector of a reflection, which begins with 1, and the image of the first
 * element; returns tau of I - tau v conj(v'). */
static TYPE NAME(reflect)(const TABLE *blas, ptrdiff_t n, TYPE *x) {
  const double rest = n > 1 ? NAME(length)(blas, n - 1, x + 1) : 0;
  const double a = (double)RE(x[0]), b = (double)IM(x[0]);
  if (rest == 0 && b == 0) return 0;
  const double squares = a * a + b * b + rest * rest;
  const double size = squares > 1e-200 && squares < 1e200 ? sqrt(squares)
                                                          : hypot(hypot(a, b), rest);
  const double image = a > 0 ? -size : size;
  if (size < (sizeof(REAL) == 4 ? 1e-30 : 1e-290)) {
    /* Subnormal numbers have few digits, and 1 / head would overflow. */
    const REAL lift = sizeof(REAL) == 4 ? (REAL)0x1p100 : (REAL)0x1p600;
    for (ptrdiff_t i = 0; i < n; i++) x[i] *= lift;
    const TYPE tau = NAME(reflect)(blas, n, x);
    x[0] /= lift;
    return tau;
  }
  const TYPE by = NAME(divide)(1, NAME(make)((REAL)(a - image), (REAL)b));
  for (ptrdiff_t i = 1; i < n; i++) x[i] *= by;
  x[0] = (REAL)image;
  return NAME(make)((REAL)((image - a) / image), (REAL)(-b / image));
}

/* c (m by n) -= tau v (conj(v') c). `work` has room for n elements. */
static void NAME(apply_reflector)(const TABLE *blas, ptrdiff_t m, ptrdiff_t n, const TYPE *v,
                                  TYPE tau, TYPE *c, ptrdiff_t ld, TYPE *work) {
  if (n <= 0 || tau == 0) return;
  if (m <= RM_LINALG_FEW) {
    for (ptrdiff_t j = 0; j < n; j++) {
      TYPE *const to = c + j * ld;
      TYPE sum = 0;
      for (ptrdiff_t i = 0; i < m; i++) sum += CONJ(v[i]) * to[i];
      sum *= -tau;
      for (ptrdiff_t i = 0; i < m; i++) to[i] += v[i] * sum;
    }
    return;
  }
  blas->gemv_adjoint(m, n, c, ld, v, work);
#if defined(COMPLEX)
  /* That was conj(c') v. */
  for (ptrdiff_t j = 0; j < n; j++) work[j] = -tau * CONJ(work[j]);
#else
  for (ptrdiff_t j = 0; j < n; j++) work[j] = -tau * work[j];
#endif
  blas->rank1(m, n, v, work, c, ld);
}

/* The vectors of `count` reflections as columns with zeros above their first element, 1, and the
 * triangle T of I - V T conj(V'). */
static void NAME(block_reflector)(const TABLE *blas, ptrdiff_t m, ptrdiff_t count, const TYPE *a,
                                  ptrdiff_t ld, const TYPE *tau, TYPE *v, TYPE *t) {
  for (ptrdiff_t j = 0; j < count; j++) {
    memset(v + j * m, 0, (size_t)j * sizeof *v);
    v[j * m + j] = 1;
    memcpy(v + j * m + j + 1, a + j * ld + j + 1, (size_t)(m - j - 1) * sizeof *v);
  }
  for (ptrdiff_t j = 0; j < count; j++) {
    TYPE *to = t + j * count;
    memset(to, 0, (size_t)count * sizeof *to);
    to[j] = tau[j];
    if (j == 0) continue;
    TYPE products[NAME(PANEL)];
    blas->gemv_adjoint(m - j, j, v + j, m, v + j * m + j, products);
    for (ptrdiff_t i = 0; i < j; i++) {
      TYPE sum = 0;
      for (ptrdiff_t k = i; k < j; k++) sum += t[k * count + i] * products[k];
      to[i] = -tau[j] * sum;
    }
  }
}

/* c (m by n) -= V T conj(V') c, or with conj(T'). */
typedef struct {
  const TABLE *blas;
  int dtype;
  bool adjoint;
  /* The columns of c that a task takes. */
  ptrdiff_t columns;
  ptrdiff_t m, n, count;
  const TYPE *v, *t;
  TYPE *c, *work;
  ptrdiff_t ld;
} NAME(applied_block);

static void NAME(apply_block_part)(void *context, ptrdiff_t index) {
  const NAME(applied_block) *one = context;
  const TABLE *blas = one->blas;
  const int dtype = one->dtype;
  const ptrdiff_t m = one->m, count = one->count, from = index * one->columns;
  const ptrdiff_t n = rm_min(one->columns, one->n - from);
  TYPE *c = one->c + from * one->ld;
  TYPE *first = one->work + index * (2 * count * one->columns + 64 * m + 1024);
  TYPE *second = first + count * n, *rest = second + count * n;
  NAME(adjoint_product)(blas, dtype, count, n, m, one->v, m, c, one->ld, first, count);
  if (one->adjoint) {
    NAME(adjoint_product)(blas, dtype, count, n, count, one->t, count, first, count, second, count);
  } else NAME(product)(blas, dtype, count, n, count, one->t, count, first, count, second, count);
  NAME(subtract_product)(blas, dtype, m, n, count, one->v, m, second, count, false, c, one->ld, rest);
}

static void NAME(apply_block)(NAME(applied_block) block) {
  /* Each of the threads takes columns, with a workspace of its own; sharing few takes longer. */
  const ptrdiff_t n = block.n;
  const ptrdiff_t parts = rm_min(rm_threads(), rm_min(NAME(MOST_PARTS), n / 64));
  if (n <= 0) return;
  block.columns = parts <= 1 ? n : rm_round_up(rm_ceil_div(n, parts), 8);
  const double products = (double)block.m * (double)n * (double)block.count;
  rm_parallel(rm_ceil_div(n, block.columns), products / (PARTS == 2 ? 2 : 48 / sizeof(REAL)),
              NAME(apply_block_part), &block);
}

/* The elements that NAME(qr) and NAME(make_q) need for matrices of up to m by n. */
static ptrdiff_t NAME(qr_work)(ptrdiff_t m, ptrdiff_t n) {
  const ptrdiff_t parts = 1 + rm_min(NAME(MOST_PARTS), n / 64);
  return NAME(PANEL) * (m + NAME(PANEL)) + parts * (64 * m + 1536) + m + 65 * n + 4096;
}

/* Replaces a by R and vectors of reflections. */
static void NAME(qr)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, TYPE *a, ptrdiff_t ld,
                     TYPE *tau, TYPE *work) {
  const ptrdiff_t least = rm_min(m, n);
  const ptrdiff_t panel = least <= 48 ? least : NAME(PANEL);
  for (ptrdiff_t k = 0, count; k < least; k += count) {
    count = rm_min(panel, least - k);
    const ptrdiff_t end = k + count < least ? k + count : panel == least ? n : k + count;
    for (ptrdiff_t j = k; j < k + count; j++) {
      TYPE *v = a + j * ld + j;
      tau[j] = NAME(reflect)(blas, m - j, v);
      const TYPE image = *v;
      *v = 1;
      NAME(apply_reflector)(blas, m - j, end - j - 1, v, CONJ(tau[j]), v + ld, ld, work);
      *v = image;
    }
    if (end >= n) continue;
    TYPE *v = work, *t = v + (m - k) * count, *rest = t + count * count;
    NAME(block_reflector)(blas, m - k, count, a + k * ld + k, ld, tau + k, v, t);
    NAME(apply_block)((NAME(applied_block)){blas, dtype, true, 0, m - k, n - k - count, count, v, t,
                                            a + (k + count) * ld + k, rest, ld});
  }
}

/* Q (m by n) of `count` reflections in a. */
static void NAME(make_q)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, ptrdiff_t count,
                         const TYPE *a, ptrdiff_t ld, const TYPE *tau, TYPE *q, ptrdiff_t ldq,
                         TYPE *work) {
  for (ptrdiff_t j = 0; j < n; j++) {
    memset(q + j * ldq, 0, (size_t)m * sizeof *q);
    if (j < m) q[j * ldq + j] = 1;
  }
  if (count <= 24) {
    TYPE *v = work, *rest = work + m;
    for (ptrdiff_t k = count - 1; k >= 0; k--) {
      v[0] = 1;
      memcpy(v + 1, a + k * ld + k + 1, (size_t)(m - k - 1) * sizeof *v);
      NAME(apply_reflector)(blas, m - k, n - k, v, tau[k], q + k * ldq + k, ldq, rest);
    }
    return;
  }
  for (ptrdiff_t k = (count - 1) / NAME(PANEL) * NAME(PANEL); k >= 0; k -= NAME(PANEL)) {
    const ptrdiff_t width = rm_min(NAME(PANEL), count - k);
    TYPE *v = work, *t = v + (m - k) * width, *rest = t + width * width;
    NAME(block_reflector)(blas, m - k, width, a + k * ld + k, ld, tau + k, v, t);
    NAME(apply_block)((NAME(applied_block)){blas, dtype, false, 0, m - k, n - k, width, v, t,
                                            q + k * ldq + k, rest, ldq});
  }
}
