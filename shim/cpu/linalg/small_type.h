/*
 * Systems of a few equations of one element type, without a workspace; after linalg_type.h.
 */
enum { NAME(FEW) = 8 };

static TYPE *NAME(output)(const rm_linalg *ctx, int k) {
  void *const *buffers = ctx->call->buffers;
  return (TYPE *)buffers[k == 0 ? 0 : k + 2] + (ptrdiff_t)ctx->out_at[k];
}

static REAL *NAME(real_output)(const rm_linalg *ctx, int k) {
  void *const *buffers = ctx->call->buffers;
  return (REAL *)buffers[k == 0 ? 0 : k + 2] + (ptrdiff_t)ctx->out_at[k];
}

static const TYPE *NAME(matrix)(const rm_linalg *ctx, ptrdiff_t index) {
  return (const TYPE *)ctx->call->buffers[1] + (ptrdiff_t)ctx->a_at[index];
}

/* Eliminates a, n rows, and b, k columns beside it; returns a zero pivot, or -1, and the sign of the row
 * exchanges. */
static RM_ALWAYS_INLINE ptrdiff_t NAME(eliminate)(ptrdiff_t n, ptrdiff_t k, TYPE (*a)[NAME(FEW)],
                                                  TYPE (*b)[NAME(FEW)], int *sign) {
  ptrdiff_t zero = -1;
  for (ptrdiff_t p = 0; p < n; p++) {
    ptrdiff_t best = p;
    REAL most = NAME(size1)(a[p][p]);
    for (ptrdiff_t i = p + 1; i < n; i++) {
      const REAL size = NAME(size1)(a[i][p]);
      if (size > most || (size != size && most == most)) best = i, most = size;
    }
    if (best != p) {
      *sign = -*sign;
      for (ptrdiff_t j = 0; j < n; j++) {
        const TYPE one = a[p][j];
        a[p][j] = a[best][j], a[best][j] = one;
      }
      for (ptrdiff_t j = 0; j < k; j++) {
        const TYPE one = b[p][j];
        b[p][j] = b[best][j], b[best][j] = one;
      }
    }
    if (most == 0) {
      if (zero < 0) zero = p;
      continue;
    }
    const TYPE pivot = a[p][p];
    for (ptrdiff_t i = p + 1; i < n; i++) {
      const TYPE factor = NAME(divide)(a[i][p], pivot);
      for (ptrdiff_t j = p + 1; j < n; j++) a[i][j] -= factor * a[p][j];
      for (ptrdiff_t j = 0; j < k; j++) b[i][j] -= factor * b[p][j];
    }
  }
  return zero;
}

/* Replaces b by the solution. */
static RM_ALWAYS_INLINE ptrdiff_t NAME(solve_sized)(ptrdiff_t n, ptrdiff_t k, TYPE (*a)[NAME(FEW)],
                                                    TYPE (*b)[NAME(FEW)]) {
  int sign = 1;
  const ptrdiff_t zero = NAME(eliminate)(n, k, a, b, &sign);
  if (zero >= 0) return zero;
  for (ptrdiff_t i = n - 1; i >= 0; i--) {
    for (ptrdiff_t j = 0; j < k; j++) {
      TYPE sum = b[i][j];
      for (ptrdiff_t p = i + 1; p < n; p++) sum -= a[i][p] * b[p][j];
      b[i][j] = NAME(divide)(sum, a[i][i]);
    }
  }
  return -1;
}

/* Solves one system of at most FEW equations and right sides, or inverts its matrix. */
static void NAME(run_solve_few)(rm_linalg *ctx, ptrdiff_t index) {
  const ptrdiff_t n = ctx->n, k = ctx->k;
  const bool inverts = ctx->kind == RM_LINALG_INV;
  TYPE a[NAME(FEW)][NAME(FEW)], b[NAME(FEW)][NAME(FEW)];
  const TYPE *from = (const TYPE *)ctx->call->buffers[1] + (ptrdiff_t)ctx->a_at[index];
  TYPE *to = (TYPE *)ctx->call->buffers[0] + (ptrdiff_t)ctx->out_at[0] + index * n * k;
  for (ptrdiff_t i = 0; i < n; i++) {
    for (ptrdiff_t j = 0; j < n; j++) a[i][j] = from[i * ctx->a_row + j * ctx->a_column];
  }
  if (inverts) {
    memset(b, 0, sizeof b);
    for (ptrdiff_t i = 0; i < n; i++) b[i][i] = 1;
  } else {
    from = (const TYPE *)ctx->call->buffers[2] + (ptrdiff_t)ctx->b_at[index];
    for (ptrdiff_t i = 0; i < n; i++) {
      for (ptrdiff_t j = 0; j < k; j++) b[i][j] = from[i * ctx->b_row + j * ctx->b_column];
    }
  }
  ptrdiff_t zero;
  if (n == 4 && k == 4) zero = NAME(solve_sized)(4, 4, a, b);
  else if (n == 3 && k == 3) zero = NAME(solve_sized)(3, 3, a, b);
  else zero = NAME(solve_sized)(n, k, a, b);
  if (zero < 0) {
    for (ptrdiff_t i = 0; i < n; i++) {
      for (ptrdiff_t j = 0; j < k; j++) to[i * k + j] = b[i][j];
    }
  } else if (inverts && ctx->flag) {
    for (ptrdiff_t i = 0; i < n * n; i++) to[i] = NAME(make)((REAL)NAN, PARTS == 2 ? (REAL)NAN : 0);
  } else rm_linalg_fail(ctx, index, zero);
}

