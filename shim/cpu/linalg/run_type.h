/*
 * Runs calls of one element type: reads matrices, computes, writes; after eigen_type.h.
 */

/* Copies a matrix of m by n elements. */
static void NAME(copy)(const rm_linalg *ctx, ptrdiff_t m, ptrdiff_t n, const TYPE *from,
                       ptrdiff_t row, ptrdiff_t column, TYPE *to, ptrdiff_t to_row,
                       ptrdiff_t to_column) {
  ((const TABLE *)ctx->blas)->copy(m, n, from, row, column, to, to_row, to_column);
}

/* The same with conjugates: to is the conjugate of from. */
static void NAME(copy_conjugate)(const rm_linalg *ctx, ptrdiff_t m, ptrdiff_t n, const TYPE *from,
                                 ptrdiff_t row, ptrdiff_t column, TYPE *to, ptrdiff_t to_row,
                                 ptrdiff_t to_column) {
  NAME(copy)(ctx, m, n, from, row, column, to, to_row, to_column);
#if defined(COMPLEX)
  for (ptrdiff_t j = 0; j < n; j++) {
    for (ptrdiff_t i = 0; i < m; i++) {
      to[i * to_row + j * to_column] = CONJ(to[i * to_row + j * to_column]);
    }
  }
#endif
}

static void NAME(fill_nan)(ptrdiff_t n, TYPE *x) {
  for (ptrdiff_t i = 0; i < n; i++) x[i] = NAME(make)((REAL)NAN, PARTS == 2 ? (REAL)NAN : 0);
}

/* The largest magnitude of a part; NaN or infinity if there is one. */
static double NAME(largest)(ptrdiff_t n, const TYPE *x) {
  const REAL *parts = (const REAL *)x;
  double most = 0;
  for (ptrdiff_t i = 0; i < n * PARTS; i++) {
    const double one = fabs((double)parts[i]);
    if (!(one <= most)) most = one;
    if (most != most) return most;
  }
  return most;
}

/* Reads one triangle of a Hermitian matrix as the lower one. */
static void NAME(read_hermitian)(const rm_linalg *ctx, ptrdiff_t index, TYPE *a, ptrdiff_t ld) {
  const ptrdiff_t n = ctx->n;
  const TYPE *from = NAME(matrix)(ctx, index);
  if (ctx->flag) NAME(copy_conjugate)(ctx, n, n, from, ctx->a_column, ctx->a_row, a, 1, ld);
  else NAME(copy)(ctx, n, n, from, ctx->a_row, ctx->a_column, a, 1, ld);
  for (ptrdiff_t j = 0; j < n; j++) {
    memset(a + j * ld, 0, (size_t)j * sizeof *a);
    a[j * ld + j] = RE(a[j * ld + j]);
  }
}

/* The rows and columns of a factor with those of the identity beyond, as kernels take columns; and
 * the room of a column. */
static ptrdiff_t NAME(cholesky_size)(ptrdiff_t n) { return PARTS == 2 ? n : rm_round_up(n, 8); }
static ptrdiff_t NAME(cholesky_ld)(ptrdiff_t n) {
  return PARTS == 2 ? n : NAME(cholesky_size)(n) + 16;
}

static void NAME(run_cholesky)(rm_linalg *ctx, ptrdiff_t index, TYPE *a) {
  const ptrdiff_t n = ctx->n, size = NAME(cholesky_size)(n), ld = NAME(cholesky_ld)(n);
  NAME(read_hermitian)(ctx, index, a, ld);
  /* The rows and columns beyond are those of the identity. */
  for (ptrdiff_t j = 0; j < n; j++) memset(a + j * ld + n, 0, (size_t)(ld - n) * sizeof *a);
  for (ptrdiff_t j = n; j < size; j++) {
    memset(a + j * ld, 0, (size_t)ld * sizeof *a);
    a[j * ld + j] = 1;
  }
  const ptrdiff_t bad = NAME(cholesky)(ctx->blas, ctx->dtype, size, size, a, ld, a + size * ld);
  if (bad >= 0) {
    rm_linalg_fail(ctx, index, bad);
    return;
  }
  for (ptrdiff_t j = 1; j < n; j++) memset(a + j * ld, 0, (size_t)j * sizeof *a);
  TYPE *to = NAME(output)(ctx, 0) + index * n * n;
  if (ctx->flag) NAME(copy_conjugate)(ctx, n, n, a, 1, ld, to, 1, n);
  else NAME(copy)(ctx, n, n, a, 1, ld, to, n, 1);
}

