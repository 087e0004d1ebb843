/*
 * The first element of each run of equal ones, for elements of T, an unsigned type. Included once for
 * each size, with T and NAME.
 */

/* Elements are the same if their bits are, if both are zeros of a float, or if both are NaN where those
 * are one. `infinity` has the bits of an infinity; more without the sign are NaN. It is the largest
 * number for integers. */
static inline bool NAME(same)(T a, T b, T magnitude, T infinity, bool joins_nan) {
  if (a == b) return (T)(a & magnitude) <= infinity || joins_nan;
  return ((a | b) & magnitude) == 0 ||
         (joins_nan && (T)(a & magnitude) > infinity && (T)(b & magnitude) > infinity);
}

static ptrdiff_t NAME(runs)(const void *from, ptrdiff_t n, bool is_float, T infinity, bool joins_nan,
                            void *to, int32_t *starts) {
  const T *x = from;
  T *out = to;
  ptrdiff_t count = 0;
  if (n == 0) return 0;
  T before = x[0];
  out[count] = before;
  if (starts != NULL) starts[count] = 0;
  count++;
  if (!is_float) {
    RM_SCALAR for (ptrdiff_t i = 1; i < n; i++) {
      const T one = x[i];
      /* Never beyond element i. */
      if (one != before) {
        out[count] = one;
        if (starts != NULL) starts[count] = (int32_t)i;
        count++;
      }
      before = one;
    }
    return count;
  }
  const T magnitude = (T) ~((T)1 << (8 * sizeof(T) - 1));
  RM_SCALAR for (ptrdiff_t i = 1; i < n; i++) {
    const T one = x[i];
    const bool is_new = !NAME(same)(one, before, magnitude, infinity, joins_nan);
    if (is_new) {
      out[count] = one;
      if (starts != NULL) starts[count] = (int32_t)i;
      count++;
    }
    before = one;
  }
  return count;
}

#undef T
#undef NAME
