/*
 * Small matrices, by vectors of one length.
 *
 * Included by gemm_small.c once for each vector, with SMALL for the function's name, TYPE, and
 * VECTOR_OF, a vector of LANES of them. No guard.
 */

/*
 * The matrices [from, to) of a batch, by vectors of L columns, where there are as many. The last
 * columns begin early enough to be whole, and so do the last four rows; of fewer rows the last one
 * is computed several times.
 */
static void SMALL(const batch *j, ptrdiff_t from, ptrdiff_t to) {
  const ptrdiff_t m = j->m, n = j->n, k = j->k, row = j->a_row, step = j->a_step;
  const ptrdiff_t b_row = j->b_row, c_row = j->c_row;
  for (ptrdiff_t item = from; item < to; item++) {
    const TYPE *const left = (const TYPE *)j->a + (ptrdiff_t)j->a_at[item];
    const TYPE *const right = (const TYPE *)j->b + (ptrdiff_t)j->b_at[item];
    TYPE *const out = (TYPE *)j->c + (ptrdiff_t)j->c_at[item];
    for (ptrdiff_t q = 0; q < n; q += LANES) {
      const ptrdiff_t column = rm_least(q, n - LANES);
      const TYPE *const b = right + column;
      for (ptrdiff_t i = 0; i < m; i += FEW) {
        const TYPE *a[FEW];
        TYPE *to[FEW];
        VECTOR_OF sum[FEW];
        UNROLL for (int r = 0; r < FEW; r++) {
          const ptrdiff_t line = rm_least(m < FEW ? r : rm_least(i, m - FEW) + r, m - 1);
          a[r] = left + line * row;
          to[r] = out + line * c_row + column;
          sum[r] = (VECTOR_OF)(TYPE)0;
        }
        ROLLED for (ptrdiff_t p = 0; p < k; p++) {
          const VECTOR_OF y = *(const VECTOR_OF *)(b + p * b_row);
          UNROLL for (int r = 0; r < FEW; r++) sum[r] = FUSED(VECTOR_OF, (VECTOR_OF)(a[r][p * step]), y, sum[r]);
        }
        UNROLL for (int r = 0; r < FEW; r++) *(VECTOR_OF *)to[r] = sum[r];
      }
    }
  }
}

#undef SMALL
#undef TYPE
#undef VECTOR_OF
#undef LANES