/* Numbers from 2^-LIMIT to 2^LIMIT keep their digits in elimination. */
enum { NAME(LIMIT) = sizeof(REAL) == 4 ? 90 : 900 };

/* Whether elimination may have lost larger or smaller numbers of a matrix, by its pivots. */
static bool NAME(is_unbalanced)(ptrdiff_t n, const TYPE *a) {
  const double most = ldexp(1, NAME(LIMIT)), least = 1 / most;
  bool outside = false;
  for (ptrdiff_t i = 0; i < n; i++) {
    const double pivot = NAME(largest)(1, a + i * (n + 1));
    outside |= !(pivot > least && pivot < most);
  }
  return outside;
}

/* Multiplies rows of so large or small numbers by powers of two; returns the exponent of what a
 * determinant has beyond that of the result. */
static int NAME(balance_rows)(ptrdiff_t n, TYPE *a) {
  int sum = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    double most = 0;
    for (ptrdiff_t j = 0; j < n; j++) most = fmax(most, NAME(largest)(1, a + j * n + i));
    const int exponent = rm_exponent(most);
    if (abs(exponent) < NAME(LIMIT)) continue;
    for (ptrdiff_t j = 0; j < n; j++) {
      REAL *parts = (REAL *)(a + j * n + i);
      for (int p = 0; p < PARTS; p++) parts[p] = (REAL)ldexp((double)parts[p], -exponent);
    }
    sum += exponent;
  }
  return sum;
}

static void NAME(run_lu)(rm_linalg *ctx, ptrdiff_t index, TYPE *a, int32_t *pivots) {
  const ptrdiff_t m = ctx->m, n = ctx->n, least = rm_min(m, n);
  const TYPE *from = NAME(matrix)(ctx, index);
  NAME(copy)(ctx, m, n, from, ctx->a_row, ctx->a_column, a, 1, m);
  ptrdiff_t zero = NAME(lu)(ctx->blas, ctx->dtype, m, n, a, m, pivots, a + m * n);
  int exponent = 0;
  if (ctx->kind != RM_LINALG_LU && NAME(is_unbalanced)(n, a)) {
    NAME(copy)(ctx, n, n, from, ctx->a_row, ctx->a_column, a, 1, n);
    exponent = NAME(balance_rows)(n, a);
    zero = NAME(lu)(ctx->blas, ctx->dtype, n, n, a, n, pivots, a + n * n);
  }
  if (ctx->kind == RM_LINALG_LU) {
    TYPE *l = NAME(output)(ctx, 0) + index * m * least, *u = NAME(output)(ctx, 1) + index * least * n;
    int32_t *p = (int32_t *)ctx->call->buffers[4] + (ptrdiff_t)ctx->out_at[2] + index * m;
    for (ptrdiff_t i = 0; i < m; i++) {
      p[i] = (int32_t)i;
      for (ptrdiff_t j = 0; j < least; j++) l[i * least + j] = j < i ? a[j * m + i] : j == i;
      for (ptrdiff_t j = 0; j < n && i < least; j++) u[i * n + j] = j < i ? 0 : a[j * m + i];
    }
    for (ptrdiff_t i = 0; i < least; i++) {
      const int32_t one = p[i];
      p[i] = p[pivots[i]], p[pivots[i]] = one;
    }
    return;
  }
  TYPE *to = NAME(output)(ctx, 0) + index;
  const bool has_log = ctx->kind == RM_LINALG_SLOGDET;
  double re = 1, im = 0, log_size = (double)exponent * 0.6931471805599453;
  for (ptrdiff_t i = 0; i < n; i++) {
    const double x = (double)RE(a[i * n + i]), y = (double)IM(a[i * n + i]);
    const double sign = pivots[i] == i ? 1 : -1;
    if (has_log) {
      const double size = PARTS == 2 ? hypot(x, y) : fabs(x);
      log_size += log(size);
      rm_times(&re, &im, sign * x / size, sign * y / size);
    } else exponent = rm_times_scaled(&re, &im, sign * x, sign * y, exponent);
  }
  if (zero >= 0) re = im = 0, log_size = -(double)INFINITY;
  if (!has_log) re = ldexp(re, exponent), im = ldexp(im, exponent);
  *to = NAME(make)((REAL)re, (REAL)im);
  if (has_log) NAME(real_output)(ctx, 1)[index] = (REAL)log_size;
}

