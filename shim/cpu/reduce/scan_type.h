/*
 * Cumulative sums, products, maxima or minima in one type.
 *
 * Included by scan.c once per type and operation, with TYPE, SUFFIX and ACCUMULATE(a, x). It has no
 * include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

/* Scans SCAN_RUNS blocks side by side, in place; carries connect consecutive blocks. Integer sums
 * do not need it: their latency is short. */
static inline __attribute__((unused)) void NAME(scan_runs)(ptrdiff_t n, TYPE (*restrict x)[SCAN_BLOCK], TYPE *carry) {
  TYPE a[SCAN_RUNS];
  for (int l = 0; l < SCAN_RUNS; l++) a[l] = carry[l];
  for (ptrdiff_t i = 0; i < n; i++) {
    for (int l = 0; l < SCAN_RUNS; l++) {
      a[l] = ACCUMULATE(a[l], x[l][i]);
      x[l][i] = a[l];
    }
  }
  for (int l = 0; l < SCAN_RUNS; l++) carry[l] = a[l];
}

/* Scans one block. */
static void NAME(scan_run)(ptrdiff_t n, TYPE *restrict x, TYPE *carry) {
  TYPE a = *carry;
  for (ptrdiff_t i = 0; i < n; i++) x[i] = a = ACCUMULATE(a, x[i]);
  *carry = a;
}

/* Scans one row of n columns. */
static void NAME(scan_columns)(ptrdiff_t n, const TYPE *restrict x, TYPE *restrict carry) {
  for (ptrdiff_t i = 0; i < n; i++) carry[i] = ACCUMULATE(carry[i], x[i]);
}

/* Scans adjacent rows of n elements in place. With few columns the carries stay in registers. */
static RM_ALWAYS_INLINE void NAME(scan_few)(int n, ptrdiff_t rows, TYPE *restrict x, TYPE *carry) {
  TYPE a[4];
  for (int i = 0; i < n; i++) a[i] = carry[i];
  RM_ROLLED for (ptrdiff_t r = 0; r < rows; r++, x += n) {
    for (int i = 0; i < n; i++) x[i] = a[i] = ACCUMULATE(a[i], x[i]);
  }
  for (int i = 0; i < n; i++) carry[i] = a[i];
}

static inline __attribute__((unused)) void NAME(scan_rows)(ptrdiff_t n, ptrdiff_t rows, TYPE *restrict x,
                                   TYPE *restrict carry) {
  if (n == 2) return NAME(scan_few)(2, rows, x, carry);
  if (n == 3) return NAME(scan_few)(3, rows, x, carry);
  if (n == 4) return NAME(scan_few)(4, rows, x, carry);
  RM_ROLLED for (ptrdiff_t r = 0; r < rows; r++, x += n) {
    RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) x[i] = carry[i] = ACCUMULATE(carry[i], x[i]);
  }
}

#undef NAME
#undef TYPE
#undef SUFFIX
#undef ACCUMULATE
