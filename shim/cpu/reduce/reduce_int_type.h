/*
 * Sums of integers of one dtype.
 *
 * Included by reduce_int.c once per dtype, with ELEMENT, SUFFIX, VECTOR_OF (a vector of COUNT
 * elements), LANE and SUM (the type of the sums and a vector of COUNT of those) and TOTAL (COUNT
 * int64). It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

/* Lanes of less than 64 bits are flushed before they can overflow. */
static RM_KERNEL void NAME(sum)(const reduce_context *ctx, ptrdiff_t n, const void *from, double y,
                                accumulators *c) {
  const ELEMENT *p = from;
  (void)ctx, (void)y;
  int64_t total = 0;
  for (ptrdiff_t i = 0; i < n;) {
    const ptrdiff_t end = sizeof(LANE) == 8 ? n : i + rm_min(n - i, (ptrdiff_t)COUNT << 15);
    SUM s = 0, t = 0, u = 0, v = 0;
    for (; i + 4 * COUNT <= end; i += 4 * COUNT) {
      s += __builtin_convertvector(LOAD(VECTOR_OF, p + i), SUM);
      t += __builtin_convertvector(LOAD(VECTOR_OF, p + i + COUNT), SUM);
      u += __builtin_convertvector(LOAD(VECTOR_OF, p + i + 2 * COUNT), SUM);
      v += __builtin_convertvector(LOAD(VECTOR_OF, p + i + 3 * COUNT), SUM);
    }
    for (; i + COUNT <= end; i += COUNT) s += __builtin_convertvector(LOAD(VECTOR_OF, p + i), SUM);
    s += t + (u + v);
    total += __builtin_reduce_add(__builtin_convertvector(s, TOTAL));
    for (; i < end; i++) total += (int64_t)p[i];
  }
  *(int64_t *)c->acc += total;
}

#define COLUMNS NAME(columns_sum)
#define TYPE ELEMENT
#define ACCUMULATOR int64_t
#define ARRAY acc
#define MAP AS_IS
#define ACCUMULATE ADD
#define UNROLL RM_ROLLED
#include "reduce_columns.h"

#undef NAME
#undef ELEMENT
#undef SUFFIX
#undef VECTOR_OF
#undef LANE
#undef SUM
#undef TOTAL
#undef COUNT
