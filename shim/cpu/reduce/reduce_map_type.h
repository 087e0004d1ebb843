/*
 * Sums of floats that are mapped in one way.
 *
 * Included by reduce_float.c once for each way, with SUFFIX and MAP(x). No guard.
 */

#define NAME_(name, suffix) name##_##suffix
#define NAME_OF(name, suffix) NAME_(name, suffix)
#define NAME(name) NAME_OF(name, SUFFIX)
#define FOLD ADD
#define START 0.0

#define LANES NAME(lanes_f32)
#define TYPE float
#define VECTOR_OF_8 f32x8
#include "reduce_lanes.h"
#define LANES NAME(lanes_f64)
#define TYPE double
#define VECTOR_OF_8 f64x8
#include "reduce_lanes.h"

static RM_KERNEL void NAME(sum_f32)(const job *j, ptrdiff_t n, const void *from, double y,
                                    cells *c) {
  (void)j;
  *(double *)c->acc += NAME(lanes_f32)(n, from, y);
}

static RM_KERNEL void NAME(sum_f64)(const job *j, ptrdiff_t n, const void *from, double y,
                                    cells *c) {
  const double *p = from;
  (void)j;
  for (ptrdiff_t i = 0; i < n; i += BLOCK) {
    const double sum = NAME(lanes_f64)(rm_least(n - i, BLOCK), p + i, y);
    add_exactly(c->acc, c->error, sum);
  }
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef SUFFIX
#undef MAP
#undef FOLD
#undef START
