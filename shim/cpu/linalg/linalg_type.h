/*
 * What the algorithms of one element type share: TYPE with parts of REAL, named by SUFFIX; with COMPLEX
 * if it is complex. TABLE is the type of its vector kernels.
 */
#define NAME(name) RM_SUFFIXED(name, SUFFIX)
#define TABLE NAME(rm_blas)
#if defined(COMPLEX)
#define CONJ(x) (~(x))
#define PARTS 2
#define RE(x) (__real__(x))
#define IM(x) (__imag__(x))
#else
#define CONJ(x) (x)
#define PARTS 1
#define RE(x) (x)
#define IM(x) ((REAL)0)
#endif

static inline TYPE NAME(make)(REAL re, REAL im) {
#if defined(COMPLEX)
  TYPE made = 0;
  __real__ made = re;
  __imag__ made = im;
  return made;
#else
  (void)im;
  return re;
#endif
}

static inline REAL NAME(size1)(TYPE x) { return (REAL)(fabs((double)RE(x)) + fabs((double)IM(x))); }

/* x / y without overflow. */
static inline TYPE NAME(divide)(TYPE x, TYPE y) {
#if defined(COMPLEX)
  const double a = RE(x), b = IM(x), c = RE(y), d = IM(y);
  if (fabs(c) >= fabs(d)) {
    const double r = d / c, by = c + d * r;
    return NAME(make)((REAL)((a + b * r) / by), (REAL)((b - a * r) / by));
  }
  const double r = c / d, by = c * r + d;
  return NAME(make)((REAL)((a * r + b) / by), (REAL)((b * r - a) / by));
#else
  return x / y;
#endif
}

/* The 2-norm of n elements. */
static double NAME(norm)(const TABLE *blas, ptrdiff_t n, const TYPE *x) {
  const double square = (double)RE(blas->dot(n, x, x));
  if (square > 1e-30 && square < 1e30) return sqrt(square);
  double largest = 0, sum = 0;
  const REAL *parts = (const REAL *)x;
  for (ptrdiff_t i = 0; i < n * PARTS; i++) {
    if (!(fabs((double)parts[i]) <= largest)) largest = fabs((double)parts[i]);
  }
  if (largest == 0 || !(largest < INFINITY)) return largest;
  for (ptrdiff_t i = 0; i < n * PARTS; i++) {
    const double one = (double)parts[i] / largest;
    sum += one * one;
  }
  return largest * sqrt(sum);
}

/* c (m by n) -= a (m by k) b (k by n), or with `adjoint` c -= a conj(b') for b of n by k. `work` has
 * room for m times 64 and k elements. */
static void NAME(subtract_product)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n,
                                   ptrdiff_t k, const TYPE *a, ptrdiff_t lda, const TYPE *b,
                                   ptrdiff_t ldb, bool adjoint, TYPE *c, ptrdiff_t ldc,
                                   TYPE *work) {
  if (m <= 0 || n <= 0 || k <= 0) return;
  ptrdiff_t first = 0;
#if !defined(COMPLEX)
  if (k >= 12 && m >= 8 && n >= 4) {
    for (ptrdiff_t count; first < n; first += count) {
      count = rm_min(64, n - first);
      const TYPE *factor = adjoint ? b + first : b + first * ldb;
      if (!rm_linalg_product(dtype, m, count, k, work, m, a, 1, lda, factor, adjoint ? ldb : 1,
                             adjoint ? 1 : ldb)) {
        break;
      }
      for (ptrdiff_t i = 0; i < count; i++) {
        blas->axpy(m, -1, work + i * m, c + (first + i) * ldc);
      }
    }
  }
#endif
  (void)dtype;
  for (ptrdiff_t j = first; j < n; j++) {
    for (ptrdiff_t p = 0; p < k; p++) work[p] = adjoint ? -CONJ(b[p * ldb + j]) : -b[j * ldb + p];
    blas->gemv(m, k, a, lda, work, c + j * ldc);
  }
}

/* c (k by n) = conj(a') b for a of m by k, b of m by n. */
static void NAME(adjoint_product)(const TABLE *blas, int dtype, ptrdiff_t k, ptrdiff_t n,
                                  ptrdiff_t m, const TYPE *a, ptrdiff_t lda, const TYPE *b,
                                  ptrdiff_t ldb, TYPE *c, ptrdiff_t ldc) {
#if !defined(COMPLEX)
  if (k >= 8 && m >= 12 && n >= 4 &&
      rm_linalg_product(dtype, k, n, m, c, ldc, a, lda, 1, b, 1, ldb)) {
    return;
  }
#endif
  (void)dtype;
  for (ptrdiff_t j = 0; j < n; j++) blas->gemv_adjoint(m, k, a, lda, b + j * ldb, c + j * ldc);
}

/* c (m by n) = a (m by k) b (k by n). */
static void NAME(product)(const TABLE *blas, int dtype, ptrdiff_t m, ptrdiff_t n, ptrdiff_t k,
                          const TYPE *a, ptrdiff_t lda, const TYPE *b, ptrdiff_t ldb, TYPE *c,
                          ptrdiff_t ldc) {
#if !defined(COMPLEX)
  if (k >= 8 && m >= 8 && n >= 4 &&
      rm_linalg_product(dtype, m, n, k, c, ldc, a, 1, lda, b, 1, ldb)) {
    return;
  }
#endif
  (void)dtype;
  for (ptrdiff_t j = 0; j < n; j++) {
    memset(c + j * ldc, 0, (size_t)m * sizeof *c);
    blas->gemv(m, k, a, lda, b + j * ldb, c + j * ldc);
  }
}
