/*
 * The kernels of one kind of arithmetic, and the table of them.
 *
 * Included by gemm_kernels.c once for each kind, with TYPE and SUFFIX; VECTOR_OF, a vector of LANES of
 * them, and HALF_OF and QUARTER_OF, which are shorter; MADD(type, x, y, z), which is z + x y; TOTAL(x),
 * the sum of a vector's elements; PACK_A and PACK_B; and SHORT_ROWS where rows of 2 to 4 elements have
 * kernels of their own. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* out += the product of left and right. */
static void NAME(dot)(ptrdiff_t k, const void *left, const void *right, void *out) {
  const TYPE *a = left, *b = right;
  TYPE *to = out;
  VECTOR_OF sum[8];
  UNROLL for (int i = 0; i < 8; i++) sum[i] = (VECTOR_OF)(TYPE)0;
  ptrdiff_t p = 0;
  ROLLED for (; p + 8 * LANES <= k; p += 8 * LANES) {
    UNROLL for (int i = 0; i < 8; i++) {
      sum[i] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + p + i * LANES), *(const VECTOR_OF *)(b + p + i * LANES), sum[i]);
    }
  }
  ROLLED for (; p + LANES <= k; p += LANES) {
    sum[0] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + p), *(const VECTOR_OF *)(b + p), sum[0]);
  }
  const VECTOR_OF all = ((sum[0] + sum[1]) + (sum[2] + sum[3])) +
                ((sum[4] + sum[5]) + (sum[6] + sum[7]));
  const TYPE lanes = (TYPE)TOTAL(all);
  TYPE rest = 0;
  RM_SCALAR for (; p < k; p++) rest = (TYPE)(rest + a[p] * b[p]);
  *to = (TYPE)(*to + (TYPE)(lanes + rest));
}

/* y += x times four rows that lie step apart. */
static void NAME(sweep)(ptrdiff_t columns, int rows, const void *from, ptrdiff_t step,
                         const void *with, void *out) {
  const TYPE *a = from, *x = with;
  TYPE *restrict y = out;
  const TYPE *a1 = a + (rows > 1 ? step : 0), *a2 = a + (rows > 2 ? 2 * step : 0);
  const TYPE *a3 = a + (rows > 3 ? 3 * step : 0);
  if (rows == FEW) {
    const VECTOR_OF x0 = (VECTOR_OF)(x[0]), x1 = (VECTOR_OF)(x[1]), x2 = (VECTOR_OF)(x[2]), x3 = (VECTOR_OF)(x[3]);
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

/* Adds up products of whole vectors of four rows; gives how many elements those have. k is at least
 * one vector. */
static inline __attribute__((always_inline)) ptrdiff_t NAME(whole)(
    ptrdiff_t k, const TYPE *a, ptrdiff_t row, const TYPE *x, VECTOR_OF (*sum)[2]) {
  ptrdiff_t p = 0;
  UNROLL for (int i = 0; i < FEW; i++) sum[i][0] = sum[i][1] = (VECTOR_OF)(TYPE)0;
  ROLLED for (; p + 2 * LANES <= k; p += 2 * LANES) {
    const VECTOR_OF x0 = *(const VECTOR_OF *)(x + p), x1 = *(const VECTOR_OF *)(x + p + LANES);
    UNROLL for (int i = 0; i < FEW; i++) {
      sum[i][0] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + i * row + p), x0, sum[i][0]);
      sum[i][1] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + i * row + p + LANES), x1, sum[i][1]);
    }
  }
  if (p + LANES <= k) {
    const VECTOR_OF x0 = *(const VECTOR_OF *)(x + p);
    UNROLL for (int i = 0; i < FEW; i++) {
      sum[i][0] = MADD(VECTOR_OF, *(const VECTOR_OF *)(a + i * row + p), x0, sum[i][0]);
    }
    p += LANES;
  }
  return p;
}

/* to[i] += the product of row i of four and x. What is left of a row after whole vectors is taken by
 * narrower ones: short rows are many. */
static inline __attribute__((always_inline)) void NAME(quad)(ptrdiff_t k, const TYPE *a,
                                                             ptrdiff_t row, const TYPE *x,
                                                             TYPE *to);

/* The same for any number of rows. */
static void NAME(lines)(ptrdiff_t rows, ptrdiff_t k, const void *from, ptrdiff_t row,
                         const void *x, void *sums) {
  const TYPE *a = from;
#if defined(SHORT_ROWS)
  SHORT(TYPE, 2)
  SHORT(TYPE, 3)
  SHORT(TYPE, 4)
#endif
  TYPE *to = sums;
  ptrdiff_t i = 0;
  for (; i + FEW <= rows; i += FEW) NAME(quad)(k, a + i * row, row, x, to + i);
  for (; i < rows; i++) NAME(dot)(k, a + i * row, x, to + i);
}

/* MR rows by two vectors, or one. */
#define KERNEL NAME(wide_two)
#define VECTORS 2
#include "gemm_wide.h"
#define KERNEL NAME(wide_one)
#define VECTORS 1
#include "gemm_wide.h"

/* FEW rows by two full vectors, one, and narrower ones, for narrow matrices. */
#define KERNEL NAME(direct_two)
#define VECTORS 2
#define COLUMNS_OF VECTOR_OF
#define WIDTH LANES
#include "gemm_direct.h"
#define KERNEL NAME(direct_one)
#define VECTORS 1
#define COLUMNS_OF VECTOR_OF
#define WIDTH LANES
#include "gemm_direct.h"
#if defined(__AVX2__)
#define KERNEL NAME(direct_half)
#define VECTORS 1
#define COLUMNS_OF HALF_OF
#define WIDTH (LANES / 2)
#include "gemm_direct.h"
#endif
#if defined(__AVX512F__)
#define KERNEL NAME(direct_quarter)
#define VECTORS 1
#define COLUMNS_OF QUARTER_OF
#define WIDTH (LANES / 4)
#include "gemm_direct.h"
#endif

static const TYPE NAME(one) = 1;

static const kind NAME(kind) = {
    .size = sizeof(TYPE),
    .lanes = LANES,
    .one = &NAME(one),
    .lines = NAME(lines),
    .sweep = NAME(sweep),
    .pack_a = PACK_A,
    .pack_b = PACK_B,
    .wide = {NAME(wide_two), NAME(wide_one)},
#if defined(__AVX512F__)
    .widths = {2 * LANES, LANES, LANES / 2, LANES / 4},
    .direct = {NAME(direct_two), NAME(direct_one), NAME(direct_half), NAME(direct_quarter)},
#elif defined(__AVX2__)
    .widths = {2 * LANES, LANES, LANES / 2},
    .direct = {NAME(direct_two), NAME(direct_one), NAME(direct_half)},
#else
    .widths = {2 * LANES, LANES},
    .direct = {NAME(direct_two), NAME(direct_one)},
#endif
};

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef SUFFIX
#undef VECTOR_OF
#undef HALF_OF
#undef QUARTER_OF
#undef LANES
#undef MADD
#undef TOTAL
#undef PACK_A
#undef PACK_B
#undef SHORT_ROWS