static void NAME(run_solve)(rm_linalg *ctx, ptrdiff_t index, TYPE *a, int32_t *pivots) {
  const ptrdiff_t n = ctx->n, k = ctx->k;
  const bool inverts = ctx->kind == RM_LINALG_INV;
  TYPE *b = a + n * n, *work = b + n * k, *to = NAME(output)(ctx, 0) + index * n * k;
  NAME(copy)(ctx, n, n, NAME(matrix)(ctx, index), ctx->a_row, ctx->a_column, a, 1, n);
  if (inverts) {
    memset(b, 0, (size_t)(n * n) * sizeof *b);
    for (ptrdiff_t i = 0; i < n; i++) b[i * n + i] = 1;
  } else {
    const TYPE *from = (const TYPE *)ctx->call->buffers[2] + (ptrdiff_t)ctx->b_at[index];
    NAME(copy)(ctx, n, k, from, ctx->b_row, ctx->b_column, b, 1, n);
  }
  ptrdiff_t zero = -1;
  if (ctx->kind == RM_LINALG_SOLVE_TRIANGULAR) {
    for (ptrdiff_t i = 0; i < n && !ctx->unit && zero < 0; i++) {
      if (NAME(size1)(a[i * n + i]) == 0) zero = i;
    }
    if (zero < 0) {
      NAME(solve_triangle)(ctx->blas, ctx->dtype, n, k, a, n, ctx->flag, ctx->unit, b, n, work);
    }
  } else {
    zero = NAME(lu)(ctx->blas, ctx->dtype, n, n, a, n, pivots, work);
    if (zero < 0) {
      NAME(swap_rows)(k, b, n, n, pivots);
      NAME(solve_triangle)(ctx->blas, ctx->dtype, n, k, a, n, false, true, b, n, work);
      NAME(solve_triangle)(ctx->blas, ctx->dtype, n, k, a, n, true, false, b, n, work);
    } else if (inverts && ctx->flag) {
      NAME(fill_nan)(n * n, to);
      return;
    }
  }
  if (zero >= 0) rm_linalg_fail(ctx, index, zero);
  else NAME(copy)(ctx, n, k, b, 1, n, to, k, 1);
}

/* Divides finite numbers by a power of two near the largest one; returns it. */
static double NAME(normalize)(ptrdiff_t n, TYPE *a, double largest) {
  if (largest == 0 || (largest > 1e-9 && largest < 1e9)) return 1;
  const double by = exp2(fmin(1000, fmax(-1000, -floor(log2(largest)))));
  REAL *parts = (REAL *)a;
  for (ptrdiff_t i = 0; i < n * PARTS; i++) parts[i] = (REAL)((double)parts[i] * by);
  return 1 / by;
}

static void NAME(run_qr)(rm_linalg *ctx, ptrdiff_t index, TYPE *a) {
#if !defined(COMPLEX)
  if (ctx->m <= NAME(FEW) && ctx->n <= NAME(FEW) && NAME(run_qr_few)(ctx, index)) return;
#endif
  const ptrdiff_t m = ctx->m, n = ctx->n, least = rm_min(m, n), count = ctx->flag ? m : least;
  TYPE *q = a + m * n, *tau = q + m * count, *work = tau + least;
  NAME(copy)(ctx, m, n, NAME(matrix)(ctx, index), ctx->a_row, ctx->a_column, a, 1, m);
  const double largest = NAME(largest)(m * n, a);
  const double scale = largest < (double)INFINITY ? NAME(normalize)(m * n, a, largest) : 1;
  NAME(qr)(ctx->blas, ctx->dtype, m, n, a, m, tau, work);
  NAME(make_q)(ctx->blas, ctx->dtype, m, count, least, a, m, tau, q, m, work);
  NAME(copy)(ctx, m, count, q, 1, m, NAME(output)(ctx, 0) + index * m * count, count, 1);
  for (ptrdiff_t j = 0; j < n; j++) {
    for (ptrdiff_t i = j + 1; i < m; i++) a[j * m + i] = 0;
    for (ptrdiff_t i = 0; i <= j && i < m && scale != 1; i++) {
      REAL *parts = (REAL *)(a + j * m + i);
      for (int p = 0; p < PARTS; p++) parts[p] = (REAL)((double)parts[p] * scale);
    }
  }
  NAME(copy)(ctx, count, n, a, 1, m, NAME(output)(ctx, 1) + index * count * n, n, 1);
}

