/*
 * Ops on complex numbers, one after the other, in double.
 */
#include "complex.h"
#include "complex_math.h"
#include "internal.h"
/* After the constants. */
#include "complex_ops.h"

#define RM_COMPLEX_ONE_BY_ONE(TYPE, SUFFIX) \
  void rm_complex_block_##SUFFIX(int op, ptrdiff_t n, const TYPE *xr, const TYPE *xi, \
                                 const TYPE *yr, const TYPE *yi, TYPE *re, TYPE *im) { \
    for (ptrdiff_t i = 0; i < n; i++) { \
      const rm_complex y = yr == NULL ? rm_c(0, 0) : rm_c(yr[i], yi[i]); \
      const rm_complex z = rm_complex_value(op, rm_c(xr[i], xi[i]), y, sizeof(TYPE) == 8); \
      re[i] = (TYPE)z.re; \
      im[i] = (TYPE)z.im; \
    } \
  }

RM_COMPLEX_ONE_BY_ONE(float, f32)
RM_COMPLEX_ONE_BY_ONE(double, f64)
