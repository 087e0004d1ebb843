/*
 * Products of small float matrices that do not suit vectors.
 *
 * Included by gemm_small.c once for float32 and once for float64, with TYPE and SUFFIX. It has no
 * include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

/* b has one column: one sum per row of a. */
static void NAME(small_gemv)(const small_batch *batch, ptrdiff_t from, ptrdiff_t to) {
  const ptrdiff_t m = batch->m, k = batch->k, row = batch->a_row, step = batch->a_step,
                  b_row = batch->b_row;
  for (ptrdiff_t item = from; item < to; item++) {
    const TYPE *a = (const TYPE *)batch->a + (ptrdiff_t)batch->a_at[item];
    const TYPE *const b = (const TYPE *)batch->b + (ptrdiff_t)batch->b_at[item];
    TYPE *const c = (TYPE *)batch->c + (ptrdiff_t)batch->c_at[item];
    for (ptrdiff_t i = 0; i < m; i++, a += row) {
      TYPE sum = 0;
      RM_SCALAR for (ptrdiff_t p = 0; p < k; p++) sum = FMA(TYPE, a[p * step], b[p * b_row], sum);
      c[i * batch->c_row] = sum;
    }
  }
}

/* b is 3 x 3, and the rows of a and c are adjacent. */
static void NAME(small_3x3)(const small_batch *batch, ptrdiff_t from, ptrdiff_t to) {
  for (ptrdiff_t item = from; item < to; item++) {
    const TYPE *restrict const a = (const TYPE *)batch->a + (ptrdiff_t)batch->a_at[item];
    const TYPE *const b = (const TYPE *)batch->b + (ptrdiff_t)batch->b_at[item];
    TYPE *restrict const c = (TYPE *)batch->c + (ptrdiff_t)batch->c_at[item];
    const TYPE *const b1 = b + batch->b_row, *const b2 = b1 + batch->b_row;
    const TYPE y[9] = {b[0], b1[0], b2[0], b[1], b1[1], b2[1], b[2], b1[2], b2[2]};
    const ptrdiff_t m = batch->m;
    RM_ROLLED for (ptrdiff_t i = 0; i < m; i++) {
      UNROLL for (int q = 0; q < 3; q++) {
        TYPE sum = FMA(TYPE, a[3 * i], y[3 * q], (TYPE)0);
        sum = FMA(TYPE, a[3 * i + 1], y[3 * q + 1], sum);
        c[3 * i + q] = FMA(TYPE, a[3 * i + 2], y[3 * q + 2], sum);
      }
    }
  }
}

#undef NAME
#undef TYPE
#undef SUFFIX
