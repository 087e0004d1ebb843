/*
 * Folds values into elements at indices, for elements of T, which are computed as C. Included once for
 * each dtype, with T, C, LOAD, STORE, LOWEST, HIGHEST and NAME.
 */

static void NAME(fold)(void *target, const void *source, const int64_t *at, ptrdiff_t n, int reduce) {
  T *x = target;
  const T *values = source;
  switch (reduce) {
    case SCATTER_SUM:
      RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) x[at[i]] = STORE((C)(LOAD(x[at[i]]) + LOAD(values[i])));
      break;
    case SCATTER_PROD:
      RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) x[at[i]] = STORE((C)(LOAD(x[at[i]]) * LOAD(values[i])));
      break;
    case SCATTER_MAX:
      RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) {
        const C a = LOAD(x[at[i]]), v = LOAD(values[i]);
        if (v > a || IS_NAN(v)) x[at[i]] = values[i];
      }
      break;
    default:
      RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) {
        const C a = LOAD(x[at[i]]), v = LOAD(values[i]);
        if (v < a || IS_NAN(v)) x[at[i]] = values[i];
      }
  }
}

static void NAME(reset)(void *target, const int64_t *at, ptrdiff_t n, int reduce) {
  T *x = target;
  const T start = reduce == SCATTER_SUM    ? STORE((C)0)
                  : reduce == SCATTER_PROD ? STORE((C)1)
                  : reduce == SCATTER_MAX  ? STORE((C)LOWEST)
                                           : STORE((C)HIGHEST);
  RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) x[at[i]] = start;
}

#undef T
#undef C
#undef LOAD
#undef STORE
#undef LOWEST
#undef HIGHEST
#undef IS_NAN
#undef NAME
