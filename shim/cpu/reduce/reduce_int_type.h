/*
 * Sums of integers of one dtype.
 *
 * Included by reduce_int.c once for each dtype, with ELEMENT and SUFFIX; VECTOR_OF, a vector of COUNT
 * of them; LANE and SUM, a vector of as many of those, in which they are added up, and TOTAL, one of 64
 * bits. No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)

/* Lanes of less than 64 bits are emptied before they can overflow. */
static RM_KERNEL void NAME(sum)(const job *j, ptrdiff_t n, const void *from, double y, cells *c) {
  const ELEMENT *p = from;
  (void)j, (void)y;
  int64_t total = 0;
  for (ptrdiff_t i = 0; i < n;) {
    const ptrdiff_t end = sizeof(LANE) == 8 ? n : i + rm_least(n - i, (ptrdiff_t)COUNT << 15);
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
#define SLOTS acc
#define MAP AS_IT_IS
#define FOLD ADD
#define UNROLL RM_ROLLED
#include "reduce_columns.h"

#undef NAME_
#undef NAME_OF
#undef NAME
#undef ELEMENT
#undef SUFFIX
#undef VECTOR_OF
#undef LANE
#undef SUM
#undef TOTAL
#undef COUNT
