/*
 * Linear interpolation between points.
 */
#include <string.h>
#include "sets.h"

#define T double
#define IS_NAN(x) ((x) != (x))
#define NAME(function) f64_##function
#include "search_type.h"

enum { TASK_VALUES = 8192 };

typedef struct {
  int dtype, result;
  const char *x;
  ptrdiff_t n, m;
  const double *xs, *ys;
  /* The values below the first point and above the last one. */
  double left, right;
  char *out;
} interp_context;

/* The value at v, between the points j and j + 1. The second point is tried where infinities make NaN
 * of the first. */
static double between(const double *xs, const double *ys, ptrdiff_t j, double v) {
  if (xs[j] == v) return ys[j];
  const double slope = (ys[j + 1] - ys[j]) / (xs[j + 1] - xs[j]);
  const double value = slope * (v - xs[j]) + ys[j];
  if (value == value) return value;
  const double other = slope * (v - xs[j + 1]) + ys[j + 1];
  return other != other && ys[j] == ys[j + 1] ? ys[j] : other;
}

static void interp_block(const interp_context *ctx, const double *v, const int32_t *at, ptrdiff_t n,
                         double *to) {
  const double *xs = ctx->xs, *ys = ctx->ys;
  const ptrdiff_t m = ctx->m;
  for (ptrdiff_t i = 0; i < n; i++) {
    const ptrdiff_t j = at[i] > 0 ? at[i] - 1 : 0;
    if (v[i] != v[i]) to[i] = v[i];
    else if (v[i] < xs[0]) to[i] = ctx->left;
    else if (j >= m - 1) to[i] = v[i] > xs[m - 1] ? ctx->right : ys[m - 1];
    else to[i] = between(xs, ys, j, v[i]);
  }
}

static void interp_task(void *context, ptrdiff_t index) {
  const interp_context *ctx = context;
  const ptrdiff_t end = rm_min(ctx->n, (index + 1) * TASK_VALUES);
  double values[SET_BLOCK], made[SET_BLOCK];
  int32_t at[SET_BLOCK];
  for (ptrdiff_t i = index * TASK_VALUES; i < end; i += SET_BLOCK) {
    const ptrdiff_t count = rm_min(SET_BLOCK, end - i);
    rm_load_doubles(ctx->dtype, ctx->x + i * rm_itemsize(ctx->dtype), count, values);
    /* NaN as the first point is below all numbers. */
    const bool skip = ctx->xs[0] != ctx->xs[0];
    f64_search(ctx->xs + skip, ctx->m - skip, values, count, true, at);
    for (ptrdiff_t k = 0; skip && k < count; k++) at[k]++;
    interp_block(ctx, values, at, count, made);
    if (ctx->result == RM_FLOAT64) {
      memcpy((double *)ctx->out + i, made, (size_t)count * sizeof *made);
    } else {
      float *out = (float *)ctx->out + i;
      for (ptrdiff_t k = 0; k < count; k++) out[k] = (float)made[k];
    }
  }
}

int32_t RM_FOR_ISA(interpolate)(const rm_call *call) {
  const int dtype = call->dtypes[1], result = call->dtypes[0];
  const double *attributes = rm_attributes(call);
  if (dtype >= RM_DTYPE_COUNT || dtype == RM_FLOAT16 || dtype == RM_BFLOAT16 ||
      call->dtypes[2] != RM_FLOAT64 || call->dtypes[3] != RM_FLOAT64 ||
      (result != RM_FLOAT64 && result != RM_FLOAT32) || attributes[3] < 1 ||
      attributes[3] > INT32_MAX) {
    return rm_fail(RM_BAD_ARGUMENT, "interpolate: dtypes %d and %d", dtype, result);
  }
  const double *xs = (const double *)rm_element(call, 2, attributes[2]);
  const double *ys = (const double *)rm_element(call, 3, attributes[4]);
  const ptrdiff_t m = (ptrdiff_t)attributes[3];
  interp_context ctx = {
      .dtype = dtype,
      .result = result,
      .x = rm_element(call, 1, attributes[0]),
      .n = (ptrdiff_t)attributes[1],
      .m = m,
      .xs = xs,
      .ys = ys,
      .left = attributes[5] != 0 ? attributes[6] : ys[0],
      .right = attributes[7] != 0 ? attributes[8] : ys[m - 1],
      .out = call->buffers[0],
  };
  int steps = 4;
  while (((ptrdiff_t)1 << (steps - 4)) <= m) steps++;
  rm_parallel(rm_ceil_div(ctx.n, TASK_VALUES), (double)ctx.n * steps, interp_task, &ctx);
  return RM_OK;
}
