/*
 * The kernels of one compute dtype, and their table.
 *
 * Included by gemm_kernels.c once per compute dtype, with TYPE, SUFFIX, VECTOR_OF (a vector of
 * LANES elements), HALF_VECTOR_OF and QUARTER_VECTOR_OF (shorter vectors), MADD(type, x, y, z) (z +
 * x y), SUM_LANES(x) (the sum of a vector), PACK_A and PACK_B. HAS_SHORT_ROWS adds loops for rows
 * of 2 to 4 elements. It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

/* out += the dot product of left and right. */
static void NAME(dot)(ptrdiff_t k, const void *left, const void *right, void *out) {
  const TYPE *a = left, *b = right;
  TYPE *to = out;
  VECTOR_OF sum[8];
  UNROLL for (int i = 0; i < 8; i++) sum[i] = (VECTOR_OF)(TYPE)0;
  ptrdiff_t p = 0;
  ROLLED for (; p + 8 * LANES <= k; p += 8 * LANES) {
    UNROLL for (int i = 0; i < 8; i++) {
      sum[i] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + p + i * LANES),
                    *(const VECTOR_OF *)(b + p + i * LANES), sum[i]);
    }
  }
  ROLLED for (; p + LANES <= k; p += LANES) {
    sum[0] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + p), *(const VECTOR_OF *)(b + p), sum[0]);
  }
  const VECTOR_OF all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) +
                ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  const TYPE lanes = (TYPE)SUM_LANES(all);
  TYPE rest = 0;
  RM_SCALAR for (; p < k; p++) rest = (TYPE)(rest + a[p] * b[p]);
  *to = (TYPE)(*to + (TYPE)(lanes + rest));
}

/* y += x times four rows, `step` elements apart. */
static void NAME(gemv_axpy)(ptrdiff_t columns, int rows, const void *from, ptrdiff_t step,
                            const void *with, void *out) {
  const TYPE *a = from, *x = with;
  TYPE *restrict y = out;
  const TYPE *a1 = a + (rows > 1 ? step : 0), *a2 = a + (rows > 2 ? 2 * step : 0);
  const TYPE *a3 = a + (rows > 3 ? 3 * step : 0);
  if (rows == SMALL_MR) {
    const VECTOR_OF x0 = (VECTOR_OF)(x[0]), x1 = (VECTOR_OF)(x[1]), x2 = (VECTOR_OF)(x[2]),
                    x3 = (VECTOR_OF)(x[3]);
    ptrdiff_t j = 0;
    for (; j + LANES <= columns; j += LANES) {
      VECTOR_OF low = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + j), x0, *(const VECTOR_OF *)(y + j));
      VECTOR_OF high = *(const VECTOR_OF *)(a1 + j) * x1;
      low = MADD(VECTOR_OF, *(const VECTOR_OF *)(a2 + j), x2, low);
      high = MADD(VECTOR_OF, *(const VECTOR_OF *)(a3 + j), x3, high);
      *(VECTOR_OF *)(y + j) = low + high;
    }
    for (; j < columns; j++) {
      y[j] = (TYPE)((y[j] + a[j] * x[0] + a2[j] * x[2]) + (a1[j] * x[1] + a3[j] * x[3]));
    }
    return;
  }
  for (int i = 0; i < rows; i++) {
    for (ptrdiff_t j = 0; j < columns; j++) y[j] = (TYPE)(y[j] + a[i * step + j] * x[i]);
  }
}

/* Computes the dot products of whole vectors of four rows. Returns the number of elements that they
 * cover. k is at least one vector. */
static RM_ALWAYS_INLINE ptrdiff_t NAME(dot4_vectors)(ptrdiff_t k, const TYPE *a, ptrdiff_t row,
                                                     const TYPE *x, VECTOR_OF (*sum)[2]) {
  ptrdiff_t p = 0;
  UNROLL for (int i = 0; i < SMALL_MR; i++) sum[i][0] = sum[i][1] = (VECTOR_OF)(TYPE)0;
  ROLLED for (; p + 2 * LANES <= k; p += 2 * LANES) {
    const VECTOR_OF x0 = *(const VECTOR_OF *)(x + p), x1 = *(const VECTOR_OF *)(x + p + LANES);
    UNROLL for (int i = 0; i < SMALL_MR; i++) {
      sum[i][0] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + i * row + p), x0, sum[i][0]);
      sum[i][1] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + i * row + p + LANES), x1, sum[i][1]);
    }
  }
  if (p + LANES <= k) {
    const VECTOR_OF x0 = *(const VECTOR_OF *)(x + p);
    UNROLL for (int i = 0; i < SMALL_MR; i++) {
      sum[i][0] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + i * row + p), x0, sum[i][0]);
    }
    p += LANES;
  }
  return p;
}

