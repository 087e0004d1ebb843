/*
 * Small matrices of one float dtype which vectors do not fit.
 *
 * Included by gemm_small.c once for float32 and once for float64, with TYPE and SUFFIX. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* b of one column: a sum for each row of a. */
static void NAME(small_sums)(const batch *j, ptrdiff_t from, ptrdiff_t to) {
  const ptrdiff_t m = j->m, k = j->k, row = j->a_row, step = j->a_step, b_row = j->b_row;
  for (ptrdiff_t item = from; item < to; item++) {
    const TYPE *a = (const TYPE *)j->a + (ptrdiff_t)j->a_at[item];
    const TYPE *const b = (const TYPE *)j->b + (ptrdiff_t)j->b_at[item];
    TYPE *const c = (TYPE *)j->c + (ptrdiff_t)j->c_at[item];
    for (ptrdiff_t i = 0; i < m; i++, a += row) {
      TYPE sum = 0;
      RM_SCALAR for (ptrdiff_t p = 0; p < k; p++) sum = FUSED(TYPE, a[p * step], b[p * b_row], sum);
      c[i * j->c_row] = sum;
    }
  }
}

/* b of 3 by 3, where rows of a and of c lie one after another. */
static void NAME(small_three)(const batch *j, ptrdiff_t from, ptrdiff_t to) {
  for (ptrdiff_t item = from; item < to; item++) {
    const TYPE *restrict const a = (const TYPE *)j->a + (ptrdiff_t)j->a_at[item];
    const TYPE *const b = (const TYPE *)j->b + (ptrdiff_t)j->b_at[item];
    TYPE *restrict const c = (TYPE *)j->c + (ptrdiff_t)j->c_at[item];
    const TYPE *const b1 = b + j->b_row, *const b2 = b1 + j->b_row;
    const TYPE y[9] = {b[0], b1[0], b2[0], b[1], b1[1], b2[1], b[2], b1[2], b2[2]};
    const ptrdiff_t m = j->m;
    RM_ROLLED for (ptrdiff_t i = 0; i < m; i++) {
      UNROLL for (int q = 0; q < 3; q++) {
        TYPE sum = FUSED(TYPE, a[3 * i], y[3 * q], (TYPE)0);
        sum = FUSED(TYPE, a[3 * i + 1], y[3 * q + 1], sum);
        c[3 * i + q] = FUSED(TYPE, a[3 * i + 2], y[3 * q + 2], sum);
      }
    }
  }
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