#if !defined(NARROW)
static void NAME(run_eigh)(rm_linalg *ctx, ptrdiff_t index, TYPE *a, double *numbers) {
  const ptrdiff_t n = ctx->n;
  const bool has_vectors = ctx->kind == RM_LINALG_EIGH;
  TYPE *z = a + n * n, *work = z + (has_vectors ? n * n : 0);
  TYPE *to = has_vectors ? NAME(output)(ctx, 1) + index * n * n : NULL;
  REAL *values = NAME(real_output)(ctx, 0) + index * n;
  NAME(read_hermitian)(ctx, index, a, n);
  const double largest = NAME(largest)(n * n, a);
  if (!(largest < (double)INFINITY)) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = (REAL)NAN;
    if (has_vectors) NAME(fill_nan)(n * n, to);
    return;
  }
  const double scale = NAME(normalize)(n * n, a, largest);
  if (!NAME(eigh)(ctx->blas, ctx->dtype, n, a, n, numbers, has_vectors ? z : NULL, n, work,
                  numbers + n)) {
    rm_linalg_fail(ctx, index, n);
    return;
  }
  for (ptrdiff_t i = 0; i < n; i++) values[i] = (REAL)(numbers[i] * scale);
  if (has_vectors) NAME(copy)(ctx, n, n, z, 1, n, to, n, 1);
}

static void NAME(run_svd)(rm_linalg *ctx, ptrdiff_t index, TYPE *a, double *numbers) {
  const bool is_wide = ctx->m < ctx->n, has_vectors = ctx->kind == RM_LINALG_SVD;
  const ptrdiff_t m = is_wide ? ctx->n : ctx->m, n = is_wide ? ctx->m : ctx->n;
  const ptrdiff_t columns = ctx->flag ? m : n;
  const TYPE *from = NAME(matrix)(ctx, index);
  TYPE *left = has_vectors ? NAME(output)(ctx, 0) + index * ctx->m * (is_wide ? n : columns) : NULL;
  TYPE *right = has_vectors ? NAME(output)(ctx, 2) + index * ctx->n * (is_wide ? columns : n) : NULL;
  REAL *values = NAME(real_output)(ctx, has_vectors ? 1 : 0) + index * n;
  if (is_wide) NAME(copy_conjugate)(ctx, m, n, from, ctx->a_column, ctx->a_row, a, 1, m);
  else NAME(copy)(ctx, m, n, from, ctx->a_row, ctx->a_column, a, 1, m);
  const double largest = NAME(largest)(m * n, a);
  if (!(largest < (double)INFINITY)) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = (REAL)NAN;
    if (has_vectors) {
      NAME(fill_nan)(ctx->m * (is_wide ? n : columns), left);
      NAME(fill_nan)(ctx->n * (is_wide ? columns : n), right);
    }
    return;
  }
  const double scale = NAME(normalize)(m * n, a, largest);
  TYPE *u = a + m * n, *v = u + (has_vectors ? m * columns : 0), *work = v + n * n;
  const bool is_tall = m > n + n / 2 && n > 1;
  bool done;
  if (!is_tall) {
    done = NAME(svd)(ctx->blas, ctx->dtype, m, n, a, m, numbers, has_vectors ? u : NULL, columns, m,
                     v, n, work, numbers + n);
  } else {
    /* Of R; its left vectors are turned by Q. */
    TYPE *r = work, *small = r + n * n, *tau = small + n * n, *rest = tau + n;
    NAME(qr)(ctx->blas, ctx->dtype, m, n, a, m, tau, rest);
    for (ptrdiff_t j = 0; j < n; j++) {
      memset(r + j * n, 0, (size_t)n * sizeof *r);
      memcpy(r + j * n, a + j * m, (size_t)(j + 1) * sizeof *r);
    }
    done = NAME(svd)(ctx->blas, ctx->dtype, n, n, r, n, numbers, has_vectors ? small : NULL, n, n, v,
                     n, rest, numbers + n);
    if (has_vectors) {
      NAME(make_q)(ctx->blas, ctx->dtype, m, columns, n, a, m, tau, u, m, rest);
      NAME(product)(ctx->blas, ctx->dtype, m, n, n, u, m, small, n, a, m);
      memcpy(u, a, (size_t)(m * n) * sizeof *u);
    }
  }
  if (!done) {
    rm_linalg_fail(ctx, index, ctx->m);
    return;
  }
  for (ptrdiff_t i = 0; i < n; i++) values[i] = (REAL)(numbers[i] * scale);
  if (!has_vectors) return;
  /* A = U S conj(V'); of a wide matrix, the adjoint was decomposed. */
  if (is_wide) {
    NAME(copy)(ctx, n, n, v, 1, n, left, n, 1);
    NAME(copy_conjugate)(ctx, m, columns, u, 1, m, right, 1, m);
  } else {
    NAME(copy)(ctx, m, columns, u, 1, m, left, columns, 1);
    NAME(copy_conjugate)(ctx, n, n, v, 1, n, right, 1, n);
  }
}

