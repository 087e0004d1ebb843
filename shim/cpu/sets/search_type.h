/*
 * Binary searches for a block of values of type T among sorted ones, all at once: each step halves the
 * range of every value, so that their reads overlap. NaN is larger than all numbers. Included once for
 * each type, with T, NAME and IS_NAN.
 */

static void NAME(search)(const void *among, ptrdiff_t m, const void *block, ptrdiff_t n, bool right,
                         int32_t *at) {
  const T *sorted = among;
  const T *values = block;
  for (ptrdiff_t i = 0; i < n; i++) at[i] = 0;
  ptrdiff_t length = m;
  while (length > 0) {
    const ptrdiff_t half = (length + 1) / 2;
    const T *from = sorted + half - 1;
    if (right) {
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
        const T v = values[i], s = from[at[i]];
        at[i] += ((s <= v) | IS_NAN(v)) ? (int32_t)half : 0;
      }
    } else {
      RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
        const T v = values[i], s = from[at[i]];
        at[i] += ((s < v) | (IS_NAN(v) & !IS_NAN(s))) ? (int32_t)half : 0;
      }
    }
    length -= half;
  }
}

#undef T
#undef NAME
#undef IS_NAN
