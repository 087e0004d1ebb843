/*
 * Sums of floats with one mapping.
 *
 * Included by reduce_float.c once per mapping, with SUFFIX and MAP(x). It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)
#define ACCUMULATE ADD
#define START 0.0

#define LANES NAME(lanes_f32)
#define TYPE float
#define VECTOR_OF_8 f32x8
#include "reduce_lanes.h"
#define LANES NAME(lanes_f64)
#define TYPE double
#define VECTOR_OF_8 f64x8
#include "reduce_lanes.h"

static RM_KERNEL void NAME(sum_f32)(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                    double y, accumulators *c) {
  (void)ctx;
  *(double *)c->acc += NAME(lanes_f32)(n, from, y);
}

static RM_KERNEL void NAME(sum_f64)(const reduce_context *ctx, ptrdiff_t n, const void *from,
                                    double y, accumulators *c) {
  const double *p = from;
  (void)ctx;
  for (ptrdiff_t i = 0; i < n; i += SUM_BLOCK) {
    const double sum = NAME(lanes_f64)(rm_min(n - i, SUM_BLOCK), p + i, y);
    two_sum(c->acc, c->error, sum);
  }
}

#undef NAME
#undef SUFFIX
#undef MAP
#undef ACCUMULATE
#undef START