/* Eigenvalues of a Hermitian matrix, or singular values. */
static void NAME(run_spectral)(rm_linalg *ctx, ptrdiff_t index, TYPE *work, double *numbers) {
  if (ctx->kind == RM_LINALG_EIGH || ctx->kind == RM_LINALG_EIGVALSH) {
    NAME(run_eigh)(ctx, index, work, numbers);
  } else NAME(run_svd)(ctx, index, work, numbers);
}
#endif

static void NAME(run_eig)(rm_linalg *ctx, ptrdiff_t index, TYPE *a) {
  const ptrdiff_t n = ctx->n;
  REAL *values = (REAL *)ctx->call->buffers[0] + 2 * ((ptrdiff_t)ctx->out_at[0] + index * n);
  REAL *vectors = NULL;
  if (ctx->kind == RM_LINALG_EIG) {
    vectors = (REAL *)ctx->call->buffers[3] + 2 * ((ptrdiff_t)ctx->out_at[1] + index * n * n);
  }
  NAME(copy)(ctx, n, n, NAME(matrix)(ctx, index), ctx->a_row, ctx->a_column, a, 1, n);
  const double largest = NAME(largest)(n * n, a);
  if (!(largest < (double)INFINITY)) {
    for (ptrdiff_t i = 0; i < 2 * n; i++) values[i] = (REAL)NAN;
    for (ptrdiff_t i = 0; i < 2 * n * n && vectors != NULL; i++) vectors[i] = (REAL)NAN;
    return;
  }
  const double scale = NAME(normalize)(n * n, a, largest);
  if (!NAME(eig)(ctx->blas, ctx->dtype, n, a, largest / scale, values, vectors, a + n * n)) {
    rm_linalg_fail(ctx, index, n);
    return;
  }
  for (ptrdiff_t i = 0; i < 2 * n && scale != 1; i++) values[i] = (REAL)((double)values[i] * scale);
}

static void NAME(run_expm)(rm_linalg *ctx, ptrdiff_t index, TYPE *a, int32_t *pivots) {
  const ptrdiff_t n = ctx->n;
  TYPE *to = NAME(output)(ctx, 0) + index * n * n;
  NAME(copy)(ctx, n, n, NAME(matrix)(ctx, index), ctx->a_row, ctx->a_column, a, 1, n);
  if (!(NAME(largest)(n * n, a) < (double)INFINITY)) {
    NAME(fill_nan)(n * n, to);
    return;
  }
  const TYPE *made = NAME(expm)(ctx->blas, ctx->dtype, n, a, pivots, a + n * n);
  NAME(copy)(ctx, n, n, made, 1, n, to, n, 1);
}

