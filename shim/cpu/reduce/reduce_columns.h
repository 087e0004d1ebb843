/*
 * Folds rows into accumulators, one for each column.
 *
 * Included once for each type of elements and of accumulators, what elements are mapped by and how
 * they are folded, with COLUMNS for the function's name, TYPE, ACCUMULATOR, SLOTS, which of the cells'
 * arrays holds those, MAP(x), FOLD(a, x), and UNROLL before the loop over single rows. No guard.
 */

/* Fours of rows quarter the traffic of accumulators; where rows have to be loaded there is one at a
 * time. */
static RM_KERNEL void COLUMNS(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from,
                              ptrdiff_t step, cells *c) {
  ACCUMULATOR *restrict acc = (ACCUMULATOR *)c->SLOTS;
  (void)j;
  const char *row = from;
  ptrdiff_t r = 0;
  for (; r + 4 <= rows; r += 4, row += 4 * step) {
    const TYPE *restrict p = (const TYPE *)row, *restrict q = (const TYPE *)(row + step);
    const TYPE *restrict v = (const TYPE *)(row + 2 * step);
    const TYPE *restrict w = (const TYPE *)(row + 3 * step);
    RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
      const ACCUMULATOR x = (ACCUMULATOR)p[i], y = (ACCUMULATOR)q[i];
      const ACCUMULATOR z = (ACCUMULATOR)v[i], t = (ACCUMULATOR)w[i];
      acc[i] = FOLD(acc[i], FOLD(FOLD(MAP(x), MAP(y)), FOLD(MAP(z), MAP(t))));
    }
  }
  for (; r < rows; r++, row += step) {
    const TYPE *restrict p = (const TYPE *)row;
    UNROLL for (ptrdiff_t i = 0; i < n; i++) {
      const ACCUMULATOR x = (ACCUMULATOR)p[i];
      acc[i] = FOLD(acc[i], MAP(x));
    }
  }
}

#undef COLUMNS
#undef TYPE
#undef ACCUMULATOR
#undef SLOTS
#undef MAP
#undef FOLD
#undef UNROLL
