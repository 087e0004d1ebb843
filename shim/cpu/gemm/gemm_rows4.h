/*
 * SMALL_MR rows of c: the product of rows of a, with a pointer each, and VECTORS vectors of each
 * row of b. Stores it, or adds it to c.
 *
 * Included by gemm_type.h, with KERNEL (the function's name), VECTORS and COLUMNS_OF (a vector of
 * WIDTH elements). It has no include guard.
 */

static void KERNEL(ptrdiff_t k, const void *const *rows, ptrdiff_t a_step, const void *right,
                   ptrdiff_t b_step, void *out, ptrdiff_t stride, bool add) {
  const TYPE *a0 = rows[0], *a1 = rows[1], *a2 = rows[2], *a3 = rows[3], *b = right;
  TYPE *c = out;
  COLUMNS_OF sum[SMALL_MR][VECTORS];
  UNROLL for (int i = 0; i < SMALL_MR; i++) {
    UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = (COLUMNS_OF)(TYPE)0;
  }
  for (ptrdiff_t p = 0, at = 0; p < k; p++, at += a_step, b += b_step) {
    UNROLL for (int v = 0; v < VECTORS; v++) {
      const COLUMNS_OF y = *(const COLUMNS_OF *)(b + v * WIDTH);
      sum[0][v] = MADD(COLUMNS_OF, (COLUMNS_OF)(a0[at]), y, sum[0][v]);
      sum[1][v] = MADD(COLUMNS_OF, (COLUMNS_OF)(a1[at]), y, sum[1][v]);
      sum[2][v] = MADD(COLUMNS_OF, (COLUMNS_OF)(a2[at]), y, sum[2][v]);
      sum[3][v] = MADD(COLUMNS_OF, (COLUMNS_OF)(a3[at]), y, sum[3][v]);
    }
  }
  UNROLL for (int i = 0; i < SMALL_MR; i++, c += stride) {
    UNROLL for (int v = 0; v < VECTORS; v++) {
      COLUMNS_OF *to = (COLUMNS_OF *)(c + v * WIDTH);
      *to = add ? *to + sum[i][v] : sum[i][v];
    }
  }
}

#undef KERNEL
#undef VECTORS
#undef COLUMNS_OF
#undef WIDTH