/* The elements of workspace for a matrix. */
static ptrdiff_t NAME(work_size)(const rm_linalg *ctx) {
  const ptrdiff_t m = ctx->m, n = ctx->n, k = ctx->k, most = m > n ? m : n;
  const ptrdiff_t common = 65 * (most + 32) + 4096;
  switch (ctx->kind) {
    case RM_LINALG_CHOLESKY: return NAME(cholesky_size)(n) * NAME(cholesky_ld)(n) + common;
    case RM_LINALG_QR:
      return m * n + m * (ctx->flag ? m : n) + most + NAME(qr_work)(m, ctx->flag ? most : n) + common;
#if !defined(NARROW)
    case RM_LINALG_EIGH:
    case RM_LINALG_EIGVALSH: return 2 * n * n + NAME(eigh_work)(n) + common;
#endif
    case RM_LINALG_EIG:
    case RM_LINALG_EIGVALS: return n * n + NAME(eig_work)(n) + common;
#if !defined(NARROW)
    case RM_LINALG_SVD:
    case RM_LINALG_SVDVALS: {
      const ptrdiff_t tall = most, thin = rm_min(m, n);
      return tall * thin + tall * (ctx->flag ? tall : thin) + 3 * thin * thin + thin +
             NAME(svd_work)(tall, thin) + common;
    }
#endif
    case RM_LINALG_EXPM: return n * n + NAME(expm_work)(n) + common;
    default: return m * n + n * k + common;
  }
}

void NAME(rm_linalg)(void *context, ptrdiff_t task) {
  rm_linalg *ctx = context;
  const ptrdiff_t first = task * ctx->per_task, end = rm_min(ctx->batch, first + ctx->per_task);
  const ptrdiff_t most = ctx->m > ctx->n ? ctx->m : ctx->n;
  const size_t elements = (size_t)NAME(work_size)(ctx) * sizeof(TYPE);
  char *memory = malloc(elements + (size_t)(8 * most + 8) * (sizeof(double) + sizeof(int32_t)));
  if (memory == NULL) {
    atomic_store(&ctx->no_memory, true);
    return;
  }
  double *numbers = (double *)memory;
  TYPE *work = (TYPE *)(numbers + 8 * most + 8);
  int32_t *pivots = (int32_t *)((char *)work + elements);
#if !defined(COMPLEX)
  if (NAME(takes_few)(ctx)) {
    bool left[NAME(LANES)];
    for (ptrdiff_t i = first, count; i < end; i += count) {
      count = NAME(run_few)(ctx, i, end, left);
      for (ptrdiff_t k = 0; k < count; k++) {
        if (!left[k]) continue;
#if !defined(NARROW)
        if (ctx->kind != RM_LINALG_CHOLESKY) {
          NAME(run_spectral)(ctx, i + k, work, numbers);
          continue;
        }
#endif
        NAME(run_cholesky_few)(ctx, i + k);
      }
    }
    free(memory);
    return;
  }
#endif
  for (ptrdiff_t i = first; i < end; i++) {
    switch (ctx->kind) {
      case RM_LINALG_CHOLESKY:
        if (ctx->n <= NAME(FEW)) NAME(run_cholesky_few)(ctx, i);
        else NAME(run_cholesky)(ctx, i, work);
        break;
      case RM_LINALG_LU:
      case RM_LINALG_DET:
      case RM_LINALG_SLOGDET: NAME(run_lu)(ctx, i, work, pivots); break;
      case RM_LINALG_INV:
      case RM_LINALG_SOLVE:
        if (ctx->n <= NAME(FEW) && ctx->k <= NAME(FEW)) NAME(run_solve_few)(ctx, i);
        else NAME(run_solve)(ctx, i, work, pivots);
        break;
      case RM_LINALG_SOLVE_TRIANGULAR: NAME(run_solve)(ctx, i, work, pivots); break;
      case RM_LINALG_QR: NAME(run_qr)(ctx, i, work); break;
#if !defined(NARROW)
      case RM_LINALG_EIGH:
      case RM_LINALG_EIGVALSH:
      case RM_LINALG_SVD:
      case RM_LINALG_SVDVALS: NAME(run_spectral)(ctx, i, work, numbers); break;
#endif
      case RM_LINALG_EIG:
      case RM_LINALG_EIGVALS: NAME(run_eig)(ctx, i, work); break;
      case RM_LINALG_EXPM: NAME(run_expm)(ctx, i, work, pivots); break;
      default: break;
    }
  }
  free(memory);
}

#undef NAME
#undef NARROW
#undef TABLE
#undef TYPE
#undef REAL
#undef SUFFIX
#undef COMPLEX
#undef CONJ
#undef PARTS
#undef RE
#undef IM
