/*
 * The exponential of a matrix of one element type; after factor_type.h.
 */

static ptrdiff_t NAME(expm_work)(ptrdiff_t n) { return 6 * n * n; }

/* Part of the Padé approximant of order 13: the odd powers without one factor for k = 1, or the even
 * ones. `powers` has the second, fourth and sixth power, n * n elements each, and room for a sum. */
static void NAME(pade_side)(const TABLE *blas, int dtype, ptrdiff_t n, int k, TYPE *powers, TYPE *to) {
  static const double coefficients[] = {
      64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
      10559470521600,    670442572800,      33522128640,      1323241920,       40840800,
      960960,            16380,             182,              1};
  REAL b[13];
  for (int i = 0; i < 13; i++) b[i] = (REAL)coefficients[i + k];
  const ptrdiff_t size = n * n;
  TYPE *second = powers, *fourth = second + size, *sixth = fourth + size, *sum = sixth + size;
  for (ptrdiff_t i = 0; i < size; i++) {
    sum[i] = b[8] * second[i] + b[10] * fourth[i] + b[12] * sixth[i];
  }
  NAME(product)(blas, dtype, n, n, n, sixth, n, sum, n, to, n);
  for (ptrdiff_t i = 0; i < size; i++) {
    to[i] += b[2] * second[i] + b[4] * fourth[i] + b[6] * sixth[i];
  }
  for (ptrdiff_t i = 0; i < n; i++) to[i * n + i] += b[0];
}

/* The exponential of a, which is in a or the workspace: the Padé approximant of the scaled matrix,
 * squared as often. */
static TYPE *NAME(expm)(const TABLE *blas, int dtype, ptrdiff_t n, TYPE *a, int32_t *pivots,
                        TYPE *work) {
  const ptrdiff_t size = n * n;
  double largest = 0;
  for (ptrdiff_t j = 0; j < n; j++) {
    double sum = 0;
    for (ptrdiff_t i = j * n; i < j * n + n; i++) sum += (double)NAME(size1)(a[i]);
    largest = fmax(largest, sum);
  }
  /* The norm up to which the approximant is exact to double precision. */
  const double limit = 5.371920351148152;
  const int squarings = largest > limit ? (int)fmin(1030, ceil(log2(largest / limit))) : 0;
  const double by = exp2(-squarings);
  for (ptrdiff_t i = 0; i < size * PARTS; i++) ((REAL *)a)[i] = (REAL)((double)((REAL *)a)[i] * by);
  TYPE *powers = work, *below = powers + 3 * size, *odd = below + size, *even = odd + size;
  NAME(product)(blas, dtype, n, n, n, a, n, a, n, powers, n);
  NAME(product)(blas, dtype, n, n, n, powers, n, powers, n, powers + size, n);
  NAME(product)(blas, dtype, n, n, n, powers + size, n, powers, n, powers + 2 * size, n);
  NAME(pade_side)(blas, dtype, n, 1, powers, even);
  NAME(product)(blas, dtype, n, n, n, a, n, even, n, odd, n);
  NAME(pade_side)(blas, dtype, n, 0, powers, even);
  for (ptrdiff_t i = 0; i < size; i++) a[i] = even[i] + odd[i], below[i] = even[i] - odd[i];
  NAME(lu)(blas, dtype, n, n, below, n, pivots, odd);
  NAME(swap_rows)(n, a, n, n, pivots);
  NAME(solve_triangle)(blas, dtype, n, n, below, n, false, true, a, n, odd);
  NAME(solve_triangle)(blas, dtype, n, n, below, n, true, false, a, n, odd);
  TYPE *other = odd;
  for (int k = 0; k < squarings; k++) {
    NAME(product)(blas, dtype, n, n, n, a, n, a, n, other, n);
    TYPE *const one = a;
    a = other, other = one;
  }
  return a;
}
