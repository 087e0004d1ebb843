/*
 * MR rows of c: the product of rows of a, `row` elements apart, and VECTORS vectors of each row of
 * b. Stores it, or adds it to c.
 *
 * Included by gemm_type.h, with KERNEL (the function's name) and VECTORS. It has no include guard.
 */

static void KERNEL(ptrdiff_t k, const void *left, ptrdiff_t row, ptrdiff_t a_step,
                   const void *right, ptrdiff_t b_step, void *out, ptrdiff_t stride, bool add) {
  const TYPE *a = left, *b = right;
  TYPE *c = out;
  const TYPE *first[MR / ROWS_PER_POINTER];
  UNROLL for (int i = 0; i < MR; i += ROWS_PER_POINTER) {
    first[i / ROWS_PER_POINTER] = a + i * row;
    /* Keeps the pointer in a register. The compiler would recompute it from the others. */
    __asm__("" : "+r"(first[i / ROWS_PER_POINTER]));
  }
  VECTOR_OF sum[MR][VECTORS];
  UNROLL for (int i = 0; i < MR; i++) {
    UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = (VECTOR_OF)(TYPE)0;
  }
  for (ptrdiff_t p = 0; p < k; p++, b += b_step) {
    VECTOR_OF y[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) y[v] = *(const VECTOR_OF *)(b + v * LANES);
    UNROLL for (int i = 0; i < MR; i++) {
      const VECTOR_OF x =
          (VECTOR_OF)(first[i / ROWS_PER_POINTER][p * a_step + i % ROWS_PER_POINTER * row]);
      UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = MADD(VECTOR_OF, x, y[v], sum[i][v]);
    }
  }
  UNROLL for (int i = 0; i < MR; i++, c += stride) {
    UNROLL for (int v = 0; v < VECTORS; v++) {
      VECTOR_OF *to = (VECTOR_OF *)(c + v * LANES);
      *to = add ? *to + sum[i][v] : sum[i][v];
    }
  }
}

#undef KERNEL
#undef VECTORS