/* to[i] += the dot product of row i of four and x. Narrower vectors cover the rest of a row,
 * because short rows are common. */
static RM_ALWAYS_INLINE void NAME(dot4)(ptrdiff_t k, const TYPE *a, ptrdiff_t row, const TYPE *x,
                                        TYPE *to);

/* The same for any number of rows. */
static void NAME(gemv_dot)(ptrdiff_t rows, ptrdiff_t k, const void *from, ptrdiff_t row,
                           const void *x, void *sums) {
  const TYPE *a = from;
#if defined(HAS_SHORT_ROWS)
  SHORT_ROWS_CASE(TYPE, 2)
  SHORT_ROWS_CASE(TYPE, 3)
  SHORT_ROWS_CASE(TYPE, 4)
#endif
  TYPE *to = sums;
  ptrdiff_t i = 0;
  for (; i + SMALL_MR <= rows; i += SMALL_MR) NAME(dot4)(k, a + i * row, row, x, to + i);
  for (; i < rows; i++) NAME(dot)(k, a + i * row, x, to + i);
}

/* MR rows by two vectors or one. */
#define KERNEL NAME(tile2)
#define VECTORS 2
#include "gemm_tile.h"
#define KERNEL NAME(tile1)
#define VECTORS 1
#include "gemm_tile.h"

/* SMALL_MR rows by two full vectors, one, or narrower ones for narrow matrices. */
#define KERNEL NAME(rows4x2)
#define VECTORS 2
#define COLUMNS_OF VECTOR_OF
#define WIDTH LANES
#include "gemm_rows4.h"
#define KERNEL NAME(rows4x1)
#define VECTORS 1
#define COLUMNS_OF VECTOR_OF
#define WIDTH LANES
#include "gemm_rows4.h"
#if defined(__AVX2__)
#define KERNEL NAME(rows4_half)
#define VECTORS 1
#define COLUMNS_OF HALF_VECTOR_OF
#define WIDTH (LANES / 2)
#include "gemm_rows4.h"
#endif
#if defined(__AVX512F__)
#define KERNEL NAME(rows4_quarter)
#define VECTORS 1
#define COLUMNS_OF QUARTER_VECTOR_OF
#define WIDTH (LANES / 4)
#include "gemm_rows4.h"
#endif

static const TYPE NAME(one) = 1;

static const gemm_kernels NAME(kernels) = {
    .size = sizeof(TYPE),
    .lanes = LANES,
    .one = &NAME(one),
    .gemv_dot = NAME(gemv_dot),
    .gemv_axpy = NAME(gemv_axpy),
    .pack_a = PACK_A,
    .pack_b = PACK_B,
    .tile = {NAME(tile2), NAME(tile1)},
#if defined(__AVX512F__)
    .widths = {2 * LANES, LANES, LANES / 2, LANES / 4},
    .rows4 = {NAME(rows4x2), NAME(rows4x1), NAME(rows4_half), NAME(rows4_quarter)},
#elif defined(__AVX2__)
    .widths = {2 * LANES, LANES, LANES / 2},
    .rows4 = {NAME(rows4x2), NAME(rows4x1), NAME(rows4_half)},
#else
    .widths = {2 * LANES, LANES},
    .rows4 = {NAME(rows4x2), NAME(rows4x1)},
#endif
};

#undef NAME
#undef TYPE
#undef SUFFIX
#undef VECTOR_OF
#undef HALF_VECTOR_OF
#undef QUARTER_VECTOR_OF
#undef LANES
#undef MADD
#undef SUM_LANES
#undef PACK_A
#undef PACK_B
#undef HAS_SHORT_ROWS