/* The Cholesky factor of a matrix of at most FEW rows. */
static void NAME(run_cholesky_few)(rm_linalg *ctx, ptrdiff_t index) {
  const ptrdiff_t n = ctx->n;
  TYPE a[NAME(FEW)][NAME(FEW)];
  const TYPE *from = (const TYPE *)ctx->call->buffers[1] + (ptrdiff_t)ctx->a_at[index];
  TYPE *to = (TYPE *)ctx->call->buffers[0] + (ptrdiff_t)ctx->out_at[0] + index * n * n;
  for (ptrdiff_t i = 0; i < n; i++) {
    for (ptrdiff_t j = 0; j <= i; j++) {
      TYPE sum = ctx->flag ? CONJ(from[j * ctx->a_row + i * ctx->a_column])
                           : from[i * ctx->a_row + j * ctx->a_column];
      for (ptrdiff_t p = 0; p < j; p++) sum -= a[i][p] * CONJ(a[j][p]);
      if (i > j) a[i][j] = sum / RE(a[j][j]);
      else {
        if (RE(sum) <= 0) {
          rm_linalg_fail(ctx, index, i);
          return;
        }
        a[i][i] = (REAL)sqrt((double)RE(sum));
      }
    }
  }
  for (ptrdiff_t i = 0; i < n; i++) {
    for (ptrdiff_t j = 0; j < n; j++) {
      if (ctx->flag) to[i * n + j] = j < i ? 0 : CONJ(a[j][i]);
      else to[i * n + j] = j > i ? 0 : a[i][j];
    }
  }
}

#if !defined(COMPLEX)
/* Replaces a by R, and q, m by `count`, by Q. False if numbers are so large or small that sums of squares
 * need care. */
static RM_ALWAYS_INLINE bool NAME(qr_sized)(ptrdiff_t m, ptrdiff_t n, ptrdiff_t count,
                                            TYPE (*a)[NAME(FEW)], TYPE (*q)[NAME(FEW)]) {
  const double least = sizeof(REAL) == 4 ? 1e-50 : 1e-200;
  const ptrdiff_t reflections = rm_min(m, n);
  REAL tau[NAME(FEW)];
  for (ptrdiff_t k = 0; k < reflections; k++) {
    double squares = 0;
    bool is_zero = true;
    for (ptrdiff_t i = k + 1; i < m; i++) {
      squares += (double)a[i][k] * (double)a[i][k];
      is_zero &= a[i][k] == 0;
    }
    tau[k] = 0;
    if (is_zero) continue;
    const double x = (double)a[k][k], all = x * x + squares;
    if (!(squares > 1e-200 && all > least && all < 1 / least)) return false;
    const double size = sqrt(all), image = x > 0 ? -size : size;
    const REAL by = 1 / (REAL)(x - image);
    tau[k] = (REAL)((image - x) / image);
    a[k][k] = (REAL)image;
    for (ptrdiff_t i = k + 1; i < m; i++) a[i][k] *= by;
    for (ptrdiff_t j = k + 1; j < n; j++) {
      REAL sum = a[k][j];
      for (ptrdiff_t i = k + 1; i < m; i++) sum += a[i][k] * a[i][j];
      sum *= tau[k];
      a[k][j] -= sum;
      for (ptrdiff_t i = k + 1; i < m; i++) a[i][j] -= a[i][k] * sum;
    }
  }
  for (ptrdiff_t i = 0; i < m; i++) {
    for (ptrdiff_t j = 0; j < count; j++) q[i][j] = i == j;
  }
  for (ptrdiff_t k = reflections - 1; k >= 0; k--) {
    for (ptrdiff_t j = k; j < count; j++) {
      REAL sum = q[k][j];
      for (ptrdiff_t i = k + 1; i < m; i++) sum += a[i][k] * q[i][j];
      sum *= tau[k];
      q[k][j] -= sum;
      for (ptrdiff_t i = k + 1; i < m; i++) q[i][j] -= a[i][k] * sum;
    }
  }
  return true;
}

/* The factors of a matrix of at most FEW rows and columns; false as above. */
static bool NAME(run_qr_few)(rm_linalg *ctx, ptrdiff_t index) {
  const ptrdiff_t m = ctx->m, n = ctx->n, count = ctx->flag ? m : rm_min(m, n);
  TYPE a[NAME(FEW)][NAME(FEW)], q[NAME(FEW)][NAME(FEW)];
  const TYPE *from = NAME(matrix)(ctx, index);
  for (ptrdiff_t i = 0; i < m; i++) {
    for (ptrdiff_t j = 0; j < n; j++) a[i][j] = from[i * ctx->a_row + j * ctx->a_column];
  }
  bool done;
  if (m == 4 && n == 4) done = NAME(qr_sized)(4, 4, 4, a, q);
  else if (m == 3 && n == 3) done = NAME(qr_sized)(3, 3, 3, a, q);
  else done = NAME(qr_sized)(m, n, count, a, q);
  if (!done) return false;
  TYPE *to = NAME(output)(ctx, 0) + index * m * count;
  for (ptrdiff_t i = 0; i < m; i++) {
    for (ptrdiff_t j = 0; j < count; j++) to[i * count + j] = q[i][j];
  }
  to = NAME(output)(ctx, 1) + index * count * n;
  for (ptrdiff_t i = 0; i < count; i++) {
    for (ptrdiff_t j = 0; j < n; j++) to[i * n + j] = j < i ? 0 : a[i][j];
  }
  return true;
}
#endif
