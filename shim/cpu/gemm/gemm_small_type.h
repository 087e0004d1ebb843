/*
 * Products of small matrices with one vector type.
 *
 * Included by gemm_small.c once per vector, with SMALL (the function's name), TYPE and VECTOR_OF (a
 * vector of LANES elements). It has no include guard.
 */

/* Multiplies the matrices [from, to) of a batch, LANES columns at a time. The last columns and the
 * last four rows start early enough to be whole. With fewer than four rows, the last row is
 * computed several times. */
static void SMALL(const small_batch *batch, ptrdiff_t from, ptrdiff_t to) {
  const ptrdiff_t m = batch->m, n = batch->n, k = batch->k, row = batch->a_row,
                  step = batch->a_step;
  const ptrdiff_t b_row = batch->b_row, c_row = batch->c_row;
  for (ptrdiff_t item = from; item < to; item++) {
    const TYPE *const left = (const TYPE *)batch->a + (ptrdiff_t)batch->a_at[item];
    const TYPE *const right = (const TYPE *)batch->b + (ptrdiff_t)batch->b_at[item];
    TYPE *const out = (TYPE *)batch->c + (ptrdiff_t)batch->c_at[item];
    for (ptrdiff_t q = 0; q < n; q += LANES) {
      const ptrdiff_t column = rm_min(q, n - LANES);
      const TYPE *const b = right + column;
      for (ptrdiff_t i = 0; i < m; i += SMALL_MR) {
        const TYPE *a[SMALL_MR];
        TYPE *to[SMALL_MR];
        VECTOR_OF sum[SMALL_MR];
        UNROLL for (int r = 0; r < SMALL_MR; r++) {
          const ptrdiff_t line = rm_min(m < SMALL_MR ? r : rm_min(i, m - SMALL_MR) + r, m - 1);
          a[r] = left + line * row;
          to[r] = out + line * c_row + column;
          sum[r] = (VECTOR_OF)(TYPE)0;
        }
        ROLLED for (ptrdiff_t p = 0; p < k; p++) {
          const VECTOR_OF y = *(const VECTOR_OF *)(b + p * b_row);
          UNROLL for (int r = 0; r < SMALL_MR; r++)
              sum[r] = FMA(VECTOR_OF, (VECTOR_OF)(a[r][p * step]), y, sum[r]);
        }
        UNROLL for (int r = 0; r < SMALL_MR; r++) * (VECTOR_OF *)to[r] = sum[r];
      }
    }
  }
}

#undef SMALL
#undef TYPE
#undef VECTOR_OF
#undef LANES
