/*
 * Elements of type T as doubles and as integers of 64 bits. Included once for each type, with T and
 * NAME(function).
 */

static void NAME(doubles)(const void *from, ptrdiff_t n, double *to) {
  const T *x = from;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) to[i] = (double)x[i];
}

static void NAME(integers)(const void *from, ptrdiff_t n, int64_t *to) {
  const T *x = from;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) to[i] = (int64_t)x[i];
}

#undef T
#undef NAME
