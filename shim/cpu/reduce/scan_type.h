/*
 * Running sums or products in one type.
 *
 * Included by scan.c once for each, with TYPE, SUFFIX and FOLD(a, x). No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* Scans RUNS stretches side by side in place; carries go from one stretch to the next. Not for sums of
 * integers, which hardly wait for each other. */
static inline void NAME(scan_runs)(ptrdiff_t n, TYPE (*restrict x)[STRETCH], TYPE *carry) {
  TYPE a[RUNS];
  for (int l = 0; l < RUNS; l++) a[l] = carry[l];
  for (ptrdiff_t i = 0; i < n; i++) {
    for (int l = 0; l < RUNS; l++) {
      a[l] = FOLD(a[l], x[l][i]);
      x[l][i] = a[l];
    }
  }
  for (int l = 0; l < RUNS; l++) carry[l] = a[l];
}

/* One stretch. */
static void NAME(scan_run)(ptrdiff_t n, TYPE *restrict x, TYPE *carry) {
  TYPE a = *carry;
  for (ptrdiff_t i = 0; i < n; i++) x[i] = a = FOLD(a, x[i]);
  *carry = a;
}

/* A row of as many. */
static void NAME(scan_columns)(ptrdiff_t n, const TYPE *restrict x, TYPE *restrict carry) {
  for (ptrdiff_t i = 0; i < n; i++) carry[i] = FOLD(carry[i], x[i]);
}

/* Rows of n elements one after another, in place; the carries of few stay in registers. */
static inline __attribute__((always_inline)) void NAME(scan_few)(int n, ptrdiff_t rows,
                                                                 TYPE *restrict x, TYPE *carry) {
  TYPE a[4];
  for (int i = 0; i < n; i++) a[i] = carry[i];
  RM_ROLLED for (ptrdiff_t r = 0; r < rows; r++, x += n) {
    for (int i = 0; i < n; i++) x[i] = a[i] = FOLD(a[i], x[i]);
  }
  for (int i = 0; i < n; i++) carry[i] = a[i];
}

static inline void NAME(scan_rows)(ptrdiff_t n, ptrdiff_t rows, TYPE *restrict x,
                                   TYPE *restrict carry) {
  if (n == 2) return NAME(scan_few)(2, rows, x, carry);
  if (n == 3) return NAME(scan_few)(3, rows, x, carry);
  if (n == 4) return NAME(scan_few)(4, rows, x, carry);
  RM_ROLLED for (ptrdiff_t r = 0; r < rows; r++, x += n) {
    RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) x[i] = carry[i] = FOLD(carry[i], x[i]);
  }
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef FOLD
