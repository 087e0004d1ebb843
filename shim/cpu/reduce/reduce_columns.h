/*
 * Reduces rows into accumulators, one per column.
 *
 * Included once per combination, with COLUMNS (the function's name), TYPE, ACCUMULATOR, ARRAY (the
 * array of the accumulators), MAP(x), ACCUMULATE(a, x) and UNROLL (a pragma for the loop over
 * single rows). It has no include guard.
 */

/* Four rows at once quarter the traffic of the accumulators. Rows that must be loaded come one at a
 * time. */
static RM_KERNEL void COLUMNS(const reduce_context *ctx, ptrdiff_t n, ptrdiff_t rows,
                              const void *from, ptrdiff_t step, accumulators *c) {
  ACCUMULATOR *restrict acc = (ACCUMULATOR *)c->ARRAY;
  (void)ctx;
  const char *row = from;
  ptrdiff_t r = 0;
  for (; r + 4 <= rows; r += 4, row += 4 * step) {
    const TYPE *restrict p = (const TYPE *)row, *restrict q = (const TYPE *)(row + step);
    const TYPE *restrict v = (const TYPE *)(row + 2 * step);
    const TYPE *restrict w = (const TYPE *)(row + 3 * step);
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
      const ACCUMULATOR x = (ACCUMULATOR)p[i], y = (ACCUMULATOR)q[i];
      const ACCUMULATOR z = (ACCUMULATOR)v[i], t = (ACCUMULATOR)w[i];
      acc[i] = ACCUMULATE(acc[i],
                          ACCUMULATE(ACCUMULATE(MAP(x), MAP(y)), ACCUMULATE(MAP(z), MAP(t))));
    }
  }
  for (; r < rows; r++, row += step) {
    const TYPE *restrict p = (const TYPE *)row;
    UNROLL for (ptrdiff_t i = 0; i < n; i++) {
      const ACCUMULATOR x = (ACCUMULATOR)p[i];
      acc[i] = ACCUMULATE(acc[i], MAP(x));
    }
  }
}

#undef COLUMNS
#undef TYPE
#undef ACCUMULATOR
#undef ARRAY
#undef MAP
#undef ACCUMULATE
#undef UNROLL
